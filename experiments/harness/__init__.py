"""Run an experiment from its spec."""
