import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax.meta.schedules import step_size


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [("const", [0.08, 0.08, 0.08]), ("sqrt", [0.08, 0.04, 0.02]), ("harmonic", [0.08 / 1.5, 0.08 / 3.0, 0.08 / 9.0])],
)
def test_known_answers_with_the_papers_defaults(schedule, expected):
    got = [step_size(schedule, 0.08, 0.5, t) for t in (1, 4, 16)]
    np.testing.assert_allclose(got, expected, rtol=1e-6)
    slowed = [step_size(schedule, 0.08, 0.5, t, slowdown=4.0) for t in (1, 4, 16)]
    np.testing.assert_allclose(slowed, np.array(expected) / 4.0, rtol=1e-6)


def test_zero_eta_is_legal_and_only_the_harmonic_schedule_reads_alpha():
    assert step_size("harmonic", 0.0, 0.5, 3) == 0.0
    assert step_size("sqrt", 0.1, 0.5, 3) == step_size("sqrt", 0.1, 99.0, 3)
    assert step_size("harmonic", 0.1, 0.5, 3) != step_size("harmonic", 0.1, 99.0, 3)


def test_real_knobs_are_traced_once():
    @jax.jit
    @chex.assert_max_traces(n=1)
    def compiled(eta, alpha, t, slowdown):
        return step_size("harmonic", eta, alpha, t, slowdown)

    for t in (1, 2, 7):
        np.testing.assert_allclose(compiled(0.1 * t, 0.5, t, 2.0), 0.05 * t / (1 + 0.5 * t), rtol=1e-6)
    over_eta = jax.vmap(lambda eta: step_size("sqrt", eta, 0.5, 4))(jnp.array([0.1, 0.2]))
    np.testing.assert_allclose(over_eta, [0.05, 0.1], rtol=1e-6)


def test_unknown_schedule_names_the_known_ones():
    with pytest.raises(ValueError, match="expected one of const, sqrt, harmonic, got 'linear'"):
        step_size("linear", 0.1, 0.5, 1)
