"""Where the program begins: it listens to signals before it imports what takes time."""

import sys
from collections.abc import Sequence

from bahdanau_jax.runtime.signals import end_at_once


def main(argv: Sequence[str] | None = None, script: str | None = None) -> int:
    """Runs the program; returns its exit status.

    Args:
      argv: its name and its arguments; None: those of this process.
      script: path of the file that was started; None: the installed command.
    """
    argv = sys.argv if argv is None else argv
    name = "bahdanau_jax" if script is None else script.rpartition("/")[2]
    end_at_once(name)
    # Only here: these imports take half a second, in which a signal is answered, too.
    from bahdanau_jax.cli.program import run

    return run(argv, name, script)
