"""Experiments of the paper, one spec each."""
