"""The seeds' model in PyTorch computes what ours does: outputs, losses, gradients, updates.

PyTorch computes in float64, ours in float32 as it is used.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiling import quick_jit
from flax_tree import apply, attention_to_flax, named_leaves, to_flax
from reference_parameters import (
    attention_shapes,
    cell_shapes,
    parameter_shapes,
    random_parameters,
)

from bahdanau_jax.config import (
    AttentionConfig,
    DecoderConfig,
    EncoderConfig,
    ModelConfig,
    TrainConfig,
)
from bahdanau_jax.model.attention import Attention, Memory
from bahdanau_jax.model.cells import make_cell
from bahdanau_jax.model.encoder import Encoder
from bahdanau_jax.model.equations import token_nll
from bahdanau_jax.model.initialization import initialization
from bahdanau_jax.model.seq2seq import Seq2Seq
from bahdanau_jax.training.optimizer import make_optimizer
from bahdanau_jax.training.record import LoopState

torch = pytest.importorskip("torch", reason="PyTorch isn't installed: parity can't be checked")
import torch_reference  # noqa: E402  (it needs torch)

SOURCE = np.array([[4, 5, 6, 7, 2], [5, 2, 0, 0, 0], [3, 3, 2, 0, 0]])
TARGET = np.array([[6, 4, 7, 2], [5, 2, 0, 0], [7, 2, 0, 0]])
MASK, REAL = SOURCE > 0, TARGET > 0
ROWS, POSITIONS = SOURCE.shape
CONFIG = torch_reference.seed_form(embedding=3, encoder=4, decoder=5, attention=6)
SOURCE_SIZE, TARGET_SIZE = 8, 9


def generator() -> np.random.Generator:
    return np.random.default_rng(0)


def generic_parameters() -> dict:
    """Returns them in the oracle's nesting, each exact in float32."""
    shapes = parameter_shapes(CONFIG, SOURCE_SIZE, TARGET_SIZE)
    return single(random_parameters(shapes, generator()))


def single(tree):
    return jax.tree.map(np.float32, tree)


def double(array: np.ndarray, grad: bool = False):
    return torch.from_numpy(np.asarray(array, np.float64)).requires_grad_(grad)


def ids(array: np.ndarray):
    return torch.from_numpy(array)


def assert_same(ours, theirs, where: str = "") -> None:
    theirs = theirs.detach().numpy() if isinstance(theirs, torch.Tensor) else theirs
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5, err_msg=where)


def assert_same_tree(ours: dict, theirs: dict) -> None:
    ours, theirs = named_leaves(ours), named_leaves(theirs)
    assert ours.keys() == theirs.keys()
    for path, expected in theirs.items():
        assert np.any(expected), path
        assert_same(ours[path], expected, path)


def test_the_seeds_attention_module() -> None:
    rng = generator()
    params = generic_parameters()["decoder"]["cell"]["attention"]
    query, annotations, into_context, into_alignment = single(
        [rng.normal(size=(ROWS, *s)) for s in ((5,), (POSITIONS, 8), (8,), (POSITIONS,))]
    )
    module = Attention(CONFIG.attention, 5, 8, initialization("glorot"))

    def ours(params, query, annotations):
        params = attention_to_flax(params)
        keys = apply(module, params, annotations, method="keys")
        memory = Memory(annotations, keys, jnp.asarray(MASK), annotations[:, 0])
        context, alignment = apply(module, params, query, memory, jnp.zeros((), jnp.int32))
        scalar = jnp.sum(context * into_context) + jnp.sum(alignment * into_alignment)
        return scalar, (context, alignment)

    differentiated = jax.value_and_grad(ours, argnums=(0, 1, 2), has_aux=True)
    (_, (context, alignment)), gradient = differentiated(params, query, annotations)

    theirs = torch_reference.AdditiveAttention(5, 8, 6).double()
    theirs.load(params)
    their_query, their_annotations = double(query, grad=True), double(annotations, grad=True)
    their_context, their_alignment = theirs(their_query, their_annotations, ids(MASK))
    scalar = (their_context * double(into_context)).sum()
    (scalar + (their_alignment * double(into_alignment)).sum()).backward()

    assert_same(context, their_context)
    assert_same(alignment, their_alignment)
    assert_same_tree(gradient[0], theirs.gradients())
    assert_same(gradient[1], their_query.grad)
    assert_same(gradient[2], their_annotations.grad)


@pytest.mark.parametrize("scale", ["none", "sqrt", "linear"])
@pytest.mark.parametrize("normalize_keys", [False, True])
def test_products_are_those_of_pytorchs_attention(scale: str, normalize_keys: bool) -> None:
    rng = generator()
    config = AttentionConfig(
        score="projected", units=6, scale=scale, bias=True, normalize_keys=normalize_keys
    )
    module = Attention(config, 5, 8, initialization("glorot"))
    shapes = attention_shapes(ModelConfig(attention=config, decoder=DecoderConfig(units=5)), 8)
    params = single(random_parameters(shapes, rng))
    query, annotations, into = single(
        [rng.normal(size=(ROWS, *s)) for s in ((5,), (POSITIONS, 8), (8,))]
    )

    def ours(params, query, annotations):
        params = attention_to_flax(params)
        keys = apply(module, params, annotations, method="keys")
        memory = Memory(annotations, keys, jnp.asarray(MASK), annotations[:, 0])
        context, _ = apply(module, params, query, memory, jnp.zeros((), jnp.int32))
        return jnp.sum(context * into), context

    differentiated = jax.value_and_grad(ours, argnums=(0, 1, 2), has_aux=True)
    (_, context), gradient = differentiated(params, query, annotations)

    theirs = {name: double(p, grad=True) for name, p in params.items()}
    their_query, their_annotations = double(query, grad=True), double(annotations, grad=True)
    q = their_query @ theirs["W_a"] + theirs["b"]
    k = their_annotations @ theirs["U_a"]
    if normalize_keys:
        q = torch.nn.functional.layer_norm(q, (6,), theirs["gain_q"])
        k = torch.nn.functional.layer_norm(k, (6,), theirs["gain_k"])
    their_context = torch.nn.functional.scaled_dot_product_attention(
        q[:, None],
        k,
        their_annotations,
        attn_mask=ids(MASK)[:, None],
        scale={"none": 1.0, "sqrt": None, "linear": 1 / 6}[scale],
    )[:, 0]
    (their_context * double(into)).sum().backward()
    assert_same(context, their_context)
    assert_same_tree(gradient[0], {name: p.grad.numpy() for name, p in theirs.items()})
    assert_same(gradient[1], their_query.grad)
    assert_same(gradient[2], their_annotations.grad)


def test_the_seeds_decoder_step() -> None:
    rng = generator()
    params = generic_parameters()
    token, word = np.array([6, 4, 2]), np.array([5, 5, 8])
    annotations, state = single([rng.normal(size=(ROWS, *s)) for s in ((POSITIONS, 8), (5,))])
    model = Seq2Seq(CONFIG, SOURCE_SIZE, TARGET_SIZE)

    def ours(params, annotations, state):
        params = to_flax(params)
        keys = apply(model, params, annotations, method=lambda m, a: m.decoder.keys(a))
        memory = Memory(annotations, keys, jnp.asarray(MASK), annotations[:, 0])
        start = apply(model, params, memory, method="initial_state")
        start = start._replace(cells=((state,),))
        after, logits, alignment = apply(model, params, start, token, memory, method="decode_step")
        return token_nll(logits, jnp.asarray(word)).sum(), (logits, after.cells[-1][0], alignment)

    differentiated = jax.value_and_grad(ours, argnums=(0, 1, 2), has_aux=True)
    (loss, outputs), gradient = differentiated(params, annotations, state)

    theirs = torch_reference.Seq2Seq(CONFIG, SOURCE_SIZE, TARGET_SIZE).double()
    theirs.load(params)
    their_state, their_annotations = double(state, grad=True), double(annotations, grad=True)
    their_outputs = theirs.decoder(ids(token), their_state, their_annotations, ids(MASK))
    their_loss = torch.nn.functional.cross_entropy(their_outputs[0], ids(word), reduction="sum")
    their_loss.backward()

    assert float(loss) == pytest.approx(their_loss.item(), rel=1e-5)
    for mine, other in zip(outputs, their_outputs, strict=True):
        assert_same(mine, other)
    assert_same(gradient[1], their_annotations.grad)
    assert_same(gradient[2], their_state.grad)
    decoder = theirs.decoder
    expected = {
        "attention": decoder.attention.gradients(),
        "cell_0": torch_reference.cell_gradients(decoder.parts(), 3),
    }
    assert_same_tree(gradient[0]["decoder"]["cell"], expected)
    for name, parameter in (("W_o", decoder.W_o.weight), ("b_w", decoder.W_o.bias)):
        assert_same(gradient[0]["readout"][name], torch_reference.gradient(parameter).T, name)
    assert_same(gradient[0]["target_embedding"], decoder.embedding.weight.grad)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize(("cell", "forget_bias"), [("gru", 0), ("lstm", 0), ("lstm", 1)])
def test_pytorchs_bidirectional_recurrences_on_packed_sequences(
    cell: str, forget_bias: int, layers: int
) -> None:
    rng = generator()
    config = ModelConfig(
        cell=cell,
        gru_reset="after" if cell == "gru" else "before",
        forget_bias=forget_bias,
        embedding=3,
        encoder=EncoderConfig(units=4, layers=layers),
        initial_state="layers",
    )
    shapes = parameter_shapes(config, SOURCE_SIZE, TARGET_SIZE)["encoder"]
    params = single(random_parameters(shapes, rng))
    embedded, into = single([rng.normal(size=(ROWS, POSITIONS, size)) for size in (3, 8)])

    def ours(params, embedded):
        annotations, _, states = apply(
            Encoder(config), params, embedded.swapaxes(0, 1), jnp.asarray(MASK.T)
        )
        annotations = annotations.swapaxes(0, 1)
        scalar = jnp.sum(annotations * into) + sum(jnp.sum(x**2) for x in jax.tree.leaves(states))
        return scalar, (annotations, states)

    differentiated = quick_jit(jax.value_and_grad(ours, argnums=(0, 1), has_aux=True))
    (_, (annotations, states)), gradient = differentiated(params, embedded)

    theirs = torch_reference.Encoder(3, 4, layers=layers, cell=cell).double()
    added = forget_bias * np.repeat([0, 1, 0, 0], 4) if cell == "lstm" else 0
    theirs.load({name: part | {"b": part["b"] + added} for name, part in params.items()})
    their_embedded = double(embedded, grad=True)
    their_annotations = theirs(their_embedded, ids(MASK))
    their_states = theirs.forward_states(their_embedded, ids(MASK))
    squares = sum((x**2).sum() for layer in their_states for x in layer)
    ((their_annotations * double(into)).sum() + squares).backward()

    assert_same(annotations, their_annotations)
    for ours_of_layer, theirs_of_layer in zip(states, their_states, strict=True):
        for mine, other in zip(ours_of_layer, theirs_of_layer, strict=True):
            assert_same(mine, other)
    assert_same_tree(gradient[0], theirs.gradients())
    assert_same(gradient[1], their_embedded.grad)


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_layer_norm_inside_a_cell_is_pytorchs_over_the_same_parts(cell: str) -> None:
    rng, units = generator(), 5
    reset = "after" if cell == "gru" else "before"
    config = ModelConfig(cell=cell, gru_reset=reset, layer_norm="decoder")
    module = make_cell(config, "decoder", units, 3, context=4)
    params = single(random_parameters(cell_shapes(config, 3, units, 4, normalized=True), rng))
    x, c, *state = single([rng.normal(size=(ROWS, n)) for n in (3, 4, units, units)])
    state = state[: 2 if cell == "lstm" else 1]

    def ours(params):
        new = apply(module, params, state, apply(module, params, x, method="project"), c)
        return sum(jnp.sum(part**2) for part in new), new

    (_, new), gradient = jax.value_and_grad(ours, has_aux=True)(params)

    p = {name: double(values, grad=True) for name, values in params.items()}
    widths = [2 * units, units] if cell == "gru" else [4 * units]  # Ba et al. 2016, supplement

    def normalised(inputs: np.ndarray, name: str):
        products = (double(inputs) @ p[name]).split(widths, dim=1)
        gains = p[f"gain_{name}"].split(widths)
        parts = [
            torch.nn.functional.layer_norm(product, gain.shape, gain)
            for product, gain in zip(products, gains, strict=True)
        ]
        return torch.cat(parts, dim=1)

    inputs, recurrent = normalised(x, "W") + normalised(c, "C") + p["b"], normalised(state[0], "U")
    if cell == "gru":
        reset, update, _ = (inputs + recurrent).sigmoid().chunk(3, dim=1)
        proposal = inputs[:, 2 * units :] + reset * (recurrent[:, 2 * units :] + p["b_u"])
        theirs = [(1 - update) * proposal.tanh() + update * double(state[0])]
    else:
        admit, forget, proposal, emit = (inputs + recurrent).chunk(4, dim=1)
        memory = forget.sigmoid() * double(state[1]) + admit.sigmoid() * proposal.tanh()
        read = torch.nn.functional.layer_norm(memory, (units,), p["gain_m"], p["b_m"])
        theirs = [emit.sigmoid() * read.tanh(), memory]
    torch.stack([(part**2).sum() for part in theirs]).sum().backward()
    for mine, other in zip(new, theirs, strict=True):
        assert_same(mine, other)
    assert_same_tree(gradient, {name: values.grad.numpy() for name, values in p.items()})


@functools.cache
def compiled_loss():
    model = Seq2Seq(CONFIG, SOURCE_SIZE, TARGET_SIZE)

    def loss(params):
        logits, alignments = model.apply({"params": to_flax(params)}, SOURCE, TARGET)
        return jnp.sum(token_nll(logits, jnp.asarray(TARGET)), where=REAL), (logits, alignments)

    return quick_jit(jax.value_and_grad(loss, has_aux=True))


def pytorch_model(params: dict):
    theirs = torch_reference.Seq2Seq(CONFIG, SOURCE_SIZE, TARGET_SIZE).double()
    theirs.load(params)
    return theirs


def test_the_seeds_whole_model() -> None:
    params = generic_parameters()
    (loss, (logits, alignments)), gradient = compiled_loss()(params)
    theirs = pytorch_model(params)
    their_logits, their_alignments = theirs(ids(SOURCE), ids(MASK), ids(TARGET))
    their_loss = theirs.loss(ids(SOURCE), ids(MASK), ids(TARGET), ids(REAL))
    their_loss.backward()

    assert float(loss) == pytest.approx(their_loss.item(), rel=1e-5)
    assert_same(np.asarray(logits)[REAL], their_logits.detach().numpy()[REAL])
    assert_same(np.asarray(alignments)[REAL], their_alignments.detach().numpy()[REAL])
    assert_same_tree(gradient, theirs.gradients())


def torch_optimizer(name: str, parameters):
    if name == "adadelta":
        return torch.optim.Adadelta(parameters, lr=1.0, rho=0.95, eps=1e-6)
    return torch.optim.Adam(parameters, lr=1e-3)


def our_optimizer(name: str, clip_norm: float):
    rate = 1.0 if name == "adadelta" else 1e-3
    return make_optimizer(
        TrainConfig(optimizer=name, learning_rate=rate, clip_norm=clip_norm), steps=5
    )


def after_five_updates(optimizer, make_theirs, clip_norm: float):
    """Asserts that two optimisers make the same of the same gradients; returns the parameters."""
    rng = generator()
    params = generic_parameters()
    state = optimizer.init(params)
    theirs = {path: double(p, grad=True) for path, p in named_leaves(params).items()}
    their_optimizer = make_theirs(theirs.values())
    for _ in range(5):
        gradient = jax.tree.map(lambda p: np.float32(rng.normal(0, 0.3, p.shape)), params)
        updates, state = optimizer.update(gradient, state, params)
        params = jax.tree.map(jnp.add, params, updates)
        for path, values in named_leaves(gradient).items():
            theirs[path].grad = double(values)
        if clip_norm:
            torch.nn.utils.clip_grad_norm_(theirs.values(), clip_norm)
        their_optimizer.step()
        for path, values in named_leaves(params).items():
            assert_same(values, theirs[path], path)
    return params


@pytest.mark.parametrize("clip_norm", [0.0, 1.0])
@pytest.mark.parametrize("name", ["adadelta", "adam"])
def test_five_updates_from_the_same_gradients(name: str, clip_norm: float) -> None:
    make_theirs = functools.partial(torch_optimizer, name)
    params = after_five_updates(our_optimizer(name, clip_norm), make_theirs, clip_norm)
    leaves = map(jax.tree.leaves, (params, generic_parameters()))
    moved = [np.abs(after - before).max() for after, before in zip(*leaves, strict=True)]
    assert min(moved) > 1e-4


@pytest.mark.parametrize(
    "fields", [{"weight_decay": 0.3}, {"beta1": 0.5, "beta2": 0.9}, {"epsilon": 0.1}]
)
def test_five_updates_of_adam_with_fields_of_its_own(fields: dict[str, Any]) -> None:
    def make_theirs(parameters):
        parameters = list(parameters)
        matrices = [p for p in parameters if p.ndim > 1]
        vectors = [p for p in parameters if p.ndim <= 1]
        assert matrices and vectors
        return torch.optim.Adam(
            [
                {"params": matrices, "weight_decay": fields.get("weight_decay", 0.0)},
                {"params": vectors},
            ],
            lr=1e-3,
            betas=(fields.get("beta1", 0.9), fields.get("beta2", 0.999)),
            eps=fields.get("epsilon", 1e-8),
        )

    optimizer = make_optimizer(TrainConfig(clip_norm=0.0, **fields), steps=5)
    after_five_updates(optimizer, make_theirs, clip_norm=0.0)


@pytest.mark.parametrize("factor", [0.5, 0.8])
@pytest.mark.parametrize("patience", [0, 1, 3])
def test_the_rate_falls_where_pytorchs_plateau_lowers_it(patience: int, factor: float) -> None:
    parameter = torch.zeros(1, requires_grad=True)
    their_optimizer = torch.optim.SGD([parameter], lr=1.0)
    theirs = torch.optim.lr_scheduler.ReduceLROnPlateau(
        their_optimizer, factor=factor, patience=patience, threshold=0.0, eps=0.0
    )
    train = TrainConfig(schedule="plateau", decay_patience=patience, decay_factor=factor)
    record = LoopState()
    for step, value in enumerate(generator().integers(0, 50, 60).astype(float)):
        record.judge(value, step, higher_is_better=False)
        record.lower_rate(train)
        theirs.step(value)
        assert record.plateau_rate == pytest.approx(their_optimizer.param_groups[0]["lr"])
    assert record.plateau_rate < 0.5**2


@pytest.mark.parametrize("name", ["adadelta", "adam"])
def test_five_steps_of_training_take_the_same_path(name: str) -> None:
    params = generic_parameters()
    theirs = pytorch_model(params)
    their_optimizer, losses = torch_optimizer(name, theirs.parameters()), []
    # Biases that our form doesn't have stay at zero.
    cells = [*theirs.encoder.parts().values(), theirs.decoder.parts()]
    with jax.enable_x64(True):
        params = jax.tree.map(lambda p: jnp.asarray(p, jnp.float64), params)
        optimizer = our_optimizer(name, clip_norm=1.0)
        state = optimizer.init(params)
        for _ in range(5):
            (loss, _), gradient = compiled_loss()(params)
            updates, state = optimizer.update(gradient, state, params)
            params = jax.tree.map(jnp.add, params, updates)
            losses.append(float(loss))
    for expected in losses:
        their_optimizer.zero_grad()
        loss = theirs.loss(ids(SOURCE), ids(MASK), ids(TARGET), ids(REAL))
        assert expected == pytest.approx(loss.item(), rel=1e-6)
        loss.backward()
        for _, _, _, recurrent_bias in cells:
            assert recurrent_bias.grad is not None
            recurrent_bias.grad[: -len(recurrent_bias) // 3] = 0
        torch.nn.utils.clip_grad_norm_(theirs.parameters(), 1.0)
        their_optimizer.step()
    assert losses[-1] < losses[0]
    fresh = pytorch_model(jax.tree.map(np.asarray, params))
    for (path, mine), other in zip(fresh.named_parameters(), theirs.parameters(), strict=True):
        assert_same(mine.detach().numpy(), other, path)
