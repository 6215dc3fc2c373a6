"""Settings of GEMS, in groups by phase, and the field types that settings of all methods use.

Integers and choices are static fields. Real numbers are leaves, so a new step size does not recompile, and a sweep over
it is a `vmap`. Defaults are the numbers of the paper's Kuhn table (tab:gems_default_params). Fields that the paper does
not print are marked. Where the paper allows several readings, the default is ours; `gems/paper_presets.py` has the
literal ones. `validate` checks the values, not the constructor, because the fields of a traced config are tracers.
"""

from __future__ import annotations

import dataclasses
import math
import typing
from collections.abc import Callable
from typing import Any, Literal, Self

from gems_jax.types import Struct, did_you_mean

Range = tuple[Callable[[float], bool], str]  # (predicate, its description in messages)
# Removed fields with their former defaults: files that hold these values still load.
REMOVED: dict[str, Any] = {
    "new_mass": "uniform",
    "mass_floor": 0.01,
    "policy_kernel": 3,
    "critic_kernel": 1,
    "generator": "hypernetwork",
    "meta_restart": False,
}
PerPlayer = float | tuple[float, ...]  # one number for all populations, or one for each

NON_NEGATIVE: Range = (lambda x: 0 <= x < math.inf, "a finite number, at least 0")
ABOVE_ZERO: Range = (lambda x: 0 < x < math.inf, "a finite number above 0")
AT_LEAST_ONE: Range = (lambda x: 1 <= x < math.inf, "a finite number, at least 1")
FRACTION: Range = (lambda x: 0 <= x <= 1, "between 0 and 1")
OPEN_FRACTION: Range = (lambda x: 0 < x < 1, "above 0 and below 1")
BELOW_ONE: Range = (lambda x: 0 <= x < 1, "at least 0 and below 1")
BELOW_THIRD: Range = (lambda x: 0 <= x < 1 / 3, "at least 0 and below 1/3")
CONFIDENCE: Range = (lambda x: 0 < x <= 1, "above 0 and at most 1")
CAP: Range = (lambda x: x > 0, "above 0 (infinity for none)")


def size(default: int, at_least: int = 1) -> Any:
    """Declares a static integer field of at least `at_least`."""
    check = (lambda x: type(x) is int and x >= at_least, f"an integer, at least {at_least}")
    return dataclasses.field(default=default, metadata={"static": True, "check": check})


def choice(default: Any) -> Any:
    """Declares a static field: a bool, or one of the names of the field's Literal."""
    return dataclasses.field(default=default, metadata={"static": True})


def widths(default: tuple[int, ...]) -> Any:
    """Declares a static field for layer widths."""
    check = (
        lambda x: isinstance(x, tuple) and all(type(w) is int and w > 0 for w in x),
        "a tuple of positive integers",
    )
    return dataclasses.field(default=default, metadata={"static": True, "check": check})


def real(default: float, within: Range) -> Any:
    """Declares a real-valued field: a leaf, which may be traced or vmapped."""
    return dataclasses.field(default=default, metadata={"check": within})


def is_real(hint: Any) -> bool:
    """Checks whether a field with this type hint is a real-valued leaf, which may be traced."""
    return hint is float or hint == PerPlayer


def validate_fields(config: Any) -> None:
    """Raises ValueError for the first field out of range. Array leaves (a sweep) and tracers pass."""
    hints = typing.get_type_hints(type(config))
    for field in dataclasses.fields(config):
        value, hint = getattr(config, field.name), hints[field.name]
        if typing.get_origin(hint) is Literal:
            _validate_name(field.name, value, typing.get_args(hint))
        elif hint is bool:
            if not isinstance(value, bool):
                raise ValueError(f"{field.name} must be True or False: got {value!r}")
        else:
            _validate_number(field, value, hint == PerPlayer)


def _validate_name(field: str, value: Any, names: tuple[str, ...]) -> None:
    if value not in names:
        hint = did_you_mean(value, names).rstrip()
        raise ValueError(f"{field} must be one of {', '.join(names)}: got {value!r}{hint and '; '}{hint}")


def _validate_number(field: dataclasses.Field, value: Any, per_player: bool) -> None:
    """Checks a size, widths, a real number, or one real number for each population."""
    check, expected = field.metadata["check"]
    static = field.metadata.get("static", False)
    several = per_player and isinstance(value, (tuple, list))
    each = value if several and isinstance(value, tuple) and value else (value,)
    if not all(check(one) if static else _is_in_range(one, check) for one in each):
        expected += ", or a tuple with one for each population" * several
        raise ValueError(f"{field.name} must be {expected}: got {value!r}")


def _is_in_range(value: Any, check: Callable[[Any], bool]) -> bool:
    """Whether a leaf is a number in range. Arrays and tracers pass: a traced value cannot be checked."""
    if value is None or isinstance(value, (bool, str, tuple, list)):
        return False
    return not isinstance(value, (int, float)) or check(value)


class Settings(Struct):
    """Base class of the settings of all methods."""

    def replace(self, **changes: Any) -> Self:
        """Returns a copy with some fields changed.

        Args:
          **changes: new values by field name. They are not validated.

        Returns:
          Settings of the same class.

        Raises:
          ValueError: if there is no such field; the message suggests close names.
        """
        known = [field.name for field in dataclasses.fields(self)]
        for name in changes:
            if name not in known:
                hint = did_you_mean(name, known, 3).rstrip() or f"known: {', '.join(known)}"
                raise ValueError(f"{type(self).__name__} has no field {name!r}; {hint}")
        return super().replace(**changes)

    def validate(self) -> Self:
        """Checks every field.

        Returns:
          The settings themselves.

        Raises:
          ValueError: for a field out of range.
        """
        validate_fields(self)
        return self


class PopulationConfig(Settings):
    """Anchor slots of each population, and the split of an iteration's episodes between the phases."""

    iterations: int = size(40)
    """Outer iterations T that an experiment runs by default."""
    initial_anchors: int = size(1)
    """k_0, anchors per population at the start, drawn from N(0, I)."""
    capacity: int = size(32)
    """Anchor slots K per population; when all are active, `replacement` chooses the slot of a new anchor."""
    replacement: Literal["least_mass", "worst_ev"] = choice("least_mass")
    """Anchor that is replaced at capacity: the one of least mass, or the one of the worst value."""
    new_value: Literal["oracle_mean", "zero"] = choice("oracle_mean")
    """Previous value of a new anchor in the optimistic update: the oracle's estimate, or 0 as printed."""
    adaptive: bool = choice(False)
    """Move episodes in each iteration to the phase whose error dominates. The total number does not change."""
    adaptive_rate: float = real(0.5, FRACTION)
    """Step size of the phases' fractions of the episodes, per iteration."""
    adaptive_floor: float = real(0.1, BELOW_THIRD)
    """Minimum fraction of the episodes of each phase."""


class LearnerConfig(Settings):
    """Networks and policy gradient of one learner, shared by GEMS and the PSRO family."""

    policy: Literal["auto", "tabular", "mlp", "film", "conv", "board"] = choice("auto")
    """Policy class: logits per information set (small games), an MLP, or a shared torso with a generated head. auto:
    tabular for enumerable games, otherwise mlp."""
    policy_hidden: tuple[int, ...] = widths(())
    """Hidden widths of the policies mlp, film and conv; () is linear."""
    policy_channels: int = size(32)
    """Features per square of the policies conv and board."""
    critic_hidden: tuple[int, ...] = widths((32,))
    """Hidden widths of the critic (not printed in the paper)."""
    critic_channels: int = size(0, at_least=0)
    """Features that a 1x1 convolution of the critic computes per square of a board; 0 for none."""
    surrogate: Literal["ppo", "a2c"] = choice("ppo")
    """Policy-gradient rule."""
    advantage: Literal["gae", "q", "doubly_robust"] = choice("gae")
    """Advantages (formulas in `learning/gae.py`). gae: generalized advantage estimation with a critic V. q: A(o, a) =
    Q(o, a) - sum_b pi(b|o) Q(o, b) with a critic Q of every action, biased as far as Q is inexact; worse on Kuhn poker.
    doubly_robust: these of all actions, corrected by the return at the action taken. Discrete actions only."""
    normalise_advantages: bool = choice(False)
    """Scale every batch of advantages to mean 0 and deviation 1."""
    learning_rate: float = real(2e-4, NON_NEGATIVE)
    """Step size of the generator's Adam."""
    critic_learning_rate: float = real(1e-3, NON_NEGATIVE)
    """Step size of the critic's Adam (not printed in the paper). Values are in units of the game's return bounds. If
    returns differ by small fractions of these, the critic needs small steps to resolve them."""
    gradient_clip: float = real(0.5, CAP)
    """Maximum global gradient norm."""
    discount: float = real(1.0, FRACTION)
    """gamma, between a player's own decisions."""
    gae_lambda: float = real(0.95, FRACTION)
    """Decay of the advantage estimator (not printed in the paper)."""
    ppo_clip: float = real(0.2, OPEN_FRACTION)
    """Clip of PPO's ratio (not printed in the paper)."""
    value_weight: float = real(0.5, NON_NEGATIVE)
    """Weight of the critic's loss (not printed in the paper)."""
    entropy_weight: float = real(0.0, NON_NEGATIVE)
    """Weight of the entropy bonus (not printed in the paper)."""
    opening_plies: int = size(0, at_least=0)
    """Longest random opening of training episodes, in steps, from which nothing is learned (0: none)."""
    opening_fraction: float = real(0.5, FRACTION)
    """Fraction of training episodes with a random opening of 1 to `opening_plies` steps."""

    def validate(self) -> Self:
        """Raises ValueError for a field out of range or for incompatible fields."""
        super().validate()
        if self.policy in ("film", "conv") and not self.policy_hidden:
            raise ValueError(
                f"policy={self.policy!r} modulates hidden layers: got policy_hidden=(), set for example (64, 64)"
            )
        return self


class RegularizationConfig(Settings):
    """Regularization against cycles of policies that learn against each other, shared by GEMS and self-play.

    Coefficients are annealed as x / sqrt(1 + decay t). t counts iterations of GEMS, and updates of self-play.
    """

    magnet: Literal["none", "uniform", "moving", "copied"] = choice("none")
    """Policy that the loss pulls towards: none; uniform play; a moving average with rate `magnet_rate`; a copy of the
    policy itself, renewed every `magnet_period` updates."""
    magnet_period: int = size(100)
    """Updates between two copies of the policy (magnet="copied")."""
    momentum: float = real(0.9, BELOW_ONE)
    """b1 of Adam. Momentum lags behind opponents that also learn, and widens the cycles of self-play."""
    magnet_weight: float = real(0.0, NON_NEGATIVE)
    """alpha, weight of KL(policy || magnet) in the loss, whose returns are scaled to [0, 1]."""
    magnet_rate: float = real(0.01, FRACTION)
    """Step of the moving magnet towards the policy."""
    magnet_decay: float = real(0.0, NON_NEGATIVE)
    """Annealing of alpha."""
    learning_rate_decay: float = real(0.0, NON_NEGATIVE)
    """Annealing of both step sizes."""
    joint_play: bool = choice(False)
    """Play the games between current policies once, and let every player learn from its own seats. False: games of
    their own for every player, in which the others do not learn."""


class GeneratorConfig(Settings):
    """The generator G_theta and the policies it emits."""

    generator_widths: tuple[int, ...] = widths((16,))
    """Hidden widths of the generator (not printed in the paper)."""
    constant_norm: bool = choice(False)
    """Replace the generator's input z by [cos(pi z / 2), sin(pi z / 2)], whose norm is equal for all codes."""
    precision: Literal["float32", "bfloat16"] = choice("float32")
    """dtype of hidden layers of policies (except tables) and critics; parameters and outputs stay float32. bfloat16
    halves the bytes on accelerators and gains nothing on a CPU."""
    latent_dim: int = size(8)
    """d_z, the dimension of a latent code."""
    temperature: float = real(1.0, ABOVE_ZERO)
    """tau, divides the generated logits."""
    play_temperature: float = real(1.0, ABOVE_ZERO)
    """Divides the logits of anchors once more wherever they play, except in training. Below 1 the meta-game and its
    mixture are of sharper policies than those that explore in training, as games of perfect information need."""
    generator_scale: float = real(1.0, NON_NEGATIVE)
    """Initial standard deviation of W f(z), by which policies of different codes differ (not printed in the paper)."""


class EstimateConfig(Settings):
    """Phase 1: Monte-Carlo estimates of the meta-game."""

    opponents: Literal["per_anchor", "shared", "stratified"] = choice("per_anchor")
    """Opponents drawn for each anchor, once for all anchors (Algorithm 1), or by systematic sampling (unbiased, less
    variance)."""
    num_opponents: int = size(8)
    """n, opponents per anchor."""
    episodes: int = size(2)
    """m, episodes per match-up."""
    mixture_samples: int = size(128, at_least=0)
    """B, samples of the mixture's value (see `mixture`); 0 uses sigma . v-hat and plays no episodes."""
    mixture: Literal["joint", "bootstrap"] = choice("joint")
    """Meaning of B: joint profiles drawn from sigma and played (eq:mc-estimators_revised), or bootstrap resamples of
    the anchors' own episodes (as in the Kuhn table), without further episodes. Weighted estimators always play."""
    estimator: Literal["per_anchor", "importance", "self_normalised", "exact", "pairs", "trajectories"] = choice(
        "per_anchor"
    )
    """Episodes of each anchor, or importance weights on the B joint samples (eq:iw_estimator_main), self-normalized or
    not. exact: values from the game tree, for ablations and debugging; no preset uses it. pairs and trajectories reuse
    the returns of earlier iterations and play B joint samples once per iteration: pairs sums returns per pair of
    anchors (two players), trajectories weights stored episodes by the likelihood of their decisions."""
    sigma_floor: float = real(0.0, FRACTION)
    """Fraction of the joint samples that is drawn uniformly from all anchors: it bounds their weights."""
    exploration: float = real(0.0, FRACTION)
    """Probability of a uniform legal action at each decision of the episodes that estimator='trajectories' stores. The
    weights correct the bias. Decisions that the anchors rarely reach are estimated, too."""
    control_variate: Literal["none", "critic"] = choice("none")
    """critic: a critic of full game states corrects the returns of estimator='pairs' (unbiased, less variance)."""
    buffer_episodes: int = size(16384)
    """Episodes that estimator='trajectories' stores; the oldest are overwritten."""
    replay_discount: float = real(1.0, FRACTION)
    """Weight of a reused return relative to one that is an iteration younger."""
    drift_discount: float = real(10.0, NON_NEGATIVE)
    """c: training that moves an anchor by KL multiplies the counts of its pairs by exp(-c KL) (pairs)."""
    prior_count: float = real(8.0, ABOVE_ZERO)
    """c0: pseudo-count of the additive prior of a pair's payoff (pairs, and trajectories of two players)."""
    ema_scope: Literal["values", "both"] = choice("values")
    """Estimates that the moving average smooths: v-hat, or v-hat and r-hat (the ablation on Kuhn poker)."""
    ema: float = real(0.0, FRACTION)
    """Weight beta of the new estimate in a moving average of the values; 0 disables it."""

    @property
    def joint_episodes(self) -> int:
        """Number of episodes of the joint samples of one estimate."""
        joint = self.estimator in ("importance", "self_normalised") or self.reuses_returns
        played = joint or (self.estimator == "per_anchor" and self.mixture == "joint")
        return self.mixture_samples * self.episodes * played

    @property
    def reuses_returns(self) -> bool:
        """Whether the estimator stores returns of earlier iterations."""
        return self.estimator in ("pairs", "trajectories")


class MetaConfig(Settings):
    """Phase 2: the update of the meta-strategy."""

    meta_rule: Literal["omwu", "mwu", "rm_plus"] = choice("omwu")
    """Optimistic (eq:omwu-eta) or plain multiplicative weights, or predictive regret matching+ (reused returns)."""
    schedule: Literal["const", "sqrt", "harmonic"] = choice("const")
    """Step-size schedule (eq:eta-schedules)."""
    meta_steps: int = size(1)
    """Updates per iteration, each on fresh episodes; the iteration plays their average. With an estimator that reuses
    returns they need no episodes."""
    eta: PerPlayer = real(0.03, NON_NEGATIVE)
    """Step size eta_0. One number for all populations, or one for each (eq:gen_sum_omwu)."""
    alpha: float = real(0.5, ABOVE_ZERO)
    """Decay of the harmonic schedule."""
    slowdown: float = real(1.0, AT_LEAST_ONE)
    """s: eta / s, learning rate / s, beta_kl * s."""
    logit_cap: float = real(50.0, CAP)
    """Lower bound exp(-logit_cap) on the mass of an active anchor relative to the heaviest."""
    gradient_cap: float = real(math.inf, CAP)
    """Bound on the bracket of eq:omwu-eta."""


class OracleConfig(Settings):
    """Phase 3: the bandit oracle over candidate codes."""

    index: Literal["eb_ucb", "ucb_v", "ucb1", "thompson", "thompson_nig", "greedy"] = choice("eb_ucb")
    """Score by which the oracle picks."""
    delta_rule: Literal["constant", "decaying"] = choice("constant")
    """Confidence of the index: `delta` (Kuhn table), or t^-2 (eq:ucb-jac)."""
    range_term: bool = choice(True)
    """Include the third term of eq:ucb-jac (Algorithm 1 omits it)."""
    oracle_rounds: int = size(1)
    """1: equal pulls. More: later rounds pull only the candidates with the highest scores."""
    oracle_period: int = size(1)
    """Iterations between oracle calls."""
    anchors_per_call: int = size(1)
    """Anchors that one oracle call adds."""
    oracle_opponents: int = size(8)
    """Opponents per candidate."""
    oracle_episodes: int = size(2)
    """Episodes per candidate and opponent."""
    mutations: int = size(32, at_least=0)
    """Candidates that mutate the heaviest anchors."""
    randoms: int = size(32, at_least=0)
    """Candidates drawn from N(0, I)."""
    pool_anchors: bool = choice(False)
    """Add the active anchors to the candidate pool (the proof of the overall bound needs them there). If an anchor
    wins, the anchor set does not change."""
    top_anchors: int = size(8)
    """Number of heaviest anchors that are mutated (not printed in the paper)."""
    common_random_numbers: bool = choice(False)
    """Use the same opponents, deals and sampling noise for all anchors, and for all candidates, which reduces the
    variance of differences."""
    jacobian: Literal["none", "exact", "gram", "hutchinson"] = choice("gram")
    """Method that computes ||J G(z)||_F^2; 'none' omits the penalty from the program."""
    mutation_scale: float = real(0.2, NON_NEGATIVE)
    """Standard deviation of a mutation."""
    delta: float = real(0.5, CONFIDENCE)
    """Confidence parameter delta_0."""
    lambda_jacobian: PerPlayer = real(1e-4, NON_NEGATIVE)
    """Weight of the Jacobian penalty (not printed in the paper). One number for all populations, or one for each."""
    lambda_decay: float = real(0.0, NON_NEGATIVE)
    """Annealing: lambda_jacobian / (1 + lambda_decay t)."""


class ResponseConfig(RegularizationConfig):
    """Phase 4: the amortized best response within a trust region (eq:abr-tr_revised)."""

    abr_steps: int = size(30, at_least=0)
    """Rounds of fresh episodes per iteration, K_ABR."""
    abr_segment: int = size(0, at_least=0)
    """Steps per round of games that continue from round to round; 0 plays whole episodes in every round."""
    abr_epochs: int = size(1)
    """Passes over a round's decisions (not printed in the paper)."""
    abr_minibatches: int = size(1)
    """Minibatches per pass, an equal random partition of the decisions (not printed in the paper)."""
    abr_anchors: int = size(16)
    """Anchors per batch."""
    abr_opponents: int = size(4)
    """Opponents per anchor of a batch (not printed in the paper)."""
    abr_episodes: int = size(2)
    """Episodes per anchor and opponent (not printed in the paper)."""
    q_new_applies: Literal["anchors", "opponents"] = choice("anchors")
    """Reading of `q_new`: the fraction of a batch's anchors, where the others follow sigma, or the fraction of
    opponents ("New-opponent fraction"), where a batch's anchors are drawn uniformly from Z_t (Algorithm 1)."""
    kl_protects: Literal["active", "others", "batch"] = choice("active")
    """Anchors in the trust region: every active one, all but the newest, or only the batch's (as printed)."""
    kl_opponents: int = size(8)
    """Episodes per protected anchor that collect the states its own play visits (not printed in the paper)."""
    kl_states: int = size(0, at_least=0)
    """Decisions per protected anchor in the trust region, sampled from those episodes; 0 takes all."""
    live_opponents: bool = choice(False)
    """Train all populations in one loop, round by round, so that opponents can be the current newest anchors (see
    `self_play_fraction`). False: one population after the other, as in Algorithm 1."""
    replay_steps: int = size(0, at_least=0)
    """Gradient steps of the newest anchor on the episodes that estimator='trajectories' stores, after the ABR steps."""
    replay_batch: int = size(4096)
    """Stored episodes per gradient step."""
    reset_optimizer: bool = choice(False)
    """Start every iteration with a fresh optimizer."""
    output_rate: float = real(1.0, NON_NEGATIVE)
    """Step size of the generator's output layer relative to the other layers. Adam moves phi by this times the number
    of features f(z). With about 1 / that number, generated and shared parameters move at the same rate."""
    beta_kl: float = real(0.05, NON_NEGATIVE)
    """Weight of the KL trust region."""
    abr_floor: float = real(0.0, FRACTION)
    """Fraction of the training opponents that are drawn uniformly from all active anchors instead of from sigma."""
    abr_tremble: float = real(0.0, FRACTION)
    """Probability that a training opponent takes a uniform legal action instead of its own. Training then covers states
    that the population itself would not reach. Discrete actions only."""
    replay_cap: float = real(20.0, AT_LEAST_ONE)
    """Upper bound on the likelihood ratio of a stored episode in training."""
    self_play_fraction: float = real(0.0, FRACTION)
    """rho, fraction of the training opponents that are the current newest anchors of the other populations; the others
    are drawn from the frozen sigma. Needs `live_opponents`. 0: the paper; 1: self-play."""
    q_new: float = real(0.25, FRACTION)
    """Fraction of a batch's anchors, or of its opponents (see `q_new_applies`), that are the newest anchor."""
    entropy_decay: float = real(0.0, NON_NEGATIVE)
    """Annealing: entropy_weight / (1 + entropy_decay t)."""


class GemsConfig(
    ResponseConfig, OracleConfig, MetaConfig, EstimateConfig, GeneratorConfig, LearnerConfig, PopulationConfig
):
    """Settings of GEMS: the fields of all groups, by flat names.

    Integers and choices are static. Real numbers are leaves that may be traced. Defaults are the paper's Kuhn table,
    whatever the game; `make_solver("gems", game)` and `preset(game, "auto")` take settings that fit the game. A
    function that needs one group of settings takes the class of that group, and `GemsConfig` inherits from all.

    >>> from gems_jax import GemsConfig
    >>> config = GemsConfig(capacity=8).replace(eta=0.1).validate()
    >>> config.capacity, config.eta
    (8, 0.1)
    >>> GemsConfig(eta=-1.0).validate()
    Traceback (most recent call last):
    ValueError: eta must be a finite number, at least 0: got -1.0
    """

    policy: Literal["tabular", "mlp", "film", "conv", "board"] = choice("tabular")
    """Policy class: logits per information set (small games), an MLP, or a shared torso with a generated head."""

    def pool_size(self, anchors: int | None = None) -> int:
        """Counts the candidates of an oracle call.

        Args:
          anchors: active anchors per population; by default all slots.

        Returns:
          Size of the candidate pool.
        """
        return self.mutations + self.randoms + self.pool_anchors * (self.capacity if anchors is None else anchors)

    def validate(self) -> Self:
        """Checks every field, and that the fields are compatible.

        Returns:
          The settings themselves.

        Raises:
          ValueError: for a field out of range or for incompatible fields.
        """
        super().validate()
        self._validate_sizes()
        self._validate_estimator()
        rho = self.self_play_fraction
        if isinstance(rho, (int, float)) and rho and not self.live_opponents:
            raise ValueError(f"self_play_fraction must be 0 unless live_opponents is set: got {rho!r}")
        if self.joint_play:
            self._validate_joint_play()
        return self

    def _validate_joint_play(self) -> None:
        newest_alone = self.abr_anchors == 1 and self.q_new == 1.0 and self.q_new_applies == "anchors"
        if not (self.live_opponents and newest_alone and isinstance(self.self_play_fraction, float)):
            raise ValueError(
                "joint_play trains the newest anchors on the games that they play with each other: expected "
                "live_opponents=True, a number as self_play_fraction, abr_anchors=1, q_new=1.0 and "
                f"q_new_applies='anchors', got {self.live_opponents}, {self.self_play_fraction!r}, {self.abr_anchors}, "
                f"{self.q_new!r} and {self.q_new_applies!r}"
            )

    @property
    def joint_opponents(self) -> int:
        """Number of the `abr_opponents` whose games are played once for all players; 0 without `joint_play`."""
        return round(self.self_play_fraction * self.abr_opponents) if self.joint_play else 0

    @property
    def num_estimates(self) -> int:
        """Number of estimates that an iteration plays: one, or one before every meta update."""
        return 1 if self.reuses_returns else self.meta_steps

    def _validate_estimator(self) -> None:
        if self.estimator not in ("per_anchor", "exact") and not self.mixture_samples:
            raise ValueError(f"estimator={self.estimator!r} weights joint samples: got mixture_samples=0, set some")
        if self.meta_rule == "rm_plus" and not self.reuses_returns:
            raise ValueError(
                f"meta_rule='rm_plus' solves an estimate that reuses returns: got estimator={self.estimator!r}, set "
                "'pairs' or 'trajectories', or meta_rule='omwu'"
            )
        if self.control_variate != "none" and self.estimator != "pairs":
            raise ValueError(
                f"control_variate={self.control_variate!r} corrects the returns of estimator='pairs': got "
                f"estimator={self.estimator!r}"
            )
        if self.replay_steps and self.estimator != "trajectories":
            raise ValueError(
                f"replay_steps learn from the episodes of estimator='trajectories': got estimator={self.estimator!r}"
            )
        explored = self.estimator == "trajectories" and self.policy == "tabular"
        if isinstance(self.exploration, float) and self.exploration and not explored:
            raise ValueError(
                "exploration is a fraction of the decisions of tables that estimator='trajectories' stores: got "
                f"estimator={self.estimator!r}, policy={self.policy!r}; set exploration=0"
            )
        if self.estimator == "trajectories" and self.joint_episodes > self.buffer_episodes:
            raise ValueError(
                f"buffer_episodes must hold the {self.joint_episodes} episodes of an iteration (mixture_samples * "
                f"episodes): got {self.buffer_episodes}"
            )

    def _validate_sizes(self) -> None:
        pool = self.mutations + self.randoms or math.inf  # an empty pool adds no anchors
        for value, limit, message in (
            (self.initial_anchors, self.capacity, "initial_anchors must fit the capacity: got {} anchors for {} slots"),
            (self.anchors_per_call, pool, "anchors_per_call must be at most the pool's {1} candidates: got {0}"),
            (self.anchors_per_call, self.capacity, "anchors_per_call must fit the capacity: got {} for {} slots"),
            (self.oracle_rounds, self.oracle_opponents, "oracle_rounds must be at most oracle_opponents={1}: got {0}"),
        ):
            if value > limit:
                raise ValueError(message.format(value, limit))
