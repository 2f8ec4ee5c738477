import copy
import dataclasses
import io
import json
from pathlib import Path

import hostile
import jax
import jax.monitoring
import numpy as np
import pytest
import tiny

from bahdanau_jax import lines as line_files
from bahdanau_jax.data.token_store import TokenStore
from bahdanau_jax.errors import InputError
from bahdanau_jax.evaluation.evaluator import Evaluator
from bahdanau_jax.evaluation.trained_run import make_model, open_ensemble, open_run
from bahdanau_jax.modes import translate as mode
from bahdanau_jax.modes.translate import TEXT_ALONE, Wanted, translate
from bahdanau_jax.special_ids import UNK
from bahdanau_jax.workdir.checkpoints import Checkpoints
from bahdanau_jax.workdir.selection import Average, Selection

TEXT = b"fed\n\ncafe\n  \nabcdef\nfed\nzz\nf\n"


@pytest.fixture(scope="module")
def run(trained):
    return open_run(trained.directory, "best")


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """What is read together depends on no clock, and so do the shapes that are compiled."""
    monkeypatch.setattr(line_files, "PATIENCE", 60)


def translated(run, text, wanted=TEXT_ALONE):
    out = io.StringIO()
    translate(run, io.BytesIO(text), out, wanted)
    return out.getvalue()


@pytest.fixture(scope="module")
def lines(run):
    return translated(run, TEXT).split("\n")


def test_each_line_gives_a_line_and_an_empty_one_an_empty_one(lines):
    assert len(lines) == 9
    assert lines[-1] == ""  # the last line has its end
    assert [bool(line) for line in lines[:8]] == [True, False, True, False, True, True, True, True]
    assert lines[0] == lines[5]
    assert set(lines[0].split()) <= set("ABCDEF")


def test_what_it_writes_is_what_evaluation_decodes(run, lines, trained):
    outputs = (trained.directory / "outputs" / "dev.txt").read_text().splitlines()
    source = (tiny_directory(trained) / "dev.tsv").read_text().splitlines()
    words = "".join(line.split("\t")[0] + "\n" for line in source)
    assert translated(run, words.encode()).splitlines() == outputs


def tiny_directory(trained):
    return Path(trained.config.data.source.removeprefix("tsv:"))


@pytest.mark.parametrize("size", [1, 3])
def test_the_batch_changes_nothing(run, lines, size):
    config = copy.deepcopy(run.config)
    config.decode.batch_size = size
    evaluator = Evaluator(make_model(config, run.vocabularies), config, run.vocabularies)
    other = dataclasses.replace(run, config=config, evaluator=evaluator)
    assert translated(other, TEXT).split("\n") == lines


def test_the_lines_read_together_change_nothing(run, lines, monkeypatch):
    monkeypatch.setattr(mode, "CHUNK", 3)
    assert translated(run, TEXT).split("\n") == lines


def test_a_last_line_without_an_end_counts_and_no_line_gives_none(run, lines):
    assert translated(run, TEXT.removesuffix(b"\n")).split("\n") == lines
    assert translated(run, b"") == ""
    assert translated(run, b"\n") == "\n"
    assert translated(run, b" \n\n") == "\n\n"


def test_windows_line_ends_and_a_byte_order_mark_are_no_text(run, lines):
    text = b"\xef\xbb\xbf" + TEXT.replace(b"\n", b"\r\n")
    assert translated(run, text).split("\n") == lines


def test_other_forms_of_line_ends_within_a_line_divide_nothing(run):
    assert translated(run, "fe\u2028d\x0bf\x85\n".encode()).count("\n") == 1
    assert translated(run, b"fed\rfed\n").count("\n") == 1


def test_invalid_utf_8_names_the_line_and_what_came_before_it_is_written(run, monkeypatch):
    monkeypatch.setattr(mode, "CHUNK", 2)
    out = io.StringIO()
    with pytest.raises(InputError, match=r"input, line 4: not UTF-8 \(byte 2\)"):
        translate(run, io.BytesIO(b"fed\n\nf\nf\xe9d\nfed\n"), out)
    assert out.getvalue().count("\n") == 3


def test_longer_lines_are_counted_and_translated_whole(run, capsys):
    word = "abcdef" * 2
    assert len(word) > tiny.MAX_LENGTH
    whole = translated(run, f"{word}\nfed\n{word}a\n".encode()).splitlines()
    said = capsys.readouterr().err
    assert f"longer than the {tiny.MAX_LENGTH} tokens that training saw at most: 2 lines" in said
    cut = translated(run, word[: tiny.MAX_LENGTH].encode())
    assert whole[0] + "\n" != cut
    assert "longer" not in capsys.readouterr().err


def test_text_is_normalised_as_in_training(run):
    config = copy.deepcopy(run.config)
    config.data.lowercase = True
    lower = dataclasses.replace(run, config=config)
    assert translated(lower, b"FED\n") == translated(run, b"fed\n")


def with_decode(run, members=0, **fields):
    """The same model, searched in another way."""
    config = copy.deepcopy(run.config)
    config.decode = dataclasses.replace(config.decode, **fields)
    model = make_model(config, run.vocabularies)
    evaluator = Evaluator(model, config, run.vocabularies, members)
    return dataclasses.replace(run, config=config, evaluator=evaluator)


PROBE = "fed"  # a line whose output is known, between the hostile ones


def test_no_hostile_line_stops_it_or_shifts_the_output(run, capsys):
    # One batch for the short lines; short outputs, so that 10,000 characters don't take minutes.
    searched = with_decode(run, batch_size=256, max_length_ratio=0.02, beam_size=2)
    given = []
    for number, line in enumerate(hostile.lines()):
        given += [line, PROBE] if number % 10 == 9 else [line]
    out = translated(searched, "".join(f"{line}\n" for line in given).encode())
    made = out.removesuffix("\n").split("\n")
    assert len(made) == len(given) == len(out.splitlines()) == hostile.COUNT * 11 // 10
    probes = [output for line, output in zip(given, made, strict=True) if line == PROBE]
    assert len(set(probes)) == 1 and set(probes[0].split()) <= set("ABCDEF")
    for line, output in zip(given, made, strict=True):
        if not line.strip():
            assert output == ""
    assert sum(output == "" for output in made) < 60
    assert "that training saw at most: " in capsys.readouterr().err


def test_nothing_is_compiled_after_the_first_pass_over_the_shapes(run):
    compiled = []

    def note(event: str, duration_secs: float, **_: str | int) -> None:
        compiled.extend([event] * ("backend_compile" in event))

    jax.monitoring.register_event_duration_secs_listener(note)
    searched = with_decode(run, batch_size=2, beam_size=3, length_penalty="gnmt")
    short, longer = ["fed", "cab", "dead"], ["facade" * 3, "decade" * 3]
    first = translated(searched, "\n".join([*short, *longer, ""]).encode())
    assert len(compiled) >= 2  # one a shape, at least
    del compiled[:]
    other = ["bad", *["a" * 17, "be" * 9][::-1], "cafe", "fed"]
    translated(searched, "\n".join([*other, ""]).encode())
    assert translated(searched, "\n".join([*short, *longer, ""]).encode()) == first
    assert compiled == []


def test_the_n_best_come_with_rank_and_score(run):
    searched = with_decode(run, beam_size=4)
    text = b"fed\n\ncafe\n"
    rows = [line.split("\t") for line in translated(searched, text, Wanted(3)).splitlines()]
    assert [row[0] for row in rows] == ["1", "2", "3", "", "1", "2", "3"]
    best = translated(searched, text).splitlines()
    assert [row[2] for row in rows if row[0] == "1"] == [best[0], best[2]]
    for begin in (0, 4):
        scores = [float(row[1]) for row in rows[begin : begin + 3]]
        assert scores == sorted(scores, reverse=True) and scores[0] < 0
        assert len({row[2] for row in rows[begin : begin + 3]}) == 3


def test_more_outputs_than_the_beam_holds_are_refused(run):
    with pytest.raises(InputError, match="give --beam_size=3"):
        translated(with_decode(run, beam_size=2), b"fed\n", Wanted(3))


def test_an_output_is_the_same_sample_whatever_the_batch(run):
    text = b"fed\n\ncafe\nbad\nface\n"
    made = [
        translated(with_decode(run, temperature=1.5, batch_size=size), text, Wanted(4))
        for size in (1, 3, 32)
    ]
    assert made[0] == made[1] == made[2]
    other = translated(with_decode(run, temperature=1.5, seed=1), text, Wanted(4))
    assert other != made[0]


def test_alignments_are_those_of_the_outputs_when_they_are_forced(run):
    searched, alignments = with_decode(run, beam_size=3), io.StringIO()
    text = ["fed", "", "cafe", "abcdef"]
    out = io.StringIO()
    lines = io.BytesIO("".join(f"{line}\n" for line in text).encode())
    translate(searched, lines, out, Wanted(alignments="json"), alignments)
    outputs = out.getvalue().splitlines()
    written = [json.loads(line) for line in alignments.getvalue().splitlines()]
    assert len(written) == len(outputs) == 4
    assert written[1] == {"source": [], "target": [], "alignment": []}
    pairs = [(0, text[0], outputs[0]), (2, text[2], outputs[2]), (3, text[3], outputs[3])]
    vocabularies = run.vocabularies
    ids = [
        (vocabularies.source.encode(source), vocabularies.target.encode(target))
        for _, source, target in pairs
    ]
    forced = dict(run.evaluator.alignments(run.params, TokenStore.from_pairs(ids)))
    for place, (number, source, target) in enumerate(pairs):
        assert written[number]["source"] == [*source, "</s>"]
        assert written[number]["target"] == [*target.split(), "</s>"]
        np.testing.assert_allclose(written[number]["alignment"], forced[place], atol=1e-4)


def test_pharaoh_lines_link_words_that_are_there(run):
    alignments = io.StringIO()
    out = io.StringIO()
    lines = io.BytesIO(b"fed\n\nabcdef\n")
    translate(with_decode(run, beam_size=2), lines, out, Wanted(2, None, "pharaoh"), alignments)
    outputs, links = out.getvalue().splitlines(), alignments.getvalue().splitlines()
    assert len(outputs) == len(links) == 5 and links[2] == ""
    for row, line in zip(outputs, links, strict=True):
        words = row.split("\t")[-1].split()
        for i, j in (link.split("-") for link in line.split()):
            assert 0 <= int(i) < 6 and 0 <= int(j) < len(words)
    assert any(links)


def test_an_unknown_word_is_replaced_by_what_it_attends_to(run):
    # A model that says nothing but UNK, until the limit.
    params = {**run.params, "b_w": run.params["b_w"].at[UNK].set(1e4)}
    unknown = dataclasses.replace(with_decode(run, max_length_ratio=0.0), params=params)
    assert set(translated(unknown, b"fed\n").split()) == {"⁇"}
    made = translated(unknown, b"fed\n", Wanted(lexicon={"f": "F", "e": "E", "d": "D"}))
    assert len(made.split()) == 10 and set(made.split()) <= set("FED")
    assert set(translated(unknown, b"fed\n", Wanted(lexicon={})).split()) <= set("fed")


def test_outputs_begin_with_what_they_are_made_to_begin_with(run):
    source, target = run.vocabularies.source, run.vocabularies.target
    pairs = [("fed", "A B"), ("cafe", ""), ("bad", "C"), ("dead", "D E A D B")]
    store = TokenStore.from_pairs([(source.encode(s), target.encode(t)) for s, t in pairs])
    searched = with_decode(run, beam_size=2)
    made = dict(searched.evaluator.search.stream(run.params, store, forced=True))
    free = dict(searched.evaluator.search.stream(run.params, store))
    for number, (_, begin) in enumerate(pairs):
        text = searched.evaluator.text(made[number][0])
        assert text.startswith(begin)
    assert made[1][0].tokens == free[1][0].tokens
    assert made[0][0].tokens != free[0][0].tokens


def test_each_line_has_its_own_prefix_and_none_may_be_missing_or_left(run):
    def prefixed(*prefixes):
        out = io.StringIO()
        translate(run, io.BytesIO(b"fed\n\ncafe\n"), out, prefixes=iter(prefixes))
        return out.getvalue().splitlines()

    free = translated(run, b"fed\n\ncafe\n").splitlines()
    made = prefixed("A B", "C", "")
    assert made[0].startswith("A B") and made[1:] == free[1:]
    with pytest.raises(InputError, match="--prefixes has 2 lines, and the input has more"):
        prefixed("A", "")
    with pytest.raises(InputError, match="--prefixes has more lines than the input, which has 3"):
        prefixed("A B", "C", "", "")


def test_an_ensemble_of_the_same_model_translates_as_the_model(run, trained):
    members: list[tuple[Path, Selection]] = [(trained.directory, "best")] * 3
    ensemble = open_ensemble(members, {"decode.beam_size": 2, "decode.batch_size": 8})
    single = with_decode(run, beam_size=2, batch_size=8)
    assert translated(ensemble, TEXT, Wanted(2)) == translated(single, TEXT, Wanted(2))


def test_members_of_an_ensemble_must_be_alike(run, trained, monkeypatch):
    other = copy.deepcopy(run.config)
    other.model.gru_reset = "after"
    runs = iter([run, dataclasses.replace(run, config=other)])
    monkeypatch.setattr("bahdanau_jax.evaluation.trained_run.open_run", lambda *_: next(runs))
    with pytest.raises(InputError, match="other has another model than one"):
        open_ensemble([(Path("one"), "best"), (Path("other"), "best")])


def test_an_average_is_the_mean_of_the_newest_checkpoints(trained):
    with Checkpoints(trained.directory / "checkpoints") as checkpoints:
        steps = checkpoints.steps()
    assert steps == sorted(steps, reverse=True) and len(steps) >= 2
    newest, before = (open_run(trained.directory, step).params for step in steps[:2])
    mean = open_run(trained.directory, Average(2))
    for m, a, b in zip(*map(jax.tree.leaves, (mean.params, newest, before)), strict=True):
        np.testing.assert_allclose(m, (np.asarray(a) + np.asarray(b)) / 2, rtol=1e-6, atol=1e-7)
    assert mean.step == steps[0]
    with pytest.raises(InputError, match=r"average:9 needs 9 checkpoints, .* those there: "):
        open_run(trained.directory, Average(9))


def test_decoding_fields_replace_those_of_the_run(run, trained):
    changed = open_run(
        trained.directory, "best", {"decode.beam_size": 7, "decode.length_penalty": "none"}
    )
    assert changed.config.decode.beam_size == 7
    assert changed.config.model == run.config.model
    with pytest.raises(InputError, match=r"decode\.beam_size must be at least 1"):
        open_run(trained.directory, "best", {"decode.beam_size": 0})
