"""What it costs to train several replicas in one program, at the sizes of experiments/cmudict.py.

    python benchmarks/replicas.py
    python benchmarks/replicas.py --replicas=1,2,4,8 --repeats=5

Times one training step of R replicas that share their batch, beside R steps of one replica after
each other, in one run; medians over the repeats, which are interleaved. Prints a Markdown table.

Hardware: 2 CPU cores.
Time: 49 seconds with five repeats.
Result: medians, 128 words a batch, 10 letters and 9 phones: one step of one replica takes 134 ms
  alone; a step of 1, 2, 4 and 8 replicas takes 201, 203, 421 and 877 ms, which is 1.50, 0.76, 0.78
  and 0.82 of as many steps after each other. On two cores a program of one replica doesn't pay.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import jax
import numpy as np

from bahdanau_jax.data.batching import Batch
from bahdanau_jax.fields import with_values
from bahdanau_jax.model.seq2seq import Seq2Seq
from bahdanau_jax.runtime import devices
from bahdanau_jax.sweeps.replicas import create_states, make_replica_step
from bahdanau_jax.training.optimizer import make_optimizer
from bahdanau_jax.training.step import create_state, make_train_step
from experiments import cmudict

SOURCE, TARGET = 32, 43  # entries of CMUdict's vocabularies
WIDTHS = (10, 9)  # source and target tokens of a padded batch, end marks counted
STEPS = 1000


def main() -> None:
    parser = argparse.ArgumentParser(description="The cost of replicas.")
    parser.add_argument("--replicas", default="1,2,4,8", help="how many, separated by commas")
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    counts = [int(text) for text in arguments.replicas.split(",")]
    config = cmudict.get_config()
    model = Seq2Seq(config.model, SOURCE, TARGET)
    batch = devices.shard(make_batch(config.train.batch_size))
    optimizer = make_optimizer(config.train, STEPS)
    alone = Timed(
        make_train_step(model, optimizer, config.train), create_state(model, optimizer, 0), batch
    )
    together = {}
    for count in counts:
        configs = [with_values(config, {"seed": seed}) for seed in range(count)]
        states = create_states(model, configs, STEPS)
        together[count] = Timed(make_replica_step(model, configs, STEPS), states, batch)
    for _ in range(arguments.repeats):
        for timed in (alone, *together.values()):
            timed.run()
    single = statistics.median(alone.seconds)
    print("| replicas | ms a step | ms of as many steps of one | ratio | compile s | MiB |")
    print("|---:|---:|---:|---:|---:|---:|")
    for count, timed in together.items():
        median = statistics.median(timed.seconds)
        print(
            f"| {count} | {1000 * median:.0f} | {1000 * count * single:.0f} | "
            f"{median / (count * single):.2f} | {timed.compiling:.0f} | {timed.mib:.0f} |"
        )


def make_batch(rows: int) -> Batch:
    chance = np.random.default_rng(0)
    source, target = WIDTHS
    return Batch(
        chance.integers(4, SOURCE, (rows, source)).astype(np.int32),
        chance.integers(4, TARGET, (rows, target)).astype(np.int32),
    )


class Timed:
    """A compiled step and the seconds of its runs."""

    def __init__(self, function: Callable, state, batch):
        self._state, self._batch = devices.replicate(state), batch
        step: jax.stages.Wrapped = devices.on_devices(function, outputs=None, donate=True)  # type: ignore[assignment]
        began = time.monotonic()
        self._step = step.lower(self._state, batch).compile()
        self.compiling = time.monotonic() - began
        self.mib = self._step.memory_analysis().temp_size_in_bytes / 2**20  # type: ignore[union-attr]
        self.seconds: list[float] = []
        self._advance()

    def run(self) -> None:
        """Takes one more step, and notes its seconds."""
        began = time.monotonic()
        self._advance()
        self.seconds.append(time.monotonic() - began)

    def _advance(self) -> None:
        self._state, sums = self._step(self._state, self._batch)
        jax.block_until_ready(sums)


if __name__ == "__main__":
    main()
