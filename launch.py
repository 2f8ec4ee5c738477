"""Trains, evaluates, translates and compares: `python launch.py --help` says how.

The same as the command `bahdanau_jax`, for a checkout that isn't installed.
"""

import sys

from bahdanau_jax.cli.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv, __file__))
