"""Algorithms on the tree of an enumerable game: values, best responses, CFR."""
