"""Training in one call: `train` and its result, a `Run`."""
