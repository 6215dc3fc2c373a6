"""Adapters of other libraries to the `Game` protocol."""
