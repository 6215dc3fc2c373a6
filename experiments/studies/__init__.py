"""Questions about the method that no run of a game answers, each measured by one function."""
