import json
import shlex
from pathlib import Path

import pytest
import tiny
from launching import LAUNCH, launch

from bahdanau_jax.sweeps import sweep
from bahdanau_jax.workdir import directory as workdir

EXPERIMENT = f"""
import sys
sys.path.append({str(Path(tiny.__file__).parent)!r})
import tiny

SWEEPS = {{"scores": {{"model.attention.score": ["additive", "projected"]}}}}

def get_config():
    return tiny.config("tsv:corpus")
"""


@pytest.fixture
def scratch(tmp_path):
    (tmp_path / "spelling.py").write_text(EXPERIMENT)
    return tmp_path


def refused(finished):
    assert finished.status == 2, finished.err
    assert finished.out == b""
    (line,) = finished.lines
    return line


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--sweep=seed=0,1", "--sweep=score=additive,dot"], "the cell seed=0,score=dot can't be"),
        (["--sweep=seed=0,1,one"], "seed must be int; it is 'one'"),
        (["--sweep=@more"], "it has @scores"),
        (["--zip"], "--zip belongs to a sweep"),
        (["--dry_run"], "--dry_run belongs to a sweep"),
        (["--match=params"], "--match belongs to a sweep"),
        (["--sweep=seed=0,1", "--replicas=2"], "--sweep and --replicas can't be given together"),
        (["--replicas=2", "--match=params"], "--replicas is one program"),
        (["--replicas=score=additive,projected"], "score can't differ within one program"),
        (["--replicas=0"], "--replicas=0: give at least 1"),
        (["--sweep=seed=0,1", "--parallel=-1"], "--parallel=-1"),
        (["--sweep=seed=0,1", "--executor=pbs"], "value should be one of <local|slurm>"),
        (["--sweep=seed=0", "--executor=slurm", "--slurm=x"], "--slurm=x must be NAME=VALUE"),
    ],
)
def test_a_mistake_is_said_in_one_line_before_any_cell_starts(flags, said, scratch):
    line = refused(launch(["--config=spelling.py", "--workdir=w", *flags], scratch))
    assert said in line
    assert not (scratch / "w").exists()


def test_a_run_is_no_place_for_a_sweep(scratch):
    (scratch / "w").mkdir()
    workdir.write_config(scratch / "w", tiny.config("tsv:corpus"))
    line = refused(launch(["--config=spelling.py", "--workdir=w", "--sweep=seed=0,1"], scratch))
    assert "w holds a run; choose another --workdir" in line


def test_a_dry_run_passes_on_every_flag_but_those_of_the_sweep(scratch):
    flags = ["--config=spelling.py", "--config.train.steps=7", "--sweep=@scores", "--workdir=w"]
    flags += ["--sweep=seed=3,4", "--zip", "--dry_run", "--parallel=2", "--init_from=x"]
    done = launch(flags, scratch)
    assert (done.status, done.err) == (0, "")
    words = [shlex.split(line) for line in done.out.decode().splitlines()]
    assert [line[1:] for line in words] == [
        [
            str(LAUNCH),
            *["--config=spelling.py", "--init_from=x", "--config.train.steps=7"],
            f"--config.model.attention.score={score}",
            f"--config.seed={seed}",
            f"--workdir=w/score={score},seed={seed}",
        ]
        for score, seed in (("additive", 3), ("projected", 4))
    ]
    assert not (scratch / "w").exists()


def test_a_sweep_trains_each_cell_and_exits_with_1_where_one_fails(scratch):
    tiny.write_corpus(scratch / "corpus", seed=1)  # whose token store no other test has made
    flags = ["--config=spelling.py", "--workdir=w", "--config.train.steps=10"]
    flags += ["--config.train.eval_every=5", "--config.train.warmup_steps=1", "--parallel=2"]
    done = launch([*flags, "--sweep=batch_tokens=0,3"], scratch)
    assert done.status == 1
    assert sweep.is_finished(scratch / "w" / "batch_tokens=0")
    assert "batch_tokens=3 FAILED" in done.err
    assert "train.batch_tokens is 3, but the longest training sentence" in done.lines[-2]
    # A finished cell is a run like any other, and its config.json an experiment.
    cell = scratch / "w" / "batch_tokens=0"
    assert workdir.read_config(cell).train.steps == 10
    again = launch([f"--config={cell / 'config.json'}"], scratch)
    assert again.status == 0, again.err
    assert "resuming from step 10" in again.err
    assert len(json.loads((cell / "manifest.json").read_text())["starts"]) == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "there is no file 'run/config.json'"),
        ("{", "run/config.json: the configuration is not valid JSON"),
        ('{"sed": 1}', "run/config.json: unknown configuration field sed; did you mean seed?"),
    ],
)
def test_a_recorded_configuration_that_cannot_be_used_is_refused(text, said, scratch):
    if text is not None:
        (scratch / "run").mkdir()
        (scratch / "run" / "config.json").write_text(text)
    assert said in refused(launch(["--config=run/config.json"], scratch))
