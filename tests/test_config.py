"""GemsConfig: the paper's numbers, every field checked, what is static and what is traced."""

import dataclasses
import math
import tomllib
import typing
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from gems_jax import GemsConfig, init_gems, make_game, preset
from gems_jax.config import (
    ABOVE_ZERO,
    AT_LEAST_ONE,
    BELOW_ONE,
    BELOW_THIRD,
    CAP,
    CONFIDENCE,
    FRACTION,
    NON_NEGATIVE,
    OPEN_FRACTION,
    PerPlayer,
    is_real,
    validate_fields,
)
from gems_jax.presets import PRESETS

FIELDS = {field.name: field for field in dataclasses.fields(GemsConfig)}
HINTS = typing.get_type_hints(GemsConfig)

# tab:gems_default_params; tests/gems/test_paper_presets.py holds the presets against the whole file.
KUHN_TABLE = tomllib.loads((Path(__file__).parent / "data" / "paper_tables.toml").read_text())["kuhn"]
PRINTED = {field: entry["value"] for field, entry in KUHN_TABLE.items()}

# What each real-valued knob may be, said once more by hand.
RANGES = {
    NON_NEGATIVE: (
        "generator_scale eta mutation_scale lambda_jacobian lambda_decay learning_rate critic_learning_rate beta_kl "
        "value_weight entropy_weight entropy_decay output_rate drift_discount magnet_weight magnet_decay "
        "learning_rate_decay"
    ),
    ABOVE_ZERO: "temperature play_temperature alpha prior_count",
    AT_LEAST_ONE: "slowdown replay_cap",
    FRACTION: (
        "ema q_new abr_floor abr_tremble discount gae_lambda sigma_floor adaptive_rate replay_discount "
        "self_play_fraction magnet_rate exploration opening_fraction"
    ),
    BELOW_ONE: "momentum",
    BELOW_THIRD: "adaptive_floor",
    OPEN_FRACTION: "ppo_clip",
    CONFIDENCE: "delta",
    CAP: "logit_cap gradient_cap gradient_clip",
}

ANY_REAL = (math.nan, "1", None, True)
BAD_REALS = {  # what each range refuses
    NON_NEGATIVE: (-1e-9, math.inf),
    ABOVE_ZERO: (0.0, -1.0, math.inf),
    AT_LEAST_ONE: (0.999, 0.0, math.inf),
    FRACTION: (-1e-9, 1.001),
    BELOW_ONE: (-1e-9, 1.0),
    BELOW_THIRD: (-1e-9, 0.34),
    OPEN_FRACTION: (0.0, 1.0),
    CONFIDENCE: (0.0, 1.001, -0.5),
    CAP: (0.0, -1.0),
}
GOOD_REALS = {
    NON_NEGATIVE: (0.0, 1e6, 3),
    ABOVE_ZERO: (1e-9, 100),
    AT_LEAST_ONE: (1.0, 10.0, 1),
    FRACTION: (0.0, 1.0, 0, 1),
    BELOW_ONE: (0.0, 0.999, 0),
    BELOW_THIRD: (0.0, 0.33),
    OPEN_FRACTION: (1e-6, 0.999),
    CONFIDENCE: (1e-9, 1.0),
    CAP: (1e-9, math.inf),
}


MAY_BE_ZERO = (
    "mixture_samples", "mutations", "randoms", "abr_steps", "abr_segment", "kl_states", "critic_channels",
    "replay_steps", "opening_plies",
)  # fmt: skip


def bad_and_good(name):
    """Values that the field must refuse, and values that it must take, by its kind; a field without a kind fails."""
    field, hint = FIELDS[name], HINTS[name]
    if typing.get_origin(hint) is typing.Literal:
        return ("no_such_choice", None, 1, ""), typing.get_args(hint)
    if hint is bool:
        return (1, 0, "True", None), (True, False)
    if hint is int:
        least = 0 if name in MAY_BE_ZERO else 1
        return (least - 1, -5, 2.0, 1.5, "2", None, True), (least, 7)
    if hint == tuple[int, ...]:
        return (8, [8], (0,), (8, -1), (8.0,), None), ((), (8,), (8, 16))
    assert is_real(hint) and not field.metadata.get("static")
    bad, good = BAD_REALS[field.metadata["check"]] + ANY_REAL, GOOD_REALS[field.metadata["check"]]
    lists = ((), (0.1, "1"), (0.1, None), [0.1, 0.2], (0.1, (0.2,)))
    if hint is float:
        return (*bad, (0.25, 0.25), *lists), good
    return (*bad, *((0.25, value) for value in bad), *lists), (*good, (good[0], 0.25), (0.25, 0.25, 0.25))


@pytest.mark.parametrize(("name", "value"), PRINTED.items())
def test_defaults_are_the_papers_kuhn_table(name, value):
    assert getattr(GemsConfig(), name) == value
    assert getattr(preset("kuhn_poker", "paper"), name) == value


def test_other_defaults_that_the_paper_says():
    config = GemsConfig()
    assert config.meta_rule == "omwu" and config.index == "eb_ucb" and config.surrogate == "ppo"
    assert config.delta_rule == "constant"  # the Kuhn table's 0.5
    assert config.range_term  # eq:ucb-jac
    assert config.validate() is config


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_out_of_range_is_named_with_its_value(name):
    bad, good = bad_and_good(name)
    for value in bad:
        with pytest.raises(ValueError) as error:
            validate_fields(GemsConfig(**{name: value}))
        message = str(error.value)
        assert message.startswith(f"{name} must be ") and message.count(repr(value)), message
        assert ":" in message and len(message) > len(name) + 20  # what was expected stands there too
    for value in good:
        validate_fields(GemsConfig(**{name: value}))


def test_every_real_has_the_range_that_it_should_have():
    expected = {name: within for within, names in RANGES.items() for name in names.split()}
    assert expected == {name: field.metadata["check"] for name, field in FIELDS.items() if is_real(HINTS[name])}


@pytest.mark.parametrize("name", FIELDS)
def test_exactly_the_real_valued_fields_are_traced(name):
    field = FIELDS[name]
    kinds = (int, bool, tuple[int, ...])
    static = HINTS[name] in kinds or typing.get_origin(HINTS[name]) is typing.Literal
    assert field.metadata.get("static", False) == static
    assert static or is_real(HINTS[name])


def test_settings_that_may_differ_between_players():
    assert [name for name, hint in HINTS.items() if hint == PerPlayer] == ["eta", "lambda_jacobian"]
    game = make_game("biased_rps")
    with pytest.raises(ValueError, match=r"eta must be a number or have one for each of 2 populations, got \(0.1,\)"):
        init_gems(jax.random.key(0), game, GemsConfig(eta=(0.1,)))
    with pytest.raises(ValueError, match="lambda_jacobian must be a number or have one for each of 2 populations"):
        init_gems(jax.random.key(0), game, GemsConfig(lambda_jacobian=jnp.zeros(3)))


def test_close_names_are_suggested():
    with pytest.raises(ValueError, match="index must be one of eb_ucb, .*greedy: got 'eb_ubc'; did you mean 'eb_ucb'"):
        GemsConfig(index="eb_ubc").validate()
    with pytest.raises(ValueError, match="GemsConfig has no field 'learn_rate'; did you mean 'learning_rate'"):
        GemsConfig().replace(learn_rate=1.0)
    with pytest.raises(ValueError, match="no field 'xyz'; known: iterations, initial_anchors, "):
        GemsConfig().replace(xyz=1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"initial_anchors": 5, "capacity": 4}, "initial_anchors must fit the capacity: got 5 anchors for 4 slots"),
        ({"mutations": 1, "randoms": 1, "anchors_per_call": 3}, "at most the pool's 2 candidates: got 3"),
        ({"anchors_per_call": 3, "capacity": 2}, "anchors_per_call must fit the capacity: got 3 for 2 slots"),
        ({"self_play_fraction": 0.5}, "self_play_fraction must be 0 unless live_opponents is set: got 0.5"),
        ({"oracle_rounds": 9}, "oracle_rounds must be at most oracle_opponents=8: got 9"),
    ],
)
def test_fields_that_do_not_go_together(changes, message):
    with pytest.raises(ValueError, match=message):
        GemsConfig(**changes).validate()


def test_degenerate_settings_are_legal():
    GemsConfig(mutations=0, randoms=0, anchors_per_call=2, eta=0.0, abr_steps=0).validate()


def test_init_gems_checks_before_anything_is_computed():
    game = make_game("biased_rps")
    with pytest.raises(ValueError, match="eta must be a finite number, at least 0: got -1"):
        init_gems(jax.random.key(0), game, GemsConfig(eta=-1))
    with pytest.raises(ValueError, match="expected a Game with init and step, got 'kuhn_poker'. See gems_jax.make_gam"):
        init_gems(jax.random.key(0), "kuhn_poker", GemsConfig())


def test_arrays_and_tracers_pass_the_check():
    swept = GemsConfig().replace(eta=jnp.asarray([0.1, 0.2]))
    assert swept.validate() is swept
    assert jax.jit(lambda config: config.validate().eta * 2)(GemsConfig(eta=0.25)) == 0.5


def test_reals_are_leaves_and_sizes_are_structure():
    reals = [name for name in FIELDS if is_real(HINTS[name])]
    assert len(jax.tree.leaves(GemsConfig())) == len(reals)
    traces = []

    @jax.jit
    def read(config):
        traces.append(1)
        return config.eta * config.capacity

    assert read(GemsConfig(eta=0.5)) == 16.0
    for name in reals:
        read(GemsConfig(**{name: 0.625}))
    assert len(traces) == 1
    assert read(GemsConfig(eta=0.5, capacity=4)) == 2.0
    assert len(traces) == 2
    assert hash(jax.tree.structure(GemsConfig())) == hash(jax.tree.structure(GemsConfig(eta=7.0)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("khun_poker",), "no presets for the game 'khun_poker'; did you mean 'kuhn_poker'.*biased_rps"),
        (("kuhn_poker", "papre"), "kuhn_poker has no preset 'papre'; did you mean 'paper'.*known: paper"),
    ],
)
def test_unknown_presets_list_the_known(arguments, message):
    with pytest.raises(ValueError, match=message):
        preset(*arguments)


def test_presets_are_valid_and_reached_by_the_game_itself():
    for game, settings in PRESETS.items():
        for which, config in settings.items():
            assert preset(game, which) is config and config.validate()
    assert preset(make_game("kuhn_poker")) is preset("kuhn_poker", "paper")
