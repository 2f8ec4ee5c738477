"""A sweep that is killed and started again, in real processes; takes minutes."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import tiny
from launching import LAUNCH

pytestmark = pytest.mark.slow

KILLS = 3
FLAGS = ["--config=spelling.py", "--config.train.steps=200", "--config.train.eval_every=50"]
FLAGS += ["--config.train.checkpoint_every=20", "--sweep=score=additive,projected"]
FLAGS += ["--sweep=seed=0,1", "--parallel=2"]


def start(scratch, *flags):
    command = [sys.executable, str(LAUNCH), *flags]
    return subprocess.Popen(
        command, cwd=scratch, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )


def finish(process):
    out, _ = process.communicate(timeout=600)
    assert process.returncode == 0
    return out


@pytest.fixture
def scratch(tmp_path):
    tiny.write_corpus(tmp_path / "corpus", seed=2)
    (tmp_path / "spelling.py").write_text(
        f"import sys\nsys.path.append({str(Path(tiny.__file__).parent)!r})\nimport tiny\n"
        "def get_config():\n    return tiny.config('tsv:corpus')\n"
    )
    return tmp_path


def test_a_sweep_that_is_killed_and_started_again_gives_the_same_table(scratch):
    began = time.monotonic()
    finish(start(scratch, *FLAGS, "--workdir=whole"))
    whole = time.monotonic() - began
    chance = random.Random()
    seed = chance.randrange(2**32)
    print(f"kills drawn with seed {seed}")  # shown where the test fails
    chance.seed(seed)
    for _ in range(KILLS):
        process = start(scratch, *FLAGS, "--workdir=killed")
        time.sleep(chance.uniform(0.1, 0.7) * whole)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    finish(start(scratch, *FLAGS, "--workdir=killed"))

    tables = [
        finish(start(scratch, "--mode=compare", f"--workdir={name}"))
        for name in ("whole", "killed")
    ]
    assert tables[0] == tables[1]
    assert tables[0].count("\n| ") == 2
    cells = [(scratch / name / "results.csv").read_bytes() for name in ("whole", "killed")]
    assert cells[0] == cells[1]
    assert cells[0].count(b",finished,") == 4
