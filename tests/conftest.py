"""Hygiene that holds in every test: strict shapes, no key used twice, no warning from this package.

Warnings whose source is `gems_jax` are errors by pyproject.toml.
"""

import jax

from gems_jax.run.cache import enable_compilation_cache

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_debug_key_reuse", True)
enable_compilation_cache()  # compilation is most of the suite's time: the second run is quick
