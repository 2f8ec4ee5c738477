"""The mode `translate`: lines in, lines out, n-best lists, alignments, unknown words replaced.

Unknown words: Luong et al. 2015b (arXiv 1410.8206), section 3, and Jean et al. 2015 (arXiv
1412.2007), section 3.3: the source word that an unknown word attends to most is looked up in a
lexicon, or copied.
"""

import contextlib
import dataclasses
import itertools
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple, TextIO

from bahdanau_jax.data.corpus import normalize, source_text
from bahdanau_jax.data.gold_links import format_line
from bahdanau_jax.data.token_store import TokenStore
from bahdanau_jax.data.vocabularies import Vocabulary
from bahdanau_jax.errors import InputError
from bahdanau_jax.evaluation.alignment_measures import argmax_links
from bahdanau_jax.evaluation.decoding import Output, alignment_json
from bahdanau_jax.evaluation.given_pairs import CHUNK
from bahdanau_jax.evaluation.trained_run import TrainedRun, open_ensemble
from bahdanau_jax.evaluation.unfamiliar import Unfamiliar
from bahdanau_jax.evaluation.word_alignment import WordAlignment, word_alignment
from bahdanau_jax.fields import Value
from bahdanau_jax.lines import InOrder, chunks, one_column, open_input, open_output, read_lines
from bahdanau_jax.terminal import Counter, counted
from bahdanau_jax.workdir.selection import Selection

Lexicon = dict[str, str]  # source word -> target word


@dataclasses.dataclass(frozen=True)
class Wanted:
    """What is to be written for each line."""

    nbest: int = 0  # 0: the best output's text; else so many lines of rank, score and text
    lexicon: Lexicon | None = None  # None: unknown words stay; else they are looked up or copied
    alignments: str = ""  # json | pharaoh, one line an output; empty: none

    @property
    def needs_alignments(self) -> bool:
        """Whether the search has to return them."""
        return bool(self.alignments) or self.lexicon is not None


EMPTY = {"json": '{"source": [], "target": [], "alignment": []}', "pharaoh": "", "": ""}


TEXT_ALONE = Wanted()


class Files(NamedTuple):
    """Paths of what is read and written; None: standard input or output, or nothing."""

    input: str | None = None
    output: str | None = None
    prefixes: str | None = None
    alignments: str | None = None

    def alignment_format(self, named: str | None) -> str:
        """Returns the format of the alignments, empty where there are none.

        Args:
          named: json or pharaoh; None: as the file's ending says.
        """
        if not self.alignments:
            return ""
        return named or ("pharaoh" if self.alignments.endswith(".pharaoh") else "json")


def translate_files(
    members: list[tuple[Path, Selection]],
    settings: Mapping[str, Value],
    wanted: Wanted,
    files: Files,
) -> None:
    """Translates the lines of a file with one trained run, or with several as one model.

    Args:
      members: workdir and checkpoint of each.
      settings: fields of `decode`, by path, that replace those of the first run.
      wanted: what is written of each line.
      files: where lines come from and go to.

    Raises:
      InputError: as `translate`; or a run, or one of the files, can't be used.
    """
    paths = [os.path.realpath(path) for path in (files.output, files.alignments) if path]
    if len(paths) > len(set(paths)):
        raise InputError("--output and --alignments name the same file; give each its own")
    with contextlib.ExitStack() as stack:
        lines = stack.enter_context(open_input(files.input))
        run = open_ensemble(members, settings)
        out = stack.enter_context(open_output(files.output))
        alignments = prefixes = None
        if files.alignments:
            alignments = stack.enter_context(open_output(files.alignments))
        if files.prefixes:
            begun = stack.enter_context(open_input(files.prefixes, "--prefixes"))
            prefixes = read_lines(begun, files.prefixes)
        translate(run, lines, out, wanted, alignments, prefixes)


def translate(
    run: TrainedRun,
    lines: BinaryIO,
    out: TextIO,
    wanted: Wanted = TEXT_ALONE,
    alignments: TextIO | None = None,
    prefixes: Iterator[str] | None = None,
) -> None:
    """Writes one output for every line, in the order of the lines and as soon as it's known.

    Args:
      run: the trained model.
      lines: UTF-8 text; a line that is empty or blank gives an empty line.
      out: where outputs go.
      wanted: what is written of each.
      alignments: where alignments go; None where they aren't wanted.
      prefixes: what each line's outputs must begin with; None: anything.

    Raises:
      InputError: a line is not valid UTF-8, or there are more lines than prefixes, or fewer; what
        came before has been written. Or more outputs are asked for than the search keeps.
    """
    decode = run.config.decode
    if wanted.nbest > decode.beam_size and not decode.temperature:
        raise InputError(
            f"--nbest={wanted.nbest} needs a beam of as many hypotheses; decode.beam_size is "
            f"{decode.beam_size}: give --beam_size={wanted.nbest}"
        )
    streams = (out,) if alignments is None else (out, alignments)
    nothing = ("\n", EMPTY[wanted.alignments] + "\n")
    unfamiliar, first = Unfamiliar(run.config.data.max_length, "line"), 0
    if wanted.lexicon is not None:
        lexicon = normalized(wanted.lexicon, run.config.data.lowercase)
        wanted = dataclasses.replace(wanted, lexicon=lexicon)
    with Counter("lines", out) as counter:
        for chunk in chunks(read_lines(lines), decode.batch_size, CHUNK):
            texts = [normalize(text, run.config.data.lowercase) for text in chunk]
            ids = [encode(run, text) for text in texts]
            for text, sentence in zip(texts, ids, strict=True):
                unfamiliar.add((run.vocabularies.source, text, sentence))
            writer = InOrder(streams, [None if sentence else nothing for sentence in ids])
            begun = _beginnings(run, prefixes, first, len(chunk))
            places = [place for place, sentence in enumerate(ids) if sentence]
            searched = run.evaluator.search.stream(
                run.params,
                TokenStore.from_pairs([(ids[place], begun[place]) for place in places]),
                nbest=max(wanted.nbest, 1),
                names=[first + place for place in places],
                forced=prefixes is not None,
                alignments=wanted.needs_alignments,
            )
            for number, outputs in searched:
                place = places[number]
                writer.put(place, _output_lines(run, wanted, texts[place], ids[place], outputs))
                counter.update(first + writer.written)
            first += len(chunk)
    if prefixes is not None and next(prefixes, None) is not None:
        raise InputError(
            f"--prefixes has more lines than the input, which has {first:,}; give one for each"
        )
    unfamiliar.tell()


def encode(run: TrainedRun, text: str) -> list[int]:
    """Returns the ids of a line that `normalize` returned, none if it is blank."""
    return run.vocabularies.source.encode(source_text(text))


def _beginnings(
    run: TrainedRun, prefixes: Iterator[str] | None, first: int, count: int
) -> list[list[int]]:
    """Returns the ids with which the outputs of the next lines begin."""
    if prefixes is None:
        return [[]] * count
    texts = list(itertools.islice(prefixes, count))
    if len(texts) < count:
        raise InputError(
            f"--prefixes has {counted(first + len(texts), 'line')}, and the input has more; give a "
            "line for each, an empty one where nothing is forced"
        )
    lowercase = run.config.data.lowercase
    return [run.vocabularies.target.encode(normalize(text, lowercase)) for text in texts]


def _output_lines(
    run: TrainedRun, wanted: Wanted, text: str, ids: list[int], outputs: list[Output]
) -> tuple[str, str]:
    """Returns what is written for one line: its outputs, and their alignments, with line ends.

    Args:
      run: the trained model.
      wanted: what is to be written.
      text: the line as the model saw it.
      ids: its tokens.
      outputs: the best first.
    """
    texts, alignments = [], []
    for rank, output in enumerate(outputs, 1):
        made, alignment = run.evaluator.text(output), ""
        # Of a very long line there are none.
        if wanted.needs_alignments and output.alignment.shape[1]:
            tokens = output.tokens
            rows = output.alignment[: len(tokens)]  # without that of the end mark
            words = word_alignment(run.vocabularies, (text, made), (ids, tokens), rows)
            if wanted.lexicon is not None:
                made = replace_unknown(run.vocabularies.target, tokens, words, wanted.lexicon)
            if wanted.alignments == "pharaoh":
                alignment = format_line(argmax_links(words.weights))
            elif wanted.alignments:
                alignment = alignment_json(run.vocabularies, ids, output)
        made = one_column(made)
        texts.append(f"{rank}\t{output.score:.4f}\t{made}\n" if wanted.nbest else f"{made}\n")
        alignments.append(f"{alignment or EMPTY[wanted.alignments]}\n")
    return "".join(texts), "".join(alignments) if wanted.alignments else ""


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


def normalized(lexicon: Lexicon, lowercase: bool) -> Lexicon:
    """Returns a lexicon whose source words are written as the model's sources are.

    Args:
      lexicon: of words that become one, the first counts.
      lowercase: as `data.lowercase`.
    """
    words: Lexicon = {}
    for word, translation in lexicon.items():
        words.setdefault(normalize(word, lowercase), translation)
    return words


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
    words = list(alignment.target)
    for place, unknown in enumerate(vocabulary.unknown_words(ids)):
        weights = alignment.weights[place, :-1]
        # A window may leave a word without any weight: its position is not known then.
        if unknown and weights.any():
            source = alignment.source[int(weights.argmax())]
            words[place] = lexicon.get(source, source)
    return vocabulary.separator.join(words)
