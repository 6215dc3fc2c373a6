"""Every method that learns solves small zero-sum games: NashConv of the profile that it puts forward.

An iteration is 100 rounds of 128 episodes; 20 of them are run. Uniform play has NashConv 0 on rock-paper-scissors: the
bar of 0.15 (of at most 2) is for methods that have moved away from it and come back, or have stayed. The equilibrium of
the biased form is elsewhere.
"""

import numpy as np
import pytest

from gems_jax import make_game
from gems_jax.games.matrix import matrix_game
from gems_jax.solvers import DEFAULTS, reported_profile
from learned_runs import solve_learned

EXACT_ONLY = {"cfr", "cfr_plus", "xfp"}  # on the tree: nothing is learned from episodes
METHODS = sorted(set(DEFAULTS) - EXACT_ONLY - {"gems", "random"})
GAMES = {name: make_game(name) for name in ("rock_paper_scissors", "biased_rps")}
BAR = 0.15
# Payoffs uniform in [-1, 1]; settings were tuned on other draws.
RANDOM = {
    f"random {seed}": matrix_game(np.random.default_rng(seed).uniform(-1, 1, (5, 5)), name=f"random_{seed}")
    for seed in range(1, 6)
}
RANDOM_BAR = 0.2
# Room for all policies from the start: a store that is doubled compiles anew.
ROOM = {"sp_psro": 64, "fxp": 64}
BUDGET = {"os_mccfr", "es_mccfr"}  # by environment steps: a round of theirs is one traversal
# Payoffs of biased_rps go to 3, so NashConv to 6. These methods miss 0.15 there on some of seeds 0 to 4, and stay
# below the same fraction of the largest NashConv, 0.45; docs/methods.md has the reasons.
BIASED_BAR = {"alpha_psro": 0.45, "epsro": 0.45, "simplex_neupl": 0.45}


def solve(method, game, seed):
    """NashConv of the profile that the method puts forward."""
    sizes = {"env_steps": 12_800} if method in BUDGET else {}
    if hasattr(DEFAULTS[method], "capacity") and method not in BUDGET:
        sizes["capacity"] = ROOM.get(method, 32)
    return solve_learned(method, game, seed, **sizes)[reported_profile(method)]


@pytest.mark.parametrize("method", ["mmd", "neupl"])
def test_biased_rock_paper_scissors(method):
    """Two whose learners continue from iteration to iteration, which is where a learner may saturate.

    FXP and SP-PSRO continue theirs, too: `test_five_seeds` solves the game by them, in the slow set.
    """
    assert solve(method, GAMES["biased_rps"], 0) < BIASED_BAR.get(method, BAR)


@pytest.mark.slow
@pytest.mark.parametrize("name", GAMES)
@pytest.mark.parametrize("method", METHODS)
def test_five_seeds(method, name):
    found = [solve(method, GAMES[name], seed) for seed in range(5)]
    print(f"{method}, {name}: {' '.join(f'{value:.3f}' for value in found)}")
    assert max(found) < (BIASED_BAR.get(method, BAR) if name == "biased_rps" else BAR), found


@pytest.mark.slow
@pytest.mark.parametrize("name", RANDOM)
@pytest.mark.parametrize("method", METHODS)
def test_random_games(method, name):
    found = solve(method, RANDOM[name], 0)
    print(f"{method}, {name}: {found:.3f}")
    assert found < RANDOM_BAR
