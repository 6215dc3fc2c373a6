"""The estimators of the meta-game at equal episodes: each anchor for itself, or all weighed from joint play."""

from gems_jax.run.studies.estimators import estimator_study
from gems_jax.run.study import Study

EXPERIMENT = Study(
    name="estimators",
    title="Estimators of the meta-game at equal episodes",
    measure=estimator_study,
    convention="E max_i |v-hat_i - v_i|, the Monte-Carlo term of the bound; payoffs in [0, 1]",
    notes=(
        "Measured with QUICK=1, for two and three players.",
        "With two players nothing comes near stratified opponents for each anchor, which `tuned` presets use; the "
        "default stays with each anchor for itself, as in the paper's section 3.2.",
        "With three players joint play, self-normalised and with a floor of a half, is as good or better. Weighed by B "
        "as printed (eq:iw_estimator_main) it is the worst, by 13 to 30 times once a mixture has settled.",
    ),
)
