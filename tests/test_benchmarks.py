"""The benchmarks' arithmetic and their history: known answers."""

import json

import numpy as np

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
