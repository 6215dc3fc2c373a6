"""Does regret stay under the bound of the paper's section 3.8? 50 random matrix games of each of three kinds."""

from gems_jax.run.studies.regret import regret_study
from gems_jax.run.study import Study

EXPERIMENT = Study(
    name="regret",
    title="Regret of the meta-strategy beside its bound",
    measure=regret_study,
    convention="payoffs in [0, 1]; regret per step",
    notes=(
        "The bound (eq:omwu-var-bound) is true for external regret, with the maximum outside of the sum, at a constant "
        "step. As printed, with the maximum inside, it fails in most games.",
        "It needs v-hat_0 = 0 as printed: where the first step has no hint, external regret exceeds it, by up to a "
        "third at large steps.",
        "The other schedules break it even for external regret at large steps: a multiplicative update whose step "
        "shrinks never forgives what was learned with the large steps.",
    ),
)
