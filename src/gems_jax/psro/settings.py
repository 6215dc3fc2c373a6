"""Settings that the methods with learned responses share, once."""

from __future__ import annotations

import dataclasses
from typing import Literal, Self

import jax.numpy as jnp
from jax.typing import ArrayLike

from gems_jax.config import CAP, NON_NEGATIVE, LearnerConfig, choice, real, size, widths
from gems_jax.extensive.tree import build_tree, walkable
from gems_jax.types import Game


class Learning(LearnerConfig):
    """How one policy per population is learned: its network, a round's episodes, the gradient steps on them."""

    policy_hidden: tuple[int, ...] = widths((64, 64))
    """Hidden widths of the policies mlp, film and conv."""
    learning_rate: float = real(0.0, NON_NEGATIVE)
    """Step size of the policy's Adam; 0: 0.05 for tables of logits, 0.001 for networks."""
    critic_learning_rate: float = real(0.0, NON_NEGATIVE)
    """Step size of the critic's Adam; 0: 0.02 beside tables of logits, 0.001 beside networks."""
    gradient_clip: float = real(10.0, CAP)
    """Global gradient norm."""
    opponents: int = size(128)
    """Opponents per round and population, each drawn from the mixture for whole games."""
    episodes: int = size(1)
    """Episodes per opponent."""
    segment: int = size(0, at_least=0)
    """Steps per round of games that go on from round to round; 0 plays whole episodes in every round."""
    epochs: int = size(1)
    """Passes over a round's decisions."""
    minibatches: int = size(1)
    """Gradient steps per pass."""
    diversity: bool = choice(False)
    """Responses are paid for differing from the policies that their population holds (psro/ppo.py)."""
    diversity_weight: float = real(0.01, NON_NEGATIVE)
    """Weight of the bonus of `diversity`, which is between 0 and 1."""


class Budgeted(Learning):
    """Budget of an iteration of a method that learns."""

    iterations: int = size(40)
    """Iterations that an experiment runs by default."""
    rounds: int = size(100)
    """Rounds of learning per iteration, shared out between the learners of a population."""
    env_steps: int = size(0, at_least=0)
    """Budget of an iteration, measuring included: there are then as many rounds as it allows. 0: `rounds` of them."""

    @property
    def least_rounds(self) -> int:
        """Rounds of learning that an iteration takes at least, whatever its budget."""
        return 1

    def measured_payoffs(self, players: int, iterations: int) -> float:
        """Counts the payoffs that a run measures by episodes, as far as that is known beforehand.

        Args:
          players: of the game.
          iterations: of the run.

        Returns:
          Entries of payoff tables that are measured, with repetitions.
        """
        del players, iterations
        return 0.0

    def divide_less(self) -> Self | None:
        """Divides an iteration into fewer parts that learn and measure; None where that is not possible."""
        return None


class ExplicitSettings(Budgeted):
    """Settings of all methods that store policies."""

    oracle: Literal["auto", "exact", "ppo"] = choice("auto")
    """Who learns: exact best responses, for enumerable games; PPO, for any; auto: exact where possible."""
    payoffs: Literal["auto", "exact", "episodes"] = choice("auto")
    """Payoffs between policies: from the tree, or measured; auto: from the tree with exact responses only."""
    entry_episodes: int = size(1000)
    """Episodes per measured payoff."""

    def for_game(self, game: Game) -> Self:
        """Replaces every `auto` by a choice for the game. Raises NotEnumerableError if "exact" is impossible."""
        oracle = _settle(self.oracle, "exact" if walkable(game) else "ppo")
        payoffs = _settle(self.payoffs, "exact" if oracle == "exact" else "episodes")
        if "exact" in (oracle, payoffs):
            build_tree(game)
        return self.replace(oracle=oracle, payoffs=payoffs, policy=settle_policy(game, self.policy))


def count_new_payoffs(players: int, policies: float, newcomers: float) -> float:
    """Counts the entries of a payoff table that newcomers add to so many policies of every player."""
    return (policies + newcomers) ** players - policies**players


def _settle(choice: str, automatic: str) -> str:
    return automatic if choice == "auto" else choice


def settle_policy(game: Game, policy: str) -> str:
    """Replaces `auto` by the network that it stands for on this game."""
    return _settle(policy, "tabular" if walkable(game) else "mlp")


def learning_of(config: Learning, game: Game) -> Learning:
    """The part of a method's settings that a training program depends on, with nothing left to `auto`.

    Methods that agree in it share programs.
    """
    part = Learning(**{field.name: getattr(config, field.name) for field in dataclasses.fields(Learning)})
    policy = settle_policy(game, part.policy)
    actor, critic = (0.05, 0.02) if policy == "tabular" else (0.001, 0.001)
    return part.replace(
        policy=policy,
        learning_rate=_or_default(part.learning_rate, actor),
        critic_learning_rate=_or_default(part.critic_learning_rate, critic),
    )


def _or_default(rate: ArrayLike, default: float) -> ArrayLike:
    """Replaces a rate of 0 by the default. Rates of a sweep may be traced."""
    if isinstance(rate, (int, float)):
        return rate or default
    return jnp.where(jnp.asarray(rate) == 0.0, default, rate)
