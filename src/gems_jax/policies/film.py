"""Policies with a shared torso: a code generates the modulation and the head, not every weight.

A hypernetwork that emits all weights of a policy for a large board has millions of outputs. Here the torso is one
network for all codes of a population (`Shared`), and phi's generated part is small: feature-wise scales and shifts of
every hidden layer, and the output layer. It stays phi = G_theta(z), and ||J G(z)||_F is over the generated part, the
rest being constant in z.

Three torsos: `FilmPolicy` flattens the observation, `ConvPolicy` looks at every patch of a board alike before it does,
and `BoardPolicy` keeps the squares apart to the end and gives each its own logits.
"""

from __future__ import annotations

import dataclasses
import math

import chex
import jax
import jax.numpy as jnp

from gems_jax.policies.distributions import mask_logits
from gems_jax.policies.networks import gaussian, orthogonal, patches
from gems_jax.types import Array, PolicyOutput, PyTree, Shared

_KERNEL = orthogonal(math.sqrt(2.0))
_HEAD = orthogonal(0.01)  # near-uniform play at the start


def _dense(key: Array, inputs: int, outputs: int) -> dict[str, Array]:
    return {"kernel": _KERNEL(key, (inputs, outputs)), "bias": jnp.zeros(outputs)}


def _run(layer: dict[str, Array], x: Array) -> Array:
    return x @ layer["kernel"] + layer["bias"].reshape((1,) * (x.ndim - 1) + (-1,))


def _film(modulation: dict[str, Array], x: Array) -> Array:
    """Feature-wise scale and shift of the last axis: x (1 + scale) + shift."""
    scale, shift = (modulation[name].reshape((1,) * (x.ndim - 1) + (-1,)) for name in ("scale", "shift"))
    return x * (1.0 + scale) + shift


def _no_film(width: int) -> dict[str, Array]:
    return {"scale": jnp.zeros(width), "shift": jnp.zeros(width)}


def _cooled(phi: PyTree, temperature: Array | float) -> PyTree:
    return {**phi, "head": jax.tree.map(lambda weight: weight / temperature, phi["head"])}


@dataclasses.dataclass(frozen=True)
class FilmPolicy:
    """relu layers on the flattened observation, shared; their scales and shifts and a linear head, generated.

    Numbers per code: 2 per hidden unit, and (last width + 1) times the outputs.
    """

    observation_size: int
    num_actions: int
    hidden: tuple[int, ...] = (64, 64)
    continuous: bool = False

    def init(self, key: Array) -> PyTree:
        """key: consumed."""
        key_head, *keys = jax.random.split(key, 1 + len(self.hidden))
        sizes = (self.observation_size, *self.hidden)
        outputs = self.num_actions * (2 if self.continuous else 1)
        return {
            "torso": Shared([_dense(k, a, b) for k, a, b in zip(keys, sizes[:-1], sizes[1:], strict=True)]),
            "film": [_no_film(width) for width in self.hidden],
            "head": {"kernel": _HEAD(key_head, (sizes[-1], outputs)), "bias": jnp.zeros(outputs)},
        }

    def __call__(self, phi: PyTree, observation: Array, legal: Array) -> PolicyOutput:
        x = observation.reshape(-1)
        for layer, modulation in zip(phi["torso"].value, phi["film"], strict=True):
            x = jax.nn.relu(_film(modulation, _run(layer, x)))
        outputs = _run(phi["head"], x)
        if self.continuous:
            return gaussian(outputs)
        return PolicyOutput(logits=mask_logits(outputs, legal))

    def temper(self, phi: PyTree, temperature: Array | float) -> PyTree:
        return _cooled(phi, temperature)


@dataclasses.dataclass(frozen=True)
class ConvPolicy:
    """A convolution over a board [X, Y, planes], relu layers on all its features, shared; a linear head, generated.

    Numbers per code: 2 per channel and hidden unit, and (last width + 1) times the actions.
    """

    observation_shape: tuple[int, int, int]
    num_actions: int
    hidden: tuple[int, ...] = (64,)
    channels: int = 32
    kernel: int = 3

    @property
    def _top(self) -> FilmPolicy:
        """What comes after the convolution."""
        squares = self.observation_shape[0] * self.observation_shape[1]
        return FilmPolicy(squares * self.channels, self.num_actions, self.hidden)

    def init(self, key: Array) -> PyTree:
        """key: consumed."""
        key_top, key_conv = jax.random.split(key)
        top = self._top.init(key_top)
        conv = _dense(key_conv, self.kernel**2 * self.observation_shape[2], self.channels)
        return {**top, "torso": Shared([conv, *top["torso"].value]), "film": [_no_film(self.channels), *top["film"]]}

    def __call__(self, phi: PyTree, observation: Array, legal: Array) -> PolicyOutput:
        chex.assert_shape(observation, self.observation_shape)
        (conv, *layers), (modulation, *films) = phi["torso"].value, phi["film"]
        seen = patches(observation, self.kernel).reshape(-1, conv["kernel"].shape[0])
        features = jax.nn.relu(_film(modulation, _run(conv, seen)))
        return self._top({**phi, "torso": Shared(layers), "film": films}, features, legal)

    def temper(self, phi: PyTree, temperature: Array | float) -> PyTree:
        return _cooled(phi, temperature)


@dataclasses.dataclass(frozen=True)
class BoardPolicy:
    """A board [X, Y, planes in]: embed each square, let all squares mix, and give each its logits.

    Actions are counted square by square, `num_actions // (X Y)` planes each; what is left over (a pass) is read from
    the mean over squares. `turns` are the quarter turns that bring the squares of the observation into the order of
    the actions. The embedding and the mixing are shared; scales and shifts and the 1x1 head are generated.
    """

    observation_shape: tuple[int, int, int]
    num_actions: int
    channels: int = 32
    turns: int = 0

    @property
    def _squares(self) -> int:
        return self.observation_shape[0] * self.observation_shape[1]

    def init(self, key: Array) -> PyTree:
        """key: consumed."""
        key_embed, key_mix, key_join, key_head, key_rest = jax.random.split(key, 5)
        planes, rest = divmod(self.num_actions, self._squares)
        mix = {"kernel": _KERNEL(key_mix, (self._squares, self._squares)), "bias": jnp.zeros((self._squares, 1))}
        head = {"kernel": _HEAD(key_head, (self.channels, planes)), "bias": jnp.zeros(planes)}
        if rest:
            head |= {"rest": _HEAD(key_rest, (self.channels, rest)), "rest_bias": jnp.zeros(rest)}
        return {
            "torso": Shared(
                {
                    "embed": _dense(key_embed, self.observation_shape[2], self.channels),
                    "mix": mix,
                    "join": _dense(key_join, 2 * self.channels, self.channels),
                }
            ),
            "film": [_no_film(self.channels), _no_film(self.channels)],
            "head": head,
        }

    def __call__(self, phi: PyTree, observation: Array, legal: Array) -> PolicyOutput:
        chex.assert_shape(observation, self.observation_shape)
        torso, films, head = phi["torso"].value, phi["film"], phi["head"]
        squares = jnp.rot90(observation, self.turns).reshape(self._squares, -1)
        own = jax.nn.relu(_film(films[0], _run(torso["embed"], squares)))  # [squares, channels]
        board = jax.nn.relu(torso["mix"]["kernel"] @ own + torso["mix"]["bias"])
        joined = jax.nn.relu(_film(films[1], _run(torso["join"], jnp.concatenate([own, board], axis=1))))
        logits = _run(head, joined).reshape(-1)
        if "rest" in head:
            logits = jnp.concatenate([logits, jnp.mean(joined, axis=0) @ head["rest"] + head["rest_bias"]])
        return PolicyOutput(logits=mask_logits(logits, legal))

    def temper(self, phi: PyTree, temperature: Array | float) -> PyTree:
        return _cooled(phi, temperature)
