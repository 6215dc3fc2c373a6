# %% [markdown]
# # Solve Kuhn poker, and read the error budget
#
# Kuhn poker has three cards and two seats. Both put one chip into the pot, get a card, and may bet one more. Its
# equilibria are known: the first seat bets the lowest card (J) with a probability of at most 1/3, bets the highest (K)
# three times as often, and never bets Q. The game is worth -1/18 chips to the first seat.
#
# This page trains GEMS on it, and shows how a run explains what still limits it.

# %%
import os

import jax
import matplotlib.pyplot as plt
import numpy as np

import gems_jax

QUICK = bool(os.environ.get("GEMS_TUTORIAL_QUICK"))  # the tests run this page with small sizes

# %% [markdown]
# ## Train
#
# Without settings, `train` takes the best known ones for this game, the preset `replay`: GEMS whose estimates reuse the
# episodes of earlier iterations. This page takes a quarter of its episodes and half of its iterations. All seeds train
# in one compiled program.

# %%
settings = gems_jax.preset("kuhn_poker", "replay").replace(mixture_samples=2500)
iterations, seeds = 20, 3
if QUICK:
    small = {"mixture_samples": 100, "buffer_episodes": 400, "capacity": 4, "mutations": 4, "randoms": 4}
    settings, iterations, seeds = settings.replace(**small), 3, 2
run = gems_jax.train("kuhn_poker", config=settings, iterations=iterations, seeds=seeds)
run

# %% [markdown]
# `run.metrics` holds a column [seeds, iterations] for everything that was logged. Exploitability is NashConv / 2 in
# chips per game: what an opponent gains on average by responding perfectly, 0 exactly at an equilibrium. Kuhn poker can
# be enumerated, so every value here is exact.

# %%
steps = run.metrics["env_steps"].cumsum(axis=1)
budget = f"{seeds} seeds, {steps[0, -1] / 1e6:.2g}M environment steps each"
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
axes.plot(steps.T, run.metrics["exploitability"].T, color="tab:blue", alpha=0.35, linewidth=1)
axes.plot(steps[0], run.metrics["exploitability"].mean(axis=0), color="tab:blue", label="mean of the seeds")
axes.axhline(0.458, color="gray", linestyle=":", label="uniform play")
axes.set(title=f"GEMS on Kuhn poker: {budget}", xlabel="environment steps", ylabel="exploitability (chips per game)")
axes.set_yscale("log")
axes.legend()
figure.show()

# %% [markdown]
# ## What it learned
#
# `run.policy(seed)` is the trained mixture as a policy that acts. The table shows its probability of betting with each
# card when it opens the game.

# %%
policy = run.policy(0)
deals, _ = policy.game.deals()
for card in (0, 2, 4):  # deals in the order J Q, J K, Q J, Q K, K J, K Q
    start = jax.tree.map(lambda leaf, card=card: leaf[card], deals)
    bet = policy.probabilities(start)[0]  # action 0 is a bet, 1 a pass
    print(f"{'JQK'[card // 2]}: bets with probability {bet:.3f}")

# %% [markdown]
# ## The error budget
#
# On an enumerable game each iteration splits the exploitability into four terms that are never negative, and whose sum
# it is, exactly ([the identity](../paper.md#the-error-budget)):
#
# | term | it is large if |
# | --- | --- |
# | best response | no policy that the generator proposes is a good reply |
# | oracle | a better candidate was in the pool than the one that the oracle picked |
# | newcomer | the picked policy is good, but has no weight yet |
# | meta regret | the meta-strategy is not the best mixture of the policies that are there |

# %%
terms = ["best_response", "oracle", "newcomer", "meta_regret"]
values = np.stack([run.metrics[f"budget_{term}"].mean(axis=0) for term in terms])
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
axes.stackplot(steps[0], values, labels=[term.replace("_", " ") for term in terms], alpha=0.85)
axes.set(title=f"Error budget on Kuhn poker, mean:\n{budget}", xlabel="environment steps")
axes.set_ylabel("exploitability (chips per game)")
axes.set_ylim(0, max(2.5 * values.sum(axis=0)[len(steps[0]) // 4], 1e-3))
axes.legend()
figure.show()

# %%
for term, value in zip(terms, values[:, -1], strict=True):
    print(f"{term:14} {value:.5f}")
total = run.metrics["budget_total"][:, -1].mean()  # computed independently of the terms
print(f"{'sum':14} {values[:, -1].sum():.5f}, exploitability before the training of that iteration: {total:.5f}")

# %% [markdown]
# With reused returns the meta regret has two parts: the regret that the solver leaves on its own estimate, and the
# noise of the estimate. `value_error` is the standard error that the estimator reports for its values. If the first
# part is small, better play needs more episodes per iteration, not more updates. `gems eval RUN --why` prints this
# reading of a stored run, with the settings to change.

# %%
for name in ("budget_meta_regret", "meta_regret_estimated", "value_error"):
    print(f"{name:22} {run.metrics[name][:, -1].mean():.5f}")

# %% [markdown]
# ## Log to TensorBoard or Weights & Biases
#
# A run with a folder writes `metrics.csv`. `--writers tensorboard` and `--writers wandb` of `gems train`, or `writers=`
# here, send every row to these programs as well. They are the extras `tensorboard` and `wandb` of the package. With
# `WANDB_MODE=offline`, Weights & Biases needs neither an account nor a network, and `wandb sync` uploads later.

# %%
import importlib.util
import tempfile
from pathlib import Path

os.environ.update(WANDB_MODE="offline", WANDB_SILENT="true")
modules = {"tensorboard": "tensorboardX", "wandb": "wandb"}
writers = tuple(name for name, module in modules.items() if importlib.util.find_spec(module))
with tempfile.TemporaryDirectory() as folder:
    gems_jax.train("matching_pennies", "cfr_plus", iterations=5, run_dir=f"{folder}/run", writers=writers)
    written = {path.name.split(".")[0] for path in Path(folder, "run").rglob("*") if path.is_file()}
    print("writers:", ", ".join(writers) or "none is installed")
    print("event files of TensorBoard:", any(name.startswith("events") for name in written))
    print("offline run of Weights & Biases:", any(name.startswith("run-") for name in written))
