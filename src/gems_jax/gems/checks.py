"""Checks of arguments at the entry of the public functions. They read shapes and dtypes, so they trace nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import chex
import jax

from gems_jax.config import GemsConfig
from gems_jax.learning.magnets import has_parameters
from gems_jax.types import Game, PyTree, num_populations

if TYPE_CHECKING:
    from gems_jax.gems.state import GemsState, Networks


@contextlib.contextmanager
def explain_failure(message: str) -> Iterator[None]:
    """Replaces the AssertionError of a chex assertion by a ValueError with `message`."""
    try:
        yield
    except AssertionError:
        raise ValueError(message) from None


def check_key(key: Any, caller: str) -> None:
    """Raises ValueError unless `key` is one typed PRNG key.

    Args:
      key: the argument to check.
      caller: name of the function, for the message.
    """
    dtype, shape = getattr(key, "dtype", None), getattr(key, "shape", None)
    got = type(key).__name__ if dtype is None else f"{dtype}{list(shape or ())}"
    with explain_failure(
        f"{caller}: key must be one typed PRNG key of shape (), got {got}. Make one with jax.random.key(seed), convert "
        "a raw key with jax.random.wrap_key_data, and vmap over several keys"
    ):
        chex.assert_equal(dtype is not None and jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key), True)
        chex.assert_shape(key, ())


def check_gems_state(state: GemsState, game: Game, config: GemsConfig, networks: Networks) -> None:
    """Raises ValueError unless `state` has the shapes that `init_gems(key, game, config)` gives it.

    Args:
      state: the argument of `gems_step`.
      game: its game.
      config: its settings.
      networks: the networks that the settings describe.
    """
    num, slots = num_populations(game), config.capacity
    remedy = f"The state belongs to another game than {game.name} or to other settings; make it with init_gems"
    for name, axes, shape in (
        ("anchors", "(populations, capacity, latent_dim)", (num, slots, config.latent_dim)),
        ("sigma", "(populations, capacity)", (num, slots)),
    ):
        got = getattr(state, name).shape
        with explain_failure(f"gems_step: state.{name} must have the shape {axes} = {shape}, got {got}. {remedy}"):
            chex.assert_shape(getattr(state, name), shape)
    keys = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), num))
    expected = {
        "generator": jax.eval_shape(jax.vmap(lambda key: networks.generator.init(key, 1.0)), keys),
        "critic": jax.eval_shape(jax.vmap(networks.critic.init), keys),
    }
    for name, shapes in expected.items():
        with explain_failure(
            f"gems_step: state.{name} must have the parameter shapes {_shapes(shapes)}, got "
            f"{_shapes(getattr(state, name))}. {remedy}"
        ):
            chex.assert_trees_all_equal_shapes(getattr(state, name), shapes)
    _check_optional(state, config, remedy)


def _check_optional(state: GemsState, config: GemsConfig, remedy: str) -> None:
    """Checks that the parts of a state that only some settings need are there exactly with these settings."""
    for name, needed, settings in (
        ("shares", config.adaptive, f"adaptive={config.adaptive}"),
        ("replay", config.reuses_returns, f"estimator={config.estimator!r}"),
        ("magnet", has_parameters(config), f"magnet={config.magnet!r}"),
    ):
        expected, got = ("set", "None") if needed else ("None", type(getattr(state, name)).__name__)
        with explain_failure(f"gems_step: state.{name} must be {expected} with {settings}, got {got}. {remedy}"):
            chex.assert_equal(getattr(state, name) is not None, needed)


def _shapes(tree: PyTree) -> list[tuple[int, ...]]:
    return [leaf.shape for leaf in jax.tree.leaves(tree)]
