"""NeuPL with exact learners: slots, rows, and the population that is really there."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import make_game, make_solver, nash_conv
from gems_jax.extensive.values import build_tree
from gems_jax.policies.population import StackedPolicies
from gems_jax.psro.conditional import (
    Rows,
    average_rounds,
    fourier_features,
    new_row_student,
    randomize_rows,
    row_networks,
    shrink_rows,
    train_rows,
)
from gems_jax.psro.neupl import (
    NeuplConfig,
    OnePopulation,
    discount_measurements,
    keep_mixtures,
    merge_populations,
    train_slots,
)
from gems_jax.psro.settings import Learning, learning_of

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
    tree = build_tree(merge_populations(RPS))
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


def test_merge_populations_of_any_game():
    game, again = merge_populations(KUHN), merge_populations(KUHN)
    assert isinstance(game, OnePopulation) and game == again and hash(game) == hash(again)
    assert game.population_of_player == (0, 0) and game.num_actions == 2 and game.zero_sum
    shared = make_game("kuhn_poker", shared=True)
    assert merge_populations(shared) is shared
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


# --- one network


def test_features_of_rows_that_are_apart_are_orthogonal():
    """Products are exp(-d^2 / (2 bandwidth^2)), with an error of about 1 / sqrt(features)."""
    rows = jnp.array([[1.0, 0.0, 0.0], [0.9, 0.1, 0.0], [0.0, 1.0, 0.0], [0.3, 0.3, 0.4]])
    features = np.asarray(jax.vmap(lambda row: fourier_features(row, 8192, 0.2))(rows))
    apart = np.square(np.asarray(rows)[:, None] - np.asarray(rows)[None]).sum(axis=2)
    np.testing.assert_allclose(features @ features.T, np.exp(-apart / 0.08), atol=5 / 8192**0.5)
    np.testing.assert_array_equal(features[0], fourier_features(rows[0], 8192, 0.2))


def test_the_average_of_rounds():
    """Plain means of 1, 2 and 4 rounds, and from then on three quarters of the old one."""
    mean = jnp.float32(7.0)  # before the first round it counts for nothing
    for count, (value, expected) in enumerate([(2.0, 2.0), (4.0, 3.0), (6.0, 4.0), (8.0, 5.0), (13.0, 7.0)]):
        mean = average_rounds(mean, jnp.float32(value), jnp.float32(count), 0.75)
        np.testing.assert_allclose(mean, expected, rtol=1e-6)


def test_measurements_are_forgotten_with_the_rows():
    """The first slot kept its row, the second half of it, the third nothing: 0.9, 0.45 and 0 with the first."""
    old = jnp.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    new = jnp.array([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 1.0, 0.0]])
    kept = discount_measurements(jnp.full((3, 3), 2.0), old, new, 0.9)
    np.testing.assert_allclose(kept, 1.8 * np.outer([1, 0.5, 0], [1, 0.5, 0]), atol=1e-6)


def test_mixtures_change_only_where_a_slot_gains():
    """Rock, paper, scissors, and a slot that earns 0.06 from uniform play: an equilibrium of three, kept or not."""
    payoffs = jnp.array([[0.0, -1, 1, -0.06], [1, 0, -1, -0.06], [-1, 1, 0, -0.06], [0.06, 0.06, 0.06, 0]])
    solved = jnp.array([[1.0, 0, 0, 0], [0, 1, 0, 0], [1 / 3, 1 / 3, 1 / 3, 0], [0, 0, 0, 1]])
    nothing = jnp.zeros((4, 4))
    mixtures, gaps = keep_mixtures(payoffs, solved, nothing, 0.05)
    np.testing.assert_allclose(mixtures, solved, atol=1e-6)
    np.testing.assert_allclose(gaps, 0.0, atol=1e-6)
    mixtures, gaps = keep_mixtures(payoffs, solved, nothing, 0.07)  # of both seats together: 0.12
    np.testing.assert_allclose(mixtures[3], solved[2], atol=1e-6)
    np.testing.assert_allclose(gaps, [0, 0, 0, 0.12], atol=1e-6)
    before = jnp.array([[1.0, 0, 0, 0], [0.5, 0.5, 0, 0], [0.34, 0.36, 0.3, 0], [0, 0, 0, 1]])
    mixtures, gaps = keep_mixtures(payoffs, solved, before, 0.07)  # gains of 0.5 at level 1, 0.04 at level 2
    np.testing.assert_allclose(mixtures, [solved[0], solved[1], before[2], before[2]], atol=1e-6)
    np.testing.assert_allclose(gaps, [0, 0, 0.08, 0.12], atol=1e-6)


def test_shrinking_moves_every_row_towards_the_base():
    """Uniform tables are the base: logits halve, and what the slots play, the average, is left alone."""
    game = merge_populations(RPS)
    learning = learning_of(Learning(critic_hidden=(4,)), game)
    nets = row_networks(game, learning, 3, (), 16, 0.2, 0.9)
    learner = new_row_student(jax.random.key(0), nets, learning, 1.0)
    half, row = shrink_rows(learner, 0.5), jnp.array([0.2, 0.8, 0.0])
    logits, halved = (np.asarray(nets.policy(one.student.params["policy"], row)) for one in (learner, half))
    base = np.asarray(learner.student.params["policy"]["base"])
    np.testing.assert_allclose(halved - base, (logits - base) / 2, rtol=1e-5)
    assert np.abs(logits - base).max() > 0.1
    np.testing.assert_array_equal(half.mean["output"], learner.mean["output"])


# --- any mixture (Simplex-NeuPL)


def test_randomize_rows():
    """Half of the rows are mixtures of the basis, all of them alike likely; the others stay."""
    rows = jnp.broadcast_to(jnp.array([0.0, 0.0, 1.0]), (2000, 3))
    drawn = np.asarray(randomize_rows(jax.random.key(0), rows, jnp.array([True, True, False]), 0.5))
    changed = drawn[:, 2] < 0.5
    np.testing.assert_allclose(drawn.sum(axis=1), 1.0, atol=1e-6)
    assert abs(changed.mean() - 0.5) < 5 * 0.5 / 2000**0.5 and (drawn[changed, 2] == 0).all()
    quartiles = np.histogram(drawn[changed, 0], bins=4, range=(0, 1))[0] / changed.sum()
    np.testing.assert_allclose(quartiles, 0.25, atol=5 * (0.1875 / 1000) ** 0.5)


def test_replies_to_any_mixture_of_rock_paper_scissors():
    """One network, trained on random mixtures of the three: its likeliest action is the best one to each of these."""
    game = merge_populations(RPS)
    # From 64 opponents a round 2 to 4 of 10 seeds take a second-best action somewhere; from 256 none does.
    learning = learning_of(Learning(opponents=256, critic_hidden=(4,), learning_rate=0.01), game)
    nets = row_networks(game, learning, 3, (32,))
    actions = StackedPolicies(jnp.broadcast_to(20.0 * jnp.eye(3)[None, :, None], (1, 3, 2, 3)), nets.generator.policy)
    key_start, key_train = jax.random.split(jax.random.key(0))
    start = new_row_student(key_start, nets, learning, 1.0)
    learner, _ = train_rows(
        key_train, game, learning, jnp.int32(300), nets, 16, start, actions,
        Rows(jnp.eye(3), jnp.ones(3), jnp.ones(3, bool), 1.0),
    )  # fmt: skip
    beats = np.array([[0, -1, 1], [1, 0, -1], [-1, 1, 0]])
    mixtures = np.array(
        [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0.6, 0.3, 0.1], [0.1, 0.6, 0.3], [0.3, 0.1, 0.6], [0.7, 0, 0.3]]
    )  # fmt: skip
    found = [
        np.asarray(nets.policy(learner.student.params["policy"], jnp.asarray(row))).argmax(axis=-1) for row in mixtures
    ]
    best = (mixtures @ beats.T).argmax(axis=1)
    np.testing.assert_array_equal(found, np.stack([best, best], axis=1))  # from either seat


def test_tables_answer_no_other_mixture():
    with pytest.raises(ValueError, match="simplex > 0 needs one network"):
        make_solver("simplex_neupl", KUHN, NeuplConfig(simplex=0.5))
