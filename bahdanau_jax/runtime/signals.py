"""Signals that ask a run to end: it finishes its step, saves, and goes.

SIGTERM is the usual notice of a machine that is about to vanish (Kubernetes, Cloud TPU, preemption
on Slurm); SIGUSR1 and SIGUSR2 are what `sbatch --signal=USR1@60` sends before the time is up;
SIGINT is Ctrl-C.
"""

import contextlib
import signal
import threading
import time
from collections.abc import Iterator

SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT)
REPEAT = 1.0  # seconds in which a signal is the same one again: timeout(1) sends each twice


class Stopped(BaseException):
    """A signal ended the run, and what it had is saved.

    Not an Exception, as KeyboardInterrupt isn't: nothing that goes on after errors may go on.

    Attributes:
      status: the exit status; 0 for the notices, 130 for Ctrl-C, after which a script should end.
    """

    def __init__(self, number: int):
        super().__init__(number)
        self.number = number
        self.status = 130 if number == signal.SIGINT else 0

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
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                # What the caller ignores stays ignored, as SIGINT in a script's background job.
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._former[number] = signal.signal(number, self._receive)
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
            if self.received:
                raise self.stopped()
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
