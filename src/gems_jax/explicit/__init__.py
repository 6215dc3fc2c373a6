"""Explicit populations: what the PSRO family shares. Stored policies, payoff tables, response oracles, meta-games.

These methods grow: a new policy per population and iteration. Their steps run in Python, capacities double outside
of jit, and what they hold is reported as it is.
"""
