"""Parallel text in files, opened as a corpus."""

from bahdanau_jax.config import DataConfig
from bahdanau_jax.data.corpus import Corpus


def text(directory, source_language="de", target_language="en", lowercase=False):
    source = f"text:{directory}"
    return Corpus(DataConfig(source, source_language, target_language, lowercase=lowercase))


def tsv(directory, lowercase=False):
    return Corpus(DataConfig(f"tsv:{directory}", lowercase=lowercase))
