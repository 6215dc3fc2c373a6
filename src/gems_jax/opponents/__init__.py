"""Fixed opponents that mixtures are measured against: `registry.opponents_of(game)` lists those of a game.

Every opponent is a `Policy` without parameters. It decides from the observation alone, in JAX, so it can be compiled
and vmapped like a trained policy.
"""
