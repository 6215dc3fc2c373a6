"""The pages' rules and inference, run in Node, against the games and policies of JAX."""

import dataclasses
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from gems_jax import load, make_game
from gems_jax.evaluate.loaded_policy import LoadedPolicy
from gems_jax.policies.film import BoardPolicy, ConvPolicy, FilmPolicy
from gems_jax.policies.mlp import MlpPolicy
from gems_jax.web.play_page import NotPlayableError, describe_rules
from gems_jax.web.policies import UnsupportedPolicyError, read_policy
from web_records import (
    CLOSE,
    NODE,
    REPETITION,
    cached_playouts,
    inference_record,
    mixed_record,
    random_policy,
    rules_record,
    run_in_node,
)

needs_node = pytest.mark.skipif(NODE is None, reason="node is not installed: it runs the pages' JavaScript")


@needs_node
@pytest.mark.parametrize(
    ("name", "games", "network"),
    [
        ("tic_tac_toe", 40, ConvPolicy((3, 3, 2), 9, (8,), 4)),
        ("connect_four", 30, FilmPolicy(84, 7, (8, 8))),
        ("go_9x9", 8, BoardPolicy((9, 9, 17), 82, 4, turns=1)),
    ],
)
def test_boards(name: str, games: int, network, tmp_path: Path) -> None:
    """Legal moves, observations and results of random games are identical, and probabilities of random networks."""
    game, playouts = make_game(name), cached_playouts(name, games)
    inference = inference_record(random_policy(game, network), playouts, 30)
    found = run_in_node({"rules": [rules_record(game, playouts)], "inference": [inference]}, tmp_path)
    positions = int(playouts.lengths.sum())
    assert name != "go_9x9" or playouts.lengths[0] == len(REPETITION)  # ends by the rule of repetition
    assert found["rules"] == [{"positions": positions, "mover": 0, "legal": 0, "observation": 0, "returns": 0}]
    assert found["inference"][0]["positions"] == 30 and found["inference"][0]["anchors"] < CLOSE


@needs_node
@pytest.mark.parametrize(("name", "policy", "games"), [("kuhn_poker", "kuhn", 60), ("leduc_holdem", "leduc", 150)])
def test_poker_and_the_shipped_policies(name: str, policy: str, games: int, tmp_path: Path) -> None:
    """Rules, probabilities of the anchors, and the mixture's behavior given a seat's earlier moves."""
    playouts, loaded = cached_playouts(name, games), load(policy)
    inference = inference_record(loaded, playouts, 60) | {"mixed": mixed_record(loaded, playouts, 8)}
    found = run_in_node({"rules": [rules_record(loaded.game, playouts)], "inference": [inference]}, tmp_path)
    positions = int(playouts.lengths.sum())
    assert found["rules"] == [{"positions": positions, "mover": 0, "legal": 0, "observation": 0, "returns": 0}]
    assert found["inference"][0]["anchors"] < CLOSE and found["inference"][0]["mixed"] < CLOSE


@needs_node
def test_a_wrong_rule_or_parameter_is_seen(tmp_path: Path) -> None:
    """The comparison itself: a changed legal action, another card and a changed mass of an MLP's logits are counted."""
    game, playouts = make_game("kuhn_poker"), cached_playouts("kuhn_poker", 60)
    policy = random_policy(game, MlpPolicy(13, 2, (4,)))
    right = inference_record(policy, playouts, 30)
    wrong = {**right, "probabilities": (np.asarray(right["probabilities"]) + [[1e-4, -1e-4]]).tolist()}
    rules = rules_record(game, playouts)
    rules["games"][0]["cards"] = [rules["games"][0]["cards"][1], rules["games"][0]["cards"][0]]
    found = run_in_node({"rules": [rules], "inference": [right, wrong]}, tmp_path)
    assert found["rules"][0]["observation"] > 0 and found["rules"][0]["returns"] == 1
    assert found["inference"][0]["anchors"] < CLOSE < 9e-5 < found["inference"][1]["anchors"]


def test_games_and_networks_that_no_page_runs() -> None:
    for name, options in (("rock_paper_scissors", {}), ("kuhn_poker_3p", {}), ("leduc_holdem", {"suits": True})):
        with pytest.raises(NotPlayableError, match="expected one of kuhn_poker"):
            describe_rules(make_game(name, **options))
    assert describe_rules(make_game("connect_four", rows=4, columns=5, connect=3))["options"]["rows"] == 4
    policy = random_policy(make_game("connect_four"), FilmPolicy(84, 7, (8,)))
    with pytest.raises(UnsupportedPolicyError, match="tabular, mlp, film, conv or board"):
        read_policy(disguise(policy))


def test_other_networks_of_an_enumerable_game_become_tables() -> None:
    """A network that no page runs, on Kuhn poker: its logits are those of its probabilities at all 12 sets."""
    policy = random_policy(make_game("kuhn_poker"), MlpPolicy(13, 2, (4,)))
    data = read_policy(disguise(policy))
    assert data.kind["name"] == "table" and data.kind["count"] == 12
    logits = data.populations[0].parts[0].own["logits"].reshape(12, 2)
    assert np.allclose(np.exp(logits).sum(axis=1), 1.0, atol=1e-6) and np.ptp(logits) > 0.1


@dataclasses.dataclass(frozen=True)
class Disguised:
    """A network of another type than those that pages run."""

    network: Any

    def __call__(self, phi, observation: jax.Array, legal: jax.Array):
        return self.network(phi, observation, legal)


def disguise(policy: LoadedPolicy) -> LoadedPolicy:
    population: Any = policy.profile.population
    hidden = population.replace(apply=Disguised(population.apply))
    return dataclasses.replace(policy, profile=policy.profile.replace(population=hidden))
