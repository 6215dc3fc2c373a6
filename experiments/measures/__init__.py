"""Quantities that only experiments measure: regret, embeddings of anchors, the Shifting Meta bandit."""
