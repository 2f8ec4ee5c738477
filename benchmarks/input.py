"""What the input costs: making a token store of five million pairs, opening it, reading batches.

    python benchmarks/input.py

Pairs of random words (5 to 30 a side, drawn from 5,000) are turned into ids by a word vocabulary
and written as `data.py` does it. Then, in a fresh process: the seconds to open the store and draw
the first batch of a shuffled epoch, the memory that this takes, and the milliseconds that one batch
of 64 costs the host.

Hardware and figures: docs/speed.md.
"""

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import measuring

from bahdanau_jax.data import token_store
from bahdanau_jax.data.batching import Batcher
from bahdanau_jax.data.vocabulary import build_tokens

WORDS, SENTENCES, BATCHES = 5000, 20_000, 200


def main() -> None:
    parser = argparse.ArgumentParser(description="What the input costs.")
    parser.add_argument("--pairs", type=int, default=5_000_000)
    parser.add_argument("--open", type=Path, help=argparse.SUPPRESS)  # a store, in this process
    arguments = parser.parse_args()
    if arguments.open:
        read(arguments.open)
        return
    with tempfile.TemporaryDirectory() as directory:
        store = Path(directory) / "store"
        before = measuring.resident()
        began = time.perf_counter()
        peak = measuring.peak_during(lambda: build(store, arguments.pairs)) - before
        seconds = time.perf_counter() - began
        print(
            f"made: {arguments.pairs:,} pairs in {seconds:.1f} s, "
            f"{arguments.pairs / seconds:,.0f} a second, {peak / measuring.MIB:.0f} MiB"
        )
        subprocess.run([sys.executable, __file__, f"--open={store}"], check=True)


def build(directory: Path, count: int) -> None:
    chance = random.Random(0)
    words = [f"w{number}" for number in range(WORDS)]
    sentences = [" ".join(chance.choices(words, k=chance.randint(5, 30))) for _ in range(SENTENCES)]
    vocabulary = build_tokens("words", 0, sentences)

    def pairs() -> Iterator[tuple[list[int], list[int]]]:
        for _ in range(count):
            source, target = chance.choice(sentences), chance.choice(sentences)
            yield vocabulary.encode(source), vocabulary.encode(target)

    token_store.build(directory, pairs(), (WORDS + 4, WORDS + 4))


def read(directory: Path) -> None:
    before = measuring.resident()
    began = time.perf_counter()
    store = token_store.open(directory, (WORDS + 4, WORDS + 4))
    opened = time.perf_counter() - began
    batcher = Batcher(store, seed=0, batch_size=64, max_length=50)
    batcher.batch(0)
    first = time.perf_counter() - began
    grown = measuring.resident() - before
    began = time.perf_counter()
    for number in range(1, BATCHES + 1):
        batcher.batch(number)
    each = (time.perf_counter() - began) / BATCHES
    print(
        f"opened in {opened:.2f} s; first batch of a shuffled epoch after {first:.2f} s, "
        f"{grown / measuring.MIB:.0f} MiB; then {1e3 * each:.2f} ms a batch of 64"
    )


if __name__ == "__main__":
    main()
