# %% [markdown]
# # A population that you can look at
#
# GEMS stores no policies. It stores *anchors*, short codes z, and one generator that turns a code into a policy. This
# page takes a trained run of Kuhn poker to pieces: the codes, what their policies do, and how they fare against each
# other.

# %%
import os

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import gems_jax
from gems_jax import gems_profile
from gems_jax.extensive.tables import policy_tables
from gems_jax.extensive.tree import build_tree
from gems_jax.extensive.values import expected_returns

QUICK = bool(os.environ.get("GEMS_TUTORIAL_QUICK"))  # the tests run this page with small sizes

# %% [markdown]
# The settings are the default ones of this game, with 25,000 environment steps per iteration.

# %%
settings, iterations, seeds, budget = None, 40, 3, 25_000
if QUICK:
    small = {"capacity": 4, "mutations": 4, "randoms": 4, "abr_steps": 2, "num_opponents": 4, "mixture_samples": 8}
    settings, iterations, seeds, budget = gems_jax.preset("kuhn_poker", "paper").replace(**small), 2, 2, 0
run = gems_jax.train("kuhn_poker", config=settings, iterations=iterations, seeds=seeds, budget=budget)
game, state = run.game, jax.tree.map(lambda leaf: leaf[0], run.result.state)  # the state of the first seed
codes, sigma, order = np.asarray(state.anchors), np.asarray(state.sigma), np.asarray(state.anchor_id)
print(f"anchors of each population: {np.asarray(state.active).sum(axis=1)}, dimensions of a code: {codes.shape[-1]}")
for player, masses in enumerate(np.sort(sigma, axis=1)[:, :-4:-1]):
    print(f"player {player}, mass of the heaviest three:", *(f"{mass:.2f}" for mass in masses))

# %% [markdown]
# ## What the policies do
#
# Kuhn poker has six information sets per seat. A policy is a probability of action 0, a bet or a call, in each.
# `policy_tables` asks the generator for the table of every anchor.

# %%
tree = build_tree(game)
profile = gems_profile(state, game, run.config)
tables = policy_tables(tree, profile.population, sigma.shape[1])  # [populations, anchors, information sets, actions]
bets = np.asarray(tables[0, :, np.asarray(tree.seat) == 0, 0]).T  # of seat 0: [anchors, 6]
used = np.flatnonzero(np.asarray(state.active[0]))
shown = used[np.argsort(order[0, used])]  # from the oldest anchor to the newest
spent = f"{iterations} iterations, {run.metrics['env_steps'][0].sum() / 1e6:.2g}M steps"

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained", width_ratios=(1.3, 1))
figure.suptitle(f"Anchors of the first seat, Kuhn poker, seed 0, {spent}")
image = left.imshow(bets[shown].T, aspect="auto", vmin=0, vmax=1, cmap="viridis")
left.set(title="probability of a bet", xlabel="anchor, from the oldest to the newest", ylabel="information set")
figure.colorbar(image, ax=left, label="probability")
right.bar(np.arange(len(shown)), sigma[0, shown], color="tab:blue")
right.set(title="meta-strategy", xlabel="anchor, from the oldest to the newest", ylabel="mass sigma")
figure.show()

# %% [markdown]
# Columns of one color pattern are policies that act in the same way. `effective_policies` counts how many different
# ones the meta-strategy plays, which is fewer than the anchors.

# %%
for name in ("active_anchors", "effective_policies", "effective_policies_uniform"):
    print(f"{name:27}", *(f"{value:8.4g}" for value in run.metrics[name][:, -1]))

# %% [markdown]
# ## The codes
#
# Codes have eight dimensions. The first two principal components show where they lie; the color shows behavior, the
# probability of opening with a bet, averaged over the cards.

# %%
inputs = codes[0, shown] - codes[0, shown].mean(axis=0)
plane = inputs @ np.linalg.svd(inputs, full_matrices=False)[2][:2].T
figure, axes = plt.subplots(figsize=(6, 4.6), layout="constrained")
points = axes.scatter(*plane.T, c=bets[shown].mean(axis=1), s=30 + 400 * sigma[0, shown], vmin=0, vmax=1, alpha=0.85)
axes.set(title=f"Codes of the first seat, Kuhn poker, seed 0,\n{spent}; area: mass sigma")
axes.set(xlabel="first principal component", ylabel="second principal component")
figure.colorbar(points, label="mean probability of a bet")
figure.show()

# %% [markdown]
# ## Cross-play
#
# GEMS never computes the payoffs of all pairs of anchors. We can, exactly, because the game is small:
# `expected_returns` for every pair in one `vmap` of a `vmap`.

# %%
pair = lambda i, j: expected_returns(tree, jnp.stack([tables[0, i], tables[1, j]]))[0]  # noqa: E731
rows, columns = shown, np.flatnonzero(np.asarray(state.active[1]))
columns = columns[np.argsort(order[1, columns])]
payoffs = jax.vmap(jax.vmap(pair, (None, 0)), (0, None))(jnp.asarray(rows), jnp.asarray(columns))
figure, axes = plt.subplots(figsize=(6, 5), layout="constrained")
image = axes.imshow(payoffs, cmap="RdBu", vmin=-1, vmax=1)
axes.set(title=f"Anchor against anchor, Kuhn poker, seed 0,\n{spent}, exact")
axes.set(xlabel="anchor of the second seat, by age", ylabel="anchor of the first seat, by age")
figure.colorbar(image, label="return of the first seat (chips per game)")
figure.show()

# %%
value = float(sigma[0][rows] @ np.asarray(payoffs) @ sigma[1][columns])
print(f"value of the two mixtures to the first seat: {value:.4f}; of the game: {-1 / 18:.4f}")

# %% [markdown]
# ## Cross-play of seeds
#
# Populations of different seeds have never met. In a zero-sum game mixtures near the equilibrium must do equally well
# against each other; in cooperative games this matrix shows which conventions a seed relies on.

# %%
policies = [run.policy(seed) for seed in run.seeds]
for first in policies:
    games = [gems_jax.head_to_head(jax.random.key(7), game, first, other, episodes=4096) for other in policies]
    print("  ".join(f"{float(found.mean):+.3f} ± {float(found.interval):.3f}" for found in games))
