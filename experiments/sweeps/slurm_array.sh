#!/usr/bin/env bash
# A sweep as a SLURM array, from a login node (this process only submits and waits; keep it in tmux, or start it again:
# it goes on where it was). The folder must be on a file system that the compute nodes share.
#   bash experiments/sweeps/slurm_array.sh [SWEEP.toml] [FOLDER]
set -euo pipefail
sweep=${1:-experiments/sweeps/slurm_array.toml}
folder=${2:-runs/sweep/$(basename "$sweep" .toml)/slurm}
python -c "import submitit" 2>/dev/null || { echo 'pip install "gems_jax[slurm]"' >&2; exit 2; }
exec gems sweep "$sweep" --run-dir "$folder"
