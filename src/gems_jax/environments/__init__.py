"""Environments in Python: NumPy only, no JAX, so that a worker process starts quickly and holds little memory.

`base` says what an environment is, `bench` plays many of them and checks what they give, `worker` is a process around
a bench, `pool` the processes together; `pettingzoo` and `openspiel` are the libraries behind it.
"""
