"""The table of metrics, and those of outputs: PER or CER, WER, BLEU, chrF, TER, exact match.

Counts are summed over the sentences and divided once, at the end.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from rapidfuzz.distance import Levenshtein

from bahdanau_jax.config import Config
from bahdanau_jax.data.vocabulary import split_words

_BOTH = ("error_rate", "bleu")

FromSums = Callable[[np.ndarray], np.ndarray]  # sums float64[..., K] -> figures float64[...]


def percent(sums: np.ndarray) -> np.ndarray:
    """Returns a rate in percent, `float64[...]`, of `[..., (part, whole)]`; nan of no whole."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return 100.0 * sums[..., 0] / sums[..., 1]


def _ratio(sums: np.ndarray) -> np.ndarray:
    return percent(sums) / 100.0


def _perplexity(sums: np.ndarray) -> np.ndarray:
    return np.exp(np.minimum(_ratio(sums), 700.0))


def _alignment_error(sums: np.ndarray) -> np.ndarray:
    chosen, sure, chosen_sure, chosen_possible = np.moveaxis(sums, -1, 0)
    right = np.stack([chosen_sure + chosen_possible, chosen + sure], axis=-1)
    return 100.0 - percent(right)


def _bleu(sums: np.ndarray) -> np.ndarray:
    from sacrebleu.metrics.bleu import BLEU

    return _sacrebleu(BLEU(force=True), sums)


def _chrf(sums: np.ndarray) -> np.ndarray:
    from sacrebleu.metrics.chrf import CHRF

    return _sacrebleu(CHRF(), sums)


def _sacrebleu(metric: Any, sums: np.ndarray) -> np.ndarray:
    # Its lower-level step: the public ones start from text, for every sample again.
    rows = sums.reshape(-1, sums.shape[-1])
    scores = [metric._compute_score_from_stats([int(x) for x in row]).score for row in rows]
    return np.array(scores).reshape(sums.shape[:-1])


class Metric(NamedTuple):
    """A figure of a split, and all that is said of it anywhere.

    Attributes:
      name: in results, as `wer`.
      shown: its name for people.
      unit: empty where it has none.
      better: which direction is better; `neither` of what only describes.
      kinds: the values of `evaluation.metrics` with which it is computed for every split; none
        where it takes alignments that are known or gold links.
      from_sums: computes it from sums over sentences (`breakdown.SentenceSums`); None where it
        isn't made of such sums.
      in_tables: whether it stands in a comparison's tables.
    """

    name: str
    shown: str
    unit: str
    better: Literal["higher", "lower", "neither"]
    kinds: tuple[str, ...] = ()
    from_sums: FromSums | None = None
    in_tables: bool = True

    @property
    def title(self) -> str:
        """The name for people with the unit, as `WER, %`."""
        return f"{self.shown}, {self.unit}" if self.unit else self.shown


# In the order of a table's columns. A row here is the whole of a metric but for its computation:
# `figures` below, and `breakdown.sentence_sums` if it has `from_sums`. Those of a kind may be
# `train.metric`, if they are in tables: `allowed.py` lists them too.
METRICS = {
    metric.name: metric
    for metric in (
        Metric("wer", "WER", "%", "lower", ("error_rate",), percent),
        Metric("per", "PER", "%", "lower", ("error_rate",), percent),
        Metric("cer", "CER", "%", "lower", ("error_rate",), percent),
        Metric("bleu", "BLEU", "", "higher", ("bleu",), _bleu),
        Metric("chrf", "chrF", "", "higher", ("bleu",), _chrf),
        Metric("ter", "TER", "%", "lower", ("bleu",), percent),
        Metric("exact_match", "exact match", "%", "higher", _BOTH, percent),
        Metric("nll_per_token", "nats per token", "", "lower", _BOTH, _ratio),
        Metric("aer", "AER", "%", "lower", (), _alignment_error),
        Metric("alignment_accuracy", "alignment accuracy", "%", "higher"),
        Metric("entropy", "entropy", "nats", "neither"),
        Metric("end_weight", "end weight", "%", "neither"),
        Metric("unattended", "unattended", "%", "neither"),
        Metric("offset", "offset", "positions", "neither"),
        Metric("bleu_lowercase", "lowercased BLEU", "", "higher", ("bleu",), _bleu, False),
        Metric("loss", "training loss", "", "lower", in_tables=False),
        Metric("perplexity", "perplexity", "", "lower", _BOTH, _perplexity, False),
        Metric("alignment_precision", "alignment precision", "%", "higher", in_tables=False),
        Metric("alignment_recall", "alignment recall", "%", "higher", in_tables=False),
        Metric("aer_at_offset", "AER at the offset", "%", "lower", in_tables=False),
        Metric("aer_diagonal", "AER of the diagonal", "%", "neither", in_tables=False),
        Metric("aer_uniform", "AER of uniform weights", "%", "neither", in_tables=False),
        Metric("aer_eflomal", "AER of eflomal", "%", "neither", in_tables=False),
        Metric("sentences", "sentences", "", "neither", _BOTH, in_tables=False),
        Metric("unended", "unended outputs", "", "neither", _BOTH, in_tables=False),
    )
}


def direction(name: str) -> Literal["higher", "lower", "neither"] | None:
    """Returns which direction of a figure, as `bleu` or `test/bleu`, is better; None: unknown."""
    metric = METRICS.get(name.rsplit("/", 1)[-1])
    return None if metric is None else metric.better


def higher_is_better(name: str) -> bool:
    """Returns whether a higher value of a figure, as `bleu` or `test/bleu`, is the better one."""
    return direction(name) == "higher"


def compared(kind: str) -> list[Metric]:
    """Returns the metrics by which configurations are compared, the one that decides first.

    Args:
      kind: `error_rate` or `bleu`, as `evaluation.metrics`.

    Returns:
      Those in tables that have a direction; a split may lack those that take known alignments.
    """
    return [
        metric
        for metric in METRICS.values()
        if metric.in_tables and metric.better != "neither" and kind in (metric.kinds or (kind,))
    ]


class Scoring(NamedTuple):
    """How outputs are scored.

    Attributes:
      kind: `error_rate` or `bleu`, as `evaluation.metrics`.
      tokenize: BLEU's tokeniser, as `evaluation.tokenize`.
      characters: whether each character of the target is a symbol, so that errors by symbol are CER
        and not PER.
    """

    kind: str
    tokenize: str = "13a"
    characters: bool = False

    @classmethod
    def of(cls, config: Config) -> "Scoring":
        """Returns what a configuration says of it."""
        evaluation, target = config.evaluation, config.data.vocabulary.of_target
        return cls(evaluation.metrics, evaluation.tokenize, target == "characters")

    @property
    def by_symbol(self) -> str:
        """The name of the error rate by symbol."""
        return "cer" if self.characters else "per"

    def symbols(self, text: str) -> Sequence[str]:
        """Returns the symbols of a text, in which errors are counted."""
        return writable(text) if self.characters else split_words(text)


def writable(text: str) -> str:
    """Returns a text without the spaces (U+0020) that say nothing: at its ends, and doubled.

    A vocabulary whose tokens are words or pieces can't write them, so that no output can miss them.
    """
    return " ".join(split_words(text))


def figures(
    scoring: Scoring, texts: Sequence[str], references: Sequence[Sequence[str]]
) -> dict[str, float | str]:
    """Computes the metrics of outputs.

    Args:
      scoring: the kind decides between PER or CER with WER, and BLEU, chrF and TER with sacreBLEU's
        signatures.
      texts: an output for each sentence.
      references: one or more for each sentence.

    Returns:
      Figures by name, the share of exact matches among them. `bleu_lowercase` ignores case, for
      comparison with papers that tokenised and lowercased.
    """
    if scoring.kind == "error_rate":
        symbols = scoring.symbols
        counts = error_counts(
            [symbols(text) for text in texts], [[symbols(r) for r in known] for known in references]
        )
        by_symbol = {scoring.by_symbol: counts.by_symbol}
        return {**by_symbol, "wer": counts.wer, "exact_match": 100.0 - counts.wer}
    computed: dict[str, float | str] = {}
    for name, (score, signature) in text_scores(texts, references, scoring.tokenize).items():
        computed[name], computed[f"{name}_signature"] = score, signature
    computed["exact_match"] = match_counts(texts, references).exact_match
    return computed


def edit_distance(hypothesis: Sequence[str], reference: Sequence[str]) -> int:
    """Counts the insertions, deletions and substitutions between two sequences (Levenshtein).

    Args:
      hypothesis: symbols: phones, words, or the characters of a string.
      reference: the same kind of symbols.

    Returns:
      The least number of single edits that turn one into the other.
    """
    return Levenshtein.distance(hypothesis, reference)


@dataclasses.dataclass(frozen=True)
class ErrorCounts:
    """Edits against the closest references, summed over sequences; adding two sums them."""

    edits: int  # sum of the distances
    symbols: int  # sum of the chosen references' lengths
    wrong: int  # sequences whose distance isn't 0
    sequences: int

    def __add__(self, other: "ErrorCounts") -> "ErrorCounts":
        return ErrorCounts(
            self.edits + other.edits,
            self.symbols + other.symbols,
            self.wrong + other.wrong,
            self.sequences + other.sequences,
        )

    @property
    def by_symbol(self) -> float:
        """Error rate by symbol (phone, word, character) in percent, above 100 possible."""
        return _percent(self.edits, self.symbols)

    @property
    def wer(self) -> float:
        """Sequence (word) error rate in percent, 0 to 100."""
        return _percent(self.wrong, self.sequences)


def error_counts(
    hypotheses: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]]
) -> ErrorCounts:
    """Compares each sequence with the closest of its references, the shorter one on a tie.

    This is the scoring of the grapheme-to-phoneme literature on CMUdict: hypotheses are words'
    pronunciations, symbols are phones.

    Args:
      hypotheses: a sequence of symbols for each word.
      references: one or more sequences of symbols for each word.

    Returns:
      Sums over all words.

    Raises:
      ValueError: the numbers of words differ, or a word has no reference.
    """
    edits = symbols = wrong = 0
    for hypothesis, candidates in zip(hypotheses, references, strict=True):
        distance, length = min((edit_distance(hypothesis, r), len(r)) for r in candidates)
        edits += distance
        symbols += length
        wrong += distance > 0
    return ErrorCounts(edits, symbols, wrong, len(hypotheses))


class MatchCounts(NamedTuple):
    """How many outputs are right as a whole."""

    matches: int
    sentences: int

    @property
    def exact_match(self) -> float:
        """Share of exact matches in percent."""
        return _percent(self.matches, self.sentences)


def match_counts(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> MatchCounts:
    """Counts the outputs that equal one of their references, but for spaces that say nothing.

    Args:
      hypotheses: one text for each sentence.
      references: one or more texts for each sentence.

    Returns:
      Sums over all sentences.

    Raises:
      ValueError: the numbers of sentences differ.
    """
    pairs = zip(hypotheses, references, strict=True)
    return MatchCounts(sum(is_match(h, candidates) for h, candidates in pairs), len(hypotheses))


def is_match(hypothesis: str, references: Sequence[str]) -> bool:
    """Returns whether an output equals one of its references, but for spaces that say nothing."""
    return writable(hypothesis) in map(writable, references)


class TextScore(NamedTuple):
    """A score of a whole corpus."""

    score: float  # BLEU, chrF: 0 to 100; TER: percent, from 0
    signature: str  # sacreBLEU's own, to be printed beside the score


def text_scores(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], tokenize: str = "13a"
) -> dict[str, TextScore]:
    """Computes corpus BLEU, chrF and TER by sacreBLEU (Post 2018).

    Args:
      hypotheses: one text for each sentence, detokenised.
      references: one or more texts for each sentence; their number may differ.
      tokenize: BLEU's tokeniser, as `evaluation.tokenize`.

    Returns:
      `bleu`, `bleu_lowercase` (which ignores case), `chrf`, `ter`.

    Raises:
      ValueError: there is no sentence, the numbers of sentences differ, or one has no reference.
    """
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    if not hypotheses or len(hypotheses) != len(references) or not all(references):
        raise ValueError("needs as many sentences as lists of references, and none of them empty")
    streams = reference_streams(references)
    metrics = {
        "bleu": BLEU(force=True, tokenize=tokenize),
        "bleu_lowercase": BLEU(lowercase=True, force=True, tokenize=tokenize),
        "chrf": CHRF(),
        "ter": TER(case_sensitive=True),
    }
    scores = {}
    for name, metric in metrics.items():
        score = metric.corpus_score(list(hypotheses), streams).score
        scores[name] = TextScore(float(score), str(metric.get_signature()))
    return scores


def ter_counts(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> np.ndarray:
    """Returns what each sentence adds to TER, float64[N, 2]: edits, words of its references.

    Args:
      hypotheses: as of `text_scores`.
      references: as of `text_scores`; of several, the words are counted in their mean.
    """
    from sacrebleu.metrics.ter import TER

    # Its lower-level step: the public ones give a rate of all sentences, or start for each anew.
    counts = TER(case_sensitive=True)._extract_corpus_statistics(
        list(hypotheses), reference_streams(references)
    )
    return np.asarray(counts, np.float64).reshape(-1, 2)


def reference_streams(references: Sequence[Sequence[str]]) -> Any:
    """Returns references as sacreBLEU takes them.

    Args:
      references: one or more texts for each sentence.

    Returns:
      One list a reference's number; None where a sentence has fewer, which sacreBLEU's types deny.
    """
    most = max(len(candidates) for candidates in references)
    return [[c[k] if k < len(c) else None for c in references] for k in range(most)]


def _percent(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole else float("nan")
