"""The soak itself: runs killed at random moments of the clock, from outside."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("kill_soak.py")


@pytest.mark.slow
def test_runs_that_are_killed_end_as_the_run_that_nobody_killed():
    command = [sys.executable, str(SCRIPT), "--kills=20"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "twice the same: True" in done.stdout
    assert "\n0 of " in done.stdout
