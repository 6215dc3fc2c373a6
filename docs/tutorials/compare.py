# %% [markdown]
# # Compare methods at an equal budget
#
# Methods for solving games differ in what an iteration costs: one plays a thousand episodes, another a million. A fair
# comparison fixes the budget. Here it is the number of environment steps, calls of the game's `step` for any purpose,
# both learning and measuring payoffs.

# %%
import os

import matplotlib.pyplot as plt

import gems_jax
from gems_jax.evaluate.statistics import format_mean

QUICK = bool(os.environ.get("GEMS_TUTORIAL_QUICK"))  # the tests run this page with small sizes

# %% [markdown]
# ## The methods
#
# `gems methods` lists all of them. This page takes GEMS, whose default settings on this game reuse the returns of
# earlier iterations; PSRO, which trains a response to a mixture of stored policies; self-play; and magnetic mirror
# descent (MMD), self-play with a regularized objective. `budget` limits each to so many steps per iteration: GEMS
# divides them between its four phases, the others fit their number of training rounds. GEMS counts its
# episodes in advance, so it plays some steps more when games get longer during training.

# %%
methods, iterations, seeds, budget = ("gems", "psro", "self_play", "mmd"), 15, 3, 25_750
if QUICK:
    methods, iterations, seeds, budget = ("psro", "self_play"), 2, 2, 2_000
runs = {}
for method in methods:
    runs[method] = gems_jax.train("kuhn_poker", method, iterations=iterations, seeds=seeds, budget=budget)
    print(f"{method}: {runs[method].metrics['env_steps'].sum(axis=1).mean():,.0f} steps per seed")

# %% [markdown]
# ## The curves
#
# A method is judged by the profile that it is meant to be judged by: the mixture of the last iteration (`iterate`) for
# population methods, and for self-play both are worth a look, because its last policy cycles while its average over the
# run settles.

# %%
spent = f"{seeds} seeds, {budget:,} environment steps per iteration"
figure, panels = plt.subplots(1, 2, figsize=(9, 4), sharey=True, layout="constrained")
figure.suptitle(f"Kuhn poker at an equal budget: {spent}")
for panel, column, title in zip(
    panels,
    ("exploitability", "exploitability_average"),
    ("mixture of the iteration", "average over the run"),
    strict=True,
):
    for method, run in runs.items():
        steps = run.metrics["env_steps"].cumsum(axis=1).mean(axis=0)
        values = run.metrics[column]
        (line,) = panel.plot(steps, values.mean(axis=0), label=method)
        panel.plot(steps, values.T, color=line.get_color(), alpha=0.2, linewidth=0.8)
    panel.set(title=title, xlabel="environment steps", yscale="log")
panels[0].set_ylabel("exploitability (chips per game)")
panels[0].legend()
figure.show()

# %% [markdown]
# ## The table
#
# Thin lines are seeds, thick ones their mean. The table has the mean of the seeds and half of its 95 % interval
# (Student t). Intervals need at least three seeds; a difference inside of them is not one.

# %%
print(f"{'method':12} {'iterate':>20} {'average':>20}")
for method, run in runs.items():
    last = [format_mean(run.metrics[name][:, -1]) for name in ("exploitability", "exploitability_average")]
    print(f"{method:12} {last[0]:>20} {last[1]:>20}")

# %% [markdown]
# This is one game and one budget, and every method has the settings that this project has for it.
# [The leaderboard](../leaderboard.md) compares all methods that learn from episodes on four games, with the number of
# settings that were tried for each.
#
# ## Two ways to cheat by accident
#
# - *Equal iterations.* They say nothing: with its own settings, one of these methods plays many times as much per
#   iteration as another. `gems compare RUN RUN` prints equal iterations, steps and seconds side by side.
# - *The best iteration.* The lowest value of a noisy curve is too low. `gems eval RUN --at best` selects that
#   iteration, then measures it again.

# %%
for method, run in runs.items():
    values = run.metrics["exploitability"]
    print(f"{method:12} last {values[:, -1].mean():.3f}, lowest of the run {values.min(axis=1).mean():.3f}")
