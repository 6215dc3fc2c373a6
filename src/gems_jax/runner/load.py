"""A trained run as a policy, in one line:

    policy = gems_jax.load("runs/kuhn_poker/gems/20260101-120000-s0")
    action = policy.act(observation, legal, key)

`load` takes a run directory (a seed's folder or that of a whole batch), an exported `.safetensors` file, or the name
of a policy that ships with the package. Nothing is trained or compiled for it, nothing is unpickled, and nothing that
the file names is imported unless you say `trust=True`.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.extensive.tables import mixture_to_behaviour, policy_tables
from gems_jax.extensive.tree import GameTree, build_tree
from gems_jax.policies import distributions
from gems_jax.rollout.views import take_population
from gems_jax.runner import checkpoint
from gems_jax.runner.directory import identity, open_run, read_config
from gems_jax.runner.engine import make_engine
from gems_jax.runner.errors import CheckpointError, RunError, writing
from gems_jax.runner.rebuild import Problem, rebuild
from gems_jax.runner.writers import read_metrics
from gems_jax.types import Array, Game, NotEnumerableError, PolicyOutput, Population, Profile, PyTree, did_you_mean

SHIPPED = Path(__file__).resolve().parent.parent / "checkpoints"
FORMAT = 1
_META = "gems_jax"  # where an exported file keeps its description


class NoRunError(RunError):
    """There is nothing to load: a slip of the pen, not of the disk."""

    exit_code = 2


@dataclasses.dataclass(frozen=True)
class LoadedPolicy:
    """A trained mixture that can act. `profile` is the mixture itself, for evaluation and for one's own rollouts.

    A mixture draws one of its policies at the start of an episode and keeps it. On games that can be walked `act`
    plays the one behaviour policy that is equivalent to that (reach-weighted), so it needs no memory. On larger games
    it plays the policies in `slots`, one per population and at first the heaviest: begin every episode with
    `policy = policy.episode(key)`.
    """

    game: Game
    config: Any
    profile: Profile
    method: str
    seed: int
    iteration: int
    source: str
    slots: tuple[int, ...]
    last_row: Mapping[str, float] = dataclasses.field(default_factory=dict, repr=False)  # of metrics.csv, when known

    def act(self, observation: Array, legal: Array, key: Array, seat: int | None = None) -> Array:
        """An action for what one seat sees: [] int32, or [A] when continuous. key: consumed. May be jitted, vmapped.

        seat: who acts. It may be left out where observations tell the seats apart (poker, matrix games) and where all
        players are drawn from one population.
        """
        noise = distributions.draw_noise(key, (), self.game.num_actions, self.game.continuous)
        return distributions.sample_action(self.output(observation, legal, seat), noise)

    def probabilities(self, observation: Array, legal: Array, seat: int | None = None) -> Array:
        """The probabilities [A] that `act` plays with, of a game with discrete actions."""
        output = self.output(observation, legal, seat)
        if output.logits is None:
            raise ValueError(f"{self.game.name} has continuous actions: use `output`, the Gaussian that is squashed")
        return jax.nn.softmax(output.logits)

    def output(self, observation: Array, legal: Array, seat: int | None = None) -> PolicyOutput:
        """The action distribution."""
        observation, legal = jnp.asarray(observation, jnp.float32), jnp.asarray(legal, bool)
        self._check(observation, legal, seat)
        if self._behaviour is not None:
            tree, table = self._behaviour
            logits = _look_up(tree, table, observation, legal, jnp.int32(-1 if seat is None else seat))
            return PolicyOutput(logits=logits)
        owner = self._population_of(seat)
        return _of_slot(
            take_population(self.profile.population, owner), jnp.int32(self.slots[owner]), observation, legal
        )

    def episode(self, key: Array) -> LoadedPolicy:
        """The same mixture with freshly drawn `slots`, for one episode. key: consumed."""
        drawn = jax.random.categorical(key, jnp.log(self.profile.sigma), axis=1)
        return dataclasses.replace(self, slots=tuple(int(slot) for slot in drawn))

    @property
    def enumerable(self) -> bool:
        """Whether the game could be walked: `act` is then the exact behaviour policy."""
        return self._behaviour is not None

    @functools.cached_property
    def _behaviour(self) -> tuple[GameTree, Array] | None:
        """The tree, and the table [I, A] in which every seat's rows are of its own population's mixture."""
        try:
            tree = build_tree(self.game)
            with jax.ensure_compile_time_eval():  # the first call may stand inside a trace, and this is kept
                return tree, _behaviour_table(tree, self.profile)
        except NotEnumerableError:
            return None

    def _population_of(self, seat: int | None) -> int:
        owners = self.game.population_of_player
        if seat is None and len(set(owners)) > 1:
            raise ValueError(f"{self.game.name}: who acts? pass seat=0..{self.game.num_seats - 1} to act")
        return owners[self.game.player_of_seat[seat or 0]]

    def _check(self, observation: Array, legal: Array, seat: int | None) -> None:
        for name, got, expected in (
            ("observation", observation.shape, tuple(self.game.observation_shape)),
            ("legal", legal.shape, (self.game.num_actions,)),
        ):
            if got != expected:
                raise ValueError(f"{self.game.name}: {name} must have shape {expected} (one seat's), got {got}")
        if seat is not None and not 0 <= seat < self.game.num_seats:
            raise ValueError(f"{self.game.name} has seats 0..{self.game.num_seats - 1}, got seat={seat}")


@jax.jit
def _behaviour_table(tree: GameTree, profile: Profile) -> Array:
    tables = policy_tables(tree, profile.population, profile.sigma.shape[1])  # [P, K, I, A]
    mixed = jax.vmap(lambda table, sigma: mixture_to_behaviour(tree, table, sigma))(tables, profile.sigma)
    owner = jnp.asarray(tree.population_of_player)[jnp.asarray(tree.player_of_seat)[tree.seat]]  # [I]
    return jnp.take_along_axis(mixed, owner[None, :, None], axis=0)[0]


@jax.jit
def _look_up(tree: GameTree, table: Array, observation: Array, legal: Array, seat: Array) -> Array:
    """Logits [A] of the table's row that looks like this to the seat (-1: to anybody); uniform when there is none."""
    rest = tuple(range(1, tree.observation.ndim))
    same = (tree.observation == observation[None]).all(axis=rest) & (tree.legal == legal[None]).all(axis=1)
    same = same & ((seat < 0) | (tree.seat == seat))
    probs = jnp.where(same.any(), table[jnp.argmax(same)], legal / jnp.maximum(legal.sum(), 1))
    positive = probs > 0
    logits = jnp.where(positive, jnp.log(jnp.where(positive, probs, 1.0)), distributions.ILLEGAL)
    return distributions.mask_logits(logits, legal)


@jax.jit
def _of_slot(population: Population, slot: Array, observation: Array, legal: Array) -> PolicyOutput:
    """The slot is an argument: another one compiles nothing."""
    return population.apply(population.select(slot), observation, legal)


def load(
    run: Path | str,
    *,
    seed: int | None = None,
    which: str = "iterate",
    at: str | int = "last",
    trust: bool = False,
    say: Callable[[str], None] = lambda text: None,
) -> LoadedPolicy:
    """Loads the newest good checkpoint of a run as a policy that acts.

    Files are data: by default only registered games are made, so that a file that was downloaded cannot run code.

    Args:
      run: a run directory (a seed's folder or a batch's), an exported file, or the name of a shipped policy.
      seed: which one of a batch, by default the first, or the one whose folder was given.
      which: the mixture of that iteration ("iterate") or the average up to it ("average").
      at: another checkpoint that was kept, "best" (the one of lowest exploitability) or an iteration.
      trust: import the game where the file names a user's own class, `package.module:MyGame`. Say so for files whose
        author you trust: importing runs code.
      say: called with one line for every damaged checkpoint that was skipped.

    Returns:
      The policy.

    Raises:
      UntrustedGameError: if the game is a user's own class and `trust` is False, or if it is not a game.
      RunError: if anything else is wrong with the run.
    """
    path = find_run(run)
    if path.suffix == ".safetensors":
        if at != "last" or which != "iterate":
            other = which if at == "last" else at
            raise NoRunError(f"{path} is one mixture, not a run: asked for {other!r}, which is chosen at export")
        return _load_file(path, seed, trust)
    return make_policy(load_state(path, seed, at, say, trust=trust), which)


def shipped_policies() -> dict[str, Path]:
    """Names and files of the policies that come with the package."""
    return {path.stem: path for path in sorted(SHIPPED.glob("*.safetensors"))}


def find_run(run: Path | str) -> Path:
    """The folder or file that `run` means: a path, or the name of a shipped policy."""
    path = Path(run)
    if path.exists():
        return path
    names = shipped_policies()
    if str(run) in names:
        return names[str(run)]
    hint = f"; {did_you_mean(run, names)}shipped policies: {', '.join(names)}" if names else ""
    raise NoRunError(f"no run at {run}: there is no such file or folder{hint}")


def export_policy(policy: LoadedPolicy, path: Path | str, record: Mapping[str, Any]) -> Path:
    """Write the mixture as one safetensors file: float32 parameters, and a JSON description. Never over a file.

    record: the `game`, `method`, `config` and `options` of the run's config.json.
    """
    from safetensors.numpy import save as as_bytes

    path = Path(path)
    description = {
        "format": FORMAT,
        **{name: record[name] for name in ("game", "method", "config", "options")},
        "seed": policy.seed,
        "iteration": policy.iteration,
        "last_row": dict(policy.last_row),
    }
    named, _ = jax.tree_util.tree_flatten_with_path(policy.profile)
    arrays = {jax.tree_util.keystr(name): _exported(leaf) for name, leaf in named}
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(path, "xb") as file:
                file.write(as_bytes(arrays, metadata={_META: json.dumps(description)}))
        except FileExistsError:
            raise RunError(f"{path} exists already; choose another name") from None
    return path


def _exported(leaf: Array) -> np.ndarray:
    array = np.ascontiguousarray(leaf)
    return array.astype(np.float32) if np.issubdtype(array.dtype, np.floating) else array


def read_description(path: Path) -> dict[str, Any]:
    """What an exported file says about itself."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "numpy") as file:
            description = json.loads((file.metadata() or {})[_META])
        if description["format"] != FORMAT:
            raise RunError(f"{path} has format {description['format']}, this version reads format {FORMAT}")
    except (KeyError, TypeError, ValueError):
        raise RunError(f"{path} was not written by gems export") from None
    except (OSError, SafetensorError) as error:
        raise RunError(f"cannot read {path}: {error}") from error
    return description


def _load_file(path: Path, seed: int | None, trust: bool) -> LoadedPolicy:
    from safetensors.numpy import load_file

    record = read_description(path)
    if seed is not None and seed != record["seed"]:
        raise RunError(f"{path} is of seed {record['seed']}, asked for seed {seed}")
    problem = rebuild(record, str(path), trust=trust)
    template = jax.eval_shape(lambda key: problem.solver.profile(problem.solver.init(key)), jax.random.key(0))
    arrays = load_file(path)

    def stored(name: Any, leaf: Any) -> Array:
        there = arrays.get(jax.tree_util.keystr(name))
        if there is None or there.shape != leaf.shape:
            found = "is missing" if there is None else f"has shape {there.shape}, expected {leaf.shape}"
            raise CheckpointError(f"{path} does not fit its own description: {jax.tree_util.keystr(name)} {found}")
        return jnp.asarray(there, leaf.dtype)

    profile = jax.tree_util.tree_map_with_path(stored, template)
    return _policy(problem, profile, record["seed"], record["iteration"], str(path), record.get("last_row", {}))


class RunState(NamedTuple):
    """A seed of a run as it stands: what it solves, and its solver's state after `iteration`."""

    problem: Problem
    state: PyTree
    seed: int
    iteration: int
    folder: Path


def load_state(
    path: Path,
    seed: int | None = None,
    at: str | int = "last",
    say: Callable[[str], None] = lambda text: None,
    *,
    trust: bool = False,
    game: Game | None = None,
) -> RunState:
    """Loads a checkpoint of a run directory, as `load` finds it. trust, game: see `rebuild`."""
    run = open_run(run_folder(path))
    given = (seed, read_config(run_folder(path)).get("seed"), run.seeds[0])
    wanted = next(one for one in given if one is not None)
    if wanted not in run.seeds:
        raise RunError(f"{path} has the seeds {', '.join(map(str, run.seeds))}, asked for seed {wanted}")
    problem = rebuild(read_config(run.shared), str(run.shared), trust=trust, game=game)
    if not checkpoint.iterations(run.checkpoints):
        raise RunError(f"{run.shared} has no checkpoint yet; train it first: gems resume {run.shared}")
    engine = make_engine(problem.solver, run.seeds)
    found = checkpoint.restore_checkpoint(
        run.checkpoints,
        engine.template(),
        identity=identity(run),
        same_shapes=engine.fixed_shapes,
        among=_wanted(run.checkpoints, at),
        say=say,
    )
    assert found is not None
    index, states = run.seeds.index(wanted), found.tree["state"]
    state = jax.tree.map(lambda leaf: leaf[index], states) if problem.solver.jittable else states[index]
    return RunState(problem, state, wanted, found.iteration, run.members[index])


def make_policy(found: RunState, which: str = "iterate") -> LoadedPolicy:
    """The mixture of a state, as `load` gives it."""
    problem, state, seed, iteration, folder = found
    profile = problem.solver.profile(state, which=which)
    return _policy(problem, profile, seed, iteration, str(folder), _last_row(folder, iteration))


def _wanted(folder: Path, at: str | int) -> tuple[int, ...] | None:
    """The iterations that `at` means; None for all, of which the last is taken."""
    if at == "last":
        return None
    there = checkpoint.iterations(folder)
    step = str(checkpoint.best_iteration(folder) if at == "best" else at)
    if step.isdecimal() and int(step) in there:
        return (int(step),)
    kept = ", ".join(map(str, there))
    raise NoRunError(f"{folder} has no checkpoint {at!r}: there are 'last', 'best' and the iterations {kept}")


def _policy(
    problem: Problem, profile: Profile, seed: int, iteration: int, source: str, row: Mapping[str, float]
) -> LoadedPolicy:
    heaviest = tuple(int(slot) for slot in jnp.argmax(profile.sigma, axis=1))
    return LoadedPolicy(
        problem.game, problem.config, profile, problem.method, seed, iteration, source, heaviest, dict(row)
    )


def _last_row(folder: Path, iteration: int) -> dict[str, float]:
    try:
        rows = read_metrics(folder)
    except (RunError, ValueError, OSError):  # the policy plays without it
        return {}
    count = len(next(iter(rows.values()), ()))
    return {name: float(values[iteration - 1]) for name, values in rows.items()} if 0 < iteration <= count else {}


def run_folder(path: Path) -> Path:
    """Returns `path`, or raises a RunError that points at a run inside when it is a folder of runs."""
    if path.name == "config.json" or not path.is_dir() or (path / "config.json").exists():
        return path
    runs = itertools.chain(*(path.glob("*/" * depth + "config.json") for depth in (1, 2, 3)))  # no deeper
    newest = max((found.parent for found in runs), default=None)
    hint = f"; the newest run in it is {newest}" if newest else ""
    raise NoRunError(f"{path} is not a run directory: it has no config.json{hint}")
