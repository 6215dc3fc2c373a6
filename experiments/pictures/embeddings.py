"""Anchors as points: principal components of their behavior, and of their latent codes. One row per seed.

All players are evaluated on the same positions, taken in equal parts from the play of each, so that two clouds differ
only in behavior. If one population fills both seats, its anchors are evaluated on the positions of each seat
separately; the clouds then differ in the positions, too.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from experiments.measures import embeddings as maths
from experiments.pictures.drawn import Drawn, Trained, trained, untrained
from gems_jax.evaluate.sampled import player_labels
from gems_jax.rollout.views import take_population
from gems_jax.runner.directory import slug
from gems_jax.types import Game, num_players
from gems_jax.viz.plotting import make_panels
from gems_jax.viz.words import words_of

if TYPE_CHECKING:
    from experiments.harness.spec import Plan

POSITIONS = 64  # per player
MOST_ANCHORS = 400  # per player: of more, evenly spaced ones
MARKERS = ("o", "^", "s", "D", "v", "P")
SHARED = "X"  # the marker of codes that several players have
COLOURS = "viridis"  # from dark to light in steps that look equal, in grey as well


class Cloud(NamedTuple):
    """Points of all players with their owners."""

    points: np.ndarray  # [n, d]
    owner: np.ndarray  # [n]
    entropy: np.ndarray  # [n], nats


class Embedded(NamedTuple):
    actions: Cloud
    codes: Cloud | None  # of methods that have any; one owner where the players share a population
    names: tuple[str, ...]  # of the players
    shared: bool = False


def embeddings(plan: Plan, folder: Path) -> Drawn:
    """Draws `embeddings-<arm>.png`; numbers by arm: positions of the clouds of every `seed`, and `before` training.

    Before training means the final anchors under the untrained generator. Methods without codes have no such numbers.
    """
    files, numbers = {}, {}
    for label, members in trained(plan, folder).items():
        found = {f"seed {member.policy.seed}": embed(member) for member in members}
        told = {seed: quantities(seen) for seed, seen in found.items()}
        files[f"embeddings-{slug(label)}.png"] = _figure(label, found, told)
        start = {f"before seed {one.policy.seed}": untrained(folder / slug(label), one) for one in members}
        numbers[label] = told | {name: quantities(embed(one)) for name, one in start.items() if one is not None}
    return Drawn(files, numbers)


def embed(member: Trained) -> Embedded:
    """Computes behavior and codes of the anchors of one seed."""
    policy, game = member.policy, member.policy.game
    if game.continuous:
        raise ValueError(f"embeddings need probabilities of actions, and {game.name} has continuous ones")
    players, owners = range(num_players(game)), game.population_of_player
    keys = jax.random.split(jax.random.key(0), len(players))
    probes = [maths.probe(keys[p], game, policy.profile, p, POSITIONS) for p in players]
    shared = len(set(owners)) < len(players)
    if not shared:
        together = jax.tree.map(
            lambda *parts: jnp.concatenate([part[: POSITIONS // len(players)] for part in parts]), *probes
        )
        probes = [together] * len(players)
    legal = np.any([probe.legal for probe in probes], axis=0)
    points, entropy, sizes = [], [], []
    slots = [_some(member.active[owners[p]]) for p in players]
    for p in players:
        chances = np.asarray(
            maths.choices(take_population(policy.profile.population, owners[p]), jnp.asarray(slots[p]), probes[p])
        )
        points.append(maths.features(chances, legal))
        entropy.append(maths.mean_entropy(chances))
        sizes.append(len(chances))
    actions = Cloud(np.concatenate(points), np.repeat(players, sizes), np.concatenate(entropy))
    return Embedded(actions, _codes(member, slots, entropy), _names(game), shared)


def _names(game: Game) -> tuple[str, ...]:
    """Names the players; those of board games by their seats."""
    seats = words_of(game).seats
    return seats if len(seats) == num_players(game) else player_labels(game)


def _some(active: np.ndarray) -> np.ndarray:
    slots = np.flatnonzero(active)
    return slots[np.unique(np.linspace(0, len(slots) - 1, min(len(slots), MOST_ANCHORS)).round().astype(int))]


def _codes(member: Trained, slots: list[np.ndarray], entropy: list[np.ndarray]) -> Cloud | None:
    """Collects the codes of every population once, with the entropy of the first player drawn from it."""
    codes: Any = getattr(member.policy.profile.population, "codes", None)  # [P, K, D]
    if codes is None:
        return None
    owners = member.policy.game.population_of_player
    first = [owners.index(population) for population in sorted(set(owners))]
    points = [np.asarray(codes[owners[p]])[slots[p]] for p in first]
    sizes = [len(part) for part in points]
    return Cloud(np.concatenate(points), np.repeat(first, sizes), np.concatenate([entropy[p] for p in first]))


def quantities(seen: Embedded) -> dict[str, float | None]:
    """Describes the clouds; numbers without meaning (codes of stored policies, players with common codes) are None.

    players: silhouette of the players' clouds. two: silhouette of the best two clusters; one: that of one normal cloud
    of the same covariance, cut in two; two_are_players: fraction of points whose cluster is that of their player.
    distance, dimension: mean distance of two points, and number of directions in which they spread. ..._within: the
    same within the cloud of each player, mean over players. variance: fraction of the variance in the two components
    drawn. entropy: in nats, mean.
    """
    found: dict[str, float | None] = {
        "anchors": float(len(seen.actions.points)),
        "entropy": float(seen.actions.entropy.mean()),
    }
    for name, cloud in (("actions", seen.actions), ("codes", seen.codes)):
        found |= {f"{name}_{what}": value for what, value in _of_cloud(cloud).items()}
    return found


def _of_cloud(cloud: Cloud | None) -> dict[str, float | None]:
    names = (
        "players", "two", "one", "two_are_players", "two_within", "one_within", "distance", "dimension",
        "distance_within", "dimension_within", "variance",
    )  # fmt: skip
    if cloud is None:
        return dict.fromkeys(names)
    scores, shares = maths.principal(cloud.points)
    kept = scores[:, shares > 1e-12] if shares.any() else scores[:, :1]
    owners = np.unique(cloud.owner)
    each = [kept[cloud.owner == owner] for owner in owners]
    values = (
        maths.silhouette(kept, cloud.owner) if len(owners) > 1 else None,
        maths.two_cloud_silhouette(kept),
        maths.one_cloud_reference(kept),
        maths.agreement(maths.two_means(kept), cloud.owner == owners[0]) if len(owners) == 2 else None,
        _mean(maths.two_cloud_silhouette, each),
        _mean(maths.one_cloud_reference, each),
        maths.mean_pairwise_distance(kept),
        maths.effective_dimension(kept),
        _mean(maths.mean_pairwise_distance, each),
        _mean(maths.effective_dimension, each),
        float(shares[:2].sum()),
    )
    return dict(zip(names, values, strict=True))


def _mean(function: Callable[[np.ndarray], float], clouds: list[np.ndarray]) -> float:
    return float(np.mean([function(part) for part in clouds]))


def _figure(label: str, found: dict[str, Embedded], told: dict[str, dict[str, float | None]]) -> Any:
    clouds = ["actions"] + ["codes"] * all(seen.codes is not None for seen in found.values())
    figure, axes = make_panels(
        len(found), len(clouds), width=4.4 * len(clouds) + 1.2, height=3.3 * len(found) + 0.7, sharex=False
    )
    every = np.concatenate([seen.actions.entropy for seen in found.values()])
    limits = {"vmin": every.min(), "vmax": max(every.max(), every.min() + 1e-9), "cmap": COLOURS}
    drawn = None
    for row, (seed, seen) in zip(axes, found.items(), strict=True):
        for axis, what in zip(row, clouds, strict=True):
            markers = (SHARED,) if seen.shared and what == "codes" else MARKERS
            drawn = _scatter(axis, getattr(seen, what), markers, limits)
            axis.set_title(_title(what, told[seed]), fontsize=7.5)
            shares = 100 * maths.principal(getattr(seen, what).points).shares
            first, second = (shares[i] if i < len(shares) else 0.0 for i in (0, 1))
            axis.set_xlabel(f"component 1 ({first:.0f} % of variance)", fontsize=8)
            axis.set_ylabel(f"component 2 ({second:.0f} % of variance)", fontsize=8)
        row[0].annotate(
            f"{label}, {seed}",
            (-0.24, 0.5),
            xycoords="axes fraction",
            rotation=90,
            va="center",
            ha="center",
            fontsize=10,
        )
    bar = figure.colorbar(drawn, ax=axes, fraction=0.03, pad=0.02)
    bar.set_label("entropy of the actions (nats, mean over positions)", fontsize=8)
    bar.ax.tick_params(labelsize=8)
    _legend(figure, next(iter(found.values())))
    return figure


def _scatter(axis: Any, cloud: Cloud, markers: tuple[str, ...], limits: dict[str, Any]) -> Any:
    scores = maths.principal(cloud.points).scores
    flat = np.zeros((len(scores), 2))
    flat[:, : min(2, scores.shape[1])] = scores[:, :2]
    drawn = None
    for player in np.unique(cloud.owner):
        mine = cloud.owner == player
        drawn = axis.scatter(
            *flat[mine].T, c=cloud.entropy[mine], marker=markers[player % len(markers)], s=34, edgecolors="0.15",
            linewidths=0.6, alpha=0.9, **limits,
        )  # fmt: skip
    axis.grid(True, color="0.92", linewidth=0.6)
    axis.set_axisbelow(True)
    return drawn


def _title(what: str, told: dict[str, float | None]) -> str:
    name = {"actions": "what anchors do", "codes": "latent codes"}[what]
    players, two, one, distance, dimension = (
        told[f"{what}_{part}"] for part in ("players", "two", "one", "distance", "dimension")
    )
    apart = "" if players is None else f"players {players:.2f}, "
    return (
        f"{name}: mean distance {distance:.2g}, effective dimension {dimension:.1f}\n"
        f"silhouettes: {apart}best two clusters {two:.2f} (one cut in two {one:.2f})"
    )


def _legend(figure: Any, seen: Embedded) -> None:
    from matplotlib.lines import Line2D

    names = [name.replace("_", " ") for name in seen.names]
    markers = [MARKERS[player % len(MARKERS)] for player in range(len(names))]
    if seen.shared and seen.codes is not None:
        names, markers = [*names, "code of an anchor that fills all places"], [*markers, SHARED]
    style: dict[str, Any] = {"color": "0.6", "markeredgecolor": "0.15", "linestyle": ""}
    handles = [Line2D([], [], marker=marker, label=name, **style) for marker, name in zip(markers, names, strict=True)]
    asked = "the positions of its own place" if seen.shared else "the same positions, from the play of all"
    figure.legend(
        handles=handles, loc="outside lower center", ncols=len(handles), fontsize=8, frameon=False,
        title=f"a point is an anchor, asked about {asked}", title_fontsize=8,
    )  # fmt: skip
