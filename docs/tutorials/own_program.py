# %% [markdown]
# # GEMS inside your own JAX program
#
# `init_gems`, `gems_step` and `gems_profile` are pure functions without a driver, files or printing. An iteration is a
# map from a state to a state of the same size, so it fits into `jit`, `scan` and `vmap` of your own program. This page
# trains a grid of seeds and step sizes in one compiled call.

# %%
import os

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

from gems_jax import GemsConfig, exploitability, gems_profile, gems_step, init_gems, make_game

QUICK = bool(os.environ.get("GEMS_TUTORIAL_QUICK"))  # the tests run this page with small sizes

# %% [markdown]
# ## One training run as a function
#
# Integers and names in a `GemsConfig` are static: each value is another program. Real numbers, such as the step size
# `eta` of the meta-strategy, may be traced. So `train` is a function of a key and a number. Exploitability is exact and
# computed inside the program.

# %%
game = make_game("kuhn_poker")
config = GemsConfig()  # the paper's table for Kuhn poker
iterations, num_seeds, step_sizes = 20, 3, [0.03, 0.1, 0.3, 1.0]
if QUICK:
    config = config.replace(capacity=4, num_opponents=4, mixture_samples=8, mutations=4, randoms=4, abr_steps=2)
    iterations, num_seeds, step_sizes = 2, 2, [0.03, 0.3]


def train(key, eta):
    """Trains GEMS from a key with the step size eta: exploitability and environment steps, [iterations] each."""
    settings = config.replace(eta=eta)
    key_init, key_steps = jax.random.split(key)
    state = init_gems(key_init, game, settings)

    def iteration(state, key):
        state, metrics = gems_step(state, key, game, settings)
        gap = exploitability(game, gems_profile(state, game, settings, which="average"))
        return state, (gap, metrics.env_steps.sum())

    return jax.lax.scan(iteration, state, jax.random.split(key_steps, iterations))[1]


# %% [markdown]
# ## A grid in one call
#
# The inner `vmap` runs over step sizes, the outer one over seeds. All members of the grid share the program, and every
# operation works on all of them at once. Equal keys along an axis mean equal deals and equal noise: the step sizes are
# compared on common random numbers.

# %%
keys = jax.random.split(jax.random.key(0), num_seeds)
grid = jax.jit(jax.vmap(jax.vmap(train, in_axes=(None, 0)), in_axes=(0, None)))
gaps, steps = jax.block_until_ready(grid(keys, jnp.asarray(step_sizes)))
gaps.shape  # [seeds, step sizes, iterations]

# %%
last = np.asarray(gaps[:, :, -1])
budget = f"{num_seeds} seeds, {float(steps[0, 0].sum()) / 1e6:.2g}M environment steps each"
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
axes.plot(step_sizes, last.T, "o", color="tab:blue", alpha=0.4)
axes.plot(step_sizes, last.mean(axis=0), "-", color="tab:blue", label="mean of the seeds")
axes.set_xscale("log")
axes.set(title=f"Step size of the meta-strategy, Kuhn poker, {iterations} iterations:\n{budget}")
axes.set(xlabel="step size eta", ylabel="exploitability of the run's\naverage mixture (chips per game)")
axes.set_ylim(bottom=0)
axes.legend()
figure.show()

# %%
for eta, values in zip(step_sizes, last.T, strict=True):
    spread = f", standard deviation {values.std(ddof=1):.3f}" if num_seeds > 2 else ""
    print(f"eta {eta:5}: mean {values.mean():.3f}{spread}")

# %% [markdown]
# A grid like this chooses a setting; report it on other seeds. `gems sweep` does the same from a file, in batches that
# fit the memory, with a run folder for every point ([sweeps](../sweeps.md)).
#
# ## What else composes
#
# - `jax.eval_shape(grid, keys, etas)` gives shapes and dtypes without computing anything.
# - A `GemsState` is a pytree of arrays: store it with any checkpoint library, or move it to another device.
# - `jax.grad` does not pass through an iteration: actions are sampled, and the best response is trained by its own
#   gradient steps.
# - `make_solver(method, game)` gives the other methods in the same form, `init`, `step` and `profile`; those that are
#   compiled programs as a whole have `jittable=True`.

# %%
state = jax.eval_shape(lambda: init_gems(jax.random.key(0), game, config))
print(f"a state: {len(jax.tree.leaves(state))} arrays, {sum(leaf.size for leaf in jax.tree.leaves(state)):,} numbers")
