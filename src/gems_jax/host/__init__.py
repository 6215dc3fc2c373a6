"""What runs in Python beside compiled programs. Two concepts share this folder.

Programs with host calls, on top of JAX:

    call.py       `call_host`, the primitive that stands for a Python function inside a trace
    program.py    a trace cut at its host calls into compiled stages and Python loops
    stages.py     `staged` and its decorators, and sessions: how long the host keeps what it plays

Environments in worker processes, without JAX, so that a worker starts quickly:

    base.py       what an environment is: facts, `reset`, `step`
    bench.py      plays the environments of some lanes and checks what they return
    worker.py     the process, pool.py the processes and the memory that they share with this one
    own.py        imports a user's own class
    openspiel.py, pettingzoo.py    environments of these libraries
"""
