"""Episodes of the particle worlds: one row per arm, one column per seed, and a GIF per arm.

All arms of a column start from the same positions. The episode is the first that is played; none is selected.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from experiments.pictures.drawn import Drawn, trained
from gems_jax.evaluate.behavior import make_watch
from gems_jax.evaluate.loaded_policy import LoadedPolicy
from gems_jax.games.particles import ParticleGame, Particles
from gems_jax.runner.directory import slug
from gems_jax.types import GameState
from gems_jax.viz import particles
from gems_jax.viz.particles import Track
from gems_jax.viz.plotting import make_panels
from gems_jax.viz.transcripts import GameTable

if TYPE_CHECKING:
    from experiments.harness.spec import Plan

CELL, LEGEND = 2.7, 4.6  # inches; no figure is narrower than its legend


def ghosts(plan: Plan, folder: Path) -> Drawn:
    """Draws `ghosts.png`, and `ghosts-<arm>.gif` of the first seed; numbers: the behavior in each drawn episode."""
    arms = trained(plan, folder)
    games = {label: _particle_game(members[0].policy.game) for label, members in arms.items()}
    tables = {game: GameTable(game) for game in games.values()}
    tracks = {
        label: [_first_track(tables[games[label]], member.policy) for member in members]
        for label, members in arms.items()
    }
    rows, columns = len(tracks), len(plan.spec.seeds)
    figure, axes = make_panels(
        rows, columns, width=max(CELL * columns + 0.4, LEGEND), height=(CELL + 0.35) * rows + 0.4, sharex=False
    )
    numbers: dict[str, Any] = {}
    for (label, found), row in zip(tracks.items(), axes, strict=True):
        game, numbers[label] = games[label], {}
        for seed, track, axis in zip(plan.spec.seeds, found, row, strict=True):
            particles.set_stage(axis, track)
            particles.draw_ghosts(axis, game, track)
            axis.spines[:].set_visible(True)
            numbers[label][f"seed {seed}"] = watched(game, track)
            axis.set_title(
                f"{particles.describe_returns(game, track.reward.sum(axis=0))}\n{_told(watched(game, track))}",
                fontsize=7,
            )
        row[0].set_ylabel(label, fontsize=11)
    for seed, axis in zip(plan.spec.seeds, axes[-1], strict=True):
        axis.set_xlabel(f"seed {seed}", fontsize=9)
    times = ", ".join(map(str, particles.still_times(len(next(iter(tracks.values()))[0].reward))))
    how = f"steps {times}: the earlier, the fainter\ndashed: the square of side 2 in which everything starts"
    particles.draw_legend(figure, next(iter(games.values())), loc="outside lower center", title=how, title_fontsize=7.5)
    moving = {
        f"ghosts-{slug(label)}.gif": particles.encode_gif(games[label], found[0]) for label, found in tracks.items()
    }
    return Drawn({"ghosts.png": figure, **moving}, numbers)


def _particle_game(game: Any) -> ParticleGame:
    if not isinstance(game, ParticleGame):
        raise ValueError(f"ghosts are drawn of simple_tag and simple_spread, not of {game.name}")
    return game


def _first_track(table: GameTable, policy: LoadedPolicy) -> Track:
    return particles.play_track(table, policy, jax.random.key(policy.seed))


def watched(game: ParticleGame, track: Track) -> dict[str, float]:
    """Computes the behavior columns of one episode."""
    watch = make_watch(game)
    states = [_state(position) for position in track.position]
    seen = watch.start(states[0])
    for state in states[1:]:
        seen = watch.add(seen, state)
    return {name: float(total) for name, (total, _) in watch.columns(seen, jnp.int32(len(track.reward))).items()}


def _state(position: Any) -> GameState:
    """Extracts the positions of all entities."""
    nothing = jnp.zeros(())
    return GameState(Particles(jnp.asarray(position), nothing, nothing), *(nothing,) * 6)


_WORDS = {
    "captures": "captures {:.0f}",
    "encirclement": "largest gap {:.0f}° on average",
    "pursuer_spread": "{:.2f} apart",
    "covered": "covered {:.0%}",
    "collisions": "collisions {:.0f}",
    "distinct": "distinct {:.0f}",
}


def _told(found: dict[str, float]) -> str:
    return ", ".join(_WORDS[name].format(value) for name, value in found.items() if name != "distinct")
