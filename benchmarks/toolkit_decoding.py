"""Beam search beside JoeyNMT's, on a model of the same size.

    python benchmarks/toolkit_decoding.py --workdir=runs/multi30k --text=val.en --joeynmt=PYTHON

JoeyNMT first trains a model of the workdir's sizes, on the workdir's training sentences and in its
pieces, for an epoch or for `--updates`. Then both translate `--text` in turns, five times each,
64 sentences at once: this project from ids to the best hypotheses' ids after a pass that compiles,
JoeyNMT by its own command, from the line of its log before the first sentence to the one after the
last. The models differ, so that their outputs differ in length: tokens a second, end marks counted,
are there beside sentences a second. JoeyNMT takes sentences as they come, this project by length.

PYTHON is the interpreter of an environment that has JoeyNMT; toolkits.py says how to make one, and
in what its model differs from this project's.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import jax
from decode import ours, read_sentences
from measuring import take_turns
from rivals import toolkit_commands

from bahdanau_jax.data.pipeline import open_data
from bahdanau_jax.data.token_store import TokenStore
from bahdanau_jax.evaluation.trained_run import TrainedRun, open_run
from bahdanau_jax.runtime.setup import keep_freed_memory
from bahdanau_jax.terminal import say
from bahdanau_jax.workdir.selection import parse_selection


class Pass(NamedTuple):
    """One pass over all sentences."""

    seconds: float
    tokens: int  # of the outputs, end marks counted


def main() -> None:
    arguments = parse_arguments()
    if not toolkit_commands.has(arguments.joeynmt, "joeynmt"):
        raise SystemExit(f"--joeynmt={arguments.joeynmt}: it can't import joeynmt; see --help")
    keep_freed_memory()  # as launch.py does
    settings = {
        "decode.beam_size": arguments.beam_size,
        "decode.length_penalty": "average",
        "decode.batch_size": arguments.batch_size,
    }
    run = open_run(Path(arguments.workdir), parse_selection(arguments.checkpoint), settings)
    sentences = read_sentences(run, arguments.text)
    with tempfile.TemporaryDirectory() as directory:
        contenders = {
            "bahdanau_jax": in_jax(run, sentences),
            "joeynmt": in_joeynmt(arguments, Path(directory), run, sentences),
        }
        passes = take_turns(
            contenders,
            arguments.repeats,
            lambda n, name, made: say(
                f"{n}. {name}: {len(sentences) / made.seconds:.1f} sentences/s, {made}"
            ),
        )
    figures = summary(passes, len(sentences))
    figures |= {
        "jax": jax.__version__,
        "threads": os.cpu_count(),
        "step": run.step,
        "settings": {name: str(value) for name, value in vars(arguments).items()},
    }
    print_table(figures)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def in_jax(run: TrainedRun, sentences: list[list[int]]) -> Callable[[], Pass]:
    """Returns this project's pass, compiled."""
    decode = ours(run, TokenStore.from_pairs([(ids, []) for ids in sentences]))

    def timed() -> Pass:
        began = time.perf_counter()
        outputs = decode()
        return Pass(time.perf_counter() - began, sum(len(ids) + 1 for ids, _ in outputs))

    timed()
    return timed


def in_joeynmt(
    arguments: argparse.Namespace, directory: Path, run: TrainedRun, sentences: list[list[int]]
) -> Callable[[], Pass]:
    """Trains JoeyNMT; returns its pass."""
    python, threads = arguments.joeynmt, os.cpu_count() or 1
    data = open_data(run.config.data, run.vocabularies, say)
    toolkit_commands.write_vocabulary(directory, data.vocabularies.target)
    pairs = toolkit_commands.training_pairs(data, run.config.data.max_length)
    if arguments.updates:
        pairs = pairs[: arguments.updates * run.config.train.batch_size]
    toolkit_commands.write_text(directory, "train", pairs)
    texts = [data.vocabularies.source.tokens(ids) for ids in sentences]
    toolkit_commands.write_text(directory, "dev", [(text, text) for text in texts])
    say(f"training JoeyNMT on {len(pairs):,} pairs")
    toolkit_commands.joeynmt(python, directory, run.config, pairs, threads)
    settings = toolkit_commands.joeynmt_settings(directory, run.config)
    settings["testing"] = {
        "load_model": str(directory / "model" / "latest.ckpt"),
        "beam_size": arguments.beam_size,
        "beam_alpha": 1.0,  # the nearest to a score a token
        "decode.batch_size": arguments.batch_size,
    }
    path = toolkit_commands.write_settings(directory / "decoding.yaml", settings)
    output = directory / "output"
    command = [python, "-m", "joeynmt", "test", path, "-o", str(output)]

    def timed() -> Pass:
        lines = toolkit_commands.run(command, threads)
        began = next(line.time for line in lines if "Predicting" in line.text)
        ended = next(line.time for line in lines if "Generation took" in line.text)
        outputs = output.with_suffix(".dev").read_text(encoding="utf-8").split("\n")[:-1]
        if len(outputs) != len(sentences):
            raise SystemExit(f"JoeyNMT translated {len(outputs)} of {len(sentences)} sentences")
        return Pass(ended - began, sum(len(line.split(" ")) + 1 for line in outputs))

    return timed


def summary(passes: dict[str, list[Pass]], sentences: int) -> dict:
    """Returns medians, spread, and the medians of the ratios of passes of the same turn."""
    figures: dict = {"sentences": sentences, "contenders": {}}
    for name, made in passes.items():
        rates = [sentences / each.seconds for each in made]
        figures["contenders"][name] = {
            "sentences_per_second": statistics.median(rates),
            "slowest": min(rates),
            "fastest": max(rates),
            "tokens_per_second": statistics.median(each.tokens / each.seconds for each in made),
            "tokens": made[-1].tokens,
            "seconds": [each.seconds for each in made],
        }
    turns = list(zip(passes["bahdanau_jax"], passes["joeynmt"], strict=True))
    figures["ratio"] = statistics.median(b.seconds / a.seconds for a, b in turns)
    figures["ratio_of_tokens"] = statistics.median(
        (a.tokens / a.seconds) / (b.tokens / b.seconds) for a, b in turns
    )
    return figures


def print_table(figures: dict) -> None:
    """Prints the figures, for a person."""
    print(
        f"{figures['sentences']:,} sentences, {figures['threads']} threads, jax {jax.__version__}"
    )
    print(f"{'':14} sentences/s   slowest   fastest   tokens/s   tokens a sentence")
    for name, each in figures["contenders"].items():
        print(
            f"{name:14} {each['sentences_per_second']:11.1f} {each['slowest']:9.1f}"
            f" {each['fastest']:9.1f} {each['tokens_per_second']:10,.0f}"
            f" {each['tokens'] / figures['sentences']:19.1f}"
        )
    print(f"ratio of sentences a second, median of the pairs: {figures['ratio']:.2f}")
    print(f"ratio of output tokens a second: {figures['ratio_of_tokens']:.2f}")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workdir", required=True, help="a trained run on subword pieces")
    parser.add_argument("--joeynmt", required=True, help="the Python that has JoeyNMT")
    parser.add_argument("--checkpoint", default="best", help="as of launch.py")
    parser.add_argument("--text", required=True, help="file of sentences, a line each")
    parser.add_argument("--updates", type=int, default=0, help="of JoeyNMT; 0: an epoch")
    parser.add_argument("--beam_size", type=int, default=5)
    parser.add_argument("--batch_size", type=int, default=64, help="sentences")
    parser.add_argument("--repeats", type=int, default=5, help="passes of each")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    return parser.parse_args()


if __name__ == "__main__":
    main()
