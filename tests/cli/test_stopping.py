"""A signal at any moment ends every mode with one line and the signal's status."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from launching import LAUNCH

from bahdanau_jax.sweeps import sweep

NUMBERS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
CONSOLE = Path(sys.executable).with_name("bahdanau_jax")
WAYS = {
    "launch.py": [sys.executable, str(LAUNCH)],
    "module": [sys.executable, "-P", "-m", "bahdanau_jax"],
    "command": [str(CONSOLE)],
}
NAMES = {"launch.py": "launch.py", "module": "bahdanau_jax", "command": "bahdanau_jax"}
LONG = ["--config=spelling.py", "--config.train.steps=1000000", "--workdir=long"]
MODES = {
    "train": LONG,
    "evaluate": ["--mode=evaluate", "--workdir=run"],
    "translate": ["--mode=translate", "--workdir=run", "--input=many.txt", "--output=out.txt"],
    "explain": ["--mode=explain", "--config=spelling.py"],
    "sweep": [*LONG, "--sweep=seed=0,1"],
    "tune": [*LONG, "--tune=learning_rate=0.001..0.1", "--trials=2"],
    "compare": ["--mode=compare", "--workdir=cells"],
}


STARTED: list[subprocess.Popen[str]] = []


@pytest.fixture(autouse=True)
def nothing_runs_on():
    """A test that fails leaves no process behind."""
    yield
    while STARTED:
        process = STARTED.pop()
        if process.poll() is None:
            process.kill()
            process.communicate()


pytestmark = pytest.mark.usefixtures("signals_are_heard")


def start(arguments, scratch, way="launch.py", **environment):
    """Starts the program as a user does: a whole interpreter, whose imports take their time."""
    process = subprocess.Popen(
        [*WAYS[way], *arguments],
        cwd=scratch,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
        start_new_session=True,
    )
    STARTED.append(process)
    return process


def check_ended(process, number, said, name="launch.py"):
    """Asserts the signal's status, and one line that says so behind what was said before."""
    out, err = process.communicate(timeout=60)
    lines = [line for line in (said + err).splitlines() if not line.startswith("import time:")]
    assert process.returncode == 128 + number, lines
    assert lines, "nothing is said"
    # What says how to go on says it only where there is something to go on with.
    ending = f"{name}: stopped by {signal.Signals(number).name}"
    assert lines[-1] in (ending, f"{ending}; the same command goes on")
    before = "\n".join(lines[:-1])
    assert not any(word in before for word in ("Traceback", "Exception", "Error", "stopped by"))
    assert out == ""


# A module whose import has just ended when the signal comes.
MOMENTS = ["absl.flags._flag", "numpy", "jax._src.core", "bahdanau_jax.cli.dispatch"]


@pytest.mark.parametrize(
    ("way", "moment", "number"),
    [
        ("launch.py", MOMENTS[0], signal.SIGINT),
        ("launch.py", MOMENTS[1], signal.SIGTERM),
        ("launch.py", MOMENTS[2], signal.SIGHUP),
        ("launch.py", MOMENTS[3], signal.SIGINT),
        ("module", MOMENTS[0], signal.SIGTERM),
        ("command", MOMENTS[0], signal.SIGHUP),
        *(
            pytest.param(way, moment, number, marks=pytest.mark.slow)
            for way, number in zip(WAYS, NUMBERS, strict=True)
            for moment in MOMENTS[1:]
        ),
    ],
)
def test_a_signal_during_imports_ends_the_program(way, moment, number, finished_run, tmp_path):
    if way == "command" and not CONSOLE.exists():
        pytest.skip("the command isn't installed beside the interpreter")
    process = start(MODES["train"], tmp_path, way, PYTHONPROFILEIMPORTTIME="1")
    said = ""
    assert process.stderr is not None
    for line in process.stderr:
        said += line
        if line.endswith(f" {moment}\n"):
            break
    process.send_signal(number)
    check_ended(process, number, said, NAMES[way])
    if moment != MOMENTS[-1]:  # behind it the run begins, and may have made its workdir
        assert not (tmp_path / "long").exists()


@pytest.fixture
def every_mode(finished_run, tmp_path):
    """What each of the modes reads."""
    (tmp_path / "many.txt").write_text("fed\ncafe\nbad\n" * 20000)
    (tmp_path / "cells").mkdir()
    (tmp_path / "run").rename(tmp_path / "cells" / "seed=0")
    (tmp_path / "run").symlink_to(tmp_path / "cells" / "seed=0")
    cell = {"name": "seed=0", "values": {"seed": 0}, "matched": {}, "base": 0}
    base = json.loads((tmp_path / "run" / "config.json").read_text())
    made = {"cells": [cell], "bases": [base], "starts": [], "notes": []}
    (tmp_path / "cells" / sweep.SWEEP).write_text(json.dumps(made))
    return tmp_path


# Seconds between the start of the program and the signal; Python's own start takes the first ones.
DELAYS = [0.3, 0.5, 1, 1.5, 2, 3]


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_a_signal_ends_every_mode_at_every_delay(mode, every_mode):
    """Of a mode that is over before the signal comes there is nothing to see."""
    answered = 0
    for turn, delay in enumerate(DELAYS):
        number = NUMBERS[turn % len(NUMBERS)]
        process = start(MODES[mode], every_mode)
        time.sleep(delay)
        if process.poll() is not None:
            process.communicate()
            assert process.returncode == 0
            continue
        process.send_signal(number)
        process.wait(60)
        if process.returncode == 0:  # it came when all was done
            process.communicate()
            continue
        err = process.communicate()[1]
        if process.returncode == -number and delay < 1 and not err:
            continue  # before the program's first line, on a machine that is busy
        assert process.returncode == 128 + number, err
        assert f"launch.py: stopped by {signal.Signals(number).name}" in err.splitlines()[-1]
        assert "Traceback" not in err and "Exception" not in err
        answered += 1
    assert answered >= 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "number"),
    [("sweep", signal.SIGTERM), ("sweep", signal.SIGHUP), ("tune", signal.SIGINT)],
)
def test_a_sweep_and_a_tuner_have_their_runs_saved(mode, number, finished_run, tmp_path):
    process = start(MODES[mode], tmp_path)
    said: list[str] = []
    assert process.stderr is not None
    reader = threading.Thread(target=said.extend, args=(process.stderr,))
    reader.start()
    until = time.monotonic() + 120
    while not list((tmp_path / "long").glob("*/checkpoints/latest/*")):
        time.sleep(0.1)
        assert process.poll() is None and time.monotonic() < until, said
    process.send_signal(number)
    assert process.wait(60) == 128 + number
    reader.join()
    assert process.stdout is not None and process.stdout.read() == ""
    process.stdout.close()
    process.stderr.close()
    name = signal.Signals(number).name
    assert said[-1] == f"launch.py: stopped by {name}; the same command goes on\n"
    assert "Traceback" not in "".join(said)
    (cell,) = (tmp_path / "long").glob("*/checkpoints")
    log = (cell.parent / "log.txt").read_text()
    assert "which is saved" in log
    assert log.splitlines()[-1].endswith("stopped by SIGTERM; the same command goes on")
    assert not (cell.parent / sweep.FAILED).exists()
