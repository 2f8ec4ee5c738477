import itertools
import math
import random
import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bahdanau_jax import allowed
from bahdanau_jax.config import Config
from bahdanau_jax.evaluation import breakdown
from bahdanau_jax.evaluation.metrics import (
    METRICS,
    ErrorCounts,
    Scoring,
    compared,
    direction,
    edit_distance,
    error_counts,
    figures,
    higher_is_better,
    match_counts,
    text_scores,
)

TEXT = st.text("abc", max_size=7)


@pytest.mark.parametrize(
    ("first", "second", "distance"),
    [
        ("kitten", "sitting", 3),
        ("saturday", "sunday", 3),
        ("intention", "execution", 5),
        ("flaw", "lawn", 2),
        ("abc", "abc", 0),
        ("", "abc", 3),
        ("abc", "", 3),
        ("", "", 0),
        ("ab", "ba", 2),
        (["AH", "B"], ["AH", "B", "AW", "T"], 2),
        (["AH"], ["A", "H"], 2),
    ],
)
def test_known_edit_distances(first, second, distance):
    assert edit_distance(first, second) == distance


def recursive(a, b):
    if not a or not b:
        return len(a) + len(b)
    return min(
        recursive(a[1:], b[1:]) + (a[0] != b[0]), recursive(a[1:], b) + 1, recursive(a, b[1:]) + 1
    )


@settings(deadline=None)
@given(st.text("abc", max_size=5), st.text("abc", max_size=5))
def test_edit_distance_follows_its_recursive_definition(a, b):
    assert edit_distance(a, b) == recursive(a, b)


def by_table(a, b):
    """Wagner and Fischer 1974: the whole table of distances between prefixes."""
    table = [[i + j for j in range(len(b) + 1)] for i in range(len(a) + 1)]
    for i, j in itertools.product(range(1, len(a) + 1), range(1, len(b) + 1)):
        table[i][j] = min(
            table[i - 1][j] + 1, table[i][j - 1] + 1, table[i - 1][j - 1] + (a[i - 1] != b[j - 1])
        )
    return table[-1][-1]


WORDS = ["A", "AH", "AH0", "a", "é", "ŋ", "", "65", "漢字"]
SYMBOLS = st.lists(st.sampled_from(WORDS), max_size=90)


@settings(deadline=None)
@given(SYMBOLS, SYMBOLS)
def test_edit_distance_is_that_of_the_table_of_prefixes(a, b):
    assert edit_distance(a, b) == by_table(a, b)


@settings(deadline=None)
@given(TEXT, TEXT, TEXT)
def test_edit_distance_is_a_metric(a, b, c):
    assert edit_distance(a, b) == edit_distance(b, a)
    assert (edit_distance(a, b) == 0) == (a == b)
    assert edit_distance(a, c) <= edit_distance(a, b) + edit_distance(b, c)


def test_twelve_thousand_words_take_a_second_or_two():
    draw = random.Random(0)
    words = [[draw.choice("ABCDEFGH") for _ in range(draw.randint(3, 11))] for _ in range(12_000)]
    started = time.process_time()
    error_counts(words, [[word[::-1]] for word in words])
    assert time.process_time() - started < 4


def test_error_rates_by_hand_with_several_references_and_a_tie():
    hypotheses = [["A", "B"], ["A", "B", "C"], ["A", "B", "C"], ["A", "A"]]
    references = [
        # Right by its second reference: 0 edits, 2 symbols.
        [["A", "B", "C"], ["A", "B"]],
        # Both are one edit away; the shorter one counts: 1 edit, 2 symbols.
        [["A", "B", "C", "D"], ["A", "B"]],
        # The longer one is closer: 1 edit of 4 symbols, not 2 of 1.
        [["A"], ["A", "B", "C", "D"]],
        # More edits than symbols.
        [[]],
    ]
    counts = error_counts(hypotheses, references)
    assert counts == ErrorCounts(edits=4, symbols=8, wrong=3, sequences=4)
    assert counts.by_symbol == 50.0
    assert counts.wer == 75.0


def test_the_order_of_references_does_not_matter_on_a_tie():
    short, long = ["A", "B"], ["A", "B", "C", "D"]
    for references in ([short, long], [long, short]):
        assert error_counts([["A", "B", "C"]], [references]).symbols == 2


def test_sums_of_parts_are_the_sum_and_rates_divide_once():
    parts = [(["A"], [["B"]]), (["A", "B", "C"], [["A", "B", "C"]])]
    one, two = (error_counts([h], [r]) for h, r in parts)
    both = error_counts(*zip(*parts, strict=True))
    assert one + two == both
    assert both.by_symbol == 25.0  # and not the mean of 100 and 0
    assert both.wer == 50.0


def test_no_sequence_has_no_rate():
    counts = error_counts([], [])
    assert math.isnan(counts.by_symbol)
    assert math.isnan(counts.wer)


def test_numbers_that_differ_and_words_without_reference_are_refused():
    with pytest.raises(ValueError, match="zip"):
        error_counts([["A"]], [])
    with pytest.raises(ValueError, match="empty"):
        error_counts([["A"]], [[]])


def test_exact_matches_compare_whole_texts_with_every_reference():
    counts = match_counts(["a b", "a b", "a"], [["x", "a b"], ["a  c"], ["ab"]])
    assert counts == (1, 3)
    assert counts.exact_match == pytest.approx(100 / 3)


def test_identical_text_scores_the_best_there_is():
    texts = ["the cat sat on the mat .", "a second sentence of some length"]
    scores = text_scores(texts, [[text] for text in texts])
    assert scores["bleu"].score == pytest.approx(100)
    assert scores["chrf"].score == pytest.approx(100)
    assert scores["ter"].score == 0


def test_bleu_by_hand():
    # Hypothesis n-grams found in the reference, clipped: 5 of 6 ("the" only once), 3 of 5
    # (the cat, cat sat, sat on), 2 of 4, 1 of 3. Same length: no brevity penalty.
    scores = text_scores(["the cat sat on the mat"], [["the cat sat on a mat"]])
    expected = 100 * (5 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** (1 / 4)
    assert scores["bleu"].score == pytest.approx(expected, rel=1e-6)


def test_bleu_by_hand_sums_over_sentences_and_penalises_brevity():
    # 1-grams 4/4 and 4/4, 2-grams 3/3 twice, 3-grams 2/2 twice, 4-grams 1/1 twice: precision 1.
    # 8 words against 6 + 4: exp(1 - 10/8).
    scores = text_scores(["a b c d", "e f g h"], [["a b c d e f"], ["e f g h"]])
    assert scores["bleu"].score == pytest.approx(100 * math.exp(1 - 10 / 8), rel=1e-6)


def test_references_may_differ_in_number():
    hypotheses = ["the cat sat on the mat", "it rains a lot today ."]
    references = [["something else", "the cat sat on the mat"], ["it rains a lot today ."]]
    scores = text_scores(hypotheses, references)
    assert scores["bleu"].score == pytest.approx(100)
    assert "nrefs:var" in scores["bleu"].signature


def test_ter_by_hand():
    # One substitution in a reference of six words.
    scores = text_scores(["the cat sat on the mat"], [["the cat sat on a mat"]])
    assert scores["ter"].score == pytest.approx(100 / 6)


def test_case_counts_but_in_lowercased_bleu_and_the_signature_says_so():
    hypotheses, references = ["The Cat Sat On Mats"], [["the cat sat on mats"]]
    cased = text_scores(hypotheses, references)
    assert cased["bleu"].score < 50
    assert "case:mixed" in cased["bleu"].signature
    assert cased["bleu_lowercase"].score == pytest.approx(100)
    assert "case:lc" in cased["bleu_lowercase"].signature
    for score in cased.values():
        assert "version:" in score.signature


def test_the_tokeniser_is_in_the_signature():
    scores = text_scores(["a b c d ."], [["a b c d ."]])
    assert "tok:13a" in scores["bleu"].signature


def test_text_without_sentences_or_references_is_refused():
    for hypotheses, references in [([], []), (["a"], []), (["a"], [[]])]:
        with pytest.raises(ValueError, match="as many sentences"):
            text_scores(hypotheses, references)


# Words by U+0020 alone; characters with the spaces between them.
RULES = {
    "a no-break space is within a symbol": ("a\u00a0b c", "a\u00a0b d", False, 50.0),
    "so is an ideographic one": ("a\u3000b", "a b", False, 100.0),
    "spaces at the ends and doubled say nothing": (" a  b ", "a b", False, 0.0),
    "nor where characters are counted": (" a  b ", "a b", True, 0.0),
    "each character is a symbol, and so is a space": ("ab cd", "abxcd", True, 20.0),
    "a word is not": ("abcd", "abxd", True, 25.0),
}


@pytest.mark.parametrize("rule", RULES)
def test_errors_are_counted_in_the_symbols_of_the_targets_vocabulary(rule):
    text, reference, characters, expected = RULES[rule]
    scoring = Scoring("error_rate", characters=characters)
    rates = figures(scoring, [text], [[reference]])
    name, other = ("cer", "per") if characters else ("per", "cer")
    assert rates[name] == pytest.approx(expected) and other not in rates
    assert rates["wer"] == (100.0 if expected else 0.0)
    sums = breakdown.sentence_sums(scoring, [text], [[reference]])
    assert {key: sums[key].figure() for key in rates} == pytest.approx(rates)


def test_what_the_target_is_made_of_is_the_configurations():
    config = Config()
    config.data.vocabulary.kind, config.data.vocabulary.target_kind = "words", "characters"
    assert Scoring.of(config).characters
    config.data.vocabulary.kind, config.data.vocabulary.target_kind = "characters", "words"
    assert not Scoring.of(config).characters
    config.data.vocabulary.target_kind = ""
    assert Scoring.of(config).characters


def test_an_exact_match_is_of_what_a_vocabulary_can_write():
    counts = match_counts(["a b", "a b", "a b"], [["x", " a  b "], ["ab"], ["a\u00a0b"]])
    assert counts == (1, 3)
    texts, references = ["a b"], [[" a  b "]]
    sums = breakdown.sentence_sums(Scoring("bleu"), texts, references)
    assert sums["exact_match"].figure() == 100
    assert figures(Scoring("bleu"), texts, references)["exact_match"] == 100


def test_sacrebleu_is_imported_only_when_it_is_needed():
    program = "import sys, bahdanau_jax.evaluation.metrics; sys.exit('sacrebleu' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


# Computed from what `figures` isn't given.
OF_THE_MODEL = {"nll_per_token", "perplexity", "sentences", "unended"}


def scorings(kind):
    return [Scoring(kind, characters=characters) for characters in (False, True)]


@pytest.mark.parametrize("kind", ["error_rate", "bleu"])
def test_every_metric_of_the_table_is_computed_and_every_one_computed_is_in_it(kind):
    computed = {
        name
        for scoring in scorings(kind)
        for name in figures(scoring, ["a b"], [["a c"]])
        if "_signature" not in name
    }
    listed = {m.name for m in METRICS.values() if kind in m.kinds} - OF_THE_MODEL
    assert computed - listed == set(), "add a row to METRICS in evaluation/metrics.py"
    assert listed - computed == set(), "compute it in figures() in evaluation/metrics.py"


@pytest.mark.parametrize("kind", ["error_rate", "bleu"])
def test_a_metric_that_says_how_sums_give_it_has_sums_of_sentences(kind):
    texts, references = ["a b"], [["a c"]]
    sums, whole = {}, {}
    for scoring in scorings(kind):
        sums |= breakdown.sentence_sums(scoring, texts, references)
        whole |= figures(scoring, texts, references)
    wanted = {m.name for m in METRICS.values() if kind in m.kinds and m.from_sums and m.in_tables}
    wanted -= OF_THE_MODEL
    assert set(sums) == wanted, "add it to sentence_sums() in evaluation/breakdown.py"
    # Of both scorings, the second's figures, where they have one name.
    for name in wanted:
        assert sums[name].figure() == pytest.approx(whole[name])


@pytest.mark.parametrize("kind", ["error_rate", "bleu"])
def test_checkpoints_may_be_chosen_by_every_metric_that_is_computed_for_every_split(kind):
    shown = (m for m in METRICS.values() if kind in m.kinds and m.in_tables)
    names = {metric.name for metric in shown if metric.better != "neither"}
    assert {*allowed.METRICS[kind], "nll_per_token"} == names, "list it in allowed.METRICS"
    assert names <= {*allowed.CHOICES["train.metric"]}


def test_a_metric_has_a_name_of_its_own_for_people():
    assert len({metric.shown for metric in METRICS.values()}) == len(METRICS)
    assert METRICS["wer"].title == "WER, %" and METRICS["bleu"].title == "BLEU"


@pytest.mark.parametrize(
    ("better", "names"),
    [
        (
            "higher",
            "bleu bleu_lowercase chrf exact_match alignment_accuracy alignment_precision "
            "alignment_recall",
        ),
        ("lower", "wer per cer ter nll_per_token perplexity aer aer_at_offset"),
        (
            "neither",
            "entropy end_weight unattended offset aer_diagonal aer_uniform aer_eflomal sentences "
            "unended",
        ),
    ],
)
def test_every_figure_has_its_direction_and_what_only_describes_has_none(better, names):
    for name in names.split():
        assert METRICS[name].better == direction(name) == direction(f"test/{name}") == better
        assert higher_is_better(f"dev/{name}") == (better == "higher")
    assert direction("train/learning_rate") is None


def test_a_comparison_is_decided_by_the_first_metric_of_its_kind_and_covers_the_others():
    names = {kind: [m.name for m in compared(kind)] for kind in ("error_rate", "bleu")}
    always = ["exact_match", "nll_per_token", "aer", "alignment_accuracy"]
    assert names["error_rate"] == ["wer", "per", "cer", *always]
    assert names["bleu"] == ["bleu", "chrf", "ter", *always]
