"""BLEU's tokenisers: whether the one that is named works here, and whether it suits the text."""

import itertools
import unicodedata
from collections import Counter
from collections.abc import Iterable

from bahdanau_jax.config import EvaluationConfig
from bahdanau_jax.errors import InputError, flat

LOOKED_AT = 1000  # references, which say what script a text is in


def check(config: EvaluationConfig) -> None:
    """Raises InputError if BLEU's tokeniser isn't installed, or can't be loaded."""
    if config.metrics != "bleu" or config.tokenize == "13a":
        return
    from sacrebleu.metrics.bleu import BLEU

    try:
        BLEU(force=True, tokenize=config.tokenize).corpus_score(["a"], [["a"]])
    except (ImportError, RuntimeError, OSError) as error:
        why = flat(error)
        raise InputError(
            f"evaluation.tokenize={config.tokenize} can't be used here: {why}"
        ) from error


def advice(config: EvaluationConfig, references: Iterable[str]) -> str:
    """Returns a warning where 13a is to divide text that isn't in Latin script; else nothing.

    It is made for Latin script: it divides at spaces and at Western punctuation. A Chinese sentence
    is one word to it.

    Args:
      config: `metrics` and `tokenize` are read.
      references: the text, of which the beginning is looked at.
    """
    if config.metrics != "bleu" or config.tokenize != "13a":
        return ""
    counts = Counter[str]()
    for text in itertools.islice(references, LOOKED_AT):
        counts.update(text)
    letters = {c: count for c, count in counts.items() if c.isalpha()}
    latin = sum(n for c, n in letters.items() if unicodedata.name(c, "").startswith("LATIN"))
    if 2 * latin >= sum(letters.values()):
        return ""
    return (
        "most of the target text isn't in Latin script, for which BLEU's tokeniser 13a is made; "
        "set evaluation.tokenize: zh, ja-mecab or ko-mecab for these languages, intl, char or "
        "flores200 for others"
    )
