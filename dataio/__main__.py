"""`python -m dataio` is the `dataio` command."""

from dataio.cli import main

if __name__ == "__main__":
    main()
