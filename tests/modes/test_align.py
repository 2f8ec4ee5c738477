import copy
import dataclasses
import io
import re

import numpy as np
import pytest
from launching import launch

from bahdanau_jax.data.corpus import Example
from bahdanau_jax.data.gold_links import parse_line
from bahdanau_jax.data.pipeline import EvaluationSplit
from bahdanau_jax.data.token_store import TokenStore
from bahdanau_jax.data.vocabularies import Vocabularies
from bahdanau_jax.errors import InputError
from bahdanau_jax.evaluation.alignment_measures import OFFSETS, LinkCounts
from bahdanau_jax.evaluation.decoding import Output
from bahdanau_jax.evaluation.given_pairs import GivenTexts, chunks
from bahdanau_jax.evaluation.gold_comparison import align_pairs, compare_with_gold
from bahdanau_jax.evaluation.trained_run import open_run
from bahdanau_jax.modes import align as mode
from bahdanau_jax.modes.align import Drawing, OtherDirection, align, gold_lines
from bahdanau_jax.modes.translate import Wanted, translate
from bahdanau_jax.reports import heat_maps
from bahdanau_jax.special_ids import UNK

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


STEPS = np.eye(4, dtype=np.float32)[[2, 0, 1, 3]]  # of "fed"; the last predicts the end mark
LINKS = "0-1 1-2 2-0"  # of its first three steps


class KnownSteps:
    """An evaluator of which every step's weights are known, whatever the model."""

    def __init__(self, evaluator, outputs=()):
        self.vocabularies, self.text = evaluator.vocabularies, evaluator.text
        self.search, self._outputs = self, outputs

    def alignments(self, params, pairs):
        del params, pairs
        yield 0, STEPS

    def stream(self, params, sources, **options):
        del params, sources, options
        yield 0, list(self._outputs)


@pytest.mark.parametrize("query", ["previous", "intermediate", "current"])
def test_row_i_belongs_to_the_word_that_step_i_predicts(run, query, tmp_path, capsys, monkeypatch):
    config = copy.deepcopy(run.config)
    config.model.attention.query = query
    other = dataclasses.replace(run, config=config, evaluator=KnownSteps(run.evaluator))
    (tmp_path / "gold").write_text(f"{LINKS}\n")
    drawn, gold = [], str(tmp_path / "gold")
    monkeypatch.setattr(heat_maps, "heat_map", lambda path, picture: drawn.append(picture.weights))
    drawing = Drawing(tmp_path / "x", 1)
    assert aligned(other, [("fed", "F E D")], drawing, gold) == [LINKS]
    assert "AER 0.00 %" in capsys.readouterr().err
    np.testing.assert_array_equal(drawn, [STEPS[:-1]])
    page = (tmp_path / "x" / "alignments.html").read_text(encoding="utf-8")
    assert re.findall(r"--w:([\d.]+)", page) == [f"{w:.0f}" for w in STEPS[:-1].flat]

    example = Example("fed", ("F E D",))
    split = EvaluationSplit("test", [example], TokenStore.from_pairs([]), TokenStore.from_pairs([]))
    assert compare_with_gold(other, split._replace(links=[parse_line(LINKS)])).figures()["aer"] == 0


def test_a_lexicons_words_are_looked_up_as_the_model_reads_the_source(run):
    config = copy.deepcopy(run.config)
    config.data.lowercase = True
    output = Output([UNK, UNK, UNK], -1.0, STEPS, True, -1.0)
    other = dataclasses.replace(run, config=config, evaluator=KnownSteps(run.evaluator, [output]))
    out = io.StringIO()
    translate(other, io.BytesIO(b"FED\n"), out, Wanted(lexicon={"D": "1", "e": "2"}))
    assert out.getvalue() == "1 f 2\n"


def test_links_of_both_directions_are_combined(run, tmp_path, monkeypatch, capsys):
    one = dataclasses.replace(run, evaluator=KnownSteps(run.evaluator))
    (tmp_path / "gold").write_text("0-1 1-2\n")
    file = tmp_path / "other.pharaoh"
    file.write_text("1-0 0-1\n")  # from target to source
    pair, gold = [("fed", "F E D")], str(tmp_path / "gold")

    def combined(method, path):
        return aligned(one, pair, gold=gold, other=OtherDirection(method, path))

    assert combined("intersection", file) == ["0-1"]
    said = capsys.readouterr().err
    assert "AER 20.00 %" in said  # of the run alone
    assert "both directions, intersection: AER 33.33 %, precision 100.00 %, recall 50.00 %" in said
    assert combined("union", file) == ["0-1 1-0 1-2 2-0"]
    assert combined("grow-diag-final-and", file) == ["0-1 1-0 1-2 2-0"]

    class Turned(KnownSteps):
        def __init__(self, evaluator):
            super().__init__(evaluator)
            sides = evaluator.vocabularies
            self.vocabularies = Vocabularies(sides.target, sides.source)

    turned = dataclasses.replace(run, evaluator=Turned(run.evaluator))
    monkeypatch.setattr(mode, "open_run", lambda path, checkpoint: turned)
    # The other model's links 0-1 1-2 2-0, from target to source, are 1-0 2-1 0-2 of this pair.
    assert combined("union", tmp_path) == ["0-1 0-2 1-0 1-2 2-0 2-1"]
    assert combined("intersection", tmp_path) == [""]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0-0\n0-0\n", "has 2 lines of links, but there are 1 pair; give those"),
        ("0-0 x\n", "line 1: 'x' is no link"),
        ("3-0\n", "pair 1: a link 3-0 from target to source, but only 3 target and 4 source words"),
        ("0-4\n", "pair 1: a link 0-4 from target to source"),
    ],
)
def test_links_of_the_other_direction_that_are_not_the_pairs_are_refused(run, tmp_path, text, said):
    file = tmp_path / "links"
    file.write_text(text)
    with pytest.raises(InputError, match=said):
        aligned(run, [("cafe", "C A F")], other=OtherDirection("union", file))


@pytest.mark.parametrize("query", ["previous", "intermediate", "current"])
@pytest.mark.parametrize("ended", [True, False])
def test_links_and_replacements_of_outputs_are_from_the_step_of_each_word(run, query, ended):
    config = copy.deepcopy(run.config)
    config.model.attention.query = query
    output = Output([UNK, UNK, UNK], -1.0, STEPS[: 3 + ended], ended, -1.0)
    evaluator = KnownSteps(run.evaluator, [output])
    other = dataclasses.replace(run, config=config, evaluator=evaluator)
    for wanted, text, links in (
        (Wanted(alignments="pharaoh"), "⁇ ⁇ ⁇", LINKS),
        (Wanted(lexicon={"d": "D"}, alignments="pharaoh"), "D f e", LINKS),
    ):
        out, alignments = io.StringIO(), io.StringIO()
        translate(other, io.BytesIO(b"fed\n"), out, wanted, alignments)
        assert (out.getvalue(), alignments.getvalue()) == (f"{text}\n", f"{links}\n")


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
    assert "Each row is the step that predicts its word." in page
    assert str(tmp_path / "x" / "alignments.html") in capsys.readouterr().err


def test_gold_links_give_the_error_rate(run, tmp_path, capsys):
    lines = aligned(run, PAIRS[:2])
    gold = tmp_path / "gold"
    gold.write_text("\n".join(lines) + "\n")
    assert aligned(run, PAIRS[:2], gold=str(gold)) == lines
    said = capsys.readouterr().err
    assert "AER 0.00 %, precision 100.00 %, recall 100.00 %" in said and "offset 0" in said


def test_the_error_rate_is_told_at_the_offset_too(run, tmp_path, capsys):
    other = dataclasses.replace(run, evaluator=KnownSteps(run.evaluator))
    gold = tmp_path / "gold"
    gold.write_text("0-2 1-0\n")  # the steps attend to d, f, e
    aligned(other, [("fed", "F E D")], gold=str(gold))
    said = capsys.readouterr().err
    assert "AER 100.00 %" in said
    assert "offset +1: the weights lie 1 word to the right of the gold links" in said
    assert "moved back, AER is 0.00 %" in said
    assert gold_lines(dict.fromkeys(OFFSETS, LinkCounts()), "x") == [
        "AER nan %, precision nan %, recall nan % against x"
    ]


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

    (tmp_path / "gold").write_text("1-1 3-3\n\n4-4\n")
    (tmp_path / "r").write_text("0-0\n\n3-3\n")
    further = ["--draw=0", "--reverse=r", "--symmetrize=union", "--gold=gold", "--gold_base=1"]
    both = launch([*command, *further], tmp_path)
    assert both.status == 0, both.err
    combined = both.out.decode().split("\n")
    assert "0-0" in combined[0].split() and "3-3" in combined[2].split()
    assert any("both directions, union: AER" in line for line in both.lines)

    (tmp_path / "gold").write_text("0-0\n\n4-0\n")
    refused = launch([*command, "--gold=gold", "--pictures=q"], tmp_path)
    assert refused.status == 2
    assert "pair 3 has a link 4-0" in refused.lines[-1]
    assert not (tmp_path / "q").exists()
    assert refused.out == b""
