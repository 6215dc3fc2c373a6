"""A picture of the console while a run is started, killed and started again.

    python -m benchmarks.startup_console [--out docs/figures/start_console.svg] [--game kuhn_poker] [--preset paper]

The commands are typed into a terminal of tmux with empty caches, and the first process is killed by `kill -9` after its
first iteration. What the terminal then shows is rendered by rich, with its colors.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.text import Text

WIDTH, HEIGHT = 110, 24
_LINKED_FONTS = re.compile(r"\s*@font-face \{.*?\}\n", re.DOTALL)  # pictures load nothing from elsewhere


class Terminal:
    """A terminal of tmux on a server of its own."""

    def __init__(self, folder: Path, surroundings: dict[str, str]) -> None:
        self._tmux = ["tmux", "-S", str(folder / "socket")]
        shell = ["env", "PS1=$ ", "sh"]
        size = ["-x", str(WIDTH), "-y", str(HEIGHT)]
        line = [*self._tmux, "-f", "/dev/null", "new-session", "-d", *size, "-c", str(folder), *shell]
        subprocess.run(line, env=surroundings, check=True)

    def type(self, line: str) -> None:
        subprocess.run([*self._tmux, "send-keys", "-l", line], check=True)
        subprocess.run([*self._tmux, "send-keys", "Enter"], check=True)

    def read(self, colors: bool = False) -> str:
        line = [*self._tmux, "capture-pane", "-p", *(["-e"] if colors else ["-J"])]
        return subprocess.run(line, check=True, capture_output=True, text=True).stdout

    def wait_for(self, words: str, count: int = 1, seconds: float = 600.0) -> None:
        """Waits until the terminal shows words `count` times. Raises TimeoutError."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.read().count(words) >= count:
                return
            time.sleep(0.2)
        raise TimeoutError(f"the terminal does not show {words!r}:\n{self.read()}")

    def close(self) -> None:
        subprocess.run([*self._tmux, "kill-server"], check=False)


def record_console(game: str, preset: str, folder: Path) -> str:
    """Starts a run, kills it after its first iteration and starts it again. Returns the screen with its colors."""
    commands = Path(sys.executable).parent
    surroundings = {
        **os.environ,
        "PATH": f"{commands}:{os.environ['PATH']}",
        "XDG_CACHE_HOME": str(folder / "cache"),
        "TERM": "xterm-256color",
    }
    terminal = Terminal(folder, surroundings)
    try:
        terminal.type("clear")
        terminal.type(f"gems train {game} --preset {preset} --iterations 400 --run-dir runs/first")
        terminal.wait_for("ready after")
        terminal.wait_for("steps/s")
        _kill_run(folder)
        terminal.wait_for("Killed")
        terminal.type("gems resume runs/first --no-figures")
        terminal.wait_for("ready after", 2)
        terminal.wait_for("steps/s", 2)
        time.sleep(1.0)
        return terminal.read(colors=True)
    finally:
        terminal.close()


def _kill_run(folder: Path) -> None:
    """Kills the process that works in a folder and trains there."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            here = (entry / "cwd").resolve() == folder.resolve()
        except OSError:
            continue
        if here and b"train" in words:
            os.kill(int(entry.name), signal.SIGKILL)


def render(screen: str, path: Path) -> None:
    """Writes a screen as a picture."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(screen.rstrip()))
    picture = console.export_svg(title="gems", unique_id="gems")
    path.write_text(_LINKED_FONTS.sub("", picture))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/figures/start_console.svg"))
    parser.add_argument("--game", default="kuhn_poker")
    parser.add_argument("--preset", default="paper")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        screen = record_console(options.game, options.preset, Path(folder))
    print(Text.from_ansi(screen).plain)
    render(screen, options.out)


if __name__ == "__main__":
    main()
