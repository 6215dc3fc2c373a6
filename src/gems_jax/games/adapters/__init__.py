"""Other libraries behind the `Game` protocol."""
