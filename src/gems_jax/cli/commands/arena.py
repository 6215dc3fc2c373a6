"""Plays all against all: cross-play matrix, Elo and alpha-Rank of runs and policies: `gems arena RUN...`."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import tyro

from gems_jax.cli.parsing import Trust, UsageError, check_games_seed, check_minima, parse, report_error

if TYPE_CHECKING:
    from gems_jax.evaluate.arena import Entrant
    from gems_jax.evaluate.loaded_policy import LoadedPolicy
    from gems_jax.types import Game


@dataclasses.dataclass(frozen=True)
class ArenaArguments:
    """Play all against all, in every position: runs, policy files and shipped policies of one game, and the game's
    fixed opponents.

    Prints the matrix of scores (wins + draws / 2) with Elo ratings, or of mean returns in games that are not won, drawn
    or lost, with alpha-Rank and 95 % intervals by bootstrap over games."""

    runs: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN...")]
    """Run directories (of a seed or of a batch), exported files, and names of shipped policies."""
    episodes: int = 1000
    """Games of every ordered pair, the first of which plays the first position."""
    seed: int = 0
    """Seed of the games and of the bootstrap."""
    seeds: tuple[int, ...] = ()
    """Seeds of the runs to enter, separated by spaces (default: all). Each is an entrant of its own."""
    pool: bool = False
    """Enter the seeds of a run as one entrant, which draws one of them for every game."""
    at: str = "last"
    """Checkpoint to use: last, best (lowest exploitability or highest score), or a saved iteration."""
    greedy: bool = False
    """Let the loaded policies play their most probable action."""
    opponents: bool = True
    """Enter the fixed opponents of the game, such as uniformly random play."""
    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """Folder for tables and heat map (default: runs/arena/TIME)."""
    trust: Trust = False


class _Loaded(NamedTuple):
    """Policies of one RUN, and the start of their labels."""

    run: str
    label: str
    policies: tuple[LoadedPolicy, ...]


def main(argv: Sequence[str]) -> int:
    """Runs `gems arena` and returns its exit code."""
    arguments = parse(ArenaArguments, argv, prog="gems arena")
    check_minima(arguments, episodes=2)
    check_games_seed(arguments.seed, "--seed")
    if not arguments.runs:
        raise UsageError("no runs given: name run directories, exported files or shipped policies")
    import jax

    from gems_jax.evaluate.arena import play_arena, rank_entrants
    from gems_jax.runner.console import Console
    from gems_jax.viz.arena import matrix_table, standings_table, write_arena

    console = Console()
    loaded = _load_all(arguments)
    game = loaded[0].policies[0].game
    entrants = _entrants(arguments, game, loaded)
    if len(entrants) < 2:
        raise UsageError(f"expected at least two entrants, got {len(entrants)}: {entrants[0].label}. Name another run")
    labels = [entrant.label for entrant in entrants]
    console.say(f"{game.name}: {', '.join(labels)}; {arguments.episodes} games of every ordered pair")
    matches = play_arena(jax.random.key(arguments.seed), game, entrants, arguments.episodes, _progress(console))
    ranking = rank_entrants(game, matches, len(entrants), seed=arguments.seed)
    console.table(standings_table(ranking, labels))
    console.table(matrix_table(ranking, labels))
    record = {"game": game.name, **_describe(arguments, loaded)}
    for path in write_arena(ranking, matches, labels, record, arguments.output):
        print(f"written: {path}")
    return 0


def _progress(console: Any) -> Any:
    """Makes the function that prints progress at every tenth of the matches."""

    def report(done: int, total: int) -> None:
        if done * 10 // total > (done - 1) * 10 // total and done < total and total >= 20:
            console.say(f"match {done}/{total}")

    return report


def _load_all(arguments: ArenaArguments) -> list[_Loaded]:
    """Loads every policy, and checks that they play one game."""
    from gems_jax.accelerator.cache import enable_compilation_cache
    from gems_jax.runner.load import find_run, list_seeds, load

    enable_compilation_cache()
    seeds = {run: list_seeds(run) for run in dict.fromkeys(arguments.runs)}  # all mistakes before anything is loaded
    loaded: list[_Loaded] = []
    for run, found in seeds.items():
        chosen = arguments.seeds if arguments.seeds and find_run(run).is_dir() else found
        policies = tuple(
            load(run, seed=seed, at=_checkpoint(run, arguments.at), trust=arguments.trust, say=report_error)
            for seed in chosen
        )
        label = policies[0].method if find_run(run).is_dir() else Path(run).stem
        loaded.append(_Loaded(run, label, policies))
        if policies[0].game != loaded[0].policies[0].game:
            first, other = loaded[0].policies[0].game.name, policies[0].game.name
            options = " with other options" * (first == other)
            raise UsageError(
                f"expected policies of one game, got {first} ({loaded[0].run}) and {other}{options} ({run}). "
                "Name runs of the same game"
            )
    return loaded


def _checkpoint(run: str, at: str) -> str:
    """Returns the checkpoint to load: files and shipped policies have one."""
    from gems_jax.runner.load import find_run

    return at if find_run(run).is_dir() else "last"


def _entrants(arguments: ArenaArguments, game: Game, loaded: Sequence[_Loaded]) -> list[Entrant]:
    """Makes the entrants: every seed or every run, and the fixed opponents."""
    from gems_jax.evaluate.arena import Entrant
    from gems_jax.evaluate.greedy import greedy_profile
    from gems_jax.opponents.profiles import fixed_profile
    from gems_jax.opponents.registry import cheap_opponents

    entrants = []
    same = Counter(one.label for one in loaded)
    for one in loaded:
        label = one.label if same[one.label] == 1 else f"{one.label} {Path(one.run).name}"
        profiles = [greedy_profile(each.profile) if arguments.greedy else each.profile for each in one.policies]
        if arguments.pool or len(profiles) == 1:
            entrants.append(Entrant(label, tuple(profiles)))
        else:
            named = zip(one.policies, profiles, strict=True)
            entrants += [Entrant(f"{label} s{policy.seed}", (profile,)) for policy, profile in named]
    if arguments.opponents:
        fixed = cheap_opponents(game)
        entrants += [Entrant(label, (fixed_profile(game, policy),)) for label, policy in fixed.items()]
    return _distinct(entrants)


def _distinct(entrants: Sequence[Entrant]) -> list[Entrant]:
    """Numbers entrants of equal labels."""
    same, seen = Counter(one.label for one in entrants), Counter[str]()
    found = []
    for one in entrants:
        seen[one.label] += 1
        found.append(one if same[one.label] == 1 else one._replace(label=f"{one.label} #{seen[one.label]}"))
    return found


def _describe(arguments: ArenaArguments, loaded: Sequence[_Loaded]) -> dict[str, Any]:
    """Describes what played: arguments, policies, version and machine."""
    from gems_jax import __version__
    from gems_jax.runner.machine import describe_circumstances

    policies = [
        {"run": one.run, "method": each.method, "seed": each.seed, "iteration": each.iteration, "source": each.source}
        for one in loaded
        for each in one.policies
    ]
    chosen = {name: getattr(arguments, name) for name in ("episodes", "seed", "greedy", "pool", "opponents", "at")}
    return {"version": __version__, **chosen, "policies": policies, **describe_circumstances()}
