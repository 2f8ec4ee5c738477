"""`python -m bahdanau_jax`, as a sweep starts the cells of the installed command."""

import sys

from bahdanau_jax.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
