"""Runs the command line: `python -m gems_jax` is the command `gems`."""

from gems_jax.cli.main import main

if __name__ == "__main__":
    main()
