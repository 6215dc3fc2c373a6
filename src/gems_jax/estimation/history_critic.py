"""Critics of full positions: the remaining return of every seat, for control variates (`control_variates.py`).

The inputs of such a critic are the observations of all seats and hidden cards, which no player may see. It only
corrects returns and never acts, so an inaccurate critic costs variance but no bias. `HistoryCritic` is a small network,
`TabularHistoryCritic` a table of means for poker.

    critic = make_history_critic(game)
    state = critic.init(key)                                   # a pytree of fixed shape
    state, losses = critic.train(state, key, targets)          # targets of episodes, leaves [E, T, ...]
    play = make_corrected_play(critic, state.params)           # replaces `play_episode`
"""

from __future__ import annotations

import dataclasses
import math
from functools import partial

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.typing import ArrayLike

from gems_jax.estimation.deals import DealIndex, index_deals
from gems_jax.extensive.tree import build_tree
from gems_jax.policies.networks import Mlp
from gems_jax.types import Array, Game, GameState, PyTree, Struct, Trajectory, expect

MAX_DEALS = 256  # largest number of deals that a critic has as an input
_OPTIMIZER = optax.scale_by_adam()


class ValueTargets(Struct):
    """Positions of episodes and the seats' returns from there on; callers stack episodes, leaves [E, T, ...]."""

    observation: Array  # [..., T, S, *obs]
    to_move: Array  # [..., T, S] bool
    remaining: Array  # [..., T, S], returns to go, plain or corrected
    played: Array  # [..., T] bool, False on padding
    infoset: Array | None = None  # [..., T, S] int32, if the game indexes its information sets
    deal: Array | None = None  # [..., T] int32, index of the deal, if the game lists its deals


class CriticState(Struct):
    """A critic's parameters and the state of its optimizer."""

    params: PyTree
    optimizer: PyTree


def targets_of_trajectory(trajectory: Trajectory, deal: Array | None = None) -> ValueTargets:
    """Extracts positions and plain returns to go from whole episodes that `unroll` recorded for all seats.

    Args:
      trajectory: leaves [..., T, S, ...], seats in the order of the game itself, not of a view.
      deal: index of every episode's deal, [...] int32, if it is known.

    Returns:
      `ValueTargets` with the same leading axes. Trajectories do not record information sets.
    """
    remaining = jnp.flip(jnp.cumsum(jnp.flip(trajectory.reward, -2), axis=-2), -2)
    time = jnp.arange(trajectory.reward.shape[-2]).reshape(*(1,) * trajectory.length.ndim, -1)
    played = time < trajectory.length[..., None]
    deals = None if deal is None else jnp.broadcast_to(deal[..., None], played.shape)
    return ValueTargets(trajectory.observation, trajectory.acted, remaining, played, deal=deals)


@dataclasses.dataclass(frozen=True)
class HistoryCritic:
    """Value network V(position, context) [S] on all seats' observations, the seats to move, the deal and the policies.

    `deals` adds hidden cards, such as the public card of Leduc before it is revealed. `context` is any array of
    `context_size` numbers that identifies the policies, such as their latent codes [players, D]; without it the critic
    learns the mean over all policies in its training data.
    """

    observation_shape: tuple[int, ...]
    num_seats: int
    context_size: int = 0
    hidden: tuple[int, ...] = (64, 64)
    scale: float = 1.0  # scale of returns: the network learns value / scale
    zero_sum: bool = False  # whether the seats' values sum to zero
    deals: DealIndex | None = None  # deals of the game, None if the deal is not an input

    def _inputs(
        self, observation: Array, to_move: Array, deal: Array | None, context: Array | None
    ) -> tuple[Array, ...]:
        parts = [observation.astype(jnp.float32).reshape(-1), to_move.astype(jnp.float32)]
        if self.deals is not None:
            if deal is None:
                raise ValueError("HistoryCritic: expected the deal, got None. Record targets with make_recorded_play.")
            parts.append(jax.nn.one_hot(deal, self.deals.count))  # zeros for an unknown deal
        position = jnp.concatenate(parts)
        if self.context_size == 0:
            return (position,)
        if context is None:
            raise ValueError(f"HistoryCritic: expected a context of {self.context_size} numbers, got None.")
        chex.assert_size(context, self.context_size)
        return position, context.reshape(-1)

    def _module(self) -> Mlp:
        return Mlp(self.hidden, self.num_seats, head_scale=0.01)

    def init(self, key: Array) -> CriticState:
        """Initializes the critic. key: consumed."""
        shape = (self.num_seats, *self.observation_shape)
        context = jnp.zeros(self.context_size) if self.context_size else None
        inputs = self._inputs(jnp.zeros(shape), jnp.zeros(self.num_seats), jnp.int32(0), context)
        params = self._module().init(key, *inputs)["params"]
        return CriticState(params, _OPTIMIZER.init(params))

    def evaluate(
        self,
        params: PyTree,
        observation: Array,
        to_move: Array,
        deal: Array | None = None,
        context: Array | None = None,
    ) -> Array:
        """Computes the values of one position.

        Args:
          params: the parameters of a `CriticState`.
          observation: observations of all seats, [S, *obs].
          to_move: which seats are to move, [S] bool.
          deal: index of the deal, [] int32; required if the critic has `deals`.
          context: description of the policies that play, any shape with `context_size` numbers.

        Returns:
          The remaining return of every seat, [S].
        """
        inputs = self._inputs(observation, to_move, deal, context)
        output: Array = self._module().apply({"params": params}, *inputs)  # type: ignore[assignment]
        if self.zero_sum:
            output = output - output.mean()
        return output * self.scale

    def __call__(self, params: PyTree, position: GameState, context: Array | None = None) -> Array:
        """Computes the remaining return of every seat [S] in one position."""
        deal = None if self.deals is None else self.deals(position)
        return self.evaluate(params, position.observation, position.to_move, deal, context)

    def train(
        self,
        state: CriticState,
        key: Array,
        targets: ValueTargets,
        context: Array | None = None,
        *,
        steps: int = 16,
        batch: int = 256,
        learning_rate: ArrayLike = 3e-3,
    ) -> tuple[CriticState, Array]:
        """Fits the critic to returns to go by Adam on minibatches of positions drawn with replacement.

        Pure and of fixed shape. The loss is the mean squared error in units of `scale` over played positions.

        Args:
          state: the critic before training.
          key: typed PRNG key; consumed.
          targets: positions of E episodes, leaves [E, T, ...].
          context: context of every episode, [E, ...] with `context_size` numbers each.
          steps: number of gradient steps (static).
          batch: positions per step (static).
          learning_rate: learning rate of Adam.

        Returns:
          The trained state, and the loss of every step [steps].
        """
        chex.assert_rank(targets.played, 2)
        episodes, length = targets.played.shape

        def loss_of(params: PyTree, rows: Array) -> Array:
            episode, time = rows // length, rows % length
            seen, moving = targets.observation[episode, time], targets.to_move[episode, time]
            deal = None if targets.deal is None else targets.deal[episode, time]
            own = None if context is None else context[episode]
            values = jax.vmap(partial(self.evaluate, params))(seen, moving, deal, own)
            errors = jnp.mean(((values - targets.remaining[episode, time]) / self.scale) ** 2, axis=1)
            weight = targets.played[episode, time].astype(jnp.float32)
            return jnp.sum(errors * weight) / jnp.maximum(weight.sum(), 1.0)

        def update(state: CriticState, own_key: Array) -> tuple[CriticState, Array]:
            rows = jax.random.randint(own_key, (batch,), 0, episodes * length)
            loss, gradient = jax.value_and_grad(loss_of)(state.params, rows)
            updates, optimizer = _OPTIMIZER.update(gradient, state.optimizer)
            scaled = jax.tree.map(lambda leaf: -jnp.asarray(learning_rate) * leaf, updates)
            return CriticState(optax.apply_updates(state.params, scaled), optimizer), loss

        return jax.lax.scan(update, state, jax.random.split(key, steps))


def make_history_critic(game: Game, context_size: int = 0, hidden: tuple[int, ...] = (64, 64)) -> HistoryCritic:
    """Makes the network critic of a game.

    Args:
      game: the game itself, not a view of it.
      context_size: size of the description of the policies that play, 0 for none.
      hidden: widths of the hidden layers.

    Returns:
      A `HistoryCritic` in units of half the width of the game's return bounds. The deal is an input if the game lists
      at most `MAX_DEALS` of them.
    """
    low, high = game.return_bounds
    deals = index_deals(game)
    return HistoryCritic(
        game.observation_shape,
        game.num_seats,
        context_size,
        hidden,
        scale=(high - low) / 2,
        zero_sum=bool(game.zero_sum),
        deals=None if deals is None or deals.count > MAX_DEALS else deals,
    )


@dataclasses.dataclass(frozen=True)
class TabularHistoryCritic:
    """Value table V(position) [S] of mean returns, indexed by the information sets of all seats and the seat to move.

    It is for games that number their information sets (`GameState.infoset`), such as poker. Hidden cards are not part
    of the index, so their variance remains. Parameters are sums [cells, S] and counts [cells]; a cell without visits
    has value 0.
    """

    first: tuple[int, ...]  # lowest index of each seat's information sets
    sizes: tuple[int, ...]  # size of the range of each seat's indices

    @property
    def num_cells(self) -> int:
        """Number of cells of the table."""
        return len(self.sizes) * math.prod(self.sizes)

    def init(self, key: Array) -> CriticState:
        """Initializes the critic. key: consumed, because the interface has one."""
        del key
        return CriticState((jnp.zeros((self.num_cells, len(self.sizes))), jnp.zeros(self.num_cells)), ())

    def find_cell(self, infoset: Array, to_move: Array) -> Array:
        """Computes the cells [...] of positions given by infoset [..., S] int32 and to_move [..., S] bool."""
        cell = jnp.argmax(to_move, axis=-1)
        for seat, (first, size) in enumerate(zip(self.first, self.sizes, strict=True)):
            cell = cell * size + jnp.clip(infoset[..., seat] - first, 0, size - 1)
        return cell

    def __call__(self, params: PyTree, position: GameState, context: Array | None = None) -> Array:
        """Looks up the remaining return of every seat [S] in one position; `context` is ignored."""
        del context
        assert position.infoset is not None  # `make_tabular_critic` has checked it
        sums, counts = params
        cell = self.find_cell(position.infoset, position.to_move)
        return sums[cell] / jnp.maximum(counts[cell], 1e-6)

    def train(
        self, state: CriticState, key: Array, targets: ValueTargets, *, retained: ArrayLike = 1.0
    ) -> tuple[CriticState, Array]:
        """Adds returns to go to the means of their positions.

        Args:
          state: the critic before training.
          key: typed PRNG key; consumed, because the interface has one.
          targets: positions with information sets, leaves [..., T, S].
          retained: weight of earlier returns; 1 weights all equally, 0 drops them.

        Returns:
          The trained state, and the mean squared error of the old state on the new targets, [1].

        Raises:
          ValueError: if the targets have no information sets.
        """
        del key
        if targets.infoset is None:
            raise ValueError(
                "TabularHistoryCritic: expected targets with information sets, got None. Record them with "
                "make_recorded_play."
            )
        sums, counts = state.params
        cells = self.find_cell(targets.infoset, targets.to_move).reshape(-1)
        weight = targets.played.reshape(-1).astype(jnp.float32)
        earned = targets.remaining.reshape(-1, len(self.sizes))
        errors = jnp.mean((sums[cells] / jnp.maximum(counts[cells], 1e-6)[:, None] - earned) ** 2, axis=1)
        loss = jnp.sum(errors * weight) / jnp.maximum(weight.sum(), 1.0)
        sums = retained * sums + jnp.zeros_like(sums).at[cells].add(earned * weight[:, None])
        counts = retained * counts + jnp.zeros_like(counts).at[cells].add(weight)
        return CriticState((sums, counts), ()), loss[None]


def make_tabular_critic(game: Game) -> TabularHistoryCritic:
    """Makes the tabular critic of an enumerable game that indexes its information sets.

    Args:
      game: the game itself, not a view of it.

    Returns:
      A `TabularHistoryCritic`.

    Raises:
      NotEnumerableError: if the tree of the game cannot be built.
      ValueError: if the game does not number its information sets.
    """
    tree = build_tree(game)
    expect(
        tree.number is not None,
        "make_tabular_critic: expected a game that indexes its information sets (GameState.infoset), got "
        f"{game.name!r}. Use make_history_critic.",
    )
    numbers, seats = np.asarray(tree.number), np.asarray(tree.seat)
    own = [numbers[seats == seat] for seat in range(tree.num_seats)]
    return TabularHistoryCritic(
        tuple(int(each.min()) for each in own), tuple(int(each.max() - each.min()) + 1 for each in own)
    )
