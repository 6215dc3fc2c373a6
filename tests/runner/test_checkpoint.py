"""Checkpoints: everything comes back to the bit, damage is noticed, what does not fit is refused by name."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax.runner import checkpoint, leaves
from gems_jax.runner.errors import CheckpointError, ConfigMismatchError, DiskFullError
from gems_jax.types import Array, Struct

IDENTITY = {"game": "walk", "method": "omwu", "seeds": [0], "config": {"eta": 0.1, "net": {"width": 8}}}


class Part(Struct):
    weights: dict[str, Array]
    key: Array


def tree(scale: float = 1.0):
    part = Part({"kernel": scale * jnp.array([[1.0, -jnp.inf], [jnp.nan, 1e-40]])}, jax.random.key(7))
    return {
        "state": {
            "part": part,
            "keys": jax.random.split(jax.random.key(1, impl="rbg"), 3),
            "half": jnp.arange(3, dtype=jnp.bfloat16),
            "mask": jnp.array([True, False]),
            "count": jnp.int32(-3),
            "empty": jnp.zeros((0, 4), jnp.int8),
            "double": np.array([1.0 / 3.0]),  # a float64 of a solver that keeps numpy arrays
            "python": (3, 0.1, True),
            "nothing": None,
        },
        "monitor": jnp.ones(()) * scale,
    }


def save(folder: Path, step: int, value=None, **options):
    return checkpoint.write_checkpoint(folder, step, tree() if value is None else value, identity=IDENTITY, **options)


def test_everything_comes_back_to_the_bit(tmp_path: Path) -> None:
    save(tmp_path, 5, extra={"seconds": 1.5})
    found = checkpoint.restore_checkpoint(tmp_path, tree(0.0), identity=IDENTITY)
    assert found is not None and found.iteration == 5 and found.extra == {"seconds": 1.5}
    before, after = jax.tree.flatten(tree()), jax.tree.flatten(found.tree)
    assert before[1] == after[1]
    for old, new in zip(before[0], after[0], strict=True):
        assert type(old) is type(new)
        if isinstance(old, jax.Array) and jnp.issubdtype(old.dtype, jax.dtypes.prng_key):
            assert old.dtype == new.dtype
            old, new = jax.random.key_data(old), jax.random.key_data(new)
        old, new = np.asarray(old), np.asarray(new)
        assert old.dtype == new.dtype and old.shape == new.shape and old.tobytes() == new.tobytes()


@pytest.mark.parametrize("writes", ["v0", "v1"])
@pytest.mark.parametrize("reads", ["v0", "v1"])
def test_both_interfaces_of_orbax_read_each_other(
    reads: str, writes: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interfaces = {"v0": None, "v1": leaves._orbax_v1()}
    if interfaces["v1"] is None and "v1" in (reads, writes):
        pytest.skip("the installed orbax has no V1 API")
    monkeypatch.setattr(leaves, "_orbax_v1", lambda: interfaces[writes])
    path, records = tmp_path / "state", leaves.describe_leaves(tree())
    leaves.write_leaves(path, tree())
    assert (path / "orbax.checkpoint").exists() == (writes == "v1")  # V1's marker
    monkeypatch.setattr(leaves, "_orbax_v1", lambda: interfaces[reads])
    found = jax.tree.map(leaves._as_array, leaves.read_leaves(path, records))
    expected = jax.tree.leaves(jax.tree.map(leaves._as_array, tree()))
    assert [np.asarray(leaf).tobytes() for leaf in found] == [np.asarray(leaf).tobytes() for leaf in expected]


def test_a_template_of_shapes_is_enough_and_may_ask_for_a_part(tmp_path: Path) -> None:
    value = {"state": {"x": jnp.arange(4.0), "key": jax.random.key(0)}, "monitor": {"y": jnp.ones(2)}}
    save(tmp_path, 1, value)
    found = checkpoint.restore_checkpoint(tmp_path, jax.eval_shape(lambda: {"state": value["state"]}))
    assert found is not None
    chex.assert_trees_all_equal(found.tree["state"]["x"], value["state"]["x"])
    assert "monitor" not in found.tree


def test_none_at_all(tmp_path: Path) -> None:
    assert checkpoint.restore_checkpoint(tmp_path / "nowhere", tree()) is None
    assert checkpoint.iterations(tmp_path) == []


def test_the_last_k_are_kept(tmp_path: Path) -> None:
    for step in range(1, 5):
        save(tmp_path, step, {"state": jnp.zeros(1)}, keep=2)
    assert sorted(os.listdir(tmp_path)) == ["00000003", "00000004"]


def test_optional_entries_may_be_absent(tmp_path: Path) -> None:
    save(tmp_path, 1, {"state": jnp.zeros(1)})
    template = {"state": jnp.zeros(1), "best": jnp.zeros(1)}
    found = checkpoint.restore_checkpoint(tmp_path, template, optional=("best",))
    assert found is not None and set(found.tree) == {"state"}
    with pytest.raises(ConfigMismatchError, match="best'.* is only in the state"):
        checkpoint.restore_checkpoint(tmp_path, template)


def damage_truncate(path: Path) -> None:
    largest = max((p for p in (path / "state").rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)
    os.truncate(largest, largest.stat().st_size // 2)


def damage_flip(path: Path) -> None:
    largest = max((p for p in (path / "state").rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)
    data = bytearray(largest.read_bytes())
    data[len(data) // 2] ^= 1
    largest.write_bytes(data)


def damage_remove(path: Path) -> None:
    next(p for p in sorted((path / "state").rglob("*")) if p.is_file()).unlink()


def damage_manifest(path: Path) -> None:
    os.truncate(path / "manifest.json", 100)


def damage_no_manifest(path: Path) -> None:
    (path / "manifest.json").unlink()


DAMAGES = [damage_truncate, damage_flip, damage_remove, damage_manifest, damage_no_manifest]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    for step in (1, 2):
        save(folder, step, {"state": jnp.full(3, step)})
    return folder


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_newest_gives_way_to_the_one_before_and_it_says_so(saved: Path, tmp_path: Path, damage) -> None:
    folder = tmp_path / "checkpoints"
    shutil.copytree(saved, folder)
    damage(folder / "00000002")
    said: list[str] = []
    template = {"state": jnp.zeros(3, jnp.int32)}
    found = checkpoint.restore_checkpoint(folder, template, identity=IDENTITY, say=said.append)
    assert found is not None and found.iteration == 1
    np.testing.assert_array_equal(found.tree["state"], 1)
    assert len(said) == 1 and said[0].startswith("checkpoint of iteration 2 cannot be used: ")
    assert checkpoint.iterations(folder) == [1, 2]  # a reader moves nothing

    checkpoint.restore_checkpoint(folder, template, set_aside=True)
    assert checkpoint.iterations(folder) == [1] and (folder / "damaged-00000002").is_dir()
    damage(folder / "00000001")
    with pytest.raises(CheckpointError, match="no intact checkpoint in .*all 1 are damaged"):
        checkpoint.restore_checkpoint(folder, template)


def test_a_config_that_differs_is_refused_by_field(saved: Path) -> None:
    template = {"state": jnp.zeros(3, jnp.int32)}
    for change, field in [
        ({"config": {"eta": 0.2, "net": {"width": 8}}}, "field eta is 0.1 there, 0.2 here"),
        ({"config": {"eta": 0.1, "net": {"width": 9}}}, "field net.width is 8 there, 9 here"),
        ({"game": "kuhn_poker"}, "field game is 'walk' there, 'kuhn_poker' here"),
    ]:
        with pytest.raises(ConfigMismatchError, match=f"^config differs from checkpoint: {field}$"):
            checkpoint.restore_checkpoint(saved, template, identity=IDENTITY | change, set_aside=True)
    assert checkpoint.iterations(saved) == [1, 2]  # a mismatch is nobody's damage


def test_a_state_that_does_not_fit_is_refused_by_leaf(saved: Path) -> None:
    with pytest.raises(ConfigMismatchError, match=r"\['state'\] has shape \(3,\) there, \(4,\) here"):
        checkpoint.restore_checkpoint(saved, {"state": jnp.zeros(4, jnp.int32)})
    with pytest.raises(ConfigMismatchError, match=r"\['state'\]\['x'\] is only in the state"):
        checkpoint.restore_checkpoint(saved, {"state": {"x": jnp.zeros(3)}})
    grown = checkpoint.restore_checkpoint(saved, {"state": jnp.zeros(1, jnp.int32)}, same_shapes=False)
    assert grown is not None and grown.tree["state"].shape == (3,)


def test_an_unknown_format_is_not_read(saved: Path, tmp_path: Path) -> None:
    path = tmp_path / "00000002"
    shutil.copytree(saved / "00000002", path)
    manifest = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps(manifest | {"format": 99}))
    with pytest.raises(ConfigMismatchError, match="format 99, this version of gems_jax reads format 4"):
        checkpoint.restore_checkpoint(tmp_path, tree(), set_aside=True)
    assert checkpoint.iterations(tmp_path) == [2]  # whole for whoever wrote it: it stays


def test_half_written_checkpoints_are_not_offered_and_are_cleaned(saved: Path, tmp_path: Path) -> None:
    shutil.copytree(saved / "00000001", tmp_path / "tmp-00000009-1234")
    (tmp_path / "notes").mkdir()
    assert checkpoint.iterations(tmp_path) == []
    checkpoint.remove_leftovers(tmp_path)
    assert os.listdir(tmp_path) == ["notes"]


def test_saving_again_replaces(tmp_path: Path) -> None:
    for value in (1.0, 2.0):
        save(tmp_path, 3, {"state": jnp.full(2, value)})
    found = checkpoint.restore_checkpoint(tmp_path, {"state": jnp.zeros(2)})
    assert found is not None and checkpoint.iterations(tmp_path) == [3]
    np.testing.assert_array_equal(found.tree["state"], 2.0)


def test_what_cannot_be_saved_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        CheckpointError, match=r"\['state'\]\['name'\]: a state contains arrays and numbers only, got str"
    ):
        save(tmp_path, 1, {"state": {"name": "rock"}})
    assert os.listdir(tmp_path) == []
    with pytest.raises(ValueError, match="keep must be at least 1"):
        save(tmp_path, 1, keep=0)


def test_disk_full_leaves_the_last_good_one(saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "checkpoints"
    shutil.copytree(saved, folder)

    def full(path: Path, tree) -> None:
        path.mkdir()
        (path / "half").write_text("half a checkpoint")
        raise ValueError("RESOURCE_EXHAUSTED: Error writing: No space left on device")  # what orbax raises

    monkeypatch.setattr(leaves, "write_leaves", full)
    with pytest.raises(DiskFullError, match="disk full while writing .* MB free.*last good checkpoint is iteration 2"):
        save(folder, 3)
    assert sorted(os.listdir(folder)) == ["00000001", "00000002"]


def test_a_really_full_disk(tmp_path: Path) -> None:
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(tmp_path)], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("mounting a small tmpfs needs privileges")
    try:
        folder = tmp_path / "checkpoints"
        save(folder, 1, {"state": jnp.zeros(3)})
        noise = jax.random.normal(jax.random.key(0), (1_000_000,))  # 4 MB that do not compress
        with pytest.raises(DiskFullError, match="last good checkpoint is iteration 1"):
            save(folder, 2, {"state": noise})
        found = checkpoint.restore_checkpoint(folder, {"state": jnp.zeros(3)})
        assert found is not None and found.iteration == 1 and os.listdir(folder) == ["00000001"]
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)
