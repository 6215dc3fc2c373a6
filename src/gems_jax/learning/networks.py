"""Networks that settings describe for a game: a policy (tabular, mlp, film, conv or board), and a critic."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import jax

from gems_jax.config import LearnerConfig
from gems_jax.extensive.infosets import infoset_policy
from gems_jax.policies.critic import Critic
from gems_jax.policies.film import BoardPolicy, ConvPolicy, FilmPolicy
from gems_jax.policies.mlp import MlpPolicy
from gems_jax.policies.networks import PolicyNetwork
from gems_jax.types import Array, BoardOriented, Game, PolicyOutput, PyTree, Shared, supports

_FLAT: dict[str, Callable[..., PolicyNetwork]] = {"mlp": MlpPolicy, "film": FilmPolicy}  # of flat observations


def policy_network(game: Game, settings: LearnerConfig) -> PolicyNetwork:
    """Builds the policy that settings without `auto` describe: static, equal for equal arguments."""
    size, kind, hidden = math.prod(game.observation_shape), settings.policy, settings.policy_hidden
    if kind == "tabular":
        return infoset_policy(game)
    if kind in _FLAT:
        return _FLAT[kind](size, game.num_actions, hidden, game.continuous)
    board = board_shape(game, f"policy={kind!r}")
    if kind == "conv":
        return ConvPolicy(board, game.num_actions, hidden, settings.policy_channels)
    return BoardPolicy(
        board, game.num_actions, settings.policy_channels, game.board_turns if supports(game, BoardOriented) else 0
    )


def critic_network(game: Game, settings: LearnerConfig, code_size: int) -> Critic:
    """Builds the critic of observations and codes of some size: static, equal for equal arguments."""
    if settings.critic_channels:
        board_shape(game, f"critic_channels={settings.critic_channels}")
    return Critic(game.observation_shape, code_size, settings.critic_hidden, settings.critic_channels)


def board_shape(game: Game, setting: str) -> tuple[int, int, int]:
    """Returns the shape of the game's board; raises ValueError where it has none that `setting` could be for."""
    shape = game.observation_shape
    if len(shape) != 3 or game.continuous:
        raise ValueError(
            f"{setting} needs discrete actions and a board of shape (height, width, planes): {game.name} shows "
            f"{shape}; use policy='film' or 'mlp', and critic_channels=0"
        )
    return shape


@dataclasses.dataclass(frozen=True)
class Unshared:
    """A network without shared parts: every policy holds for itself what a generated population would share."""

    network: PolicyNetwork

    def init(self, key: Array) -> PyTree:
        """key: consumed."""
        return without_sharing(self.network.init(key))

    def __call__(self, phi: PyTree, observation: Array, legal: Array) -> PolicyOutput:
        shapes = jax.eval_shape(self.network.init, jax.random.key(0))
        marked = jax.tree.map(lambda node, own: Shared(own) if _shared(node) else own, shapes, phi, is_leaf=_shared)
        return self.network(marked, observation, legal)

    def temper(self, phi: PyTree, temperature: Array | float) -> PyTree:
        return self.network.temper(phi, temperature)


def unshared(network: PolicyNetwork) -> PolicyNetwork:
    """The network itself where its policies have nothing in common anyway."""
    return Unshared(network) if isinstance(network, (FilmPolicy, ConvPolicy, BoardPolicy)) else network


def without_sharing(phi: PyTree) -> PyTree:
    """Parameters for `unshared(network)` from those of the network."""
    return jax.tree.map(lambda node: node.value if _shared(node) else node, phi, is_leaf=_shared)


def _shared(node: object) -> bool:
    return isinstance(node, Shared)
