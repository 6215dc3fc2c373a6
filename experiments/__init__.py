"""One thin file per experiment: a spec called EXPERIMENT, no maths. `python -m experiments.run <name>` runs it."""
