"""Figures, animations and text of games and runs."""
