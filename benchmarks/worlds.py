"""Steps per second of boards, particle worlds and Hanabi: the original, ours, and ours with policies in the loop.

    python -m benchmarks.worlds [--games simple_tag simple_spread hanabi connect_four go_9x9 chess] [--blocks 7]
                                [--bare]

The originals (JaxMARL; pgx with its auto-reset) and ours play random legal moves. With policies, 8 generated ones play
each against 8 others: whole episodes, as `gems_step` measures, and games that go on, as it trains where `abr_segment`
is set. Useful steps are counted, not those of finished games. Blocks are interleaved; printed are medians, the share
of the original's rate and the compile times. The returns of random play by both are compared as well. --bare leaves the
policies out. Pin it to one core for rates per core (taskset -c 0).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.timing import Figure, interleaved, median, ratio, record
from gems_jax import make_game
from gems_jax.config import GemsConfig
from gems_jax.gems.state import init_gems, population_of
from gems_jax.policies.population import StackedPolicies, materialize
from gems_jax.rollout.episode import Policies, play_episode, unroll_segment
from gems_jax.rollout.groups import play_groups
from gems_jax.rollout.views import make_view, take_population
from gems_jax.types import Array, Game, GameState, Trajectory, num_players

GROUPS = 8
Program = Callable[[Array], tuple[Array, Array]]


class World(NamedTuple):
    """A game, its original, and how much of it is played in a block."""

    original: Callable[[str], Program]
    id: str  # of the original
    batch: int
    length: int  # of random play by the original and by ours, in steps
    policies: dict[str, dict[str, Any]]  # settings by name
    segment: int = 0  # steps of games that go on; 0: whole episodes are all that training plays


def of_jaxmarl(name: str) -> Program:
    """Random play by JaxMARL's step_env and legal moves: useful steps, and a sum for which every observation counts."""
    import jaxmarl

    env = jaxmarl.make(WORLDS[name].id)
    batch, hanabi = WORLDS[name].batch, name == "hanabi"

    def play(key: Array) -> tuple[Array, Array]:
        key_start, key = jax.random.split(key)
        _, state = jax.vmap(env.reset)(jax.random.split(key_start, batch))

        def advance(carry: tuple, _: None) -> tuple[tuple, None]:
            state, key, steps, used = carry
            key, key_act, key_step = jax.random.split(key, 3)
            noise = jax.random.uniform(key_act, (batch, len(env.agents), int(env.action_space(env.agents[0]).n)))
            if hanabi:
                legal = jax.vmap(env.get_legal_moves)(state)
                noise = jnp.where(jnp.stack([legal[agent] for agent in env.agents], axis=1) > 0, noise, -1.0)
            chosen = jnp.argmax(noise, axis=-1)
            actions = {agent: chosen[:, seat] for seat, agent in enumerate(env.agents)}
            seen, after, _, _, _ = jax.vmap(env.step_env)(jax.random.split(key_step, batch), state, actions)
            over = state.done
            steps = steps + jnp.sum(~over)
            used = used + sum(jnp.sum(rows) for rows in seen.values())
            return (after.replace(done=after.done | over), key, steps, used), None

        carry = (state, key, jnp.int32(0), jnp.float32(0.0))
        (_, _, steps, used), _ = jax.lax.scan(advance, carry, None, length=WORLDS[name].length)
        return steps, used

    return play


def of_pgx(name: str) -> Program:
    """Random play by pgx, with a new game wherever one has ended."""
    import pgx
    from pgx.experimental import auto_reset

    env = pgx.make(WORLDS[name].id)  # type: ignore[arg-type]
    step, batch = auto_reset(env.step, env.init), WORLDS[name].batch

    def play(key: Array) -> tuple[Array, Array]:
        key_start, key = jax.random.split(key)
        state = jax.vmap(env.init)(jax.random.split(key_start, batch))

        def advance(carry: tuple, _: None) -> tuple[tuple, None]:
            state, key, used = carry
            key, key_act, key_step = jax.random.split(key, 3)
            legal = state.legal_action_mask
            chosen = jnp.argmax(jnp.where(legal, jax.random.uniform(key_act, legal.shape), -1.0), axis=-1)
            after = jax.vmap(step)(state, chosen, jax.random.split(key_step, batch))
            return (after, key, used + jnp.sum(after.observation, dtype=jnp.float32)), None

        (_, _, used), _ = jax.lax.scan(advance, (state, key, jnp.float32(0.0)), None, length=WORLDS[name].length)
        return jnp.int32(batch * WORLDS[name].length), used

    return play


def of_ours(name: str) -> Program:
    """Measures this package's game in the same way."""
    game, batch = make_game(name), WORLDS[name].batch

    def play(key: Array) -> tuple[Array, Array]:
        key_start, key = jax.random.split(key)
        state = jax.vmap(game.init)(jax.random.split(key_start, batch))

        def advance(carry: tuple, _: None) -> tuple[tuple, None]:
            state, key, steps, used = carry
            key, key_act = jax.random.split(key)
            chosen = jnp.argmax(jnp.where(state.legal, jax.random.uniform(key_act, state.legal.shape), -1.0), axis=-1)
            after = jax.vmap(game.step, in_axes=(0, 0, None))(state, chosen, key)
            return (after, key, steps + jnp.sum(~state.done), used + jnp.sum(after.observation)), None

        carry = (state, key, jnp.int32(0), jnp.float32(0.0))
        (_, _, steps, used), _ = jax.lax.scan(advance, carry, None, length=WORLDS[name].length)
        return steps, used

    return play


class Match(NamedTuple):
    """Generated policies, near-uniform as at the start of a run, against each other."""

    game: Game
    stacked: StackedPolicies
    indices: Array  # [G, G, players]
    episodes: int


def match(name: str, settings: dict[str, Any]) -> Match:
    game: Game = make_game(name)
    config = GemsConfig(generator_scale=0.01, capacity=GROUPS, initial_anchors=GROUPS, **settings)
    start = jax.jit(lambda key: init_gems(key, game, config))(jax.random.key(0))
    stacked = materialize(population_of(start, game, config), GROUPS)
    indices = jnp.broadcast_to(jnp.arange(GROUPS)[None, :, None], (GROUPS, GROUPS, num_players(game)))
    return Match(make_view(game, 0), stacked, indices, max(WORLDS[name].batch // GROUPS**2, 1))


def whole_episodes(name: str, settings: dict[str, Any]) -> Program:
    """As payoffs are measured."""
    game, stacked, indices, episodes = match(name, settings)

    def play(key: Array) -> tuple[Array, Array]:
        own = take_population(stacked, 0)
        outcome = play_groups(play_episode, key, game, own, stacked, indices, episodes)
        return jnp.sum(outcome.length), jnp.sum(outcome.returns)

    return play


def going_on(name: str, settings: dict[str, Any]) -> Program:
    """As training plays in rounds of `segment` steps: observations, actions and rewards are kept."""
    game, stacked, indices, episodes = match(name, settings)
    steps = WORLDS[name].segment

    def on(key: Array, game: Game, players: Policies, state: GameState) -> tuple[GameState, Trajectory]:
        return unroll_segment(key, game, players, state, steps, (0,))

    def play(key: Array) -> tuple[Array, Array]:
        key_deal, key_play = jax.random.split(key)
        own = take_population(stacked, 0)
        keys = jax.random.split(key_deal, (GROUPS, GROUPS, episodes))
        lanes = jax.vmap(jax.vmap(jax.vmap(game.init)))(keys)
        _, rows = play_groups(on, key_play, game, own, stacked, indices, episodes, lanes=(lanes,))
        return jnp.int32(keys.size * steps), jnp.sum(rows.observation, dtype=jnp.float32)

    return play


RETURNS = 2000  # episodes of random play of each side, whose returns are compared


def random_returns(game: Game, key: Array, episodes: int) -> tuple[Array, Array]:
    """Plays random legal moves to the end of every episode.

    Args:
      game: a game of discrete actions.
      key: consumed.
      episodes: number of episodes.

    Returns:
      The return of the first seat and the length of every episode, [episodes] each.
    """
    key_start, key = jax.random.split(key)
    state = jax.vmap(game.init)(jax.random.split(key_start, episodes))

    def advance(carry: tuple, _: None) -> tuple[tuple, None]:
        state, key, total, length = carry
        key, key_act, key_step = jax.random.split(key, 3)
        chosen = jnp.argmax(jnp.where(state.legal, jax.random.uniform(key_act, state.legal.shape), -1.0), axis=-1)
        after = jax.vmap(game.step)(state, chosen, jax.random.split(key_step, episodes))
        return (after, key, total + after.reward[:, 0], length + ~state.done), None

    carry = (state, key, jnp.zeros(episodes), jnp.zeros(episodes))
    (_, _, total, length), _ = jax.lax.scan(advance, carry, None, length=game.max_steps)
    return total, length


def compare_returns(name: str, episodes: int = RETURNS) -> list[Figure]:
    """Measures random play of a game and of its original: mean return of the first seat and mean length.

    Args:
      name: a game of `WORLDS`.
      episodes: number of episodes of each.

    Returns:
      Four figures with 95 % intervals over episodes.
    """
    figures = []
    for label, game in (("the original", make_game(original_name(name))), ("ours", make_game(name))):
        play = jax.jit(random_returns, static_argnums=(0, 2))
        for what, values in zip(("return", "length"), play(game, jax.random.key(1), episodes), strict=True):
            mean, half = float(values.mean()), 1.96 * float(values.std()) / episodes**0.5
            figures.append(Figure(f"{name}: random {what}, {label}", mean, "", mean - half, mean + half, episodes))
    return figures


def original_name(name: str) -> str:
    """Returns the name in `make_game` of the original of a game of `WORLDS`."""
    world = WORLDS[name]
    return f"{'jaxmarl' if world.original is of_jaxmarl else 'pgx'}:{world.id}"


MPE = {"mlp": {"policy": "mlp", "policy_hidden": (64, 64)}, "film": {"policy": "film", "policy_hidden": (64, 64)}}
HANABI = {
    "mlp": {"policy": "mlp", "policy_hidden": (128, 128)},
    "film": {"policy": "film", "policy_hidden": (128, 128)},
}
FILM, BOARD = {"film": MPE["film"]}, {"board": {"policy": "board", "policy_channels": 16}}
WORLDS = {
    "simple_tag": World(of_jaxmarl, "MPE_simple_tag_v3", 4096, 25, MPE),
    "simple_spread": World(of_jaxmarl, "MPE_simple_spread_v3", 4096, 25, MPE),
    "hanabi": World(of_jaxmarl, "hanabi", 1024, 20, HANABI, segment=64),
    "connect_four": World(of_pgx, "connect_four", 4096, 42, FILM, segment=42),
    "go_9x9": World(of_pgx, "go_9x9", 256, 128, FILM, segment=64),
    "chess": World(of_pgx, "chess", 64, 128, BOARD, segment=64),
}


def measure(programs: dict[str, Program], blocks: int) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """Seconds per useful step [blocks] of every program, and its seconds of tracing and compiling."""
    compiled: dict[str, Callable[[], Array]] = {}
    steps: dict[str, list[int]] = {name: [] for name in programs}
    compiling = {}
    for name, program in programs.items():
        begin = time.perf_counter()
        ready = jax.jit(program).lower(jax.random.key(0)).compile()
        compiling[name] = time.perf_counter() - begin

        def play(name: str = name, ready: Callable = ready) -> Array:
            taken, used = ready(jax.random.key(len(steps[name])))
            steps[name].append(int(taken))
            return used

        compiled[name] = play
        play()
    seconds = interleaved(compiled, blocks)
    return {name: seconds[name] / np.asarray(steps[name][1:]) for name in programs}, compiling


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--games", nargs="+", default=list(WORLDS), choices=list(WORLDS))
    parser.add_argument("--blocks", type=int, default=7)
    parser.add_argument("--bare", action="store_true", help="random play alone")
    arguments: Any = parser.parse_args()
    for name in arguments.games:
        world = WORLDS[name]
        functions = {"the original": world.original(name), "ours": of_ours(name)}
        for policy, settings in ({} if arguments.bare else world.policies).items():
            functions[f"whole episodes, {policy}"] = whole_episodes(name, settings)
            if world.segment:
                functions[f"games that go on, {policy}"] = going_on(name, settings)
        per_step, compiling = measure(functions, arguments.blocks)
        figures = []
        for label, seconds in per_step.items():
            figures.append(median(f"{name}: {label}", 1e-3 / seconds, "k steps/s"))
            figures.append(ratio(f"{name}: {label}, share of the original", per_step["the original"], seconds, ""))
            figures.append(Figure(f"{name}: {label}, compiling", compiling[label], "s"))
        record(f"worlds, {name}", [*figures, *compare_returns(name)])


if __name__ == "__main__":
    main()
