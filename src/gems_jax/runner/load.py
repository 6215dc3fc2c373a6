"""Loads a trained run as a policy, in one line:

    policy = gems_jax.load("runs/kuhn_poker/gems/20260101-120000-s0")
    action = policy.act(observation, legal, key)

`load` takes a run directory (a seed's folder or that of a whole batch), an exported `.safetensors` file, or the name
of a policy that ships with the package. Loading trains, compiles and unpickles nothing. It imports code that a file
names only with `trust=True`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.evaluate.loaded_policy import LoadedPolicy
from gems_jax.runner import checkpoint
from gems_jax.runner.directory import identity, open_run, read_config
from gems_jax.runner.engine import Monitor, make_engine
from gems_jax.runner.errors import CheckpointError, NoRunError, RunError, report_write_errors
from gems_jax.runner.files import find_below
from gems_jax.runner.integrity.records import DESCRIPTION
from gems_jax.runner.integrity.schema import check_record
from gems_jax.runner.leaves import restore_keys
from gems_jax.runner.rebuild import Problem, rebuild
from gems_jax.runner.writers import read_metrics
from gems_jax.types import (
    Array,
    Game,
    Profile,
    PyTree,
    did_you_mean,
)

SHIPPED = Path(__file__).resolve().parent.parent / "checkpoints"
FORMAT = 1
_META = "gems_jax"  # where an exported file keeps its description


def load(
    run: Path | str,
    *,
    seed: int | None = None,
    which: str = "iterate",
    at: str | int = "last",
    trust: bool = False,
    game: Game | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> LoadedPolicy:
    """Loads the newest intact checkpoint of a run as a policy that acts.

    By default only registered games are made, so that a downloaded file cannot run code.

    >>> import jax
    >>> from gems_jax import load
    >>> policy = load("kuhn")  # a shipped policy
    >>> policy.observation  # what it expects; `act` converts other types, flat arrays and states
    "float32[13], one seat's row of observation in a GameState of kuhn_poker"
    >>> state = policy.game.init(jax.random.key(0))
    >>> action = policy.act(state.observation[0], state.legal[0], jax.random.key(1))
    >>> policy.method, action.shape
    ('gems', ())

    Args:
      run: a run directory (a seed's folder or a batch's), an exported file, or the name of a shipped policy.
      seed: seed of a batch; by default the first, or the one of the given folder.
      which: the mixture of the checkpoint's iteration ("iterate") or the average up to it ("average").
      at: "last", "best" (the seed's best measured iteration: lowest exploitability or highest score) or the iteration
        of a stored checkpoint.
      trust: import the game if the file names a user-defined class, `package.module:MyGame`. Importing runs code: set
        it only for files whose author you trust.
      game: the game, if you have it. The file's game is then not made, which needs no trust.
      say: called with one line for every damaged checkpoint that is skipped.

    Returns:
      A `LoadedPolicy`. `play_episode` and `head_to_head` take it, too.

    Raises:
      UntrustedGameError: if the game is a user-defined class and `trust` is False, or if it is not a game.
      RunError: if the run cannot be loaded for another reason.
    """
    path = find_run(run)
    if path.suffix == ".safetensors":
        if at != "last" or which != "iterate":
            other = which if at == "last" else at
            raise NoRunError(f"{path} is one mixture, not a run: asked for {other!r}, which is chosen at export")
        return _load_file(path, seed, trust, game)
    return make_policy(load_state(path, seed, at, say, trust=trust, game=game), which)


def shipped_policies() -> dict[str, Path]:
    """Lists names and files of the policies that ship with the package."""
    return {path.stem: path for path in sorted(SHIPPED.glob("*.safetensors"))}


def find_run(run: Path | str) -> Path:
    """Resolves a path, or the name of a shipped policy, to a folder or file. Raises NoRunError."""
    path = Path(run)
    if path.exists():
        return path
    names = shipped_policies()
    if str(run) in names:
        return names[str(run)]
    hint = f"; {did_you_mean(run, names)}shipped policies: {', '.join(names)}" if names else ""
    raise NoRunError(f"no run at {run}: there is no such file or folder{hint}")


def list_seeds(run: Path | str) -> Sequence[int | None]:
    """Lists the values of `seed` that load all seeds of a run, each once.

    Args:
      run: a run directory, an exported file, or the name of a shipped policy.

    Returns:
      The seeds of a batch; (None,) for a seed's folder or a file, which have one.

    Raises:
      NoRunError: if there is no such run.
    """
    path = find_run(run)
    if path.suffix == ".safetensors":
        return (None,)
    folder = run_folder(path)
    return (None,) if read_config(folder).get("seed") is not None else open_run(folder).seeds


def export_policy(policy: LoadedPolicy, path: Path | str, record: Mapping[str, Any]) -> Path:
    """Writes a mixture as one safetensors file of float32 parameters and a JSON description.

    Args:
      policy: the mixture.
      path: file to write; its folder is created. RunError if the file exists.
      record: the `game`, `method`, `config` and `options` of the run's config.json, and optionally its `command`.
    """
    from safetensors.numpy import save as as_bytes

    path = Path(path)
    description = {
        "format": FORMAT,
        **{name: record[name] for name in ("game", "method", "config", "options")},
        **({"command": record["command"]} if "command" in record else {}),
        "seed": policy.seed,
        "iteration": policy.iteration,
        "last_row": dict(policy.last_row),
    }
    named, _ = jax.tree_util.tree_flatten_with_path(policy.profile)
    arrays = {jax.tree_util.keystr(name): _to_export(leaf) for name, leaf in named}
    with report_write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(path, "xb") as file:
                file.write(as_bytes(arrays, metadata={_META: json.dumps(description)}))
        except FileExistsError:
            raise RunError(f"{path} exists and is never overwritten; choose another name") from None
    return path


def _to_export(leaf: Array) -> np.ndarray:
    array = np.ascontiguousarray(leaf)
    return array.astype(np.float32) if np.issubdtype(array.dtype, np.floating) else array


def read_description(path: Path) -> dict[str, Any]:
    """Reads the description of an exported file. Raises RunError if it is not one."""
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise RunError(f"cannot read {path}: expected a regular file, got another kind of entry")
    try:
        with safe_open(path, "numpy") as file:
            description = json.loads((file.metadata() or {})[_META])
        if description["format"] != FORMAT:
            raise RunError(f"{path} has format {description['format']}, this version reads format {FORMAT}")
    except (KeyError, TypeError, ValueError, RecursionError):
        raise RunError(f"{path} was not written by gems export") from None
    except (OSError, SafetensorError) as error:
        raise RunError(f"cannot read {path}: {error}") from error
    check_record(description, DESCRIPTION, path)
    return description


def _load_file(path: Path, seed: int | None, trust: bool, game: Game | None) -> LoadedPolicy:
    record = read_description(path)
    if seed is not None and seed != record["seed"]:
        raise RunError(f"{path} contains seed {record['seed']}, got seed {seed}")
    problem = rebuild(record, str(path), trust=trust, game=game)
    template = jax.eval_shape(lambda key: problem.solver.profile(problem.solver.init(key)), jax.random.key(0))
    arrays = _read_arrays(path)

    def look_up(name: Any, leaf: Any) -> Array:
        there = arrays.get(jax.tree_util.keystr(name))
        if there is None or there.shape != leaf.shape:
            found = "is missing" if there is None else f"has shape {there.shape}, expected {leaf.shape}"
            raise CheckpointError(f"{path} does not match its description: {jax.tree_util.keystr(name)} {found}")
        return jnp.asarray(there, leaf.dtype)

    profile = jax.tree_util.tree_map_with_path(look_up, template)
    return make_loaded_policy(
        problem, profile, record["seed"], record["iteration"], str(path), record.get("last_row", {})
    )


def _read_arrays(path: Path) -> dict[str, np.ndarray]:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        return load_file(path)
    except (OSError, SafetensorError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(f"cannot read the arrays of {path}: {error}") from error


class RunState(NamedTuple):
    """State of one seed of a run after `iteration`, and the problem that it solves."""

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
    """Loads the solver's state of one seed from a run directory.

    Args:
      path: folder of a seed or of a batch.
      seed: seed of a batch, by default that of the folder, or the first.
      at: "last", "best" or the iteration of a stored checkpoint, as for `load`.
      say: called with one line for every damaged checkpoint that is skipped.
      trust, game: see `rebuild`.

    Raises:
      RunError: if there is no such run, seed or checkpoint.
    """
    run = open_run(run_folder(path))
    given = (seed, read_config(run_folder(path)).get("seed"), run.seeds[0])
    wanted = next(one for one in given if one is not None)
    if wanted not in run.seeds:
        raise RunError(f"{path} has the seeds {', '.join(map(str, run.seeds))}, got seed {wanted}")
    problem = rebuild(read_config(run.shared), str(run.shared), trust=trust, game=game)
    if not checkpoint.iterations(run.checkpoints):
        raise RunError(f"{run.shared} has no checkpoint yet. Train it first: gems resume {run.shared}")
    engine = make_engine(problem.solver, run.seeds, monitor=Monitor(headlines=("best",)))
    template, part = engine.template(), "best" if at == "best" else "state"
    found = checkpoint.restore_checkpoint(
        run.checkpoints,
        {part: template[part]},
        identity=identity(run),
        same_shapes=engine.fixed_shapes,
        optional=("best",),
        among=_select_iterations(run.checkpoints, at),
        say=say,
    )
    assert found is not None
    index, batch = run.seeds.index(wanted), found.tree.get(part)
    own = jax.tree.map(lambda leaf: leaf[index], batch) if problem.solver.jittable else batch and batch[index]
    if part == "state":
        return RunState(problem, own, wanted, found.iteration, run.members[index])
    if own is None or not int(own["iteration"]):
        raise NoRunError(
            f"{run.shared} has no best iteration: nothing was measured, or its checkpoints do not store it"
        )
    like = template["state"] if problem.solver.jittable else template["state"][index]
    return RunState(problem, restore_keys(own["state"], like), wanted, int(own["iteration"]), run.members[index])


def make_policy(found: RunState, which: str = "iterate") -> LoadedPolicy:
    """Makes the policy of a state; which: "iterate" or "average", as for `load`."""
    problem, state, seed, iteration, folder = found
    profile = problem.solver.profile(state, which=which)
    return make_loaded_policy(problem, profile, seed, iteration, str(folder), _last_row(folder, iteration))


def _select_iterations(folder: Path, at: str | int) -> tuple[int, ...] | None:
    """Resolves `at` to iterations; None for all of them."""
    if at in ("last", "best"):  # every checkpoint contains the best state up to it
        return None
    there = checkpoint.iterations(folder)
    if str(at).isdecimal() and int(at) in there:
        return (int(at),)
    saved = ", ".join(map(str, there))
    raise NoRunError(f"{folder} has no checkpoint {at!r}: known are 'last', 'best' and the iterations {saved}")


def make_loaded_policy(
    problem: Problem, profile: Profile, seed: int, iteration: int, source: str, row: Mapping[str, float]
) -> LoadedPolicy:
    """Makes the policy of a profile, which plays the heaviest policy of every population until `episode` draws another.

    Args:
      problem: the problem that the profile solves.
      profile: the mixture.
      seed: seed of the run.
      iteration: iteration of the mixture.
      source: where it is from.
      row: logged metrics of the iteration.

    Returns:
      A `LoadedPolicy`.
    """
    heaviest = tuple(int(slot) for slot in jnp.argmax(profile.sigma, axis=1))
    return LoadedPolicy(
        problem.game, problem.config, profile, problem.method, seed, iteration, source, heaviest, dict(row)
    )


def _last_row(folder: Path, iteration: int) -> dict[str, float]:
    try:
        rows = read_metrics(folder)
    except (RunError, ValueError, OSError):  # optional: the policy plays without it
        return {}
    count = len(next(iter(rows.values()), ()))
    row = {name: float(values[iteration - 1]) for name, values in rows.items()} if 0 < iteration <= count else {}
    return {name: value for name, value in row.items() if not math.isnan(value)}


def run_folder(path: Path) -> Path:
    """Checks that `path` is a run directory and returns it. Raises NoRunError, which names a run inside if any."""
    there = any((path / name).exists() for name in ("config.json", "command.json"))
    if path.name == "config.json" or not path.is_dir() or there:
        return path
    newest = max((found.parent for found in find_below(path, "config.json", 3)), default=None)
    hint = f"; the newest run in it is {newest}" if newest else ""
    raise NoRunError(f"{path} is not a run directory: it has no config.json{hint}")
