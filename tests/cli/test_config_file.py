"""Settings of `gems train` from a file: the line wins, and what is wrong is reported by its key."""

import builtins
from pathlib import Path
from typing import Any

import pytest

from cli import assert_one_line, call
from gems_jax.cli import starting
from gems_jax.cli.commands import train
from gems_jax.cli.config_file import add_config_words, read_settings

TOML = """
game = "biased_rps"
method = "gems"
iterations = 7
seeds = 2
eta = 0.25
policy-hidden = [8, 4]
figures = false
preset = "auto"

[game_option]
a = 2.0
"""
YAML = """
game: biased_rps
method: gems
iterations: 7
seeds: 2
eta: 0.25
policy_hidden: [8, 4]
figures: false
preset: auto
game_option: {a: 2.0}
"""


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """(options of the run, game, settings) of every line, which trains nothing."""
    found: list[tuple[Any, Any, Any]] = []

    def look(run, game, config, preset) -> int:
        found.append((run, game, config))
        return 0

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(train, "_train", look)
    yield found
    starting.end()


@pytest.mark.parametrize(("name", "text"), [("run.toml", TOML), ("run.yaml", YAML)])
def test_a_file_sets_what_flags_set_and_the_line_wins(tmp_path: Path, seen: list, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    flags = ["--iterations", 7, "--seeds", 2, "--eta", 0.25, "--policy-hidden", 8, 4, "--no-figures"]
    for words in (["--config", name], ["biased_rps", *flags, "--preset", "auto", "--game-option", "a=2.0"]):
        assert call("train", *words).code == 0
    assert call("train", "rock_paper_scissors", "--config", name, "--eta=0.5", "--figures", "--game-option").code == 0
    (run, game, config), (plain_run, plain_game, plain), (changed, other, last) = seen
    assert (game, config) == (plain_game, plain) and config.policy_hidden == (8, 4) and float(config.eta) == 0.25
    assert run.config == Path(name) and plain_run.config is None
    assert (run.seeds, run.figures, run.game_option) == (2, False, ("a=2.0",)) == (
        plain_run.seeds, plain_run.figures, plain_run.game_option,
    )  # fmt: skip
    assert (changed.seeds, changed.figures, other.name) == (2, True, "rock_paper_scissors")
    assert last.iterations == 7 and float(last.eta) == 0.5


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("iteratons = 3", ("run.toml: unknown key 'iteratons'", "did you mean 'iterations'?")),
        ("config = 'x.toml'", ("unknown key 'config'",)),
        ("retained = 0.5", ("unknown key 'retained'", "it is a flag of --method apsro")),
        ("[options]\nchunk = 3", ("'options' is a table", "game_option")),
        ("eta = [[1]]", ("'eta' must be a number", "got [1]")),
        ("eta = 2021-01-01", ("'eta' must be a number",)),
        ("eta 3", ("cannot read run.toml", "line 1")),
        ("eta = " + "[" * 9000, ("cannot read run.toml",)),
        ("eta = 'fast'", ("--eta", "'fast'")),
        ("game-option = []\ngame_option = []", ("is there twice",)),
    ],
)
def test_a_wrong_file_is_one_line(tmp_path: Path, seen: list, text: str, parts: tuple[str, ...]) -> None:
    (tmp_path / "run.toml").write_text(text)
    assert_one_line(call("train", "biased_rps", "--config", "run.toml"), 2, *parts)
    assert not seen and [path.name for path in tmp_path.iterdir()] == ["run.toml"]


@pytest.mark.parametrize(
    ("name", "part"), [("no.toml", "cannot read no.toml"), ("run.json", "ends in .toml, .yaml"), ("", "needs one file")]
)
def test_a_file_that_is_not_there(seen: list, name: str, part: str) -> None:
    assert_one_line(call("train", "biased_rps", "--config", *filter(None, [name])), 2, part)


def test_a_yaml_file_without_a_reader(tmp_path: Path, seen: list, monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def without_yaml(name: str, *rest: Any, **more: Any) -> Any:
        if name == "yaml":
            raise ImportError(name)
        return imported(name, *rest, **more)

    (tmp_path / "run.yml").write_text("eta: 1")
    monkeypatch.setattr(builtins, "__import__", without_yaml)
    assert_one_line(call("train", "biased_rps", "--config", "run.yml"), 2, "pip install pyyaml", "TOML")


def test_yaml_makes_no_objects(tmp_path: Path, seen: list) -> None:
    (tmp_path / "run.yaml").write_text("eta: !!python/object/apply:os.system [exit]")
    assert_one_line(call("train", "biased_rps", "--config", "run.yaml"), 2, "invalid YAML")


def test_words_that_are_added(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text("game = 'nim'\nquick = true\nrun_dir = '-odd'\nlearning_rate = 1e-3\nwriters = []")
    assert read_settings(path)["run_dir"] == "-odd"
    line = ["--config", str(path)]
    assert add_config_words(line) == ["nim", "--quick", "--run-dir=-odd", "--learning-rate=0.001", *line]
    assert add_config_words(["chess", *line, "--no-quick", "--run-dir", "x"])[:2] == ["chess", "--learning-rate=0.001"]
    assert add_config_words(["chess", "--eta", "1"]) == ["chess", "--eta", "1"]
