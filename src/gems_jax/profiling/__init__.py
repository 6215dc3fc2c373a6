"""Predicts from settings, and measures, the cost of an iteration."""
