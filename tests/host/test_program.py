"""A traced program cut at its host calls: loops, branches and batches give what `jax.jit` gives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax.host.call import NotStagedError, call_host
from gems_jax.host.program import ById, build_program, calls_host

NUMBER = jax.ShapeDtypeStruct((), jnp.float32)


def on_host(x):
    """sin(x) + 1 by NumPy."""
    return call_host(lambda value: [np.sin(value) + np.float32(1)], [NUMBER], x)[0]


def on_device(x):
    return jnp.sin(x) + 1.0


def repeat(f, x):
    return jax.lax.fori_loop(0, 4, lambda i, c: f(c) * i, x)


def repeat_while(f, x):
    return jax.lax.while_loop(lambda c: c[0] < 5.0, lambda c: (c[0] + f(c[1]), c[1] * 0.5), (x, x))


def scan(f, x):
    return jax.lax.scan(lambda c, t: (f(c + t), (c, t * f(c - t))), x, jnp.linspace(0.0, 1.0, 5), reverse=True)


def scan_nothing(f, x):
    return jax.lax.scan(lambda c, t: (f(c + t), c), x, jnp.zeros(0))


def branch(f, x):
    return jax.lax.switch((x > 1.0).astype(jnp.int32) + (x > 2.0), [f, lambda v: -v, lambda v: f(f(v))], x)


def nested(f, x):
    inner = jax.jit(lambda v: jax.lax.cond(v > 1.0, lambda w: repeat(f, w), lambda w: w, v))
    return jax.lax.scan(lambda c, t: (inner(c) + t, c), x, jnp.arange(3.0))


def straight(f, x):
    unused = f(x) * 0.0
    return 3.0, x, f(2.0 * f(x + 1.0)) - 1.0, unused


@pytest.mark.parametrize("function", [repeat, repeat_while, scan, scan_nothing, branch, nested, straight])
@pytest.mark.parametrize("x", [0.3, 1.7, 2.5])
def test_stages_agree_with_one_compiled_program(function, x):
    traced = jax.make_jaxpr(lambda v: function(on_host, v))(jnp.float32(x))
    assert calls_host(traced.jaxpr)
    found = build_program(ById(traced))(jnp.float32(x))
    expected = jax.tree.leaves(jax.jit(lambda v: function(on_device, v))(jnp.float32(x)))
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


@pytest.mark.parametrize("function", [repeat, repeat_while, scan, straight])
def test_batched_calls_reach_the_host_once_for_all_rows(function):
    xs, sizes = jnp.asarray([0.3, 1.7, 9.0]), []

    def count(x):
        return call_host(lambda v: [sizes.append(v.shape) or np.sin(v) + np.float32(1)], [NUMBER], x)[0]

    traced = jax.make_jaxpr(jax.vmap(lambda v: function(count, v)))(xs)
    found = build_program(ById(traced))(xs)
    expected = jax.tree.leaves(jax.jit(jax.vmap(lambda v: function(on_device, v)))(xs))
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    assert sizes and set(sizes) == {(3,)}


def test_a_program_is_made_once_per_trace_and_knows_what_it_contains():
    traced = jax.make_jaxpr(lambda v: scan(on_host, v))(jnp.float32(1.0))
    assert build_program(ById(traced)) is build_program(ById(traced)) and ById(traced) != ById(
        jax.make_jaxpr(jnp.sin)(1.0)
    )
    assert not calls_host(jax.make_jaxpr(lambda v: scan(on_device, v))(jnp.float32(1.0)).jaxpr)


def test_keys_may_be_stacked_by_a_loop():
    def split(f, key):
        def turn(k, _):
            k, used = jax.random.split(k)
            return k, (used, f(jax.random.uniform(used)))

        return jax.lax.scan(turn, key, length=3)[1]

    traced = jax.make_jaxpr(lambda k: split(on_host, k))(jax.random.key(0))
    with jax.debug_key_reuse(False):
        keys, numbers = build_program(ById(traced))(jax.random.key(0))
        theirs = jax.jit(lambda k: split(on_device, k))(jax.random.key(0))
    np.testing.assert_array_equal(jax.random.key_data(keys), jax.random.key_data(theirs[0]))
    np.testing.assert_allclose(numbers, theirs[1], rtol=1e-6)


def test_what_cannot_be_cut_is_refused():
    @jax.custom_jvp
    def rule(x):
        return on_host(x)

    rule.defjvp(lambda primals, tangents: (rule(*primals), tangents[0]))
    traced = jax.make_jaxpr(rule)(jnp.float32(1.0))
    with pytest.raises(NotStagedError, match="cannot run a Python environment inside custom_jvp_call"):
        build_program(ById(traced))
