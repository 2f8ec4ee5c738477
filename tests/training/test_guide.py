"""Training whose alignment is taught by given links: what it learns, records and refuses."""

import json
from pathlib import Path

import pytest
from same_run import quietly

from bahdanau_jax.config import Config
from bahdanau_jax.data.datasets.synthetic import CopyInsert
from bahdanau_jax.data.gold_links import format_line, parse_line
from bahdanau_jax.errors import InputError
from bahdanau_jax.evaluation.given_pairs import GivenPairs
from bahdanau_jax.evaluation.gold_comparison import align_pairs, count_methods
from bahdanau_jax.evaluation.trained_run import open_run
from bahdanau_jax.workdir.metrics_log import read_metrics

LONGEST = 6  # letters of a source
STEPS = 60


def write_task(directory: Path) -> None:
    """Writes pairs whose alignment is known: copies with marks, and the links of the first."""
    sources = [s for s in CopyInsert.sources(6000) if len(s.split()) <= LONGEST]
    directory.mkdir()
    for name, part in (("train", sources[:700]), ("dev", sources[700:760])):
        lines = [f"{source}\t{CopyInsert.target(source)}\n" for source in part]
        (directory / f"{name}.tsv").write_text("".join(lines))
        links = [format_line((i, j) for j, i in enumerate(CopyInsert.alignment(s))) for s in part]
        (directory / f"{name}.links").write_text("\n".join(links) + "\n")


def config_of(directory: Path, guide: float) -> Config:
    config = Config()
    data, model, run = config.data, config.model, config.train
    data.source, data.max_length, data.shapes = f"tsv:{directory}", 2 * LONGEST, 2
    data.vocabulary.kind, data.vocabulary.size = "symbols", 0
    model.embedding = model.encoder.units = model.decoder.units = 16
    model.attention.units = model.readout_units = 16
    run.steps, run.batch_size, run.log_every = STEPS, 32, 10
    run.eval_every, run.checkpoint_every, run.learning_rate = 30, 20, 1e-2
    run.guide = guide
    if guide:
        data.train_links = str(directory / "train.links")
    config.evaluation.metrics, config.evaluation.samples = "error_rate", 0
    return config


@pytest.fixture(scope="module")
def task(tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("guide") / "task"
    write_task(directory)
    return directory


@pytest.fixture(scope="module")
def guided(task) -> Path:
    quietly(config_of(task, 1.0), task.parent / "guided")
    return task.parent / "guided"


def error_rate(task: Path, workdir: Path) -> float:
    """Returns the AER of a run's links on the development split."""
    run = open_run(workdir)
    lines = (task / "dev.tsv").read_text().splitlines()
    texts = [(source, target) for source, target in (line.split("\t") for line in lines)]
    source, target = run.vocabularies.source, run.vocabularies.target
    given = GivenPairs(texts, [(source.encode(s), target.encode(t)) for s, t in texts])
    gold = [parse_line(line) for line in (task / "dev.links").read_text().splitlines()]
    return count_methods(align_pairs(run, given), gold).methods["argmax"].aer


def test_guidance_lowers_the_alignment_error_rate(task, guided):
    plain = task.parent / "plain"
    quietly(config_of(task, 0.0), plain)
    rates = error_rate(task, plain), error_rate(task, guided)
    assert rates[1] < 10 < 40 < rates[0], rates
    taught = [x["train/guide"] for x in read_metrics(guided) if "train/guide" in x]
    assert len(taught) == STEPS // 10
    assert taught[0] > 1 > 0.3 > taught[-1] > 0
    first = next(x for x in read_metrics(guided) if "train/guide" in x)
    assert first["train/loss"] == pytest.approx(
        first["train/nll_per_token"] + first["train/guide"], rel=1e-6
    )
    assert not any("train/guide" in x for x in read_metrics(plain))


@pytest.mark.slow
def test_a_run_that_goes_on_is_the_same_and_its_links_must_be_too(task, guided, tmp_path):
    config, workdir = config_of(task, 1.0), tmp_path / "run"
    config.data.train_links = str(tmp_path / "links")
    lines = (task / "train.links").read_text()
    (tmp_path / "links").write_text(lines)
    config.train.steps = 20
    quietly(config, workdir)
    (workdir / "result.json").unlink()
    config.train.steps = STEPS
    (tmp_path / "links").write_text(lines.replace("0-0", "0-0 0-0", 1))
    with pytest.raises(InputError, match=r"the file of data\.train_links isn't what this run"):
        quietly(config, workdir)
    (tmp_path / "links").write_text(lines)
    quietly(config, workdir)
    (start, *_) = json.loads((workdir / "manifest.json").read_text())["starts"]
    assert len(start["fingerprints"]["links"]) == 16
    assert error_rate(task, workdir) == error_rate(task, guided)


def test_a_file_of_other_pairs_ends_the_run_in_one_line_before_anything_is_written(task, tmp_path):
    config = config_of(task, 1.0)
    config.data.train_links = str(task / "dev.links")
    with pytest.raises(InputError, match="60 lines of links, but the training text has 700 pairs"):
        quietly(config, tmp_path / "run")
    assert not (tmp_path / "run" / "config.json").exists()
