"""Records of games and policies in JAX, for the tests of the pages' JavaScript."""

import base64
import json
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax import make_game
from gems_jax.evaluate.loaded_policy import LoadedPolicy
from gems_jax.policies.population import StackedPolicies
from gems_jax.types import Array, Game, Profile, Shared, num_populations
from gems_jax.web.page import read_assets
from gems_jax.web.play_page import INFERENCE, RULES, describe_rules, make_record
from gems_jax.web.policies import read_policy

CHECK = Path(__file__).parents[1] / "web" / "check.js"
NODE = shutil.which("node")
# A game of Go whose last move repeats a position.
REPETITION = (
    33, 75, 2, 52, 80, 26, 62, 44, 14, 34, 3, 16, 19, 10, 7, 1, 8, 45, 78, 12, 20, 61, 30, 71, 49, 48, 70, 56, 36, 17,
    77, 21, 47, 9, 57, 69, 73, 6, 15, 46, 59, 42, 5, 13, 24, 41, 40, 23, 8, 63, 25, 72, 4, 53, 74, 38, 29, 55, 31, 76,
    18, 39, 37, 43, 7, 6, 8,
)  # fmt: skip
CLOSE = 1e-5  # largest difference of probabilities


class Playouts(NamedTuple):
    """Random games: [games, moves] and further axes, of the seat to move; `lengths` [games] counts the moves."""

    actions: np.ndarray
    movers: np.ndarray
    legal: np.ndarray
    observation: np.ndarray
    rewards: np.ndarray
    lengths: np.ndarray
    cards: np.ndarray | None


def play_randomly(game: Game, count: int, first: tuple[int, ...] = ()) -> Playouts:
    """Plays games with uniformly random legal actions, in one compiled call; `first` begins the first game."""
    given = np.full((count, game.max_steps), -1)
    given[0, : len(first)] = first

    def one(key: Array, given: Array) -> Any:
        def move(state: Any, asked: tuple[Array, Array]) -> Any:
            key, wanted = asked
            seat = jnp.argmax(state.to_move)
            legal = state.legal[seat]
            drawn = jax.random.categorical(key, jnp.where(legal, 0.0, -jnp.inf))
            action = jnp.where(wanted >= 0, wanted, drawn)
            after = game.step(state, jnp.full(2, action), key)
            kept = jax.tree.map(lambda new, old: jnp.where(state.done, old, new), after, state)
            seen = state.observation[seat].astype(jnp.uint8).ravel()
            return kept, (action, seat, legal, seen, jnp.where(state.done, 0.0, after.reward), ~state.done)

        key_start, key_play = jax.random.split(key)
        start = game.init(key_start)
        _, rows = jax.lax.scan(move, start, (jax.random.split(key_play, game.max_steps), given))
        return rows, getattr(start.inner.state, "_cards", jnp.zeros(0))

    rows, cards = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(0), count), jnp.asarray(given))
    *moves, alive = (np.asarray(row) for row in rows)
    return Playouts(*moves, alive.sum(axis=1), np.asarray(cards) if cards.size else None)


def pack(values: Any) -> str:
    """Packs zeros and ones as `check.js` reads them."""
    return base64.b64encode(np.packbits(np.asarray(values, bool).ravel()).tobytes()).decode()


def rules_record(game: Game, playouts: Playouts) -> dict[str, Any]:
    """Makes the record of the playouts that `gems.check` replays."""
    games = []
    for index, length in enumerate(playouts.lengths):
        game_over = slice(0, int(length))
        games.append(
            {
                "cards": None if playouts.cards is None else playouts.cards[index].tolist(),
                "actions": playouts.actions[index, game_over].tolist(),
                "movers": playouts.movers[index, game_over].tolist(),
                "legal": pack(playouts.legal[index, game_over]),
                "observation": pack(playouts.observation[index, game_over]),
                "returns": playouts.rewards[index].sum(axis=0).tolist(),
            }
        )
    inputs, actions = playouts.observation.shape[-1], playouts.legal.shape[-1]
    return {"game": describe_rules(game), "games": games, "inputs": inputs, "actions": actions}


def inference_record(policy: LoadedPolicy, playouts: Playouts, count: int) -> dict[str, Any]:
    """Makes a record of the probabilities of drawn anchors at `count` positions of the playouts."""
    data, rng = read_policy(policy), np.random.default_rng(0)
    places = [(index, move) for index, length in enumerate(playouts.lengths) for move in range(length)]
    chosen = [places[place] for place in rng.permutation(len(places))[:count]]
    seats = [int(playouts.movers[place]) for place in chosen]
    owner = [policy.game.population_of_player[policy.game.player_of_seat[seat]] for seat in seats]
    anchors = [int(rng.integers(len(data.populations[each].slots))) for each in owner]
    slots = [data.populations[each].slots[anchor] for each, anchor in zip(owner, anchors, strict=True)]
    seen, legal = (np.stack([array[place] for place in chosen]) for array in (playouts.observation, playouts.legal))
    shaped = seen.reshape(-1, *policy.game.observation_shape).astype(np.float32)
    probabilities = _play(
        policy.profile, jnp.asarray(owner), jnp.asarray(slots), jnp.asarray(shaped), jnp.asarray(legal)
    )
    return {
        "policy": make_record(policy, data, "policy"),
        "inputs": seen.shape[1],
        "actions": legal.shape[1],
        "positions": {"seats": seats, "anchors": anchors, "observation": pack(seen), "legal": pack(legal)},
        "probabilities": np.asarray(probabilities, np.float64).tolist(),
    }


@jax.jit
def _play(profile: Profile, owner: Array, slot: Array, observation: Array, legal: Array) -> Array:
    """Probabilities [n, A] of slots [n] of populations [n]."""

    def one(owner: Array, slot: Array, observation: Array, legal: Array) -> Array:
        population = jax.tree.map(lambda leaf: leaf[owner], profile.population)
        return jax.nn.softmax(population.apply(population.select(slot), observation, legal).logits)

    return jax.lax.map(lambda row: one(*row), (owner, slot, observation, legal), batch_size=64)


def mixed_record(policy: LoadedPolicy, playouts: Playouts, count: int) -> list[dict[str, Any]]:
    """Makes a record of the behavior policy of the mixture along games of poker."""
    assert playouts.cards is not None
    read = jax.jit(lambda seen, legal: policy.probabilities(seen, legal))
    records = []
    for index in range(count):
        moves = range(int(playouts.lengths[index]))
        rows = [
            read(playouts.observation[index, move].astype(np.float32), playouts.legal[index, move]) for move in moves
        ]
        records.append(
            {
                "game": describe_rules(policy.game),
                "cards": playouts.cards[index].tolist(),
                "actions": playouts.actions[index, : len(rows)].tolist(),
                "probabilities": [np.asarray(row, np.float64).tolist() for row in rows],
            }
        )
    return records


def check_script() -> str:
    """Joins the rules, the inference and the comparison: `gems.check(records)`."""
    return read_assets([*RULES, *INFERENCE]) + CHECK.read_text()


def run_in_node(records: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Runs `gems.check` in Node and returns its counts."""
    assert NODE is not None
    (folder / "records.json").write_text(json.dumps(records))
    read = "JSON.parse(require('fs').readFileSync(process.argv[2]))"
    (folder / "check.js").write_text(f"{check_script()}\nconsole.log(JSON.stringify(gems.check({read})));")
    line = [NODE, str(folder / "check.js"), str(folder / "records.json")]
    done = subprocess.run(line, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@lru_cache(maxsize=8)
def cached_playouts(name: str, count: int) -> Playouts:
    """Plays random games of a registered game, once per process."""
    return play_randomly(make_game(name), count, REPETITION if name == "go_9x9" else ())


def random_policy(game: Game, network: Any, slots: int = 3) -> LoadedPolicy:
    """Makes an untrained mixture of a network whose probabilities are far from uniform."""
    rng, populations = np.random.default_rng(0), num_populations(game)

    def draw(shape: jax.ShapeDtypeStruct, lead: tuple[int, ...]) -> Array:
        scale = 1.0 / np.sqrt(max(shape.shape[0] if len(shape.shape) > 1 else 1, 1))
        return jnp.asarray(rng.normal(size=(*lead, *shape.shape)) * scale, jnp.float32)

    def fill(node: Any) -> Any:
        lead = (populations,) if isinstance(node, Shared) else (populations, slots)
        return jax.tree.map(lambda shape: draw(shape, lead), node)

    shapes = jax.eval_shape(network.init, jax.random.key(0))
    params = jax.tree.map(fill, shapes, is_leaf=lambda node: isinstance(node, Shared))
    sigma = jnp.tile(jnp.asarray([0.5, 0.3, 0.2][:slots]), (populations, 1))
    profile = Profile(StackedPolicies(params, network), sigma)
    return LoadedPolicy(game, None, profile, "gems", 0, 1, "untrained", (0,) * populations)
