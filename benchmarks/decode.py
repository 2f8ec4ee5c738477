"""Beam search: sentences a second of this project and of the same model and search in PyTorch.

    python benchmarks/decode.py --workdir=runs/multi30k --text=val.en

Both get the same weights and the same padded batches, and run in turns, five times each after one
pass that compiles; a pass goes from ids to the best hypotheses' ids, encoding included. Prints a
table, and how many hypotheses are the same; `--json=FILE` writes the figures, `--profile` says
where the time of one batch goes. Needs torch (`pip install torch==2.13.0`).
"""

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from bahdanau_jax.data.batching import decoding_batches
from bahdanau_jax.data.corpus import normalize
from bahdanau_jax.data.token_store import TokenStore
from bahdanau_jax.evaluation import decoding
from bahdanau_jax.evaluation.trained_run import TrainedRun, make_model, open_run
from bahdanau_jax.lines import read_lines
from bahdanau_jax.modes.translate import encode
from bahdanau_jax.special_ids import EOS
from bahdanau_jax.workdir.selection import parse_selection


class Pass(NamedTuple):
    """One pass over all sentences."""

    seconds: float
    outputs: list[tuple[list[int], float]]  # ids without the end mark, and the score


def main() -> None:
    """Measures, compares and prints."""
    arguments = parse_arguments()
    settings = {
        "decode.beam_size": arguments.beam_size,
        "decode.length_penalty": arguments.length_penalty,
        "decode.batch_size": arguments.batch_size,
    }
    run = open_run(Path(arguments.workdir), parse_selection(arguments.checkpoint), settings)
    sentences = read_sentences(run, arguments.text, arguments.sentences or None)
    store = TokenStore.from_pairs([(ids, []) for ids in sentences])
    contenders: dict[str, Callable[[], list[tuple[list[int], float]]]] = {}
    if arguments.only != "pytorch":
        contenders["bahdanau_jax"] = ours(run, store)
    if arguments.only != "bahdanau_jax":
        contenders["pytorch"] = in_pytorch(run, store, arguments.threads)
    if arguments.profile:
        profile(contenders, Path(arguments.profile))
        return
    passes: dict[str, list[Pass]] = {name: [] for name in contenders}
    for number in range(arguments.repeats + 1):
        order = list(contenders)[:: 1 if number % 2 else -1]
        for name in order:
            passes[name].append(timed(contenders[name]))
    figures = summary(passes, len(store))
    figures |= {"settings": vars(arguments), "step": run.step, "machine": machine(arguments)}
    print_table(figures)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def read_sentences(run: TrainedRun, path: str, lines: int | None = None) -> list[list[int]]:
    """Returns the ids of a file's lines, or of so many of them, blank ones left out."""
    with open(path, "rb") as stream:
        texts = [normalize(line, run.config.data.lowercase) for line in read_lines(stream, path)]
    return [ids for text in texts[:lines] if (ids := encode(run, text))]


def ours(run: TrainedRun, store: TokenStore) -> Callable[[], list[tuple[list[int], float]]]:
    """Returns a pass of this project, as translate makes it."""
    search = decoding.Search(make_model(run.config, run.vocabularies), run.config.decode)

    def decode():
        outputs: list[tuple[list[int], float]] = [([], 0.0)] * len(store)
        for number, (best, *_) in search.stream(run.params, store, alignments=False):
            outputs[number] = (best.tokens, best.score)
        return outputs

    return decode


def in_pytorch(
    run: TrainedRun, store: TokenStore, threads: int
) -> Callable[[], list[tuple[list[int], float]]]:
    """Returns a pass of PyTorch over the same batches, with so many threads."""
    # Imported here, so that this project can be measured alone where there is no PyTorch.
    import torch
    from rivals import torch_beam

    torch.set_num_threads(threads)
    decoder = torch_beam.Decoder(run.config.model, jax.tree.map(np.asarray, run.params))
    config = run.config.decode

    def decode():
        outputs: list[tuple[list[int], float]] = [([], 0.0)] * len(store)
        for numbers, source in decoding_batches(store, config.batch_size):
            lengths = store.source_lengths[numbers]
            limits = (lengths * config.max_length_ratio + 10).astype(np.int32)
            rows = source[: len(numbers), : lengths.max()]
            for number, best in zip(numbers, decoder.search(rows, limits, config), strict=True):
                tokens = best.tokens[:-1] if best.tokens[-1] == EOS else best.tokens
                outputs[number] = (tokens, best.score)
        return outputs

    return decode


def timed(decode: Callable[[], list[tuple[list[int], float]]]) -> Pass:
    """Runs one pass."""
    began = time.perf_counter()
    outputs = decode()
    return Pass(time.perf_counter() - began, outputs)


def summary(passes: dict[str, list[Pass]], sentences: int) -> dict:
    """Returns medians, spread, ratio and agreement; the first pass of each counts as compiling."""
    figures: dict = {"sentences": sentences, "contenders": {}}
    for name, made in passes.items():
        seconds = [each.seconds for each in made[1:]]
        rates = sorted(sentences / each for each in seconds)
        figures["contenders"][name] = {
            "first_pass_seconds": made[0].seconds,
            "seconds": seconds,
            "sentences_per_second": statistics.median(rates),
            "lowest": rates[0],
            "highest": rates[-1],
            "tokens": sum(len(tokens) + 1 for tokens, _ in made[-1].outputs),
        }
    if len(passes) == 2:
        first, second = passes.values()
        pairs = list(zip(first[1:], second[1:], strict=True))
        figures["ratio"] = statistics.median(b.seconds / a.seconds for a, b in pairs)
        both = list(zip(first[-1].outputs, second[-1].outputs, strict=True))
        figures["same_hypotheses"] = sum(a[0] == b[0] for a, b in both)
        gaps = [abs(a[1] - b[1]) for a, b in both]
        figures["largest_score_difference"] = max(gaps)
    return figures


def print_table(figures: dict) -> None:
    """Prints the figures, for a person."""
    print(f"{figures['sentences']} sentences, {figures['machine']}")
    print(f"{'':14} sentences/s    lowest   highest   first pass")
    for name, each in figures["contenders"].items():
        print(
            f"{name:14} {each['sentences_per_second']:11.1f} {each['lowest']:9.1f}"
            f" {each['highest']:9.1f} {each['first_pass_seconds']:10.1f} s"
        )
    if "ratio" in figures:
        print(f"ratio, median of the pairs: {figures['ratio']:.2f}")
        print(
            f"same hypotheses: {figures['same_hypotheses']} of {figures['sentences']}; "
            f"largest difference of scores {figures['largest_score_difference']:.1e}"
        )


def profile(contenders: dict[str, Callable], directory: Path) -> None:
    """Writes a trace of this project for TensorBoard or Perfetto, and prints PyTorch's table."""
    for name, decode in contenders.items():
        decode()
        if name == "pytorch":
            import torch

            with torch.profiler.profile() as recorded:
                decode()
            averages = recorded.key_averages()
            print(averages.table(sort_by="self_cpu_time_total", row_limit=15))
        else:
            with jax.profiler.trace(str(directory)):
                decode()
            print(f"{name}: trace in {directory}")


def machine(arguments: argparse.Namespace) -> str:
    """Returns what the figures were measured on."""
    return f"{platform.machine()} CPU, {arguments.threads} threads, jax {jax.__version__}"


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workdir", required=True, help="a trained run")
    parser.add_argument("--checkpoint", default="best", help="as of launch.py")
    parser.add_argument("--text", required=True, help="file of sentences, a line each")
    parser.add_argument("--sentences", type=int, default=0, help="the first ones; 0: all")
    parser.add_argument("--beam_size", type=int, default=5)
    parser.add_argument("--length_penalty", default="average")
    parser.add_argument("--batch_size", type=int, default=64, help="sentences")
    parser.add_argument("--threads", type=int, default=2, help="of PyTorch")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", default="", help="file for the figures")
    parser.add_argument("--only", choices=("bahdanau_jax", "pytorch"), help="one of the two")
    parser.add_argument("--profile", default="", help="directory for a trace, in place of timing")
    return parser.parse_args()


if __name__ == "__main__":
    main()
