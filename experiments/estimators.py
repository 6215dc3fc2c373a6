"""The estimators of the meta-game at equal episodes: each anchor for itself, or all weighed from joint play."""

from gems_jax.run.studies.estimators import estimator_study
from gems_jax.run.study import Study

EXPERIMENT = Study(
    name="estimators",
    title="Estimators of the meta-game at equal episodes",
    measure=estimator_study,
    convention="E max_i |v-hat_i - v_i|, the Monte-Carlo term of the bound; payoffs in [0, 1]",
)
