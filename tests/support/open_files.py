"""Which files this process has open, as Linux tells it."""

import os
from pathlib import Path


def open_files(directory: Path) -> list[str]:
    """Returns the names of the open files that lie right in a directory; none off Linux."""
    names = []
    descriptors = Path("/proc/self/fd")
    for descriptor in descriptors.iterdir() if descriptors.is_dir() else ():
        try:
            path = Path(os.readlink(descriptor))
        except OSError:  # the one that lists them
            continue
        if path.parent == directory:
            names.append(path.name)
    return names
