"""Every rule of the claims ledger on made-up numbers, on both sides."""

import dataclasses
import math

import pytest

from experiments.reporting.claims import Claim, Verdict, inequality, interval, judge, number
from experiments.reporting.combining import All, Either
from experiments.reporting.costs import Faster, Flat, Power, Quickens, Smaller
from experiments.reporting.gathering import Size, Source, Sources
from experiments.reporting.quantities import Column, Figure, Missing, Picture, Row
from experiments.reporting.rules import BestAmong, Bound, Compare, Same, Steadier, Times, difference
from gems_jax.evaluate.statistics import Interval, mean_interval

HELD, CONDITION, UNDECIDED, NOT, UNKNOWN = Verdict


def row(arm, column, mean, half=None, iteration=10, seeds=5):
    ends = (None, None) if half is None else (mean - half, mean + half)
    return {"arm": arm, "column": column, "iteration": iteration, "mean": mean, "low": ends[0], "high": ends[1],
            "seeds": seeds}  # fmt: skip


def sources(*rows, command="python -m experiments.run toys", pictures=None, figures=None, study=()):
    """An experiment `toys`, a study and a benchmark."""
    arms = {one["arm"]: {} for one in rows}
    toys = Source("toys", {"numbers": list(rows), "arms": arms, "command": command, "pictures": pictures or {}})
    other = Source("study", {"numbers": list(study), "arms": {}, "command": ""})
    bench = {"growth": {"figures": figures or [], "machine": {"devices": "1 x cpu"}}}
    return Sources({"toys": toys, "study": other}, bench)


def of(arm, column="gap", **more):
    return Column("toys", arm, column, **more)


def verdict(rule, *rows, **more):
    return judge(Claim("k", "q", "w", "p", rule), sources(*rows, **more))


@pytest.mark.parametrize(
    ("margin", "at_most", "below"),
    [
        ((-1.0, -2.0, -0.1), HELD, HELD),
        ((-1.0, -2.0, 0.0), HELD, UNDECIDED),
        ((-1.0, -2.0, 0.5), UNDECIDED, UNDECIDED),
        ((0.0, -0.5, 0.5), UNDECIDED, UNDECIDED),
        ((0.0, 0.0, 0.0), HELD, NOT),
        ((0.5, -0.5, 1.5), UNDECIDED, UNDECIDED),
        ((0.5, 0.1, 1.5), NOT, NOT),
        ((-1.0, math.nan, math.nan), UNDECIDED, UNDECIDED),
        ((1.0, math.nan, math.nan), UNDECIDED, UNDECIDED),
    ],
)
def test_a_margin_is_decided_by_all_of_its_interval_and_equality_is_not_lower(margin, at_most, below) -> None:
    assert inequality(Interval(*margin))[0] is at_most
    assert inequality(Interval(*margin), strict=True)[0] is below


def test_what_is_no_number_is_not_judged() -> None:
    with pytest.raises(ArithmeticError, match="not a number"):
        inequality(Interval(math.nan, math.nan, math.nan))
    found = verdict(Bound(of("a"), at_most=1.0), row("a", "gap", math.nan, math.nan))
    assert found.verdict is UNKNOWN and "not a number" in found.condition


@pytest.mark.parametrize(("mean", "expected"), [(0.05, HELD), (0.085, UNDECIDED), (0.095, UNDECIDED), (0.3, NOT)])
def test_bound(mean: float, expected: Verdict) -> None:
    assert verdict(Bound(of("a"), at_most=0.09), row("a", "gap", mean, 0.02)).verdict is expected
    mirrored = verdict(Bound(of("a"), at_least=-0.09), row("a", "gap", -mean, 0.02))
    assert mirrored.verdict is expected
    if expected is UNDECIDED:
        assert mirrored.condition == f"within noise; the mean is {'' if mean < 0.09 else 'not '}on the claimed side"
    between = Bound(of("a"), at_least=-0.09, at_most=0.09)
    assert {verdict(between, row("a", "gap", sign * mean, 0.02)).verdict for sign in (1, -1)} == {expected}


def test_a_bound_on_several_is_as_good_as_the_worst_of_them() -> None:
    rows = [row("a", "gap", 0.1, 0.01), row("b", "gap", 0.5, 0.01), row("c", "other", 0.9, 0.01)]
    found = verdict(Bound(of("*"), at_most=0.2), *rows)
    assert found.verdict is NOT and found.condition == "not for b" and found.ours == "gap: a 0.1 ± 0.01, b 0.5 ± 0.01"
    assert verdict(Bound(of(("a", "c")), at_most=0.2), *rows).verdict is HELD


def test_exact_numbers_need_no_interval() -> None:
    anchors = row("a", "active_anchors", 64.0)
    assert verdict(Bound(of("a", "active_anchors"), at_least=64, exact=True), anchors).verdict is HELD
    assert verdict(Bound(of("a", "active_anchors"), at_least=82, exact=True), anchors).verdict is NOT


def test_a_difference_is_welch_s() -> None:
    """Two samples by hand: scipy's own interval of the same difference."""
    from scipy.stats import ttest_ind

    one, other = [1.0, 2.0, 4.0, 3.0], [2.5, 2.0, 2.2, 2.1, 2.6]
    made = [
        row(name, "gap", *(lambda i: (i.mean, i.half_width))(mean_interval(sample)), seeds=len(sample))
        for name, sample in (("a", one), ("b", other))
    ]
    a, b = (of(name).find(sources(*made))[0] for name in "ab")
    expected = ttest_ind(one, other, equal_var=False).confidence_interval(0.95)
    assert difference(a, b)[1:] == pytest.approx((expected.low, expected.high))


def test_a_difference_of_single_seeds_is_normal() -> None:
    """Intervals of many episodes, one seed each: the half widths add up as squares."""
    rows = [row("a", "gap", 1.0, seeds=1), row("a", "gap_interval", 0.3, seeds=1), row("b", "gap", 2.0, seeds=1)]
    a, b = (of(name).find(sources(*rows, row("b", "gap_interval", 0.4, seeds=1)))[0] for name in "ab")
    assert difference(a, b) == pytest.approx((-1.0, -1.5, -0.5), abs=1e-4)


@pytest.mark.parametrize(
    ("mean", "expected"), [(0.05, HELD), (0.19, UNDECIDED), (0.2, UNDECIDED), (0.21, UNDECIDED), (0.5, NOT)]
)
def test_compare(mean: float, expected: Verdict) -> None:
    rows = row("gems", "gap", mean, 0.03), row("psro", "gap", 0.2, 0.03)
    assert verdict(Compare(of("gems"), of("psro")), *rows).verdict is expected
    flipped = row("gems", "gap", -mean, 0.03), row("psro", "gap", -0.2, 0.03)
    assert verdict(Compare(of("gems"), of("psro"), lower=False), *flipped).verdict is expected


def test_equal_is_neither_lower_nor_higher() -> None:
    """Counts without noise, and one arm whose numbers are the same at two iterations; noise leaves it open."""
    rows = [row("a", "gap", 0.5, 0.1, 1), row("a", "gap", 0.5, 0.1, 10), row("b", "gap", 0.5, 0.1, 10)]
    for lower in (True, False):
        unmoved = verdict(Compare(of("a", at=10), of("a", at=1), lower=lower), *rows)
        assert unmoved.verdict is NOT and unmoved.condition == "equal"
        assert verdict(Compare(of("a"), of("b"), lower=lower), *rows).verdict is UNDECIDED
        assert verdict(Compare(of("a"), of("b"), lower=lower, exact=True), *rows).verdict is NOT
    assert verdict(Compare(of("a"), of("b"), slack=0.01, exact=True), *rows).verdict is HELD
    assert verdict(Steadier(of("a"), of("b")), row("a", "gap", 1.0, 0.0), row("b", "gap", 2.0, 0.0)).verdict is NOT
    tied = [row("1i* idle", "gap", 0.3, 0.0), row("1a", "gap", 0.3, 0.0)]
    assert verdict(BestAmong(of("*"), of("??[*] *"), "an idle row"), *tied).verdict is NOT


def test_compare_with_many_says_how_many_and_slack_forgives() -> None:
    rows = [row("gems", "gap", 0.1, 0.01), row("p1", "gap", 0.3, 0.01), row("p2", "gap", 0.08, 0.01)]
    found = verdict(Compare(of("gems"), of("p?")), *rows)
    assert found.verdict is NOT and found.condition == "lower than 1 of 2"
    kept = verdict(Compare(of("gems"), of("p?"), slack=0.1), *rows)
    assert kept.verdict is HELD and not kept.condition


@pytest.mark.parametrize(("half", "expected"), [(0.01, HELD), (0.09, UNDECIDED), (0.11, UNDECIDED), (1.0, NOT)])
def test_steadier(half: float, expected: Verdict) -> None:
    rows = row("gems", "gap", 1.0, half), row("psro", "gap", 2.0, 0.1)
    assert verdict(Steadier(of("gems"), of("psro")), *rows).verdict is expected
    two = row("gems", "gap", 1.0, half, seeds=2), row("psro", "gap", 2.0, 0.1)
    assert verdict(Steadier(of("gems"), of("psro")), *two).verdict is UNKNOWN


@pytest.mark.parametrize(("idle", "expected"), [(0.1, HELD), (0.29, UNDECIDED), (0.31, UNDECIDED), (0.5, NOT)])
def test_best_among(idle: float, expected: Verdict) -> None:
    rows = [row("1i* idle", "gap", idle, 0.05), row("1a", "gap", 0.3, 0.05), row("1b", "gap", 0.6, 0.05)]
    found = verdict(BestAmong(of("*"), of("??[*] *"), "an idle row"), *rows)
    assert found.verdict is expected and f"rank {1 + (idle > 0.3)} of 3" in found.ours


def test_either_and_all() -> None:
    rows = row("paper", "gap", 0.5, 0.01), row("tuned", "gap", 0.05, 0.01)
    good, bad, none = (Bound(of(arm), at_most=0.1) for arm in ("tuned", "paper", "nobody"))
    found = verdict(Either(bad, good, "with other settings"), *rows)
    assert found.verdict is CONDITION and found.condition == "with other settings" and "paper 0.5" in found.ours
    assert verdict(Either(good, bad, "x"), *rows).verdict is HELD
    assert verdict(Either(bad, bad, "x"), *rows).verdict is NOT
    assert verdict(Either(bad, none, "x"), *rows).verdict is NOT
    open_ = Bound(of("tuned"), at_most=0.05)
    assert verdict(Either(open_, good, "x"), *rows).verdict is CONDITION
    assert verdict(Either(open_, bad, "x"), *rows).verdict is UNDECIDED
    weaker = verdict(Either(bad, open_, "x"), *rows)
    assert weaker.verdict is NOT and weaker.condition.startswith("the weaker form is not decided; within noise")
    assert verdict(Either(none, open_, "x"), *rows).verdict is UNDECIDED
    assert verdict(All((good, open_)), *rows).verdict is UNDECIDED and verdict(All((bad, open_)), *rows).verdict is NOT
    assert verdict(Either(none, good, "x"), *rows).verdict is CONDITION
    assert verdict(Either(none, none, "x"), *rows).verdict is UNKNOWN
    assert verdict(All((good, good)), *rows).verdict is HELD
    mixed = verdict(All((good, bad)), *rows)
    assert mixed.verdict is NOT and mixed.condition.startswith("not this: gap is at most 0.1")
    assert verdict(All((good, none)), *rows).verdict is UNKNOWN


def test_times_and_same() -> None:
    figures = [
        {"name": "big", "value": 80.0, "low": None, "high": None},
        {"name": "small", "value": 10.0, "low": 9.0, "high": 11.0},
    ]
    big, small = Figure("growth", "big"), Figure("growth", "small")
    assert verdict(Times(big, small, at_least=8.0), figures=figures).verdict is HELD
    assert verdict(Times(big, small, at_most=1.05), figures=figures).verdict is NOT
    assert verdict(Bound(small, at_most=12.0), figures=figures).verdict is HELD
    assert verdict(Bound(Figure("growth", "none"), at_most=1.0), figures=figures).verdict is UNKNOWN
    sums = [row("a", c, m, 0.1, i) for c, m, i in (("x", 0.2, 1), ("y", 0.5, 1), ("x", 0.0, 10), ("y", 0.8, 10))]
    rule = Same(of("a", ("x", "y"), at=1), of("a", ("x", "y"), at=10), within=0.15)
    assert verdict(rule, *sums).verdict is HELD
    assert verdict(Same(rule.of, rule.other, within=0.05), *sums).verdict is NOT


def cost(arm, seconds, steps=1000.0, compiling=1.0, seeds=5):
    columns = {"seconds": seconds, "total_env_steps": steps, "compile_seconds": compiling}
    return [row(arm, column, value, seeds=seeds) for column, value in columns.items()]


@pytest.mark.parametrize(
    ("slow", "compiling", "expected"),
    [
        (700.0, 1.0, HELD),
        (700.0, 100.0, CONDITION),
        (600.0, 1.0, UNDECIDED),
        (660.0, 1.0, UNDECIDED),
        (500.0, 1.0, NOT),
        (1400.0, 1.0, HELD),
    ],
)
def test_faster_is_per_step_and_looks_at_compilation(slow: float, compiling: float, expected: Verdict) -> None:
    rule = Faster("toys", "gems", "psro*", 6.0)
    assert verdict(rule, *cost("gems", 100.0, compiling=compiling), *cost("psro", slow)).verdict is expected
    # twice the steps and twice the seconds: the same
    twice = [*cost("gems", 100.0, compiling=compiling), *cost("psro", 2 * slow, 2000.0, compiling=2.0)]
    assert verdict(rule, *twice).verdict is expected


def test_faster_than_all_or_than_the_slowest() -> None:
    rows = [*cost("gems", 10.0), *cost("psro", 400.0), *cost("psro fast", 20.0)]
    assert verdict(Faster("toys", "gems", "psro*", 30.0, up_to=True), *rows).verdict is HELD
    assert verdict(Faster("toys", "gems", "psro*", 30.0), *rows).verdict is NOT
    assert verdict(Faster("toys", "gems", "random", 35.0), *rows).verdict is UNKNOWN
    # one seed takes a fifth of what five take: the same rate
    assert (
        verdict(
            Faster("toys", "gems", "psro", 34.0), *cost("gems", 2.0, compiling=0.0, seeds=1), *cost("psro", 400.0)
        ).verdict
        is HELD
    )


def held(arm, parameters, memory):
    return [
        row(arm, column, values[place], iteration=mark)
        for column, values in (("parameter_bytes", parameters), ("meta_bytes", (10.0, 10.0)), ("memory_mb", memory))
        for place, mark in enumerate((1, 10))
    ]


def test_smaller_and_flat() -> None:
    gems, psro = held("gems", (90.0, 90.0), (1000.0, 1010.0)), held("psro", (90.0, 290.0), (1000.0, 1500.0))
    assert verdict(Smaller("toys", "gems", "psro", 2.9), *gems, *psro).verdict is HELD
    assert verdict(Smaller("toys", "gems", "psro", 3.1), *gems, *psro).verdict is CONDITION
    assert verdict(Smaller("toys", "psro", "gems", 1.3), *gems, *psro).verdict is NOT
    assert verdict(Flat("toys", "gems"), *gems).verdict is HELD
    assert verdict(Flat("toys", "psro"), *psro).verdict is NOT
    assert verdict(Flat("toys", "gems"), *held("gems", (90.0, 95.0), (1000.0, 1010.0))).verdict is CONDITION
    # arrays that are set aside at the start are flat whatever is done: the process decides
    assert verdict(Flat("toys", "gems"), *held("gems", (90.0, 90.0), (1000.0, 1500.0))).verdict is NOT


def curve(power, start=0.0):
    return [row("a", "seconds", start + mark**power, iteration=mark) for mark in (1, 20, 50, 100)]


def test_power_of_cumulative_seconds() -> None:
    """What is paid once at the start does not count."""
    for start in (0.0, 1000.0):
        assert verdict(Power("toys", "a", at_most=1.15), *curve(1.0, start)).verdict is HELD
        assert verdict(Power("toys", "a", at_most=1.15), *curve(2.0, start)).verdict is NOT
        assert verdict(Power("toys", "a", at_least=1.8), *curve(2.0, start)).verdict is HELD
        assert verdict(Power("toys", "a", at_least=1.8), *curve(1.4, start)).verdict is CONDITION
        assert verdict(Power("toys", "a", at_least=1.8), *curve(1.0, start)).verdict is NOT
    assert verdict(Power("toys", "a", at_most=1.15), row("a", "seconds", 3.0)).verdict is UNKNOWN


@pytest.mark.parametrize(("late", "expected"), [(9.0, HELD), (20.0, CONDITION), (25.0, NOT), (40.0, NOT)])
def test_quickens(late: float, expected: Verdict) -> None:
    rows = [
        row("a", "seconds", s, iteration=i)
        for i, s in ((1, 25.0), (11, 275.0), (101, 2000.0), (111, 2000.0 + 10 * late))
    ]
    assert verdict(Quickens("toys", "a", 25 / 9), *rows).verdict is expected


def test_rows_of_a_study_and_numbers_of_a_picture() -> None:
    study = [{"index": "eb", "rounds": 58, "sd": 1.0}, {"index": "greedy", "rounds": "never", "sd": 1.0}]
    rounds = lambda *index: Row("study", "rounds", {"index": index}, "{index}", missing=1e9)  # noqa: E731
    assert verdict(Bound(rounds("eb"), at_most=100, exact=True), study=study).verdict is HELD
    assert verdict(Bound(rounds("eb", "greedy"), at_most=100, exact=True), study=study).verdict is NOT
    assert verdict(Bound(rounds("none"), at_most=100, exact=True), study=study).verdict is UNKNOWN
    pictures = {"clouds": {"numbers": {"gems": {"seed 0": {"x": 0.1, "y": None}, "seed 1": {"x": 0.2, "xx": 9.0}}}}}
    found = Picture("toys", "clouds", ("gems.seed", ".x"), "x")
    (one,) = found.find(sources(row("gems", "gap", 1.0), pictures=pictures))
    assert one.mean == pytest.approx(0.15) and one.seeds == 2
    undecided = verdict(Bound(found, at_most=0.5), pictures=pictures)
    assert undecided.verdict is UNDECIDED and undecided.condition.startswith("there is no interval; the mean is on")
    pictures["clouds"]["numbers"]["gems"]["seed 2"] = {"x": 0.15}
    assert verdict(Bound(found, at_most=0.5), pictures=pictures).verdict is HELD
    assert verdict(Bound(Picture("toys", "clouds", (".z",)), at_most=1.0), pictures=pictures).verdict is UNKNOWN


def test_two_seeds_have_no_interval_and_one_has_that_of_its_episodes() -> None:
    rule = Bound(of("a"), at_most=1.0)
    assert verdict(rule, row("a", "gap", 0.5, 0.001, seeds=2)).condition.startswith("there is no interval")
    assert verdict(rule, row("a", "gap", 0.5, 0.001, seeds=3)).verdict is HELD
    alone = verdict(rule, row("a", "gap", 0.5, seeds=1), row("a", "gap_interval", 0.1, seeds=1))
    assert alone.verdict is CONDITION and alone.condition == "one seed: its interval is over episodes"
    # five seeds of random play are one measurement: the same number, and the interval of its episodes
    random = row("random", "gap", 0.5, 0.0), row("random", "gap_interval", 0.6, 0.0)
    assert verdict(Bound(of("random"), at_most=1.0), *random).verdict is UNDECIDED
    assert verdict(Bound(of("random"), at_most=1.2), *random).verdict is HELD


def test_rows_with_a_deviation_have_an_interval() -> None:
    """1.96 * 10 / sqrt(25) = 3.92 on either side."""
    study = [{"index": name, "regret": mean, "sd": 10.0, "runs": 25} for name, mean in (("a", 3.0), ("b", 5.0))]
    regret = lambda index: Row("study", "regret", {"index": index}, "{index}", deviation="sd")  # noqa: E731
    assert regret("a").find(sources(study=study))[0].interval == pytest.approx((3.0, -0.92, 6.92))
    assert verdict(Bound(regret("a"), at_most=7.0), study=study).verdict is HELD
    assert verdict(Compare(regret("a"), regret("b")), study=study).verdict is UNDECIDED


def test_ratios_of_intervals_have_intervals() -> None:
    """[9, 11] times [90, 110] by it: from 8.18 to 12.2."""
    ends = {"big": (100.0, 90.0, 110.0), "small": (10.0, 9.0, 11.0)}
    figures = [dict(zip(("name", "value", "low", "high"), (n, *v), strict=True)) for n, v in ends.items()]
    of_two = (Figure("growth", "big"), Figure("growth", "small"))
    for bound, expected in ((8.1, HELD), (8.3, UNDECIDED), (12.0, UNDECIDED), (12.3, NOT)):
        assert verdict(Times(*of_two, at_least=bound), figures=figures).verdict is expected
    for bound, expected in ((8.1, NOT), (8.3, UNDECIDED), (12.0, UNDECIDED), (12.3, HELD)):
        assert verdict(Times(*of_two, at_most=bound), figures=figures).verdict is expected


@pytest.mark.parametrize(
    ("command", "full", "told"),
    [
        ("--quick", None, "reduced size of toys: the quick version"),
        ("--iterations 10", None, "reduced size of toys: run with --iterations"),
        ("--seeds 1 2", None, "reduced size of toys: run with --seeds"),
        ("", Size({"a": 1000}, 5), "reduced size of toys: 10 of 1,000 iterations"),
        ("", Size({"a": 10, "b": 99}, 8), "reduced size of toys: 5 of 8 seeds"),
        ("", Size({"a": 10}, 5, {"a": {"eta": 0.1}}), "reduced size of toys: other settings than the spec's (eta)"),
        ("--iterations 10", Size({"a": 10}, 5, {"a": {"eta": 0.08, "net.width": 8}}), ""),
        ("", Size({"a": 8}, 4), ""),
    ],
)
def test_a_reduced_size_holds_with_a_condition_only(command: str, full: Size | None, told: str) -> None:
    """Ten iterations of five seeds, eta = 0.08, beside what the spec states."""
    made = sources(row("a", "gap", 0.5, 0.1), command=f"python -m experiments.run toys {command}")
    toys = made.experiments["toys"]
    toys.summary["arms"]["a"] = {"config": {"eta": 0.08, "net": {"width": 8}}}
    made = Sources({"toys": dataclasses.replace(toys, full=full)}, {})
    held, not_held, open_ = (
        judge(Claim("k", "q", "w", "p", Bound(of("a"), at_most=bound)), made) for bound in (1.0, 0.1, 0.55)
    )
    assert held.verdict is (CONDITION if told else HELD) and held.condition == not_held.condition == told
    assert not_held.verdict is NOT and open_.verdict is UNDECIDED
    assert made.experiments["toys"].is_reduced == bool(told)


def test_too_few_iterations_are_no_measurement() -> None:
    found = verdict(Bound(of("a", iterations=40), at_most=1.0), row("a", "gap", 0.5, 0.1))
    assert found.verdict is UNKNOWN and found.commands == ("python -m experiments.run toys",)
    assert found.condition.startswith("fewer than 40 iterations in what was run of toys: run `python -m")
    with pytest.raises(Missing, match="no column nothing"):
        of("a", "nothing").find(sources(row("a", "gap", 0.5)))


def test_numbers_are_short() -> None:
    assert [number(x) for x in (0.0, 0.00012, 0.13554, 12.5, 12345.6, math.inf)] == [
        "0", "1.2e-04", "0.1355", "12.5", "12,346", "never"
    ]  # fmt: skip
    assert interval(Interval(1.0, 0.5, 1.5)) == "1 ± 0.5" and interval(Interval(1.0, 0.9, 2.0)) == "1 [0.9, 2]"
    assert interval(Interval(1.0, math.nan, math.nan)) == "1"
