import shutil

import pytest
from launching import tree_hash

from bahdanau_jax.evaluation.trained_run import open_run
from bahdanau_jax.modes.evaluate import OTHERWISE, evaluate
from bahdanau_jax.workdir.selection import Average

OWN = ("outputs", "alignments", "evaluation")


@pytest.fixture
def directory(trained, tmp_path):
    return shutil.copytree(trained.directory, tmp_path / "run")


@pytest.mark.parametrize(
    ("checkpoint", "settings", "folder"),
    [
        ("best", {"decode.temperature": 3.0}, "temperature=3.0"),
        (
            "best",
            {"decode.beam_size": 2, "decode.length_penalty": "none"},
            "beam_size=2,length_penalty=none",
        ),
        ("latest", {}, "checkpoint=latest"),
        ("best", {"evaluation.tokenize": "char"}, "tokenize=char"),
        (Average(2), {"decode.batch_size": 5}, "checkpoint=average:2"),
    ],
)
def test_outputs_of_other_settings_leave_the_runs_own_alone(
    directory, checkpoint, settings, folder
):
    before = [tree_hash(directory / name) for name in OWN]
    evaluate(open_run(directory, checkpoint, settings), directory, "test", checkpoint=checkpoint)
    assert [tree_hash(directory / name) for name in OWN] == before
    place = directory / OTHERWISE / folder
    assert {path.name for path in place.iterdir()} == set(OWN)
    assert (place / "outputs" / "test.txt").exists()


def test_outputs_of_the_runs_own_settings_are_its_own(directory):
    written = (directory / "outputs" / "test.txt").read_bytes()
    (directory / "outputs" / "test.txt").unlink()
    evaluate(open_run(directory, "best", {"decode.batch_size": 3}), directory, "test")
    assert (directory / "outputs" / "test.txt").read_bytes() == written
    assert not (directory / OTHERWISE).exists()


def test_figures_are_printed_where_they_cannot_be_written(directory, capsys):
    shutil.rmtree(directory / "evaluation")
    (directory / "evaluation").write_text("no folder")
    evaluate(open_run(directory), directory, "test")
    printed = capsys.readouterr()
    assert "test/wer\t" in printed.out and "interval of wer" in printed.out
    assert f"{directory} can't be written to (File exists)" in printed.err
    assert (directory / "evaluation").read_text() == "no folder"
