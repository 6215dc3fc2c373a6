# %% [markdown]
# # Three players, and coarse correlated equilibria
#
# With two players and a zero sum, everything that learns well ends near an equilibrium. Three players need not. This
# page shows what still holds, and how runs measure it.

# %%
import os

import matplotlib.pyplot as plt
import numpy as np

import gems_jax

QUICK = bool(os.environ.get("GEMS_TUTORIAL_QUICK"))  # the tests run this page with small sizes

# %% [markdown]
# ## A game that no learner settles in
#
# In Jordan's game each of three players picks one of two sides. The first wants to match the second, the second wants
# to match the third, and the third wants to differ from the first. The only Nash equilibrium is uniform play. Players
# that learn from their own payoffs do not approach it: they run around it.
#
# A normal-form game needs only its payoffs, [players, actions of each player].

# %%
wishes = (lambda a, b, c: a == b, lambda a, b, c: b == c, lambda a, b, c: c != a)
payoffs = [[[[float(wish(a, b, c)) for c in (0, 1)] for b in (0, 1)] for a in (0, 1)] for wish in wishes]
game = gems_jax.matrix_game(payoffs)
game.zero_sum, game.num_seats

# %% [markdown]
# ## What a run reports
#
# - `nash_conv` is what the players could gain by deviating from the mixture of the current iteration.
# - `cce_gap` judges the *history*: what each player could have gained in the whole run by one fixed action, given what
#   the others did, summed over the players. It is the distance of the run's joint play from a *coarse correlated
#   equilibrium*. In joint play the players are correlated by time, so it need not be near any mixture.

# %%
settings = gems_jax.preset("public_goods", "tuned").replace(
    initial_anchors=1,
    capacity=8,
    meta_steps=20,
    num_opponents=16,
    oracle_opponents=16,
    mutations=0,
    randoms=8,
    abr_steps=10,
    abr_opponents=128,
)
iterations, seeds = 100, 3
if QUICK:
    settings = settings.replace(capacity=4, meta_steps=2, randoms=2, abr_steps=1, abr_opponents=4, num_opponents=4)
    iterations, seeds = 3, 2
run = gems_jax.train(game, config=settings, iterations=iterations, seeds=seeds)
run

# %%
steps = run.metrics["env_steps"].cumsum(axis=1)
spent = f"{seeds} seeds, {steps[0, -1] / 1e6:.2g}M environment steps each"
figure, axes = plt.subplots(figsize=(7.5, 4), layout="constrained")
for column, label, color in (
    ("nash_conv", "NashConv of the iteration's mixture", "tab:orange"),
    ("cce_gap", "CCE gap of the joint play so far", "tab:blue"),
):
    axes.plot(run.metrics["iteration"][0], run.metrics[column].T, color=color, alpha=0.3, linewidth=0.8)
    axes.plot(run.metrics["iteration"][0], run.metrics[column].mean(axis=0), color=color, label=label)
axes.set(title=f"GEMS in Jordan's game: {spent}", xlabel="iteration", ylabel="gain from deviating (return)")
axes.set_yscale("log")
axes.set_ylim(bottom=1e-4)
axes.legend()
figure.show()

# %% [markdown]
# NashConv goes up and down for as long as the run lasts; the CCE gap goes to zero. This is the guarantee that the paper
# gives for more than two players, and the reason why it is about the average and not about the last mixture.

# %%
for column in ("nash_conv", "cce_gap"):
    print(f"{column:10} at the end of each seed:", *(f"{value:8.4f}" for value in run.metrics[column][:, -1]))

# %% [markdown]
# ## Poker for three
#
# Kuhn poker for three players has four cards and 48 information sets. Nothing in the code changes: three populations
# instead of two, and the estimator that reuses the episodes of all players, with a fifth of the preset's episodes. On
# this game the mixture itself comes close to a Nash equilibrium ([leaderboard](../leaderboard.md)), although
# nothing guarantees it.

# %%
settings, iterations, seeds = gems_jax.preset("kuhn_poker_3p", "replay").replace(mixture_samples=2000), 15, 3
if QUICK:
    small = {"mixture_samples": 64, "buffer_episodes": 128, "capacity": 3, "mutations": 2, "randoms": 2}
    settings, iterations, seeds = settings.replace(**small, initial_anchors=1), 2, 2
poker = gems_jax.train("kuhn_poker_3p", config=settings, iterations=iterations, seeds=seeds)
poker

# %%
steps = poker.metrics["env_steps"].cumsum(axis=1)
spent = f"{seeds} seeds, {steps[0, -1] / 1e6:.2g}M environment steps each"
figure, axes = plt.subplots(figsize=(7.5, 4), layout="constrained")
for column, label, color in (
    ("nash_conv", "NashConv of the iteration's mixture", "tab:orange"),
    ("cce_gap", "CCE gap of the joint play so far", "tab:blue"),
):
    axes.plot(steps.T, poker.metrics[column].T, color=color, alpha=0.3, linewidth=0.8)
    axes.plot(steps[0], poker.metrics[column].mean(axis=0), color=color, label=label)
axes.set(title=f"GEMS on Kuhn poker for three: {spent}", xlabel="environment steps", yscale="log")
axes.set_ylabel("gain from deviating (chips per game)")
axes.legend()
figure.show()

# %%
regrets = np.stack([poker.metrics[f"regret_{player}"][:, -1] for player in range(3)], axis=1)
print("average regret of the three players (chips per game), one line per seed:")
print("\n".join("  ".join(f"{regret:8.4f}" for regret in line) for line in regrets))

# %% [markdown]
# [Concepts](../concepts.md#more-than-two-players) has the equations, and [the results](../results/cce.md) the same
# measurement with other estimators.
