"""The benchmarks' arithmetic and their history: known answers."""

import json
import re

import numpy as np
import pytest

from benchmarks import publish, tables
from benchmarks.compare import changes, entries
from benchmarks.timing import Figure, interleaved, median, ratio, record


def test_medians_and_ratios_of_known_numbers():
    three = median("x", np.asarray([3.0, 1.0, 2.0]), "s")
    assert (three.value, three.low, three.high) == (2.0, 1.0, 3.0)
    same = ratio("y", np.full(5, 6.0), np.full(5, 2.0))
    assert (same.value, same.low, same.high) == (3.0, 3.0, 3.0)


def test_programs_take_turns():
    calls = []
    seconds = interleaved({name: lambda name=name: calls.append(name) for name in "ab"}, 3)
    assert calls == ["a", "b"] * 3
    assert all(len(values) == 3 and (values >= 0).all() for values in seconds.values())
    made = iter(range(9))
    interleaved({"c": calls.append}, 2, {"c": lambda: next(made)})
    assert calls[-2:] == [0, 1]  # what a program needs is made anew for each call


def test_history_is_appended_to_and_compared(tmp_path, capsys):
    history = tmp_path / "new" / "history.jsonl"
    record("b", [Figure("rate", 2.0, "k", 1.9, 2.1), Figure("gone", 1.0, "s")], history)
    record("b", [Figure("rate", 3.0, "k", 2.9, 3.1), Figure("fresh", 1.0, "s")], history)
    history.open("a").write('{"benchmark": "b", "figu')  # a run that was cut off
    assert "[1.9, 2.1]" in capsys.readouterr().out
    (before, now), (first, *_) = entries(history)["b"], history.read_text().splitlines()
    assert json.loads(first)["figures"][0]["value"] == 2.0
    lines = changes(before, now)
    assert "+50.0%, intervals apart" in lines[0] and "new" in lines[1] and "no longer" in lines[2]


def stored_entry(benchmark, *figures, **more):
    machine = {"cpus": 2, "processor": "EPYC", "jax": "0.10.2"}
    rows = [figure._asdict() for figure in figures]
    entry = {"benchmark": benchmark, "command": "python -m benchmarks.x", "commit": "abc", "date": "2026-01-02T03"}
    return {benchmark: {**entry, "machine": machine, "figures": rows, **more}}


def test_documents_hold_the_stored_figures():
    """docs/speed.md is what docs/results/bench.json gives, and no speed is typed beside its blocks or in the README."""
    stored = publish.read_store()
    typed = re.compile(r"\d[\d.,]* ?(times|ms|us|milliseconds|seconds|minutes|GFLOP/s|steps/s|kB|MB)\b")
    for path in publish.DOCUMENTS:
        text = path.read_text()
        assert publish.render(text, stored) == text, f"{path.name}: run python -m benchmarks.publish"
        assert "<!-- bench: " in text and not typed.search(publish.without_blocks(text))
    assert not typed.search((publish.ROOT / "README.md").read_text())
    names = {name for path in publish.DOCUMENTS for name in re.findall("<!-- bench: (.*?) -->", path.read_text())}
    assert names == set(tables.BLOCKS)
    for entry in stored.values():
        assert {"command", "commit", "date", "machine", "figures"} <= entry.keys(), entry["benchmark"]


def test_publishing_stores_the_newest_entries(tmp_path):
    history, path = tmp_path / "history.jsonl", tmp_path / "bench.json"
    for value in (2.0, 3.0):
        record("a", [Figure("rate", value, "k")], history)
    record("b", [Figure("other", 1.0, "s")], history)
    record("b", [Figure("not kept", 1.0, "s")], None)
    assert publish.store(history, path) == ["a", "b"]
    first = publish.read_store(path)
    assert first["a"]["figures"][0]["value"] == 3.0 and first["b"]["figures"][0]["name"] == "other"
    assert first["a"]["machine"]["cpus"] >= 1 and first["a"]["command"].startswith("python ")
    history.write_text("")
    record("b", [Figure("other", 5.0, "s")], history)
    publish.store(history, path, provisional=True)
    later = publish.read_store(path)
    assert later["a"] == first["a"] and later["b"]["provisional"] and later["b"]["figures"][0]["value"] == 5.0


def test_blocks_of_known_figures():
    figures = [
        Figure("leduc, CFR+: ours", 1.25, "ms", 1.0, 1.5, 3),
        Figure("leduc, CFR+: OpenSpiel in C++", 2500.0, "ms", 2400.0, 2600.0, 3),
        Figure("leduc, CFR+: OpenSpiel in C++ / ours", 2000.0, "times", 1600.0, 2600.0, 3, "288 information sets"),
    ]
    stored = stored_entry("openspiel, leduc", *figures, provisional=True)
    text = "a\n<!-- bench: openspiel -->\nstale\n<!-- /bench -->\nb\n"
    made = publish.render(text, stored)
    row = "| leduc, CFR+ | 1.25 ms [1, 1.5] | 2,500 ms [2,400, 2,600] | **2,000 [1,600, 2,600]** | 3 | 288 information"
    assert row in made and "stale" not in made and made.startswith("a\n") and made.endswith("<!-- /bench -->\nb\n")
    assert "commit abc, 2026-01-02, 2 CPUs (EPYC), jax 0.10.2; **provisional**" in made
    assert publish.render(made, stored) == made and publish.without_blocks(made) == "a\n\nb\n"
    assert "`python -m benchmarks.openspiel`" in publish.render(text, {})
    with pytest.raises(KeyError, match="unknown block 'opensbiel'"):
        publish.render(text.replace("openspiel", "opensbiel"), stored)
    steps = [Figure(f"iteration {mark}: {what}", value, "ms") for mark in (5, 50)
             for what, value in (("a step", 4.0), ("live on the device", 43.4), ("resident", 1200.0))]  # fmt: skip
    flat = stored_entry("growth over iterations", *steps, Figure("a step at iteration 50 / at 5", 0.985, "times"))
    assert "| 50 | 4 | 43.4 | 1,200 |\n\nA step at iteration 50 / at 5: 0.985." in tables.growth_over_iterations(flat)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (0.04964, "0.0496"), (978.1, "978"), (53190.0, "53,190"), (999.7, "1,000"), (3e-8, "3.00e-08")],
)
def test_numbers_of_tables(value, text):
    assert tables.number(value) == text
