"""The Generative Evolutionary Meta-Solver: Algorithm 1, phase by phase."""
