"""The command `gems`. Its commands are in `commands/`; a module is imported when its command runs."""

from __future__ import annotations

from typing import NamedTuple


class Command(NamedTuple):
    """Module of a command inside `gems_jax.cli.commands`, its usage and its summary for the overview."""

    module: str
    usage: str
    summary: str


COMMANDS: dict[str, Command] = {
    "train": Command("train", "train GAME", "solve a game; every setting is a flag"),
    "resume": Command("resume", "resume RUN", "continue or extend a run; --latest: the newest unfinished one"),
    "sweep": Command("sweep", "sweep FILE", "run many settings from a TOML file, locally, on SLURM or on Ray"),
    "eval": Command("evaluate", "eval RUN", "measure exploitability; --why explains what limits it"),
    "exploit": Command("exploit", "exploit RUN --steps N", "train exploiters of a policy and measure their gains"),
    "compare": Command("compare", "compare RUN...", "draw the curves and print the final table of several runs"),
    "arena": Command("arena", "arena RUN...", "play all against all: cross-play matrix, Elo, alpha-Rank"),
    "replay": Command("replay", "replay RUN", "write games of a trained policy as text and SVG animations"),
    "play": Command("play", "play RUN", "play against a trained policy in the terminal"),
    "web": Command("pages.web", "web RUN", "write a page in which a person plays against a trained policy"),
    "view": Command("pages.view", "view RUN", "write a page of a run: curves, error budget, mixture, anchors, replays"),
    "export": Command("export", "export RUN", "write the trained policy as one safetensors file"),
    "profile": Command("profile", "profile RUN", "measure the phases of an iteration and write a trace"),
    "warm": Command("warm", "warm GAME", "compile the programs of a run ahead, so that it starts at once"),
    "bench": Command("bench", "bench [GAME...]", "measure this machine; --json FILE writes what you can send"),
    "plan": Command("plan", "plan GAME --minutes M", "propose settings that fit the time on this machine"),
    "games": Command("games", "games", "list the games; --check NAME validates one"),
    "methods": Command("methods", "methods", "list the methods, what they need and how they respond"),
    "doctor": Command("doctor", "doctor [RUN]", "print versions and devices for a bug report, or inspect a run folder"),
    "completion": Command("completion", "completion SHELL", "print a script that completes commands and flags"),
}
