r"""An epoch of training beside what a user would pick instead: JoeyNMT and OpenNMT-py.

    python benchmarks/toolkits.py --joeynmt=PYTHON --opennmt=PYTHON

Each trains by its own command at the sizes of experiments/multi30k.py, on the same sentences cut
into the same pieces, in batches of 64 sentences that it chooses itself: JoeyNMT takes them as they
come, OpenNMT-py and this project by length. Float32, Adam, no dropout, as many threads as there are
cores. They take turns, `--repeats` times, and what is compared is real target tokens a second, end
marks counted and padding not; start and compiling aren't in it (toolkit_commands.py says how).

Both toolkits have the model of Luong et al. (2015) with the additive score: the attentional vector,
as large as the decoder's state, is read by the output layer and fed to the next state. So this
project is timed twice: as RNNsearch (`paper`), whose readout has the 256 units of the experiment,
and in their form (`fed`), with the same sizes everywhere. OpenNMT-py is, too: as it is by default,
and without input feeding (`opennmt_unfed`), which is another model and the faster.

The toolkits are optional, and live in an environment of their own that PYTHON is the interpreter
of. By what it states OpenNMT-py admits no PyTorch from 2.3 on and JoeyNMT no protobuf from 3.21 on,
but both train with these; spacy and fasttext-wheel are there for OpenNMT-py's imports only:

    python3.11 -m venv toolkits
    toolkits/bin/pip install torch==2.13.0
    toolkits/bin/pip install --no-deps joeynmt==2.3.0 OpenNMT-py==3.5.1
    toolkits/bin/pip install numpy sacrebleu sentencepiece subword-nmt tensorboard matplotlib \
      packaging pyyaml tqdm importlib_metadata configargparse pyonmttok rapidfuzz pyahocorasick \
      six spacy fasttext-wheel

Hardware and figures: docs/speed.md.
"""

import argparse
import copy
import functools
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import jax
from measuring import Epoch, configuration, open_epoch, take_turns
from rivals import toolkit_commands
from rivals.contenders import Ours
from rivals.toolkit_commands import Pass, Pieces

from bahdanau_jax.config import Config
from bahdanau_jax.runtime.setup import keep_freed_memory
from bahdanau_jax.terminal import say

NAMES = ("paper", "fed", "joeynmt", "opennmt", "opennmt_unfed")
MODULES = {"joeynmt": "joeynmt", "opennmt": "onmt"}
DEV = 64  # sentences of the development set that JoeyNMT asks for and never reads


def main() -> None:
    arguments = parse_arguments()
    keep_freed_memory()  # as launch.py does
    config = configuration("medium", arguments.source)
    epoch = open_epoch(config, "medium")
    pairs = toolkit_commands.training_pairs(epoch.data, config.data.max_length)
    if len(pairs) != epoch.batcher.pairs:
        raise SystemExit(f"{len(pairs)} pairs were cut, but {epoch.batcher.pairs} are trained on")
    with tempfile.TemporaryDirectory() as directory:
        contenders = make_contenders(arguments, Path(directory), config, epoch, pairs)
        passes = take_turns(
            contenders,
            arguments.repeats,
            lambda n, name, made: say(f"{n}. {name}: {rate(made):,.0f} target tokens/s, {made}"),
        )
    figures = summary(passes)
    figures |= {
        "jax": jax.__version__,
        "threads": os.cpu_count(),
        "settings": {name: str(value) for name, value in vars(arguments).items()},
        "sentences": len(pairs),
    }
    print_table(figures)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def make_contenders(
    arguments: argparse.Namespace,
    directory: Path,
    config: Config,
    epoch: Epoch,
    pairs: list[Pieces],
) -> dict[str, Callable[[], Pass]]:
    """Returns what trains, and is timed, when it is called; compiles this project's steps."""
    rows, threads = config.train.batch_size, os.cpu_count() or 1
    updates = arguments.updates or len(pairs) // rows
    wanted = arguments.only.split(",") if arguments.only else NAMES
    pythons = {name: getattr(arguments, toolkit_of(name)) for name in wanted if toolkit_of(name)}
    contenders: dict[str, Callable[[], Pass]] = {}
    for name in wanted:
        toolkit = toolkit_of(name)
        if not toolkit:
            ours = OurEpoch(config if name == "paper" else in_their_form(config), epoch, updates)
            contenders[name] = ours
            continue
        if not usable(name, toolkit, pythons[name]):
            continue
        # JoeyNMT's batches are of any length, so that a part of the text stands for all of it;
        # OpenNMT-py sorts the whole, and takes batches of it at random.
        text = pairs[: updates * rows] if toolkit == "joeynmt" and arguments.updates else pairs
        home = directory / name
        home.mkdir()
        toolkit_commands.write_vocabulary(home, epoch.data.vocabularies.target)
        toolkit_commands.write_text(home, "train", text)
        toolkit_commands.write_text(home, "dev", pairs[:DEV])
        given = (pythons[name], home, config, text, threads)
        if toolkit == "joeynmt":
            contenders[name] = functools.partial(toolkit_commands.joeynmt, *given)
        else:
            contenders[name] = functools.partial(
                toolkit_commands.opennmt, *given, updates=updates, input_feed=name == toolkit
            )
    return contenders


def toolkit_of(name: str) -> str:
    """Returns the toolkit of a contender; empty for this project."""
    if name not in NAMES:
        raise SystemExit(f"--only: there is no {name}; choose from {', '.join(NAMES)}")
    return next((toolkit for toolkit in MODULES if name.startswith(toolkit)), "")


def usable(name: str, toolkit: str, python: str) -> bool:
    """Returns whether a toolkit can be measured; says so if not."""
    if not python:
        say(f"{name} is left out: name its Python by --{toolkit}=PYTHON; see --help")
        return False
    if not toolkit_commands.has(python, MODULES[toolkit]):
        raise SystemExit(f"--{toolkit}={python}: it can't import {MODULES[toolkit]}; see --help")
    return True


def in_their_form(config: Config) -> Config:
    """Returns the toolkits' model: the attentional vector fed to the next state, which asks."""
    config = copy.deepcopy(config)
    model = config.model
    model.attention.query, model.feeding, model.readout = "current", "attentional", "attentional"
    model.readout_units = model.decoder.units
    return config


class OurEpoch:
    """An epoch of this project, or its first batches: reading them, and the training step."""

    def __init__(self, config: Config, epoch: Epoch, updates: int):
        vocabularies, self._batcher = epoch.data.vocabularies, epoch.batcher
        whole = updates * config.train.batch_size > epoch.batcher.pairs - config.train.batch_size
        self._updates = epoch.batcher.batches_per_epoch if whole else updates
        self._ours = Ours(config, vocabularies.source.size, vocabularies.target.size)
        first: dict[tuple[int, int, int], int] = {}
        self._tokens = 0
        for number in range(self._updates):
            first.setdefault(epoch.batcher.shape(number), number)
            lengths = epoch.store.target_lengths[epoch.batcher.indices(number)]
            self._tokens += int(lengths.sum())
        say(f"compiling {len(first)} padded shapes")
        for number in first.values():
            self._ours.prepare(epoch.batcher.batch(number))

    def __call__(self) -> Pass:
        """Trains and times."""
        began = time.perf_counter()
        for number in range(self._updates):
            self._ours.step(self._batcher.batch(number))
        return Pass(time.perf_counter() - began, self._updates, self._tokens)


def rate(made: Pass) -> float:
    """Returns target tokens a second."""
    return made.tokens / made.seconds


def summary(passes: dict[str, list[Pass]]) -> dict:
    """Returns medians and spread, and the medians of the ratios of passes of the same turn."""
    figures: dict = {"contenders": {}, "ratios": {}}
    for name, made in passes.items():
        rates = [rate(each) for each in made]
        figures["contenders"][name] = {
            "tokens_per_second": statistics.median(rates),
            "slowest": min(rates),
            "fastest": max(rates),
            "passes": [each._asdict() for each in made],
        }
    for ours in ("paper", "fed"):
        for theirs in NAMES[2:]:
            if ours in passes and theirs in passes:
                turns = zip(passes[ours], passes[theirs], strict=True)
                ratios = [rate(a) / rate(b) for a, b in turns]
                figures["ratios"][f"{ours} / {theirs}"] = {
                    "median": statistics.median(ratios),
                    "lowest": min(ratios),
                    "highest": max(ratios),
                }
    return figures


def print_table(figures: dict) -> None:
    """Prints the figures, for a person."""
    print(
        f"{figures['sentences']:,} sentences, {figures['threads']} threads, jax {jax.__version__}"
    )
    print(f"{'':15} target tokens/s   slowest   fastest   ms a step   tokens a pass")
    for name, each in figures["contenders"].items():
        step = statistics.median(x["seconds"] / x["updates"] for x in each["passes"])
        print(
            f"{name:15} {each['tokens_per_second']:15,.0f} {each['slowest']:9,.0f}"
            f" {each['fastest']:9,.0f} {1e3 * step:11,.0f} {each['passes'][0]['tokens']:15,}"
        )
    for name, each in figures["ratios"].items():
        print(f"{name}: {each['median']:.2f} ({each['lowest']:.2f} to {each['highest']:.2f})")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--joeynmt", default="", help="the Python that has JoeyNMT")
    parser.add_argument("--opennmt", default="", help="the Python that has OpenNMT-py")
    parser.add_argument("--source", default="", help="data.source, as text:DIR")
    parser.add_argument("--repeats", type=int, default=3, help="passes of each")
    parser.add_argument("--updates", type=int, default=0, help="of a pass; 0: a whole epoch")
    parser.add_argument("--only", default="", help=f"some of {','.join(NAMES)}, with commas")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    return parser.parse_args()


if __name__ == "__main__":
    main()
