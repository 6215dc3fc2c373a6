"""XLA and nothing else: compilation, random number generation, sharding, CPU workarounds."""
