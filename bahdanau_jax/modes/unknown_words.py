"""Unknown words of an output, replaced by what they are aligned with.

Luong et al. 2015b (arXiv 1410.8206), section 3, and Jean et al. 2015 (arXiv 1412.2007), section
3.3: the source word that an unknown word attends to most is looked up in a lexicon, or copied.
"""

from pathlib import Path

import numpy as np

from bahdanau_jax.data.vocabularies import Vocabulary
from bahdanau_jax.errors import InputError
from bahdanau_jax.evaluation.word_alignment import WordAlignment
from bahdanau_jax.lines import read_lines
from bahdanau_jax.special_ids import UNK

Lexicon = dict[str, str]  # source word -> target word


def read_lexicon(path: str) -> Lexicon:
    """Reads a lexicon: a source word and its translation a line, with a tab between.

    Args:
      path: of the file; the first line of a source word counts, empty lines are skipped.

    Raises:
      InputError: it can't be read, or a line isn't two words; names the line.
    """
    lexicon: Lexicon = {}
    for number, line in enumerate(read_lines(Path(path)), 1):
        columns = line.split("\t")
        if not line.strip():
            continue
        if len(columns) != 2 or not all(columns):
            raise InputError(
                f"{path}, line {number}: a line of a lexicon is a source word, a tab and its "
                "translation"
            )
        lexicon.setdefault(columns[0], columns[1])
    return lexicon


def replace_unknown(
    vocabulary: Vocabulary, ids: list[int], alignment: WordAlignment, lexicon: Lexicon
) -> str:
    """Returns the text of an output whose unknown words are replaced.

    Args:
      vocabulary: of the target.
      ids: the output's tokens.
      alignment: of its words with those of the source.
      lexicon: translations of source words; a word that isn't there is copied.
    """
    ends = np.cumsum(vocabulary.word_lengths(ids)).tolist()
    words = list(alignment.target)
    for place, (begin, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
        if UNK in ids[begin:end] and alignment.source:
            source = alignment.source[int(alignment.weights[place, :-1].argmax())]
            words[place] = lexicon.get(source, source)
    return vocabulary.separator.join(words)
