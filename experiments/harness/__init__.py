"""Machinery that runs an experiment from its spec."""
