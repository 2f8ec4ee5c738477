"""Workdirs as finished runs leave them, written without training."""

import json

from bahdanau_jax.data.corpus import Corpus
from bahdanau_jax.data.vocabularies import build_vocabularies
from bahdanau_jax.evaluation import metrics
from bahdanau_jax.fields import to_dict
from bahdanau_jax.workdir import directory as workdir
from bahdanau_jax.workdir import metrics_log

WRONG = {"additive": 0.2, "projected": 0.6, "uniform": 0.6}  # share of outputs that are spoilt


def spoil(texts, share, chance):
    return [f"{text} X" if chance.random() < share else text for text in texts]


def write_run(directory, cell, chance):
    """Writes what a finished run leaves behind, with outputs made up."""
    data = cell.config.data
    corpus = Corpus(data)
    directory.mkdir()
    workdir.write_config(directory, cell.config)
    build_vocabularies(data.vocabulary, corpus.pairs()).save(directory / "vocabulary")
    examples = list(corpus.examples("test"))
    share = WRONG[cell.config.model.attention.score]
    outputs = spoil([e.references[0] for e in examples], share, chance)
    (directory / "outputs").mkdir()
    (directory / "outputs" / "test.txt").write_text("".join(f"{x}\n" for x in outputs))
    counts = metrics.error_counts(
        [x.split() for x in outputs], [[r.split() for r in e.references] for e in examples]
    )
    tokens = [len(e.references[0].split()) + 1 for e in examples]
    mean = share + chance.random() / 50
    nll = [mean * n * (1 + n % 3) for n in tokens]
    (directory / "evaluation").mkdir()
    lines = "".join(f"{loss!r}\t{n}\n" for loss, n in zip(nll, tokens, strict=True))
    (directory / "evaluation" / "test-likelihood.tsv").write_text(lines)
    result = {
        "step": 20,
        "parameters": 1000,
        "dev/wer": counts.wer,
        "test/wer": counts.wer,
        "test/per": counts.by_symbol,
        "test/exact_match": 100 - counts.wer,
        "test/nll_per_token": sum(nll) / sum(tokens),
        "test/note": "text",
    }
    metrics_log.write_result(directory, result)
    with metrics_log.MetricsWriter(directory, mirror=False) as writer:
        for step in (10, 20):
            loss = share + 1 / step + chance.random() / 9
            speed = {"speed/step_seconds": 0.1, "speed/target_tokens_per_second": 1000.0 + step}
            writer.write(step, {"train/loss": loss, "dev/wer": 100 * share, **speed})
    start = {
        "git": {"commit": "c0ffee", "dirty": False},
        "versions": {"jax": "0.0.1"},
        "devices": {"kind": "<cpu>"},
        "fingerprints": {"data/train": "f00d", "data/test": corpus.fingerprint("test")},
        "config": to_dict(cell.config),
    }
    (directory / "manifest.json").write_text(json.dumps({"starts": [start]}))
