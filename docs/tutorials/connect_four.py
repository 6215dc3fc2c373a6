# %% [markdown]
# # Connect Four, from zero to beating a tactician
#
# Connect Four cannot be enumerated here: there is no exact exploitability. What can be measured is play against fixed
# opponents that do not move when the policy does. One of them, the *tactician*, wins at once if it can, else blocks the
# opponent's four, else plays at random.

# %%
import os
import tempfile
from pathlib import Path

import jax
import matplotlib.pyplot as plt
import numpy as np

import gems_jax
from gems_jax.evaluate.greedy import greedy_profile
from gems_jax.opponents.registry import opponents_of

QUICK = bool(os.environ.get("GEMS_TUTORIAL_QUICK"))  # the tests run this page with small sizes

# %% [markdown]
# ## Train
#
# Both seats draw their policies from one population (`shared=True`), so what is learned in one seat helps in the other.
# The settings are the preset `tuned` with smaller estimates: half of the episodes per candidate and anchor. They were
# not tuned further. Every twentieth iteration the mixture plays 512 episodes against each cheap opponent.
#
# The run has a folder: it can be watched with `gems eval`, interrupted, and continued with `gems resume`. If the folder
# is there already, this page reads it instead of training again. The run behind this page was stopped after 471
# iterations.

# %%
settings = gems_jax.preset("connect_four", "tuned").replace(
    capacity=8, num_opponents=8, meta_steps=1, oracle_opponents=8, mutations=2, randoms=2
)
folder, iterations, episodes = Path("runs/tutorial_connect_four"), 471, 512
if QUICK:
    settings = settings.replace(policy_hidden=(8, 8), critic_hidden=(8,), abr_steps=1, abr_opponents=2, abr_epochs=1)
    folder, iterations, episodes = Path(tempfile.mkdtemp()) / "run", 2, 64
if not folder.exists():
    gems_jax.train(
        gems_jax.make_game("connect_four", shared=True),
        config=settings,
        iterations=iterations,
        run_dir=folder,
        evaluation_every=20,
        evaluation_episodes=episodes,
    )
rows = np.genfromtxt(folder / "metrics.csv", delimiter=",", names=True)[:iterations]
steps = rows["env_steps"].sum() / 1e6
print(f"{len(rows)} iterations, {steps:.1f}M environment steps, {rows['episodes'].sum():,.0f} episodes")

# %% [markdown]
# ## The curve
#
# The score is wins plus half of the draws. The band is the 95 % interval over the episodes of each measurement. Random
# play is beaten after a few iterations; the tactician, which punishes every open three, takes longer.

# %%
figure, axes = plt.subplots(figsize=(7.5, 4.2), layout="constrained")
measured = rows[~np.isnan(rows["score_tactician"])]
for name, color in (("random", "tab:gray"), ("tactician", "tab:blue")):
    score, margin = measured[f"score_{name}"], measured[f"score_{name}_interval"]
    axes.plot(measured["iteration"], score, "o-", markersize=3, color=color, label=f"against {name}")
    axes.fill_between(measured["iteration"], score - margin, score + margin, color=color, alpha=0.2)
axes.axhline(0.5, color="black", linewidth=0.8, linestyle=":")
axes.set(title=f"GEMS on Connect Four: 1 seed, {steps:.0f}M environment steps, {episodes} games a point")
axes.set(xlabel="iteration", ylabel="score (wins + draws / 2)", ylim=(0, 1))
axes.legend()
figure.show()

# %% [markdown]
# ## Measure the result again
#
# The last points of a curve were used to decide when to stop. New games decide whether the tactician is beaten. A
# mixture draws one of its policies for each game. In training a policy draws its actions, which explores, and loses
# games that were won; `greedy_profile` plays the most probable action instead.
# `opponents_of(game)` has stronger opponents, such as `minimax_4`, which sees every win within four plies.

# %%
policy = gems_jax.load(folder)
profiles = {"drawn": policy.profile, "greedy": greedy_profile(policy.profile)}
rival = opponents_of(policy.game)["tactician"]
for actions, profile in profiles.items():
    found = gems_jax.head_to_head(jax.random.key(2026), policy.game, profile, rival, episodes=64 if QUICK else 4096)
    score, margin = float(found.win + found.draw / 2), float(found.interval) / 2  # returns are -1, 0, 1
    print(f"{actions:6} actions against the tactician: score {score:.3f} ± {margin:.3f} in {found.episodes} games")

# %% [markdown]
# ## Watch a game
#
# `gems replay RUN` writes games as animations, and `gems play RUN` lets you play. Here is the first game against the
# tactician: `X` is the trained policy, which begins.

# %%
game = policy.game
policy = policy.episode(jax.random.key(1))  # draws the policy of this game
step = jax.jit(game.step)
state, moves = game.init(jax.random.key(0)), []
while not state.done and len(moves) < (4 if QUICK else 42):
    seat = int(np.argmax(state.to_move))
    if seat == 0:
        action = policy.act(state, key=jax.random.key(len(moves)), seat=0)
    else:
        logits = rival.apply(rival.params, state.observation[1], state.legal[1]).logits
        action = jax.random.categorical(jax.random.key(100 + len(moves)), logits)
    moves.append(int(action))
    state = step(state, jax.numpy.full(2, action), jax.random.key(0))
board = [["." for _ in range(7)] for _ in range(6)]
for ply, column in enumerate(moves):
    row = max(row for row in range(6) if board[row][column] == ".")
    board[row][column] = "XO"[ply % 2]
print("\n".join(" ".join(row) for row in board))
print("columns played:", *moves)

# %% [markdown]
# ## How strong is that?
#
# Greedy play beats the tactician; drawn actions are level with it. The tactician sees one move ahead, so this is still
# weak play: `gems eval RUN --opponents minimax_2 minimax_4` measures it against players that see further. The curve had
# not ended yet; [the results](../results/connect4.md) have other lengths. `gems exploit RUN` trains an opponent against
# the frozen mixture, which is the closest to exploitability that a game of this size allows.
