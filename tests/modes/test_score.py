import io
import math
import re

import numpy as np
import pytest
from launching import launch

from bahdanau_jax.data.corpus import Corpus
from bahdanau_jax.data.gold_links import parse_line
from bahdanau_jax.data.token_store import TokenStore
from bahdanau_jax.errors import InputError
from bahdanau_jax.evaluation import given_pairs
from bahdanau_jax.evaluation.given_pairs import given_texts
from bahdanau_jax.evaluation.trained_run import open_run
from bahdanau_jax.modes.score import score

PAIRS = [("fed", "F E D"), ("cafe", "C A F"), ("a", ""), ("", "A"), ("", ""), ("zz", "Q Q")]
PAIRS += [("abcdef" * 3, "A B C D E F " * 3), ("f", "F")]


@pytest.fixture(scope="module")
def run(trained):
    return open_run(trained.directory, "best")


def scored(run, pairs):
    out = io.StringIO()
    score(run, pairs, out)
    rows = [line.split("\t") for line in out.getvalue().splitlines()]
    return np.array([float(p) for p, _ in rows]), [int(tokens) for _, tokens in rows]


def test_each_score_is_the_likelihood_of_its_pair_alone(run):
    found, tokens = scored(run, PAIRS)
    source, target = run.vocabularies.source, run.vocabularies.target
    for number, (s, t) in enumerate(PAIRS):
        store = TokenStore.from_pairs([(source.encode(s), target.encode(t))])
        alone = run.evaluator.likelihood(run.params, store)
        assert found[number] == pytest.approx(-alone.nll[0], abs=1e-4)
        assert tokens[number] == alone.tokens[0] == len(t.split()) + 1


def test_a_score_is_the_sum_of_the_steps_of_decoding(run):
    store = TokenStore.from_pairs([(run.vocabularies.source.encode(s), []) for s, _ in PAIRS])
    # The search itself, since evaluation doesn't search for empty sources.
    searched = dict(run.evaluator.search.stream(run.params, store))
    outputs = [searched[n][0] for n in range(len(PAIRS))]
    ended = [n for n, output in enumerate(outputs) if output.ended]
    assert len(ended) > 3
    pairs = [(PAIRS[n][0], run.evaluator.text(outputs[n])) for n in ended]
    found, _ = scored(run, pairs)
    np.testing.assert_allclose(found, [outputs[n].log_probability for n in ended], atol=1e-4)


def test_the_last_line_says_the_totals(run, capsys):
    found, tokens = scored(run, PAIRS)
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith(f"{len(PAIRS)} pairs, {sum(tokens)} tokens: log-probability ")
    total, perplexity = map(float, re.findall(r"-?\d+\.\d+", said))
    assert total == pytest.approx(found.sum(), abs=1e-3)
    assert perplexity == pytest.approx(math.exp(-found.sum() / sum(tokens)), abs=1e-3)
    assert scored(run, [])[1] == []
    assert "there were no pairs to score" in capsys.readouterr().err


def test_the_pairs_read_together_change_nothing(run, monkeypatch, capsys):
    whole, _ = scored(run, PAIRS)
    said = capsys.readouterr().err
    monkeypatch.setattr(given_pairs, "CHUNK", 3)
    apart, _ = scored(run, PAIRS)
    np.testing.assert_allclose(apart, whole, atol=1e-5)
    assert "longer than the 6 tokens that training saw at most: 1 pair\n" in said


def write(directory, source, target):
    (directory / "s").write_text(source)
    (directory / "t").write_text(target)
    return directory / "s", directory / "t"


def test_pairs_come_from_two_files_or_from_a_split(run, trained, tmp_path):
    paths = write(tmp_path, "fed\r\n\nab\n", "F E D\nA\n\n")
    given = given_texts(run, trained.directory, str(paths[0]), str(paths[1]), "test")
    assert list(given.pairs) == [("fed", "F E D"), ("", "A"), ("ab", "")]
    given = given_texts(run, trained.directory, None, None, "dev")
    assert given.gold is None
    texts = list(given.pairs)
    assert len(texts) == 9
    # Of an example with two references, the first is taken.
    assert texts[-1][1] == " ".join(texts[-1][0].upper()) != "A"


def test_a_split_comes_with_the_gold_links_of_its_data_set(run, trained, monkeypatch):
    known = [parse_line("0-0")] * 9
    monkeypatch.setattr(Corpus, "links", lambda self, split: known if split == "dev" else None)
    given = given_texts(run, trained.directory, None, None, "dev")
    assert given.gold is known
    assert given.origin == f"the links of {trained.config.data.source}"


@pytest.mark.parametrize(
    ("source", "target", "said"),
    [
        ("s", None, "--source is given without --target"),
        (None, "t", "--target is given without --source"),
        ("s", "absent", "can't read .*absent"),
    ],
)
def test_half_of_a_pair_is_refused(run, trained, tmp_path, source, target, said):
    write(tmp_path, "a\n", "A\n")
    first, second = (name and str(tmp_path / name) for name in (source, target))
    with pytest.raises(InputError, match=said):
        list(given_texts(run, trained.directory, first, second, "test").pairs)


def test_the_mode_score_writes_lines_and_refuses_files_that_differ(trained, tmp_path):
    write(tmp_path, "fed\ncafe\n", "F E D\nC A F E\n")
    command = ["--mode=score", f"--workdir={trained.directory}", "--source=s", "--target=t"]
    finished = launch(command, tmp_path)
    assert finished.status == 0, finished.err
    rows = [line.split("\t") for line in finished.out.decode().splitlines()]
    assert [int(tokens) for _, tokens in rows] == [4, 5]
    assert finished.lines[-1].startswith("2 pairs, 9 tokens")

    write(tmp_path, "fed\ncafe\n", "F E D\n")
    refused = launch(command, tmp_path)
    assert refused.status == 2
    assert refused.lines[-1] == (
        "launch.py: s has 2 lines, but t has 1; line n of one must translate line n of the other"
    )
    assert refused.out == b""
