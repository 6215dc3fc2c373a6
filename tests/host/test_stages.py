"""Host calls: the same numbers as without them, in the order of the program, never inside a compiled one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax.host.stages import NotStagedError, call_host, compile_play, on_host, session, stage

NUMBER = jax.ShapeDtypeStruct((), jnp.float32)


class Doubling:
    """2 x + y on the host; remembers the shapes that it was called with."""

    def __init__(self):
        self.shapes = []

    def __call__(self, x, y):
        self.shapes.append(x.shape)
        return [np.float32(2) * x + y]


def program(double, xs, key):
    """Loops of every kind around a function: while with a condition per lane, scan, fori, cond."""

    def lane(x, lane_key):
        def grow(carry):
            value, turns = carry
            return double(value, jax.random.uniform(jax.random.fold_in(lane_key, turns))), turns + 1

        grown, turns = jax.lax.while_loop(lambda carry: carry[0] < 20.0, grow, (x, jnp.int32(0)))
        last, rows = jax.lax.scan(lambda c, t: (double(c, t), (c, t)), grown, jnp.arange(3.0), reverse=True)
        return grown, turns, last, rows

    def twice(n, value):
        return jax.lax.cond(n == 1, lambda v: double(v, 1.0 + v), lambda v: v - 1.0, value)

    lanes = jax.vmap(lane)(xs, jax.random.split(key, len(xs)))
    return lanes, jax.lax.fori_loop(0, jnp.int32(len(xs)), twice, lanes[2].sum())


def test_stages_compute_what_a_compiled_program_does():
    host, xs = Doubling(), jnp.asarray([1.0, 3.0, 30.0])
    plain = jax.jit(lambda xs, key: program(lambda x, y: 2.0 * x + y, xs, key))(xs, jax.random.key(0))
    on_stages = stage(lambda xs, key: program(lambda x, y: call_host(host, [NUMBER], x, jnp.asarray(y))[0], xs, key))
    for _ in range(2):  # the second time nothing is traced
        found = on_stages(xs, jax.random.key(0))
        jax.tree.map(np.testing.assert_allclose, found, plain)
    turns = int(plain[0][1].max())
    assert host.shapes == 2 * ([(3,)] * (turns + 3) + [()])  # lanes together, and the branch that was taken alone


def test_stages_are_traced_once_per_shape():
    traces = []

    @stage
    def shifted(x, by=1.0):
        traces.append(1)
        return call_host(Doubling(), [NUMBER], x, by * jnp.ones(()))[0] + 1.0

    assert [float(shifted(jnp.float32(x))) for x in (1.0, 2.0)] == [4.0, 6.0] and len(traces) == 1
    assert float(shifted(jnp.float32(1.0), by=jnp.float32(3.0))) == 6.0 and len(traces) == 2


def test_a_host_call_cannot_be_compiled():
    with pytest.raises(NotStagedError, match="runs in Python.*make_solver.*stages.stage instead"):
        jax.jit(lambda x: call_host(Doubling(), [NUMBER], x, x))(jnp.float32(1.0))


def test_what_is_owned_cannot_go_two_ways():
    change = lambda y: call_host(Doubling(), [NUMBER], jnp.float32(1.0), y, owned=0)  # noqa: E731
    with pytest.raises(NotStagedError, match="Python environments cannot be copied"):
        jax.vmap(change)(jnp.ones(3))


def test_errors_of_the_host_come_out_as_they_are():
    def broken(x):
        raise KeyError("my own")

    with pytest.raises(KeyError, match="my own"):
        stage(lambda x: call_host(broken, [NUMBER], x + 1.0))(jnp.float32(0.0))


def test_compiled_chooses_by_the_game():
    class Hosted:
        on_host = True

    @compile_play(static_argnames=("game",))
    def played(game, x):
        return call_host(Doubling(), [NUMBER], x, x)[0]

    assert on_host(Hosted()) and not on_host(object()) and not on_host(3)
    assert float(played(Hosted(), jnp.float32(2.0))) == 6.0
    with pytest.raises(NotStagedError):
        played("a JAX game", jnp.float32(2.0))


def test_sessions_end_once(monkeypatch):
    ended = []
    monkeypatch.setattr("gems_jax.host.stages._AT_END", [lambda: ended.append(1)])
    with session():
        stage(lambda x: call_host(Doubling(), [NUMBER], x, x))(jnp.float32(1.0))
        assert not ended
    assert ended == [1]
