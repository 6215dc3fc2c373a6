"""train: one call that does what `gems train` does, and what a `Run` gives back."""

import builtins
import signal
from pathlib import Path

import chex
import jax
import numpy as np
import pytest

import gems_jax
from cli import SMALL, bits, call
from gems_jax import Run, train
from gems_jax.games import describe_game
from gems_jax.runner.directory import read_config, read_status
from gems_jax.runner.errors import MissingExtraError, RunExistsError
from gems_jax.runner.load import load
from gems_jax.runner.training.train import build_problem
from gems_jax.runner.writers import read_metrics
from gems_jax.solvers import DEFAULTS, apply_budget

GAME = gems_jax.make_game("biased_rps", a=2.0)
OPTIONS = {"iterations": 3, "seeds": (4, 7), "chunk": 2}


@pytest.fixture(scope="module")
def trained() -> Run:
    return train(GAME, config=SMALL, **OPTIONS)


@pytest.fixture(scope="module")
def quick() -> Run:
    """A method that compiles in a moment, for what does not depend on the method."""
    return train(GAME, "cfr_plus", **OPTIONS)


@pytest.fixture(scope="module")
def folder(trained: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained.save(tmp_path_factory.mktemp("saved") / "run")


def test_metrics_are_arrays_of_seeds_and_iterations(trained: Run) -> None:
    assert trained.seeds == (4, 7) and trained.iteration == 3 and trained.config.iterations == 3
    assert {column.shape for column in trained.metrics.values()} == {(2, 3)}
    np.testing.assert_array_equal(trained.metrics["iteration"], [[1, 2, 3]] * 2)
    np.testing.assert_allclose(trained.exploitability(), trained.metrics["exploitability"][:, -1], rtol=1e-5)
    assert trained.exploitability("average") == pytest.approx(trained.metrics["exploitability_average"][:, -1])
    frame = trained.metrics.to_pandas()
    assert list(frame["seed"]) == [4, 4, 4, 7, 7, 7] and list(frame["iteration"]) == [1, 2, 3] * 2
    np.testing.assert_array_equal(frame["exploitability"].to_numpy(), trained.metrics["exploitability"].ravel())


def test_a_missing_pandas_is_named(trained: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def refuse(name: str, *arguments: object) -> object:
        if name == "pandas":
            raise ImportError(name)
        return original(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingExtraError, match="pip install pandas"):
        trained.metrics.to_pandas()


def test_the_saved_folder_is_the_run(trained: Run, folder: Path) -> None:
    """What is loaded from the folder, and from the exported file, is what was trained; and a run can be resumed."""
    for seed in trained.seeds:
        policy = load(folder, seed=seed)
        chex.assert_trees_all_equal(bits(policy.profile), bits(trained.policy(seed).profile))
        assert (policy.game, policy.iteration) == (GAME, 3)
    member = folder / "s7"
    np.testing.assert_allclose(read_metrics(member)["exploitability"], trained.metrics["exploitability"][1], rtol=1e-6)
    record = read_config(folder)
    assert (record["game"], record["options"]["game"], record["iterations"]) == ("biased_rps", {"a": 2.0}, 3)
    assert read_status(folder)["state"] == "done"
    with pytest.raises(RunExistsError):
        trained.save(folder)
    file = trained.save(folder.parent / "policy.safetensors", seed=7)
    chex.assert_trees_all_equal(bits(load(file).profile), bits(trained.policy(7).profile))


def test_a_folder_during_training_is_the_same_run(quick: Run, tmp_path: Path) -> None:
    """Rows and states do not depend on when they are written, and the command line continues a saved run."""
    written = train(GAME, "cfr_plus", **OPTIONS, run_dir=tmp_path / "run")
    chex.assert_trees_all_equal(bits(written.result.state), bits(quick.result.state))
    assert written.save() == tmp_path / "run"
    saved = quick.save(tmp_path / "saved")
    assert read_config(saved)["config"] == read_config(tmp_path / "run")["config"]
    for folder in (saved, tmp_path / "run"):
        assert call("resume", folder, "--iterations", 4, "--no-figures").code == 0
        assert load(folder).iteration == 4
    rows = [read_metrics(folder / "s4")["exploitability"] for folder in (saved, tmp_path / "run")]
    np.testing.assert_array_equal(*rows)


def test_a_callback_sees_every_iteration_and_may_stop(quick: Run) -> None:
    rows: list[dict[str, np.ndarray]] = []

    def watch(row: dict[str, np.ndarray]) -> bool:
        rows.append(row)
        return row["iteration"][0] == 1

    stopped = train(GAME, "cfr_plus", **OPTIONS, callback=watch)
    seen = [int(row["iteration"][0]) for row in rows]
    assert seen == list(range(1, stopped.iteration + 1)) and stopped.iteration <= OPTIONS["chunk"]
    column = quick.metrics["exploitability"][:, : stopped.iteration]
    np.testing.assert_array_equal(stopped.metrics["exploitability"], column)


def test_ctrl_c_returns_what_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def press(row: dict[str, np.ndarray]) -> None:
        if row["iteration"][0] == 1:
            signal.raise_signal(signal.SIGINT)

    stopped = train(GAME, "cfr_plus", **OPTIONS, callback=press)
    assert 1 <= stopped.iteration <= OPTIONS["chunk"]
    assert stopped.metrics["exploitability"].shape == (2, stopped.iteration)
    assert "stopped by Ctrl-C" in repr(stopped) and not capsys.readouterr().out
    assert stopped.exploitability().shape == (2,)
    assert read_status(stopped.save(tmp_path / "run"))["state"] == "interrupted"


def test_progress_is_printed_on_demand(capsys: pytest.CaptureFixture[str]) -> None:
    run = train("matching_pennies", "cfr_plus", iterations=2, progress=True)
    assert run.seeds == (0,) and run.method == "cfr_plus" and run.metrics["exploitability"].shape == (1, 2)
    assert "2/2" in capsys.readouterr().out


def test_a_budget_is_the_one_of_make_solver() -> None:
    problem = build_problem(GAME, "self_play", DEFAULTS["self_play"], budget=64)
    assert (
        problem.config == apply_budget("self_play", GAME, DEFAULTS["self_play"], 64) and problem.config.env_steps == 64
    )


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"preset": "paper", "config": SMALL}, ValueError, "expected a preset or a config, got both"),
        ({"chunks": 3}, ValueError, "unknown option 'chunks'; did you mean 'chunk'"),
        ({"method": "gemz"}, ValueError, "unknown method 'gemz'; did you mean 'gems'"),
        ({"iterations": 0}, ValueError, "iterations must be"),
        ({"seeds": ()}, ValueError, "seeds must be one or more"),
        ({"seeds": (1, 1)}, ValueError, "seeds must be one or more"),
    ],
)
def test_wrong_arguments_are_explained(changes: dict, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        train(GAME, **{**OPTIONS, **changes})


def test_seeds_and_iterations_of_a_run(trained: Run) -> None:
    with pytest.raises(ValueError, match="expected one of the seeds 4, 7, got 5"):
        trained.policy(5)
    assert trained.profile.sigma.shape == (2, SMALL.capacity)
    assert len(repr(trained).splitlines()) <= 6 and "exploitability: " in repr(trained)
    assert "columns [2 seeds, 3 iterations]" in repr(trained.metrics)


class OwnGame(type(gems_jax.make_game("kuhn_poker"))):
    """A user's own class in a module."""


def test_games_are_described_by_a_name_and_options() -> None:
    for game in (
        gems_jax.matrix_game([[1.0, -1.0], [0.5, 2.0]], shared=True),
        gems_jax.make_game("rock_paper_scissors"),
        OwnGame(),
    ):
        described = describe_game(game)
        assert described is not None
        name, options = described
        assert gems_jax.make_game(name, **options) == game
    assert describe_game(GAME) == ("biased_rps", {"a": 2.0})

    class Local(OwnGame):
        """A class that no file can name."""

    game = Local()
    assert describe_game(game) is None
    with pytest.raises(ValueError, match="expected a game that a file can name"):
        train(game, "cfr_plus", iterations=1, run_dir=Path("never"))
    assert not Path("never").exists()


def test_play_takes_a_run_and_what_load_returns(trained: Run) -> None:
    policy = trained.policy(7)
    episode = gems_jax.play_episode(jax.random.key(0), GAME, (policy, trained))
    assert episode.returns.sum() == 0.0
    found = gems_jax.head_to_head(jax.random.key(0), GAME, trained, policy, episodes=64)
    assert found.episodes == 64 and found.mean == -found.opponent
    with pytest.raises(ValueError, match="expected a policy of this game, got one of biased_rps"):
        gems_jax.play_episode(jax.random.key(0), gems_jax.make_game("rock_paper_scissors"), policy)
