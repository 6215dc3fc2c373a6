"""Settings of methods with learned responses."""

from __future__ import annotations

import dataclasses
from typing import Literal, Self

import jax.numpy as jnp
from jax.typing import ArrayLike

from gems_jax.config import CAP, NON_NEGATIVE, LearnerConfig, choice, real, size, widths
from gems_jax.extensive.tree import build_tree, is_enumerable
from gems_jax.types import Game


class Learning(LearnerConfig):
    """Settings of learning one policy per population: its network, episodes and gradient steps."""

    policy_hidden: tuple[int, ...] = widths((64, 64))
    """Hidden widths of the policies mlp, film and conv."""
    learning_rate: float = real(0.0, NON_NEGATIVE)
    """Step size of the policy's Adam (0: 0.05 for tables of logits, 0.001 for networks)."""
    critic_learning_rate: float = real(0.0, NON_NEGATIVE)
    """Step size of the critic's Adam (0: 0.02 with tables of logits, 0.001 with networks)."""
    gradient_clip: float = real(10.0, CAP)
    """Maximum global norm of gradients."""
    opponents: int = size(128)
    """Opponents per round and population, each drawn from the mixture for complete games."""
    episodes: int = size(1)
    """Episodes per opponent."""
    segment: int = size(0, at_least=0)
    """Steps per round of games that continue across rounds (0: play complete episodes in every round)."""
    epochs: int = size(1)
    """Passes over a round's decisions."""
    minibatches: int = size(1)
    """Gradient steps per pass."""
    diversity: bool = choice(False)
    """Give responses a bonus for differing from their population's policies (see psro/ppo.py)."""
    diversity_weight: float = real(0.01, NON_NEGATIVE)
    """Weight of the bonus of `diversity`, which is in [0, 1)."""


class Budgeted(Learning):
    """Settings of the budget of an iteration."""

    iterations: int = size(40)
    """Iterations of a run."""
    rounds: int = size(100)
    """Rounds of learning per iteration, divided between the learners of a population."""
    env_steps: int = size(0, at_least=0)
    """Environment steps per iteration, including measurements, which determine the rounds (0: use `rounds`)."""

    @property
    def least_rounds(self) -> int:
        """Minimum rounds per iteration, whatever its budget."""
        return 1

    def measured_payoffs(self, players: int, iterations: int) -> float:
        """Estimates the number of payoffs that a run measures by episodes.

        Args:
          players: number of players.
          iterations: length of the run.

        Returns:
          Measured entries of payoff tables, with repetitions.
        """
        del players, iterations
        return 0.0

    def divide_less(self) -> Self | None:
        """Divides an iteration into fewer parts that learn and measure; None if that is not possible."""
        return None


class ExplicitSettings(Budgeted):
    """Settings of methods that store policies."""

    oracle: Literal["auto", "exact", "ppo"] = choice("auto")
    """Responses: exact for enumerable games, or learned by PPO (auto: exact if possible)."""
    payoffs: Literal["auto", "exact", "episodes"] = choice("auto")
    """Payoffs between policies: exact, or measured by episodes (auto: exact only with exact responses)."""
    entry_episodes: int = size(1000)
    """Episodes per measured payoff."""

    def for_game(self, game: Game) -> Self:
        """Replaces every `auto` by a choice for the game. Raises NotEnumerableError if "exact" is impossible."""
        oracle = _settle(self.oracle, "exact" if is_enumerable(game) else "ppo")
        payoffs = _settle(self.payoffs, "exact" if oracle == "exact" else "episodes")
        if "exact" in (oracle, payoffs):
            build_tree(game)
        return self.replace(oracle=oracle, payoffs=payoffs, policy=settle_policy(game, self.policy))


def count_new_payoffs(players: int, policies: float, newcomers: float) -> float:
    """Counts the entries that newcomers add to the payoff table of `policies` policies per player."""
    return (policies + newcomers) ** players - policies**players


def _settle(choice: str, automatic: str) -> str:
    return automatic if choice == "auto" else choice


def settle_policy(game: Game, policy: str) -> str:
    """Replaces `auto` by the policy network for the game."""
    return _settle(policy, "tabular" if is_enumerable(game) else "mlp")


def learning_of(config: Learning, game: Game) -> Learning:
    """Extracts the settings that a training program depends on, without `auto`.

    Methods with equal settings share compiled programs.
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
