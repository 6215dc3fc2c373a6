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


def test_what_is_kept_is_the_same_to_the_last_bit():
    for numbers in (jnp.asarray([0.1, -3.0, 7e-30]), jnp.asarray([2**32 - 1, 5], jnp.uint32)):
        found = jax.jit(jax.vmap(compiling.kept))(numbers)
        assert found.dtype == numbers.dtype
        np.testing.assert_array_equal(found, numbers)


def test_a_kept_gradient_is_the_gradient():
    x = jnp.asarray([[0.3, -1.0], [2.0, 0.5]])
    plain, through = (
        jax.grad(lambda y, f=f: jnp.sum(jnp.sin(f(y)) ** 2)) for f in (lambda y: y, compiling.kept_gradient)
    )
    np.testing.assert_allclose(jax.jit(through)(x), plain(x), rtol=1e-6)
    np.testing.assert_allclose(jax.vmap(through)(x), plain(x), rtol=1e-6)
