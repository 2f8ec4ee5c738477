import itertools
import math

import pytest
import tiny

from bahdanau_jax import fields
from bahdanau_jax.errors import InputError
from bahdanau_jax.fields import field_paths
from bahdanau_jax.sweeps import grid


@pytest.fixture
def base():
    return tiny.config("tsv:nowhere")


def expand(base, *sweeps, **options):
    return grid.expand(base, sweeps, **options)


def names(cells):
    return [cell.name for cell in cells]


def test_several_sweeps_are_their_product_and_the_last_varies_fastest(base):
    cells = expand(base, "model.attention.score=additive,projected", "seed=0,1,2")
    assert names(cells) == [
        f"score={score},seed={seed}" for score in ("additive", "projected") for seed in (0, 1, 2)
    ]
    assert [(c.config.model.attention.score, c.config.seed) for c in cells] == [
        (score, seed) for score in ("additive", "projected") for seed in (0, 1, 2)
    ]
    assert cells[0].config.train == base.train
    assert base.seed == 0 and base.model.attention.score == "additive"  # the base is left alone


def test_zip_pairs_and_refuses_unequal_numbers(base):
    cells = expand(base, "score=additive,projected", "seed=4,5", paired=True)
    assert names(cells) == ["score=additive,seed=4", "score=projected,seed=5"]
    with pytest.raises(InputError, match="as many values each; there are: score 2, seed 3"):
        expand(base, "score=additive,projected", "seed=1,2,3", paired=True)


@pytest.mark.parametrize(
    ("sweep", "path", "values"),
    [
        ("seed=3", "seed", [3]),
        ("config.seed=3", "seed", [3]),
        ("seed=0..3", "seed", [0, 1, 2, 3]),
        ("seed=7,0..2", "seed", [7, 0, 1, 2]),
        ("data.seed=1", "data.seed", [1]),
        ("embedding.size=1", None, None),
        ("learning_rate=1e-3,3e-3", "train.learning_rate", [1e-3, 3e-3]),
        ("learning_rate=1", "train.learning_rate", [1.0]),
        ("train.learning_rate=1e-4..1e-2:log5", "train.learning_rate", None),
        ("dropout.readout=0..0.4:5", "train.dropout.readout", [0.0, 0.1, 0.2, 0.3, 0.4]),
        ("steps=100..1000:log3", "train.steps", [100, 316, 1000]),
        ("residual=true,FALSE", "model.residual", [True, False]),
        ("data.source=tsv:../a..b:3", "data.source", ["tsv:../a..b:3"]),
        ("target_kind=,words", "data.vocabulary.target_kind", ["", "words"]),
    ],
)
def test_values_are_read_by_the_type_of_the_field(sweep, path, values):
    if path is None:
        with pytest.raises(InputError, match="unknown configuration field"):
            fields.parse_field(sweep)
        return
    path_read, values_read = fields.parse_field(sweep)
    assert path_read == path
    if values is None:
        ratios = [float(b) / float(a) for a, b in itertools.pairwise(values_read)]
        assert (values_read[0], values_read[-1], len(values_read)) == (1e-4, 1e-2, 5)
        assert ratios == pytest.approx([math.sqrt(10)] * 4, rel=1e-3)
    else:
        assert values_read == values
        assert [type(value) for value in values_read] == [type(value) for value in values]


@pytest.mark.parametrize(
    ("sweeps", "said"),
    [
        (["seed"], "must be FIELD=v1,v2,… or @NAME"),
        (["sed=1"], "did you mean seed?"),
        (["units=1"], "model.encoder.units or model.decoder.units or model.attention.units"),
        (["=1"], "unknown configuration field"),
        (["seed="], "seed must be int; it is ''"),
        (["seed=one"], "seed must be int; it is 'one'"),
        (["seed=1,1"], "the value 1 occurs twice"),
        (["seed=3..1"], "the range 3..1 holds no value"),
        (["learning_rate=1..2"], "say how many values, as 1..2:5 or 1..2:log5"),
        (["learning_rate=0..1:log3"], "a logarithmic range begins above 0"),
        (["learning_rate=1e-3..1e-2:0"], "holds no value"),
        (["residual=perhaps"], "model.residual must be bool; it is 'perhaps'"),
        (["seed=1,2", "seed=3"], "seed is given twice"),
        (["@scores"], "has no such sweep; it has @mine, @none"),
        (["@none"], "there are no values"),
        (["seed=0..20000"], "more than 10,000"),
        (["seed=0..99999999999999999999"], "more than 10,000"),  # at once, and in no memory
        (["learning_rate=1e-4..1e-2:log99999999999"], "more than 10,000"),
        (["seed=0..120", "data.seed=0..120"], "14,641 cells are more than 10,000"),
        (["learning_rate=1e-4..inf:5"], "a range has two ends"),
        (["learning_rate=nan..1:5"], "a range has two ends"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_reason(base, sweeps, said):
    offers = {"mine": {"seed": [1]}, "none": []}
    with pytest.raises(InputError) as caught:
        grid.expand(base, sweeps, offers)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "offer",
    [5, None, "seed", {"seed": 3}, {"seed": "12"}, {"seed": [[1], [2]]}, [5], [{"seed": [1]}]],
)
def test_what_an_experiment_offers_is_refused_if_it_is_no_sweep(base, offer):
    with pytest.raises(InputError, match="--sweep=@mine: the experiment file's SWEEPS must have"):
        grid.expand(base, ["@mine"], {"mine": offer})


@pytest.mark.parametrize(
    "sweep", ["sed=1", "units=1", "seed=x", "seed=1..x", "seed=1,1", "seed=3..1", "seed", "@none"]
)
def test_a_complaint_names_the_flag_that_was_given(base, sweep):
    with pytest.raises(InputError) as caught:
        grid.expand(base, [sweep], flag="--replicas")
    assert "--replicas" in str(caught.value) and "--sweep" not in str(caught.value)


def test_an_invalid_value_in_the_last_cell_is_refused_with_its_name(base):
    with pytest.raises(InputError, match=r"the cell seed=1,score=dot can't be run: .*score=dot"):
        expand(base, "seed=1", "score=additive,projected,dot")


def test_a_named_sweep_is_a_product_or_a_list_of_points(base):
    offers = {
        "product": {"score": ["additive", "projected"], "seed": [0, 1]},
        "points": [{"score": "additive"}, {"score": "dot", "decoder.units": 32}],
    }
    assert names(grid.expand(base, ["@product"], offers)) == [
        f"score={score},seed={seed}" for score in ("additive", "projected") for seed in (0, 1)
    ]
    cells = grid.expand(base, ["@points", "seed=5"], offers)
    assert names(cells) == [
        "score=additive,decoder.units=16,seed=5",
        "score=dot,decoder.units=32,seed=5",
    ]
    assert [cell.config.model.decoder.units for cell in cells] == [16, 32]


def test_every_field_has_a_short_name_that_means_it_and_nothing_else():
    short = {path: fields.short_name(path) for path in field_paths()}
    assert {path: fields.resolve(name) for path, name in short.items()} == {p: p for p in short}
    assert short["model.attention.score"] == "score"
    assert short["data.seed"] == "data.seed"
    assert short["model.encoder.units"] == "encoder.units"


def test_names_of_cells_are_safe_and_different(base):
    sources = ["tsv:a/b", "tsv:a-b", "tsv:a b", "tsv:ä", "tsv:" + "long/" * 60, "tsv:" + "l/" * 99]
    names = [grid.cell(base, {"data.source": s}, ["data.source"]).name for s in sources]
    assert len(set(names)) == len(names)
    for name in names:
        assert len(name) <= grid.LONGEST_NAME
        assert all(c.isascii() and (c.isalnum() or c in "=,._-~%+") for c in name), name


def test_flags_of_a_cell_say_its_values_exactly(base):
    values = {"train.learning_rate": 0.1 + 0.2, "model.attention.bias": False, "seed": 3}
    cell = grid.cell(base, values, ["seed"])
    assert cell.arguments() == [
        "--config.train.learning_rate=0.30000000000000004",
        "--config.model.attention.bias=false",
        "--config.seed=3",
    ]
