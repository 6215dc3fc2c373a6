"""Runs: the driver, engines, checkpoints and run directories."""
