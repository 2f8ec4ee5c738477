"""The exceptions that are meant for the user's eyes.

`launch.py` prints their message, one line, on standard error, without a traceback. Every other
exception is a fault of the program and keeps its traceback.
"""

import errno


class InputError(Exception):
    """Something the user gave can't be used: says what is wrong and what to do. Status 2."""


class RunError(Exception):
    """A run that was well begun can't go on: says why, what is kept and what to do. Status 1."""


def is_full(error: BaseException) -> bool:
    """Returns whether an error, or what caused it, says that nothing more fits on the disk."""
    # Libraries in C++ put the system's words into an exception of their own.
    words = ("No space left on device", "Disk quota exceeded", "File too large")
    numbers = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    while True:
        if isinstance(error, OSError) and error.errno in numbers:
            return True
        if any(word in str(error) for word in words):
            return True
        if error.__cause__ is None:
            return False
        error = error.__cause__


def flat(error: object) -> str:
    """Returns what an error says without its line breaks."""
    return " ".join(str(error).split())


def one_line(error: Exception) -> str | None:
    """Returns what to say of an error that isn't the program's fault; None if it may be.

    Args:
      error: an exception that ends the program.
    """
    if isinstance(error, InputError | RunError):
        return str(error)
    if is_full(error):
        return f"{error}; free some space, and give the same command again"
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}; put it right, and give the same command again"
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
        words = flat(error)[:200]
        return f"not enough memory ({words}); lower train.batch_size or the model's sizes"
    return None
