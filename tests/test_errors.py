import errno

import pytest

from bahdanau_jax.errors import InputError, RunError, is_full, one_line


def caused(words, cause):
    error = RuntimeError(words)
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "full"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), True),
        (OSError(errno.EDQUOT, "Disk quota exceeded", "file"), True),
        (ValueError("RESOURCE_EXHAUSTED: write: No space left on device [OS error 28]"), True),
        (caused("the save failed", OSError(errno.ENOSPC, "full")), True),
        (OSError(errno.EACCES, "Permission denied"), False),
        (caused("the save failed", KeyError("x")), False),
    ],
)
def test_a_full_disk_is_recognised_whoever_says_so(error, full):
    assert is_full(error) == full


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (InputError("wrong"), "wrong"),
        (RunError("ended"), "ended"),
        (OSError(errno.EACCES, "Permission denied", "runs/x"), "runs/x: Permission denied; put"),
        (OSError(errno.ENOSPC, "No space left on device"), "free some space"),
        (MemoryError("Unable to allocate 7 EiB"), "not enough memory (Unable to allocate 7 EiB)"),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), None),
        (KeyError("a fault of the program"), None),
    ],
)
def test_what_is_not_the_programs_fault_is_one_line(error, line):
    said = one_line(error)
    assert said is None if line is None else line in said
