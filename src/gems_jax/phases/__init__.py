"""The four phases of Algorithm 1, each a pure function of the state: what `gems_step` puts in order."""
