import copy
import math

import numpy as np
import pytest
import tiny

from bahdanau_jax.data.pipeline import EvaluationSplit, open_data
from bahdanau_jax.data.token_store import TokenStore
from bahdanau_jax.data.vocabularies import Vocabularies
from bahdanau_jax.errors import InputError
from bahdanau_jax.evaluation import alignment_measures, decoding, metrics
from bahdanau_jax.evaluation.evaluator import Evaluator
from bahdanau_jax.evaluation.trained_run import make_model, open_run
from bahdanau_jax.special_ids import EOS
from bahdanau_jax.training.train import train

WORDS = ["f", "ab", "fed", "cafe", "bead", "decaf", "faced", "abcdef", "eee", "dc"]
LONG = "abcdefabcdefabc"


@pytest.fixture(scope="module")
def run(trained):
    return open_run(trained.directory, "best")


@pytest.fixture(scope="module")
def split(trained):
    vocabularies = Vocabularies.load(trained.directory / "vocabulary")
    data = open_data(trained.config.data, vocabularies, lambda _: None)
    return data.evaluation_split("dev")


def pairs_of(run, words):
    source, target = run.vocabularies.source, run.vocabularies.target
    return TokenStore.from_pairs(
        [(source.encode(word), target.encode(" ".join(word.upper()))) for word in words]
    )


def with_batches_of(run, size):
    config = copy.deepcopy(run.config)
    config.decode.batch_size = size
    return Evaluator(make_model(config, run.vocabularies), config, run.vocabularies)


@pytest.fixture(scope="module")
def in_a_batch(run):
    store = pairs_of(run, WORDS)
    return run.evaluator.likelihood(run.params, store), run.evaluator.decode(run.params, store)


@pytest.mark.parametrize("surroundings", ["alone", "more padding"])
def test_a_sentence_has_the_same_loss_alignment_and_output(run, in_a_batch, surroundings):
    likelihood, outputs = in_a_batch
    for number in (3, 7) if surroundings == "alone" else (0, 3, 7, 9):
        # Beside a longer sentence, its row has more padding on both sides.
        words = [WORDS[number]] if surroundings == "alone" else [LONG, LONG, WORDS[number]]
        store = pairs_of(run, words)
        alone = run.evaluator.likelihood(run.params, store)
        assert alone.nll[-1] == pytest.approx(likelihood.nll[number], abs=1e-5)
        assert alone.tokens[-1] == likelihood.tokens[number] == len(WORDS[number]) + 1
        output, expected = run.evaluator.decode(run.params, store)[-1], outputs[number]
        assert output.tokens == expected.tokens
        assert output.ended == expected.ended
        assert output.log_probability == pytest.approx(expected.log_probability, abs=1e-5)
        assert output.alignment.shape == expected.alignment.shape
        np.testing.assert_allclose(output.alignment, expected.alignment, atol=1e-5)


def test_the_sentences_above_are_worth_comparing(in_a_batch):
    likelihood, outputs = in_a_batch
    assert len({tuple(output.tokens) for output in outputs}) > 5
    assert np.unique(likelihood.nll.round(3)).size == len(WORDS)
    # Some alignment is far from uniform, so that a change would show.
    assert max(o.alignment.max() * o.alignment.shape[1] for o in outputs) > 1.5


def test_an_alignment_has_a_row_a_token_and_each_sums_to_one(in_a_batch):
    for word, output in zip(WORDS, in_a_batch[1], strict=True):
        assert output.alignment.shape == (len(output.tokens) + output.ended, len(word) + 1)
        np.testing.assert_allclose(output.alignment.sum(1), 1, atol=1e-5)
        assert EOS not in output.tokens


def test_an_outputs_log_probability_is_that_of_the_same_target_when_scored(run, in_a_batch):
    outputs = in_a_batch[1]
    ended = [number for number, output in enumerate(outputs) if output.ended]
    assert len(ended) >= 8
    source = run.vocabularies.source
    store = TokenStore.from_pairs([(source.encode(WORDS[n]), outputs[n].tokens) for n in ended])
    likelihood = run.evaluator.likelihood(run.params, store)
    np.testing.assert_allclose(
        -likelihood.nll, [outputs[n].log_probability for n in ended], atol=1e-5
    )


def test_every_example_is_read_exactly_once_whatever_the_batch(run):
    words = [WORDS[n % 10][: 1 + n % 5] for n in range(19)]
    store = pairs_of(run, words)
    together = run.evaluator.likelihood(run.params, store)
    apart = with_batches_of(run, 8)  # 8, 8 and 3
    likelihood = apart.likelihood(run.params, store)
    assert likelihood.tokens.tolist() == store.target_lengths.tolist()
    np.testing.assert_allclose(likelihood.nll, together.nll, atol=1e-5)
    numbers, outputs = zip(*apart.decode_stream(run.params, store), strict=True)
    assert sorted(numbers) == list(range(19))
    by_number = dict(zip(numbers, outputs, strict=True))
    expected = run.evaluator.decode(run.params, store)
    assert [by_number[n].tokens for n in range(19)] == [output.tokens for output in expected]
    assert [o.tokens for o in apart.decode(run.params, store)] == [o.tokens for o in expected]


def test_figures_are_sums_over_all_references_and_counts_of_examples(run, split):
    figures, outputs = run.evaluator.evaluate(run.params, split)
    likelihood = run.evaluator.likelihood(run.params, split.pairs)
    assert likelihood.tokens.sum() == split.pairs.target_lengths.sum()
    mean = likelihood.nll.sum() / likelihood.tokens.sum()
    assert figures["nll_per_token"] == pytest.approx(mean, rel=1e-6)
    assert figures["perplexity"] == pytest.approx(math.exp(mean), rel=1e-6)
    assert figures["sentences"] == len(outputs) == tiny.DEV
    assert figures["unended"] == sum(not output.ended for output in outputs)
    texts = [run.evaluator.text(output) for output in outputs]
    right = sum(t in e.references for t, e in zip(texts, split.examples, strict=True))
    assert figures["exact_match"] == pytest.approx(100 * right / tiny.DEV)
    assert figures["wer"] == pytest.approx(100 - figures["exact_match"])
    assert (
        figures
        | metrics.figures(
            metrics.Scoring("error_rate"), texts, [e.references for e in split.examples]
        )
        == figures
    )
    assert "alignment_accuracy" not in figures


def test_where_the_alignment_is_known_its_share_of_right_positions_is_a_figure(run, split):
    known = [[0] * max(1, len(example.references[0].split())) for example in split.examples]
    figures, outputs = run.evaluator.evaluate(run.params, split._replace(alignments=known))
    alignments = [output.alignment for output in outputs]
    assert figures["alignment_accuracy"] == alignment_measures.accuracy(alignments, known)


def test_output_stops_at_its_own_sentences_limit(run, monkeypatch):
    # A model that never ends: the end mark is made as unlikely as can be.
    params = {**run.params, "b_w": run.params["b_w"].at[EOS].set(-1e9)}
    store = pairs_of(run, WORDS)
    outputs = run.evaluator.decode(params, store)
    for word, output in zip(WORDS, outputs, strict=True):
        assert not output.ended
        assert len(output.tokens) == 2 * (len(word) + 1) + 10
        assert output.alignment.shape == (len(output.tokens), len(word) + 1)
    split = EvaluationSplit("dev", [], store, store)
    monkeypatch.setattr("bahdanau_jax.evaluation.metrics.figures", lambda *_: {})
    assert run.evaluator.evaluate(params, split)[0]["unended"] == len(WORDS)


def test_no_sentences_give_no_outputs(run):
    empty = TokenStore.from_pairs([])
    assert run.evaluator.decode(run.params, empty) == []
    assert run.evaluator.likelihood(run.params, empty).nll.size == 0


def test_error_rates_take_the_closest_reference():
    rates = metrics.figures(
        metrics.Scoring("error_rate"), ["A B", "A", ""], [("A C", "A B"), ("B",), ("A B",)]
    )
    assert rates["per"] == pytest.approx(100 * 3 / 5)
    assert rates["wer"] == pytest.approx(100 * 2 / 3)
    assert rates["exact_match"] == pytest.approx(100 / 3)


def test_text_scores_carry_signatures_and_know_a_perfect_output():
    texts = ["the cat sat on the mat", "a dog ran across the road"]
    scores = metrics.figures(metrics.Scoring("bleu"), texts, [(text,) for text in texts])
    assert scores["bleu"] == pytest.approx(100)
    assert scores["chrf"] == pytest.approx(100)
    assert scores["ter"] == 0
    assert scores["exact_match"] == 100
    for name in ("bleu", "chrf", "ter"):
        assert "version:" in str(scores[f"{name}_signature"])
    worse = metrics.figures(
        metrics.Scoring("bleu"), ["the cat sat on a mat", "a dog"], [(text,) for text in texts]
    )
    assert float(worse["bleu"]) < 100
    assert float(worse["ter"]) > 0
    assert worse["exact_match"] == 0


def test_a_search_that_cannot_fit_is_refused_before_memory_is_asked_for(
    run, split, trained, tmp_path, monkeypatch
):
    settings = {"decode.beam_size": 9999, "decode.batch_size": 2**19}
    wide = open_run(trained.directory, "best", settings)
    monkeypatch.setattr(decoding, "capacity", lambda: 2**26)
    run.evaluator.search.check(split.sources)
    words = r"9,999 hypotheses each need more than .* 0\.06 GiB; lower decode\.beam_size"
    with pytest.raises(InputError, match=words):
        wide.evaluator.decode(wide.params, split.sources)
    with pytest.raises(InputError, match=words):
        train(wide.config, tmp_path / "run", [])
    assert [path.name for path in (tmp_path / "run").iterdir()] == [".lock"]


@pytest.mark.parametrize("ratio", [0.5, 1.0, 1.4])
def test_an_output_has_at_least_so_many_tokens_for_each_token_of_the_source(trained, ratio):
    """With an end mark that is always the likeliest, an output has exactly as many."""
    run = open_run(trained.directory, "best", {"decode.min_length_ratio": ratio})
    sizes = [1, 2, 3, 5]  # tokens, the end mark not counted
    sources = TokenStore.from_pairs([([4] * size, []) for size in sizes])
    ending = dict(run.params, b_w=run.params["b_w"].at[EOS].set(100.0))
    outputs = dict(run.evaluator.search.stream(ending, sources, alignments=False))
    lengths = [len(outputs[number][0].tokens) for number in range(len(sizes))]
    assert lengths == [int(size * ratio) for size in sizes]
