"""The oracle itself: worked examples, values computed by hand, identities between its parts."""

import dataclasses

import numpy as np
import pytest
import reference
from reference_parameters import (
    finite_difference,
    leaf_paths,
    lookup,
    parameter_shapes,
    random_parameters,
)

from bahdanau_jax.config import AttentionConfig, DecoderConfig, EncoderConfig, ModelConfig

SOURCE = np.array([[4, 5, 6, 2], [5, 2, 0, 0]])
TARGET = np.array([[6, 4, 2], [2, 0, 0]])


def generator() -> np.random.Generator:
    return np.random.default_rng(0)


def small(**fields) -> ModelConfig:
    """A model of distinct small sizes; `fields` replace ModelConfig's, `attention` a dict."""
    attention = AttentionConfig(**{"units": 5, "half_width": 1, **fields.pop("attention", {})})
    sizes = {
        "embedding": 3,
        "encoder": EncoderConfig(units=2),
        "decoder": DecoderConfig(units=4),
        "readout_units": 3,
    }
    return ModelConfig(**{**sizes, "attention": attention, **fields})


def random_model(config: ModelConfig) -> dict:
    return random_parameters(parameter_shapes(config, 7, 8), generator())


def decode(config: ModelConfig, params: dict, source=SOURCE, target=TARGET):
    return reference.decode_teacher_forced(params, config, source, source > 0, target, target > 0)


def test_worked_example_of_the_third_seed() -> None:
    weights = reference.masked_softmax(np.array([2.0, 0.5, -1.0]), [True] * 3)
    context = reference.context_vector(weights, np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))
    np.testing.assert_array_equal(np.round(weights, 3), [0.786, 0.175, 0.039])
    np.testing.assert_array_equal(np.round(context, 3), [0.825, 0.214])


def test_masked_softmax_is_a_softmax_over_allowed_positions_only() -> None:
    weights = reference.masked_softmax(np.log([1.0, 5.0, 3.0]) + 800, [True, False, True])
    np.testing.assert_allclose(weights, [0.25, 0.0, 0.75], rtol=1e-12)
    np.testing.assert_array_equal(reference.masked_softmax(np.ones(2), [False, False]), [0, 0])


QUERY, ANNOTATION = np.array([1.0, 2.0]), np.array([3.0, -1.0])
IDENTITY, V = np.eye(2), np.array([1.0, -2.0])
TANH = np.tanh(4) - 2 * np.tanh(1)  # V . tanh(QUERY + ANNOTATION)
BIASED = {"b": np.array([-4.0, 0.0])}


@pytest.mark.parametrize(
    ("fields", "params", "expected"),
    [
        ({"score": "additive"}, {"U_a": IDENTITY}, TANH),
        ({"score": "additive", "bias": True}, {"U_a": IDENTITY} | BIASED, -2 * np.tanh(1)),
        (
            {"score": "additive", "coverage": True},  # 0.5 of the past: [4 - 1, 1 + 1]
            {"U_a": IDENTITY, "w_cov": np.array([-2.0, 2.0])},
            np.tanh(3) - 2 * np.tanh(2),
        ),
        (
            {"score": "additive", "normalize": True},
            {"U_a": IDENTITY, "g": np.array(10.0)},
            10 * TANH / np.sqrt(5),
        ),
        ({"score": "concat"}, {"W_a": np.concatenate([IDENTITY, IDENTITY])}, TANH),
        ({"score": "concat_identity"}, {}, TANH),
        ({"score": "dot"}, {}, 1.0),
        ({"score": "dot", "scale": "sqrt"}, {}, 1 / np.sqrt(2)),
        ({"score": "dot", "scale": "linear"}, {}, 1 / 2),
        (  # the query [-1, 1] times 2, the key [1, -1] times 3 and 1
            {"score": "dot", "normalize_keys": True},
            {"gain_q": np.full(2, 2.0), "gain_k": np.array([3.0, 1.0])},
            -8.0,
        ),
        (  # inside [-1, 1] + [3, -1]
            {"score": "concat_identity", "normalize_keys": True},
            {"gain_q": np.ones(2), "gain_k": np.array([3.0, 1.0])},
            np.tanh(2),
        ),
        (  # [1, 2] + [-4, 0] = [-3, 2]
            {"score": "projected", "bias": True},
            {"U_a": IDENTITY} | BIASED,
            -11.0,
        ),
        ({"score": "general"}, {"W_a": np.array([[0.0, 1.0], [1.0, 0.0]])}, 5.0),
        ({"score": "general", "scale": "learned"}, {"scale": np.array(3.0)}, 3.0),
        (
            {"score": "projected", "scale": "sqrt"},  # [3] . [5], divided by sqrt(1)
            {"W_a": np.ones((2, 1)), "U_a": np.array([[2.0], [1.0]])},
            15.0,
        ),
        ({"score": "uniform"}, {}, 0.0),
    ],
)
def test_energies_by_hand(fields: dict, params: dict, expected: float) -> None:
    params = {"W_a": IDENTITY, "v_a": V} | params
    attention, positions = AttentionConfig(**fields), ANNOTATION[None]
    energies = reference.energies(params, attention, QUERY, positions, coverage=np.array([0.5]))
    # Beside the variance of a normalised pair, 1/4 or 4, stands an ε of 1e-5.
    within = 1e-4 if attention.normalize_keys else 1e-12
    np.testing.assert_allclose(energies, [expected], rtol=within)


def test_windows_by_hand() -> None:
    # Equal energies over five positions; W_p = v_p = 0 predicts the middle, p = 2.5.
    annotations, query = np.zeros((5, 2)), np.ones(2)
    zeros = {"W_p": np.zeros((2, 2)), "v_p": np.zeros(2)}

    def align(step: int, **fields) -> np.ndarray:
        attention = AttentionConfig(score="dot", **fields)
        return reference.align(zeros, attention, query, annotations, step, np.zeros(5))

    monotonic = {"window": "local_m", "half_width": 1}
    np.testing.assert_allclose(align(0, **monotonic), [1 / 2, 1 / 2, 0, 0, 0])
    np.testing.assert_allclose(align(2, **monotonic), [0, 1 / 3, 1 / 3, 1 / 3, 0])
    np.testing.assert_allclose(align(9, **monotonic), [0, 0, 0, 1 / 2, 1 / 2])
    # |j - 2.5| <= 2 leaves 1, 2, 3, 4; sigma = 1.
    near, far = np.exp(-0.125), np.exp(-1.125)
    gaussian = np.array([0, far, near, near, far])
    predictive = {"window": "local_p", "half_width": 2}
    np.testing.assert_allclose(align(0, renormalize=False, **predictive), gaussian / 4)
    np.testing.assert_allclose(align(0, **predictive), gaussian / gaussian.sum())


def test_initial_states_by_hand() -> None:
    annotations = np.arange(12.0).reshape(3, 4) / 10  # forward: first two columns
    expected = {
        "backward": [0.2, 0.3],
        "final": [0.8, 0.9, 0.2, 0.3],
        "mean": [0.4, 0.5, 0.6, 0.7],
    }
    for kind, v in expected.items():
        params = {"initial_state": {"W_s_0": np.eye(len(v), 4)}}
        state = reference.initial_state(params, small(initial_state=kind), annotations)
        np.testing.assert_allclose(state.hidden[0][: len(v)], np.tanh(v), rtol=1e-12)
        empty = reference.initial_state(params, small(initial_state=kind), np.zeros((0, 4)))
        np.testing.assert_array_equal(empty.hidden[0], np.zeros(4))
    state = reference.initial_state({}, small(initial_state="zero"), annotations)
    np.testing.assert_array_equal(state.hidden[0], np.zeros(4))


def test_the_decoders_layers_start_from_what_the_encoders_end_with() -> None:
    config = small(**VARIANTS["layers"])
    params = random_model(config)
    annotations, last = reference.annotate(params, config, SOURCE[0])
    # By hand: the top layer's forward half is what the last annotation holds.
    np.testing.assert_array_equal(last[1][0], annotations[-1, :4])
    state = reference.initial_state(params, config, annotations, last)
    for layer, (hidden, memory) in enumerate(last):
        np.testing.assert_array_equal(state.hidden[layer], hidden)
        np.testing.assert_array_equal(state.memory[layer], memory)
        assert memory.all() and np.all(np.abs(hidden) < np.abs(np.tanh(memory)))


def test_reversed_reading_by_hand() -> None:
    config = small(reverse_source=True)
    params = random_model(config)
    annotations, last = reference.annotate(params, config, SOURCE[0])
    forwards = dataclasses.replace(config, reverse_source=False)
    other, same = reference.annotate(params, forwards, SOURCE[0, [2, 1, 0, 3]])
    np.testing.assert_array_equal(annotations, other[[2, 1, 0, 3]])
    np.testing.assert_array_equal(last[0], same[0])
    np.testing.assert_array_equal(
        reference.final_state(config, annotations), reference.final_state(forwards, other)
    )


def test_maxout_takes_the_larger_of_two_halves() -> None:
    params = {"U_o": np.array([[1.0, 0, 0, 0]]), "V_o": np.array([[0, 0, 0, 1.0]])}
    params |= {"C_o": np.array([[0, 0, 1.0, 0]]), "b_o": np.array([0, 1.0, 0, 0])}
    t = reference.maxout(params, np.array([2.0]), np.array([3.0]), np.array([5.0]))
    np.testing.assert_array_equal(t, [5.0, 3.0])  # max(2, 5), max(1, 3)


def test_loss_by_hand() -> None:
    logits = np.log([[[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]]])
    target, mask = np.array([[1, 2]]), np.array([[True, False]])
    assert reference.nll(logits, target, mask) == pytest.approx(np.log(4))
    smooth = 0.7 * np.log(4) + 0.3 * np.log(2 * 4 * 4) / 3
    assert reference.nll(logits, target, mask, label_smoothing=0.3) == pytest.approx(smooth)


VARIANTS = {
    "paper": {},
    "luong": {
        "cell": "lstm",
        "attention": {"score": "general", "query": "current", "window": "local_p"},
        "feeding": "attentional",
        "readout": "attentional",
        "initial_state": "zero",
        "decoder": DecoderConfig(units=4, layers=2),
        "residual": True,
    },
    "conditional": {
        "attention": {"query": "intermediate", "bias": True, "coverage": True, "normalize": True},
        "gru_reset": "after",
        "layer_norm": "both",
        "encoder": EncoderConfig(units=2, layers=2),
        "residual": True,
        "initial_state": "mean",
        "tie_embeddings": "output",
    },
    "dot": {"attention": {"score": "dot", "scale": "learned"}, "readout": "attentional"},
    "normalised keys": {
        "attention": {"score": "projected", "scale": "linear", "bias": True, "normalize_keys": True}
    },
    "one direction": {
        "encoder": EncoderConfig(units=4, bidirectional=False),
        "attention": {"score": "projected", "scale": "sqrt", "window": "local_m"},
        "initial_state": "final",
        "readout": "linear",
    },
    "layers": {
        "cell": "lstm",
        "encoder": EncoderConfig(units=4, layers=2),
        "decoder": DecoderConfig(units=4, layers=2),
        "initial_state": "layers",
    },
    "normalised encoder": {"cell": "lstm", "layer_norm": "encoder"},
    "reversed": {"reverse_source": True, "initial_state": "final"},
    "one embedding": {"tie_embeddings": "all"},
    "concat": {"attention": {"score": "concat"}},
    "identity": {"attention": {"score": "concat_identity"}},
    "uniform": {"attention": {"score": "uniform"}},
    "fixed": {"attention": {"score": "fixed"}},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_a_sentence_gets_the_same_alone_and_beside_an_empty_one(name: str) -> None:
    config = small(**VARIANTS[name])
    params = random_model(config)
    logits, alignments = decode(config, params)
    assert np.all(alignments[0].sum(axis=1) > 0.1)
    if not (config.attention.window == "local_p" and not config.attention.renormalize):
        np.testing.assert_allclose(alignments.sum(axis=2)[TARGET > 0], 1.0)
    alone, _ = decode(config, params, SOURCE[1:, :2], TARGET[1:, :1])
    np.testing.assert_array_equal(logits[1, :1], alone[0])
    empty, nothing = decode(config, params, np.zeros((1, 4), dtype=int), TARGET[1:])
    assert np.all(np.isfinite(empty)) and not nothing.any()


@pytest.mark.parametrize("name", VARIANTS)
def test_every_parameter_moves_the_loss(name: str) -> None:
    config = small(**VARIANTS[name])
    params = random_model(config)
    loss = reference.nll(decode(config, params)[0], TARGET, TARGET > 0)
    for path in leaf_paths(params):
        moved = reference.float64(params)
        lookup(moved, path)[...] += generator().normal(size=lookup(params, path).shape)
        changed = reference.nll(decode(config, moved)[0], TARGET, TARGET > 0)
        assert abs(changed - loss) > 1e-9, path


def test_the_query_is_the_state_of_its_moment() -> None:
    # The token read at step 1 can move the alignment of step 1 only through the new state.
    other = TARGET.copy()
    other[0, 0] = 5
    for query, moves in (("previous", False), ("intermediate", True), ("current", True)):
        config = small(attention={"query": query})
        params = random_model(config)
        first, second = decode(config, params)[1][0], decode(config, params, target=other)[1][0]
        np.testing.assert_array_equal(first[0], second[0])
        assert (not np.allclose(first[1], second[1])) == moves


def test_the_papers_readout_takes_the_state_before_and_luongs_this_step() -> None:
    for readout, moves in (("maxout", False), ("attentional", True), ("linear", True)):
        config = small(readout=readout)
        params = random_model(config)
        changed = reference.float64(params)
        changed["decoder"]["cell"]["cell_0"]["b"] += 0.5
        first, second = decode(config, params)[0][0, 0], decode(config, changed)[0][0, 0]
        assert (not np.allclose(first, second)) == moves


def test_input_feeding_hands_on_the_attentional_vector() -> None:
    attention = {"query": "current"}
    config = small(attention=attention, feeding="attentional", readout="attentional")
    params = random_model(config)
    logits, _ = decode(config, params)
    without = dataclasses.replace(config, feeding="none")
    plain, _ = decode(without, params)
    np.testing.assert_array_equal(logits[0, 0], plain[0, 0])  # h~ starts at zero
    assert not np.allclose(logits[0, 1], plain[0, 1])


def test_a_residual_layer_that_computes_nothing_passes_its_input_on() -> None:
    config = small(encoder=EncoderConfig(units=2, layers=2), residual=True)
    params = random_model(config)
    for name in ("forward_1", "backward_1"):
        params["encoder"][name] = {k: 0 * v for k, v in params["encoder"][name].items()}
    annotations = reference.encode(params, config, SOURCE, SOURCE > 0)
    below = dataclasses.replace(config, encoder=EncoderConfig(units=2, layers=1))
    np.testing.assert_array_equal(annotations, reference.encode(params, below, SOURCE, SOURCE > 0))
    assert annotations[0].all() and not annotations[1, 2:].any()


def test_a_residual_decoder_layer_that_computes_nothing_passes_its_input_on() -> None:
    two_layers = DecoderConfig(units=4, layers=2)
    deep = small(decoder=two_layers, residual=True, readout="linear", initial_state="zero")
    params = random_model(deep)
    cell = params["decoder"]["cell"]
    cell["cell_1"] = {k: 0 * v for k, v in cell["cell_1"].items()}
    first, _ = decode(deep, params)
    shallow = dataclasses.replace(deep, decoder=DecoderConfig(units=4, layers=1))
    np.testing.assert_array_equal(first[0, 0], decode(shallow, params)[0][0, 0])


def test_fixed_reads_both_directions_last_states() -> None:
    config = small(attention={"score": "fixed"})
    annotations = np.arange(12.0).reshape(3, 4)
    alignment, context = reference.attend({}, config, np.zeros(4), annotations, 0, np.zeros(3))
    np.testing.assert_array_equal(alignment, [0, 0, 1])
    np.testing.assert_array_equal(context, [8, 9, 2, 3])


def test_coverage_is_the_sum_of_the_alignments_so_far() -> None:
    config = small(attention={"coverage": True})
    params = random_model(config)
    annotations = reference.encode(params, config, SOURCE, SOURCE > 0)[0]
    state = reference.initial_state(params, config, annotations)
    total = np.zeros(4)
    for step in range(3):
        np.testing.assert_array_equal(state.coverage, total)
        state, _, alignment, _ = reference.decoder_step(params, config, state, 3, annotations, step)
        total = total + alignment


def test_finite_differences_of_a_polynomial() -> None:
    params = {"a": {"b": np.array([[1.0, 2.0]]), "c": np.array(3.0)}}

    def f(p: dict) -> float:
        return float(np.sum(p["a"]["b"] ** 2) * p["a"]["c"])

    gradient = {"a": {"b": 6 * params["a"]["b"], "c": np.array(5.0)}}
    differences = finite_difference(f, params, generator(), count=6)
    assert {d.path for d in differences} == {("a", "b"), ("a", "c")}
    for difference in differences:
        assert difference.value == pytest.approx(difference.of(gradient), rel=1e-7)
