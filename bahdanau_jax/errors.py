"""The one exception that is meant for the user's eyes."""


class InputError(Exception):
    """Something the user gave can't be used: one line that says what is wrong and what to do.

    `launch.py` prints the message on standard error and exits with status 2, without a traceback.
    Every other exception is a fault of the program and keeps its traceback.
    """
