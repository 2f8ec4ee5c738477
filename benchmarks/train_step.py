"""The training step beside the same model in PyTorch: tokens a second, memory, share of the peak.

    python benchmarks/train_step.py --shape=medium

Needs PyTorch. Each side runs in a process of its own, as it would for a user, with as many threads
as there are cores; they take turns, and one waits while the other works. Both start from the same
parameters and take the same batches; the first losses must agree. One batch of each padded shape
of an epoch is timed `--repeats` times; an epoch is the sum over shapes of the median times the
number of such batches. A product of two matrices of 2048 x 2048, timed in between, gives the
roofline: the step's share of it counts the operations of the step's matrix products
(`bahdanau_jax/modes/work.py`) and nothing else. Peak memory is the process's during steps of the
largest shape, less what it had before the model was made.

`--shape`: smallest (layers of 8 units, to see that all runs), small (experiments/cmudict.py),
medium (experiments/multi30k.py), paper (the sizes of experiments/rnnsearch_50.py on random
sentences of 50 words). All with the GRU of cuDNN, which is the only one that nn.GRU has, Adam,
float32, and no dropout.

Hardware and figures: docs/speed.md.
"""

import argparse
import functools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import measuring
import numpy as np
from measuring import NAMES, Workload, open_workload
from rivals.contenders import Contender, InPyTorch, Ours, shape_of

from bahdanau_jax.modes.work import Size, step_work
from bahdanau_jax.runtime.setup import keep_freed_memory
from bahdanau_jax.terminal import say

SIDES = ("ours", "pytorch")
PRODUCT = 2048  # rows and columns of the matrices whose product is the roofline


def main() -> None:
    parser = argparse.ArgumentParser(description="The training step beside PyTorch's.")
    parser.add_argument("--shape", choices=NAMES, default="medium")
    parser.add_argument("--source", default="", help="medium: data.source, as text:DIR")
    parser.add_argument("--repeats", type=int, default=5, help="steps of each shape and side")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--serve", choices=SIDES, help=argparse.SUPPRESS)  # in this process
    arguments = parser.parse_args()
    workload = open_workload(arguments.shape, arguments.source)
    if arguments.serve:
        serve(arguments.serve, workload)
        return
    workers = {side: Worker(side, arguments.shape, arguments.source) for side in SIDES}
    figures = measure(workload, workers, arguments.repeats)
    print_table(arguments.shape, figures)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n")


class Worker:
    """A side in a process of its own; see `serve`."""

    def __init__(self, side: str, shape: str, source: str):
        self._process = subprocess.Popen(
            [sys.executable, __file__, f"--serve={side}", f"--shape={shape}", f"--source={source}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, command: str, group: int = 0) -> float:
        """Sends a command, and waits for its answer."""
        assert self._process.stdin and self._process.stdout
        print(command, group, file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"{self._process.args} ended; see above")
        return float(answer)


def serve(side: str, workload: Workload) -> None:
    """Answers commands, a number a line: `prepare`, `loss`, `step`, `memory`, each with a group.

    `prepare` answers with seconds; so does `step`, and `product` for the roofline's product;
    `loss` with the loss of a step; `memory` with bytes.
    """
    sizes = workload.config, workload.source_size, workload.target_size
    if side == "ours":
        keep_freed_memory()  # as launch.py does
        before = measuring.resident()
        contender: Contender = Ours(*sizes)
    else:
        from rivals import torch_seq2seq  # noqa: F401  (PyTorch's own memory isn't the step's)

        params = jax.device_get(Ours(*sizes).state.params)
        before = measuring.resident()
        contender = InPyTorch(*sizes, os.cpu_count() or 1, params)
    square = jnp.ones((PRODUCT, PRODUCT))
    multiply = jax.jit(jnp.matmul)
    for line in sys.stdin:
        command, group = line.split()
        step = functools.partial(contender.step, workload.groups[int(group)].batch)
        match command:
            case "prepare":
                answer = contender.prepare(workload.groups[int(group)].batch)
            case "loss":
                answer = step()
            case "step":
                answer = seconds(step)
            case "memory":
                answer = measuring.peak_during(step) - before
            case _:
                answer = seconds(lambda: multiply(square, square).block_until_ready())
        print(answer, flush=True)


def seconds(function: Callable[[], object]) -> float:
    began = time.perf_counter()
    function()
    return time.perf_counter() - began


def measure(workload: Workload, workers: dict[str, Worker], repeats: int) -> dict:
    """Times all sides on every shape, by turns; returns all figures."""
    compile_seconds = dict.fromkeys(workers, 0.0)
    memory: dict[str, float] = {}
    times: dict[str, list[list[float]]] = {side: [] for side in (*workers, "product")}
    for number, group in enumerate(workload.groups):
        say(f"{group.count} batches of (B, S, T) = {shape_of(group.batch)}")
        losses = {}
        for side, worker in workers.items():
            compile_seconds[side] += worker.ask("prepare", number)
            losses[side] = worker.ask("loss", number)
            if number == 0:
                memory[side] = worker.ask("memory", number)
        # Later ones drift apart: both have taken steps, each with its own rounding.
        if number == 0 and not np.allclose(*losses.values(), rtol=1e-5):
            raise SystemExit(f"the sides don't compute the same: losses {losses}")
        for seconds in times.values():
            seconds.append([])
        for _ in range(repeats):
            for side, worker in workers.items():
                times[side][-1].append(worker.ask("step", number))
            times["product"][-1].append(workers["ours"].ask("product"))
    product = statistics.median(s for seconds in times["product"] for s in seconds)
    rate = 2 * PRODUCT**3 / product
    work = sum(group.count * operations(workload, group.batch) for group in workload.groups)
    real = sum(group.real for group in workload.groups)
    batches = sum(group.count for group in workload.groups)
    figures: dict = {
        "jax": jax.__version__,
        "threads": os.cpu_count(),
        "shapes": len(workload.groups),
        "real_share": workload.real_share,
        "roofline_gflops": rate / 1e9,
        "gflop_per_step": work / batches / 1e9,
        "seconds": times,
        "sides": {},
    }
    for side in workers:
        epoch = epoch_seconds(workload, times[side], statistics.median)
        figures["sides"][side] = {
            "tokens_per_second": real / epoch,
            "slowest": real / epoch_seconds(workload, times[side], max),
            "fastest": real / epoch_seconds(workload, times[side], min),
            "step_seconds": epoch / batches,
            "compile_seconds": compile_seconds[side],
            "roofline_share": work / epoch / rate,
            "peak_mib": memory[side] / measuring.MIB,
        }
    return figures


def operations(workload: Workload, batch) -> int:
    size = Size(*shape_of(batch), workload.target_size)
    work = step_work(workload.config.model, size)
    return sum(part.forward + part.backward for part in work)


def epoch_seconds(workload: Workload, times: list[list[float]], middle: Callable) -> float:
    pairs = zip(workload.groups, times, strict=True)
    return sum(group.count * middle(seconds) for group, seconds in pairs)


def print_table(name: str, figures: dict) -> None:
    print(
        f"{name}: {figures['shapes']} shapes, {figures['real_share']:.1%} real tokens, "
        f"{figures['gflop_per_step']:.1f} GFLOP a step, roofline "
        f"{figures['roofline_gflops']:.0f} GFLOP/s, {figures['threads']} threads"
    )
    columns = ["target tokens/s", "slowest-fastest", "ms a step", "of the roofline"]
    print("\t".join(["", *columns, "compile s", "peak MiB"]))
    for side, row in figures["sides"].items():
        cells = [
            f"{row['tokens_per_second']:,.0f}",
            f"{row['slowest']:,.0f}-{row['fastest']:,.0f}",
            f"{1e3 * row['step_seconds']:.0f}",
            f"{row['roofline_share']:.1%}",
            f"{row['compile_seconds']:.1f}",
            f"{row['peak_mib']:.0f}",
        ]
        print("\t".join([side, *cells]))
    ours, theirs = (figures["sides"][side]["tokens_per_second"] for side in ("ours", "pytorch"))
    print(f"ours / pytorch: {ours / theirs:.2f}")


if __name__ == "__main__":
    main()
