"""Networks of a game by the settings: a policy (tabular, mlp, film, conv or board), and a critic."""

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
    """Builds the policy network of a game.

    Args:
      game: the game.
      settings: settings whose `policy` is not `auto`.

    Returns:
      The network, static and equal for equal arguments.

    Raises:
      ValueError: if the network needs a board and the game has none.
    """
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
    """Builds the critic of a game.

    Args:
      game: the game.
      settings: sizes of the critic, and whether it estimates action values (`advantage`).
      code_size: D, size of a latent code; 0 for none.

    Returns:
      The critic, static and equal for equal arguments.

    Raises:
      ValueError: if the critic needs a board and the game has none, or discrete actions and the game has others.
    """
    of_actions = settings.advantage != "gae"
    if of_actions and game.continuous:
        raise ValueError(
            f"advantage={settings.advantage!r} needs one critic output per action: expected discrete actions, got "
            f"continuous ones in {game.name}. Use advantage='gae'."
        )
    if settings.critic_channels:
        board_shape(game, f"critic_channels={settings.critic_channels}")
    hidden, channels = settings.critic_hidden, settings.critic_channels
    return Critic(game.observation_shape, code_size, hidden, channels, num_actions=game.num_actions * of_actions)


def board_shape(game: Game, setting: str) -> tuple[int, int, int]:
    """Returns the shape (height, width, planes) of the game's board.

    Args:
      game: the game.
      setting: the setting that needs a board, for the message.

    Raises:
      ValueError: if the game has no board, or continuous actions.
    """
    shape = game.observation_shape
    if len(shape) != 3 or game.continuous:
        raise ValueError(
            f"{setting} needs discrete actions and a board: expected observations of shape (height, width, planes), "
            f"got {shape} in {game.name}. Use policy='film' or 'mlp', and critic_channels=0."
        )
    return shape


@dataclasses.dataclass(frozen=True)
class Unshared:
    """A network without shared parts: every policy has its own copy of the parts that are `Shared` in the network."""

    network: PolicyNetwork

    def init(self, key: Array) -> PyTree:
        """Initializes phi without shared parts. key: consumed."""
        return unshare_params(self.network.init(key))

    def __call__(self, phi: PyTree, observation: Array, legal: Array) -> PolicyOutput:
        shapes = jax.eval_shape(self.network.init, jax.random.key(0))
        marked = jax.tree.map(
            lambda node, own: Shared(own) if _is_shared(node) else own, shapes, phi, is_leaf=_is_shared
        )
        return self.network(marked, observation, legal)

    def temper(self, phi: PyTree, temperature: Array | float) -> PyTree:
        return self.network.temper(phi, temperature)


def unshare_network(network: PolicyNetwork) -> PolicyNetwork:
    """Wraps a network so that its policies have no shared parts; networks without such parts are returned unchanged."""
    return Unshared(network) if isinstance(network, (FilmPolicy, ConvPolicy, BoardPolicy)) else network


def unshare_params(phi: PyTree) -> PyTree:
    """Converts parameters of a network to those of `unshare_network(network)`."""
    return jax.tree.map(lambda node: node.value if _is_shared(node) else node, phi, is_leaf=_is_shared)


def _is_shared(node: object) -> bool:
    return isinstance(node, Shared)
