"""Model configurations of tiny sizes: what validate() allows, and sets that cover it.

An option is a field of `ModelConfig` that changes what is computed. The complete product of all
allowed values has hundreds of thousands of members; a cover is a small subset in which every pair
(or triple) of option values that occurs in the product occurs at least once.
"""

import functools
import itertools
import random
from typing import Any

import numpy as np

from bahdanau_jax.allowed import CHOICES
from bahdanau_jax.config import Config, ModelConfig
from bahdanau_jax.errors import InputError
from bahdanau_jax.validation import validate

Values = dict[str, Any]  # option -> value
Part = frozenset[tuple[str, Any]]  # some options with their values
SOURCE_SIZE, TARGET_SIZE = 8, 9  # entries of the vocabularies
BOTH = (False, True)

# Options in groups: most of validate()'s rules are between options of one group.
GROUPS: tuple[dict[str, tuple], ...] = (
    {
        "attention.score": CHOICES["model.attention.score"],
        "attention.scale": CHOICES["model.attention.scale"],
        "attention.bias": BOTH,
        "attention.normalize": BOTH,
        "attention.normalize_keys": BOTH,
        "attention.coverage": BOTH,
    },
    {
        "attention.query": CHOICES["model.attention.query"],
        "readout": CHOICES["model.readout"],
        "readout_parts": CHOICES["model.readout_parts"],
        "feeding": CHOICES["model.feeding"],
    },
    {
        "encoder.bidirectional": (True, False),
        "reverse_source": BOTH,
        "initial_state": CHOICES["model.initial_state"],
    },
    {"encoder.layers": (1, 2), "decoder.layers": (1, 2), "residual": BOTH},
    {"attention.window": CHOICES["model.attention.window"], "attention.renormalize": (True, False)},
    {
        "cell": CHOICES["model.cell"],
        "gru_reset": CHOICES["model.gru_reset"],
        "forget_bias": (0, 1),
    },
    {"layer_norm": CHOICES["model.layer_norm"]},
    {"tie_embeddings": CHOICES["model.tie_embeddings"]},
)
CROSSED = ("attention.score", "attention.window", "attention.query", "readout")


def build(values: Values) -> ModelConfig:
    """Returns the model with these options, in sizes that differ wherever they may differ."""
    model = ModelConfig()
    for path, value in values.items():
        *sections, name = path.split(".")
        setattr(functools.reduce(getattr, sections, model), name, value)
    model.encoder.units = 4 if model.encoder.bidirectional else 8  # annotations have 8 either way
    model.decoder.units = 8 if model.attention.score == "dot" else 5
    if model.initial_state == "layers":
        model.decoder.units = model.encoder.units
    model.attention.units, model.attention.half_width = 6, 2
    model.embedding, model.readout_units = 3, 7
    if model.tie_embeddings != "none":
        model.embedding = model.decoder.units if model.readout == "linear" else model.readout_units
    return model


def allowed(model: ModelConfig) -> bool:
    """Says whether validate() takes this model."""
    config = Config(model=model)
    config.data.source = "text:anywhere"
    config.data.vocabulary.joint = model.tie_embeddings == "all"
    try:
        validate(config)
    except InputError as error:
        if "model." not in str(error):
            raise  # the rest of this configuration should be beyond reproach
        return False
    return True


def name(values: Values) -> str:
    """Returns what a test is called: the crossed options, and every other one off its default."""
    words = [values[option] for option in CROSSED]
    for group in GROUPS:
        for option, (default, *_) in group.items():
            value = values[option]
            if option in CROSSED or value == default:
                continue
            if value is False:
                words.append("no_" + option.rsplit(".", 1)[-1])
            else:
                words.append(value if isinstance(value, str) else option.replace(".", "_"))
    return "-".join(words)


@functools.cache
def group_members() -> list[list[Values]]:
    """Values that each group may take while the others hold their first ones."""
    defaults = [{option: values[0] for option, values in group.items()} for group in GROUPS]
    members = []
    for place, group in enumerate(GROUPS):
        rest = [d for other, d in enumerate(defaults) if other != place]
        products = itertools.product(*group.values())
        candidates = [dict(zip(group, values, strict=True)) for values in products]
        members.append([c for c in candidates if allowed(build(joined([*rest, c])))])
    return members


def joined(groups: list[Values]) -> Values:
    """Returns the options of all groups, in the order of GROUPS."""
    merged = {option: value for group in groups for option, value in group.items()}
    return {option: merged[option] for group in GROUPS for option in group}


ITEMS = [
    (option, value) for group in GROUPS for option, values in group.items() for value in values
]
_PLACES = {item: place for place, item in enumerate(ITEMS)}


def parts_of(values: Values, strength: int) -> set[Part]:
    """Returns what a cover has to hold of one combination: every `strength` options' values."""
    return {frozenset(items) for items in itertools.combinations(values.items(), strength)}


def crossed_part(values: Values) -> Part:
    """Returns score, window, query and readout."""
    return frozenset((option, values[option]) for option in CROSSED)


def places(values: Values) -> list[int]:
    """Returns where the items of a combination, or of a part of one, stand in ITEMS."""
    return [_PLACES[item] for item in values.items()]


def required(strength: int) -> np.ndarray:
    """Marks every part that occurs in some allowed combination.

    A part touches as many groups as it has options, or fewer; the groups that it doesn't touch
    hold their first values, which go with everything.

    Returns:
      bool[ITEMS, ...], with as many axes as a part has options; an item comes before those of
      the options after it.
    """
    members = group_members()
    marked = np.zeros((len(ITEMS),) * strength, bool)
    for touched in itertools.combinations(range(len(members)), strength):
        choices = [m if place in touched else m[:1] for place, m in enumerate(members)]
        options = {option for place in touched for option in GROUPS[place]}
        for groups in itertools.product(*choices):
            values = joined(list(groups))
            if allowed(build(values)):
                items = places({o: v for o, v in values.items() if o in options})
                marked[np.ix_(*[items] * strength)] = True
    for axes in itertools.pairwise(np.indices(marked.shape, sparse=True)):
        marked &= axes[0] < axes[1]
    return marked


def required_crossed() -> list[Part]:
    """Returns every (score, window, query, readout) that occurs in some allowed combination."""
    choices = [m if any(o in CROSSED for o in m[0]) else m[:1] for m in group_members()]
    combined = (joined(list(groups)) for groups in itertools.product(*choices))
    parts = {crossed_part(values): None for values in combined if allowed(build(values))}
    return sorted(parts, key=lambda part: sorted(map(str, part)))


@functools.cache
def cover(strength: int, crossed: bool) -> list[Values]:
    """Returns combinations that hold every required part, the same ones in every process.

    Args:
      strength: 1 for every option value, 2 for every pair of them, 3 for every triple.
      crossed: also every (score, window, query, readout).
    """
    chance = random.Random(0)
    missing = required(strength)
    missing_crossed = dict.fromkeys(required_crossed() if crossed else [])
    chosen = []
    while missing_crossed or missing.any():
        # The largest parts first: they leave the least freedom to the others.
        first = np.unravel_index(missing.argmax(), missing.shape)
        part = dict(next(iter(missing_crossed), [ITEMS[place] for place in first]))
        fitting = [
            [m for m in members if all(m[o] == v for o, v in part.items() if o in m)]
            for members in group_members()
        ]
        drawn = [joined([chance.choice(members) for members in fitting]) for _ in range(25)]
        held = [np.ix_(*[places(values)] * strength) for values in drawn]
        order = sorted(range(len(drawn)), key=lambda place: -missing[held[place]].sum())
        best = next((place for place in order if allowed(build(drawn[place]))), None)
        if best is not None:
            chosen.append(drawn[best])
            missing[held[best]] = False
            missing_crossed.pop(crossed_part(drawn[best]), None)
    return chosen
