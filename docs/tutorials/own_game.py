# %% [markdown]
# # Your own game
#
# A game is a class with two pure functions, `init` and `step`, and a few declarations. This page writes a sealed-bid
# auction, checks it, solves it and compares the result with theory. [Add a game](../add_a_game.md) is the reference.
#
# ## The rules
#
# Two bidders each draw a private value of 0 to 4. Both name a bid at the same time. The higher bid wins the item and
# pays itself; equal bids share it. For values on a continuous scale, theory says: bid half of your value.

# %%
import dataclasses
import os

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import gems_jax
from gems_jax import GameState
from gems_jax.testing import check_game

QUICK = bool(os.environ.get("GEMS_TUTORIAL_QUICK"))  # the tests run this page with small sizes


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Auction:
    """A first-price auction of one item between two bidders with private values 0..4."""

    levels: int = 5

    name, num_seats = "auction", 2
    simultaneous, continuous, zero_sum = True, False, False
    player_of_seat, population_of_player = (0, 1), (0, 0)  # bidders are symmetric: one population serves both
    max_steps = 1
    num_actions = property(lambda self: self.levels)
    observation_shape = property(lambda self: (self.levels,))
    return_bounds = property(lambda self: (1.0 - self.levels, self.levels - 1.0))

    def init(self, key):
        return self.deal(jax.random.randint(key, (2,), 0, self.levels))

    def deals(self):
        """All deals and their probabilities: with them, values and best responses are exact."""
        pairs = jnp.stack(jnp.meshgrid(*[jnp.arange(self.levels)] * 2), axis=-1).reshape(-1, 2)
        return jax.vmap(self.deal)(pairs), jnp.full(len(pairs), 1.0 / len(pairs))

    def deal(self, values):
        return self.position(values, jnp.zeros(2), jnp.bool_(False))

    def step(self, state, actions, key):
        mine, theirs = actions, actions[::-1]
        wins = jnp.where(mine > theirs, 1.0, jnp.where(mine == theirs, 0.5, 0.0))
        profit = wins * (state.inner - mine)
        return self.position(state.inner, jnp.where(state.done, 0.0, profit), jnp.bool_(True))

    def position(self, values, reward, done):
        seen = jax.nn.one_hot(values, self.levels)
        to_move = jnp.broadcast_to(~done, (2,))
        legal = jnp.broadcast_to(to_move[:, None], (2, self.levels))
        return GameState(values, seen, legal, to_move, reward, done, jnp.bool_(False))


# %% [markdown]
# ## Check it
#
# `check_game` plays random episodes and names the first violation of the contract: shapes, legal actions, rewards,
# purity, compiled against plain execution. `gems games --check my_file:Auction` does the same on the command line.

# %%
game = Auction()
check_game(game, episodes=4 if QUICK else 32)
print("the game keeps its contract")

# %% [markdown]
# A mistake is named by its place. This version forgets that the winner pays:


# %%
@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class FreeAuction(Auction):
    return_bounds = (0.0, 1.0)


try:
    check_game(FreeAuction(), episodes=4)
except Exception as error:
    print(error)

# %% [markdown]
# ## Solve it
#
# A game without a preset of its own gets settings that are derived from its sizes. The auction is not zero-sum, so the
# measure is NashConv: the sum of what both bidders could gain by deviating.

# %%
settings, iterations, seeds = gems_jax.preset(game, "auto"), 15, 3
if QUICK:
    small = {"mixture_samples": 64, "buffer_episodes": 256, "capacity": 4, "mutations": 4, "randoms": 4}
    settings, iterations, seeds = settings.replace(**small), 2, 2
run = gems_jax.train(game, config=settings, iterations=iterations, seeds=seeds)
run

# %%
steps = run.metrics["env_steps"].cumsum(axis=1)
budget = f"{seeds} seeds, {steps[0, -1] / 1e6:.2g}M environment steps each"
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
figure.suptitle(f"First-price auction: {budget}")
left.plot(steps.T, np.maximum(run.metrics["nash_conv"].T, 1e-6), color="tab:blue", alpha=0.6)
left.set(
    title="Distance from equilibrium", xlabel="environment steps", ylabel="NashConv (units of value)", yscale="log"
)
values = np.arange(game.levels)
for seed in run.seeds:
    policy = run.policy(seed)
    bids = [float(policy.probabilities(jax.nn.one_hot(v, 5), np.ones(5, bool), seat=0) @ values) for v in values]
    right.plot(values, bids, "o-", alpha=0.7, label=f"seed {seed}")
right.plot(values, values / 2, color="gray", linestyle=":", label="half of the value")
right.set(title="What it bids", xlabel="private value", ylabel="mean bid", xticks=values)
right.legend()
figure.show()

# %% [markdown]
# Bids are whole numbers, and on this coarse grid the seeds agree on bids below half of the value: nothing for a value
# of 1, and 1 for all values above, with a rare 2 at the top. NashConv says that this is close to an equilibrium:
# together, the bidders could gain less than a hundredth by deviating.
#
# ## From here
#
# - Put the class into a file, `my_game.py`; then every command takes `my_game:Auction` where it takes the name of a
#   game, as in `gems train my_game:Auction --game-option levels=9`.
# - A file names its game. A run of a class from a notebook is loaded with `gems_jax.load(path, game=game)`.
# - A normal-form game needs no class, only its payoffs: `gems_jax.matrix_game([[0, -1, 3], [1, 0, -2], [-3, 2, 0]])`.
