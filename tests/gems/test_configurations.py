"""Every choice of `GemsConfig` trains: one iteration of a wide sample of configurations, at widths that users use."""

import typing

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from covering import cover_pairs, pairs_of
from gems_jax import GemsConfig, gems_step, init_gems, make_game
from gems_jax.games.matrix import MatrixGame, matrix_game
from gems_jax.types import GameState, Struct

ROWS = 64
DEFAULT = (47, 15, 28, 14, 13, 42)  # in the default set: every value of every choice; all pairs are in the slow set


class BoardGame(Struct):
    """A matrix game whose seats see a board of 2 by 2 squares: every kind of policy and critic fits it."""

    inner: MatrixGame
    observation_shape = (2, 2, 2)

    def __getattr__(self, name):
        if name in ("inner", "infosets"):  # `infosets` lists the observations of the inner game, not these
            raise AttributeError(name)
        return getattr(self.inner, name)

    def _show(self, state: GameState) -> GameState:
        seats = state.observation[..., None, None, :]
        return state.replace(observation=jnp.broadcast_to(seats, (*state.observation.shape[:-1], 2, 2, 2)))

    def init(self, key):
        return self._show(self.inner.init(key))

    def step(self, state, actions, key):
        return self._show(self.inner.step(state, actions, key))

    def deals(self):
        states, probabilities = self.inner.deals()
        return self._show(states), probabilities


PAYOFFS = np.array([[0, -1, 1, 0.5], [1, 0, -1, 0], [-1, 1, 0, -0.5], [-0.5, 0, 0.5, 0]])
BOARD = BoardGame(matrix_game(PAYOFFS, shared=True, name="board"))
GAMES = {"kuhn_poker": make_game("kuhn_poker"), "board": BOARD}

# What a run plays, small: sizes of loops and batches do not change which operations a program is made of.
SIZES = {
    "initial_anchors": 2, "capacity": 4, "num_opponents": 4, "episodes": 1, "mixture_samples": 8,
    "mutations": 3, "randoms": 3, "oracle_opponents": 4, "oracle_episodes": 1, "abr_steps": 2, "abr_anchors": 4,
    "abr_opponents": 2, "abr_episodes": 1, "kl_opponents": 2, "buffer_episodes": 16, "replay_batch": 8,
}  # fmt: skip
HINTS = typing.get_type_hints(GemsConfig)
CHOICES = {
    name: typing.get_args(hint) if typing.get_origin(hint) is typing.Literal else (False, True)
    for name, hint in HINTS.items()
    if typing.get_origin(hint) is typing.Literal or hint is bool
}
SHAPES = {
    "generator_widths": ((16,), (64,), (64, 64)),
    "policy_hidden": ((16,), (64, 64)),
    "critic_hidden": ((32,), (64, 64)),
    "critic_channels": (0, 8),
    "meta_steps": (1, 3),
    "oracle_rounds": (1, 2),
    "oracle_period": (1, 2),
    "anchors_per_call": (1, 2),
    "mutations": (3, 0),
    "abr_epochs": (1, 2),
    "abr_minibatches": (1, 2),
    "abr_segment": (0, 3),
    "kl_states": (0, 4),
    "ema": (0.0, 0.5),
    "abr_floor": (0.0, 0.3),
    "abr_tremble": (0.0, 0.2),
    "entropy_weight": (0.0, 0.05),
    "replay_steps": (0, 2),
    "self_play_fraction": (0.0, 0.5),
    "magnet_weight": (0.0, 0.1),
    "play_temperature": (1.0, 0.5),
    "game": ("board", "board", "board", "kuhn_poker"),
}
FACTORS = {**CHOICES, **SHAPES}


def repair(row):
    """Settings that exclude each other, as `GemsConfig.validate` and the games say: the rarer value stays."""
    row = dict(row)
    if row["policy"] in ("conv", "board") or row["critic_channels"]:
        row["game"] = "board"
    if row["replay_steps"] or (row["meta_rule"] == "rm_plus" and row["estimator"] not in ("pairs", "trajectories")):
        row["estimator"] = "trajectories"
    if row["estimator"] != "pairs":
        row["control_variate"] = "none"
    if row["joint_play"]:
        row["q_new_applies"] = "anchors"
    if row["self_play_fraction"] or row["joint_play"]:
        row["live_opponents"] = True
    return row


CONFIGURATIONS = cover_pairs(FACTORS, repair, ROWS)


def config_of(row):
    chosen = {name: value for name, value in row.items() if name != "game"}
    newest_alone = {"abr_anchors": 1, "q_new": 1.0} if row["joint_play"] else {}
    return GemsConfig().replace(**{**SIZES, **chosen, **newest_alone})


def test_the_sample_is_wide():
    """Every value of every choice in the default set, and nearly all pairs of them in all configurations."""
    chosen = [CONFIGURATIONS[number] for number in DEFAULT]
    seen = set().union(*map(pairs_of, CONFIGURATIONS))
    for name, values in FACTORS.items():
        assert {row[name] for row in chosen} == set(values), name
    possible = {pair for one in cover_pairs(FACTORS, repair, 1000, seed=1, tries=1) for pair in pairs_of(one)}
    assert len(CONFIGURATIONS) >= 60 and len(possible - seen) <= 0.02 * len(possible)


@pytest.mark.parametrize(
    "number", [pytest.param(number, marks=() if number in DEFAULT else pytest.mark.slow) for number in range(ROWS)]
)
def test_one_iteration_trains(number):
    row = CONFIGURATIONS[number]
    game, config = GAMES[row["game"]], config_of(row).validate()

    @jax.jit
    def train(key):
        key_init, key_step = jax.random.split(key)
        before = init_gems(key_init, game, config)
        return before, *gems_step(before, key_step, game, config)

    before, after, metrics = train(jax.random.key(number))
    assert jax.tree.structure(before) == jax.tree.structure(after)
    for leaf in jax.tree.leaves((after, metrics)):
        if jnp.issubdtype(leaf.dtype, jnp.floating):
            assert not np.isnan(leaf).any(), row
    np.testing.assert_allclose(after.sigma.sum(axis=1), 1.0, atol=1e-5)
    moved = jax.tree.map(lambda a, b: bool((a != b).any()), before.generator, after.generator)
    assert any(jax.tree.leaves(moved)), row
    assert int(metrics.env_steps) > 0 and int(after.step) == 1
