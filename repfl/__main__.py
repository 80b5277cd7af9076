"""`python -m repfl` is `repfl`."""

from repfl.bench.cli.main import main

if __name__ == "__main__":  # worker processes import this module under another name
    main()
