"""Views: the same game from another player's place, and one program for all players."""

from functools import partial

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import make_game
from gems_jax.estimation.monte_carlo import Sampling, policy_returns
from gems_jax.games.matrix import matrix_game
from gems_jax.policies.population import StackedPolicies
from gems_jax.rollout.views import (
    is_rotational,
    make_view,
    map_populations,
    map_populations_with_carry,
    players_of,
    rotate,
    split_populations,
    stack_populations,
    take_population,
)
from gems_jax.types import num_populations, seats_of_player
from toy_games import constant, pure, team_game

fresh = partial(jax.random.key, 0)  # equal keys, each of them used once
BET, PASS = 0, 1


def three_players():
    """Seat s earns 1 + s when everybody plays 1, else minus its own action."""
    payoffs = np.zeros((3, 2, 2, 2))
    for seat, axis in enumerate(np.indices((2, 2, 2))):
        payoffs[seat] = -axis
        payoffs[seat, 1, 1, 1] = 1 + seat
    return matrix_game(payoffs)


def test_player_1_of_kuhn_plays_the_same_game_from_the_other_side():
    game = make_game("kuhn_poker")
    turned = make_view(game, 1)
    assert turned.player_of_seat == (0, 1) and turned.population_of_player == (0, 1)
    assert (turned.name, turned.num_actions, turned.max_steps) == (game.name, 2, game.max_steps)
    state, seen = game.init(fresh()), turned.init(fresh())
    for actions in [(PASS, BET), (BET, BET), (PASS, PASS)]:  # seat 0 passes, seat 1 bets, seat 0 passes: seat 1 wins 1
        np.testing.assert_array_equal(seen.observation, state.observation[::-1])
        np.testing.assert_array_equal(seen.legal, state.legal[::-1])
        np.testing.assert_array_equal(seen.to_move, state.to_move[::-1])
        assert seen.done == state.done
        state = game.step(state, jnp.asarray(actions), fresh())
        seen = turned.step(seen, jnp.asarray(actions[::-1]), fresh())
        np.testing.assert_array_equal(seen.reward, state.reward[::-1])
    np.testing.assert_array_equal(seen.reward, [1.0, -1.0])
    assert seen.terminated


def test_a_view_of_player_0_is_the_game():
    game = make_game("prisoners_dilemma")
    chex.assert_trees_all_equal(
        make_view(game, 0).step(make_view(game, 0).init(fresh()), jnp.asarray([1, 0]), fresh()).reward,
        game.step(game.init(fresh()), jnp.asarray([1, 0]), fresh()).reward,
    )


def test_three_players_follow_in_turn():
    game = three_players()
    for player in range(3):
        turned = make_view(game, player)
        np.testing.assert_array_equal(turned.seats, [player, (player + 1) % 3, (player + 2) % 3])
        np.testing.assert_array_equal(turned.init(fresh()).observation, np.eye(3)[np.asarray(turned.seats)])
        alone = turned.step(turned.init(fresh()), jnp.asarray([1, 0, 0]), fresh())  # the player alone plays 1
        np.testing.assert_array_equal(alone.reward, [-1.0, 0.0, 0.0])
        together = turned.step(turned.init(fresh()), jnp.asarray([1, 1, 1]), fresh())
        np.testing.assert_array_equal(together.reward, [1 + player, 1 + (player + 1) % 3, 1 + (player + 2) % 3])


def test_a_team_is_one_player_and_its_seats_stay_together():
    game = team_game()
    assert seats_of_player(game, 0) == (0, 1) and players_of(game, 1) == (1,)
    other = make_view(game, 1)
    np.testing.assert_array_equal(other.seats, [2, 0, 1])
    assert other.player_of_seat == (0, 1, 1) and other.population_of_player == (0, 1)
    # actions in the order of the view: seat 2 plays 1, seat 0 plays 1, seat 1 plays 0; payoff 4 + 1 = 5
    after = other.step(other.init(fresh()), jnp.asarray([1, 1, 0]), fresh())
    np.testing.assert_array_equal(after.reward, [-2.5, 5.0, 0.0])


def test_a_shared_population_supplies_both_players():
    game = make_game("biased_rps", shared=True)
    assert players_of(game, 0) == (0, 1) and num_populations(game) == 1
    for player in (0, 1):
        turned = make_view(game, player)
        assert turned.population_of_player == (0, 0)
        # the viewer plays scissors against paper and wins 2, from either place
        after = turned.step(turned.init(fresh()), jnp.asarray([2, 1]), fresh())
        np.testing.assert_array_equal(after.reward, [2.0, -2.0])


@pytest.mark.parametrize(
    ("game", "expected"),
    [
        (make_game("biased_rps"), True),
        (three_players(), True),
        (make_game("biased_rps", shared=True), False),
        (team_game(), False),
    ],
)
def test_alike(game, expected):
    assert is_rotational(game) is expected


@pytest.mark.parametrize("count", [1, 2, 3])
def test_rotate_puts_the_own_population_first(count):
    rows = jnp.arange(count * 2).reshape(count, 2)
    for population in range(count):
        expected = np.roll(np.asarray(rows), -population, axis=0)
        np.testing.assert_array_equal(rotate(rows, population), expected)
        np.testing.assert_array_equal(jax.jit(rotate)({"a": rows}, jnp.int32(population))["a"], expected)


def test_stack_is_the_inverse_of_at():
    tree = {"a": jnp.arange(6.0).reshape(3, 2), "b": jnp.arange(3)}
    chex.assert_trees_all_equal(stack_populations([take_population(tree, p) for p in range(3)]), tree)


@pytest.mark.parametrize("name", ["kuhn", "three"])
def test_one_vmapped_program_equals_a_call_per_player(name):
    """Every policy of each population against the others' mixture; equal keys, so equal numbers."""
    game = make_game("kuhn_poker") if name == "kuhn" else three_players()
    count = num_populations(game)
    logits = jax.random.normal(jax.random.key(1), (count, 3, 2))
    opponents = StackedPolicies(logits, constant)
    log_sigma = jax.nn.log_softmax(jax.random.normal(jax.random.key(2), (count, 3)))

    def measure(views, p, key):
        others = rotate(opponents, p)
        return policy_returns(key, views, take_population(others, 0), others, rotate(log_sigma, p), Sampling(4, 2))

    @jax.jit
    def vmapped(keys):
        return map_populations(game, measure, keys)

    @jax.jit
    def looped(keys):
        return stack_populations([measure((make_view(game, p),), p, keys[p]) for p in range(count)])

    returns, lengths = vmapped(jax.random.split(jax.random.key(3), count))
    chex.assert_shape([returns, lengths], (count, 3, 8))
    chex.assert_trees_all_equal((returns, lengths), looped(jax.random.split(jax.random.key(3), count)))
    assert len(np.unique(returns)) > 2


def test_each_population_of_teams_and_shared_ones():
    """One view per player of the population, in the population's own order."""

    def seats(views, population, key):
        del population, key
        return jnp.stack([one.seats for one in views])

    team = map_populations(team_game(), seats, jax.random.split(fresh(), 2))
    np.testing.assert_array_equal(team, [[[0, 1, 2]], [[2, 0, 1]]])
    shared = map_populations(make_game("prisoners_dilemma", shared=True), seats, jax.random.split(fresh(), 1))
    np.testing.assert_array_equal(shared, [[[0, 1], [1, 0]]])


def test_both_players_of_a_shared_population_earn_alike():
    """Paper against a population of rock: 1 from either place, so (1 + 3) / 6 of the scaled return throughout."""
    game = make_game("biased_rps", shared=True)
    opponents = StackedPolicies(pure(3, 0)[None], constant)
    places = (make_view(game, 0), make_view(game, 1))

    @jax.jit
    def measure(key, params):
        policies = StackedPolicies(params, constant)
        return policy_returns(key, places, policies, opponents, jnp.zeros((1, 1)), Sampling(2, 3))

    returns, lengths = measure(fresh(), pure(3, 1, 2))
    np.testing.assert_allclose(returns[0], np.full(12, 4 / 6), rtol=1e-6)
    np.testing.assert_allclose(returns[1], np.zeros(12), atol=1e-6)  # scissors lose 3, the worst there is
    np.testing.assert_array_equal(lengths, np.ones((2, 12)))


@pytest.mark.parametrize("game", [three_players(), team_game()], ids=["a vmap", "one by one"])
def test_every_population_gets_its_part_of_a_carry(game):
    count = num_populations(game)
    whole = {"weights": jnp.arange(count * 2.0).reshape(count, 2), "steps": jnp.arange(count)}

    def one(views, p, key, own):
        del views, key
        return (own["weights"] + own["steps"], p), {"weights": -own["weights"]}

    keys = jax.random.split(fresh(), count)
    (found, order), carry = map_populations_with_carry(game, one, keys, split_populations(game, whole))
    np.testing.assert_array_equal(found, whole["weights"] + whole["steps"][:, None])
    np.testing.assert_array_equal(order, np.arange(count))
    parts = carry["weights"] if isinstance(carry, dict) else jnp.stack([part["weights"] for part in carry])
    np.testing.assert_array_equal(parts, -whole["weights"])
