"""Studies of single parts of the method, each one function."""
