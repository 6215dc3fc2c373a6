"""Python code beside compiled programs: programs with host calls, and environments in worker processes.

Programs with host calls, on top of JAX:

    call.py       `call_host`, the primitive that stands for a Python function inside a trace
    program.py    a trace cut at its host calls into compiled stages and Python loops
    stages.py     `stage` and its decorators, and sessions: the lifetime of games on the host

Environments in worker processes, without JAX, so that a worker starts quickly:

    base.py       the interface of an environment: facts, `reset`, `step`
    bench.py      runs some of the environment instances and checks their results
    worker.py     the worker process
    pool.py       all worker processes and their shared memory
    own.py        imports a user's own class
    openspiel.py, pettingzoo.py    environments of these libraries

A *lane* is one slot of shared memory and the environment instance that fills it.
"""
