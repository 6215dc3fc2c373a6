"""Exact gains by the tree, or by a game's own evaluation where there is none."""

import dataclasses

import jax
import numpy as np
import pytest

from gems_jax import make_solver
from gems_jax.evaluate.exact_gains import exact_gains
from gems_jax.evaluate.sampled import random_profile
from gems_jax.games.multiplayer_kuhn import MultiplayerKuhn
from gems_jax.runner.measuring import make_monitor
from gems_jax.types import NotEnumerableError


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Unlisted(MultiplayerKuhn):
    """Kuhn poker that does not list its deals."""

    def deals(self):
        raise NotEnumerableError("too many deals.")


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Evaluated(Unlisted):
    """The same with an evaluation of its own."""

    def best_response_gains(self, profile):
        return exact_gains(MultiplayerKuhn(self.players), profile) + 1.0


def test_the_tree_comes_first_then_the_game_s_own_evaluation():
    gains = np.asarray([0.375, 0.5416667])  # of best responses to uniform play, by OpenSpiel
    profile = random_profile(MultiplayerKuhn(2))
    np.testing.assert_allclose(exact_gains(MultiplayerKuhn(2), profile), gains, atol=1e-6)
    np.testing.assert_allclose(exact_gains(Evaluated(2), profile), gains + 1.0, atol=1e-6)
    with pytest.raises(NotEnumerableError, match="too many deals"):
        exact_gains(Unlisted(2), profile)


def test_a_run_says_where_its_exact_evaluation_is():
    notes = [make_monitor(game, make_solver("random", game)).note for game in (Evaluated(2), Unlisted(2))]
    assert "`gems eval RUN` uses the game's own" in notes[0]
    assert "too many deals" in notes[1] and "gems eval RUN` uses" not in notes[1]
