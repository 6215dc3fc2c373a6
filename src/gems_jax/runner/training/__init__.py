"""Training in one call: `train` and its result, a `Run`; and the record of mixtures over iterations."""
