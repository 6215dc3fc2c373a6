"""Hygiene that holds in every test: strict shapes, no key used twice, no warning from this package.

Warnings whose source is `gems_jax` are errors by pyproject.toml.
"""

import contextlib
import ctypes
import gc
import logging
import os
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

# Tracing makes many small objects that stay as long as the compiled programs. With Python's own thresholds the search
# for cyclic garbage goes through them again and again, which takes up to a third of the time.
gc.set_threshold(100_000, 20, 20)

# What is shown depends on what the terminal is said to be, and in a new home folder matplotlib reports that it lists
# the fonts: the tests see the same everywhere.
os.environ["TERM"] = "xterm-256color"
for _name in ("COLUMNS", "FORCE_COLOR", "LINES", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
    os.environ.pop(_name, None)
logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
# Tests replace parts of the package, which the name of a stored program does not know; those that test the store switch
# it on.
os.environ["GEMS_JAX_STORED_PROGRAMS"] = "off"
# A process may meet a cache entry that another one is writing, or was killed writing: JAX compiles then, and warns.
os.environ["PYTHONWARNINGS"] = "ignore:Error reading persistent compilation cache entry"

# Compiling is most of the suite's time and nothing here runs long: XLA's quickest back end takes a sixth of it. What
# XLA_FLAGS already says stays as it is. XLA aborts on a flag that it does not know, so the young one is for the
# versions that it was tried on.
_FLAGS = ["--xla_backend_optimization_level=0", "--xla_llvm_disable_expensive_passes=true"]
if version("jaxlib").startswith("0.10."):
    _FLAGS.append("--xla_cpu_use_fusion_emitters=false")
for _flag in _FLAGS:
    if _flag.split("=")[0] not in os.environ.get("XLA_FLAGS", ""):
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_flag}".strip()

import jax  # noqa: E402
import pytest  # noqa: E402
from jax.experimental.key_reuse import _core as key_reuse  # noqa: E402

from cli import SMALL, TINY, Outcome, gems, untrained_run  # noqa: E402
from gems_jax import GemsConfig, GemsMetrics, GemsState, gems_step, init_gems, make_game  # noqa: E402
from gems_jax.accelerator.cache import enable_compilation_cache  # noqa: E402
from gems_jax.runner.directory import RunDirectory  # noqa: E402
from gems_jax.runner.machine import memory_bytes  # noqa: E402
from gems_jax.types import Game  # noqa: E402
from quick import (  # noqa: E402, F401
    pytest_addoption,
    pytest_collection_finish,
    pytest_collection_modifyitems,
    pytest_fixture_setup,
    pytest_runtest_logreport,
    pytest_runtest_makereport,
    pytest_sessionfinish,
)

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_debug_key_reuse", True)
# The checker has no rule for `transpose`, and takes keys for used when vmap turns the axes of a scan over them.
key_reuse.key_reuse_signatures.setdefault(jax.lax.transpose_p, key_reuse.KeyReuseSignature(key_reuse.Forward(0, 0)))
enable_compilation_cache()  # compilation is most of the suite's time: the second run is quick


_MEMORY_LIMIT = 3 * 2**30  # bytes resident in one process, before compiled programs are forgotten


@pytest.fixture(scope="module", autouse=True)
def freed_memory() -> Iterator[None]:
    """Returns to the system what the compiler has freed, which glibc would keep, and limits the compiled programs."""
    yield
    if memory_bytes() > _MEMORY_LIMIT:
        jax.clear_caches()
        gc.collect()
    with contextlib.suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL("libc.so.6").malloc_trim(0)


class KuhnGems(NamedTuple):
    """GEMS on Kuhn poker, small: `step(state, key, config)` compiled once, and how often it was traced."""

    game: Game
    config: GemsConfig
    start: GemsState
    step: Callable[[GemsState, jax.Array, GemsConfig], tuple[GemsState, GemsMetrics]]
    traces: list[int]


@pytest.fixture(scope="session")
def kuhn_gems() -> KuhnGems:
    game = make_game("kuhn_poker")
    config = GemsConfig(
        capacity=4,
        generator_widths=(16,),
        critic_hidden=(8,),
        num_opponents=4,
        mixture_samples=8,
        mutations=4,
        randoms=4,
        oracle_opponents=4,
        abr_steps=2,
        abr_anchors=4,
        kl_opponents=2,
    )
    traces: list[int] = []

    @jax.jit
    def step(state: GemsState, key: jax.Array, settings: GemsConfig) -> tuple[GemsState, GemsMetrics]:
        traces.append(1)
        return gems_step(state, key, game, settings)

    start = jax.jit(lambda key: init_gems(key, game, config))(jax.random.key(0))
    return KuhnGems(game, config, start, step, traces)


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    """Kuhn poker, two seeds, two iterations, trained by the real console script: its folder and what was said."""
    folder = tmp_path_factory.mktemp("trained") / "kuhn"
    words = ["train", "kuhn_poker", "--quick", "--preset", "paper", "--iterations", 2, "--seeds", 2, "--chunk", 1]
    return folder, gems(*words, "--checkpoint-seconds", 0, "--run-dir", folder, *TINY)


@pytest.fixture(scope="session")
def kuhn_run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    return untrained_run(tmp_path_factory.mktemp("untrained") / "kuhn", "kuhn_poker", SMALL, seeds=(3, 4))


@pytest.fixture(scope="session")
def matrix_run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    return untrained_run(tmp_path_factory.mktemp("untrained") / "rps", "biased_rps", SMALL, a=2.0)


@pytest.fixture(scope="session")
def board_run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    config = SMALL.replace(policy="mlp", policy_hidden=(8,))
    return untrained_run(tmp_path_factory.mktemp("untrained") / "board", "pgx:tic_tac_toe", config)
