"""Policies with a shared torso: numbers by hand, what is generated, what is shared, grouping changes nothing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from gems_jax import GemsConfig, gems_step, init_gems, make_game
from gems_jax.policies.film import BoardPolicy, ConvPolicy, FilmPolicy
from gems_jax.policies.generator import Hypernetwork, jacobian_norm
from gems_jax.policies.networks import extract_patches
from gems_jax.policies.population import Anchors, StackedPolicies, materialize
from gems_jax.rollout.episode import play_episode
from gems_jax.rollout.groups import play_groups
from gems_jax.types import Policy, Shared, num_slots, slot_axes, stack_policies, take_slot

BOARD = BoardPolicy((2, 3, 4), 2 * 6 + 1, channels=5)
FILM = FilmPolicy(4, 3, (6, 5))
CONV = ConvPolicy((3, 4, 2), 5, (6,), channels=3, kernel=2)


def test_film_by_hand():
    """One unit of weight 2 and bias 1 on x = 3 is 7; scale 1 and shift -4 make it 10; the head doubles and adds 0.5."""
    policy = FilmPolicy(1, 1, (1,))
    phi = {
        "torso": Shared([{"kernel": jnp.full((1, 1), 2.0), "bias": jnp.ones(1)}]),
        "film": [{"scale": jnp.ones(1), "shift": jnp.full(1, -4.0)}],
        "head": {"kernel": jnp.full((1, 1), 2.0), "bias": jnp.full(1, 0.5)},
    }
    assert policy(phi, jnp.full((1, 1), 3.0), jnp.ones(1, bool)).logits == 20.5
    negative = {**phi, "film": [{"scale": jnp.ones(1), "shift": jnp.full(1, -40.0)}]}
    assert policy(negative, jnp.full(1, 3.0), jnp.ones(1, bool)).logits == 0.5  # relu
    assert policy(policy.temper(phi, 2.0), jnp.full(1, 3.0), jnp.ones(1, bool)).logits == 10.25


@pytest.mark.parametrize("kernel", [1, 2, 3, 4])
def test_a_dense_layer_on_patches_is_a_convolution(kernel):
    """As XLA's own with the same padding, nothing beyond the edge."""
    board = jax.random.normal(jax.random.key(0), (3, 5, 2))
    weights = jax.random.normal(jax.random.key(1), (kernel, kernel, 2, 4))
    before = (kernel - 1) // 2
    expected = jax.lax.conv_general_dilated(
        board[None], weights, (1, 1), [(before, kernel - 1 - before)] * 2, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )[0]
    np.testing.assert_allclose(extract_patches(board, kernel) @ weights.reshape(-1, 4), expected, rtol=1e-5, atol=1e-5)


def test_a_convolution_shares_its_weights_and_generates_its_modulation():
    phi = CONV.init(jax.random.key(0))
    assert [layer["kernel"].shape for layer in phi["torso"].value] == [(8, 3), (36, 6)]
    assert [film["scale"].shape for film in phi["film"]] == [(3,), (6,)] and phi["head"]["kernel"].shape == (6, 5)
    board, legal = jax.random.normal(jax.random.key(1), (3, 4, 2)), jnp.ones(5, bool)
    silent = {**phi, "film": [{"scale": -jnp.ones(3), "shift": jnp.zeros(3)}, phi["film"][1]]}  # no feature passes
    np.testing.assert_array_equal(CONV(silent, board, legal).logits, 0.0)
    assert (np.asarray(CONV(phi, board, legal).logits) != 0.0).all()


def test_a_continuous_film_policy():
    output = FilmPolicy(4, 3, (6,), continuous=True)
    said = output(output.init(jax.random.key(0)), jnp.ones(4), jnp.ones(3, bool))
    assert said.logits is None and said.mean.shape == (3,) and said.log_std.shape == (3,)


def test_every_square_has_its_logits_and_the_rest_follow():
    """With no mixing and the identity for an embedding, the logits of a square depend on that square alone."""
    phi = BOARD.init(jax.random.key(0))
    torso = phi["torso"].value
    quiet = {**torso, "mix": jax.tree.map(jnp.zeros_like, torso["mix"])}
    head = {**phi["head"], "kernel": jax.random.normal(jax.random.key(1), (5, 2))}
    phi = {**phi, "torso": Shared(quiet), "head": head}
    legal = jnp.ones(13, bool)
    board = jax.random.normal(jax.random.key(2), (2, 3, 4))
    moved = board.at[1, 0].add(3.0)  # square 3
    changed = np.flatnonzero(np.asarray(BOARD(phi, board, legal).logits != BOARD(phi, moved, legal).logits))
    assert {6, 7} <= set(changed) <= {6, 7, 12}  # its two planes, and the pass, which reads all squares
    turned = BoardPolicy((2, 3, 4), 13, channels=5, turns=2)
    changed = np.flatnonzero(np.asarray(turned(phi, board, legal).logits != turned(phi, moved, legal).logits))
    assert {4, 5} <= set(changed) <= {4, 5, 12}  # (1, 0) of a board turned twice is (0, 2)


@pytest.mark.parametrize("policy", [BOARD, FILM, CONV], ids=["board", "film", "conv"])
def test_first_policies_are_near_uniform_and_illegal_actions_never_played(policy):
    shape = getattr(policy, "observation_shape", (4,))
    legal = jnp.arange(policy.num_actions) != 1
    logits = policy(policy.init(jax.random.key(0)), jnp.ones(shape), legal).logits
    chance = np.asarray(jax.nn.softmax(logits))
    assert chance[1] == 0.0
    np.testing.assert_allclose(np.delete(chance, 1), 1.0 / (policy.num_actions - 1), rtol=0.2)


@pytest.mark.parametrize("policy", [BOARD, FILM, CONV], ids=["board", "film", "conv"])
def test_a_code_generates_the_modulation_and_the_head_only(policy):
    generator = Hypernetwork(policy, 3, (7,))
    theta = generator.init(jax.random.key(0), 0.5)
    one, other = (generator(theta, z) for z in jax.random.normal(jax.random.key(1), (2, 3)))
    jax.tree.map(np.testing.assert_array_equal, one["torso"], other["torso"])
    for name in ("film", "head"):
        assert all(
            (a != b).all() for a, b in zip(jax.tree.leaves(one[name]), jax.tree.leaves(other[name]), strict=True)
        )
    generated = ravel_pytree({name: part for name, part in one.items() if name != "torso"})[0].size
    assert theta["output"].shape == (7, generated)
    exact = jacobian_norm(generator, theta, jnp.ones(3), "exact")
    np.testing.assert_allclose(jacobian_norm(generator, theta, jnp.ones(3), "gram"), exact, rtol=1e-5)


def test_numbers_per_code_on_a_chess_board():
    """Scales and shifts of two layers of 32 channels, and a head from 32 channels to 73 planes: 2,537."""
    generator = Hypernetwork(BoardPolicy((8, 8, 119), 64 * 73), 8, (64,))
    theta = jax.eval_shape(lambda key: generator.init(key, 1.0), jax.random.key(0))
    assert theta["output"].shape == (64, 2 * 2 * 32 + 33 * 73)
    assert sum(leaf.size for leaf in jax.tree.leaves(theta)) < 180_000


def test_stacks_hold_what_is_shared_once():
    generator = Hypernetwork(FILM, 3, (7,))
    theta = generator.init(jax.random.key(0), 0.5)
    codes = jax.random.normal(jax.random.key(1), (2, 5, 3))
    stacked = stack_policies(lambda z: generator(theta, z), codes[0])
    assert num_slots(stacked) == 5 and slot_axes(stacked)["torso"] is None
    assert stacked["torso"].value[0]["kernel"].shape == (4, 6) and stacked["head"]["kernel"].shape == (5, 5, 3)
    third = take_slot(stacked, 3)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), third, generator(theta, codes[0, 3]))
    both = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), theta)
    population = materialize(Anchors(both, codes, jnp.ones(2), generator), 5)
    assert population.params["torso"].value[0]["kernel"].shape == (2, 4, 6)
    assert population.params["head"]["kernel"].shape == (2, 5, 5, 3)


def test_grouped_play_equals_play_one_by_one():
    """Common random numbers: the same keys one at a time."""
    game = make_game("kuhn_poker")
    policy = FilmPolicy(int(np.prod(game.observation_shape)), 2, (8,))
    generator = Hypernetwork(policy, 3, (7,))
    theta = generator.init(jax.random.key(0), 2.0)
    codes = jax.random.normal(jax.random.key(1), (3, 3))
    own = stack_policies(lambda z: generator(theta, z), codes)
    opponents = StackedPolicies(jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), own), policy)
    indices = jnp.asarray([[0, 1], [0, 2]])
    key = jax.random.key(2)
    together = jax.jit(
        lambda k: play_groups(
            play_episode, k, game, StackedPolicies(own, policy), opponents, indices, episodes=4, common=True
        )
    )(key)
    keys = jax.random.split(jax.random.key(2), (2, 4))
    alone = jax.jit(lambda k, a, b: play_episode(k, game, (Policy(a, policy), Policy(b, policy))).returns)
    for c, n, m in [(0, 0, 0), (1, 1, 3), (2, 0, 2), (2, 1, 1)]:
        expected = alone(keys[n, m], generator(theta, codes[c]), generator(theta, codes[int(indices[n, 1])]))
        np.testing.assert_array_equal(together.returns[c, n, m], expected)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["conv", "film", "board"])
def test_gems_steps_on_a_board(policy):
    """Shared torso, games that go on between rounds, minibatches, a sample of the protected decisions: one trace."""
    game = make_game("tic_tac_toe")
    config = GemsConfig(
        capacity=3, policy=policy, policy_hidden=(8,), policy_channels=4, critic_channels=0 if policy == "film" else 2,
        num_opponents=2, episodes=1, mixture_samples=0, mutations=2, randoms=2, oracle_opponents=2, oracle_episodes=1,
        abr_steps=2, abr_segment=6, abr_anchors=2, abr_opponents=2, abr_episodes=2, abr_minibatches=3, abr_epochs=2,
        kl_opponents=1, kl_states=3,
    )  # fmt: skip
    state = init_gems(jax.random.key(0), game, config)
    traces = []

    @jax.jit
    def step(state, key):
        traces.append(1)
        return gems_step(state, key, game, config)

    after, metrics = step(state, jax.random.key(1))
    after, metrics = step(after, jax.random.key(2))
    assert len(traces) == 1 and metrics.num_active.tolist() == [3, 3]
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((after.generator, metrics.kl, metrics.objective)))
    moved = jax.tree.map(lambda a, b: bool((a != b).any()), after.generator, state.generator)
    assert all(jax.tree.leaves(moved["base"]["torso"]))
    # meta: 2 populations x 2 anchors x 2; oracle: 2 x 4 x 2; protection: 2 x 3 x 1; lanes: 2 x 2 rounds x 8 lanes x 6
    assert int(metrics.env_steps) >= 2 * 2 * 8 * 6


def test_settings_that_do_not_fit_a_game_are_named():
    with pytest.raises(ValueError, match=r"policy='board' needs .* a board: .*, got \(13,\) in kuhn_poker"):
        init_gems(jax.random.key(0), make_game("kuhn_poker"), GemsConfig(policy="board"))
    with pytest.raises(ValueError, match=r"critic_channels=4 needs .* a board"):
        init_gems(jax.random.key(0), make_game("kuhn_poker"), GemsConfig(critic_channels=4))
    with pytest.raises(ValueError, match=r"policy='film' modulates hidden layers: got policy_hidden=\(\)"):
        GemsConfig(policy="film").validate()
