"""Options of the compiler."""

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.accelerator import compile as compiling


def test_programs_are_compiled_with_the_options_that_this_xla_knows(monkeypatch):
    rows = jnp.arange(12.0).reshape(3, 4)
    compiled = compiling.program(lambda x: jax.nn.log_softmax(x)).lower(rows).compile()
    np.testing.assert_allclose(compiled(rows), jax.nn.log_softmax(rows), rtol=1e-5)
    if jax.default_backend() == "cpu":
        assert "ynn" not in compiled.as_text()
    monkeypatch.setattr(compiling, "_CPU", {"xla_no_such_option": True})
    compiling._known_options.cache_clear()
    try:
        assert compiling.compiler_options() == {}
        assert compiling.program(lambda x: x + 1)(1) == 2
    finally:
        compiling._known_options.cache_clear()


def test_no_options_without_workarounds(monkeypatch):
    monkeypatch.setenv("GEMS_JAX_WORKAROUNDS", "off")
    assert compiling.compiler_options() == {}
