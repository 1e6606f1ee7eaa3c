"""`python -m cachekeeper` is the command."""

from cachekeeper.cli.main import main

if __name__ == "__main__":
    main()
