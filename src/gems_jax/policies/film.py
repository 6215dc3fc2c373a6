"""Policies with a shared torso: a code generates the modulation and the head, not every weight.

A hypernetwork that emits all weights of a policy for a large board has millions of outputs. Here the torso is one
network for all codes of a population (`Shared`), and phi's generated part is small: feature-wise scales and shifts of
every hidden layer (FiLM, Perez et al. 2018), and the output layer. Still phi = G_theta(z). ||J G(z)||_F is over the
generated part, because the rest is constant in z.

There are three torsos: `FilmPolicy` flattens the observation, `ConvPolicy` first applies a convolution to the board,
and `BoardPolicy` has features per square up to the logits.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import chex
import flax.linen as nn
import jax
import jax.numpy as jnp

from gems_jax.policies.distributions import make_output
from gems_jax.policies.networks import extract_patches, init_dense, name_layers, orthogonal, temper_head
from gems_jax.types import Array, PolicyOutput, PyTree, Shared

_HEAD_SCALE = 0.01  # near-uniform play at the start
Film = dict[str, Array]  # scale and shift, [features] each


class FilmDense(nn.Dense):
    """relu(dense(x) (1 + scale) + shift): the dense layer is shared, its scale and shift are generated."""

    def __call__(self, inputs: Array, film: Film) -> Array:  # type: ignore[override]
        x = super().__call__(inputs)
        scale, shift = (film[name].reshape((1,) * (x.ndim - 1) + (-1,)) for name in ("scale", "shift"))
        return nn.relu(x * (1.0 + scale) + shift)


class FilmTorso(nn.Module):
    """Modulated layers on a vector; with `channels` the first one is a convolution on a board [X, Y, planes]."""

    hidden: Sequence[int]
    channels: int = 0
    kernel: int = 1

    @nn.compact
    def __call__(self, x: Array, films: Sequence[Film]) -> Array:
        widths = (self.channels, *self.hidden) if self.channels else self.hidden
        if self.channels:
            x = extract_patches(x, self.kernel).reshape(math.prod(x.shape[:2]), -1)
        for index, (width, film) in enumerate(zip(widths, films, strict=True)):
            x = FilmDense(width, name=f"layer_{index}")(x, film).reshape(-1)
        return x


class BoardTorso(nn.Module):
    """Embeds each square, mixes all squares, and joins both: [squares, planes] -> [squares, channels]."""

    channels: int

    @nn.compact
    def __call__(self, squares: Array, films: Sequence[Film]) -> Array:
        own = FilmDense(self.channels, name="embed")(squares, films[0])
        board = nn.relu(MixSquares(name="mix")(own))
        return FilmDense(self.channels, name="join")(jnp.concatenate([own, board], axis=1), films[1])


class MixSquares(nn.Module):
    """A dense layer along the axis of squares: [squares, channels] -> [squares, channels]."""

    @nn.compact
    def __call__(self, x: Array) -> Array:
        kernel = self.param("kernel", orthogonal(math.sqrt(2.0)), (len(x), len(x)))
        return kernel @ x + self.param("bias", nn.initializers.zeros_init(), (len(x), 1))


class BoardHead(nn.Module):
    """Computes `planes` logits per square, and `rest` further logits from the mean over squares."""

    planes: int
    rest: int

    @nn.compact
    def __call__(self, squares: Array) -> Array:
        zeros, features = nn.initializers.zeros_init(), squares.shape[1]
        kernel = self.param("kernel", orthogonal(_HEAD_SCALE), (features, self.planes))
        logits = (squares @ kernel + self.param("bias", zeros, (self.planes,))[None]).reshape(-1)
        if not self.rest:
            return logits
        kernel = self.param("rest", orthogonal(_HEAD_SCALE), (features, self.rest))
        rest = jnp.mean(squares, axis=0) @ kernel + self.param("rest_bias", zeros, (self.rest,))
        return jnp.concatenate([logits, rest])


def _init_film(width: int) -> Film:
    return {"scale": jnp.zeros(width), "shift": jnp.zeros(width)}


@dataclasses.dataclass(frozen=True)
class FilmPolicy:
    """Shared relu layers on the flattened observation; their scales and shifts and a linear head are generated.

    Generated parameters per code: 2 per hidden unit, and (last width + 1) times the outputs.
    """

    observation_size: int
    num_actions: int
    hidden: tuple[int, ...] = (64, 64)
    continuous: bool = False

    def init(self, key: Array) -> PyTree:
        """Initializes phi. key: consumed."""
        key_head, *keys = jax.random.split(key, 1 + len(self.hidden))
        sizes = (self.observation_size, *self.hidden)
        return {
            "torso": Shared([init_dense(k, a, b) for k, a, b in zip(keys, sizes[:-1], sizes[1:], strict=True)]),
            "film": [_init_film(width) for width in self.hidden],
            "head": init_dense(key_head, sizes[-1], self._num_outputs, _HEAD_SCALE),
        }

    @property
    def _num_outputs(self) -> int:
        return self.num_actions * (2 if self.continuous else 1)

    def __call__(self, phi: PyTree, observation: Array, legal: Array) -> PolicyOutput:
        return self.apply_torso(FilmTorso(self.hidden), phi, observation.reshape(-1), legal)

    def apply_torso(self, torso: FilmTorso, phi: PyTree, x: Array, legal: Array) -> PolicyOutput:
        """Computes the action distribution of the head on the features of a torso.

        Args:
          torso: maps `x` and the scales and shifts of phi to features.
          phi: policy parameters.
          x: input of the torso, a vector [n] or a board [X, Y, planes].
          legal: [A] bool.

        Returns:
          The action distribution.
        """
        features = torso.apply({"params": name_layers(phi["torso"].value)}, x, phi["film"])
        outputs: Array = nn.Dense(self._num_outputs).apply({"params": phi["head"]}, features)  # type: ignore
        return make_output(outputs, legal, self.continuous)

    def temper(self, phi: PyTree, temperature: Array | float) -> PyTree:
        return temper_head(phi, temperature)


@dataclasses.dataclass(frozen=True)
class ConvPolicy:
    """A shared convolution over a board [X, Y, planes] and relu layers on all its features; a generated linear head.

    Generated parameters per code: 2 per channel and hidden unit, and (last width + 1) times the actions.
    """

    observation_shape: tuple[int, int, int]
    num_actions: int
    hidden: tuple[int, ...] = (64,)
    channels: int = 32
    kernel: int = 3

    @property
    def _top(self) -> FilmPolicy:
        """The network after the convolution."""
        squares = self.observation_shape[0] * self.observation_shape[1]
        return FilmPolicy(squares * self.channels, self.num_actions, self.hidden)

    def init(self, key: Array) -> PyTree:
        """Initializes phi. key: consumed."""
        key_top, key_conv = jax.random.split(key)
        top = self._top.init(key_top)
        conv = init_dense(key_conv, self.kernel**2 * self.observation_shape[2], self.channels)
        return {**top, "torso": Shared([conv, *top["torso"].value]), "film": [_init_film(self.channels), *top["film"]]}

    def __call__(self, phi: PyTree, observation: Array, legal: Array) -> PolicyOutput:
        chex.assert_shape(observation, self.observation_shape)
        return self._top.apply_torso(FilmTorso(self.hidden, self.channels, self.kernel), phi, observation, legal)

    def temper(self, phi: PyTree, temperature: Array | float) -> PyTree:
        return temper_head(phi, temperature)


@dataclasses.dataclass(frozen=True)
class BoardPolicy:
    """A network on a board [X, Y, planes] that embeds each square, mixes all squares and gives each its own logits.

    Actions are indexed square by square, `num_actions // (X Y)` planes each; the logits of further actions (a pass)
    come from the mean over squares. `turns` is the number of quarter turns that bring the squares of the observation
    into the order of the actions. The embedding and the mixing are shared; scales and shifts and the 1x1 head are
    generated.
    """

    observation_shape: tuple[int, int, int]
    num_actions: int
    channels: int = 32
    turns: int = 0

    @property
    def _squares(self) -> int:
        return self.observation_shape[0] * self.observation_shape[1]

    def init(self, key: Array) -> PyTree:
        """Initializes phi. key: consumed."""
        key_embed, key_mix, key_join, key_head, key_rest = jax.random.split(key, 5)
        planes, rest = divmod(self.num_actions, self._squares)
        head = init_dense(key_head, self.channels, planes, _HEAD_SCALE)
        if rest:
            extra = init_dense(key_rest, self.channels, rest, _HEAD_SCALE)
            head |= {"rest": extra["kernel"], "rest_bias": extra["bias"]}
        mix = init_dense(key_mix, self._squares, self._squares)
        torso = {
            "embed": init_dense(key_embed, self.observation_shape[2], self.channels),
            "mix": {**mix, "bias": mix["bias"][:, None]},
            "join": init_dense(key_join, 2 * self.channels, self.channels),
        }
        return {"torso": Shared(torso), "film": [_init_film(self.channels), _init_film(self.channels)], "head": head}

    def __call__(self, phi: PyTree, observation: Array, legal: Array) -> PolicyOutput:
        chex.assert_shape(observation, self.observation_shape)
        squares = jnp.rot90(observation, self.turns).reshape(self._squares, -1)
        features = BoardTorso(self.channels).apply({"params": phi["torso"].value}, squares, phi["film"])
        head = BoardHead(*divmod(self.num_actions, self._squares))
        outputs: Array = head.apply({"params": phi["head"]}, features)  # type: ignore[assignment]
        return make_output(outputs, legal)

    def temper(self, phi: PyTree, temperature: Array | float) -> PyTree:
        return temper_head(phi, temperature)
