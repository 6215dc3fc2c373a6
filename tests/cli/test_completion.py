"""`gems completion SHELL`: the script completes what the commands take."""

import shutil
import subprocess
from pathlib import Path

import pytest

from cli import assert_one_line, call
from gems_jax.cli import COMMANDS


def complete(script: Path, *words: str) -> set[str]:
    """What bash offers for the last of these words."""
    line = f"source {script}; COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; "
    line += 'complete -p gems | grep -o "_tyro_gems" | head -1; _tyro_gems; printf "%s\\0" "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "--norc", "-c", line], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and not done.stderr, done.stderr
    function, _, offered = done.stdout.partition("\n")
    assert function == "_tyro_gems"  # bash calls it for `gems`
    return {line.split()[0] for line in offered.split("\0") if line.strip()}  # some have their help behind them


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
def test_bash_completes_commands_and_flags(tmp_path: Path) -> None:
    script = tmp_path / "gems.bash"
    done = call("completion", "bash")
    assert done.code == 0 and not done.err
    script.write_text(done.out)
    assert complete(script, "gems", "res") == {"resume"}
    assert set(COMMANDS) <= complete(script, "gems", "''")
    assert {"--lambda-jacobian"} <= complete(script, "gems", "train", "--lambda")
    assert complete(script, "gems", "resume", "--la") == {"--latest"}
    assert complete(script, "gems", "export", "--which", "av") == {"average"}


def test_other_shells() -> None:
    done = call("completion", "zsh")
    assert done.code == 0 and done.out.startswith("#compdef gems") and "resume" in done.out
    assert_one_line(call("completion", "fish"), 2, "'fish'")
