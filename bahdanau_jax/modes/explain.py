"""What a configuration amounts to, said before anything is trained and without any data.

Parameters are counted from abstract shapes, floating-point work from the matrix products, memory by
XLA for the compiled step; no array of the model's size is made.
"""

import math
import textwrap
import time
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import jax

from bahdanau_jax.config import Config, DataConfig
from bahdanau_jax.data.batching import blank_batch
from bahdanau_jax.data.vocabularies import Vocabularies
from bahdanau_jax.errors import InputError
from bahdanau_jax.model import attention, decoder, encoder, kernels
from bahdanau_jax.model.seq2seq import Seq2Seq, initial_params
from bahdanau_jax.modes.origins import FOLLOWED, choices
from bahdanau_jax.modes.work import Size, step_work, tanh_count
from bahdanau_jax.runtime import devices
from bahdanau_jax.terminal import say, visible
from bahdanau_jax.training.compilation import StepMemory, check_sizes, planned
from bahdanau_jax.training.optimizer import make_optimizer
from bahdanau_jax.training.step import TrainState, create_state, make_train_step
from bahdanau_jax.workdir import directory as workdir

# Entries taken for a vocabulary that keeps whatever occurs, while nobody has read the data.
STAND_INS = {"characters": 100, "symbols": 100, "words": 50_000}


class Sizes(NamedTuple):
    """The vocabularies' entries, and how they are known."""

    source: int
    target: int
    known: str


def explain(config: Config, directory: Path, stream: TextIO, header: str = "") -> None:
    """Writes the choices, the parameters, the work and the memory of a configuration.

    Args:
      config: validated.
      directory: the workdir, which need not exist; the vocabularies of a run of the same data are
        taken from it.
      stream: where to; what takes long is said on standard error.
      header: the experiment's docstring, whose table of an original is shown.
    """
    sizes = vocabulary_sizes(config.data, directory)
    model = Seq2Seq(config.model, sizes.source, sizes.target)
    size = largest_batch(config, sizes.target)
    paper = FOLLOWED.get(config.follows)
    follows = f"; the experiment follows {paper}" if paper else ""
    print(f"Choices, and where each value or form stands{follows}", file=stream)
    shown = [(field, _value(value), origin) for field, value, origin in choices(config)]
    _print_table(shown, "lll", stream)
    original = original_table(header)
    if original:
        print(
            "\nThe original, by the experiment's header (as the file has it, without flags)",
            file=stream,
        )
        print(textwrap.indent(original, "  "), file=stream)
    print(f"\nKernels on a device of kind {kernels.platform()}", file=stream)
    _print_table(kernel_choices(config), "lll", stream)
    print(
        f"\nVocabularies: {sizes.source:,} source and {sizes.target:,} target entries "
        f"({sizes.known})\n\nParameters, float32",
        file=stream,
    )
    _print_parameters(model, stream)
    print(
        f"\nOne step at its largest batch: B = {size.rows}, S = {size.source}, T = {size.target} "
        "(end marks counted)\n\n"
        "Floating-point work: the matrix products, counted from their shapes; GFLOP",
        file=stream,
    )
    _print_work(config, size, stream)
    stream.flush()
    say(f"compiling the training step for {jax.devices()[0].device_kind}, to plan its memory")
    began = time.monotonic()
    memory = step_memory(model, config, size)
    say(f"compiled in {time.monotonic() - began:.0f} s")
    print(
        f"\nMemory on each of {jax.device_count()} device(s) of kind "
        f"{jax.devices()[0].device_kind}: planned by XLA for this batch, {jax.__version__}; MiB",
        file=stream,
    )
    rows = [
        ("parameters, optimiser state, batch", _mib(memory.arguments)),
        ("activations, gradients", _mib(memory.temporary)),
        ("other results", _mib(memory.results)),
        ("all", _mib(memory.total)),
    ]
    _print_table(rows, "lr", stream)


def original_table(header: str) -> str:
    """Returns a preset's table of what its original says, and what follows it.

    Args:
      header: an experiment's docstring.

    Returns:
      The header from the line on that begins with "original says"; empty where none does.
    """
    _, title, rest = f"\n{header}".partition("\noriginal says")
    return visible(f"{title}{rest}".strip())


def vocabulary_sizes(config: DataConfig, directory: Path) -> Sizes:
    """Finds out how large the vocabularies are.

    Args:
      config: the data's configuration.
      directory: a workdir, which need not exist.

    Returns:
      The sizes of the run's vocabularies, where the workdir has them and was made for the same
      data; else those of the configuration, with `STAND_INS` for what only the data can tell.
    """
    try:
        if workdir.read_config(directory).data == config:
            run = Vocabularies.load(directory / "vocabulary")
            return Sizes(run.source.size, run.target.size, f"those of the run in {directory}")
    except InputError:
        pass  # no run, or none that can be read: the configuration has to do
    sides = config.vocabulary.sides
    source, target = (size or STAND_INS[kind] for kind, size in sides)
    if all(size for _, size in sides):
        return Sizes(source, target, "the configured sizes, which little text may not fill")
    return Sizes(
        source, target, "assumed: size 0 keeps all that occur, which only the data can tell"
    )


def largest_batch(config: Config, vocabulary: int) -> Size:
    """Returns the batch of the longest pairs: `data.max_length` tokens and an end mark a side.

    Args:
      config: validated.
      vocabulary: entries of the target's.
    """
    longest = config.data.max_length + 1
    rows = config.train.batch_size
    if config.train.batch_tokens:
        rows = max(config.train.batch_tokens // longest, 1)
    multiple = jax.device_count() * config.train.accumulate
    return Size(-(-rows // multiple) * multiple, longest, longest, vocabulary)


def parameter_counts(model: Seq2Seq) -> dict[str, int]:
    """Counts the parameters of each module.

    Args:
      model: its shapes are read; nothing is allocated.

    Returns:
      Counts by the module's path, as `encoder.forward_0`; a parameter of the model itself has its
      own name.
    """
    params = jax.eval_shape(lambda: initial_params(model, jax.random.key(0)))
    counts: dict[str, int] = {}
    for path, leaf in jax.tree_util.tree_flatten_with_path(params)[0]:
        names = [str(entry.key) for entry in path]
        module = ".".join(names[:-1] or names)
        counts[module] = counts.get(module, 0) + math.prod(leaf.shape)
    return counts


def step_memory(model: Seq2Seq, config: Config, size: Size) -> StepMemory:
    """Compiles the training step for abstract arrays, and returns what memory it would take.

    Args:
      model: the model.
      config: `train` is read.
      size: the batch, over all devices.
    """
    optimizer = make_optimizer(config.train, config.train.steps)
    state: TrainState = devices.abstract(
        jax.eval_shape(lambda: create_state(model, optimizer, config.seed, config.train.average))
    )
    check_sizes(state, config, (size.rows, size.source, size.target))
    batch = blank_batch(size.rows, size.source, size.target, bool(config.data.train_links))
    step = devices.on_devices(
        make_train_step(model, optimizer, config.train), outputs=None, donate=True
    )
    lower: Any = step
    return planned(lower.lower(state, devices.shard(batch)).compile())


def kernel_choices(config: Config) -> list[tuple[str, str, str]]:
    """Returns each kernel's name, whether a model runs it on this device, and why."""
    model, states_dropped = config.model, config.train.dropout.states > 0
    covers = {
        "gru": encoder.covers(model) and not states_dropped,
        "decoder_loop": decoder.covers(model) and not states_dropped,
        "fused_attention": attention.fused_kernel_covers(model.attention),
    }
    rows = []
    for kernel in kernels.KERNELS.values():
        if model.kernels == "reference":
            runs, why = "no", "model.kernels=reference"
        elif kernels.platform() not in kernel.platforms:
            places = f"only on {' and '.join(kernel.platforms)}" if kernel.platforms else "nowhere"
            runs, why = "no", f"measured {places} yet, and not used where it isn't"
        elif not covers.get(kernel.name, True):
            runs, why = "no", f"computes only {kernel.when}"
        else:
            runs, why = "yes", f"{kernel.gain}, {kernel.measured_on}"
        rows.append((kernel.name, runs, why))
    return rows


def _print_parameters(model: Seq2Seq, stream: TextIO) -> None:
    counts = parameter_counts(model)
    total = sum(counts.values())
    rows = [(name, f"{count:,}", f"{count / total:.1%}") for name, count in counts.items()]
    _print_table([*rows, ("all", f"{total:,}", _mib(4 * total) + " MiB")], "lrr", stream)


def _print_work(config: Config, size: Size, stream: TextIO) -> None:
    work = step_work(config.model, size)
    forward, backward = sum(w.forward for w in work), sum(w.backward for w in work)
    total = forward + backward
    rows = [("", "forward", "backward", "share")]
    rows += [
        (w.part, _giga(w.forward), _giga(w.backward), f"{(w.forward + w.backward) / total:.1%}")
        for w in work
    ]
    rows.append(("all", _giga(forward), _giga(backward), f"together {_giga(total)}"))
    _print_table(rows, "lrrr", stream)
    tanh = tanh_count(config.model, size)
    if tanh:
        print(
            f"  beside them {tanh / 1e9:,.3f} billion tanh in the score (B·T·S·A), "
            "taken again in the backward pass",
            file=stream,
        )


def _print_table(rows: list[tuple[str, ...]], columns: str, stream: TextIO) -> None:
    """Prints rows with their columns aligned: `l` to the left, `r` to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            text.ljust(width) if side == "l" else text.rjust(width)
            for text, width, side in zip(row, widths, columns, strict=True)
        ]
        print(("  " + "  ".join(cells)).rstrip(), file=stream)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:,}" if isinstance(value, int) else visible(str(value), lines=False)


def _mib(size: int) -> str:
    return f"{size / 2**20:,.1f}"


def _giga(count: int) -> str:
    return f"{count / 1e9:,.2f}"
