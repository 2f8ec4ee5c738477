import contextlib

import pytest
import tiny

from bahdanau_jax.errors import InputError
from bahdanau_jax.runtime import processes
from bahdanau_jax.training import agreement
from bahdanau_jax.workdir import manifest


@pytest.fixture
def compare(monkeypatch, tmp_path):
    """Returns a function that compares this process with one that was started as this one."""
    experiment = tmp_path / "experiment.py"
    experiment.write_text("1\n")
    monkeypatch.setattr(processes, "count", lambda: 2)
    monkeypatch.setattr(processes, "together", contextlib.nullcontext)

    def check(config, given=False):
        agreement.check_processes(config, experiment, {"init_from": given})

    start = {}
    monkeypatch.setattr(processes, "from_first", lambda mine: start.setdefault("first", mine))
    check(tiny.config("tsv:x"))
    return check, experiment


def test_processes_that_were_started_alike_agree(compare):
    compare[0](tiny.config("tsv:x"))


def test_every_field_that_differs_is_named(compare):
    config = tiny.config("tsv:x")
    config.seed, config.train.steps = 1, 61
    with pytest.raises(
        InputError, match=r"seed is 1 and 0 there; train\.steps is 61 and 60 there; start all"
    ):
        compare[0](config)


def test_versions_texts_and_flags_are_compared(compare, monkeypatch, tmp_path):
    check, experiment = compare
    config = tiny.config("tsv:x")
    with pytest.raises(InputError, match="process 0: --init_from is given in one of them only"):
        check(config, given=True)
    with monkeypatch.context() as patch:
        others = manifest.versions() | {"jax": "0.0.1"}
        patch.setattr(manifest, "versions", lambda: others)
        with pytest.raises(InputError, match=r"process 0: jax is 0\.0\.1 and .* there"):
            check(config)
    with monkeypatch.context() as patch:
        (tmp_path / "package.py").write_text("2\n")
        patch.setattr(agreement.bahdanau_jax, "__file__", str(tmp_path / "__init__.py"))
        with pytest.raises(InputError, match="process 0: the package's source has another text"):
            check(config)
    experiment.write_text("3\n")
    with pytest.raises(InputError, match="process 0: the experiment file has another text"):
        check(config)
    experiment.unlink()
    with pytest.raises(InputError, match=r"experiment\.py: can't be read"):
        check(config)
