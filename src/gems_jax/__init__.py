"""gems_jax: population-based game solving in JAX."""
