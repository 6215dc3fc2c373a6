#!/usr/bin/env bash
# A sweep on one machine with several GPUs: one worker per GPU. Started again it goes on where it was.
#   bash experiments/sweeps/gpu_box.sh [SWEEP.toml] [FOLDER]
set -euo pipefail
sweep=${1:-experiments/sweeps/gpu_box.toml}
folder=${2:-runs/sweep/$(basename "$sweep" .toml)/gpu_box}
# A cell takes what it needs instead of three quarters of the card.
export XLA_PYTHON_CLIENT_PREALLOCATE=false
exec gems sweep "$sweep" --run-dir "$folder"
