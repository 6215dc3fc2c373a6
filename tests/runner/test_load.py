"""load: what comes back is what was trained, and it acts as the mixture does."""

import json
import os
import shutil
from pathlib import Path

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gems_jax
from cli import bits, copy_checkpoint
from gems_jax.config import REMOVED, GemsConfig
from gems_jax.evaluate.loaded_policy import LoadedPolicy
from gems_jax.extensive.values import build_tree, exact_mixture_returns, expected_returns, policy_tables
from gems_jax.runner.checkpoint import iterations
from gems_jax.runner.directory import RunDirectory, create_run, read_config
from gems_jax.runner.driver import run
from gems_jax.runner.engine import make_engine
from gems_jax.runner.errors import ConfigMismatchError, NoRunError, RunError
from gems_jax.runner.files import find_below, write_json
from gems_jax.runner.load import export_policy, load, read_description, shipped_policies
from gems_jax.runner.measuring import make_monitor
from gems_jax.runner.rebuild import parse_config
from gems_jax.runner.writers import read_metrics
from gems_jax.solvers import DEFAULTS


@pytest.fixture(scope="module")
def kuhn(kuhn_run: RunDirectory) -> LoadedPolicy:
    return load(kuhn_run.shared)


def test_the_state_is_the_one_that_was_saved(kuhn_run: RunDirectory, kuhn: LoadedPolicy) -> None:
    solver = gems_jax.make_solver("gems", kuhn.game, kuhn.config)
    for seed, member in zip(kuhn_run.seeds, kuhn_run.members, strict=True):
        state = solver.init(jax.random.fold_in(jax.random.key(seed), 0))
        for policy in (load(member), load(kuhn_run.shared, seed=seed)):
            assert (policy.seed, policy.iteration, policy.method) == (seed, 1, "gems")
            # compiled for a batch and run eagerly, the last bits of a random orthogonal matrix differ
            chex.assert_trees_all_close(policy.profile, solver.profile(state), rtol=1e-4, atol=1e-5)
    assert kuhn.seed == kuhn_run.seeds[0] and kuhn.game == gems_jax.make_game("kuhn_poker")
    assert make_engine(solver, kuhn_run.seeds).fixed_shapes
    assert kuhn.config.capacity == 3 and kuhn.config.critic_hidden == (8,) and kuhn.config.gradient_cap == np.inf


def test_act_plays_exactly_what_the_mixture_plays(kuhn: LoadedPolicy) -> None:
    """Reach-weighted: the returns of the behaviour policy are those of drawing one policy per episode.

    Averaging the action probabilities, or drawing per decision, would fail this.
    """
    tree = build_tree(kuhn.game)
    sigma = jnp.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])
    # policies far apart, so that a wrong average shows
    profile = kuhn.profile.replace(population=kuhn.profile.population.replace(codes=5 * kuhn.profile.population.codes))
    policy = LoadedPolicy(kuhn.game, kuhn.config, profile.replace(sigma=sigma), "gems", 0, 1, "", (0, 0))
    table = jax.vmap(policy.probabilities)(tree.observation, tree.legal)
    chex.assert_trees_all_close(table.sum(axis=1), jnp.ones(12), atol=1e-6)
    tables = policy_tables(tree, policy.profile.population, 3)
    naive = jnp.einsum("pk,pkia->pia", sigma, tables)
    exact = exact_mixture_returns(tree, tables, sigma)
    np.testing.assert_allclose(expected_returns(tree, jnp.stack([table, table])), exact, atol=1e-5)
    assert np.abs(expected_returns(tree, naive) - exact).max() > 1e-3


def test_act_follows_the_probabilities(kuhn: LoadedPolicy) -> None:
    state = kuhn.game.init(jax.random.key(5))
    observation, legal = state.observation[0], state.legal[0]
    keys = jax.random.split(jax.random.key(0), 4000)
    actions = jax.jit(jax.vmap(lambda key: kuhn.act(observation, legal, key)))(keys)
    expected = np.asarray(kuhn.probabilities(observation, legal))
    shares = np.bincount(np.asarray(actions), minlength=2) / 4000
    # 5 standard errors of a share: fails by chance with probability below 1e-6
    assert np.abs(shares - expected).max() < 5 * np.sqrt(0.25 / 4000)
    assert actions.dtype == jnp.int32 and kuhn.enumerable
    again = jax.random.split(jax.random.key(0), 4000)[0]
    assert int(kuhn.act(observation, legal, again, seat=0)) == int(actions[0])


def test_illegal_actions_are_never_played(board_run: RunDirectory) -> None:
    policy = load(board_run.shared)
    state = policy.game.init(jax.random.key(0))
    legal = jnp.zeros(9, bool).at[jnp.array([2, 7])].set(True)
    keys = jax.random.split(jax.random.key(1), 30)
    drawn = {int(policy.act(state.observation[0], legal, key, seat=0)) for key in keys}
    assert drawn == {2, 7}
    probabilities = np.asarray(policy.probabilities(state.observation[0], legal, seat=1))
    assert probabilities[[0, 1, 3, 4, 5, 6, 8]].max() == 0.0


def test_a_game_that_is_too_large_plays_one_policy_per_episode(board_run: RunDirectory) -> None:
    policy = load(board_run.shared)
    assert not policy.enumerable and policy.slots == tuple(np.argmax(policy.profile.sigma, axis=1))
    draws = [policy.episode(key).slots for key in jax.random.split(jax.random.key(0), 24)]
    # three slots of 1/3 each, two populations: 24 draws miss one with probability below 6 (2/3)^24 < 4e-4; seed fixed
    assert {a for a, _ in draws} == {b for _, b in draws} == {0, 1, 2}
    state = policy.game.init(jax.random.key(0))
    drawn = policy.episode(jax.random.key(3))
    population = jax.tree.map(lambda leaf: leaf[1], policy.profile.population)
    expected = population.apply(population.select(drawn.slots[1]), state.observation[1], state.legal[0])
    got = drawn.output(state.observation[1], state.legal[0], seat=1)
    chex.assert_trees_all_close(got, expected, atol=1e-6)
    with pytest.raises(ValueError, match="seat is required"):
        policy.act(state.observation[0], state.legal[0], jax.random.key(0))


def test_shapes_and_seats_are_checked(kuhn: LoadedPolicy) -> None:
    state = kuhn.game.init(jax.random.key(0))
    with pytest.raises(ValueError, match=r"observation must have shape \(13,\).*got \(2, 13\)"):
        kuhn.act(state.observation, state.legal[0], jax.random.key(0))
    with pytest.raises(ValueError, match=r"legal must have shape \(2,\)"):
        kuhn.act(state.observation[0], state.legal, jax.random.key(0))
    with pytest.raises(ValueError, match="seat must be 0..1, got 2"):
        kuhn.act(state.observation[0], state.legal[0], jax.random.key(0), seat=2)
    unknown = kuhn.probabilities(jnp.full(13, 7.0), jnp.array([True, False]))
    np.testing.assert_array_equal(unknown, [1.0, 0.0])


def test_observations_are_converted(kuhn: LoadedPolicy) -> None:
    """Other types, flat arrays, the rows of all seats and whole states give the row of the seat."""
    state = kuhn.game.init(jax.random.key(0))
    own, legal = state.observation[0], state.legal[0]
    expected = np.asarray(kuhn.probabilities(own, legal, seat=0))
    assert kuhn.observation.startswith("float32[13]")
    for given in (
        (np.asarray(own, bool), np.asarray(legal, int)),
        (own.tolist(), legal.tolist()),
        (own[:, None], legal),
        (state.observation, state.legal, 0),
        (state,),
        (state, None, 0),
    ):
        np.testing.assert_array_equal(kuhn.probabilities(*given), expected)
    assert int(kuhn.act(state, key=jax.random.key(3))) == int(kuhn.act(own, legal, jax.random.key(3), seat=0))
    for given, message in (
        ((jnp.zeros(7), legal), r"observation must have shape \(13,\) .*got \(7,\).*float32\[13\], one seat's row"),
        ((own,), "legal is required"),
        ((state.replace(to_move=jnp.ones(2, bool)),), "seat is required where 2 seats are to move"),
    ):
        with pytest.raises(ValueError, match=message):
            kuhn.probabilities(*given)
    with pytest.raises(ValueError, match="act needs a key"):
        kuhn.act(state)


def test_a_game_in_hand_replaces_the_file_s(kuhn_run: RunDirectory, tmp_path: Path) -> None:
    shutil.copytree(kuhn_run.shared, tmp_path / "run")
    for path in (tmp_path / "run").glob("**/config.json"):
        write_json(path, {**json.loads(path.read_text()), "game": "notebook:MyGame"})
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    with pytest.raises(RunError, match="notebook:MyGame"):
        load(tmp_path / "run")
    with pytest.raises(RunError, match="no checkpoint"):
        load(tmp_path / "run", game=gems_jax.make_game("kuhn_poker"))
    file = export_policy(load(kuhn_run.shared), tmp_path / "own.safetensors", read_config(tmp_path / "run"))
    with pytest.raises(RunError, match="notebook:MyGame"):
        load(file)
    assert load(file, game=gems_jax.make_game("kuhn_poker")).seed == kuhn_run.seeds[0]


def test_export_and_load_agree_to_the_bit(kuhn_run: RunDirectory, tmp_path: Path) -> None:
    policy = load(kuhn_run.members[1])
    path = export_policy(policy, tmp_path / "policy.safetensors", read_config(kuhn_run.members[1]))
    again = load(path)
    chex.assert_trees_all_equal(bits(again.profile), bits(policy.profile))
    assert again.profile.sigma.dtype == jnp.float32
    assert (again.game, again.config, again.seed, again.iteration) == (
        policy.game,
        policy.config,
        policy.seed,
        policy.iteration,
    )
    with pytest.raises(RunError, match="exists and is never overwritten"):
        export_policy(policy, path, read_config(kuhn_run.members[1]))
    with pytest.raises(RunError, match="contains seed 4, got seed 3"):
        load(path, seed=3)


def test_game_options_are_kept(matrix_run: RunDirectory) -> None:
    policy = load(matrix_run.shared)
    assert policy.game == gems_jax.make_game("biased_rps", a=2.0)
    assert policy.game != gems_jax.make_game("biased_rps")


def test_foreign_and_missing_runs(kuhn_run: RunDirectory, matrix_run: RunDirectory, tmp_path: Path) -> None:
    with pytest.raises(NoRunError, match="no such file or folder"):
        load(tmp_path / "nowhere")
    (tmp_path / "runs").mkdir()
    with pytest.raises(NoRunError, match="has no config.json$"):
        load(tmp_path / "runs")
    shutil.copytree(kuhn_run.shared, tmp_path / "runs" / "kuhn")
    with pytest.raises(NoRunError, match="the newest run in it is .*kuhn"):
        load(tmp_path / "runs")
    with pytest.raises(RunError, match="seeds 3, 4, got seed 9"):
        load(kuhn_run.shared, seed=9)
    mixed = tmp_path / "mixed"
    shutil.copytree(matrix_run.shared, mixed)
    shutil.rmtree(mixed / "checkpoints")
    with pytest.raises(RunError, match="no checkpoint yet"):
        load(mixed)
    shutil.copytree(kuhn_run.checkpoints, mixed / "checkpoints")
    with pytest.raises(ConfigMismatchError, match="field game is 'kuhn_poker' there, 'biased_rps' here"):
        load(mixed)
    garbage = tmp_path / "garbage.safetensors"
    garbage.write_bytes(b"\x00" * 40)
    with pytest.raises(RunError, match="cannot read|not written by"):
        load(garbage)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "psroo"}, "unknown method 'psroo'"),
        ({"game": "khun_poker"}, "did you mean 'kuhn_poker'"),
        ({"config": {"etta": 1}}, "no field 'etta': the file was written by another version"),
        ({"config": {"new_mass": "floor"}}, "no field 'new_mass': the file was written by another version"),
        ({"config": {"eta": -1}}, "eta must be a finite number"),
        ({"config": 3}, "config.json is damaged: config: expected a record, got 3"),
    ],
)
def test_a_config_that_this_version_cannot_make(
    kuhn_run: RunDirectory, tmp_path: Path, change: dict, message: str
) -> None:
    shutil.copytree(kuhn_run.shared, tmp_path / "run")
    for path in (tmp_path / "run").glob("**/config.json"):
        write_json(path, {**json.loads(path.read_text()), **change})
    with pytest.raises(RunError, match=message):
        load(tmp_path / "run")


def test_a_damaged_checkpoint_is_told_and_the_one_before_is_used(kuhn_run: RunDirectory, tmp_path: Path) -> None:
    shutil.copytree(kuhn_run.shared, tmp_path / "run")
    folder = tmp_path / "run" / "checkpoints"
    shutil.copytree(folder / "00000001", folder / "00000002")
    files = [path for path in (folder / "00000002" / "state").rglob("*") if path.is_file()]
    largest = max(files, key=lambda path: path.stat().st_size)
    largest.write_bytes(largest.read_bytes()[:-7])
    told: list[str] = []
    assert load(tmp_path / "run", say=told.append).iteration == 1
    assert len(told) == 1 and "checkpoint of iteration 2 cannot be used" in told[0]
    assert (folder / "00000002").exists()  # reading changes nothing


def test_another_checkpoint_than_the_last(kuhn_run: RunDirectory, tmp_path: Path) -> None:
    shutil.copytree(kuhn_run.shared, tmp_path / "run")
    folder = tmp_path / "run" / "checkpoints"
    for step in (2, 3):
        copy_checkpoint(folder, 1, step)
    found = {at: load(tmp_path / "run", at=at).iteration for at in ("last", 1, "2")}
    assert found == {"last": 3, 1: 1, "2": 2}
    with pytest.raises(NoRunError, match="has no best iteration: nothing was measured"):
        load(tmp_path / "run", at="best")
    for at in (4, "first"):
        with pytest.raises(NoRunError, match=f"no checkpoint '?{at}'?: known are 'last', 'best' and .* 1, 2, 3"):
            load(tmp_path / "run", at=at)
    for options in ({"at": "best"}, {"which": "average"}):
        with pytest.raises(NoRunError, match="kuhn.safetensors is one mixture, not a run: asked for '(best|average)'"):
            load("kuhn", **options)


@pytest.mark.parametrize(
    ("method", "settings"),
    [("os_mccfr", {"traversals": 2}), ("psro", {"capacity": 8, "oracle": "exact"})],
    ids=["compiled", "in Python"],
)
def test_the_best_measured_iteration(tmp_path: Path, method: str, settings: dict) -> None:
    """The lowest row of metrics.csv, of every seed its own, although the only checkpoint is the last iteration's."""
    game = gems_jax.make_game("rock_paper_scissors")
    config = DEFAULTS[method].replace(**settings)
    directory = create_run(
        game="rock_paper_scissors", method=method, config=config, seeds=(0, 1), iterations=7, path=tmp_path / "run"
    )
    solver = gems_jax.make_solver(method, game, config)
    run(solver, iterations=7, seeds=(0, 1), monitor=make_monitor(game, solver), directory=directory)
    assert iterations(directory.checkpoints) == [7]
    for member in directory.members:
        logged = read_metrics(member)["exploitability"]
        policy = load(member, at="best")
        assert policy.iteration == np.argmin(logged) + 1 and policy.last_row["exploitability"] == logged.min()
        assert float(gems_jax.exploitability(game, policy.profile)) == pytest.approx(logged.min(), abs=1e-5)
        assert load(member).iteration == 7
    assert method == "psro" or logged.argmin() not in (0, 6)  # the case that checkpoints alone would miss


@pytest.mark.parametrize(
    ("name", "game", "bound", "size"),
    [("kuhn", "kuhn_poker", 0.005, 50_000), ("leduc", "leduc_holdem", 0.15, 500_000)],
)
def test_shipped_policies_are_as_good_as_they_say(name: str, game: str, bound: float, size: int) -> None:
    """They come with the package, by name; far better ones than uniform play (0.458 in Kuhn poker, 2.37 in Leduc)."""
    policy = load(name)
    assert name in shipped_policies() and policy.game == gems_jax.make_game(game)
    measured = float(gems_jax.exploitability(policy.game, policy.profile))
    assert measured < bound and measured == pytest.approx(policy.last_row["exploitability"], abs=2e-5)
    state = policy.game.init(jax.random.key(0))
    assert int(policy.act(state.observation[0], state.legal[0], jax.random.key(1))) in (0, 1)
    assert Path(shipped_policies()[name]).stat().st_size < size


# Name, column of the last row that states the strength, its least value.
SHIPPED = [
    ("tic_tac_toe", "exploitability", None),
    ("connect_four", "win_random", 0.95),
    ("go_9x9", "win_random", 0.9),
    ("simple_spread", "return_team", -12.0),
    ("simple_tag", "pursuers_vs_random", 30.0),
]


@pytest.mark.parametrize(("name", "column", "least"), SHIPPED)
def test_shipped_policies_of_larger_games_load_and_play(name: str, column: str, least: float | None) -> None:
    """They state their command, budget and strength, take at most 2 MB, and play legal moves."""
    path, policy = shipped_policies()[name], load(name)
    record = read_description(path)
    assert path.stat().st_size <= 2_000_000 and policy.game.name == name
    assert record["command"].startswith("gems train ") and policy.last_row["total_env_steps"] > 0
    measured = policy.last_row[column]
    assert measured < 0.01 if least is None else measured >= least
    init, step = jax.jit(policy.game.init), jax.jit(policy.game.step)
    key, *keys = jax.random.split(jax.random.key(0), 3)
    state = init(key)
    for number, own in enumerate(keys):
        key_step, *seats = jax.random.split(own, 1 + policy.game.num_seats)
        movers = np.flatnonzero(state.to_move)
        actions = [policy.act(state, key=seats[seat], seat=int(seat)) for seat in movers]
        assert all(state.legal[seat, int(action)] for seat, action in zip(movers, actions, strict=True)), number
        joint = jnp.zeros(policy.game.num_seats, jnp.int32).at[movers].set(jnp.asarray(actions, jnp.int32))
        state = step(state, joint, key_step)
    assert not state.terminated


def test_removed_settings_at_their_default_are_dropped() -> None:
    record = {"capacity": 5, **REMOVED}
    assert parse_config(GemsConfig, record) == GemsConfig(capacity=5)


def test_a_search_survives_what_it_cannot_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders of processes disappear while /proc is searched."""
    for name in ("a", "b/c", "d/e/f"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "config.json").touch()
    found = {path.parent.relative_to(tmp_path).as_posix() for path in find_below(tmp_path, "config.json", 2)}
    assert found == {"a", "b/c"} and len(list(find_below(tmp_path, "config.json", 3))) == 3
    scan = os.scandir

    def vanishing(path):
        if Path(path).name == "b":
            raise FileNotFoundError(2, "No such file or directory", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", vanishing)
    assert [path.parent.name for path in find_below(tmp_path, "config.json", 2)] == ["a"]
    with pytest.raises(NoRunError, match="the newest run in it is"):
        load(tmp_path)
