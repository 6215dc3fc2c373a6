"""NeuPL with exact learners: slots, rows, and the population that is really there."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import make_game, make_solver, nash_conv
from gems_jax.baselines.neupl import NeuplConfig, train_slots
from gems_jax.evaluate.tabular import build_tree
from gems_jax.explicit.symmetric import OnePopulation, one_population

KUHN, RPS = make_game("kuhn_poker"), make_game("rock_paper_scissors")


def curve(game, config, iterations, slots=None):
    solver = make_solver("neupl", game, config)
    state = solver.init(jax.random.key(0))
    state = state if slots is None else state.replace(slots=jnp.broadcast_to(slots, state.slots.shape))
    values, rows = [], []
    for key in jax.random.split(jax.random.key(1), iterations):
        state, metrics = solver.step(state, key)
        values.append(float(nash_conv(game, solver.profile(state))))
        rows.append(metrics)
    return np.array(values), state, rows


@pytest.mark.parametrize("sharpness", [0.98, 1.0])
def test_rock_paper_scissors(sharpness):
    """A sink that plays (nearly) rock: then paper, scissors, and rows 0, (1), (0, 1), Nash of all three."""
    rest = (1 - sharpness) / 2
    values, state, rows = curve(RPS, NeuplConfig(slots=4, updates=60), 2, jnp.array([sharpness, rest, rest]))
    np.testing.assert_allclose(state.slots[:3, 0], [[sharpness, rest, rest], [0, 1, 0], [0, 0, 1]], atol=1e-4)
    np.testing.assert_allclose(state.graph[:3], [[0, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0]], atol=1e-6)
    balance = 1 / (3 * sharpness)  # so that rock itself is played a third of the time
    np.testing.assert_allclose(state.graph[3], [balance, (1 - balance) / 2, (1 - balance) / 2, 0], atol=1e-3)
    assert values[-1] < 1e-4 and rows[-1].num_active.tolist() == [4]


def test_equal_rows_are_equal_policies():
    """Slots 1 and 2 train against the same mixture from different policies, and end as one."""
    tree = build_tree(one_population(RPS))
    graph = jnp.array([[0.0, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0]])
    slots = jnp.stack([jnp.eye(3)[a] for a in (0, 0, 2, 1)])[:, None].repeat(2, axis=1)
    once = train_slots(tree, slots, graph, jnp.float32(0.2), 1)
    np.testing.assert_array_equal(once[1], once[2])
    np.testing.assert_allclose(once[1, 0], [0.8, 0.2, 0.0], atol=1e-5)
    np.testing.assert_allclose(once[0], slots[0])  # the sink is not trained
    assert not np.allclose(once[1], once[3])
    again = train_slots(tree, once, graph, jnp.float32(0.2), 1)
    twice = train_slots(tree, slots, graph, jnp.float32(0.2), 2)
    np.testing.assert_allclose(again, twice, atol=1e-6)


def test_kuhn_needs_a_dozen_slots():
    """400 updates: the mixture of 12 slots is an equilibrium, that of 4 is far from one."""
    values, state, rows = curve(KUHN, NeuplConfig(slots=12, updates=100), 4)
    assert values[-1] < 1e-3
    assert rows[-1].num_active.tolist()[0] >= 10 and float(rows[-1].restricted_gap) < 1e-5
    assert state.slots.shape[0] == 12
    few, _, _ = curve(KUHN, NeuplConfig(slots=4, updates=100), 3)
    assert 0.1 < few[-1] < 0.5


def test_state_does_not_grow():
    _, state, rows = curve(KUHN, NeuplConfig(slots=3, updates=2), 3)
    assert len({float(metrics.parameter_bytes) for metrics in rows}) == 1
    assert float(rows[0].payoff_bytes) == 9 * 4 and float(rows[0].meta_bytes) == (9 + 3 + 3) * 4
    assert int(rows[0].episodes) == 0 and int(rows[0].tree_walks) == 9 + 3 * 2 + 9


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        ("fictitious", [[0, 0, 0], [1, 0, 0], [1 / 2, 1 / 2, 0]]),
        ("self_play", np.full((3, 3), 1 / 3)),
        ("cycle", [[0, 0, 1], [1, 0, 0], [0, 1, 0]]),
    ],
)
def test_other_graphs(graph, expected):
    _, state, _ = curve(RPS, NeuplConfig(slots=3, updates=1, graph=graph), 1, jnp.array([0.6, 0.3, 0.1]))
    np.testing.assert_allclose(state.graph, expected, atol=1e-6)


def test_one_population_of_any_game():
    game = one_population(KUHN)
    assert isinstance(game, OnePopulation) and game == one_population(KUHN) and hash(game) == hash(one_population(KUHN))
    assert game.population_of_player == (0, 0) and game.num_actions == 2 and game.zero_sum
    shared = make_game("kuhn_poker", shared=True)
    assert one_population(shared) is shared
    solver = make_solver("neupl", shared, NeuplConfig(slots=2, updates=1))
    state, _ = solver.step(solver.init(jax.random.key(0)), jax.random.key(1))
    assert solver.profile(state).sigma.shape == (1, 2)
    assert make_solver("neupl", KUHN, NeuplConfig(slots=2)).profile(state).sigma.shape == (2, 2)


def test_what_is_refused():
    with pytest.raises(ValueError, match="two-player zero-sum games: 'prisoners_dilemma'"):
        make_solver("neupl", make_game("prisoners_dilemma"))
    solver = make_solver("neupl", KUHN)
    jax.eval_shape(solver.init, jax.random.key(0))
    with pytest.raises(ValueError, match="unknown profile 'best'"):
        solver.profile(solver.init(jax.random.key(0)), "best")
