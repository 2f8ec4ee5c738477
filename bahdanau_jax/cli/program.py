"""The program: a command line in, an exit status out, and one line for whatever went wrong."""

import logging
import os
import sys
from collections.abc import Sequence
from typing import Any

from bahdanau_jax.cli import sweeping
from bahdanau_jax.cli.checks import check
from bahdanau_jax.cli.command_line import parse
from bahdanau_jax.cli.help import help_text
from bahdanau_jax.errors import InputError, one_line
from bahdanau_jax.runtime.signals import Stopped
from bahdanau_jax.terminal import forgive_output, say, take_streams, visible

BROKEN_PIPE = 128 + 13  # as a shell says of a program that SIGPIPE ended


def run(argv: Sequence[str], name: str, script: str | None) -> int:
    """Runs what a command line asks for; returns the exit status.

    Args:
      argv: the program's name and its arguments.
      name: of the program, as messages begin with it.
      script: path of the file that was started; None: the installed command.
    """
    take_streams()
    sys.unraisablehook = _say_unraisable
    handler = logging.StreamHandler()
    handler.setFormatter(_VisibleFormatter("%(levelname)s: %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    try:
        status = _run(argv, name, script)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        # The reader of standard output went away, as `head` does: no fault, and nothing to say.
        return BROKEN_PIPE
    except Exception as error:
        line = one_line(error)
        if line is None:
            raise
        say(f"{name}: {visible(line, lines=False)}")
        return 2 if isinstance(error, InputError) else 1
    except Stopped as stop:
        say(f"{name}: {stop}")
        forgive_output()
        sys.stdout.flush()
        # The compiler's thread may be busy for minutes yet, and the interpreter would wait.
        os._exit(stop.status)
    finally:
        # What a stream couldn't take stays in its buffer, and the interpreter would try again.
        forgive_output()


def _say_unraisable(lost: Any) -> None:
    """Says what was raised where nobody can catch it, but for a signal: it is noted elsewhere."""
    if not isinstance(lost.exc_value, Stopped):
        sys.__unraisablehook__(lost)


class _VisibleFormatter(logging.Formatter):
    """Spells out the control characters of a record, which may quote a file."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record))


def _run(argv: Sequence[str], name: str, script: str | None) -> int:
    typed = f"python {name}" if script else name
    if {"-h", "--help"} & set(argv[1:]):
        print(help_text(typed), end="")
        return 0
    line = parse(argv)
    if line.mode == "train" and not line.values["dry_run"]:
        forgive_output()  # files of the workdir hold all that a training prints
    if sweeping.wanted(line):
        # Without -P, a folder of the working directory could pass for one of the package's.
        started = [script] if script else ["-P", "-m", "bahdanau_jax"]
        command = [sys.executable, *started, *line.handed_on()]
        return sweeping.start(line, command, f"{typed} --mode=compare --workdir={line.directory}")
    task = check(line)
    # Only here, since it imports JAX, which takes seconds: a mistake is answered at once.
    from bahdanau_jax.cli import dispatch

    dispatch.run(line, task)
    return 0
