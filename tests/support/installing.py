"""Fresh installations of this project, which find only what they depend on elsewhere."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


class Installation(NamedTuple):
    """An environment whose packages are those of this process, but for this project itself."""

    bin: Path  # its folder of programs
    clone: Path  # the clone that was installed
    wheel: Path | None

    @property
    def python(self) -> str:
        """The interpreter."""
        return str(self.bin / "python")


def run(command, cwd: Path, **options) -> subprocess.CompletedProcess:
    """Runs a command to its end; returns what it wrote, as text."""
    words = [str(word) for word in command]
    # What PYTHONPATH names would stand before what is installed.
    options.setdefault("env", {k: v for k, v in os.environ.items() if k != "PYTHONPATH"})
    return subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=600, **options)


def pip(*arguments, cwd: Path) -> None:
    """Runs pip, without a network."""
    command = [sys.executable, "-m", "pip", "--quiet", "--no-cache-dir", *arguments]
    done = run(command, cwd)
    assert done.returncode == 0, done.stderr


def environment(place: Path) -> Path:
    """Makes an environment; returns its folder of programs.

    It sees this process's packages by a .pth file. Such a file in turn isn't read in a folder that
    is found by one, so that an editable installation of this project remains unseen.
    """
    done = run([sys.executable, "-m", "venv", "--without-pip", place], place.parent)
    assert done.returncode == 0, done.stderr
    programs = place / ("Scripts" if sys.platform == "win32" else "bin")
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = Path(run([programs / "python", "-c", code], place).stdout.strip())
    paths = {sysconfig.get_path(name) for name in ("purelib", "platlib")}
    (packages / "dependencies.pth").write_text("".join(f"{path}\n" for path in sorted(paths)))
    return programs
