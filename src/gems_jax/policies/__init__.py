"""Policies: networks and tables, the generator that emits them, and populations of them."""
