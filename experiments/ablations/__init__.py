"""Ablations and studies of single settings, one spec each."""
