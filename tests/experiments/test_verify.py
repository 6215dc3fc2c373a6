"""`make verify-results`: equal numbers pass, other ones do not, and what is not stated is told."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from experiments import verify
from experiments.harness.experiment import ExperimentResult
from experiments.reporting.gathering import Source
from experiments.reporting.stated import write_stated
from experiments.reporting.verifying import WRONG, Comparison, Mean, compare_arms, compare_rows, verdict
from gems_jax.evaluate.statistics import mean_interval


def arm_rows(samples: dict[str, list[float]], arm: str = "tuned", iteration: int = 6) -> list[dict]:
    return [
        {"arm": arm, "column": column, "iteration": iteration, **mean_interval(values)._asdict(), "seeds": len(values)}
        for column, values in samples.items()
    ]


def source(samples: dict[str, list[float]], name: str = "deceptive") -> Source:
    return Source(name, {"name": name, "numbers": arm_rows(samples), "arms": {"tuned": {}}, "command": ""})


STATED = {"nash_conv": [0.1, 0.12, 0.09, 0.11, 0.13], "value_sender": [0.0] * 5, "value_receiver": [0.8] * 5}


def differing(found: dict[str, list[float]]) -> list[str]:
    return verdict(compare_arms(source(STATED), source({**STATED, **found}), ["tuned"], list(STATED)))[1]


def test_equal_numbers_and_other_draws_agree() -> None:
    assert differing({}) == []
    assert differing({"nash_conv": [0.12, 0.1, 0.14, 0.11, 0.1], "value_sender": [0.001] * 5}) == []


@pytest.mark.parametrize(
    "wrong",
    [{"nash_conv": [0.3, 0.35, 0.31, 0.33, 0.29]}, {"value_receiver": [0.56] * 5}, {"value_sender": [0.17] * 5}],
)
def test_other_numbers_differ(wrong: dict[str, list[float]]) -> None:
    (line,) = differing(wrong)
    assert line.startswith("deceptive, tuned: ") and "published" in line and "allowed difference" in line


def test_a_right_program_fails_seldom_and_a_wrong_one_mostly() -> None:
    """10 numbers of 5 normal seeds each: of 400 verifications 1 % may fail, 4 (10 are 3 deviations more), and of those
    where one mean is off by 6 deviations of a seed nearly all do."""
    random = np.random.default_rng(0)

    def fails(shift: float) -> bool:
        compared = []
        for place in range(10):
            one, other = random.normal(size=(2, 5)) + [[0.0], [shift * (place == 0)]]
            means = [Mean(x.mean(), x.std(ddof=1) / math.sqrt(5), 4) for x in (one, other)]
            compared.append(Comparison(str(place), *means, floor=0.0))
        return bool(verdict(compared)[1])

    assert WRONG == 0.01
    assert sum(fails(0.0) for _ in range(400)) <= 10
    assert sum(fails(6.0) for _ in range(100)) >= 99


def test_rows_of_a_study() -> None:
    row = {"index": "eb", "regret": 100.0, "sd": 10.0, "runs": 50}
    stated = Source("oracle", {"numbers": [{**row, "runs": 250}]})

    def compared(regret: float) -> list[str]:
        found = Source("oracle", {"numbers": [{**row, "regret": regret}]})
        return verdict(compare_rows(stated, found, ["index"], [("regret", "sd")], 0.5))[1]

    error = 10.0 * math.sqrt(1 / 50 + 1 / 250)
    assert compared(100 + 2 * error) == [] and len(compared(100 + 4 * error)) == 1
    with pytest.raises(ValueError, match="has no row ucb1"):
        compare_rows(
            stated, Source("oracle", {"numbers": [{**row, "index": "ucb1"}]}), ["index"], [("regret", "sd")], 0
        )


def test_what_is_not_stated_is_told() -> None:
    with pytest.raises(ValueError, match="has no nash_conv of paper"):
        compare_arms(source(STATED), source(STATED), ["paper"], ["nash_conv"])


def test_the_command_runs_the_part_and_exits_by_what_it_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    write_stated(tmp_path / "results", {"name": "deceptive", "numbers": arm_rows(STATED), "arms": {"tuned": {}}})
    asked, found = [], dict(STATED)

    def run(spec, *, root, console):
        asked.append(spec)
        folder = Path(root) / "x"
        folder.mkdir(exist_ok=True)
        (folder / "summary.json").write_text(json.dumps({"numbers": arm_rows(found), "arms": {"tuned": {}}}))
        return ExperimentResult(folder, (), (), True, 0)

    monkeypatch.setattr(verify, "run_experiment", run)
    assert verify.main(["deceptive"], tmp_path) == 0
    assert [arm.label for arm in asked[0].arms] == ["tuned"] and asked[0].seeds == (0, 1, 2, 3, 4)
    assert "3 numbers, 0 differ" in capsys.readouterr().out
    found["value_receiver"] = [0.56] * 5
    assert verify.main(["deceptive"], tmp_path) == 1
    told = capsys.readouterr()
    assert "receiver's value at 6: published 0.8, measured 0.56" in told.err and "differs" in told.out
    assert verify.main(["kuhn"], tmp_path) == 2 and "--write-results" in capsys.readouterr().err
    assert verify.main(["khun"], tmp_path) == 2 and "known: deceptive" in capsys.readouterr().err


def test_every_part_is_of_its_spec() -> None:
    for name, (arms, columns) in verify.ARMS.items():
        spec = verify.load(name)
        assert set(arms) <= {arm.label for arm in spec.arms} and set(columns) <= set(spec.metrics), name
