import dataclasses
import io

import numpy as np
import pytest
from launching import launch

from bahdanau_jax.data.gold_links import parse_line
from bahdanau_jax.data.token_store import TokenStore
from bahdanau_jax.evaluation.given_pairs import GivenTexts, chunks
from bahdanau_jax.evaluation.gold_comparison import align_pairs
from bahdanau_jax.evaluation.trained_run import open_run
from bahdanau_jax.modes import align as mode
from bahdanau_jax.modes.align import Drawing, align
from bahdanau_jax.reports import heat_maps

PAIRS = [("fed", "F E D"), ("cafe", "C A F"), ("a", ""), ("", "A"), ("", ""), ("zz", "Q Q F")]
NOTHING = Drawing(None, 0)  # pyright: ignore[reportArgumentType]


@pytest.fixture(scope="module")
def run(trained):
    return open_run(trained.directory, "best")


def aligned(run, pairs=PAIRS, drawing=NOTHING, gold=None, **given):
    out = io.StringIO()
    texts = GivenTexts(pairs) if gold is None else GivenTexts(pairs).with_gold(run, gold)
    align(run, texts, out, drawing, **given)
    return out.getvalue().splitlines()


def alignments_of(run, pairs=PAIRS):
    return [a for given in chunks(run, pairs) for a in align_pairs(run, given)]


def test_forced_alignments_are_those_of_the_search_that_found_the_target(run):
    sources = [run.vocabularies.source.encode(word) for word in ("fed", "cafe", "abc", "f")]
    outputs = run.evaluator.decode(run.params, TokenStore.from_pairs([(s, []) for s in sources]))
    ended = [n for n, output in enumerate(outputs) if output.ended]
    assert len(ended) > 1
    store = TokenStore.from_pairs([(sources[n], outputs[n].tokens) for n in ended])
    found = dict(run.evaluator.alignments(run.params, store))
    for place, number in enumerate(ended):
        np.testing.assert_allclose(found[place], outputs[number].alignment, atol=1e-5)


def test_pairs_come_in_their_order_with_a_row_a_word(run):
    found = alignments_of(run)
    assert [(a.source, a.target) for a in found] == [(list(s), t.split()) for s, t in PAIRS]
    for alignment in found:
        assert alignment.weights.shape == (len(alignment.target), len(alignment.source) + 1)
        np.testing.assert_allclose(alignment.weights.sum(axis=1), 1, atol=1e-5)


def test_lines_hold_the_heaviest_word_of_each_row_or_all_above_a_threshold(run):
    found = alignments_of(run)
    lines = aligned(run)
    assert len(lines) == len(PAIRS)
    assert lines[2] == lines[3] == lines[4] == ""
    for line, alignment in zip(lines, found, strict=True):
        end = len(alignment.source)
        heaviest = {(int(i), j) for j, i in enumerate(alignment.weights.argmax(axis=1))}
        assert parse_line(line).sure == {link for link in heaviest if link[0] != end}
    above = aligned(run, threshold=0.2)
    for line, alignment in zip(above, found, strict=True):
        places = {(int(i), int(j)) for j, i in np.argwhere(alignment.weights[:, :-1] >= 0.2)}
        assert parse_line(line).sure == places
    assert above != lines


def test_rows_of_a_current_query_are_those_of_the_next_step(run):
    config = dataclasses.replace(run.config, model=dataclasses.replace(run.config.model))
    config.model.attention = dataclasses.replace(run.config.model.attention, query="current")
    other = dataclasses.replace(run, config=config)  # of which nothing else is asked
    (given,) = chunks(run, [("fed", "F E D")])
    (steps,) = dict(run.evaluator.alignments(run.params, given.store)).values()
    (previous,) = align_pairs(run, given)
    (current,) = align_pairs(other, given)
    np.testing.assert_array_equal(previous.weights, steps[:-1])
    np.testing.assert_array_equal(current.weights, steps[1:])


def test_the_first_pairs_are_drawn_as_pictures_and_on_a_page(run, tmp_path, monkeypatch, capsys):
    drawn = []
    monkeypatch.setattr(heat_maps, "heat_map", lambda path, picture: drawn.append((path, picture)))
    monkeypatch.setattr(mode, "LONGEST_DRAWN", 3)
    aligned(run, [*PAIRS, ("f", "F"), ("ab", "A")], drawing=Drawing(tmp_path / "x", 3))
    assert [path.name for path, _ in drawn] == ["0001.png", "0006.png", "0007.png"]
    for _, picture in drawn:
        assert picture.weights.shape == (len(picture.target), len(picture.source))
        assert picture.source[-1] == "∎"
    page = (tmp_path / "x" / "alignments.html").read_text(encoding="utf-8")
    assert [f"<h2>pair {n}</h2>" in page for n in range(1, 9)] == [
        n in (1, 6, 7) for n in range(1, 9)
    ]
    assert mode.MOMENTS["previous"] in page
    assert str(tmp_path / "x" / "alignments.html") in capsys.readouterr().err


def test_gold_links_give_the_error_rate(run, tmp_path, capsys):
    lines = aligned(run, PAIRS[:2])
    gold = tmp_path / "gold"
    gold.write_text("\n".join(lines) + "\n")
    assert aligned(run, PAIRS[:2], gold=str(gold)) == lines
    assert "AER 0.00 %, precision 100.00 %, recall 100.00 %" in capsys.readouterr().err


def test_the_mode_align_writes_lines_and_pictures(trained, tmp_path):
    (tmp_path / "s").write_text("fed\n\ncafe\n")
    (tmp_path / "t").write_text("F E D\n\nC A F E\n")
    command = ["--mode=align", f"--workdir={trained.directory}", "--source=s", "--target=t"]
    finished = launch([*command, "--pictures=p", "--threshold=0.3"], tmp_path)
    assert finished.status == 0, finished.err
    lines = finished.out.decode().split("\n")
    assert len(lines) == 4
    assert lines[1] == lines[3] == ""
    names = {path.name for path in (tmp_path / "p").iterdir()}
    assert names == {"0001.png", "0003.png", "alignments.html"}

    (tmp_path / "gold").write_text("0-0\n\n4-0\n")
    refused = launch([*command, "--gold=gold", "--pictures=q"], tmp_path)
    assert refused.status == 2
    assert "pair 3 has a link 4-0" in refused.lines[-1]
    assert not (tmp_path / "q").exists()
    assert refused.out == b""
