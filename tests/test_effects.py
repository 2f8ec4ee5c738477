"""Every field has an effect, or `ineffective` says that it has none, whatever the other fields are.

Configurations are drawn at random, with other values in some fields of all sections; then one
field is changed. `observing.py` says what counts as an effect.
"""

import random
import sys
from typing import Any, NamedTuple

import pytest
from observing import OBSERVATIONS, reading

from bahdanau_jax.allowed import CHOICES
from bahdanau_jax.config import Config
from bahdanau_jax.data.datasets.synthetic import Synthetic
from bahdanau_jax.effects import ineffective
from bahdanau_jax.errors import InputError
from bahdanau_jax.fields import field_paths, field_type, text_of, value_of, with_values
from bahdanau_jax.validation import validate

# `follows` is what an experiment says of itself: explain and a run's records read it, nothing else.
PATHS = tuple(path for path in field_paths() if path != "follows")

# Values to try, where those of `values` can't work or would take long: {} is the folder of texts.
VALUES: dict[str, tuple] = {
    "data.source": ("tsv:{}", "text:{}", "tfds:copy_insert"),
    "data.source_language": ("source", "target", "third"),
    "data.target_language": ("source", "target", "third"),
    "data.directory": ("{}/few", "{}/more"),
    "data.train_links": ("{}/links", "{}/fewer"),
    "data.links_base": (0, 1),
    "data.max_length": (5, 7, 9),
    "data.vocabulary.size": (0, 7, 30, 31),
    "data.vocabulary.target_size": (0, 7, 30),
    "model.encoder.units": (2, 3),
    "model.encoder.layers": (1, 2),
    "model.decoder.layers": (1, 2),
    "evaluation.tokenize": ("13a", "char", "none"),
    "train.steps": (7, 8, 9),
    "train.epochs": (0.0, 3.5, 4.0),
    "train.eval_every": (2, 3, 9),
    "train.patience": (0, 1, 3),
    "train.max_skipped": (1, 10),
    "train.batch_size": (8, 9, 12),
    "train.batch_tokens": (0, 60, 80),
    "train.accumulate": (1, 2),
}
# A run that ends before its last step, or whose rate isn't lowered in time, doesn't show what other
# fields would do to it.
NEVER_DRAWN = {"train.patience", "train.max_skipped", "train.decay_patience"}
AT_A_TIME = 16  # fields that are looked at in a configuration
# What some fields need, and chance alone seldom gives.
STARTS: tuple[dict[str, Any], ...] = (
    {},
    {"model.attention.query": "current", "model.readout": "attentional"},
    {"model.attention.score": "general"},
    {"evaluation.metrics": "bleu"},
    {"decode.length_penalty": "gnmt", "decode.beam_size": 2},
    {"train.schedule": "halving"},
    {"train.schedule": "plateau"},
    {"model.attention.window": "local_p", "model.initial_state": "mean"},
    {"train.guide": 0.5, "data.train_links": "{}/links"},
)
LANGUAGES = ("source", "target", "third")


def write_texts(folder):
    """Writes text in three languages, the first two in columns too, and two prepared data sets."""
    chance = random.Random(0)

    def sentence() -> str:
        words = ["".join(chance.choices("Abcde", k=chance.randint(1, 2))) for _ in range(8)]
        return " ".join(words[: chance.randint(2, 8)])

    # A line for each pair, of which every word is there by either way of counting.
    (folder / "links").write_text("1-1\n" * 80)
    (folder / "fewer").write_text("1-1\n\n" * 40)
    for split, count in (("train", 80), ("dev", 6)):
        rows = [[sentence() for _ in LANGUAGES] for _ in range(count)]
        (folder / f"{split}.tsv").write_text("".join("\t".join(row[:2]) + "\n" for row in rows))
        for language, lines in zip(LANGUAGES, zip(*rows, strict=True), strict=True):
            (folder / f"{split}.{language}").write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("texts")
    write_texts(made)
    with pytest.MonkeyPatch.context() as patch:
        for name, count in (("few", 400), ("more", 500)):
            sizes = {"train": count, "validation": 5}
            patch.setattr(Synthetic, "SIZES", sizes)
            config = base(made)
            config.data.source, config.data.directory = "tfds:copy_insert", f"{made}/{name}"
            assert len(reading(config)) == 4
    return made


def base(folder) -> Config:
    """Returns a small configuration, valid with each of the scores."""
    config = Config()
    data, model, train = config.data, config.model, config.train
    data.source, data.directory = f"tsv:{folder}", f"{folder}/few"
    data.source_language, data.target_language = "source", "target"
    data.max_length, data.shapes = 9, 3
    data.vocabulary.kind, data.vocabulary.size = "words", 9
    model.encoder.units, model.attention.half_width = 2, 2
    model.embedding = model.decoder.units = model.attention.units = model.readout_units = 4
    train.steps, train.batch_size, train.log_every = 8, 8, 2
    train.eval_every, train.checkpoint_every = 2, 3
    train.decay_start, train.decay_patience = 3.0, 0
    return config


def values(path: str, config: Config, folder) -> list[Any]:
    """Returns the values that a field may be given in place of its own."""
    own, kind = value_of(config, path), field_type(path)
    if path in VALUES:
        tried = [x.format(folder) if kind is str else x for x in VALUES[path]]
    elif path in CHOICES:
        tried = list(CHOICES[path])
    elif kind is str:
        raise KeyError(f"say in VALUES what {path} may be")
    else:
        tried = {bool: [False, True], int: [0, 1, 2, 3, 4], float: [0.0, 0.25, 0.5, 1.5]}[kind]
    changed = [with_values(config, {path: value}) for value in tried if value != own]
    if path == "data.lowercase" and config.data.source.startswith("tfds:"):
        return []  # the synthetic data have no capital letters
    return [other for other in changed if not is_refused(other)]


def is_refused(config: Config) -> bool:
    try:
        validate(config)
    except InputError:
        return True
    return False


def drawn(chance: random.Random, folder, count: int) -> Config:
    """Returns a valid configuration whose data can be read, with other values in some fields."""
    start = chance.choice(STARTS)
    start = {k: x.format(folder) if isinstance(x, str) else x for k, x in start.items()}
    config = with_values(base(folder), start)
    paths = chance.sample(sorted({*PATHS} - NEVER_DRAWN), count)
    for path in ("data.source", *paths):
        others = values(path, config, folder)
        chance.shuffle(others)
        config = next((x for x in others if not isinstance(reading(x), str)), config)
    return config


class Seen(NamedTuple):
    path: str
    idle: bool  # `ineffective` names it
    wrong: str  # empty, or what contradicts that
    config: Config


def look(config: Config, path: str, folder) -> Seen:
    """Compares what `ineffective` says of a field with what it does."""
    others = values(path, config, folder)
    if path in ineffective(config):
        changed = [value_of(x, path) for x in others[:1] if difference(config, x, path)]
        wrong = f"is refused, but {changed} change {DIFFERED[path]}" if changed else ""
        return Seen(path, True, wrong, config)
    changes = any(difference(config, other, path) for other in others)
    return Seen(path, False, "" if changes else "changes nothing, and isn't refused", config)


# In what a field made a difference last, so that it is looked at first.
DIFFERED: dict[str, str] = {}


def difference(config: Config, other: Config, path: str) -> bool:
    """Returns whether two configurations, which differ in a field, differ in what they do."""
    for name in dict.fromkeys((DIFFERED.get(path, "what is read"), *OBSERVATIONS)):
        if OBSERVATIONS[name](config) != OBSERVATIONS[name](other):
            DIFFERED[path] = name
            return True
    return False


def looked_at(seed: int, folder) -> list[Seen]:
    """Looks at every field; at one that is idle in some configurations, in such a one as well.

    Args:
      seed: of the configurations.
      folder: of their texts.
    """
    chance, seen = random.Random(seed), []
    pool = [drawn(chance, folder, chance.randint(2, 12)) for _ in range(60)]
    idle = [{*ineffective(config)} for config in pool]
    # What each configuration can show, as far as other values are allowed there.
    shows = [
        [(path, path in paths) for path in PATHS if values(path, config, folder)]
        for config, paths in zip(pool, idle, strict=True)
    ]
    left = {(path, False) for path in PATHS}.union(*shows)
    while left:
        most = max(range(len(pool)), key=lambda number: len(left.intersection(shows[number])))
        dealt = [state for state in shows[most] if state in left]
        assert dealt, f"no configuration shows {left}"
        chance.shuffle(dealt)
        # A few at a time, so that fields meet many others.
        dealt = dealt[:AT_A_TIME]
        left -= {*dealt}
        seen += [look(pool[most], path, folder) for path, _ in dealt]
    return seen


def contradictions(seen: list[Seen], folder) -> list[str]:
    first = base(folder)
    return [
        f"{path} {wrong}, with "
        + " ".join(
            f"{other}={text_of(value_of(config, other))}"
            for other in PATHS
            if value_of(config, other) != value_of(first, other)
        )
        for path, _, wrong, config in seen
        if wrong
    ]


@pytest.mark.slow
def test_every_field_has_an_effect_or_is_known_to_have_none(folder):
    seen = looked_at(0, folder)
    assert contradictions(seen, folder) == []
    assert {one.path for one in seen} == {*PATHS}
    assert len({one.path for one in seen if one.idle}) > 12


@pytest.mark.slow
def test_among_other_fields_too(folder):
    assert contradictions(looked_at(1, folder), folder) == []


def test_a_rule_that_is_missing_and_one_that_is_wrong_would_be_seen(folder, monkeypatch):
    config = base(folder)
    paths = ("data.source_language", "data.pool")
    assert [look(config, path, folder).wrong for path in paths] == ["", ""]
    monkeypatch.setattr(sys.modules[__name__], "ineffective", lambda _: {"data.pool": "a slip"})
    missing, wrong = (look(config, path, folder).wrong for path in paths)
    assert missing == "changes nothing, and isn't refused"
    assert "is refused, but" in wrong
