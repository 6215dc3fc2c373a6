"""Options of the compiler."""

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax import compiling


def test_programs_are_compiled_with_the_options_that_this_xla_knows(monkeypatch):
    rows = jnp.arange(12.0).reshape(3, 4)
    compiled = compiling.program(lambda x: jax.nn.log_softmax(x)).lower(rows).compile()
    np.testing.assert_allclose(compiled(rows), jax.nn.log_softmax(rows), rtol=1e-5)
    if jax.default_backend() == "cpu":
        assert "ynn" not in compiled.as_text()
    monkeypatch.setattr(compiling, "_CPU", {"xla_no_such_option": True})
    compiling.compiler_options.cache_clear()
    try:
        assert compiling.compiler_options() == {}
        assert compiling.program(lambda x: x + 1)(1) == 2
    finally:
        compiling.compiler_options.cache_clear()


def test_a_flag_worked_out_once_is_the_same_flag():
    flags = jnp.asarray([True, False, True])
    found = jax.jit(jax.vmap(compiling.once))(flags)
    assert found.dtype == bool
    np.testing.assert_array_equal(found, flags)
