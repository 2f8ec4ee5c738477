import shutil
from pathlib import Path

import pytest
import tiny


@pytest.fixture
def finished_run(trained, tmp_path):
    """A copy of the trained run, with an experiment file that made it."""
    shutil.copytree(trained.directory, tmp_path / "run")
    (tmp_path / "spelling.py").write_text(
        f"import sys\nsys.path.append({str(Path(tiny.__file__).parent)!r})\nimport tiny\n"
        f"def get_config():\n    return tiny.config({trained.config.data.source!r})\n"
    )
    return tmp_path / "run"
