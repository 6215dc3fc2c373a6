"""What profiles come to: values and welfare by hand, choices that games name, areas under curves."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax.evaluate import choice_rates, player_values, welfare
from gems_jax.evaluate.monitor import exact_monitor
from gems_jax.evaluate.outcomes import outcome_columns
from gems_jax.extensive.values import build_tree
from gems_jax.games import make_game
from gems_jax.games.public_goods import PublicGoods
from gems_jax.types import Array, PolicyOutput, Profile, Solver, Struct, static_field


def play_logits(params, observation, legal) -> PolicyOutput:
    return PolicyOutput(logits=params)


class Logits(Struct):
    """One policy per slot, the same logits wherever it is."""

    logits: Array  # [P, K, A]
    apply: object = static_field(default=play_logits)

    def select(self, index):
        return self.logits[index]


def cooperating(*rates):
    """A profile of one policy per player, cooperating with probability rates[i]; the column of action 1."""
    q = jnp.asarray(rates, jnp.float32)
    return Profile(Logits(jnp.stack([jnp.log1p(-q), jnp.log(q)], axis=-1)[:, None]), jnp.ones((len(rates), 1)))


SOLVER = Solver(
    init=lambda key: None,
    step=lambda state, key: (state, None),
    profile=lambda state, which="iterate": cooperating(*state.rates),
)
METRICS = SimpleNamespace()


def test_values_and_welfare_of_the_dilemma_of_two():
    """Cooperate 3/4 and 1/4 of the time (action 0): payoffs 3, 0 / 5, 1."""
    game = make_game("prisoners_dilemma")
    profile = cooperating(0.25, 0.75)  # of defecting
    expected = (3 * 0.75 * 0.25 + 5 * 0.25 * 0.25 + 1 * 0.25 * 0.75, 3 * 0.75 * 0.25 + 5 * 0.75 * 0.75 + 0.75 * 0.25)
    np.testing.assert_allclose(player_values(game, profile), expected, rtol=1e-5)
    np.testing.assert_allclose(welfare(game, profile), sum(expected), rtol=1e-5)
    assert choice_rates(game, profile) == {}
    with pytest.raises(ValueError, match=r"needs a sigma of shape \(2, K\), got \(3, 1\)"):
        player_values(game, cooperating(0.1, 0.1, 0.1))


def test_columns_have_the_players_names():
    tables = lambda game: jnp.broadcast_to(  # noqa: E731
        build_tree(game).legal / game.num_actions, (2, 1, *build_tree(game).legal.shape)
    )
    game = make_game("deceptive_messages")
    row = outcome_columns(game)(tables(game), jnp.ones((2, 1)))
    assert list(row) == ["value_sender", "value_receiver", "welfare", *(f"target_after_{m}" for m in range(4))]
    np.testing.assert_allclose([row[name] for name in list(row)[:4]], (0.25, 0.5, 0.75, 0.25), rtol=1e-5)
    plain = make_game("rock_paper_scissors")
    assert outcome_columns(plain)(tables(plain), jnp.ones((2, 1))) == {}


@pytest.mark.parametrize("rates", [(0.5,) * 5, (0.1, 0.3, 0.5, 0.7, 0.9)])
def test_areas_of_a_constant_curve(rates):
    """Eleven points of cooperation 0.5 and welfare 5, unit spacing: areas 5 and 50."""
    game = make_game("public_goods")
    init, measure = exact_monitor(game, SOLVER)
    state = SimpleNamespace(rates=rates)
    monitor, iterate = init(state), jax.jit(lambda monitor: measure(monitor, state, METRICS, state))
    for _ in range(10):
        monitor, row = iterate(monitor)
    np.testing.assert_allclose((row["coop"], row["welfare"]), (0.5, 5.0), rtol=1e-5)
    np.testing.assert_allclose((row["coop_auc"], row["welfare_auc"]), (5.0, 50.0), rtol=1e-5)
    assert {"value_0", "value_4", "nash_conv", "nash_conv_average"} <= set(row) and "exploitability" not in row


def test_areas_are_trapezoids_from_the_start():
    init, measure = exact_monitor(make_game("public_goods", n=2), SOLVER)
    states = [SimpleNamespace(rates=(q, q)) for q in (0.2, 0.6, 0.4)]
    monitor, areas = init(states[0]), []
    for state in states[1:]:
        monitor, row = measure(monitor, None, METRICS, state)
        areas.append(row["coop_auc"])
    np.testing.assert_allclose(areas, (0.4, 0.4 + 0.5), rtol=1e-5)


def test_a_choice_that_does_not_exist_is_told():
    class Strange(PublicGoods):
        def choices(self):
            return {"coop": (np.array([0]), np.full((1, 5), 7.0), np.array([1]))}

    with pytest.raises(ValueError, match=r"choices\(\) of 'public_goods' names an observation that seat 0 never"):
        outcome_columns(jax.tree_util.register_static(Strange)())
