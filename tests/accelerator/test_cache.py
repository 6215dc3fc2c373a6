"""The compilation cache: on, private, and really used by the next process."""

import dataclasses
import os
import stat
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from gems_jax.accelerator import cache


@pytest.fixture(autouse=True)
def restored():
    """The cache of the test process itself stays as it was."""
    names = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
    before = {name: getattr(jax.config, name) for name in names}
    choice = dataclasses.replace(cache._CHOICE, before=dict(cache._CHOICE.before))
    yield
    cache._CHOICE.__dict__.update(vars(choice))
    cache.reset_cache()
    for name, value in before.items():
        jax.config.update(name, value)


def test_folder_follows_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    folder = cache.compilation_cache_dir()
    assert folder.is_relative_to(tmp_path / "xdg" / "gems_jax") and folder.is_dir()
    assert stat.S_IMODE(folder.stat().st_mode) == stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache.cache_root() == tmp_path / "home" / ".cache" / "gems_jax"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # the XDG rules: a relative path is to be ignored
    assert cache.cache_root() == tmp_path / "home" / ".cache" / "gems_jax"


def test_fallback_where_home_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(cache.tempfile, "gettempdir", lambda: str(tmp_path))
    assert cache.cache_root() == tmp_path / f"gems_jax-{os.getuid()}"


def test_somebody_else_s_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(cache.tempfile, "gettempdir", lambda: str(tmp_path))
    cache.cache_root()
    monkeypatch.setattr(os, "getuid", lambda: os.geteuid() + 1)
    jax.config.update("jax_compilation_cache_dir", None)
    assert cache.enable_compilation_cache() is None
    assert jax.config.jax_compilation_cache_dir is None


def test_the_user_s_own_choice_stays(tmp_path: Path) -> None:
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    assert cache.enable_compilation_cache() == tmp_path
    assert jax.config.jax_compilation_cache_dir == str(tmp_path)
    assert jax.config.jax_persistent_cache_min_compile_time_secs == 0


def fresh(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """The state of a new process."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    monkeypatch.setattr(cache, "_CHOICE", cache._Choice())
    for name, value in (("jax_compilation_cache_dir", None), ("jax_persistent_cache_min_compile_time_secs", 1.0)):
        jax.config.update(name, value)


def test_the_default_can_be_switched_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh(monkeypatch, tmp_path)
    cache.use_default_cache()
    assert jax.config.jax_compilation_cache_dir.startswith(str(tmp_path))
    cache.disable_compilation_cache()
    assert jax.config.jax_compilation_cache_dir is None and jax.config.jax_persistent_cache_min_compile_time_secs == 1
    cache.use_default_cache()  # as every run does
    assert jax.config.jax_compilation_cache_dir is None
    assert cache.enable_compilation_cache(tmp_path / "own") == tmp_path / "own"


def test_the_default_leaves_the_user_s_choices_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh(monkeypatch, tmp_path)
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "theirs"))
    cache.use_default_cache()
    assert jax.config.jax_compilation_cache_dir == str(tmp_path / "theirs")
    assert jax.config.jax_persistent_cache_min_compile_time_secs == 1 and not (tmp_path / "gems_jax").exists()
    jax.config.update("jax_compilation_cache_dir", None)
    jax.config.update("jax_enable_compilation_cache", False)
    cache.use_default_cache()
    jax.config.update("jax_enable_compilation_cache", True)
    assert jax.config.jax_compilation_cache_dir is None and not (tmp_path / "gems_jax").exists()
    monkeypatch.setattr(cache, "make_private", refuse)  # neither the home folder nor the temporary one is writable
    cache.use_default_cache()
    assert jax.config.jax_compilation_cache_dir is None


def refuse(folder: Path) -> None:
    raise PermissionError(folder)


def test_every_compilation_is_kept_for_the_next_process(tmp_path: Path) -> None:
    """A public name is all that a program of the library needs."""
    code = (
        "import jax; jax.jit(lambda x: x + 2)(1.0); import gems_jax; gems_jax.Policy\n"
        "print(jax.config.jax_compilation_cache_dir); jax.jit(lambda x: x * 3 + 1)(2.0)"
    )
    environment = {key: value for key, value in os.environ.items() if not key.startswith("JAX_")}
    environment["XDG_CACHE_HOME"] = str(tmp_path)
    counts = []
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        counts.append(len([name for name in os.listdir(done.stdout.strip()) if name.endswith("-cache")]))
    assert counts[0] > 0 and counts[1] == counts[0]
