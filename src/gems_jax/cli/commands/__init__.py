"""One module per command of `gems`, each with `main(argv) -> exit code`."""
