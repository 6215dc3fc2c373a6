"""Size of a step's program on 1, 2, 4 and 8 devices, before and after XLA partitions it.

    python -m benchmarks.program_devices [--games kuhn_poker ...] [--preset paper] [--devices 1 2 4 8]

Devices are forced ones of this machine's CPU, and every number of devices has a process of its own. Episodes and
candidates are sharded over them as in `gems train`. Counts do not depend on other work of the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys

from benchmarks.timing import HISTORY, Figure, record

PROBE = """
import json, sys
import jax
from benchmarks.hlo import Program, count_stablehlo
from gems_jax import gems_step, init_gems, make_game, preset
from gems_jax.accelerator.compile import program
from gems_jax.accelerator.prng import fused_key
from gems_jax.accelerator.sharding import play_mesh, replicated_sharding
game, config = make_game(sys.argv[1]), preset(sys.argv[1], sys.argv[2])
key = jax.random.key(0)
state = jax.eval_shape(lambda key: init_gems(key, game, config), key)
mesh = play_mesh()
with jax.set_mesh(mesh):
    step = program(
        lambda state, key: gems_step(state, fused_key(key), game, config), out_shardings=replicated_sharding(mesh)
    )
    lowered = step.lower(state, key)
found = {"operations": count_stablehlo(lowered.as_text()), "devices": jax.device_count()}
if sys.argv[3] == "compile":
    found["launches"] = Program(lowered.compile().as_text(), game.max_steps).cost().launches
print("PROBE", json.dumps(found))
"""


def measure(name: str, preset: str, devices: int, compiling: bool) -> list[Figure]:
    """Counts the program of one number of devices in a new process."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    line = [sys.executable, "-c", PROBE, name, preset, "compile" if compiling else "lower"]
    done = subprocess.run(line, env={**os.environ, "XLA_FLAGS": flags}, capture_output=True, text=True)
    told = [line for line in done.stdout.splitlines() if line.startswith("PROBE")]
    if not told:
        raise RuntimeError(f"no program of {name} on {devices} devices: {done.stderr[-2000:]}")
    found = json.loads(told[0].removeprefix("PROBE"))
    assert found["devices"] == devices
    label = f"{name} {preset}, {devices} devices" if devices > 1 else f"{name} {preset}, 1 device"
    figures = [Figure(f"{label}: StableHLO operations", found["operations"], "")]
    return figures + ([Figure(f"{label}: launches of each", found["launches"], "")] if compiling else [])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", nargs="+", default=["kuhn_poker"])
    parser.add_argument("--preset", default="paper")
    parser.add_argument("--devices", nargs="+", type=int, default=[1, 2, 4, 8])
    parser.add_argument("--compile", action="store_true", help="count the launches of the partitioned program, too")
    options = parser.parse_args()
    figures = [
        figure
        for name in options.games
        for devices in options.devices
        for figure in measure(name, options.preset, devices, options.compile)
    ]
    record("program on devices", figures, HISTORY)


if __name__ == "__main__":
    main()
