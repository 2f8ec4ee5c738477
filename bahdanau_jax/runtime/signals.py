"""Signals that ask a program to end. What there is to save is saved; without any, it ends at once.

SIGTERM is the usual notice of a machine that is about to vanish (Kubernetes, Cloud TPU, preemption
on Slurm); SIGUSR1 and SIGUSR2 are what `sbatch --signal=USR1@60` sends before the time is up;
SIGINT is Ctrl-C; SIGHUP says that the terminal is gone.

Imports nothing that takes time, so that the program can listen before it imports anything else.
"""

import atexit
import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator

SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT, signal.SIGHUP)
REQUESTED = (signal.SIGUSR1, signal.SIGUSR2)  # sent only where somebody asked for a notice
REPEAT = 1.0  # seconds in which a signal is the same one again: timeout(1) sends each twice


def end_at_once(program: str) -> None:
    """Has a signal end the process, with one line and status 128 + its number.

    Nothing is raised: what a handler raises is lost in some places of an import or of JAX, and the
    process would go on, or end by a traceback. Whatever is being written appears whole or not at
    all, as after a kill. A `Notice` takes over where there is something to save.

    Args:
      program: what the line begins with.
    """
    ending = False

    def end(number: int, _: object) -> None:
        nonlocal ending
        if not ending:  # a second signal while nobody reads the line
            ending = True
            line = f"{program}: stopped by {signal.Signals(number).name}\n"
            with contextlib.suppress(OSError):
                if os.isatty(2):  # below a `^C` and a line that is redrawn, which hides the cursor
                    line = f"\x1b[?25h\n{line}"
                os.write(2, line.encode())
        os._exit(128 + number)

    _listen(end)
    # Registered before any import that takes time, so it runs behind what those register. All is
    # done then: Python would give signals back what they do by themselves, and the status would be
    # that of a failure.
    atexit.register(_listen, signal.SIG_IGN)


def _listen(handler: object) -> dict[int, object]:
    """Sets the handler of every signal; returns the former ones of those that it was set of."""
    former: dict[int, object] = {}
    if threading.current_thread() is threading.main_thread():
        for number in SIGNALS:
            # What the caller ignores stays ignored, as SIGINT in a script's background job.
            if signal.getsignal(number) is not signal.SIG_IGN:
                former[number] = signal.signal(number, handler)  # type: ignore[arg-type]
    return former


class Stopped(BaseException):
    """A signal ended the run, and what it had is saved.

    Not an Exception, as KeyboardInterrupt isn't: nothing that goes on after errors may go on.

    Attributes:
      status: the exit status; 0 for a notice that was asked for, else 128 + the signal's number,
        after which a script should end.
    """

    def __init__(self, number: int):
        super().__init__(number)
        self.number = number
        self.status = 0 if number in REQUESTED else 128 + number

    def __str__(self) -> str:
        return f"stopped by {signal.Signals(self.number).name}; the same command goes on"


class Notice:
    """Listens while its context lasts; a second signal ends the process at once.

    A signal raises `Stopped` where nothing needs to be saved, and is only noted within `held`.
    """

    def __init__(self) -> None:
        self._number: int | None = None
        self._time = 0.0
        self._held = False
        self._former: dict[int, object] = {}

    def __enter__(self) -> "Notice":
        self._former = _listen(self._receive)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._former.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._former = {}

    @property
    def received(self) -> bool:
        """Whether a signal has come."""
        return self._number is not None

    def stopped(self) -> Stopped:
        """Returns the exception to raise once all is saved."""
        return Stopped(self._number or signal.SIGTERM)

    def check(self) -> None:
        """Raises `Stopped` if a signal has come."""
        if self.received:
            raise self.stopped()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Notes a signal and raises nothing, so that no work is lost."""
        former, self._held = self._held, True
        try:
            yield
        finally:
            self._held = former

    @contextlib.contextmanager
    def raising(self) -> Iterator[None]:
        """Within `held`: raises again, also what came before, during work that can be repeated."""
        former, self._held = self._held, False
        try:
            self.check()
            yield
        finally:
            self._held = former

    def _receive(self, number: int, _: object) -> None:
        now = time.monotonic()
        if self._number is None:
            self._number, self._time = number, now
            if not self._held:
                raise Stopped(number)
        elif now - self._time > REPEAT:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
