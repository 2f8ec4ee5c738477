"""Standard streams that take nothing, or only ASCII: what they change, and what they don't."""

import os
import shutil
import subprocess
import sys

import pytest
from launching import LAUNCH, run_with_streams
from same_run import result_of

from bahdanau_jax.workdir.metrics_log import read_metrics, read_result

TRAIN = ["--config=spelling.py", "--workdir=run"]
SCORE = ["--mode=score", "--workdir=run", "--split=dev"]
ASCII = {"PYTHONIOENCODING": "ascii"}
LATIN = {"PYTHONIOENCODING": "latin-1"}
C_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def in_shell(arguments, scratch, redirections, environment=None):
    """Runs launch.py as a shell does; returns its own status, in a pipe too, and what came out."""
    command = " ".join([sys.executable, str(LAUNCH), *arguments, redirections])
    return subprocess.run(
        ["bash", "-c", f"{command}; exit ${{PIPESTATUS[0]}}"],
        cwd=scratch,
        capture_output=True,
        env=os.environ | (environment or {}),
        timeout=300,
    )


# Standard output and standard error of a training, in this process's own words for them.
STREAMS = [
    pytest.param("pipe nobody reads", "pipe nobody reads", "utf-8", id="no reader"),
    pytest.param("full", "full", "utf-8", id="full"),
    pytest.param("closed", "closed", "utf-8", id="closed"),
    pytest.param("file", "file", "ascii", id="ascii"),
    pytest.param("full", "closed", "latin-1", id="mixed", marks=pytest.mark.slow),
    pytest.param("closed", "full", "ascii", id="mixed again", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("out", "err", "encoding"), STREAMS)
def test_streams_change_neither_result_nor_status_of_a_training(
    out, err, encoding, trained, finished_run, tmp_path
):
    """The run is at its last step, and gets its result again."""
    before = read_result(finished_run)
    (finished_run / "result.json").unlink()
    shutil.rmtree(finished_run / "evaluation")
    status = run_with_streams(TRAIN, tmp_path, out, err, encoding)
    assert status == 0
    after = read_result(finished_run)
    assert before and after
    assert {**after, "start": 0} == {**before, "start": 0}
    # No file of the run has got a closed stream's descriptor.
    assert read_metrics(finished_run) == read_metrics(trained.directory)
    if encoding == "ascii" and out == "file":
        shown = (tmp_path / ".out").read_bytes()
        assert shown.isascii() and rb"\u2260" in shown
        assert (tmp_path / ".err").read_bytes().isascii()


SHELLS = {
    "C locale, no reader of errors": ("2> >(true)", C_LOCALE),
    "latin-1, full output": (">/dev/full", LATIN),
    "ascii, reader of one line": ("| head -n 1", ASCII),
    "full error": ("2>/dev/full | true", {}),
    "all closed": ("<&- >&- 2>&-", {}),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", SHELLS)
def test_a_training_in_a_shell_comes_to_the_same_end_whatever_it_prints_to(
    case, trained, finished_run, tmp_path
):
    redirections, environment = SHELLS[case]
    done = in_shell([*TRAIN[:1], "--workdir=new"], tmp_path, redirections, environment)
    assert done.returncode == 0, done.stderr
    assert b"Traceback" not in done.stderr and b"Exception" not in done.stderr
    assert result_of(tmp_path / "new") == result_of(trained.directory)


# Modes whose output is standard output; `evaluate` has it in files, too.
OUTPUTS = {
    "help": ["--help"],
    "score": SCORE,
    "translate": ["--mode=translate", "--workdir=run", "--input=in.txt"],
    "evaluate": ["--mode=evaluate", "--workdir=run"],
}


@pytest.mark.parametrize(
    "mode", ["help", *(pytest.param(m, marks=pytest.mark.slow) for m in list(OUTPUTS)[1:])]
)
def test_an_output_that_cannot_be_written_is_an_error_in_one_line(mode, finished_run, tmp_path):
    (tmp_path / "in.txt").write_text("fed\ncafe\n")
    for redirection, word in ((">/dev/full", "No space left"), (">&-", "Bad file descriptor")):
        done = in_shell(OUTPUTS[mode], tmp_path, redirection)
        (*before, last) = done.stderr.decode().splitlines()
        assert done.returncode == 1, done.stderr
        assert last.startswith("launch.py: ") and word in last and "standard output" in last
        assert not any("Traceback" in line or "Exception" in line for line in before)


@pytest.mark.parametrize(
    "mode", ["help", *(pytest.param(m, marks=pytest.mark.slow) for m in list(OUTPUTS)[1:])]
)
def test_a_reader_that_goes_away_ends_a_mode_quietly(mode, finished_run, tmp_path):
    (tmp_path / "in.txt").write_text("fed\ncafe\n")
    done = in_shell(OUTPUTS[mode], tmp_path, "| true")
    assert done.returncode == 141
    assert b"launch.py" not in done.stderr and b"Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["--bad"]])
def test_a_standard_error_that_takes_nothing_changes_no_status(arguments, tmp_path):
    expected = in_shell(arguments, tmp_path, "2>/dev/null")
    for redirection in ("2>/dev/full", "2>&-"):
        done = in_shell(arguments, tmp_path, redirection)
        assert (done.returncode, done.stdout) == (expected.returncode, expected.stdout)
