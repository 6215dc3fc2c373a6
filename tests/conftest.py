"""Hygiene that holds in every test: strict shapes, no key used twice, no warning from this package.

Warnings whose source is `gems_jax` are errors by pyproject.toml.
"""

import os

# Compiling is most of the suite's time and nothing here runs long: XLA's quickest back end takes a third of it. What
# XLA_FLAGS already says stays as it is.
for _flag in ("--xla_backend_optimization_level=0", "--xla_llvm_disable_expensive_passes=true"):
    if _flag.split("=")[0] not in os.environ.get("XLA_FLAGS", ""):
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_flag}".strip()

import jax  # noqa: E402

from gems_jax.run.cache import enable_compilation_cache  # noqa: E402

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_debug_key_reuse", True)
enable_compilation_cache()  # compilation is most of the suite's time: the second run is quick
