"""Who may import whom, read from the syntax trees."""

import ast
import importlib.metadata
import re
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "bahdanau_jax"

SCIENCE = {"attention", "scores", "cells", "encoder", "decoder", "readout", "dropout"}
SCIENCE |= {"model", "loss", "search", "beam", "penalties", "initialization"}
SCIENCE |= {"stepping", "continuation", "largest"}
SCIENCE |= {"additive_recurrence", "fused_attention", "gru_gradient", "output_loss"}
DATA = {"vocabulary", "tokens", "pieces", "corpus", "sources", "tfds_source", "token_store"}
DATA |= {"file_stamps", "shapes", "layout", "batching", "data", "metrics"}
DATA |= {"pharaoh", "aer", "word_alignment", "diagnostics"}

NO_SCIENCE_IMPORTS = {f"bahdanau_jax.{name}" for name in DATA} | {
    "absl",
    "bahdanau_jax.workdir.checkpoints",
    "bahdanau_jax.data.datasets",
    "bahdanau_jax.evaluation.evaluator",
    "bahdanau_jax.runtime.devices",
    "bahdanau_jax.terminal",
    "bahdanau_jax.workdir.metrics_log",
    "bahdanau_jax.evaluation.trained_run",
    "bahdanau_jax.training.step",
    "bahdanau_jax.training.train",
    "bahdanau_jax.training.loop",
    "bahdanau_jax.workdir.directory",
    "ml_collections",
    "orbax",
}
NO_DATA_IMPORTS = {"jax", "flax", "optax", "orbax"}
DEVICE_MAPS = {"pmap", "shard_map"}
VAGUE = {"utils", "util", "helpers", "helper", "misc", "manager", "common", "tools"}
LINES = (1, 350)


def imports(source):
    """Returns every module that a source names in an import, wherever the import stands."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            # `from package import module` and `from module import name` look alike.
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def imported_from(source, forbidden):
    """Returns the modules imported that are among the forbidden or inside one of them."""
    return sorted(
        name
        for name in imports(source)
        if any(name == other or name.startswith(f"{other}.") for other in forbidden)
    )


def mapped_over_devices(source):
    """Returns the lines that name a function which maps over devices."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if (isinstance(node, ast.Attribute) and node.attr in DEVICE_MAPS)
        or (isinstance(node, ast.Name) and node.id in DEVICE_MAPS)
        or (isinstance(node, ast.alias) and node.name.rpartition(".")[2] in DEVICE_MAPS)
    ]


def vague(path):
    """Returns whether a file or one of its folders has a name that says nothing."""
    return any(part.removesuffix(".py").lower() in VAGUE for part in Path(path).parts)


def length_is_wrong(source):
    """Returns whether a file is empty or too long to read in one sitting."""
    return not LINES[0] <= len(source.splitlines()) <= LINES[1]


def module_sources():
    return {
        path.relative_to(PACKAGE).with_suffix("").as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(PACKAGE.rglob("*.py"))
    }


def other_sources():
    names = ["launch.py", "experiments/*.py", "benchmarks/*.py"]
    return {path: path.read_text(encoding="utf-8") for name in names for path in ROOT.glob(name)}


def sources_of(names):
    sources = module_sources()
    return {name: sources[name] for name in names}  # a module that is gone is an error


def test_science_imports_nothing_that_reads_files_or_flags():
    found = {
        name: imported_from(source, NO_SCIENCE_IMPORTS)
        for name, source in sources_of(SCIENCE).items()
    }
    assert not any(found.values()), found


def test_data_imports_no_jax():
    sources = sources_of(DATA)
    sources |= {k: v for k, v in module_sources().items() if k.startswith("datasets/")}
    found = {name: imported_from(source, NO_DATA_IMPORTS) for name, source in sources.items()}
    assert not any(found.values()), found


def test_data_imports_no_module_that_imports_jax_either():
    code = f"import sys, {', '.join(f'bahdanau_jax.{name}' for name in sorted(DATA))}\n"
    code += "print(sorted({'jax', 'flax', 'optax', 'orbax'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_only_launch_imports_the_loop():
    sources = {k: v for k, v in module_sources().items() if k != "train"}
    sources |= {k: v for k, v in other_sources().items() if k.name != "launch.py"}
    found = {
        name: imported_from(source, {"bahdanau_jax.training.train"})
        for name, source in sources.items()
    }
    assert not any(found.values()), found
    assert imported_from((ROOT / "launch.py").read_text(), {"bahdanau_jax.training.train"})


def test_nothing_imports_launch():
    for name, source in {**module_sources(), **other_sources()}.items():
        assert not imported_from(source, {"launch"}), name


def test_only_checkpoint_imports_orbax():
    sources = module_sources()
    assert imported_from(sources.pop("checkpoint"), {"orbax"})
    for name, source in {**sources, **other_sources()}.items():
        assert not imported_from(source, {"orbax"}), name


def test_only_parallel_maps_over_devices():
    sources = module_sources()
    assert mapped_over_devices(sources.pop("parallel"))
    for name, source in {**sources, **other_sources()}.items():
        assert not mapped_over_devices(source), name


def undeclared(source, declared):
    """Returns the distributions that a source imports from and that aren't declared."""
    installed = importlib.metadata.packages_distributions()
    modules = {name.partition(".")[0] for name in imports(source)}
    modules -= {*sys.stdlib_module_names, "bahdanau_jax"}
    return {
        module
        for module in modules
        if not {canonical(name) for name in installed.get(module, [module])} & declared
    }


def canonical(name):
    return re.split(r"[<>=!~;\[ ]", name)[0].lower().replace("_", "-")


def test_every_import_is_of_a_declared_dependency():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = {canonical(name) for name in project["dependencies"]}
    for extra in ("slurm", "tune"):  # imported where they are used, with a word where they aren't
        declared |= {canonical(name) for name in project["optional-dependencies"][extra]}
    found = {name: undeclared(source, declared) for name, source in module_sources().items()}
    assert {name: modules for name, modules in found.items() if modules} == {}
    assert undeclared("import jax, hypothesis\nimport no_such", declared) == {
        "hypothesis",
        "no_such",
    }


def test_every_name_says_what_is_in_the_file():
    paths = [path for path in ROOT.glob("*/**/*.py") if ".venv" not in path.parts]
    assert len(paths) > 30
    assert [path for path in paths if vague(path.relative_to(ROOT))] == []


def test_every_file_can_be_read_in_one_sitting():
    long = [name for name, source in module_sources().items() if length_is_wrong(source)]
    assert long == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import bahdanau_jax.data.corpus", ["bahdanau_jax.data.corpus"]),
        ("from bahdanau_jax import corpus", ["bahdanau_jax.data.corpus"]),
        ("from bahdanau_jax.data.corpus import Corpus", 2),
        ("import absl.flags as f", ["absl.flags"]),
        ("def f():\n    from absl import flags", 2),
        ("if True:\n    import orbax.checkpoint as ocp", ["orbax.checkpoint"]),
        ("import jax, flax.linen as nn\nfrom bahdanau_jax.config import Config", []),
        ("import corpus_of_mine", []),
    ],
)
def test_the_rule_for_science_sees_a_forbidden_import(source, found):
    names = imported_from(source, NO_SCIENCE_IMPORTS)
    assert len(names) == found if isinstance(found, int) else names == found


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        ("import jax", True),
        ("import jax.numpy as jnp", True),
        ("from jax import numpy", True),
        ("def f():\n    import flax.linen", True),
        ("import jaxtyping", False),
        ("import numpy as np", False),
    ],
)
def test_the_rule_for_data_sees_a_forbidden_import(source, wrong):
    assert bool(imported_from(source, NO_DATA_IMPORTS)) == wrong


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("import jax\nf = jax.pmap(g)", [2]),
        ("from jax import pmap", [1]),
        ("import jax.experimental.shard_map", [1]),
        ("f = shard_map(g)", [1]),
        ("f = jax.vmap(g)", []),
    ],
)
def test_the_rule_for_devices_sees_a_map(source, lines):
    assert mapped_over_devices(source) == lines


def test_the_rules_for_names_and_lengths_can_fail():
    assert vague("bahdanau_jax/utils.py")
    assert vague("bahdanau_jax/helpers/text.py")
    assert vague("tests/misc.py")
    assert not vague("bahdanau_jax/attention.py")
    assert length_is_wrong("")
    assert length_is_wrong("x\n" * 351)
    assert not length_is_wrong("x\n" * 350)


def test_a_relative_import_is_refused():
    with pytest.raises(AssertionError, match="relative import"):
        imports("from . import corpus")


STEP = """
import sys
sys.argv = ["launch.py"]
import launch
import jax
import numpy as np
from bahdanau_jax.evaluation import evaluator
from bahdanau_jax.runtime import devices
from bahdanau_jax.workdir import metrics_log
from bahdanau_jax.evaluation import trained_run
from bahdanau_jax.modes import translate
from bahdanau_jax.training import train
from bahdanau_jax.data.batching import Batch
from bahdanau_jax.config import Config
from bahdanau_jax.model.seq2seq import Seq2Seq
from bahdanau_jax.training.optimizer import make_optimizer
from bahdanau_jax.training.step import create_state
from bahdanau_jax.training.step import make_train_step

config = Config()
config.model.embedding = config.model.encoder.units = config.model.decoder.units = 4
config.model.attention.units = config.model.readout_units = 4
config.train.optimizer = "sgd"
model, optimizer = Seq2Seq(config.model, 7, 7), make_optimizer(config.train, 9)
state = devices.replicate(jax.jit(lambda: create_state(model, optimizer, 0))())
step = devices.on_devices(make_train_step(model, optimizer, config.train), outputs=None)
batch = Batch(np.full((2, 3), 5, np.int32), np.full((2, 3), 5, np.int32))
state, _ = step(state, devices.shard(batch))
assert int(state.step) == 1
with metrics_log.MetricsWriter(WORKDIR) as writer:
    writer.write(1, {"train/loss": 1.0})
heavy = {"tensorflow", "torch", "tensorboard", "keras", "matplotlib"}
print(sorted(heavy & set(sys.modules)))
"""


def test_launch_a_training_step_and_a_line_of_metrics_import_no_other_framework(tmp_path):
    code = textwrap.dedent(STEP).replace("WORKDIR", repr(str(tmp_path)))
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")
