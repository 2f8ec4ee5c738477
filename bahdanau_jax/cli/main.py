"""The program: a command line in, an exit status out, and one line for whatever went wrong."""

import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from bahdanau_jax.cli import sweeping
from bahdanau_jax.cli.checks import check
from bahdanau_jax.cli.command_line import parse
from bahdanau_jax.cli.help import help_text
from bahdanau_jax.errors import InputError, one_line
from bahdanau_jax.runtime.signals import Stopped
from bahdanau_jax.terminal import visible


def main(argv: Sequence[str] | None = None, script: Path | None = None) -> int:
    """Runs the program; returns its exit status.

    Args:
      argv: its name and its arguments; None: those of this process.
      script: the file that was started; None: the installed command.
    """
    argv = sys.argv if argv is None else argv
    name = script.name if script else "bahdanau_jax"
    typed = f"python {name}" if script else name
    handler = logging.StreamHandler()
    handler.setFormatter(_VisibleFormatter("%(levelname)s: %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    if {"-h", "--help"} & set(argv[1:]):
        print(help_text(typed), end="")
        return 0
    try:
        return _run(argv, typed, script)
    except BrokenPipeError:
        # The reader of standard output went away, as `head` does: no fault, and nothing to say.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:
        line = one_line(error)
        if line is None:
            raise
        print(f"{name}: {visible(line, lines=False)}", file=sys.stderr)
        return 2 if isinstance(error, InputError) else 1
    except Stopped as stop:
        print(f"{name}: {stop}", file=sys.stderr)
        sys.stdout.flush()
        # The compiler's thread may be busy for minutes yet, and the interpreter would wait.
        os._exit(stop.status)
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        return 130


class _VisibleFormatter(logging.Formatter):
    """Spells out the control characters of a record, which may quote a file."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record))


def _run(argv: Sequence[str], typed: str, script: Path | None) -> int:
    line = parse(argv)
    if sweeping.wanted(line):
        # Without -P, a folder of the working directory could pass for one of the package's.
        started = [str(script)] if script else ["-P", "-m", "bahdanau_jax"]
        command = [sys.executable, *started, *line.handed_on()]
        return sweeping.start(line, command, f"{typed} --mode=compare --workdir={line.directory}")
    task = check(line)
    # Only here, since it imports JAX, which takes seconds: a mistake is answered at once.
    from bahdanau_jax.cli.dispatch import run

    run(line, task)
    return 0
