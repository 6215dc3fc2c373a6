"""How much of the variance of returns do control variates leave, and what must a critic observe?

Four anchors per player play each other in all pairs. In poker these are uniform play, two random tables and an
equilibrium, on boards random networks from nearly uniform to nearly pure. A critic learns in rounds, each from 64 new
episodes of every pair, played with the current critic. The study measures, on other episodes, the variance within pairs
of the corrected return as a fraction of that of the plain return. Its inverse is the factor of episodes saved at equal
error. All estimators are unbiased, so nothing else distinguishes them.

The correction branches every move: `count_branches` calls of `game.step` per played step, on the rules as a model.
These are not played, and environment steps do not count them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from experiments.harness.study import Findings, Study
from gems_jax import GemsConfig, make_game
from gems_jax.estimation.control_variates import RecordedEpisode, count_branches, make_recorded_play
from gems_jax.estimation.deals import list_deals, start_from_deal, stratify_deals
from gems_jax.estimation.history_critic import CriticState, make_history_critic
from gems_jax.extensive.equilibrium import solve_sequence_form
from gems_jax.extensive.infosets import infoset_policy, tabular_policies
from gems_jax.extensive.restricted import plan_table
from gems_jax.extensive.tree import build_tree
from gems_jax.learning.networks import policy_network
from gems_jax.policies.population import StackedPolicies
from gems_jax.rollout.episode import play_episode
from gems_jax.rollout.groups import play_joint
from gems_jax.types import Array, Game, PyTree
from gems_jax.viz.plotting import add_legend, choose_styles, make_panels
from gems_jax.viz.tables import TextTable

POKER = ("kuhn_poker", "leduc_holdem")
GAMES = (*POKER, "tic_tac_toe", "connect_four")
ANCHORS, EPISODES = 4, 64  # per player; per pair and round
ROUNDS, QUICK_ROUNDS = 16, 4
STEPS, BATCH, LEARNING_RATE = 100, 256, 3e-3  # of a round's training
MEASURED, FOLDS = 256, 8  # episodes of each pair that are measured, in folds for the standard error
GROUP = 16  # episodes of a pair whose deals are stratified together
PAIRS = np.stack(np.meshgrid(np.arange(ANCHORS), np.arange(ANCHORS), indexing="ij"), axis=-1).reshape(-1, 2)
NO_CRITIC, CRITIC, INFORMED, STRATIFIED = "no critic", "critic", "critic, told the pair", "stratified deals alone"


def anchors_of(name: str, game: Game) -> StackedPolicies:
    """Makes four policies of each player, [2, 4, ...]."""
    if name in POKER:
        tree, network = build_tree(game), infoset_policy(game)
        sharpness = jnp.asarray([0.0, 1.0, 2.0]).reshape(1, 3, 1, 1)
        logits = sharpness * jax.random.normal(jax.random.key(1), (2, 3, *network.legal.shape))
        table = plan_table(tree, jnp.asarray(solve_sequence_form(tree), jnp.float32))
        solved = tabular_policies(game, jnp.broadcast_to(table, (2, 1, *table.shape)))
        return StackedPolicies(jnp.concatenate([logits, solved.params], axis=1), network)
    network = policy_network(game, GemsConfig(policy="mlp", policy_hidden=(32,)))
    params = jax.vmap(jax.vmap(network.init))(jax.random.split(jax.random.key(1), (2, ANCHORS)))
    sharpness = jnp.asarray([1.0, 30.0, 100.0, 300.0])
    head = jax.tree.map(lambda leaf: leaf * sharpness.reshape(1, ANCHORS, *(1,) * (leaf.ndim - 2)), params["head"])
    return StackedPolicies({**params, "head": head}, network)


class Programs(NamedTuple):
    """Compiled programs of one game."""

    init: Callable[[], CriticState]
    record: Callable[..., RecordedEpisode]  # (params, key, told) -> leaves [pairs, EPISODES, ...]
    train: Callable[..., CriticState]  # (state, key, targets, told)
    stratified: Callable[[Array], tuple[Array, Array]] | None  # key -> plain and stratified returns [pairs, episodes]


def compile_game(game: Game, policies: StackedPolicies) -> Programs:
    """Makes the programs of a game. The context is the pair's one-hot code times `told`, 1 or 0."""
    codes = jax.nn.one_hot(PAIRS, ANCHORS).reshape(len(PAIRS), -1)
    critic = make_history_critic(game, codes.shape[1])

    @jax.jit
    def record(params: PyTree, key: Array, told: Array) -> RecordedEpisode:
        lanes = (jnp.repeat(told * codes[:, None], EPISODES, axis=1),)
        return play_joint(make_recorded_play(critic, params), key, game, policies, PAIRS, EPISODES, lanes)

    @jax.jit
    def train(state: CriticState, key: Array, targets: PyTree, told: Array) -> CriticState:
        rows = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), targets)
        context = jnp.repeat(told * codes, EPISODES, axis=0)
        return critic.train(state, key, rows, context, steps=STEPS, batch=BATCH, learning_rate=LEARNING_RATE)[0]

    @jax.jit
    def stratified(key: Array) -> tuple[Array, Array]:
        key_deals, key_plain, key_play = jax.random.split(key, 3)
        groups = MEASURED // GROUP
        deals = stratify_deals(key_deals, game, (len(PAIRS), groups), (GROUP,)).reshape(len(PAIRS), MEASURED)
        plain = play_joint(play_episode, key_plain, game, policies, PAIRS, MEASURED)
        dealt = play_joint(start_from_deal(play_episode), key_play, game, policies, PAIRS, MEASURED, (deals,))
        return plain.returns[..., 0], dealt.returns[..., 0]

    listed = list_deals(game)
    several = listed is not None and len(listed[1]) > 1
    return Programs(lambda: critic.init(jax.random.key(0)), record, train, stratified if several else None)


@dataclasses.dataclass(frozen=True)
class Measured:
    """A fraction of variance with its standard error, and the bias in standard errors."""

    fraction: float
    standard_error: float
    bias: float


def compare(parts: Programs, params: PyTree, told: Array) -> Measured:
    """Compares variances within pairs of the first seat's corrected and plain returns, on common episodes."""
    keys = jax.random.split(jax.random.key(2), MEASURED // EPISODES)
    played = [parts.record(params, key, told) for key in keys]
    corrected, plain = (
        np.concatenate([np.asarray(one, np.float64)[..., 0] for one in several], axis=1)
        for several in ([one.returns for one in played], [one.plain for one in played])
    )
    folds = [
        a.var(axis=1, ddof=1).sum() / b.var(axis=1, ddof=1).sum()
        for a, b in zip(np.split(corrected, FOLDS, axis=1), np.split(plain, FOLDS, axis=1), strict=True)
    ]
    fraction = corrected.var(axis=1, ddof=1).sum() / plain.var(axis=1, ddof=1).sum()
    added = (corrected - plain).ravel()
    bias = added.mean() / max(added.std() / np.sqrt(added.size), 1e-12)
    return Measured(float(fraction), float(np.std(folds, ddof=1) / np.sqrt(FOLDS)), float(bias))


def compare_groups(plain: Array, stratified: Array) -> Measured:
    """Compares variances of means of stratified groups, times GROUP, with plain ones; returns are [pairs, episodes]."""
    means = np.asarray(stratified, np.float64).reshape(len(PAIRS), -1, GROUP).mean(axis=2)
    each = np.asarray(plain, np.float64).var(axis=1, ddof=1)
    fractions = GROUP * means.var(axis=1, ddof=1) / each.mean()
    bias = (means.mean() - np.asarray(plain).mean()) / np.sqrt(2 * each.sum() / MEASURED) * len(PAIRS)
    return Measured(float(fractions.mean()), float(fractions.std(ddof=1) / np.sqrt(len(PAIRS))), float(bias))


def study_game(name: str, rounds: int) -> list[dict[str, Any]]:
    """Measures all estimators of one game, and critics after 1, 2, 4, ... rounds."""
    game = make_game(name)
    parts = compile_game(game, anchors_of(name, game))
    keys = jax.random.split(jax.random.key(4), (rounds, 2))
    rows: list[dict[str, Any]] = []

    def add(estimator: str, episodes: int, steps: int, found: Measured) -> None:
        row = {"game": name, "estimator": estimator, "training_episodes": episodes, "training_env_steps": steps}
        calls = 0 if estimator == STRATIFIED else count_branches(game)
        rows.append({**row, **dataclasses.asdict(found), "saving": 1 / found.fraction, "model_calls_per_step": calls})

    for estimator, told in ((CRITIC, 0.0), (INFORMED, 1.0)):
        state, steps, know = parts.init(), 0, jnp.float32(told)
        for number in range(1, rounds + 1):
            key_play, key_train = keys[number - 1]
            played = parts.record(state.params, key_play, know)
            state = parts.train(state, key_train, played.targets, know)
            steps += int(played.length.sum())
            if number & (number - 1) == 0:
                add(estimator, number * EPISODES * len(PAIRS), steps, compare(parts, state.params, know))
    silent = jax.tree.map(jnp.zeros_like, parts.init().params)
    add(NO_CRITIC, 0, 0, compare(parts, silent, jnp.float32(0.0)))
    if parts.stratified is not None:
        add(STRATIFIED, 0, 0, compare_groups(*parts.stratified(jax.random.key(3))))
    return rows


def control_variate_study(quick: bool = False) -> Findings:
    """Measures all estimators on all games."""
    rounds = QUICK_ROUNDS if quick else ROUNDS
    numbers = [row for name in GAMES for row in study_game(name, rounds)]
    biased = max(abs(row["bias"]) for row in numbers)
    told = {row["game"]: row["fraction"] for row in numbers if row["estimator"] == INFORMED}
    checks = [
        (f"no correction is biased: the largest mean is {biased:.1f} standard errors from 0", biased < 4.5),
        ("in both pokers a critic that is told the pair leaves at most a third of the variance",
         max(told[name] for name in POKER) < 1 / 3),
    ]  # fmt: skip
    return Findings(_table(numbers, rounds), {"control_variates": _figure(numbers)}, numbers, checks)


def _last(numbers: list[dict[str, Any]], game: str, estimator: str) -> dict[str, Any] | None:
    rows = [row for row in numbers if (row["game"], row["estimator"]) == (game, estimator)]
    return rows[-1] if rows else None


def _table(numbers: list[dict[str, Any]], rounds: int) -> TextTable:
    estimators = (STRATIFIED, NO_CRITIC, CRITIC, INFORMED)
    body = []
    for game in GAMES:
        found = [_last(numbers, game, estimator) for estimator in estimators]
        shown = ("-" if row is None else f"{row['fraction']:.3g} ± {row['standard_error']:.1g}" for row in found)
        best = found[-1]
        assert best is not None
        body.append((game, *shown, f"{best['saving']:.3g}", str(best["model_calls_per_step"])))
    caption = (
        f"variance within pairs as a fraction of the plain return's, ± standard error; critics have learned from "
        f"{rounds * EPISODES * len(PAIRS):,} episodes; saving: how many times fewer episodes give the same error with "
        "the last one; calls: of game.step on branches, per played step and not counted as played"
    )
    return TextTable(("", *estimators, "saving", "calls"), tuple(body), (len(body) - 1,), caption)


def _figure(numbers: list[dict[str, Any]]) -> Any:
    figure, (axes,) = make_panels(1, len(GAMES), width=11.0, height=3.4, sharey=True)
    for axis, game in zip(axes, GAMES, strict=True):
        for style, estimator in zip(choose_styles((CRITIC, INFORMED)), (CRITIC, INFORMED), strict=True):
            rows = [row for row in numbers if (row["game"], row["estimator"]) == (game, estimator)]
            axis.plot(
                [row["training_episodes"] for row in rows], [row["fraction"] for row in rows], label=estimator,
                color=style.color, linestyle=style.line, marker=style.marker, markersize=5, linewidth=1.6,
            )  # fmt: skip
        without = _last(numbers, game, NO_CRITIC)
        assert without is not None
        axis.axhline(without["fraction"], color="0.5", linewidth=1.0, label=NO_CRITIC)
        axis.set_title(game, fontsize=10)
        axis.set_xlabel("episodes learned from")
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.grid(True, color="0.9", linewidth=0.6)
    axes[0].set_ylabel("variance, as a fraction of plain")
    add_legend(figure, axes[0], None, 3)
    return figure


EXPERIMENT = Study(
    name="control_variates",
    title="What control variates leave of the variance of returns",
    measure=control_variate_study,
    convention="variance within pairs of anchors of the corrected return over that of the plain one",
    notes=(
        "Every estimator is unbiased for any critic; a critic changes only the variance.",
        "Branches are calls of game.step on the rules as a model. They are not played, and environment steps do not "
        "count them.",
    ),
)
