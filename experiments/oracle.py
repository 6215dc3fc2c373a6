"""The oracle's indices on Shifting Meta (appendix S of the paper) and on a control with rewards in [0, 1]."""

from gems_jax.run.studies.oracle import oracle_study
from gems_jax.run.study import Study

EXPERIMENT = Study(
    name="oracle",
    title="Which index picks new anchors: Shifting Meta",
    measure=oracle_study,
    convention="regret in means, so that the noise of the rewards does not count",
    notes=(
        "The paper gives the story (3 arms, a shift at round 1000, the new best arm noisier) and no numbers. The means "
        "were chosen to tell that story, so agreement with it is by construction and no evidence for its conclusion.",
        "Against the arm that is best now a regret never falls; the paper's falling curves need the first phase's best "
        "arm as a benchmark.",
        "EB-UCB buys its quick switch by far the largest regret of the first phase, and Greedy is best there.",
        "The control has the same story in [0, 1], which the indices assume: there UCB1 adapts as quickly as EB-UCB at "
        "half of its first-phase regret.",
    ),
)
