"""Stored programs: equal results without tracing, and a store that is private, bounded and safe to lose."""

import os
import stat
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from gems_jax.accelerator import program_files, stored_programs
from gems_jax.accelerator.packing import PackedBits
from gems_jax.accelerator.stored_programs import compile_or_load, load_program, result_shapes
from gems_jax.accelerator.tree_words import NotStorableError, describe_structure, rebuild_structure


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv(program_files.VARIABLE, "on")
    return tmp_path / "gems_jax" / "programs"


def draw(key, carry):
    """Takes and returns a typed key, a struct and a dict."""
    next_key, own = jax.random.split(key)
    return {"key": next_key, "drawn": carry["x"] + jax.random.normal(own, (3,)), "bits": carry["bits"]}


ARGUMENTS = (jax.random.key(3), {"x": jnp.arange(3.0), "bits": PackedBits(jnp.ones((2, 1), jnp.uint32), (5,))})


def refuse(*_: object, **__: object) -> None:
    raise AssertionError("a stored program must not be traced")


def words(tree):
    return [np.asarray(leaf) for leaf in jax.tree.leaves({**tree, "key": jax.random.key_data(tree["key"])})]


def test_a_stored_program_gives_equal_bits_without_tracing(folder: Path) -> None:
    first = compile_or_load("a-start", draw, *ARGUMENTS, notes={"every": 3})(*ARGUMENTS)
    again = compile_or_load("a-start", refuse, *ARGUMENTS)(*ARGUMENTS)
    plain = jax.jit(draw)(*ARGUMENTS)
    assert jax.tree.structure(first) == jax.tree.structure(again) == jax.tree.structure(plain)
    for one, two, three in zip(words(first), words(again), words(plain), strict=True):
        assert np.array_equal(one, two) and np.array_equal(one, three)
    loaded = load_program("a-start")
    assert loaded is not None and loaded.notes == {"every": 3}
    shapes, expected = result_shapes(loaded), jax.eval_shape(draw, *ARGUMENTS)
    assert jax.tree.structure(shapes) == jax.tree.structure(expected)
    assert [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(shapes)] == [
        (leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(expected)
    ]


def test_donated_buffers_are_reused() -> None:
    def add(x, y):
        return x + y

    for _ in range(2):  # traced, then loaded
        x, y = jnp.ones(1000), jnp.ones(1000)
        result = compile_or_load("donated", add, x, y, donated=(0,))(x, y)
        assert x.is_deleted() and not y.is_deleted() and float(result[0]) == 2.0


@pytest.mark.parametrize("damage", ["other shapes", "truncated", "no program", "writable by others", "a link"])
def test_what_does_not_fit_is_traced_again(folder: Path, damage: str, tmp_path: Path) -> None:
    compile_or_load("a-start", draw, *ARGUMENTS)
    path, calls = folder / "a-start.program", []
    content = path.read_bytes()
    x = jnp.zeros(())
    if damage == "truncated":
        path.write_bytes(content[:-7])
    if damage == "no program":
        program_files.write_program("a-start", program_files.ProgramFile({"keys": {}}, b"nothing"))
    if damage == "writable by others":
        path.chmod(0o666)
    if damage == "a link":
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")

    def count(*arguments):
        calls.append(1)
        return x if damage == "other shapes" else draw(*arguments)

    arguments = (x,) if damage == "other shapes" else ARGUMENTS
    compile_or_load("a-start", count, *arguments)(*arguments)
    assert calls == [1]
    compile_or_load("a-start", refuse, *arguments)(*arguments)  # written anew


def test_what_cannot_be_stored_is_compiled_as_usual(folder: Path) -> None:
    def call_python(x):
        return jax.pure_callback(lambda value: np.asarray(value) + 1, jax.ShapeDtypeStruct((), jnp.float32), x)

    assert float(compile_or_load("python", call_python, jnp.float32(1))(jnp.float32(1))) == 2.0
    assert not list(folder.glob("*")) if folder.exists() else True
    with pytest.raises(ZeroDivisionError):  # the function's own errors are not hidden
        compile_or_load("wrong", lambda x: x / (1 // 0), jnp.float32(1))


def test_the_store_can_be_switched_off(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(program_files.VARIABLE, "off")
    compile_or_load("a-start", draw, *ARGUMENTS)
    assert load_program("a-start") is None and not folder.exists()
    monkeypatch.setenv(program_files.VARIABLE, "on")
    jax.config.update("jax_enable_compilation_cache", False)
    try:
        compile_or_load("a-start", draw, *ARGUMENTS)
    finally:
        jax.config.update("jax_enable_compilation_cache", True)
    assert not folder.exists()
    monkeypatch.setattr(stored_programs, "_can_serialize", lambda: False)  # no flatbuffers
    compile_or_load("a-start", draw, *ARGUMENTS)
    assert not folder.exists()


def test_files_are_private_and_the_folder_is_bounded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        path = program_files.write_program(f"p{number}", program_files.ProgramFile({}, bytes(1000)))
        assert path is not None and stat.S_IMODE(path.stat().st_mode) == 0o600
        os.utime(path, (number, number))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert program_files.read_program("p0") is not None  # used: now the newest
    monkeypatch.setattr(program_files, "MOST_BYTES", 3500)
    program_files.write_program("p4", program_files.ProgramFile({}, bytes(1000)))
    assert sorted(path.stem for path in folder.iterdir()) == ["p0", "p3", "p4"]


def test_a_folder_of_another_user_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program_files.write_program("p", program_files.ProgramFile({}, b"x"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(os, "getuid", lambda: os.geteuid() + 1)
    assert program_files.read_program("p") is None
    assert program_files.write_program("q", program_files.ProgramFile({}, b"x")) is None


def test_structures_are_rebuilt() -> None:
    state = optax.chain(optax.clip(1.0), optax.adam(1e-3)).init({"a": jnp.ones(2)})
    bits = PackedBits(jnp.ones((2, 1), jnp.uint32), (3, 4))
    structure = jax.tree.structure({"b": (1, [2, None]), "bits": bits, "optimizer": state})
    assert rebuild_structure(describe_structure(structure)) == structure

    class Local(tuple):
        pass

    jax.tree_util.register_pytree_node(Local, lambda own: (tuple(own), None), lambda _, children: Local(children))
    with pytest.raises(NotStorableError):
        describe_structure(jax.tree.structure(Local((1, 2))))
    with pytest.raises(NotStorableError):
        rebuild_structure(["os:system", None, []])
