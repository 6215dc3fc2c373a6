"""Rules of board games, written for XLA."""
