"""The public names: examples in docstrings run, annotated shapes hold, and wrong arguments are explained."""

import doctest
import functools
import inspect
import typing
from collections.abc import Callable

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
import typeguard

import gems_jax
from gems_jax import GemsConfig, Policy, PolicyOutput, Profile, gems_step, init_gems, make_game, make_solver
from gems_jax.extensive.values import check_profile
from gems_jax.gems.checks import check_gems_state, check_key
from gems_jax.gems.state import gems_networks

RPS = make_game("rock_paper_scissors")
SMALL = GemsConfig(
    capacity=3, latent_dim=2, generator_widths=(4,), critic_hidden=(4,), abr_steps=0, mixture_samples=0,
    mutations=0, randoms=2, num_opponents=2, oracle_opponents=2, jacobian="none",
)  # fmt: skip
WITH_EXAMPLES = {
    "GemsConfig", "LoadedPolicy", "eb_ucb", "exploitability", "gems_step", "head_to_head", "init_gems", "load",
    "make_game", "make_solver", "matrix_game", "nash_conv", "omwu_update", "play_episode", "preset", "train",
}  # fmt: skip


@pytest.fixture(scope="module")
def state():
    return jax.jit(init_gems, static_argnums=(1, 2))(jax.random.key(0), RPS, SMALL)


@pytest.mark.parametrize("name", sorted(WITH_EXAMPLES))
def test_the_example_of_a_docstring(name: str) -> None:
    finder = doctest.DocTestFinder(recurse=False)
    (test,) = finder.find(getattr(gems_jax, name), name, globs={})
    assert test.examples
    assert doctest.DocTestRunner().run(test).failed == 0


# --- annotated shapes


# fields of named tuples are annotated by strings, which typeguard does not resolve
_check_type = functools.partial(typeguard.check_type, forward_ref_policy=typeguard.ForwardRefPolicy.IGNORE)


def check_types(function: Callable) -> Callable:
    """Checks arguments and result of a function against its annotations, with one binding of axes per call."""
    hints, signature = typing.get_type_hints(function), inspect.signature(function)

    @jaxtyping.jaxtyped(typechecker=None)
    @functools.wraps(function)
    def call(*arguments, **keywords):
        for name, value in signature.bind(*arguments, **keywords).arguments.items():
            _check_type(value, hints.get(name, typing.Any))
        result = function(*arguments, **keywords)
        _check_type(result, hints["return"])
        return result

    return call


def _omwu(slots: int = 3, active: int = 3, step_size: float = 0.1):
    values = jnp.zeros(slots)
    return check_types(gems_jax.omwu_update)(values, values, values, 0.0, step_size, jnp.ones(active, bool))


def _eb_ucb(mean, variance, pulls, **keywords):
    return check_types(gems_jax.eb_ucb)(mean, variance, pulls, 0.5, **keywords)


def _play(key):
    return jax.eval_shape(_play_checked, key)


def _play_checked(key):
    policy = Policy(jnp.zeros(3), lambda params, observation, legal: PolicyOutput(logits=params))
    return check_types(gems_jax.play_episode)(key, RPS, (policy, policy))


def _init(key, **keywords):
    return jax.eval_shape(lambda key: check_types(init_gems)(key, RPS, SMALL, **keywords), key)


def _profile():
    """The types of GEMS from start to profile, traced."""
    step, profile = check_types(gems_step), check_types(gems_jax.gems_profile)
    return jax.eval_shape(
        lambda key: profile(step(init_gems(key, RPS, SMALL), jax.random.key(1), RPS, SMALL)[0], RPS, SMALL),
        jax.random.key(0),
    )


def _uniform(game=RPS) -> Profile:
    solver = make_solver("random", game)
    return solver.profile(solver.init(jax.random.key(0)))


KEYS = {
    "typed": lambda: jax.random.key(0),
    "raw": lambda: jax.random.PRNGKey(0),
    "two": lambda: jax.random.split(jax.random.key(0)),
}


@pytest.mark.parametrize(
    "call",
    [
        lambda: _omwu(),
        lambda: jax.jit(_omwu)(),
        lambda: _eb_ucb(jnp.zeros(4), jnp.ones(4), jnp.ones(4, jnp.int32), jacobian=jnp.ones(4)),
        lambda: _eb_ucb(np.zeros((2, 4)), np.ones((2, 4)), np.ones((2, 4), np.int32)),
        lambda: _eb_ucb(0.5, 0.1, 3),
        lambda: _play(KEYS["typed"]()),
        lambda: jax.eval_shape(jax.vmap(_play_checked), KEYS["two"]()),
        lambda: _init(KEYS["typed"](), anchors=jnp.zeros((2, 1, 2)), sigma=jnp.ones((2, 1))),
        lambda: check_types(gems_jax.exploitability)(RPS, _uniform()),
        lambda: check_types(gems_jax.nash_conv)(RPS, _uniform()),
        lambda: _profile(),
        lambda: check_types(gems_jax.matrix_game)([[1.0, 0.0], [0.0, 1.0]]),
        lambda: check_types(gems_jax.make_solver)("gems", RPS, SMALL),
        lambda: check_types(gems_jax.preset)("kuhn_poker", "tuned"),
        lambda: check_types(RPS.step.__func__)(RPS, RPS.init(None), jnp.zeros(2, jnp.int32), KEYS["typed"]()),
    ],
)  # fmt: skip
def test_annotations_hold(call: Callable) -> None:
    call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: _omwu(slots=3, active=4),
        lambda: check_types(gems_jax.omwu_update)(*[jnp.zeros(3)] * 3, 0.0, jnp.ones(3), jnp.ones(3, bool)),
        lambda: check_types(gems_jax.omwu_update)(*[jnp.zeros(3)] * 3, 0.0, 0.1, jnp.ones(3)),
        lambda: _eb_ucb(jnp.zeros(4), jnp.ones(3), jnp.ones(4)),
        lambda: _eb_ucb(jnp.zeros(4), jnp.ones(4), jnp.ones(4), jacobian=jnp.ones(3)),
        lambda: _play(KEYS["raw"]()),
        lambda: _play(KEYS["two"]()),
        lambda: _init(KEYS["raw"]()),
        lambda: _init(KEYS["typed"](), anchors=jnp.zeros((2, 1, 2)), sigma=jnp.ones((3, 1))),
        lambda: check_types(gems_step)(None, KEYS["typed"](), RPS, SMALL),
    ],
)
def test_annotations_refuse(call: Callable) -> None:
    with pytest.raises(typeguard.TypeCheckError):
        call()


def test_array_arguments_are_annotated() -> None:
    """Every exported function that takes or returns arrays names their axes."""
    for name in ("eb_ucb", "exploitability", "gems_step", "init_gems", "nash_conv", "omwu_update", "play_episode"):
        annotations = inspect.signature(getattr(gems_jax, name)).parameters
        assert not [one for one in annotations.values() if one.annotation in ("Array", "ArrayLike")], name


# --- arguments that are wrong


@pytest.mark.parametrize(
    ("key", "got"),
    [(KEYS["raw"], r"uint32\[2\]"), (KEYS["two"], r"key<fry>\[2\]"), (lambda: 0, "int"), (lambda: None, "NoneType")],
)
def test_wrong_keys_are_explained(state, key, got) -> None:
    expected = rf"key must be one typed PRNG key of shape \(\), got {got}\. Make one with jax\.random\.key"
    with pytest.raises(ValueError, match=f"init_gems: {expected}"):
        init_gems(key(), RPS, SMALL)
    with pytest.raises(ValueError, match=f"gems_step: {expected}"):
        gems_step(state, key(), RPS, SMALL)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"capacity": 4},
            r"state.anchors must have the shape \(populations, capacity, latent_dim\) = \(2, 4, 2\), got",
        ),
        ({"latent_dim": 3}, r"state.anchors must have the shape .* = \(2, 3, 3\), got \(2, 3, 2\)"),
        ({"generator_widths": (5,)}, "state.generator must have the parameter shapes"),
        ({"critic_hidden": ()}, "state.critic must have the parameter shapes"),
        ({"adaptive": True}, "state.shares must be set with adaptive=True, got None"),
        ({"magnet": "moving"}, "state.magnet must be set with magnet='moving', got None"),
        (
            {"estimator": "pairs", "mixture_samples": 4},
            "state.replay must be set with estimator='pairs', got None. The state belongs to another game than "
            "rock_paper_scissors or to other settings; make it with init_gems",
        ),
    ],
)
def test_a_state_of_other_settings_is_explained(state, changes, message) -> None:
    with pytest.raises(ValueError, match=message):
        gems_step(state, jax.random.key(1), RPS, SMALL.replace(**changes))


def test_a_state_of_another_game_is_explained(state) -> None:
    with pytest.raises(ValueError, match=r"state.anchors must have .* = \(1, 3, 2\), got \(2, 3, 2\)"):
        gems_step(state, jax.random.key(1), make_game("rock_paper_scissors", shared=True), SMALL)
    with pytest.raises(ValueError, match="belongs to another game than matching_pennies"):
        gems_step(state, jax.random.key(1), make_game("matching_pennies"), SMALL)


def test_a_wrong_sigma_is_explained() -> None:
    profile = _uniform()
    expected = r"'rock_paper_scissors' needs a sigma of shape \(2, K\), got {}\. Pass a Profile of this game"
    for measure in (gems_jax.exploitability, gems_jax.nash_conv):
        for sigma in (jnp.ones((3, 1)), jnp.ones(2)):
            with pytest.raises(ValueError, match=expected.format(rf"\({sigma.shape[0]},.*\)")):
                measure(RPS, profile.replace(sigma=sigma))
        with pytest.raises(ValueError, match=expected.format("ndarray")):
            measure(RPS, np.ones(3))


def test_checks_trace_nothing(state) -> None:
    """They read shapes and dtypes alone."""

    def check(state, key):
        check_key(key, "gems_step")
        check_gems_state(state, RPS, SMALL, gems_networks(RPS, SMALL))

    assert not jax.make_jaxpr(check)(state, jax.random.key(1)).eqns
    profile = _uniform()
    assert not jax.make_jaxpr(lambda sigma: check_profile(RPS, profile.replace(sigma=sigma)))(profile.sigma).eqns
