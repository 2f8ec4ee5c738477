"""What every test runs under, and the one trained run that many of them look at."""

import contextlib
import gc
import importlib.metadata
import io
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]

# Before anything is imported that reads them; processes that tests start inherit them.
_SCRATCH = tempfile.TemporaryDirectory(prefix="bahdanau_jax-tests-")
os.environ["XDG_CACHE_HOME"] = _SCRATCH.name  # nothing of the user's cache is read or written
os.environ["TFDS_DATA_DIR"] = os.path.join(_SCRATCH.name, "tensorflow_datasets")
os.environ["JAX_COMPILATION_CACHE_DIR"] = os.path.join(_SCRATCH.name, "xla")
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.2"
os.environ.setdefault("JAX_PLATFORMS", "cpu")  # tolerances are those of float32 on a CPU
os.environ.pop("JAX_NUM_CPU_DEVICES", None)
# An array that broadcasts against one of more axes does so because the code says it.
os.environ["JAX_NUMPY_RANK_PROMOTION"] = "raise"
# Programs run for milliseconds here and compile for seconds: a third of that without optimising,
# and half of that again where XLA can emit fusions in its older, simpler way, as jaxlib 0.10 can.
_XLA_FLAGS = ["--xla_backend_optimization_level=0"]
if importlib.metadata.version("jaxlib").startswith("0.10."):
    _XLA_FLAGS.append("--xla_cpu_use_fusion_emitters=false")
os.environ["XLA_FLAGS"] = " ".join([os.environ.get("XLA_FLAGS", ""), *_XLA_FLAGS]).strip()
for name in ("COLUMNS", "LINES", "FORCE_COLOR"):
    os.environ.pop(name, None)

# `import launch` and `import experiments.cmudict` work from any working directory.
sys.path.insert(0, str(ROOT))

import jax  # noqa: E402
import pytest  # noqa: E402
import tiny  # noqa: E402
from absl import flags  # noqa: E402

from bahdanau_jax.config import Config  # noqa: E402

flags.FLAGS.mark_as_parsed()


class Trained(NamedTuple):
    """A finished run, which tests read and never change."""

    config: Config
    directory: Path
    out: str  # what it wrote on standard output
    err: str


@pytest.fixture(scope="module", autouse=True)
def _programs_of_one_file():
    """Drops the programs that a file's tests have compiled.

    Each keeps some memory maps, of which Linux allows a process 65,530; XLA crashes at the limit.
    """
    yield
    jax.clear_caches()
    gc.collect()


@pytest.fixture
def signals_are_heard():
    """Whoever starts the tests may ignore some: `nohup` SIGHUP, a script's background SIGINT."""
    before = {}
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        handler = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        before[number] = signal.signal(number, handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(scope="session")
def corpus(tmp_path_factory) -> str:
    """The tiny corpus, as `data.source`."""
    return tiny.write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="session")
def trained(tmp_path_factory, corpus) -> Trained:
    """A run of tiny.config, trained in this process."""
    from bahdanau_jax.training.train import train

    config, directory = tiny.config(corpus), tmp_path_factory.mktemp("trained") / "run"
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        train(config, directory, ["train.steps=60"])
    return Trained(config, directory, out.getvalue(), err.getvalue())
