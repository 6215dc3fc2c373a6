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


def test_prune_drops_what_no_result_needs():
    """Also inside of functions that are called, and of scans; results keep their structure."""
    both = jax.jit(lambda x: {"sine": jnp.sin(x), "cosine": jnp.cos(x)})

    def repeated(x, y):
        def turn(carry, _):
            return (both(carry[0])["sine"], jnp.exp(carry[1])), None

        return {"found": (jax.lax.scan(turn, (x, y), None, length=3, unroll=True)[0][0], both(x)["sine"])}

    rows, other = jnp.linspace(0.0, 1.0, 4), jnp.ones(4)
    pruned = compiling.prune(jax.vmap(repeated))
    text = str(jax.make_jaxpr(pruned)(rows, other))
    assert "sin" in text and "cos" not in text and "exp" not in text
    assert "cos" in str(jax.make_jaxpr(jax.vmap(repeated))(rows, other))
    jax.tree.map(np.testing.assert_array_equal, jax.jit(pruned)(rows, other), jax.jit(jax.vmap(repeated))(rows, other))
