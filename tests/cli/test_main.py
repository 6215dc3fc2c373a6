"""The command line: end to end, training, resuming and the doctor by the console script; mistakes in one line."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import chex
import numpy as np
import pytest

from cli import TINY, Outcome, assert_one_line, bits, call, gems
from experiments.samples import PAGE, find_sample, mask
from gems_jax import __version__
from gems_jax.cli import COMMANDS
from gems_jax.cli import main as cli
from gems_jax.cli.commands import train
from gems_jax.cli.why import explain, explain_timing
from gems_jax.config import GemsConfig
from gems_jax.games import make_game
from gems_jax.games.requirements import CATALOG
from gems_jax.runner.directory import RunDirectory, open_run, read_config, read_status
from gems_jax.runner.errors import RunError
from gems_jax.runner.files import resolve
from gems_jax.runner.load import load, read_description
from gems_jax.runner.options import WRITER_MODULES, RunOptions
from gems_jax.runner.rebuild import parse_config
from gems_jax.runner.writers import read_metrics
from gems_jax.solvers import METHODS

CLOCKS = ("seconds", "memory_mb")


# --- end to end


def test_train(trained: tuple[Path, Outcome]) -> None:
    folder, said = trained
    assert said.code == 0, said.err
    assert "fresh start: 2 iterations, seeds 0, 1" in said.out and f"done: 2 iterations in {folder}" in said.out
    assert re.search(r"iteration 2/2  exploitability 0\.\d+ ", said.out) and "both values of 2 seeds" in said.out
    record = read_config(folder)
    assert record["game"] == "kuhn_poker" and record["options"]["preset"] == "paper" and record["options"]["quick"]
    # flags win over --quick, which wins over the preset
    assert record["config"]["iterations"] == 2 and record["config"]["abr_steps"] == 1
    assert record["config"]["learning_rate"] == GemsConfig().learning_rate
    assert {path.name for path in (folder / "figures").iterdir()} >= {"exploitability.png", "error_budget.png"}
    for member in open_run(folder).members:
        rows = read_metrics(member)
        assert len(rows["exploitability"]) == 2 and read_status(member)["state"] == "done"
        assert np.all((rows["exploitability"] > 0) & (rows["exploitability"] < 2))


def test_train_prints_what_the_page_shows(trained: tuple[Path, Outcome]) -> None:
    """The sentences of the sample and the rows of its table, numbers left out: this run has other sizes."""

    def bare(text: str) -> set[str]:
        text = re.sub(r"[┏┳┓┡╇┩└┴┘━─┃│±]", " ", mask(text)).replace(" per seed", "").replace(str(trained[0]), "RUN")
        text = re.sub(r"one seed|both values of \d+ seeds", " ", text)  # what the table shows of so many seeds
        return {" ".join(re.sub(r"[\d.,]+[kMG]?|\bseeds?\b", " ", line).split()) for line in text.splitlines()} - {""}

    first, _, second = find_sample(PAGE.read_text(), "train")[1].partition("\n\n")
    sentences, table = bare(first.partition("\n")[2]), bare(second.partition("kuhn_poker, gems\n")[2])
    assert {"fresh start: iterations", "done: iterations in RUN"} <= sentences
    assert {"exploitability run average", "env steps", "compilation took TIME not counted"} <= table
    assert sentences | table <= bare(trained[1].out)


def test_eval_and_why(trained: tuple[Path, Outcome]) -> None:
    folder, _ = trained
    done = call("eval", folder, "--why")
    assert done.code == 0 and done.err == "", done.err
    found = [float(text) for text in re.findall(r"seed \d: exploitability ([\d.]+)", done.out)]
    logged = [read_metrics(member)["exploitability"][-1] for member in open_run(folder).members]
    np.testing.assert_allclose(found, logged, atol=2e-6)
    assert re.search(r"why: .* of the gap of .*: train with --preset auto", done.out)
    one = call("eval", folder / "s1", "--which", "average")
    found = re.search(r"seed 1: exploitability ([\d.]+)", one.out)
    logged = read_metrics(folder / "s1")["exploitability_average"][-1]
    assert found and float(found[1]) == pytest.approx(logged, abs=2e-6) and "seed 0" not in one.out, one
    assert "the average mixture of iterations 1 to 2, exact" in one.out
    first = call("eval", folder / "s1", "--at", 1, "--why")
    found = re.search(r"seed 1: exploitability ([\d.]+)", first.out)
    logged = read_metrics(folder / "s1")["exploitability"][0]
    assert found and float(found[1]) == pytest.approx(logged, abs=2e-6)
    assert "before the last iteration's training" in first.out


@pytest.mark.slow
def test_eval_by_held_out_episodes(trained: tuple[Path, Outcome]) -> None:
    """A lower bound with its budget, every term with its kind, and which one to spend on next."""
    folder, _ = trained
    done = call("eval", folder / "s0", "--exploiter", 20, "--episodes", 2048, "--confidence", 0.9)
    assert done.code == 0, done
    found = re.search(r"exploitability at least ([\d.]+) \(lower bound at 90 %; exploiter of 20 rounds", done.out)
    exact = re.search(r"seed 0: exploitability ([\d.]+) \(exact\), NashConv", done.out)
    assert found and exact and float(found[1]) <= float(exact[1]), done.out
    assert re.search(r"budget best response .* at least [\d.]+ \(lower bound at 90 %", done.out)
    assert re.search(r"budget meta regret .* [\d.]+ to [\d.]+ \(90 % interval; [\d,]+ episodes", done.out)
    assert re.search(r"why: .*: train with --preset auto", done.out)


def test_eval_refuses_what_it_cannot_do(trained: tuple[Path, Outcome]) -> None:
    folder, _ = trained
    assert_one_line(call("eval", folder, "--exploiter", -1), 2, "--exploiter must be at least 0", "-1")
    assert_one_line(call("eval", folder, "--confidence", 1.5), 2, "between 0 and 1", "1.5")


def test_resume_equals_one_go(trained: tuple[Path, Outcome], tmp_path: Path) -> None:
    """The run cut back to its first iteration and taken up again ends as it did, to the bit."""
    folder, _ = trained
    run = tmp_path / "run"
    shutil.copytree(folder, run)
    before = load(run)
    shutil.rmtree(run / "checkpoints" / "00000002")
    done = gems("resume", run / "s1", "--no-figures")
    assert done.code == 0 and "resumed from iteration 1 of 2" in done.out, done
    for name in ("s0", "s1"):
        now, then = read_metrics(run / name), read_metrics(folder / name)
        assert list(now) == list(then)
        for column in now.keys() - set(CLOCKS):
            np.testing.assert_array_equal(now[column], then[column], err_msg=column)
    chex.assert_trees_all_equal(bits(load(run).profile), bits(before.profile))


def test_replay(trained: tuple[Path, Outcome]) -> None:
    folder, _ = trained
    done = call("replay", folder / "s1", "--episodes", 2)
    assert done.code == 0 and done.err == "", done.err
    written = [Path(path) for path in re.findall("written: (.*)", done.out)]
    assert [path.suffix for path in written] == [".txt"]  # a card game: words say it all
    assert all(path.parent == folder / "s1" / "replays" and path.stat().st_size for path in written)
    assert re.search(r"seat 0: (bet|check) +\(", done.out)


def test_compare(trained: tuple[Path, Outcome], tmp_path: Path) -> None:
    folder, _ = trained
    done = call("compare", folder, folder / "s0", "--output", tmp_path / "out")
    assert done.code == 0 and done.err == "", done.err
    mean = np.mean([read_metrics(member)["exploitability"][-1] for member in open_run(folder).members])
    assert f"{mean:.4f}" in done.out and (tmp_path / "out" / "curves.png").stat().st_size > 5000


def test_doctor() -> None:
    done = gems("doctor")
    assert done.code == 0 and done.err == "", done.err
    assert f"gems_jax {__version__}" in done.out and "devices:" in done.out and "cache: " in done.out
    assert re.search(r"jax +0\.1\d", done.out) and "MISSING" not in done.out


def test_games_and_a_game_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = call("games")
    assert done.code == 0 and "kuhn_poker" in done.out and "pgx:hex" in done.out, done
    (tmp_path / "own.py").write_text(
        "from gems_jax.games import matrix_game\n"
        "Fair = matrix_game([[2.0, -2.0], [-2.0, 2.0]], name='fair')\n"
        "class Broken:\n    name = 'broken'\n"
        "class Bad(type(Fair)):\n    def __init__(self):\n        raise KeyError('no cards')\n"
    )
    monkeypatch.chdir(tmp_path)  # a game of one's own lies in the current folder
    monkeypatch.setattr(sys, "path", list(sys.path))
    valid = call("games", "--check", "own:Fair")
    assert valid.code == 0 and "own:Fair: valid. 2 seats, 2 actions" in valid.out, valid
    assert_one_line(call("games", "--check", "own:Broken"), 2, "is a class without init, step, num_seats")
    assert_one_line(call("train", "own:Bad"), 2, "cannot make the game 'own:Bad': KeyError: 'no cards'")
    assert not (tmp_path / "runs").exists()


def test_export(trained: tuple[Path, Outcome], tmp_path: Path) -> None:
    folder, _ = trained
    path = tmp_path / "policy.safetensors"
    done = call("export", folder, "--seed", 1, "--output", path)
    assert done.code == 0 and f"{path}: kuhn_poker, gems, seed 1" in done.out, done
    chex.assert_trees_all_equal(bits(load(path).profile), bits(load(folder, seed=1).profile))
    said = call("eval", path, "--why")
    found = re.search(r"seed 1: exploitability ([\d.]+)", said.out)
    logged = read_metrics(folder / "s1")["exploitability"][-1]
    assert said.code == 0 and found and float(found[1]) == pytest.approx(logged, abs=2e-6), said
    assert "why: " in said.out
    assert_one_line(call("export", folder, "--output", path), 1, "exists and is never overwritten")
    assert_one_line(call("resume", path), 1, "policy.safetensors")


def test_export_at_another_temperature(trained: tuple[Path, Outcome], tmp_path: Path) -> None:
    """Logits are divided, the policy is measured again, and the file has the command of the run."""
    folder, _ = trained
    path = tmp_path / "sharper.safetensors"
    assert call("export", folder, "--seed", 1, "--output", path, "--temperature", 0.5).code == 0
    plain, sharper = load(folder, seed=1), load(path)
    half = plain.profile.population.temperature * 0.5
    np.testing.assert_allclose(sharper.profile.population.temperature, half)
    assert sharper.config == plain.config.replace(play_temperature=0.5)
    assert sharper.last_row["total_env_steps"] == plain.last_row["total_env_steps"] and len(sharper.last_row) > 4
    command = read_description(path)["command"]
    assert command.startswith("gems train kuhn_poker --method gems") and command.endswith("--seed 1"), command
    assert_one_line(call("export", folder, "--temperature", 0), 2, "divides the logits of GEMS by a positive number")


def test_other_methods(tmp_path: Path) -> None:
    """A method that compiles whole and one that runs in Python, with growing shapes: train, resume, eval, compare."""
    for method, steps in (("cfr_plus", (20, 30)), ("psro", (2, 3))):
        line = ["train", "matching_pennies", "--method", method, "--iterations", steps[0], "--no-figures"]
        done = call(*line, "--run-dir", tmp_path / method)
        assert done.code == 0 and "iterations/s" in done.out and "env steps" not in done.out, done
        again = call("resume", tmp_path / method, "--iterations", steps[1], "--no-figures")
        assert again.code == 0 and f"resumed from iteration {steps[0]} of {steps[1]}" in again.out
        said = call("eval", tmp_path / method)
        found = re.search(r"seed 0: exploitability ([\d.]+)", said.out)
        logged = read_metrics(tmp_path / method)["exploitability"]
        assert found and float(found[1]) == pytest.approx(logged[-1], abs=2e-6) and len(logged) == steps[1]
        assert_one_line(call("eval", tmp_path / method, "--why"), 1, "no error budget")
    compared = call("compare", tmp_path / "cfr_plus", tmp_path / "psro", "--output", tmp_path / "out")
    assert compared.code == 0 and "3 iterations" in compared.out and "env steps" not in compared.out, compared


# --- help


def test_help_is_quick_and_loads_nothing_heavy() -> None:
    """Under a second of the processor in the best of three, and without jax."""
    script = (
        "import sys, time; begin = time.process_time()\n"
        "from gems_jax.cli.main import invoke\n"
        "code = invoke(['--help'])\n"
        "heavy = [name for name in ('jax', 'flax', 'pgx', 'tyro', 'matplotlib') if name in sys.modules]\n"
        "print(time.process_time() - begin, heavy)"
    )
    seconds: list[float] = []
    while len(seconds) < 3 and min(seconds, default=9.0) >= 1.0:  # the first may find no bytecode, or a busy machine
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        took, heavy = done.stdout.splitlines()[-1].split(" ", 1)
        assert heavy == "[]"
        seconds.append(float(took))
    assert min(seconds) < 1.0
    assert all(f"gems {command.usage}" in done.stdout for command in COMMANDS.values())


@pytest.mark.parametrize("command", list(COMMANDS))
def test_every_command_has_help(command: str) -> None:
    done = call(command, "--help")
    assert done.code == 0 and f"usage: gems {command}" in done.out and done.err == ""


def test_help_shows_the_defaults_of_the_preset() -> None:
    quick = ("train", "kuhn_poker", "--preset", "paper", "--quick")
    assert re.search(r"--abr-steps INT.*\n.*\(default: 30\)", call("train", "--help-all").out)
    assert re.search(r"--abr-steps INT.*\n.*\(default: 5\)", call(*quick, "--help-all").out)
    plain, short = (" ".join(call(*line).out.split()) for line in (("train", "--help"), (*quick, "-h")))
    assert "by default [40]" in plain and "by default [5]" in short


def test_help_of_train_is_short_and_shows_flags_of_the_method() -> None:
    plain, psro = call("train", "--help").out, call("train", "--method", "psro", "--help").out
    assert plain.count("\n") < 60 and "--help-all lists all" in plain and "--no-figures" in plain
    assert "--meta-solver NAME" in psro and "--meta-solver" not in plain and "--abr-steps" not in plain
    flags = set(re.findall(r"^  (--[\w-]+)", plain, re.MULTILINE))
    assert flags <= train.flags_of(train.Train) | train.flags_of(GemsConfig) and len(flags) > 12


def test_methods_are_listed_with_what_they_need() -> None:
    done = call("methods")
    lines = done.out.splitlines()
    assert done.code == 0 and all(len(line) <= 80 for line in lines)
    assert {line.split()[0] for line in lines if line.startswith("  ")} == set(METHODS) == set(CATALOG)
    heading = next(line for line in reversed(lines[: [line[:5] for line in lines].index("  xdo")]) if line[:1] != " ")
    assert heading == "two-player zero-sum games that can be enumerated, one seat per player:"


def test_version_and_no_arguments() -> None:
    assert call("--version").out == f"gems_jax {__version__}\n"
    assert call().out == call("--help").out
    with pytest.raises(SystemExit) as leave:
        cli.main(["tarin"])
    assert leave.value.code == 2


# --- mistakes: one line, exit code 2, nothing made


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("tran kuhn_poker", ["unknown command 'tran'", "did you mean 'train'?"]),
        ("train", ["missing: GAME"]),
        ("train kuhn", ["Unknown game 'kuhn'", "did you mean 'kuhn_poker' or 'kuhn_poker_3p'?"]),
        ("train kuhn_poker --game-option shard=True", ["no option 'shard'", "Did you mean 'shared'?"]),
        ("train khun_poker", ["Unknown game 'khun_poker'", "did you mean 'kuhn_poker' or 'kuhn_poker_3p'?"]),
        ("train kuhn_poker --preset papper", ["no preset 'papper'", "did you mean 'paper'?"]),
        ("train rock_paper_scissors --preset paper", ["no presets for the game 'rock_paper_scissors'"]),
        ("train kuhn_poker --method gem", ["unknown method 'gem'", "did you mean 'gems'?"]),
        ("train kuhn_poker --method psro --preset paper", ["the method psro has no presets"]),
        ("train kuhn_poker --method psro --eta 1", ["unknown flag --eta; it is a flag of --method gems, fxp, not of"]),
        ("train kuhn_poker --method cfr --rounds 1", ["it is a flag of --method psro", "and", "more, not of cfr"]),
        ("train kuhn_poker_3p --method xdo", ["xdo is for two-player zero-sum games", "has 3 players"]),
        ("train chess --method cfr", ["cfr enumerates the game, and 'chess' has more than 10^44 positions"]),
        ("train simple_tag --method cfr", ["expected one player per seat, got teams"]),
        ("train public_goods --method psro --game-option shared=True", ["one population per player"]),
        ("train --seed 1 kuhn_poker_3p --method apsro", ["apsro is for two-player zero-sum games"]),
        ("train kuhn_poker --learning-rat 1", ["unknown flag --learning-rat", "did you mean --learning-rate?"]),
        ("train kuhn_poker --lerning_rate=1", ["unknown flag --lerning_rate", "did you mean --learning-rate?"]),
        ("train kuhn_poker --eta -1", ["--eta must be a finite number, at least 0: got -1.0"]),
        ("train kuhn_poker --eta nan", ["--eta must be a finite number"]),
        ("train kuhn_poker --eta fast", ["Error parsing --eta", "'fast'"]),
        ("train kuhn_poker --alpha", ["Missing value", "--alpha"]),
        ("train kuhn_poker --eta", ["--eta must be a finite number, at least 0, or a tuple", "got ()"]),
        ("train kuhn_poker --meta-rule owmu", ["invalid choice 'owmu'", "Did you mean 'omwu'?"]),
        ("train kuhn_poker --iterations 0", ["--iterations must be an integer, at least 1: got 0"]),
        ("train kuhn_poker --initial-anchors 99", ["--initial-anchors must fit the capacity"]),
        ("train kuhn_poker --seeds 0", ["--seeds must be at least 1"]),
        ("train kuhn_poker --seed -1", ["--seed must be an integer from 0"]),
        ("train kuhn_poker --seed 99999999999999999999", ["--seed must be an integer from 0"]),
        ("train kuhn_poker --checkpoint-seconds nan", ["--checkpoint-seconds must be at least 0"]),
        ("train kuhn_poker --writers tensorbord", ["unknown writer 'tensorbord'", "did you mean 'tensorboard'?"]),
        ("train kuhn_poker --game-option colour=red", ["no option 'colour'", "Known options"]),
        # --replay-steps belong to the estimator of the preset: the first complaint is the next one
        ("train leduc_holdem --replay-steps 4 --game-option colour=red", ["no option 'colour'"]),
        ("train kuhn_poker --game-option colour", ["--game-option must be name=value, got 'colour'"]),
        ("train kuhn_poker more", ["more"]),
        ("train pgx:tictactoe", ["pgx has no game 'tictactoe'", "did you mean 'pgx:tic_tac_toe'"]),
        ("train no_module:Game", ["there is no module 'no_module'"]),
        ("resume nowhere", ["no run at nowhere"]),
        ("resume . --iterations 0", ["--iterations must be at least 1"]),
        ("eval .", [". is not a run directory"]),
        ("games --check hex", ["Unknown game 'hex'"]),
        ("games --episodes 0 --check biased_rps", ["--episodes must be at least 1"]),
        ("plan biased_rps --minutes 0", ["--minutes must be positive, got 0"]),
        ("plan biased_rps --iterations -1", ["--iterations must be at least 0"]),
        ("plan kuhn_poker --preset no", ["no preset 'no'"]),
        ("profile nowhere", ["no run at nowhere"]),
        ("profile leduc", ["give a run directory"]),
        ("profile nowhere --repeats 0", ["--repeats must be at least 1"]),
        ("doctor --verbose", ["unknown flag --verbose"]),
    ],
)
def test_mistakes(line: str, parts: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert_one_line(call(*line.split()), 2, *parts)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "line",
    ["kuhn_poker --run-dir /proc/none/run", "connect_four --method cfr", "kuhn_poker_3p --method xdo", "kuhn"],
)
def test_refusals_import_no_networks(line: str) -> None:
    """What the words of a line show is refused before anything heavy is imported: under a second of an idle core."""
    heavy = ("flax", "distrax", "pgx", "scipy", "matplotlib", "gems_jax.solvers", *(("jax",) * ("run-dir" in line)))
    script = (
        "import sys; from gems_jax.cli.main import invoke\n"
        f"print(invoke({['train', *line.split()]}), [name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout in ("1 []\n", "2 []\n") and done.stderr.startswith("gems train: "), done


def test_runs_are_never_written_over(kuhn_run: RunDirectory) -> None:
    done = call("train", "kuhn_poker", "--run-dir", kuhn_run.shared)
    assert_one_line(done, 2, "never overwritten", f"gems resume {kuhn_run.shared}")


def test_settings_that_do_not_go_with_the_game(tmp_path: Path) -> None:
    done = call("train", "connect_four", "--policy", "tabular", "--run-dir", tmp_path / "run", "--no-exact")
    assert_one_line(done, 2, "connect_four")
    assert not (tmp_path / "run").exists()


# --- parts


def test_why_names_the_largest_term() -> None:
    base = {
        "budget_best_response": 0.01,
        "budget_oracle": 0.02,
        "budget_newcomer": 0.0,
        "budget_meta_regret": 0.03,
        "monte_carlo_error": 0.01,
    }

    def told(config: GemsConfig | None = None, **changes: float) -> str:
        # the first row is old: only the last five count
        row = {name: np.array([9.0] + [value] * 5) for name, value in {**base, **changes}.items()}
        return explain([row], config)

    better = ": train with --preset auto, whose smaller gaps at equal steps were measured"
    assert told() == "the meta-strategy leaves 0.03 of the gap of 0.06 (50%)" + better
    assert "because the noise of the values (0.5) is larger than that: train with" in told(monte_carlo_error=0.5)
    assert "best response leaves" in told(budget_best_response=0.9, monte_carlo_error=5.0)
    for largest in ("budget_best_response", "budget_oracle", "budget_newcomer"):
        assert told(**{largest: 0.9}).endswith(better)
        assert told(GemsConfig(policy="mlp"), **{largest: 0.9}).endswith("; no setting was measured to reduce it")
    averaged = explain_timing([{n: np.zeros(9) for n in base}])
    assert "the mean of the last 5 iterations, each before its training" in averaged
    assert "measured before the last iteration's training" in explain_timing([{n: np.float64(0.1) for n in base}])
    zero = {name: np.zeros(3) for name in base}
    assert explain([zero]).endswith("nothing: the gap is 0")
    with pytest.raises(RunError, match="no error budget"):
        explain([{"iteration": np.arange(3.0)}])
    with pytest.raises(RunError, match="no error budget"):
        explain([{name: np.zeros(0) for name in base}])


BUDGET = {
    "budget_best_response": 0.01,
    "budget_oracle": 0.02,
    "budget_newcomer": 0.0,
    "budget_meta_regret": 0.03,
    "monte_carlo_error": 0.5,
    "value_error": 0.2,
}


META = "the meta-strategy leaves 0.03 of the gap of 0.06 (50%), because "
NOISY = "of the noise of the values (standard error 0.2); the solver leaves 0.002 on its own estimate"
SOLVER = "the solver leaves 0.02 on its own estimate; no setting was measured to reduce it"
LARGER = "the noise of the values (0.5) is larger than that: train with --preset auto, whose"
TRAINING = "the best response leaves 0.45 of the gap of 0.5 (90%); no setting was measured to reduce it"
REUSING = {"estimator": "trajectories", "meta_rule": "rm_plus", "mixture_samples": 1000, "episodes": 1}


@pytest.mark.parametrize(
    ("settings", "changes", "expected"),
    [
        (REUSING, {"meta_regret_estimated": 0.002}, META + NOISY + ": train with --mixture-samples 10000"),
        (
            {**REUSING, "buffer_episodes": 1000},
            {"meta_regret_estimated": 0.002},
            META + NOISY + ": train with --mixture-samples 10000 --buffer-episodes 10000",
        ),
        (
            {"estimator": "pairs", "meta_rule": "rm_plus"},
            {"meta_regret_estimated": 0.002},
            META + NOISY + "; no setting was measured to reduce it",
        ),
        ({"estimator": "pairs"}, {"meta_regret_estimated": 0.02}, META + SOLVER),
        ({"estimator": "self_normalised"}, {}, META + LARGER),
        ({"estimator": "trajectories", "replay_steps": 5}, {"budget_best_response": 0.45}, TRAINING),
    ],
)
def test_why_names_the_cause_and_flags_that_matter(settings: dict, changes: dict, expected: str) -> None:
    row = {name: np.full(5, value) for name, value in {**BUDGET, **changes}.items()}
    config = GemsConfig(**settings).validate()
    assert explain([row], config).startswith(expected)


@pytest.fixture(scope="module")
def reusing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two iterations that reuses returns, without candidates and training."""
    folder = tmp_path_factory.mktemp("reusing") / "run"
    settings = ["--estimator", "trajectories", "--meta-rule", "rm_plus", "--meta-steps", 20, "--initial-anchors", 3]
    sizes = ["--buffer-episodes", 32, "--iterations", 2, "--mutations", 0, "--randoms", 0, "--abr-steps", 0]
    done = call("train", "biased_rps", *TINY, *settings, *sizes, "--no-figures", "--run-dir", folder)
    assert done.code == 0, done
    return folder


def test_why_of_a_run_that_reuses_returns(reusing: Path) -> None:
    """Columns are logged, and the sentence names no flag of another estimator."""
    rows = read_metrics(reusing)
    assert (rows["value_error"] > 0.0).all() and np.isfinite(rows["meta_regret_estimated"]).all()
    said = call("eval", reusing, "--why")
    found = re.search("why: (.*)", said.out)
    assert found and set(re.findall(r"--[\w-]+", found[1])) <= {"--mixture-samples", "--buffer-episodes"}, said


@pytest.mark.slow
def test_held_out_budget_of_a_run_that_reuses_returns(reusing: Path) -> None:
    """The noise is measured by the run's own estimator, and is less than returns can differ."""
    held = call("eval", reusing, "--exploiter", 2, "--episodes", 256)
    low, high = make_game("biased_rps").return_bounds
    noise = re.search(r"monte carlo error +([\d.]+) ", held.out)
    assert held.code == 0 and noise and 0.0 < float(noise[1]) < high - low and "why: " in held.out, held


def test_why_without_a_budget_is_one_line(matrix_run: RunDirectory, tmp_path: Path) -> None:
    folder = shutil.copytree(matrix_run.shared, tmp_path / "run")
    (folder / "metrics.csv").write_text("iteration,gap\n1,0.5\n")
    assert_one_line(call("eval", folder, "--why"), 1, "no error budget")


def test_game_options_are_python_or_text() -> None:
    pairs = ["a=1", "b=2.5", "shared=True", "name=x y", "payoffs=[[1, 0], [0, 1]]", "t="]
    assert train.parse_game_options(pairs) == {
        "a": 1,
        "b": 2.5,
        "shared": True,
        "name": "x y",
        "payoffs": [[1, 0], [0, 1]],
        "t": "",
    }


def test_settings_go_through_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also on an installation without the package of the writer."""
    import dataclasses

    monkeypatch.setitem(WRITER_MODULES, "tensorboard", "json")
    settings = RunOptions(chunk=3, exact=False, writers=("tensorboard",))
    assert RunOptions.from_record(json.loads(json.dumps({**dataclasses.asdict(settings), "preset": "x"}))) == settings
    assert RunOptions.from_record({}) == RunOptions()


def test_settings_of_each_player_on_the_command_line_and_in_a_record() -> None:
    words = ["kuhn_poker", "--eta", "0.1", "0.2", "--lambda-jacobian", "0.5"]
    settings = train._parse(words, GemsConfig()).settings
    assert settings.eta == (0.1, 0.2) and settings.lambda_jacobian == 0.5
    record = json.loads(json.dumps(resolve(settings)))
    assert parse_config(GemsConfig, record) == settings


def test_the_preset_paper_brings_the_options_of_its_game() -> None:
    for words, expected in (
        (["simple_tag", "--preset", "paper"], {"continuous": True}),
        (["simple_tag", "--preset", "paper", "--game-option", "continuous=False"], {"continuous": False}),
        (["simple_tag", "--preset", "tuned"], {}),
        (["simple_tag"], {}),
    ):
        run = train._add_preset_options(train._parse(words, GemsConfig()).run)
        assert train.parse_game_options(run.game_option) == expected
