"""The commands of `gems`, one module each: `main(argv) -> exit code`. Their heavy imports wait until they run."""

from __future__ import annotations

from typing import NamedTuple


class Command(NamedTuple):
    module: str
    usage: str
    summary: str


COMMANDS: dict[str, Command] = {
    "train": Command("train", "train GAME", "solve a game; every setting is a flag"),
    "resume": Command("resume", "resume RUN", "go on with a run that was stopped, or make it longer"),
    "sweep": Command("sweep", "sweep FILE", "many settings from a TOML file; SLURM and Ray as well"),
    "eval": Command("evaluate", "eval RUN", "exact exploitability; --why names what limits it"),
    "compare": Command("compare", "compare RUN...", "curves and final table of several runs"),
    "replay": Command("replay", "replay RUN", "write games of a trained policy as SVG animations and text"),
    "play": Command("play", "play RUN", "play against a trained policy in the terminal"),
    "export": Command("export", "export RUN", "the trained policy as one safetensors file"),
    "profile": Command("profile", "profile RUN", "where an iteration's time goes: a phase table and a trace"),
    "plan": Command("plan", "plan GAME --minutes M", "settings that fit the time on this machine"),
    "games": Command("games", "games", "list the games; --check NAME examines one"),
    "doctor": Command("doctor", "doctor", "versions, devices, extras, cache: for a bug report"),
}
