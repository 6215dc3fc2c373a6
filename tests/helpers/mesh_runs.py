"""Play and runs on a mesh, for processes of their own whose devices are forced or that are several.

    python mesh_runs.py episodes FILE              some episodes of Kuhn poker, on all devices and on one
    python mesh_runs.py run GAME MESH SEEDS FILE   two iterations of GEMS; MESH is 0 or 1
    python mesh_runs.py lower GAME FILE            the step on a mesh of all devices, lowered for CUDA and TPU

All write what they found as an .npz.
"""

import os
import re
import sys

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from gems_jax.runner import distributed

if "JAX_NUM_PROCESSES" in os.environ:
    distributed.join_cluster()  # before the first import that computes anything

from gems_jax.accelerator.sharding import play_mesh
from gems_jax.config import GemsConfig
from gems_jax.estimation.monte_carlo import Sampling, policy_returns
from gems_jax.games import make_game
from gems_jax.gems.step import gems_step, init_gems, population_of
from gems_jax.policies.population import StackedPolicies, materialize
from gems_jax.rollout.views import make_view
from gems_jax.runner.driver import run
from gems_jax.runner.measuring import make_monitor
from gems_jax.runner.options import RunOptions
from gems_jax.solvers import make_solver

SIZES = {
    "capacity": 4, "initial_anchors": 2, "num_opponents": 4, "episodes": 2, "mixture_samples": 8, "mutations": 4,
    "randoms": 4, "oracle_opponents": 4, "oracle_episodes": 1, "abr_steps": 2, "abr_anchors": 4, "abr_opponents": 2,
    "abr_episodes": 1, "kl_opponents": 2, "critic_hidden": (8,), "generator_widths": (8,), "iterations": 2,
}  # fmt: skip
GAMES = {
    "kuhn_poker": ({}, {}),
    "connect_four": ({}, {"policy": "mlp", "policy_hidden": (8,), "abr_segment": 4, "kl_states": 8}),
    "simple_tag": ({"max_steps": 5}, {"policy": "mlp", "policy_hidden": (8,)}),
}


def episodes() -> dict[str, np.ndarray]:
    """4 policies x 16 opponents x 32 episodes: their returns, in how many parts they were, operations per device."""
    game, config = make_game("kuhn_poker"), GemsConfig(**{**SIZES, "initial_anchors": 4})

    def play(key: jax.Array) -> jax.Array:
        key_init, key_play = jax.random.split(key)
        state = init_gems(key_init, game, config)
        policies = materialize(population_of(state, game, config), config.capacity)
        own = jax.tree.map(lambda leaf: leaf[0], policies.params)
        mine = StackedPolicies(own, policies.apply)
        return policy_returns(key_play, (make_view(game, 0),), mine, policies, state.log_sigma, Sampling(16, 32))[0]

    def on(mesh: Mesh, label: str) -> dict[str, np.ndarray]:
        with jax.set_mesh(mesh):
            program = jax.jit(play).lower(jax.random.key(0)).compile()
        returns = program(jax.random.key(0))
        parts = returns.size // int(np.prod(returns.sharding.shard_shape(returns.shape)))
        found = {"returns": np.asarray(returns), "parts": parts, "flops": program.cost_analysis()["flops"]}
        return {f"{label}_{name}": value for name, value in found.items()}

    return on(play_mesh(), "all") | on(play_mesh(jax.devices()[:1]), "one")


def two_iterations(name: str, mesh: bool, seeds: int) -> dict[str, np.ndarray]:
    options, changes = GAMES[name]
    game = make_game(name, **options)
    solver = make_solver("gems", game, GemsConfig(**{**SIZES, **changes}))
    driven = RunOptions(chunk=2, evaluation_episodes=16, evaluation_every=1, mesh=mesh)
    monitor = make_monitor(game, solver, driven)
    done = run(solver, iterations=2, seeds=range(seeds), options=driven, monitor=monitor._replace(headlines=()))
    leaves = {f"state{n}": np.asarray(leaf) for n, leaf in enumerate(jax.tree.leaves(done.state))}
    rows = {name: values for name, values in done.rows.items() if name not in ("seconds", "memory_mb")}
    return leaves | rows | {"devices": jnp.asarray(jax.device_count())}


def lowered(name: str) -> dict[str, np.ndarray]:
    """The number of devices that a step is lowered for, its sharded arrays and its custom calls."""
    options, changes = GAMES[name]
    game, config = make_game(name, **options), GemsConfig(**{**SIZES, **changes})
    state = jax.eval_shape(lambda key: init_gems(key, game, config), jax.random.key(0))
    leaves, tree = jax.tree.flatten((state, jax.ShapeDtypeStruct((2,), jnp.uint32)))

    def step(*given: jax.Array) -> list[jax.Array]:
        state, words = jax.tree.unflatten(tree, given)
        return jax.tree.leaves(gems_step(state, jax.random.wrap_key_data(words), game, config))

    with jax.set_mesh(play_mesh()):
        exported = jax.export.export(jax.jit(step), platforms=["cuda", "tpu"])(*leaves)
    text = exported.mlir_module()
    calls = sorted(set(re.findall(r"custom_call @([\w.]+)", text)))
    shardings = len(re.findall("sharding_constraint|@Sharding", text))
    return {"devices": exported.nr_devices, "shardings": shardings, "custom_calls": np.asarray(calls, str)}


if __name__ == "__main__":
    what, *words = sys.argv[1:]
    found = {
        "episodes": episodes,
        "run": lambda name, mesh, seeds, _: two_iterations(name, mesh == "1", int(seeds)),
        "lower": lambda name, _: lowered(name),
    }[what](*words if what != "episodes" else ())
    np.savez(words[-1], **found)
