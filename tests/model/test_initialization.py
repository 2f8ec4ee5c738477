import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiling import quick_jit
from flax_tree import named_leaves

from bahdanau_jax.config import (
    AttentionConfig,
    DecoderConfig,
    EncoderConfig,
    ModelConfig,
    TrainConfig,
)
from bahdanau_jax.model.initialization import initialization, per_gate
from bahdanau_jax.model.scores import score_class
from bahdanau_jax.model.seq2seq import Seq2Seq, initial_params
from bahdanau_jax.training.optimizer import make_optimizer
from bahdanau_jax.training.step import create_state

ENCODER, DECODER = 24, 32
BEYOND = 4.5  # standard errors that a statistic may lie off


def drawn(preset: str, **fields) -> dict[str, np.ndarray]:
    """Returns the parameters of a model that has every kind of them, by path."""
    config = ModelConfig(
        embedding=28,
        encoder=EncoderConfig(units=ENCODER),
        decoder=DecoderConfig(units=DECODER),
        attention=AttentionConfig(
            units=36, bias=True, normalize_keys=True, coverage=True, window="local_p"
        ),
        readout_units=20,
        initialization=preset,
        **fields,
    )
    model = Seq2Seq(config, 150, 160)
    return named_leaves(quick_jit(lambda key: initial_params(model, key))(jax.random.key(0)))


@pytest.fixture(scope="module")
def paper() -> dict[str, np.ndarray]:
    return drawn("paper", layer_norm="both")


@pytest.fixture(scope="module")
def glorot() -> dict[str, np.ndarray]:
    return drawn("glorot", gru_reset="after")


@pytest.fixture(scope="module")
def uniform() -> dict[str, np.ndarray]:
    return drawn("uniform", cell="lstm")


def leaf(path: str) -> str:
    return path.rsplit("/", 1)[-1]


GAINS = ("gain_W", "gain_U", "gain_C", "gain_q", "gain_k")
BIASES = ("b", "b_u", "b_o", "b_w")
ALIGNMENT, VECTORS = ("W_a", "U_a", "W_p"), ("v_a", "v_p", "w_cov")
EMBEDDINGS = ("source_embedding", "target_embedding")


def check_deviation(path: str, values: np.ndarray, deviation: float) -> None:
    """Checks mean and standard deviation, and that single values look like a normal's."""
    n = values.size
    assert abs(values.mean()) < BEYOND * deviation / np.sqrt(n), path
    assert abs(values.std() / deviation - 1) < BEYOND / np.sqrt(2 * n), path
    inside = np.mean(np.abs(values) < deviation)
    assert abs(inside - 0.6827) < BEYOND * np.sqrt(0.6827 * 0.3173 / n), path


def check_recurrent(path: str, values: np.ndarray) -> None:
    """Checks that each gate's block is orthogonal, and that the blocks differ."""
    units = len(values)
    blocks = np.split(values, values.shape[1] // units, axis=1)
    for block in blocks:
        np.testing.assert_allclose(block.T @ block, np.eye(units), atol=1e-5, err_msg=path)
    assert not np.allclose(blocks[0], blocks[1], atol=1e-2), path
    assert len(blocks) == 3


def test_the_papers_initialisation(paper) -> None:
    # Bahdanau et al. 2014, appendix B.1.
    seen = set()
    for path, values in paper.items():
        name = leaf(path)
        seen.add(name)
        if name == "U":
            check_recurrent(path, values)
        elif name in ALIGNMENT:
            check_deviation(path, values, 0.001)
        elif name in VECTORS + BIASES:
            assert not values.any(), path
        elif name in GAINS:
            assert np.all(values == 1), path
        else:
            check_deviation(path, values, 0.01)
    assert seen >= {"U", "W", "C", "W_s_0", "W_o", "U_o", "V_o", "C_o", *ALIGNMENT}
    assert seen >= {*VECTORS, *GAINS, *EMBEDDINGS} | set(BIASES) - {"b_u"}


def test_glorot_counts_the_fans_of_one_gate(glorot) -> None:
    for path, values in glorot.items():
        name = leaf(path)
        if name == "U":
            check_recurrent(path, values)
        elif name in EMBEDDINGS:
            check_deviation(path, values, 0.1)
        elif name in VECTORS:
            assert values.std() * np.sqrt(len(values)) == pytest.approx(1, abs=0.5), path
            assert values.any(), path
        elif name in BIASES:
            assert not values.any(), path
        elif name in GAINS:
            assert np.all(values == 1), path
        else:
            rows, columns = values.shape
            columns //= 3 if name in ("W", "C") else 1
            limit = np.sqrt(6 / (rows + columns))
            largest = np.abs(values).max()
            assert limit * (1 - 50 / values.size) < largest <= limit, path
            spread = np.sqrt(4 / 45) / (1 / 3)  # of a squared uniform, over its mean
            mean_square = np.mean(values**2) / (limit**2 / 3)
            assert abs(mean_square - 1) < BEYOND * spread / np.sqrt(values.size), path


def test_luongs_uniform_is_every_parameter_of_a_matrix_vector_or_bias(uniform) -> None:
    together = np.concatenate([v.ravel() for p, v in uniform.items() if leaf(p) not in GAINS])
    assert np.abs(together).max() <= 0.1 and np.abs(together).max() > 0.0999
    quarters = np.histogram(together, bins=4, range=(-0.1, 0.1))[0] / together.size
    np.testing.assert_allclose(quarters, 0.25, atol=BEYOND * np.sqrt(0.1875 / together.size))
    for path, values in uniform.items():
        if leaf(path) in GAINS:
            assert np.all(values == 1), path
        else:
            assert values.std() == pytest.approx(0.1 / np.sqrt(3), rel=0.4), path


@pytest.mark.parametrize(
    ("fields", "name", "start"),
    [  # attention_g of TensorFlow's BahdanauAttention and LuongAttention
        ({"normalize": True, "units": 16}, "g", 1 / 4),
        ({"score": "general", "scale": "learned"}, "scale", 1.0),
    ],
)
def test_factors_start_where_their_originals_do(fields, name, start) -> None:
    config = AttentionConfig(**fields)
    score = score_class(config.score)(config, 5, 16, initialization("uniform"))
    params = score.init(jax.random.key(0), jnp.ones((1, 5)), jnp.ones((1, 2, 16)))["params"]
    assert params[name] == start


def test_blocks_of_gates_are_drawn_each_by_itself() -> None:
    draw = per_gate(jax.nn.initializers.orthogonal(), 4)
    blocks = np.split(np.asarray(draw(jax.random.key(0), (6, 24), jnp.float32)), 4, axis=1)
    for place, block in enumerate(blocks):
        np.testing.assert_allclose(block.T @ block, np.eye(6), atol=1e-5)
        assert all(not np.allclose(block, other, atol=0.05) for other in blocks[:place])


def test_an_unknown_preset_is_refused() -> None:
    with pytest.raises(ValueError, match="zeros"):
        initialization("zeros")


def test_a_new_state_has_made_no_update_and_keys_dropout_apart_from_the_parameters() -> None:
    config = ModelConfig(
        embedding=2,
        encoder=EncoderConfig(units=2),
        decoder=DecoderConfig(units=3),
        readout="linear",
    )
    optimizer = make_optimizer(TrainConfig(), 10)
    create = quick_jit(lambda seed: create_state(Seq2Seq(config, 5, 5), optimizer, seed))
    first, again, other = create(0), create(0), create(1)
    assert first.step.dtype == np.int32 and first.step == 0
    for path, values in named_leaves(first.params).items():
        np.testing.assert_array_equal(values, named_leaves(again.params)[path])
    assert np.any(first.params["W_o"] != other.params["W_o"])
    keys = [jax.random.key_data(state.key).tolist() for state in (first, again, other)]
    assert keys[0] == keys[1] != keys[2]
    assert keys[0] != jax.random.key_data(jax.random.fold_in(jax.random.key(0), 0)).tolist()
