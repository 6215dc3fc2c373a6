"""200 random configs and command lines: each works, or fails with one line and exit code 2 before anything compiles."""

import dataclasses
import typing
from collections import Counter

import jax
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cli import Outcome, call
from gems_jax.cli import COMMANDS
from gems_jax.cli.commands import train
from gems_jax.cli.parsing import flags_of
from gems_jax.config import GemsConfig, is_real

FLAGS = sorted(flags_of(GemsConfig) | flags_of(train.Train))
HINTS = typing.get_type_hints(GemsConfig)
ODD = st.sampled_from(["", "0", "-1", "-0.5", "1", "2", "1e400", "nan", "inf", "-inf", "0x10", "1_000", "ten", "None"])
ODD_NAMES = st.sampled_from(["True", "()", "[1]", "é", "omwu ", "--", "=", "9" * 40, "1;2", "$HOME", "%s{}"])
STRANGE = st.sampled_from(["khun", "biased_rps:x", "os:path", "pgx:hexx", ":", "", "..:a", "matrix"])
GAMES = st.one_of(*[st.sampled_from(["biased_rps", "kuhn_poker", "rock_paper_scissors"])] * 5, STRANGE)
FUZZ = settings(
    deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(autouse=True)
def stubs(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    """Nothing may compile, and nothing may be written: a line that is accepted ends here."""

    def accepted(run, game, config, preset) -> int:
        config.validate()
        return 0

    def forbidden(*arguments, **options):
        raise AssertionError("compiled, or walked a game")

    monkeypatch.setattr(train, "_train", accepted)
    monkeypatch.setattr("gems_jax.gems.auto_preset.auto_preset", lambda game: GemsConfig())
    monkeypatch.setattr(jax.stages.Lowered, "compile", forbidden)
    monkeypatch.chdir(tmp_path)


def check(outcome: Outcome, words: list[str], folder) -> None:
    assert outcome.code in (0, 2), (words, outcome)
    assert "Traceback" not in outcome.out + outcome.err
    if outcome.code:
        assert outcome.err.count("\n") == 1 and outcome.err.startswith("gems"), (words, outcome.err)
        assert len(outcome.err) < 2000 and not outcome.out
    else:
        assert outcome.err == ""
    assert not list(folder.iterdir()), f"{words} left something behind"


def of_field(name: str) -> st.SearchStrategy[list[str]]:
    """A flag with values of its type, mostly in range, or with something odd."""
    flag, hint = f"--{name.replace('_', '-')}", HINTS[name]
    if hint is bool:
        return st.sampled_from([*[[flag], [f"--no-{flag[2:]}"]] * 5, [flag, "maybe"]])
    if hint is int:
        value = st.integers(1, 64).map(str)
    elif is_real(hint):
        value = st.floats(0.0625, 0.9375, width=32).map(repr)
        if hint is not float:
            return st.lists(st.one_of(value, value, value, ODD), max_size=3).map(lambda values: [flag, *values])
    elif typing.get_origin(hint) is tuple:
        number = st.integers(1, 64).map(str)
        return st.lists(st.one_of(number, number, number, ODD), max_size=3).map(lambda values: [flag, *values])
    else:
        value = st.sampled_from(typing.get_args(hint))
    return st.one_of(*[value] * 10, ODD, ODD_NAMES).map(lambda text: [flag, text])


CONFIG_FLAGS = st.lists(
    st.sampled_from([field.name for field in dataclasses.fields(GemsConfig)]).flatmap(of_field), max_size=4
)
NUMBERS = st.sampled_from(["--seed", "--seeds", "--chunk", "--keep", "--checkpoint-seconds", "--seed-batch"])
NAMES = st.sampled_from(["--preset", "--method", "--writers", "--game-option"])
KNOWN = st.sampled_from(["paper", "tuned", "gems", "psro"])
OTHER_FLAGS = st.lists(
    st.one_of(st.tuples(NUMBERS, ODD), st.tuples(NAMES, ODD_NAMES), st.tuples(NAMES, KNOWN)).map(list), max_size=1
)


CODES: Counter[int] = Counter()


@settings(FUZZ, max_examples=130)
@given(game=GAMES, config=CONFIG_FLAGS, other=OTHER_FLAGS, quick=st.booleans())
def test_configs(tmp_path, game: str, config: list, other: list, quick: bool) -> None:
    words = ["train", game, *sum(config + other, []), *(["--quick"] if quick else [])]
    outcome = call(*words)
    CODES[outcome.code] += 1
    check(outcome, words, tmp_path)


def test_the_configs_were_of_both_kinds() -> None:
    """Runs after the test above: lines that all fail, or all pass, would say little."""
    assert not CODES or min(CODES[0], CODES[2]) > 10, CODES


def misspelt(flag: str) -> st.SearchStrategy[str]:
    """One letter dropped, doubled or changed."""
    return st.builds(
        lambda place, kind: flag[:place] + {0: "", 1: flag[place] * 2, 2: "z"}[kind] + flag[place + 1 :],
        st.integers(2, len(flag) - 1),
        st.integers(0, 2),
    )


WORDS = st.one_of(
    st.sampled_from([*COMMANDS, "help", "--version", "-x", "--why", "--episodes", "--check", "-h", "--metric"]),
    st.sampled_from(FLAGS),
    st.sampled_from(FLAGS).flatmap(misspelt),
    ODD_NAMES,
    ODD,
    st.text(max_size=8),
)
# doctor and the list of games take no input that could be wrong; a check of a game compiles it
LINES = st.tuples(
    st.sampled_from([name for name in COMMANDS if name not in ("doctor", "games")]) | WORDS, st.lists(WORDS, max_size=5)
).map(lambda parts: [parts[0], *parts[1]])


@settings(FUZZ, max_examples=90)
@given(words=LINES)
def test_command_lines(tmp_path, words: list) -> None:
    check(call(*words), words, tmp_path)


@pytest.mark.parametrize("flag", ["--learning-rate", "--meta-steps", "--run-dir", "--abr-episodes", "--quick"])
def test_a_misspelt_flag_is_told_the_right_one(flag: str) -> None:
    for wrong in (flag[:-1], flag + flag[-1], flag.replace("r", "rr", 1) if "r" in flag else flag[:4] + "z" + flag[4:]):
        outcome = call("train", "biased_rps", wrong, "1")
        assert outcome.code == 2 and f"did you mean {flag}?" in outcome.err, outcome.err


def test_every_field_is_a_flag_with_help() -> None:
    outcome = call("train", "--help-all")
    assert outcome.code == 0
    said = " ".join(outcome.out.replace("│", " ").split())
    for field in dataclasses.fields(GemsConfig):
        assert f"--{field.name.replace('_', '-')} " in said or f"--{field.name.replace('_', '-')}," in said, field.name
    assert "Step size eta_0." in said and "Weight of the KL trust region." in said
