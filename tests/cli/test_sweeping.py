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
        (["--zip"], "--zip has no effect without --sweep or --replicas; add it"),
        (["--dry_run"], "--dry_run has no effect without --sweep"),
        (["--match=params"], "--match has no effect without --sweep"),
        (["--sweep=seed=0,1", "--replicas=2"], "--sweep and --replicas can't be given together"),
        (["--replicas=2", "--match=params"], "--match and --replicas can't be given together"),
        (["--replicas=score=additive,projected"], "score can't differ within one program"),
        (["--replicas=0"], "--replicas=0: give at least 1"),
        (["--sweep=seed=0,1", "--parallel=-1"], "--parallel=-1"),
        (["--sweep=seed=0,1", "--executor=pbs"], "value should be one of <local|slurm>"),
        (["--executor=slurm"], "--executor has no effect without --sweep"),
        (["--parallel=2"], "--parallel has no effect without --sweep"),
        (["--sweep=seed=0", "--slurm=a=1"], "--slurm has no effect without --executor=slurm"),
        (["--trials=3"], "--trials has no effect without --tune"),
        (["--sweep=seed=0", "--metric=dev/per"], "--metric has no effect without --tune"),
        (["--replicas=2", "--dry_run"], "--dry_run and --replicas can't be given together"),
        (["--replicas=2", "--distributed"], "--distributed and --replicas can't be given"),
        (["--tune=seed=0,1", "--distributed"], "--distributed and --tune can't be given"),
        (["--sweep=seed=0,1", "--zip"], "--zip pairs several --sweep, and there is one"),
        (["--sweep=seed=0,1", "--config.seed=1"], "seed is given by --config.seed and swept"),
        (["--sweep=seed=0,1", "--config.pool=2", "--config.batch_tokens=99"], "data.pool=2 sorts"),
        (["--sweep=half_width=2,3"], "half_width=2 has no effect: model.attention.window=global"),
        (["--tune=half_width=2..3"], "has no effect: model.attention.window=global has no bounds"),
        (["--tune=train.epochs=1,2", "--config.steps=9"], "train.steps=9 has no effect"),
        (
            ["--sweep=score=additive,general", "--sweep=attention.units=8,9"],
            "the cell score=general,attention.units=8 can't be run: model.attention.units=8 has no",
        ),
        (["--sweep=seed=0", "--executor=slurm", "--slurm=x"], "--slurm=x must be NAME=VALUE"),
        (
            ["--sweep=seed=0", "--executor=slurm", "--slurm=x", "--dry_run"],
            "--slurm=x must be NAME=VALUE",
        ),
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


def test_a_cell_is_started_without_the_fields_that_change_nothing_in_it(scratch):
    flags = ["--config=spelling.py", "--workdir=w", "--config.attention.units=8", "--dry_run"]
    done = launch([*flags, "--sweep=score=additive,general"], scratch)
    assert (done.status, done.err) == (0, "")
    additive, general = (shlex.split(line) for line in done.out.decode().splitlines())
    assert "--config.model.attention.units=8" in additive
    assert not any("attention.units" in word for word in general)


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
    (start,) = json.loads((cell / "manifest.json").read_text())["starts"]
    assert start["experiment"]["path"] == "spelling.py"
    assert (cell / start["experiment"]["kept"]).read_text() == EXPERIMENT
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
