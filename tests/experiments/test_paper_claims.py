"""The ledger's own claims: each can come out either way, and docs/results/claims.md is what docs/results makes."""

import pytest

from experiments import claims as ledger
from experiments import report, sizes
from experiments import run as entry
from experiments.reporting import theory
from experiments.reporting.claims import Claim, Verdict, judge
from experiments.reporting.combining import Either
from experiments.reporting.gathering import Sources, gather
from experiments.reporting.ledger import everything, make_ledger, markdown, tally
from experiments.reporting.quantities import Column
from experiments.reporting.rules import Bound
from gems_jax.presets import preset
from invented import possible, seen_verdicts, with_all_arms

HELD, CONDITION, UNDECIDED, NOT, UNKNOWN = Verdict
DRAWS = 400


# --- what needs no run


def test_the_printed_decomposition_fails_by_its_counterexample() -> None:
    holds, told = theory.decomposition()
    assert not holds and "left 0.9, right 0" in told
    assert not theory.progress_term()[0] and not theory.pulls_times_gap()[0]


def test_the_interval_covers_and_would_not_without_its_second_term(monkeypatch: pytest.MonkeyPatch) -> None:
    assert theory.coverage()[0]
    plain = theory.math.log
    monkeypatch.setattr(theory.math, "log", lambda x: plain(x) / 40)  # intervals that are far too narrow
    assert not theory.coverage()[0]


def test_the_estimators_are_unbiased_and_a_biased_one_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert theory.unbiased()[0]
    draw = theory.np.random.default_rng

    class Biased:
        def __init__(self, seed):
            self.random = draw(seed)

        def __getattr__(self, name):
            return getattr(self.random, name)

        def uniform(self, size):
            values = self.random.uniform(size=size)
            return values if len(size) == 2 and size[0] == 4 else 0.95 * values  # coins that win more often

    monkeypatch.setattr(theory.np.random, "default_rng", Biased)
    assert not theory.unbiased()[0]


# --- the paper's claims


def test_every_claim_of_the_paper_can_be_judged_without_any_run() -> None:
    found = everything(make_ledger(ledger.CLAIMS, Sources({}, {})))
    assert len({entry.claim.key for entry in found}) == len(found) >= 60
    computed = {entry.claim.key for entry in found if entry.verdict is not UNKNOWN}
    assert computed == {"decomposition", "progress-term", "pulls", "bernstein", "unbiased", "identity"}
    for one in found:
        assert one.claim.quote and one.claim.where and one.claim.paper and one.claim.rule.words
        assert one.commands and all(command.startswith(("python -m", "make ")) for command in one.commands)
        assert one.verdict is not UNKNOWN or "run `" in one.condition
    assert tally(found) == f"2 held, 4 not held, {len(found) - 6} not measured"


def test_claims_speak_of_experiments_and_arms_that_there_are() -> None:
    """With a made-up number in every arm and column that a spec has, no claim asks for an arm that does not exist."""
    from fnmatch import fnmatchcase

    def columns(rule):
        parts = [getattr(rule, name, None) for name in ("of", "others", "other", "by", "named", "first", "otherwise")]
        nested = [*parts, *getattr(rule, "rules", ())]
        own = [rule] if hasattr(rule, "experiment") else []
        return own + [column for part in nested if part is not None for column in columns(part)]

    for one in (claim for group in ledger.CLAIMS.values() for claim in group):
        for quantity in columns(one.rule):
            assert quantity.experiment in entry.known(), one.key
            spec = with_all_arms(quantity.experiment)
            for field in ("arm", "fast", "slow", "small", "large"):
                wanted = getattr(quantity, field, ())
                for pattern in (wanted,) if isinstance(wanted, str) else wanted:
                    assert any(fnmatchcase(arm.label, pattern) for arm in spec.arms), (one.key, pattern)


EVERY = tuple(claim for group in ledger.CLAIMS.values() for claim in group)
# mathematics that no run can change: the tests above see both sides of it where there are two
COMPUTED = {
    "decomposition": {NOT},  # a counterexample
    "progress-term": {NOT},  # a counterexample
    "pulls": {NOT},  # two sides that differ
    "bernstein": {HELD},  # a computed coverage
    "unbiased": {HELD},  # a computed mean
    "identity": {CONDITION, NOT},  # the same counterexample, and an identity instead that runs measure
}


@pytest.mark.parametrize("claim", EVERY, ids=lambda claim: claim.key)
def test_every_claim_can_come_to_every_verdict_of_its_rule(claim) -> None:
    """Invented numbers on both sides: what a rule can say is said, and nothing else; none can only hold."""
    expected = possible(claim.rule)
    assert expected == COMPUTED[claim.key] if claim.key in COMPUTED else expected >= {HELD, NOT}
    seen = seen_verdicts(claim, DRAWS)
    assert set(seen) == expected
    if HELD in seen and seen[HELD].names:
        quick = judge(claim, seen[HELD].sources("python -m experiments.run it --quick"))
        assert quick.verdict is CONDITION and "the quick version" in quick.condition


@pytest.mark.parametrize(
    "rule",
    [
        Bound(Column("deceptive", "psro", "value_sender"), at_least=0.0),
        Bound(Column("deceptive", "psro", "value_receiver"), at_most=0.8),
        Bound(Column("tag", "gems", "encirclement"), at_most=360.0),
        Either(
            Bound(Column("deceptive", "psro", "value_receiver"), at_most=0.75),
            Bound(Column("deceptive", "psro", "value_receiver"), at_most=0.8),
            "hardly lower",
        ),
    ],
    ids=["sender", "receiver", "angle", "either"],
)
def test_a_rule_that_cannot_fail_is_found(rule) -> None:
    """A Sender earns 0 or more, a Receiver 0.8 or less, and no angle is more than a whole turn."""
    assert NOT in possible(rule) and NOT not in seen_verdicts(Claim("k", "q", "w", "p", rule), DRAWS)


def test_the_ledger_that_is_printed_is_what_the_stated_numbers_make() -> None:
    """docs/results/claims.md is judged by docs/results alone, so anybody can judge it again: counts and every line."""
    made = report.stated_ledger()
    text = (report.DOCS / "results" / "claims.md").read_text(encoding="utf-8")
    assert f"\n{len(everything(made))} claims: {tally(everything(made))}.\n" in text
    assert text.splitlines() == markdown(made).splitlines()
    assert (report.DOCS / "results.md").read_text(encoding="utf-8") == report.results_index(report.DOCS, made)


def test_what_is_stated_of_a_shorter_run_says_so() -> None:
    """By its command or by its numbers: both tell the same ones, and no claim that they decide is held outright."""
    stated = gather(None, report.DOCS / "results", sizes.full_size).experiments
    reduced = {name for name, source in stated.items() if source.is_reduced}
    assert reduced == {
        name for name, source in stated.items() if {"--quick", "--iterations", "--seeds"} & set(source.flags)
    }
    if stated["chess"].flags[-2:] == ["--iterations", "25"]:
        assert stated["chess"].shortfalls() == ["25 of 1,000 iterations"] and stated["chess"].size == "reduced"
    for one in everything(report.stated_ledger()):
        read = {word for command in one.commands for word in command.split()} & reduced
        assert all(f"reduced size of {name}: " in one.condition for name in read if one.verdict is not UNKNOWN)
        assert not (read and one.verdict is HELD), one.claim.key


def test_a_spec_states_its_size() -> None:
    chess = sizes.full_size({"name": "chess", "command": "python -m experiments.run chess --iterations 25"})
    assert chess.iterations == {"gems": 1000, "random": 1} and chess.seeds == 1
    assert chess.settings["gems"]["policy"] == preset("chess", "tuned").policy
    kuhn = [
        sizes.full_size({"name": "kuhn", "command": f"python -m experiments.run kuhn{flag}"})
        for flag in ("", " --full")
    ]
    assert [size.seeds for size in kuhn] == [2, 5] and "tuned-mlp" in kuhn[1].iterations
    assert sizes.full_size({"name": "oracle"}) is None and sizes.full_size({"name": "nothing"}) is None
    tag = sizes.full_size({"name": "tag", "command": ""})
    assert tag.settings["psro"] == {} and tag.settings["gems"]["num_opponents"] == 16  # a budget fixes the first
