"""Batches that gave no finite loss or gradient, kept so that what they did can be seen again."""

import logging
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from bahdanau_jax.data.token_store import TokenStore
from bahdanau_jax.data.vocabularies import Vocabularies, Vocabulary
from bahdanau_jax.durable import write_atomically
from bahdanau_jax.special_ids import EOS
from bahdanau_jax.workdir import metrics_log

DIRECTORY = "skipped"


def write(
    directory: Path,
    batch: int,
    pairs: np.ndarray,
    store: TokenStore,
    vocabularies: Vocabularies,
    figures: Mapping[str, float],
) -> Path:
    """Writes `skipped/BATCH.json`: the batch's number, its figures and its sentences.

    A disk that has no room for it is a warning, not the end of the run.

    Args:
      directory: the workdir.
      batch: the number of the batch, the same as of the updates before it.
      pairs: int64[n], the numbers of its pairs in the store.
      store: the training pairs.
      vocabularies: of both sides.
      figures: what was wrong, by name.

    Returns:
      The file's path.
    """
    path = directory / DIRECTORY / f"{batch:08d}.json"
    width = int(max(store.source_lengths[pairs].max(), store.target_lengths[pairs].max()))
    sources = _texts(store.sources(pairs, len(pairs), width), vocabularies.source)
    targets = _texts(store.targets(pairs, len(pairs), width), vocabularies.target)
    sentences = [
        {"pair": int(number), "source": source, "target": target}
        for number, source, target in zip(pairs, sources, targets, strict=True)
    ]
    try:
        path.parent.mkdir(exist_ok=True)
        write_atomically(
            path, metrics_log.to_json({"batch": batch, **figures, "sentences": sentences})
        )
    except OSError as error:
        logging.warning("%s can't be written (%s)", path, error.strerror)
    return path


def _texts(ids: np.ndarray, vocabulary: Vocabulary) -> list[str]:
    """Returns the text of each row, which ends before its end mark."""
    rows = ids.tolist()
    return [vocabulary.decode(row[: row.index(EOS)]) for row in rows]
