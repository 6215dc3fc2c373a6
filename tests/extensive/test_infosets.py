"""Tables of a tree as policies that can be played, and back."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import make_game
from gems_jax.extensive.infosets import infoset_policy, tables_of, tabular_policies
from gems_jax.extensive.state_graph import build_state_graph
from gems_jax.extensive.values import build_tree, policy_tables
from gems_jax.games.poker import KuhnPoker
from gems_jax.policies.mlp import MlpPolicy
from gems_jax.policies.population import StackedPolicies
from gems_jax.policies.tabular import TabularPolicy
from gems_jax.types import NotEnumerableError


def random_tables(game, leading):
    tree = build_tree(game)
    draws = jax.random.uniform(jax.random.key(0), (*leading, *tree.legal.shape), minval=0.1)
    draws = draws * tree.legal[(None,) * len(leading)]
    return draws / draws.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("name", ["kuhn_poker", "leduc_holdem", "biased_rps"])
def test_there_and_back(name):
    game = make_game(name)
    tables = random_tables(game, (2, 3)).at[:, 0, 0].set(jax.nn.one_hot(1, build_tree(game).num_actions))
    policies = tabular_policies(game, tables)
    assert policies.apply == infoset_policy(game)
    np.testing.assert_allclose(tables_of(game, policies), tables, atol=1e-6)
    np.testing.assert_array_equal(tables_of(game, policies)[:, 0, 0], tables[:, 0, 0])  # never is never
    np.testing.assert_allclose(policy_tables(build_tree(game), policies, 3), tables, atol=1e-6)


def test_positions_of_a_board_are_rows():
    """A board that shows its position has one row per position, not per history; hidden cards have none."""
    board, nim = make_game("tic_tac_toe"), make_game("nim")
    table = infoset_policy(board)
    assert table.legal.shape == (4520, 9) and table.distinct
    start = board.init(jax.random.key(0))
    assert not table.observations[int(table.find_row(start.observation[0]))].any()
    graph = build_state_graph(nim)
    np.testing.assert_array_equal(infoset_policy(nim).legal, graph.view_legal)
    with pytest.raises(NotEnumerableError):
        infoset_policy(make_game("connect_four"))


def test_any_network():
    game = make_game("kuhn_poker")
    network = MlpPolicy(game.observation_shape[0], 2, (4,))
    params = jax.vmap(jax.vmap(network.init))(jax.random.split(jax.random.key(0), (2, 3)))
    policies = StackedPolicies(params, network)
    found = tables_of(game, policies)
    assert found.shape == (2, 3, 12, 2)
    np.testing.assert_allclose(found, policy_tables(build_tree(game), policies, 3), atol=1e-6)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Faceless:
    """Matching pennies whose seats see the same thing."""

    population_of_player: tuple[int, int] = (0, 1)

    def __getattr__(self, name):
        if name.startswith("__") or name == "infosets":
            raise AttributeError(name)
        return getattr(make_game("matching_pennies"), name)

    observation_shape = (1,)

    def _blind(self, state):
        return dataclasses.replace(state, observation=jnp.zeros((2, 1)))

    def init(self, key):
        return self._blind(make_game("matching_pennies").init(key))

    def step(self, state, actions, key):
        return self._blind(make_game("matching_pennies").step(state, actions, key))

    def deals(self):
        return jax.tree.map(lambda leaf: leaf[None], self.init(jax.random.key(0))), jnp.ones(1)


def test_seats_that_look_alike():
    """A population of its own plays its own sets; a shared one could not tell them apart."""
    game = Faceless()
    tables = random_tables(game, (2, 3))
    policies = tabular_policies(game, tables)
    assert policies.params.shape == (2, 3, 1, 2)
    found, seats = np.asarray(tables_of(game, policies)), np.asarray(build_tree(game).seat)
    for player in range(2):
        np.testing.assert_allclose(found[player, :, seats == player], tables[player, :, seats == player], atol=1e-6)
    with pytest.raises(NotEnumerableError, match="share population 0 have the same observation"):
        tabular_policies(Faceless((0, 0)), tables[:1])


@pytest.mark.parametrize("name", ["kuhn_poker", "leduc_holdem"])
def test_rows_by_the_numbers_of_the_game(name):
    """Poker with one-hots of its information sets as observations: the number of a row is the place of its one."""
    numbers = np.asarray(build_tree(make_game(name)).number)
    assert sorted(numbers) == list(range(len(numbers)))
    table = infoset_policy(make_game(name, observation="infoset"))
    np.testing.assert_array_equal(table.observations[table.row_of_infoset], np.eye(len(numbers)))
    assert infoset_policy(make_game("biased_rps")).row_of_infoset is None


def test_a_table_with_other_numbers_is_another():
    observations, legal = np.eye(3), np.ones((3, 2), bool)
    plain, numbered = TabularPolicy(observations, legal), TabularPolicy(observations, legal, np.asarray([4, 0, 2]))
    np.testing.assert_array_equal(numbered.row_of_infoset, [1, 0, 2, 0, 0])
    assert plain != numbered and numbered == TabularPolicy(observations, legal, np.asarray([4, 0, 2]))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda number, card: 0 * number,  # one for all
        lambda number, card: number + 12 * card,  # several for what looks the same
        lambda number, card: number - 1,  # below 0
    ],
)
def test_numbers_that_do_not_fit_are_refused(wrong):
    class Misnumbered(KuhnPoker):
        def _game_state(self, inner, reward):
            state = super()._game_state(inner, reward)
            return dataclasses.replace(state, infoset=wrong(state.infoset, inner.state._cards[0]))

    with pytest.raises(ValueError, match="must number its information sets one to one"):
        build_tree(jax.tree_util.register_static(Misnumbered)())
