#!/usr/bin/env bash
# One run on all hosts of a TPU pod slice: the same line on every host; JAX finds the others, process 0 writes. Started
# again it goes on from the last checkpoint.
#   TPU=my-pod ZONE=us-central2-b bash experiments/sweeps/tpu_pod.sh [gems train's words]
# A sweep over cells that are each as large as a pod: call this once per cell.
set -euo pipefail
: "${TPU:?name of the TPU VM}" "${ZONE:?its zone}"
run=${RUN:-gs-mounted/runs/chess/pod}
words=${*:-"chess --game-option shared=True --preset tuned --seeds 8"}
gcloud compute tpus tpu-vm ssh "$TPU" --zone "$ZONE" --worker=all --command \
  'python3 -m venv ~/gems && ~/gems/bin/pip install --quiet "gems_jax[tpu]"'
gcloud compute tpus tpu-vm ssh "$TPU" --zone "$ZONE" --worker=all --command "
  if [ -e $run/config.json ]; then ~/gems/bin/gems resume $run --distributed
  else ~/gems/bin/gems train $words --run-dir $run --distributed; fi"
