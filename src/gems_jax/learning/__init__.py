"""Learning from play: advantages, PPO, trust regions, minibatches."""
