"""Estimators of the meta-game: values of anchors and of the mixture."""
