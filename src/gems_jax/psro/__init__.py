"""Policy-space response oracles: stored policies, payoff tables, response oracles and the methods made of them."""
