"""Pictures of episodes of the particle worlds: a GIF, and a still with ghosts of earlier steps.

Kinds differ by shape and lightness as well as by color (of the Okabe-Ito set), so that pictures are readable in
grayscale: pursuers are light triangles, the evader is a dark disc, obstacles are hatched; agents of spread have three
shapes, landmarks are crosses. Bodies have their true sizes. matplotlib is loaded on first use.
"""

from __future__ import annotations

import io
import itertools
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.evaluate.loaded_policy import LoadedPolicy
from gems_jax.games.particles import Body, ParticleGame
from gems_jax.runner.errors import report_write_errors
from gems_jax.types import Array
from gems_jax.viz.plotting import silence_matplotlib
from gems_jax.viz.words import Words

GHOST_STEPS = 10  # steps between two ghosts of the still
FRAME_MILLISECONDS = 120
LAST_MILLISECONDS = 1500
INCHES, DPI = 4.2, 100
EDGE = "#222222"


class Look(NamedTuple):
    """Shape, color and label of an agent."""

    sides: int  # of the polygon; 0 for a disc
    color: str
    label: str


PURSUER, EVADER = Look(3, "#E69F00", "pursuer"), Look(0, "#0072B2", "evader")
AGENTS = (Look(0, "#0072B2", "agent"), Look(4, "#E69F00", "agent"), Look(3, "#009E73", "agent"))


class Track(NamedTuple):
    """Positions and rewards of one episode."""

    position: np.ndarray  # [T + 1, E, 2]
    reward: np.ndarray  # [T, S]


def play_track(table: Any, policy: LoadedPolicy, key: Array) -> Track:
    """Plays one episode on a `GameTable`, with all players sampled from the policy's mixture. key: consumed."""
    key_slots, key_start, key_play = jax.random.split(key, 3)
    game, policy = policy.game, policy.episode(key_slots)
    state = table.init(key_start)
    positions, rewards = [np.asarray(state.inner.position)], []
    for number in range(game.max_steps):
        key_act, key_step = jax.random.split(jax.random.fold_in(key_play, number))
        keys = jax.random.split(key_act, game.num_seats)
        actions = [policy.act(state.observation[s], state.legal[s], keys[s], s) for s in range(game.num_seats)]
        state = table.step(state, jnp.stack(actions), key_step)
        positions.append(np.asarray(state.inner.position))
        rewards.append(np.asarray(state.reward))
    return Track(np.stack(positions), np.stack(rewards))


def find_touches(game: ParticleGame, position: np.ndarray) -> list[tuple[int, int]]:
    """Lists pairs of agents whose contact is rewarded or penalized, at positions [E, 2]."""
    return [pair for pair in itertools.combinations(range(game.num_seats), 2) if _touch(game, position, *pair)]


def _touch(game: ParticleGame, position: np.ndarray, a: int, b: int) -> bool:
    rivals = "evader" in {body.kind for body in game.bodies}
    if rivals and game.sides[a] == game.sides[b]:
        return False
    return bool(np.linalg.norm(position[a] - position[b]) < game.bodies[a].radius + game.bodies[b].radius)


def describe_track(game: ParticleGame, words: Words, track: Track, number: int) -> str:
    """Describes an episode: contacts of agents, coverage of landmarks, returns."""
    when = [time for time, position in enumerate(track.position) if time and find_touches(game, position)]
    touched = f"  touches at steps {', '.join(map(str, when))}" if when else "  no touches"
    result = f"  result: {words.returns(np.round(track.reward.sum(axis=0), 2))}"
    return "\n".join([f"game {number}, {len(track.reward)} steps", touched, *_describe_coverage(game, track), result])


def _describe_coverage(game: ParticleGame, track: Track) -> list[str]:
    """Describes the distance of each landmark to its nearest agent, at the start and at the end."""
    if "landmark" not in {body.kind for body in game.bodies}:
        return []
    agents, marks = np.split(track.position[[0, -1]], [game.num_seats], axis=1)
    nearest = np.linalg.norm(agents[:, :, None] - marks[:, None], axis=-1).min(axis=1)  # [2, landmarks]
    first, last = (", ".join(f"{distance:.2f}" for distance in row) for row in nearest)
    return [f"  distance of each landmark to its nearest agent: {first} at the start, {last} at the end"]


def write_pictures(game: ParticleGame, tracks: list[Track], folder: Path, stem: str) -> list[Path]:
    """Writes a GIF and a still per episode to `folder`, with names that begin with `stem`; returns the files."""
    paths = []
    for number, track in enumerate(tracks, 1):
        for suffix, data in (("gif", encode_gif(game, track)), ("png", encode_still(game, track))):
            paths.append(folder / f"{stem}-game-{number}.{suffix}")
            with report_write_errors(paths[-1]):
                paths[-1].write_bytes(data)
    return paths


def agent_looks(game: ParticleGame) -> list[Look]:
    """Returns the look of each seat."""
    kinds = [body.kind for body in game.bodies[: game.num_seats]]
    named = {"pursuer": PURSUER, "evader": EVADER}
    return [named.get(kind, AGENTS[seat % len(AGENTS)]) for seat, kind in enumerate(kinds)]


def encode_gif(game: ParticleGame, track: Track) -> bytes:
    """Encodes an episode as a GIF; the last frame is shown longest."""
    from PIL import Image

    frames, so_far = [], np.cumsum(np.concatenate([np.zeros_like(track.reward[:1]), track.reward]), axis=0)
    for time, position in enumerate(track.position):
        figure, axes = _make_figure(game, track)
        _draw_landmarks(axes, game, position)
        for seat, look in enumerate(agent_looks(game)):
            _draw_agent(axes, look, game.bodies[seat], position[seat], 1.0)
        for pair in find_touches(game, position):
            middle = position[list(pair)].mean(axis=0)
            axes.plot(*middle, marker="*", markersize=13, color="#FFFFFF", markeredgecolor=EDGE, zorder=5)
        draw_legend(figure, game)
        axes.set_title(f"step {time} of {len(track.reward)}   {describe_returns(game, so_far[time])}", fontsize=9)
        frames.append(Image.open(io.BytesIO(_png(figure))).convert("RGB").quantize(64, dither=Image.Dither.NONE))
    data, still = io.BytesIO(), [FRAME_MILLISECONDS] * (len(frames) - 1) + [LAST_MILLISECONDS]
    frames[0].save(data, "GIF", save_all=True, append_images=frames[1:], duration=still, loop=0, disposal=1)
    return data.getvalue()


def still_times(last: int) -> list[int]:
    """Lists the steps of a still of `last` steps: 0, 10, 20, ... and the last."""
    return sorted({*range(0, last + 1, GHOST_STEPS), last})


def encode_still(game: ParticleGame, track: Track) -> bytes:
    """Encodes a still with ghosts (`draw_ghosts`) as a PNG."""
    figure, axes = _make_figure(game, track)
    draw_ghosts(axes, game, track)
    draw_legend(figure, game)
    times = still_times(len(track.reward))
    axes.set_title(
        f"steps {', '.join(map(str, times))}   {describe_returns(game, track.reward.sum(axis=0))}", fontsize=9
    )
    return _png(figure)


def draw_ghosts(axes: Any, game: ParticleGame, track: Track) -> None:
    """Draws steps 0, 10, 20, ... and the last, earlier ones fainter; thin lines are the trajectories."""
    times = still_times(len(track.reward))
    _draw_landmarks(axes, game, track.position[0])
    for rank, time in enumerate(times):
        alpha = 0.22 + 0.78 * (rank / max(len(times) - 1, 1)) ** 1.5
        for seat, look in enumerate(agent_looks(game)):
            _draw_agent(axes, look, game.bodies[seat], track.position[time, seat], alpha)
    _write_times(axes, game, track, times)
    for seat, look in enumerate(agent_looks(game)):
        axes.plot(*track.position[:, seat].T, color=look.color, linewidth=1.0, alpha=0.8, zorder=2)


def _write_times(axes: Any, game: ParticleGame, track: Track, times: list[int]) -> None:
    """Writes step numbers above the bodies, the latest first, without overlaps."""
    taken: list[np.ndarray] = []
    for time, seat in itertools.product(reversed(times), range(game.num_seats)):
        top = track.position[time, seat] + [0.0, game.bodies[seat].radius]
        if all(np.abs(top - other).max() > np.ptp(axes.get_ylim()) / 32 for other in taken):
            _label(axes, str(time), top)
            taken.append(top)


def describe_returns(game: ParticleGame, returns: np.ndarray) -> str:
    """Formats the mean return of each side."""
    owners = np.asarray(game.sides)
    names = [game.bodies[game.sides.index(side)].kind for side in range(owners.max() + 1)]
    means = [returns[owners == side].mean() for side in range(owners.max() + 1)]
    return ", ".join(f"{name}{'s' * (name != 'evader')} {mean:+.1f}" for name, mean in zip(names, means, strict=True))


def _make_figure(game: ParticleGame, track: Track) -> tuple[Any, Any]:
    """Makes a figure and axes that show the complete track."""
    silence_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(INCHES, INCHES + 0.4), dpi=DPI)  # a strip above for the title, one below for the legend
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.02, 0.065, 0.96, 0.865))
    set_stage(axes, track)
    return figure, axes


def set_stage(axes: Any, track: Track) -> None:
    """Sets the limits of axes to the complete track, and draws the starting square."""
    from matplotlib.patches import Rectangle

    low, high = _window(track)
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal", xticks=[], yticks=[])
    axes.add_patch(Rectangle((-1, -1), 2, 2, fill=False, edgecolor="#999999", linestyle=(0, (4, 3)), linewidth=0.8))


def _window(track: Track) -> tuple[np.ndarray, np.ndarray]:
    """Computes the lower left and upper right corner of a view of the starting square and the track."""
    low, high = np.minimum(track.position.min(axis=(0, 1)), -1.0), np.maximum(track.position.max(axis=(0, 1)), 1.0)
    centre, half = (low + high) / 2, 1.15 * (high - low).max() / 2
    return centre - half, centre + half


def _draw_landmarks(axes: Any, game: ParticleGame, position: np.ndarray) -> None:
    from matplotlib.patches import Circle

    for body, center in zip(game.bodies[game.num_seats :], map(_xy, position[game.num_seats :]), strict=True):
        if body.kind == "obstacle":
            axes.add_patch(Circle(center, body.radius, facecolor="#DDDDDD", edgecolor="#777777", hatch="///", zorder=1))
        else:
            axes.plot(*center, marker="x", markersize=9, markeredgewidth=2.5, color="#000000", zorder=4)


def _xy(position: np.ndarray) -> tuple[float, float]:
    return float(position[0]), float(position[1])


def _draw_agent(axes: Any, look: Look, body: Body, where: np.ndarray, alpha: float) -> None:
    """Draws the shape, and a thin ring at its contact radius."""
    from matplotlib.patches import Circle, RegularPolygon

    center = _xy(where)
    style: dict[str, Any] = {"facecolor": look.color, "edgecolor": EDGE, "linewidth": 0.8, "alpha": alpha, "zorder": 3}
    if look.sides:
        axes.add_patch(RegularPolygon(center, look.sides, radius=body.radius, **style))
    else:
        axes.add_patch(Circle(center, body.radius, **style))
    axes.add_patch(Circle(center, body.radius, fill=False, edgecolor=EDGE, linewidth=0.4, alpha=alpha, zorder=3))


def _label(axes: Any, text: str, top: np.ndarray) -> None:
    """Writes a small number with a white outline above a body."""
    from matplotlib.patheffects import withStroke

    rim = [withStroke(linewidth=1.8, foreground="#FFFFFF")]
    axes.annotate(text, top, (0, 1), textcoords="offset points", fontsize=6.5, ha="center", path_effects=rim, zorder=6)


def draw_legend(figure: Any, game: ParticleGame, **where: Any) -> None:
    """Draws the legend of the shapes; `where` are arguments of matplotlib's legend."""
    from matplotlib.lines import Line2D

    marker = {0: "o", 3: "^", 4: "D"}
    seats: dict[Look, list[str]] = {}
    for seat, look in enumerate(agent_looks(game), 1):
        seats.setdefault(look, []).append(str(seat))
    style: dict[str, Any] = {"linestyle": "", "markeredgecolor": EDGE, "markersize": 7}
    handles = [
        Line2D([], [], marker=marker[look.sides], color=look.color, label=_name_agents(look, numbers), **style)
        for look, numbers in seats.items()
    ]
    kinds = {body.kind for body in game.bodies[game.num_seats :]}
    if "landmark" in kinds:
        handles.append(Line2D([], [], marker="x", color="#000000", label="landmark", linestyle="", markersize=7))
    if "obstacle" in kinds:
        handles.append(Line2D([], [], marker="o", color="#DDDDDD", label="obstacle", **style))
    options = {"loc": "lower center", "ncols": len(handles), "fontsize": 7.5, "frameon": False, **where}
    figure.legend(handles=handles, **options)


def _name_agents(look: Look, numbers: list[str]) -> str:
    """Formats the label of a look: `pursuer`, or with the numbers of agents, `agent 2`, `agents 1, 4`."""
    return f"agent{'s' * (len(numbers) > 1)} {', '.join(numbers)}" if look.label == "agent" else look.label


def _png(figure: Any) -> bytes:
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=DPI, metadata={"Software": None})
    return data.getvalue()
