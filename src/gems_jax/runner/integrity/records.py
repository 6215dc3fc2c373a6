"""Schemas of the JSON files of runs, checkpoints, exported policies and sweeps."""

from __future__ import annotations

import re

from gems_jax.runner.integrity.schema import (
    BOOL,
    NAME,
    RECORD,
    TEXT,
    fields,
    integer,
    list_of,
    mapping_of,
    nullable,
    number,
    one_of,
    plain_record,
    value,
)

PRINTABLE = value("text without control characters", lambda given: isinstance(given, str) and given.isprintable())
STATES = ("starting", "running", "done", "failed", "interrupted")
LARGEST_COUNT = 2**31 - 1  # iterations are int32 in the state
COUNT = integer(0, LARGEST_COUNT)
POSITIVE = integer(1, LARGEST_COUNT)
_SHA = value("a SHA-256 in hexadecimal", lambda given: bool(re.fullmatch("[0-9a-f]{64}", str(given))))
_SEED = integer(-(2**31), 2**32 - 1)

OPTIONS = fields(
    optional={
        "chunk": POSITIVE,
        "exact": BOOL,
        "evaluation_episodes": COUNT,
        "evaluation_every": POSITIVE,
        "debug": BOOL,
        "checkpoint_seconds": number(0),
        "keep": POSITIVE,
        "seed_batch": COUNT,
        "stored_programs": BOOL,
        "mesh": BOOL,
        "writers": list_of(NAME),
        "game": plain_record,
        "preset": nullable(PRINTABLE),
        "quick": BOOL,
        "swept": plain_record,
    }
)
CONFIG = fields(
    game=NAME,
    method=NAME,
    seeds=list_of(_SEED, least=1),
    iterations=POSITIVE,
    config=nullable(plain_record),
    shared=NAME,
    members=list_of(NAME, least=1),
    optional={"options": nullable(OPTIONS), "seed": nullable(_SEED), "created": PRINTABLE},
)
COMMAND = fields(command=list_of(TEXT, least=1))
DISTINCT_SEEDS = fields(seeds=list_of(_SEED, least=1, distinct=True))
STATUS = fields(
    state=one_of(*STATES),
    iteration=COUNT,
    iterations=COUNT,
    optional={"reason": TEXT, "updated": TEXT, "pid": COUNT},
)

_KIND = value(
    "jax, numpy, bool, int, float or key:<implementation>",
    lambda given: isinstance(given, str) and bool(re.fullmatch(r"jax|numpy|bool|int|float|key:\w{1,40}", given)),
)
_DTYPE = value(
    "the name of a dtype",
    lambda given: (
        isinstance(given, str) and bool(re.fullmatch(r"bool|u?int\d{1,2}|b?float\d{1,2}\w{0,12}|complex\d{2,3}", given))
    ),
)
LEAF = fields(name=TEXT, kind=_KIND, shape=list_of(integer(0)), dtype=_DTYPE)
MANIFEST = fields(
    format=integer(),
    iteration=integer(0, LARGEST_COUNT),
    identity=RECORD,
    extra=RECORD,
    leaves=list_of(LEAF),
    files=mapping_of(_SHA),
    optional={"checksum": _SHA},
)
_TOTALS = list_of(integer(0), least=1)
# Host-side counters of a run's checkpoint.
EXTRA = fields(
    counters=fields(seconds=number(0), compile_seconds=number(0), episodes=_TOTALS, env_steps=_TOTALS),
    versions=mapping_of(TEXT),
    metric=nullable(number()),
    optional={"measured": COUNT, "rows": list_of(nullable(_SHA), least=1)},
)
# What `gems export` writes into its file.
DESCRIPTION = fields(
    game=NAME,
    method=NAME,
    config=nullable(plain_record),
    options=nullable(OPTIONS),
    seed=_SEED,
    iteration=COUNT,
    optional={
        "command": TEXT,
        "last_row": mapping_of(value("a number", lambda given: isinstance(given, int | float))),
    },
)
CELL = fields(state=NAME, attempts=COUNT, reason=TEXT)
SWEEP = fields(sweep=RECORD)
