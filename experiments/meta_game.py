"""The meta-strategy alone, on random zero-sum games: OMWU and MWU, three schedules, episodes behind a value."""

from gems_jax.run.studies.meta_game import meta_game_study
from gems_jax.run.study import Study

EXPERIMENT = Study(
    name="meta_game",
    title="Rules, schedules and rollouts of the meta-strategy on random games",
    measure=meta_game_study,
    convention="duality gap, the sum over both players of what the best action earns beyond the mixture",
)
