"""A file never decides what is imported or called: games of one's own need trust, and must be games."""

import ast
import json
import shutil
import sys
from pathlib import Path

import jax
import pytest
from safetensors.numpy import load_file, save_file

import gems_jax
from cli import SMALL, assert_one_line, call, untrained_run
from gems_jax.games import GAMES, KINDS, NotAGameError, is_own, make_game
from gems_jax.games.adapters import hosted as python_game
from gems_jax.runner.directory import RunDirectory
from gems_jax.runner.errors import RunError, UntrustedGameError
from gems_jax.runner.load import load
from gems_jax.sweep.cell import run_cell
from gems_jax.sweep.executors import _Worker
from gems_jax.sweep.file import parse_sweep
from gems_jax.sweep.folder import SweepFolder, create_folder

SOURCE = Path(gems_jax.__file__).parent
OWN = """
from pathlib import Path
from gems_jax.games import matrix_game
from gems_jax.types import GameState
Path(__file__).with_name("imported").touch()

class Fair:
    '''Sizes that the constructor assigns are declared, too.'''
    simultaneous, continuous, zero_sum = True, False, True

    def __init__(self, prize: float = 1.0):
        base = matrix_game([[prize, -prize], [-prize, prize]], name="own")
        self.base, self.name, self.num_seats, self.num_actions, self.max_steps = base, "own", 2, 2, 1
        self.observation_shape, self.player_of_seat = (2,), (0, 1)
        self.population_of_player, self.return_bounds = (0, 1), (-prize, prize)

    def __eq__(self, other):
        return isinstance(other, Fair) and other.base == self.base

    def __hash__(self):
        return hash(self.base)

    def init(self, key):
        return self.base.init(key)

    def step(self, state, actions, key):
        return self.base.step(state, actions, key)

    def deals(self):
        return self.base.deals()

fair = Fair()

class Half:
    name, num_seats = "half", 2

    def __init__(self, **options):
        Path(__file__).with_name("called").touch()

    def init(self, key): ...
    def step(self, state, actions, key): ...

def function(**options):
    Path(__file__).with_name("called").touch()

class Raises(Fair):
    def __init__(self):
        raise KeyError("no cards")
"""


@pytest.fixture(scope="module")
def own_run(tmp_path_factory: pytest.TempPathFactory):
    """A run of the game `own_trusted:Fair`, on the path only while the run is made, and the module's folder."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "own_trusted.py").write_text(OWN)
    sys.path.insert(0, str(folder))
    try:
        run = untrained_run(folder / "run", "own_trusted:Fair", SMALL, prize=2.0)
        (run.shared / "metrics.csv").write_text("iteration\n1\n")
        assert call("export", run.shared, "--trust", "--output", folder / "own.safetensors").code == 0
    finally:
        sys.path.remove(str(folder))
    return folder, run


@pytest.fixture
def planted(matrix_run: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Plants a game's name and options in a run directory and an exported file; evil.py lies in all folders near."""
    run, file, marker = tmp_path / "run", tmp_path / "evil.safetensors", tmp_path / "marker"
    shutil.copytree(matrix_run.shared, run)
    for folder in (tmp_path, run):
        (folder / "evil.py").write_text(f"import pathlib\npathlib.Path({str(marker)!r}).touch()\nclass Game: ...\n")
    assert call("export", matrix_run.shared, "--output", tmp_path / "good.safetensors").code == 0
    monkeypatch.chdir(tmp_path)

    def plant(game, options) -> tuple[Path, Path, Path]:
        record = json.loads((run / "config.json").read_text())
        record["game"], record["options"] = game, {**record["options"], "game": options}
        (run / "config.json").write_text(json.dumps(record))
        described = {name: record[name] for name in ("game", "method", "config", "options")}
        described |= {"format": 1, "seed": 0, "iteration": 1, "last_row": {}}
        save_file(load_file(tmp_path / "good.safetensors"), file, metadata={"gems_jax": json.dumps(described)})
        return run, file, marker

    return plant


PLANTED = {
    "class": ("subprocess:Popen", {"args": "touch marker", "shell": True}),
    "function": ("shutil:rmtree", {"path": "run"}),
    "builtin": ("os:system", {"command": "touch marker"}),
    "evaluation": ("builtins:eval", {}),
    "module of the folder": ("evil:Game", {}),
    "module by a path": ("run.evil:Game", {}),
    "relative module": (".evil:Game", {}),
    "parent of a module": ("..run.evil:Game", {}),
    "behind a known prefix": ("pz:os:system", {"command": "touch marker"}),
    "library of a prefix": ("pz:evil", {}),
    "path behind a prefix": ("pz:../evil", {}),
    "pgx": ("pgx:evil:Game", {}),
    "openspiel": ("openspiel:evil:Game", {}),
    "option that is the id": ("pz:tictactoe_v3", {"id": "os:system", "command": "touch marker"}),
    "own package": (
        "gems_jax.games.adapters.pettingzoo:environment_game",
        {"id": "os:system", "command": "touch marker"},
    ),
    "no name": (["os", "system"], {}),
}


@pytest.mark.parametrize("kind", PLANTED)
def test_nothing_that_a_file_names_is_imported_or_called(planted, kind: str) -> None:
    game, options = PLANTED[kind]
    run, file, marker = planted(game, options)
    loaded = set(sys.modules)
    for source in (run, file):
        with pytest.raises(RunError) as error:
            load(source)
        own = isinstance(game, str) and is_own(game)
        assert isinstance(error.value, UntrustedGameError) == own
        if own:
            module, _, attribute = game.partition(":")
            assert f"import the Python module {module!r} and call {attribute}(" in str(error.value)
            assert "--trust" in str(error.value) and "trust=True" in str(error.value)
    assert not marker.exists() and run.exists() and "evil" not in set(sys.modules) - loaded


COMMANDS = {
    "eval": lambda run, file: [["eval", run], ["eval", file]],
    "replay": lambda run, file: [["replay", run], ["replay", file]],
    "play": lambda run, file: [["play", run], ["play", file]],
    "arena": lambda run, file: [["arena", run], ["arena", file]],
    "export": lambda run, file: [["export", run], ["export", file]],
    "resume": lambda run, file: [["resume", run]],
    "profile": lambda run, file: [["profile", run]],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_refuses_a_file_s_own_code(planted, command: str) -> None:
    """Without --trust nothing is imported; with it the module is, and what is not a game is still not called."""
    for game, options in (("evil:Game", {}), ("os:system", {"command": "touch marker"})):
        run, file, marker = planted(game, options)
        for line in COMMANDS[command](run, file):
            assert_one_line(call(*line), 2, f"names the game {game!r}", "would import the Python module", "--trust")
            assert not marker.exists()
            if game == "os:system":
                assert_one_line(call(*line, "--trust"), 2, "'os:system' is a builtin_function_or_method: expected")
                assert not marker.exists()


def test_a_sweep_file_is_a_file(planted, tmp_path: Path) -> None:
    *_, marker = planted("evil:Game", {})
    sweep = tmp_path / "sweep.toml"
    sweep.write_text("game = 'evil:Game'\n[grid]\neta = [0.1, 0.2]\n")
    assert_one_line(call("sweep", sweep), 2, "names the game 'evil:Game'", "--trust")
    assert_one_line(call("sweep", sweep, "--plan"), 2, "names the game 'evil:Game'", "--trust")
    assert not marker.exists() and not (tmp_path / "runs").exists()


def test_a_comparison_over_games(planted, matrix_run: RunDirectory, tmp_path: Path) -> None:
    """The range of returns is asked of the game: the one thing of a comparison that needs it."""
    run, _, marker = planted("evil:Game", {})
    other = tmp_path / "other"
    shutil.copytree(matrix_run.shared, other)
    for folder in (run, other):
        (folder / "metrics.csv").write_text("iteration,total_env_steps,seconds,exploitability\n1,10,1.0,0.5\n")
    assert_one_line(call("compare", run, other, "--output", tmp_path / "out"), 2, "names the game 'evil:Game'")
    assert not marker.exists()


def test_trust_loads_a_game_of_ones_own(own_run, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, run = own_run
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for source in (run.shared, folder / "own.safetensors"):
        with pytest.raises(UntrustedGameError, match=r"call Fair\(prize=2.0\)"):
            load(source)
        policy = load(source, trust=True)
        assert policy.game.name == "own" and policy.game.return_bounds == (-2.0, 2.0)
        done = call("eval", source, "--trust")
        assert done.code == 0 and "own, gems: the mixture of iteration 1, exact" in done.out, done


def test_trust_resumes_and_sweeps_a_game_of_ones_own(own_run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, run = own_run
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    trained = []

    def pretend(problem, *_, **__):
        return trained.append(problem.game.name) or 0

    monkeypatch.setattr("gems_jax.cli.training.train_and_report", pretend)
    assert_one_line(call("resume", run.shared), 2, "If you trust it, add --trust")
    assert not trained and call("resume", run.shared, "--trust").code == 0 and trained == ["own"]
    file = parse_sweep({"name": "own", "game": "own_trusted:Fair", "grid": {"eta": [0.1, 0.2]}})
    sweep = create_folder(tmp_path / "sweep", file, {}).path
    done = call("sweep", sweep, "--plan", "--trust")
    assert done.code == 0 and "cell 0" in done.out, done
    refused = run_cell(sweep, 0)  # what a worker does that was not told to trust
    assert refused.state == "failed" and "UntrustedGameError" in refused.reason
    assert run_cell(sweep, 0, attempt=2).state == "failed"  # the folder does not remember who was trusted


def test_a_line_without_trust_does_not_search_the_current_folder(own_run, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, run = own_run
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry not in ("", str(folder))])
    call("eval", run.shared)
    assert str(folder) not in sys.path
    call("eval", run.shared, "--trust")
    assert str(folder) in sys.path


def test_only_games_are_called(own_run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of names that a user types, too: a class, an instance, an environment; anything else is refused uncalled."""
    folder, _ = own_run
    monkeypatch.syspath_prepend(folder)
    assert make_game("own_trusted:Fair", prize=3.0).return_bounds == (-3.0, 3.0)
    assert make_game("own_trusted:fair").name == "own"
    with pytest.raises(ValueError, match="is an instance: expected no options, got prize"):
        make_game("own_trusted:fair", prize=3.0)
    for name, said in (
        ("own_trusted:function", "'own_trusted:function' is a function: expected a class"),
        ("own_trusted:Half", "is a class without num_actions, observation_shape, max_steps, simultaneous and"),
        ("json:JSONDecoder", "'json:JSONDecoder' is a class without init, step"),
        ("os:system", "'os:system' is a builtin_function_or_method"),
        ("subprocess:Popen", "is a class without init, step"),
        ("gems_jax.games:matrix_game", "is a function"),
        ("os:path", "'os:path' is a module"),
        ("own_trusted:nothing", "has no 'nothing'"),
        (".own_trusted:Fair", "is not of the form package.module:MyGame"),
    ):
        with pytest.raises(NotAGameError, match=said.replace("(", r"\(")):
            make_game(name, anything=1)
        assert_one_line(call("train", name, "--quick"), 2, said)
        assert_one_line(call("games", "--check", name), 2, said)
    assert not (folder / "called").exists()
    assert_one_line(
        call("train", "own_trusted:Raises"), 2, "cannot make the game 'own_trusted:Raises': KeyError: 'no cards'"
    )


def test_an_environment_s_worker_checks_again() -> None:
    game = "gems_jax.games.adapters.pettingzoo:PettingZooGame"
    with pytest.raises(NotAGameError, match="not an environment class of PettingZoo"):
        make_game(game, id="os:system", options=(("command", "touch marker"),))


def test_worker_processes_do_not_search_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files there that are called like libraries stay files: `python -m` alone would import them first."""
    for name in ("json", "numpy", "pettingzoo"):
        (tmp_path / f"{name}.py").write_text("import pathlib\npathlib.Path('marker').touch()\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GEMS_WORKERS", "1")
    state = make_game("pz:tictactoe_v3").init(jax.random.key(0))
    python_game.close_all()
    assert state.to_move.any()
    worker = _Worker(SweepFolder(tmp_path), {}, trust=False)
    worker.end()
    assert worker.process.returncode == 0 and not (tmp_path / "marker").exists()


def test_registered_names_are_not_one_s_own() -> None:
    assert not any(is_own(name) for name in (*GAMES, "khun_poker", *(kind.replace("<id>", "x") for kind in KINDS)))
    assert is_own("os:system") and is_own(":") and is_own("kuhn_poker:x") and is_own("pzz:connect_four_v3")


def test_files_reach_games_by_one_function() -> None:
    """Of what handles runs only these call make_game: the one for files, and those for names that a user typed."""
    callers = set()
    parts = ("runner", "cli", "sweep", "viz", "profiling")
    for path in (found for part in parts for found in (SOURCE / part).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            called = isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2]
            if called in ("make_game", "game_options", "find_own", "import_own", "make_environment"):
                callers.add((path.relative_to(SOURCE).as_posix(), called))
    listed = {("cli/commands/games.py", "game_options")}  # of rows of GAMES
    typed = {(f"{name}.py", "make_game") for name in ("cli/commands/train", "runner/training/train")}
    assert callers - listed == {("runner/rebuild.py", "make_game")} | typed


def test_a_run_s_folders_lie_beside_it(planted, tmp_path: Path) -> None:
    run, *_ = planted("biased_rps", {"a": 2.0})
    record = json.loads((run / "config.json").read_text())
    other = tmp_path / "elsewhere" / "deep" / "run"
    shutil.copytree(run, other)
    for name in ("../elsewhere/deep/run", str(tmp_path.parent), "../.."):
        (run / "config.json").write_text(json.dumps({**record, "shared": name}))
        if name.startswith("../e"):
            load(run)
            continue
        with pytest.raises(RunError, match="invalid batch: .* expected a folder inside"):
            load(run)
