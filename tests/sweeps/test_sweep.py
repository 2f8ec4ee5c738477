import io
import json

import pytest
import tiny

from bahdanau_jax.errors import InputError
from bahdanau_jax.sweeps import grid, sweep
from bahdanau_jax.sweeps.executors import LOG, Ended
from bahdanau_jax.workdir import directory as workdir
from bahdanau_jax.workdir import metrics_log

COMMAND = ["python", "launch.py", "--config=tiny.py"]


class FakeExecutor:
    """Runs nothing; a cell whose name is among `failing` ends with status 2."""

    def __init__(self, failing=()):
        self.failing, self.jobs = failing, []

    def __call__(self, jobs, started):
        for job in jobs:
            self.jobs.append(job)
            job.directory.mkdir(exist_ok=True)
            started(job)
            if job.name in self.failing:
                (job.directory / LOG).write_text("compiling\nlaunch.py: it can't work\n\n")
                yield Ended(job.name, 2, 1.0)
            else:
                metrics_log.write_result(job.directory, {"step": 1})
                yield Ended(job.name, 0, 1.0)


@pytest.fixture
def cells():
    return grid.expand(tiny.config("tsv:x"), ["score=additive,projected", "seed=0,1"])


def run(tmp_path, cells, executor, **options):
    said = []
    failed = sweep.sweep(tmp_path / "w", cells, COMMAND, executor, said.append, **options)
    return failed, said


def test_each_cell_is_run_by_a_command_of_its_own(tmp_path, cells):
    executor = FakeExecutor()
    assert run(tmp_path, cells, executor)[0] == []
    assert [job.command for job in executor.jobs] == [
        [
            *COMMAND,
            f"--config.model.attention.score={score}",
            f"--config.seed={seed}",
            f"--workdir={tmp_path / 'w'}/score={score},seed={seed}",
        ]
        for score in ("additive", "projected")
        for seed in (0, 1)
    ]


def test_again_finished_cells_are_skipped_and_new_ones_run(tmp_path, cells):
    first, second = FakeExecutor(), FakeExecutor()
    run(tmp_path, cells[:3], first)
    (tmp_path / "w" / cells[3].name / sweep.CHECKPOINTS).mkdir(parents=True)
    _, said = run(tmp_path, cells, second)
    assert [job.name for job in second.jobs] == [cells[3].name]
    assert said[0] == "4 cells: 3 finished, 1 to go on, 0 to begin"
    listed = sweep.read_sweep(tmp_path / "w")
    assert [cell["name"] for cell in listed["cells"]] == [cell.name for cell in cells]
    assert listed["cells"][1]["values"] == {"model.attention.score": "additive", "seed": 1}
    assert len(listed["starts"]) == 2


def test_a_failure_is_named_at_the_end_with_its_reason_and_stops_no_other(tmp_path, cells):
    bad = cells[1].name
    failed, said = run(tmp_path, cells, FakeExecutor([bad]))
    assert failed == [bad]
    assert [sweep.is_finished(tmp_path / "w" / cell.name) for cell in cells] == [1, 0, 1, 1]
    assert said[-2] == "1 of 4 cells failed; the same command runs them again:"
    assert f"{bad}: launch.py: it can't work (see " in said[-1]
    assert sweep.read_failure(tmp_path / "w" / bad) == "launch.py: it can't work"
    again = FakeExecutor()
    assert run(tmp_path, cells, again)[0] == []
    assert [job.name for job in again.jobs] == [bad]
    assert sweep.read_failure(tmp_path / "w" / bad) is None


def test_a_cell_that_ends_well_without_a_result_has_failed(tmp_path, cells):
    def executor(jobs, started):
        for job in jobs:
            yield Ended(job.name, 0, 1.0)

    failed, _ = run(tmp_path, cells[:1], executor)
    assert failed == [cells[0].name]
    why = sweep.read_failure(tmp_path / "w" / cells[0].name)
    assert why == "it ended with status 0 and said nothing"


def test_a_cell_of_another_configuration_is_refused_before_anything_starts(tmp_path, cells):
    directory = tmp_path / "w" / cells[-1].name
    directory.mkdir(parents=True)
    other = grid.with_values(cells[-1].config, {"train.label_smoothing": 0.5})
    workdir.write_config(directory, other)
    executor = FakeExecutor()
    with pytest.raises(InputError, match=r"the cell score=projected,seed=1 can't go on: .* 0\.5"):
        run(tmp_path, cells, executor)
    assert executor.jobs == []
    assert not (tmp_path / "w" / sweep.SWEEP).exists()


def test_a_second_sweep_in_the_same_place_is_refused(tmp_path, cells):
    executor = FakeExecutor()
    with (
        workdir.lock(tmp_path / "w"),
        pytest.raises(InputError, match="another process trains here"),
    ):
        run(tmp_path, cells, executor)
    assert executor.jobs == []


def test_it_waits_for_a_cell_whose_sweep_was_killed(tmp_path, cells, monkeypatch):
    directory = tmp_path / "w" / cells[0].name
    executor, context = FakeExecutor(), workdir.lock(directory)
    context.__enter__()
    monkeypatch.setattr(sweep.time, "sleep", lambda _: context.__exit__(None, None, None))
    _, said = run(tmp_path, cells[:1], executor)
    assert f"waiting for the process that still trains in {directory}" in said
    assert len(executor.jobs) == 1


def test_a_dry_run_prints_commands_for_a_shell_and_writes_nothing(tmp_path, cells):
    out = io.StringIO()
    sweep.print_commands(tmp_path / "a b", cells, COMMAND, out)
    lines = out.getvalue().splitlines()
    assert len(lines) == 4
    assert lines[0].startswith("python launch.py --config=tiny.py --config.model.attention.score=")
    assert lines[0].endswith(f"'--workdir={tmp_path}/a b/score=additive,seed=0'")
    assert list(tmp_path.iterdir()) == []


def test_a_directory_without_a_sweep_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"no sweep\.json here"):
        sweep.read_sweep(tmp_path)
    cell = {"name": "a", "values": {}}
    whole = {"cells": [cell], "starts": [{"command": []}], "notes": []}
    (tmp_path / sweep.SWEEP).write_text(json.dumps(whole))
    assert sweep.read_sweep(tmp_path) == whole
    damaged = [whole | {"cells": [5]}, whole | {"cells": [{"name": "a"}]}, whole | {"starts": [1]}]
    damaged += [whole | {"notes": None}, {}, [], None, 5]
    for content in ["", "{", *map(json.dumps, damaged)]:
        (tmp_path / sweep.SWEEP).write_text(content)
        with pytest.raises(InputError, match=r"sweep\.json: can't be read .*; move it away"):
            sweep.read_sweep(tmp_path)


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", "null"])
def test_a_failure_whose_reason_is_lost_is_still_one(tmp_path, content):
    (tmp_path / sweep.FAILED).write_text(content)
    assert "can't be read" in str(sweep.read_failure(tmp_path))


def test_notes_are_kept_once(tmp_path, cells):
    for _ in range(2):
        run(tmp_path, cells, FakeExecutor(), notes=["matched"])
    assert json.loads((tmp_path / "w" / sweep.SWEEP).read_text())["notes"] == ["matched"]


@pytest.mark.parametrize("name", ["../x", "/tmp/x", "", ".", "..", "a/b", "a\0b"])
def test_a_cell_that_lies_elsewhere_is_refused(name, tmp_path):
    entry = {"name": name, "values": {}}
    listed = {"cells": [entry], "starts": [], "notes": []}
    (tmp_path / sweep.SWEEP).write_text(json.dumps(listed))
    with pytest.raises(InputError, match="is no name of a cell"):
        sweep.read_sweep(tmp_path)
