# gems_jax on an NVIDIA GPU: CUDA 12 comes with the wheels of JAX, the host needs its driver and the NVIDIA container
# toolkit.
#
#   docker build -t gems_jax .                                       (--build-arg EXTRA=cuda13, or EXTRA=test for a CPU)
#   docker run --rm --gpus all gems_jax doctor
#   docker run --rm --gpus all -v "$PWD/runs:/data/runs" gems_jax train kuhn_poker --quick
#
# The folder runs must be writable for user 1000 (or pass --user). /data/.cache holds compiled programs.
FROM python:3.12-slim-bookworm

ARG EXTRA=cuda12

ENV PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PYTHONUNBUFFERED=1 \
    XDG_CACHE_HOME=/data/.cache \
    XLA_PYTHON_CLIENT_PREALLOCATE=false

COPY pyproject.toml README.md LICENSE /source/
COPY src /source/src
RUN pip install "/source[${EXTRA}]" \
 && rm -r /source \
 && useradd --uid 1000 --create-home gems \
 && install --directory --owner=gems /data /data/runs /data/.cache

USER 1000
WORKDIR /data
VOLUME /data/runs

ENTRYPOINT ["gems"]
CMD ["--help"]
