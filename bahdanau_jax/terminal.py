"""What a user sees while a run goes on: stages in plain words, and one live line of training.

All of it goes to standard error; standard output is for results. Whatever is printed goes through
the streams that `take_streams` makes, which say how much its loss matters.
"""

import collections
import contextlib
import io
import os
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple, TextIO

PLAIN_INTERVAL = 10.0  # seconds between two lines where there is no terminal
WINDOW = 30.0  # seconds over which speed is averaged
MARK = 0.5  # seconds between two marks within the window
FIRST = 0.25  # seconds after which a counter shows itself on a terminal


class _Stream(io.FileIO):
    """Standard output or standard error.

    Attributes:
      forgiving: whether what can't be written is lost without a word.
    """

    forgiving = False

    def write(self, data: Any, /) -> Any:
        """Writes bytes; returns how many of them were written, or are lost.

        None where a pipe is full that doesn't block, unless that is forgiven.
        """
        written = None
        try:
            written = super().write(data)
        except OSError as error:
            if not self.forgiving:
                error.filename = "standard output"
                raise
        return len(data) if written is None and self.forgiving else written


def take_streams() -> None:
    """Makes the streams of this process such that printing can't hurt.

    - What a stream's encoding lacks is spelt out, as a code point.
    - A standard error that is full, closed or read by nobody loses what it can't take. A standard
      output does after `forgive_output`, and fails before.
    - A closed stream's descriptor is taken: the next file opened would get it, and whatever prints
      would write into that file.

    Streams that something else has put there, as a notebook does, stay.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        with contextlib.suppress(OSError):
            os.fstat(number)
            continue
        # Not to be written to, so that writing fails as it does where nothing is.
        os.open(os.devnull, os.O_RDONLY)
        if name == "stdin":
            sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = _taken(sys.stdout, 1)
    sys.stderr = _taken(sys.stderr, 2)
    _forgive(sys.stderr)


def forgive_output() -> None:
    """Has standard output lose what it can't take, where files hold all that it says."""
    _forgive(sys.stdout)


def _taken(stream: Any, number: int) -> Any:
    """Returns a stream in the place of `stream`, which is that of a descriptor if it is None."""
    if stream is not None:
        try:
            if stream.fileno() != number:
                return stream
        except (OSError, ValueError, AttributeError):
            return stream
        with contextlib.suppress(OSError):
            stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(_Stream(number, "w", closefd=False)),
        encoding=getattr(stream, "encoding", "utf-8"),
        errors="backslashreplace",
        line_buffering=getattr(stream, "line_buffering", number == 2),
        write_through=getattr(stream, "write_through", False),
    )


def _forgive(stream: Any) -> None:
    raw = getattr(getattr(stream, "buffer", None), "raw", None)
    if isinstance(raw, _Stream):
        raw.forgiving = True


_ESCAPED = {code: repr(chr(code))[1:-1] for code in (*range(0x20), *range(0x7F, 0xA0))}
_ESCAPED_BUT_LINES = {code: text for code, text in _ESCAPED.items() if chr(code) not in "\t\n"}


def visible(text: str, lines: bool = True) -> str:
    """Returns text that only shows something on a terminal: control characters are spelt out.

    Names and messages come from files too, whose escape sequences would be obeyed.

    Args:
      text: what is to be printed.
      lines: whether line feeds and tabs stay as they are.
    """
    return text.translate(_ESCAPED_BUT_LINES if lines else _ESCAPED)


def say(text: str, stream: TextIO | None = None) -> None:
    """Prints one line about what happens next, as `reading data` or `compiling 7 shapes`.

    Args:
      text: the line, without its end.
      stream: where to; standard error if None.
    """
    print(visible(text), file=stream or sys.stderr, flush=True)


def counted(number: int, noun: str) -> str:
    """Returns `1 pair`, `2 pairs`, `1,000 pairs`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def say_nothing(text: str) -> None:
    """Stands for `say` in a process that writes no logs."""


class _Mark(NamedTuple):
    time: float
    step: int
    tokens: int
    padded: int


class Progress:
    """The line of a training run: step, loss, speed, padding, time left. A context manager.

    On a terminal the line is redrawn in place by a thread of its own, so that `update` only stores
    numbers. Elsewhere it's printed, the first at once and then one every ten seconds at most.
    """

    def __init__(
        self,
        total_steps: int,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        """Shows nothing yet.

        Args:
          total_steps: updates of the whole run, those before a resume among them.
          stream: where to; standard error if None.
          clock: seconds since any fixed moment.
        """
        self._total = total_steps
        self._stream = stream or sys.stderr
        self._clock = clock
        self._marks: collections.deque[_Mark] = collections.deque()
        self._now = _Mark(clock(), 0, 0, 0)
        self._loss = float("nan")
        self._printed = float("-inf")
        self._live: Any = None

    def __enter__(self) -> "Progress":
        if _is_terminal(self._stream):
            self._live = _live_line(self._stream, self.line)
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def update(self, step: int, loss: float, tokens: int, padded: int) -> None:
        """Notes one update; costs microseconds.

        Args:
          step: updates done so far, at most `total_steps`.
          loss: of this step, nats per target token.
          tokens: target tokens of this step's batch, padding not counted.
          padded: the same with padding.
        """
        now, last = self._clock(), self._now
        self._loss = loss
        self._now = _Mark(now, step, last.tokens + tokens, last.padded + padded)
        marks = self._marks
        if not marks or now - marks[-1].time >= MARK:
            marks.append(self._now)
            while len(marks) > 2 and marks[1].time <= now - WINDOW:
                marks.popleft()
        if self._live is None and now - self._printed >= PLAIN_INTERVAL:
            self._printed = now
            say(self.line(), self._stream)

    def message(self, text: str) -> None:
        """Prints one line that stays, above the live one.

        Args:
          text: the line, without its end.
        """
        if self._live is None:
            say(text, self._stream)
        else:
            self._live.console.print(visible(text), markup=False, highlight=False, soft_wrap=True)

    @property
    def tokens_per_second(self) -> float:
        """Target tokens a second over the last half minute, padding not counted; NaN at first."""
        if not self._marks or self._now.time <= self._marks[0].time:
            return float("nan")
        first = self._marks[0]
        return (self._now.tokens - first.tokens) / (self._now.time - first.time)

    @property
    def step_seconds(self) -> float:
        """Seconds that a step took over the last half minute; NaN at first."""
        if not self._marks or self._now.step <= self._marks[0].step:
            return float("nan")
        return (self._now.time - self._marks[0].time) / (self._now.step - self._marks[0].step)

    def line(self) -> str:
        """Returns the line as it stands: speed and time left over the last half minute."""
        now = self._now
        if not self._marks:
            return f"step {now.step}/{self._total}"
        first = self._marks[0]
        parts = [f"step {now.step}/{self._total}", f"loss {self._loss:.4f}"]
        seconds = now.time - first.time
        if seconds > 0:
            parts.append(f"{self.tokens_per_second:,.0f} tokens/s")
        if now.padded:
            parts.append(f"padding {1 - now.tokens / now.padded:.1%}")
        if seconds > 0 and now.step > first.step:
            left = (self._total - now.step) * seconds / (now.step - first.step)
            parts.append(f"{_duration(left)} left")
        return "  ".join(parts)


class Counter:
    """How many lines, or whatever is counted, are done, and how fast. A context manager.

    Where standard error is a terminal, one line is redrawn in place, unless results go to that
    terminal too; elsewhere a line is printed every ten seconds at most.
    """

    def __init__(
        self,
        what: str,
        out: TextIO | None = None,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        """Shows nothing yet.

        Args:
          what: is counted, in the plural.
          out: where results go; None: nowhere that would be disturbed.
          stream: where to; standard error if None.
          clock: seconds since any fixed moment.
        """
        self._what, self._stream, self._clock = what, stream or sys.stderr, clock
        self._redraws = _is_terminal(self._stream) and not (out is not None and out.isatty())
        self._start = self._shown = clock()
        self._count = 0
        self._live: Any = None

    def __enter__(self) -> "Counter":
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def update(self, count: int) -> None:
        """Notes how many are done so far."""
        self._count, now = count, self._clock()
        if self._redraws:
            if self._live is None and now - self._shown >= FIRST:  # what is over at once shows none
                self._live = _live_line(self._stream, self.line)
        elif now - self._shown >= PLAIN_INTERVAL:
            self._shown = now
            say(self.line(), self._stream)

    def line(self) -> str:
        """Returns the line as it stands: speed since the beginning."""
        seconds = max(self._clock() - self._start, 1e-9)
        return f"{self._count:,} {self._what}  {self._count / seconds:,.1f} {self._what}/s"


def _is_terminal(stream: TextIO) -> bool:
    """Returns whether a line can be redrawn there."""
    return stream.isatty() and os.environ.get("TERM") not in (None, "", "dumb")


def _live_line(stream: TextIO, line: Callable[[], str]) -> Any:
    """Starts a line that a thread of Rich redraws in place; `stop` leaves it as it was last."""
    # Imported here, since most runs have no terminal.
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    # Standard output stays untouched: results go there, perhaps into a pipe.
    live = Live(
        console=Console(file=stream),
        get_renderable=lambda: Text(line(), no_wrap=True, overflow="ellipsis"),
        refresh_per_second=4,
        redirect_stdout=False,
    )
    live.start()
    return live


def _duration(seconds: float) -> str:
    """Returns `0:07`, `12:34` or `3:04:05`."""
    minutes, seconds = divmod(round(max(seconds, 0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
