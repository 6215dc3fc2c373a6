"""The workarounds for XLA's CPU back end change no result, and add nothing where they are switched off."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import GemsConfig, gems_step, init_gems, make_game
from gems_jax.accelerator import cpu
from gems_jax.accelerator.cpu import compute_gradient_once, compute_once, cpu_workarounds
from gems_jax.accelerator.prng import fused_key
from gems_jax.games.turns import TurnGame

ON_CPU = jax.default_backend() == "cpu"
KUHN = make_game("kuhn_poker")
SMALL = GemsConfig(
    capacity=3, generator_widths=(8,), critic_hidden=(4,), num_opponents=2, mixture_samples=2, mutations=2, randoms=2,
    oracle_opponents=2, abr_steps=2, abr_anchors=2, kl_opponents=1,
)  # fmt: skip


def forget_rules():
    """Drops the traces of a game's own rules: they are traced once, and do not know the switch."""
    for method in (TurnGame.init, TurnGame.step):
        method.clear_cache()


def operations(function, *arguments):
    """How many operations the program has before any optimization, in JAX's own intermediate language."""

    def count(jaxpr):
        inner = [param for equation in jaxpr.eqns for param in jax.tree.leaves(list(equation.params.values()))]
        found = [getattr(one, "jaxpr", one) for one in inner if hasattr(one, "eqns") or hasattr(one, "jaxpr")]
        return len(jaxpr.eqns) + sum(count(one) for one in found)

    forget_rules()
    return count(jax.make_jaxpr(function)(*arguments).jaxpr)


@pytest.fixture
def switch_off(monkeypatch):
    monkeypatch.setenv(cpu.VARIABLE, "off")


@pytest.mark.parametrize("numbers", [[0.1, -3.0, 7e-30], [2**32 - 1, 5], [True, False, True]])
def test_values_computed_once_are_equal_to_the_last_bit(numbers):
    x = jnp.asarray(numbers, jnp.uint32 if isinstance(numbers[0], int) and numbers[0] > 1 else None)
    found = jax.jit(jax.vmap(compute_once))(x)
    assert found.dtype == x.dtype
    np.testing.assert_array_equal(found, x)


def test_a_gradient_computed_once_is_the_gradient():
    x = jnp.asarray([[0.3, -1.0], [2.0, 0.5]])
    plain, through = (
        jax.grad(lambda y, f=f: jnp.sum(jnp.sin(f(y)) ** 2)) for f in (lambda y: y, compute_gradient_once)
    )
    np.testing.assert_allclose(jax.jit(through)(x), plain(x), rtol=1e-6)
    np.testing.assert_allclose(jax.vmap(through)(x), plain(x), rtol=1e-6)


@pytest.mark.parametrize(
    "function", [compute_once, compute_gradient_once, jax.grad(lambda x: compute_gradient_once(x))]
)
def test_no_operation_where_they_are_off(function, switch_off):
    assert not cpu_workarounds()
    assert operations(function, jnp.float32(1.0)) == 0


def test_other_back_ends_get_none_of_them(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "cuda")
    assert not cpu_workarounds()
    key = jax.random.key(0)
    assert fused_key(key) is key


def test_a_step_gives_the_same_results_with_and_without(monkeypatch):
    """Only the compilation differs: `gems_step` draws from the key that it is given in either case."""
    state = init_gems(jax.random.key(0), KUHN, SMALL)
    results = {}
    for setting in ("on", "off"):
        monkeypatch.setenv(cpu.VARIABLE, setting)
        forget_rules()
        results[setting] = jax.jit(lambda s, k: gems_step(s, k, KUHN, SMALL))(state, jax.random.key(1))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), results["on"], results["off"])


@pytest.mark.skipif(not ON_CPU, reason="the workarounds are off already")
def test_a_program_for_cuda_has_none_of_the_extra_operations(monkeypatch):
    """Where CUDA is the back end the trace is that of the switch turned off, and it lowers for CUDA."""
    state = jax.eval_shape(lambda key: init_gems(key, KUHN, SMALL), jax.random.key(0))
    key = jax.eval_shape(lambda: jax.random.key(0))
    step = lambda setting: lambda s, k: gems_step(s, k, KUHN, SMALL)  # noqa: E731, a new trace for every setting
    extra = operations(step("on"), state, key)
    monkeypatch.setenv(cpu.VARIABLE, "off")
    plain = operations(step("off"), state, key)
    monkeypatch.delenv(cpu.VARIABLE)
    monkeypatch.setattr(jax, "default_backend", lambda: "cuda")
    assert operations(step("cuda"), state, key) == plain < extra
    assert jax.export.export(jax.jit(step("cuda")), platforms=["cuda"])(state, key).platforms == ("cuda",)
