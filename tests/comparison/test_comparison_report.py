import io
import json
import shutil

import pytest

from bahdanau_jax.comparison.report import PAGE, TABLE, report
from bahdanau_jax.fields import to_json
from bahdanau_jax.sweeps import grid, sweep
from bahdanau_jax.workdir import directory as workdir


def forget_identity(directory):
    """Makes a run one of a version that named none, so that its configuration may be another."""
    for name in ("manifest.json", "result.json"):
        values = json.loads((directory / name).read_text())
        del values["run"], values["checksum"]
        (directory / name).write_text(json.dumps(values))


@pytest.fixture
def swept(trained, tmp_path):
    """Two cells that came to the same, both with the checkpoints of the trained run."""
    cells = grid.expand(trained.config, ["learning_rate=0.02,0.01"])
    sweep.list_cells(tmp_path, cells, [])
    for cell in cells:
        shutil.copytree(trained.directory, tmp_path / cell.name)
        (tmp_path / cell.name / workdir.CONFIG).write_text(to_json(cell.config))
        forget_identity(tmp_path / cell.name)
    return tmp_path


def test_a_report_of_trained_runs_has_their_alignments_side_by_side(swept, capsys):
    stream = io.StringIO()
    report(swept, stream)
    lines = stream.getvalue().splitlines()
    assert lines[2].startswith("| learning_rate=0.02 | 1 | ")
    equal = "learning_rate=0.02 and learning_rate=0.01: no difference beyond the noise"
    assert lines[lines.index("WER of test:") + 2].startswith(f"- {equal} (0.00 WER")
    assert lines[lines.index("PER of test:") + 2].startswith(f"- {equal} (0.00 PER")
    page = (swept / PAGE).read_text()
    # Three sentences, two configurations, each a map of cells, and the same outputs in both.
    assert page.count('aria-label="alignment"') == 6
    assert page.count("learning_rate=0.01: ") >= 3
    assert page.count('class="cell"') > 6 * 4
    # Where alignments are shown it is said that weights may lie beside, and by how many positions.
    assert "may lie beside the token" in page and "<th>test/offset</th>" in page
    # One seed each: nothing is said of a noise between seeds.
    assert "over both" not in page and "<td>sentences and seeds</td>" not in page
    assert "<td>sentences</td>" in page and "Each configuration has one seed." in page
    assert (swept / TABLE).read_text().count("\n") == 3
    assert f"the report is {swept / PAGE}" in capsys.readouterr().err


def test_without_saved_alignments_all_else_is_there(swept):
    for cell in swept.glob("learning_rate=*"):
        shutil.rmtree(cell / "checkpoints")
        (cell / "alignments" / "test.jsonl").unlink()
    report(swept, io.StringIO())
    page = (swept / PAGE).read_text()
    assert 'aria-label="alignment"' not in page
    assert "Quality by source length" in page
