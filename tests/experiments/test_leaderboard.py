"""The leaderboard at its smallest: a cell is run once, a page says what the stored cells say."""

import json
import re

import numpy as np
import pytest

from experiments.leaderboard import cells, page, running, tuning
from experiments.leaderboard.__main__ import main
from experiments.leaderboard.cells import Board, Cell, list_cells, settings_of
from experiments.leaderboard.curves import choose_styles
from experiments.leaderboard.page import load_trials, page_text, write_page
from experiments.leaderboard.running import describe_plan, estimate_seconds, load_cells, run_cell, run_cells
from experiments.leaderboard.scores import first_reach, iqm_band, last_values, rank_methods, steps_to_reach
from gems_jax.evaluate.statistics import interquartile_mean
from gems_jax.solvers import DEFAULTS, METHODS

RPS = "rock_paper_scissors"


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """One game of one step, two seeds, budgets of 200 and 400 steps in two iterations."""
    monkeypatch.setitem(cells.GAMES, RPS, Board("Rock-paper-scissors", (0, 1), (1.0, 0.1), "points"))
    for steps in list(cells.ITERATIONS):
        monkeypatch.delitem(cells.ITERATIONS, steps)
    monkeypatch.setitem(cells.ITERATIONS, 200, 2)
    monkeypatch.setitem(cells.ITERATIONS, 400, 2)


def fake(method, budget, gaps, average=None, steps=(100, 200)):
    """A record with curves `gaps` [seeds, iterations]."""
    curves = {"exploitability": gaps, "exploitability_average": average or gaps, "env_steps": [list(steps)] * len(gaps)}
    return {
        "game": RPS, "method": method, "budget": budget, "gap": "exploitability", "curves": curves, "seconds": 2.0,
        "compile_seconds": 3.0, "wall_seconds": 6.0, "env_steps": [steps[-1]] * len(gaps), "seeds": [0, 1],
    }  # fmt: skip


def test_every_method_that_learns_from_episodes_is_there():
    """All but exact methods and random play, each with its trials and their source."""
    learns = {name for name in METHODS if hasattr(DEFAULTS[name], "env_steps")} | {"gems"}
    assert {method for method, _ in cells.METHODS.values()} == learns
    assert set(load_trials()) == set(cells.METHODS)
    assert all(set(entry) == {"trials", "note", "source"} for entry in load_trials().values())


def test_cells_are_listed_small_budgets_first():
    listed = list(list_cells(game=RPS))
    assert [cell.budget for cell in listed] == [200] * len(cells.METHODS) + [400] * len(cells.METHODS)
    (one,) = list_cells(RPS, "psro", 300)
    assert (one.iterations, one.steps) == (2, 150)  # the rule of the next smaller budget
    with pytest.raises(ValueError, match="unknown method 'prso'; did you mean 'psro'"):
        list(list_cells(RPS, "prso"))


def test_settings_follow_the_budget():
    _, method, config = settings_of(Cell(RPS, "os_mccfr", 200))
    assert method == "os_mccfr" and config.env_steps == 100
    assert settings_of(Cell(RPS, "psro", 40_000))[2].opponents == 64
    with pytest.raises(ValueError, match="has no preset 'paper'"):
        settings_of(Cell(RPS, "gems_paper", 200))


def test_a_cell_is_run_once(tmp_path, monkeypatch, capsys):
    """Interrupted, nothing is stored; then it is run; then it is left alone, and a method that cannot play is noted."""
    root, line = tmp_path / "cells", ["--game", RPS, "--method", "os_mccfr", "--budget", "200", "--root"]
    run = running.run
    monkeypatch.setattr(running, "run", lambda *a, **k: type("Stopped", (), {"stopped_by": "SIGTERM"}))
    assert main(["run", *line, str(root)]) == 130 and not root.exists()
    monkeypatch.setattr(running, "run", run)
    assert main(["run", *line, str(root)]) == 0
    path = root / RPS / "os_mccfr-200.json"
    record = json.loads(path.read_text())
    assert record["seeds"] == [0, 1] and record["iterations"] == 2 and record["config"]["env_steps"] == 100
    assert np.shape(record["curves"]["exploitability_average"]) == (2, 2) == np.shape(record["curves"]["env_steps"])
    assert all(abs(steps - 200) <= 2 for steps in record["env_steps"]) and record["command"].endswith("--budget 200")
    assert {"commit", "versions", "seconds", "compile_seconds"} <= set(record)
    before = path.read_bytes()
    monkeypatch.setattr(running, "run", lambda *a, **k: pytest.fail("a finished cell was run again"))
    assert main(["run", *line, str(root)]) == 0 and path.read_bytes() == before
    with pytest.raises(FileExistsError, match="never run again"):
        run_cell(Cell(RPS, "os_mccfr", 200), root)
    assert "no preset" in run_cell(Cell(RPS, "gems_paper", 200), root)["skipped"]
    assert main(["plan", "--game", RPS, "--budget", "200", "--root", str(root)]) == 0
    said = capsys.readouterr().out
    assert f"finished: 2 of {len(cells.METHODS)}" in said and "skipped: rock_paper_scissors has no preset" in said


def test_fewer_seeds_are_run_and_stated(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(running, "run_cell", lambda cell, root, seeds: seen.append(seeds) or {"skipped": "not now"})
    line = ["run", "--game", RPS, "--method", "psro", "--budget", "200", "--root", str(tmp_path)]
    assert main([*line, "--seeds", "1"]) == 0 == main(line) and seen == [(0,), (0, 1)]
    of_one, of_both = fake("psro", 200, [[1.0, 0.5]]) | {"seeds": [0]}, fake("psro", 200, [[1.0, 0.5]] * 2)
    assert "**0.5, 1 seeds**" in page_text({Cell(RPS, "psro", 200): of_one}, [RPS])
    assert " seeds**" not in page_text({Cell(RPS, "psro", 200): of_both}, [RPS])


def test_time_limits_are_kept(tmp_path, monkeypatch):
    """The first cell takes a minute by estimate, and half of one is left."""
    monkeypatch.setattr(running, "run_cell", lambda *a: pytest.fail("there was no time for it"))
    said = []
    assert run_cells([Cell(RPS, "psro", 200)], tmp_path, max_minutes=0.5, report=said.append) == 1
    assert said == ["1 cells left for want of time; the same command continues"]


def test_estimates_grow_with_the_steps():
    """2 s of running for 200 steps are 4 s for 400; the other 4 s do not grow."""
    stored = {Cell(RPS, "psro", 200): fake("psro", 200, [[1.0, 0.5]] * 2)}
    assert estimate_seconds(Cell(RPS, "psro", 400), stored) == 8.0
    assert estimate_seconds(Cell(RPS, "mmd", 400), stored) == 60.0


def test_steps_to_reach_by_hand():
    """Four seeds; the lowest and the highest are trimmed. One more that never gets there leaves no mean."""
    gaps = [[0.1, 0.1], [1.0, 0.1], [1.0, 0.1], [1.0, 1.0]]
    record = fake("psro", 200, gaps)
    np.testing.assert_array_equal(first_reach(record, "exploitability", 0.5), [100, 200, 200, np.inf])
    assert steps_to_reach([record], 0.5).mean == 200.0
    never = fake("psro", 400, [*gaps[:2], *[gaps[3]] * 2])
    assert steps_to_reach([never], 0.5).mean == np.inf
    assert steps_to_reach([never, record], 0.5).mean == 200.0


def test_runs_are_read_within_their_budget():
    """Of 203 and 210 steps the first is within 2 % of 200; a run whose first iteration is beyond has nothing else."""
    gaps = [[0.9, 0.5]]
    for steps, expected in (((100, 203), 0.5), ((100, 210), 0.9), ((300, 400), 0.9)):
        assert last_values(fake("psro", 200, gaps, steps=steps), "exploitability").tolist() == [expected]


def test_methods_are_ranked_by_the_profile_they_put_forward():
    """Self-play is judged by its average, PSRO by its iterate."""
    good, bad = [[1.0, 0.1]] * 2, [[1.0, 0.9]] * 2
    records = {
        Cell(RPS, "psro", 200): fake("psro", 200, bad, average=good),
        Cell(RPS, "self_play", 200): fake("self_play", 200, bad, average=good),
    }
    assert rank_methods(records, RPS) == ["self_play", "psro"]
    # a budget that only one of them has does not decide
    assert rank_methods({**records, Cell(RPS, "psro", 400): fake("psro", 400, good)}, RPS) == ["self_play", "psro"]


def test_bands_of_one_seed_are_its_line():
    line, low, high = iqm_band(np.asarray([[3.0, 2.0]]))
    assert line.tolist() == low.tolist() == high.tolist() == [3.0, 2.0]


def test_the_page_has_the_numbers_of_the_json(tmp_path):
    rng = np.random.default_rng(0)
    root = tmp_path / "cells"
    for method, budget in (("psro", 200), ("psro", 400), ("mmd", 200)):
        path = Cell(RPS, method, budget).path(root)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(fake(method, budget, *rng.uniform(0.2, 2, (2, 5, 2)).tolist())))
    records = load_cells(list_cells(game=RPS), root)
    page, figure = write_page(records, tmp_path / "leaderboard.md")
    assert page.read_text() == page_text(records, [RPS]) and figure.stat().st_size > 10_000
    rows = {row.split(" | ")[1]: row.strip("| ").split(" | ") for row in page.read_text().splitlines() if "0." in row}
    for method in ("psro", "mmd"):
        shown = iter(rows[f"`{method}`"][2:6])
        for budget in (200, 400):
            for column in ("exploitability", "exploitability_average"):
                record, number = records.get(Cell(RPS, method, budget)), re.findall(r"[\d.]+", next(shown))[:1]
                last = record and np.asarray(record["curves"][column])[:, -1]
                assert number == ([] if last is None else [f"{interquartile_mean(last):.3g}"]), (method, budget, column)
    assert "left: 47 cells" in "\n".join(describe_plan(list(list_cells(game=RPS)), root))


def test_methods_have_one_style_on_all_games():
    """GEMS and PSRO keep theirs; what is left goes to the best of the others, and the last of them stay gray."""
    few = choose_styles(["apsro", "psro", "gems"])
    many = choose_styles(["xdo", "pdo", "edo", "gems", "fxp", "psro"])
    assert few["gems"] == many["gems"] and few["psro"] == many["psro"] and "apsro" in few
    assert "pdo" in many and "edo" in many and "fxp" not in many
    assert len({style.color for style in many.values()}) == len(many)


def test_a_page_without_cells_says_so(tmp_path):
    page = tmp_path / "page.md"
    assert main(["write", "--root", str(tmp_path), "--page", str(page)]) == 0
    assert page.read_text().endswith("No results are stored yet: `make leaderboard` runs all cells.\n")


def test_trials_are_stored_confirmed_and_used(tmp_path, monkeypatch):
    """The choice for a budget is the finalist that is best there on other seeds; cells of that budget take it."""
    monkeypatch.setattr(tuning, "BUDGET", 200)
    monkeypatch.setattr(tuning, "CONFIRMED_AT", (200, 400))
    seen = []

    def measured(cell, settings, seeds):
        settings_of(cell, settings)  # the method accepts them
        seen.append((settings, seeds))
        rate = settings.get("baseline_rate", 0.0)  # trial 0 draws nothing
        return [rate if seeds == tuning.CONFIRMING and cell.budget == 200 else 1.0 - rate] * len(seeds)

    monkeypatch.setattr(tuning, "measure_trial", measured)
    record = tuning.tune(RPS, "os_mccfr", 8, tmp_path, report=lambda line: None)
    assert [one["settings"] for one in record["trials"]][0] == {} and len(record["trials"]) == 8
    assert sum(seeds == tuning.CHOOSING for _, seeds in seen) == 8
    for finalists in record["finalists"].values():
        best = {one["trial"] for one in finalists}
        assert 0 in best and len(best) == 1 + tuning.FINALISTS
    assert record["chosen"]["200"] == {}  # the best on the choosing seeds are worse on the others
    assert record["chosen"]["400"]["baseline_rate"] == max(
        one["settings"].get("baseline_rate", 0) for one in record["trials"]
    )
    seen.clear()
    again = tuning.tune(RPS, "os_mccfr", 8, tmp_path, report=lambda line: None)
    assert not seen and again == json.loads(json.dumps(record))
    path = cells.choice_path(RPS, "os_mccfr", tmp_path)
    path.write_text(json.dumps({"chosen": {"200": {"exploration": 0.3}}}))
    monkeypatch.setattr(cells, "choice_path", lambda game, method: path)
    assert settings_of(Cell(RPS, "os_mccfr", 200))[2].exploration == 0.3
    assert settings_of(Cell(RPS, "os_mccfr", 400))[2].exploration == DEFAULTS["os_mccfr"].exploration


def test_relatives_of_psro_take_its_trials_and_choose_for_themselves(tmp_path, monkeypatch):
    """The gap is the learning rate for PSRO, and minus the rate for a double oracle with the same learner."""
    monkeypatch.setattr(tuning, "BUDGET", 200)
    monkeypatch.setattr(tuning, "CONFIRMED_AT", (400,))
    methods = []

    def measured(cell, settings, seeds):
        methods.append(cell.method)
        return [settings.get("learning_rate", 0.05) * (1 if cell.method == "psro" else -1)] * len(seeds)

    monkeypatch.setattr(tuning, "measure_trial", measured)
    monkeypatch.setattr(tuning, "settings_of", lambda *a: (None, None, DEFAULTS["psro"]))
    record = tuning.tune(RPS, "double_oracle", 6, tmp_path, report=lambda line: None)
    rates = [one["settings"].get("learning_rate", 0.05) for one in record["trials"]]
    assert methods[:6] == ["psro"] * 6 and methods.count("double_oracle") == len(record["finalists"]["400"])
    finalists = sorted(rates)[: tuning.FINALISTS]
    assert record["chosen"]["400"].get("learning_rate", 0.05) == max(rates[0], *finalists)
    assert "trials" not in json.loads(cells.choice_path(RPS, "double_oracle", tmp_path).read_text())


def test_a_trial_of_python_steps_ends_like_its_cell(tmp_path, monkeypatch):
    """The gap of a trial is that of the cell with the same settings and seed."""
    monkeypatch.setattr(cells, "GAMES", {RPS: Board("RPS", (3,), (1.0,), "points")})
    monkeypatch.setattr(running, "GAMES", cells.GAMES)
    record = run_cell(Cell(RPS, "psro", 400), tmp_path)
    (gap,) = tuning.measure_trial(Cell(RPS, "psro", 400), {}, (3,))
    np.testing.assert_allclose(gap, record["curves"]["exploitability"][0][-1], rtol=1e-5)


def test_a_trial_trains():
    """The gaps of a trial are those of the ranked profile, one per seed."""
    gaps = tuning.measure_trial(Cell(RPS, "es_mccfr", 200), {"plus": True}, (1000, 1001))
    assert len(gaps) == 2 and all(0.0 <= gap <= 1.0 for gap in gaps)


def test_the_page_counts_stored_trials(tmp_path, monkeypatch):
    path = tmp_path / "one.json"
    path.write_text(json.dumps({"trials": [{}] * 5}))
    monkeypatch.setattr(page, "choice_path", lambda game, method: path)
    assert page.describe_trials(RPS, "os_mccfr") == str(load_trials()["os_mccfr"]["trials"] + 5)
    monkeypatch.setattr(page, "load_trials", lambda: {"psro": {"trials": "unknown"}})
    assert page.describe_trials(RPS, "psro") == "5+"
    path.unlink()
    assert page.describe_trials(RPS, "psro") == "unknown"
