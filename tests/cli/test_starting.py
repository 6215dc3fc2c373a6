"""A run has its folder before JAX is imported; a wrong line leaves nothing, a killed one leaves a trace."""

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from cli import SCRIPT, SMALL, assert_one_line, call
from gems_jax.cli import starting
from gems_jax.cli.commands import train
from gems_jax.runner.directory import create_run, is_abandoned, open_run, read_status
from gems_jax.runner.errors import RunError, RunExistsError


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.chdir(tmp_path)
    yield
    starting.end()


@pytest.mark.parametrize("words", [[], ["--seeds", "2"], ["--run-dir", "mine"], ["--run-dir=deep/mine", "--seeds=2"]])
def test_the_folder_is_there_while_the_settings_are_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: list[str]
) -> None:
    seen = []

    def look(run, game, config, preset) -> int:
        folder = starting.begun_folder()
        assert folder is not None and not (folder / "config.json").exists()
        record = json.loads((folder / "command.json").read_text())
        seen.append((record["command"], read_status(folder)["state"]))
        return 0

    monkeypatch.setattr(train, "_train", look)
    assert call("train", "biased_rps", *words).code == 0
    assert seen == [(["train", "biased_rps", *words], "starting")]
    assert not list(tmp_path.iterdir())  # `_train` did not take it


@pytest.mark.parametrize("words", [["khun"], ["biased_rps", "--eta", "x"], ["x" * 300], ["biased_rps", "--seeds", "0"]])
def test_a_wrong_line_leaves_nothing(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "mine").mkdir()
    assert call("train", *words).code == 2
    assert call("train", *words, "--run-dir", "mine").code == 2
    assert [path.name for path in tmp_path.rglob("*")] == ["mine"]


def test_a_killed_start_is_told_and_its_folder_is_free(tmp_path: Path) -> None:
    line = ["biased_rps", "--seeds", "2", "--run-dir", "mine", "--eta", "0.5"]
    starting.begin(line)
    run = tmp_path / "mine"
    assert read_status(run)["state"] == "starting" and not is_abandoned(run)
    with pytest.raises(RunExistsError):
        starting.begin(line)
    starting._starts.pop().lock.close()  # as the system does when the process ends
    assert read_status(run)["state"] == "interrupted" and is_abandoned(run)
    for words in (["resume", run], ["eval", run]):
        assert_one_line(call(*words), 1, "before its settings were complete", "gems train biased_rps --seeds 2")
    starting.begin(line)
    made = create_run(
        game="biased_rps", method="gems", config=SMALL, seeds=(0, 1), iterations=3, path="mine", begun=starting.take()
    )
    assert open_run(run).members == (run / "s0", run / "s1") == tuple(tmp_path / each for each in made.members)
    assert read_status(run / "s1")["state"] == "interrupted"  # nobody holds the lock
    starting.end()
    assert (run / "config.json").exists()
    with pytest.raises(RunError, match="never overwritten"):
        starting.begin(line)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs the list of loaded libraries")
def test_a_kill_before_jax_is_imported_leaves_a_trace(tmp_path: Path) -> None:
    """The real console script, killed as soon as it has its folder: its libraries are not loaded yet."""
    run = tmp_path / "mine"
    process = subprocess.Popen([str(SCRIPT), "train", "biased_rps", "--quiet", "--run-dir", str(run)])
    try:
        end = time.monotonic() + 60
        while not (run / "status.json").exists():
            assert process.poll() is None and time.monotonic() < end
            time.sleep(0.002)
        process.send_signal(signal.SIGSTOP)
        assert "jaxlib" not in Path(f"/proc/{process.pid}/maps").read_text()
    finally:
        process.kill()
        process.wait()
    assert read_status(run)["state"] == "interrupted" and is_abandoned(run)


def test_a_traceback_is_in_the_run_s_folder_or_in_a_private_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments, **options):
        raise ZeroDivisionError("\x1b[31m[red]")

    monkeypatch.setattr(train, "_train", broken)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir(mode=0o777)
    done = call("train", "biased_rps", "--run-dir", tmp_path / "mine")
    assert_one_line(
        done, 70, "unexpected ZeroDivisionError: ?[31m[red]", f"the traceback is in {tmp_path / 'mine'}/error-"
    )
    monkeypatch.setattr("gems_jax.cli.parsing.load_policy", broken)
    monkeypatch.setattr("gems_jax.cli.commands.evaluate.load_policy", broken)
    done = call("eval", "kuhn")
    assert_one_line(done, 70, "the traceback is in ")
    file = Path(done.err.rsplit(" ", 1)[1].strip())
    assert "in broken" in file.read_text() and file.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "words", [["export", "x" * 5000], ["eval", "x" * 300], ["train", "biased_rps", "--run-dir", "a" * 5000]]
)
def test_a_path_that_the_system_refuses(words: list[str]) -> None:
    assert_one_line(call(*words), 2, "File name too long")


OWN = """
class Lacks:
    def __init__(self): self.continuous
    name = num_seats = num_actions = observation_shape = max_steps = simultaneous = player_of_seat = 3
    population_of_player = return_bounds = zero_sum = continuous = property(lambda self: None)
    def init(self, key): ...
    def step(self, state, actions, key): ...

class Anything:
    def __getattr__(self, name): return Anything()
    def __call__(self, *words, **options): return Anything()
    def init(self, key): ...
    def step(self, state, actions, key): ...

anything = Anything()
"""


@pytest.mark.parametrize(
    "name", ["json:JSONDecoder", "unittest.mock:call", "strange:Lacks", "strange:Anything", "strange:anything"]
)
def test_what_is_not_a_game_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    (tmp_path / "strange.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    assert_one_line(call("train", name), 2, f"the game {name!r} ")
