"""Who may import whom, read from the syntax trees: a file's folder says which rules hold for it."""

import ast
import functools
import graphlib
import importlib.metadata
import re
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = "bahdanau_jax"

# A file imports its own room, the ground floor, and rooms of lower floors.
GROUND = {
    *("config", "allowed", "fields", "validation", "effects", "errors"),
    *("special_ids", "durable", "lines", "packed", "stored_files", "terminal"),
}
FLOORS = [
    GROUND,
    {"model", "runtime"},
    {"search", "data", "workdir"},
    {"evaluation"},
    {"reports"},
    {"training"},
    {"modes", "sweeps", "interface"},
    {"comparison"},
    {"cli"},
    {"launch", "__main__"},
]
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}

SCIENCE = ("model", "search")
SCIENCE_IMPORTS = {"jax", "flax"}  # beside the standard library
SCIENCE_GROUND = {"config", "special_ids"}
FILES_AND_PROCESSES = {"os", "pathlib", "io", "json", "shutil", "subprocess", "tempfile"}
# The files of evaluation that a program which has no JAX could use.
PLAIN_EVALUATION = {
    f"evaluation.{name}"
    for name in ("metrics", "breakdown", "significance", "alignment_measures", "word_alignment")
}
JAX = {"jax", "jaxlib", "flax", "optax", "orbax"}
FLAGS = {"absl", "ml_collections"}
DEVICE_MAPS = {"pmap", "shard_map"}
VAGUE = {"utils", "util", "helpers", "helper", "misc", "manager", "common", "tools"}
LINES = (1, 400)


def imports(source: str) -> set[str]:
    """Returns every module that a source names in an import, wherever the import stands."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            # `from package import module` and `from module import name` look alike.
            names |= {str(node.module)} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def imported_from(source: str, forbidden: Iterable[str]) -> list[str]:
    """Returns the modules imported that are among the forbidden or inside one of them."""
    return sorted(
        name
        for name in imports(source)
        if any(name == other or name.startswith(f"{other}.") for other in forbidden)
    )


def own_imports(source: str) -> list[str]:
    """Returns the names that a source imports from this package, less the package's own name."""
    prefix = PACKAGE + "."
    return sorted(n.removeprefix(prefix) for n in imports(source) if n.startswith(prefix))


def room_of(name: str) -> str:
    """Returns the first part of a dotted name inside the package: a room, or a ground file."""
    return name.partition(".")[0]


def climbs(name: str, source: str) -> list[str]:
    """Returns what a module imports that isn't its own room, the ground floor or further down.

    Args:
      name: the module's, inside the package, as `model.cells`.
      source: its text.
    """
    own = room_of(name)
    return [
        other
        for other in own_imports(source)
        if (room := room_of(other)) not in (own, "__version__")
        and not (own in GROUND and room in GROUND)
        and FLOOR[room] >= FLOOR[own]
    ]


def other_than_science(source: str) -> list[str]:
    """Returns what a file of the science imports that the science has no business with."""
    outside = {name.partition(".")[0] for name in imports(source)} - {PACKAGE}
    strange = outside - SCIENCE_IMPORTS - (sys.stdlib_module_names - FILES_AND_PROCESSES)
    ground = {room_of(name) for name in own_imports(source)} & (GROUND - SCIENCE_GROUND)
    return sorted(strange | ground)


def other_than_equations(source: str) -> list[str]:
    """Returns what a kernel imports of the package beside the equations and other kernels."""
    allowed = {"model", "model.equations", "model.kernels"}
    return [
        name
        for name in own_imports(source)
        if name not in allowed and not name.startswith(("model.equations.", "model.kernels."))
    ]


def other_than_setup(source: str) -> list[str]:
    """Returns what the data imports of the runtime beside its set-up, which imports no JAX."""
    names = [name for name in own_imports(source) if room_of(name) == "runtime"]
    return [n for n in names if n != "runtime" and not n.startswith("runtime.setup")]


def circle(sources: Mapping[str, str]) -> list[str]:
    """Returns modules that import each other in a circle, or nothing.

    Args:
      sources: by the modules' names inside the package.
    """
    graph = {
        name: {other for other in own_imports(source) if other in sources and other != name}
        for name, source in sources.items()
    }
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return error.args[1]
    return []


def mapped_over_devices(source: str) -> list[int]:
    """Returns the lines that name a function which maps over devices."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if (isinstance(node, ast.Attribute) and node.attr in DEVICE_MAPS)
        or (isinstance(node, ast.Name) and node.id in DEVICE_MAPS)
        or (isinstance(node, ast.alias) and node.name.rpartition(".")[2] in DEVICE_MAPS)
    ]


def more_than_a_docstring(source: str) -> bool:
    """Returns whether a file is anything but one docstring."""
    body = ast.parse(source).body
    return len(body) != 1 or ast.get_docstring(ast.parse(source)) is None


def vague(path: str | Path) -> bool:
    """Returns whether a file or one of its folders has a name that says nothing."""
    return any(part.removesuffix(".py").lower() in VAGUE for part in Path(path).parts)


def length_is_wrong(source: str) -> bool:
    """Returns whether a file is empty or too long to read in one sitting."""
    return not LINES[0] <= len(source.splitlines()) <= LINES[1]


def modules(*rooms: str) -> dict[str, str]:
    """Returns the sources of the rooms' modules, or of all, by their names in the package."""
    folder = ROOT / PACKAGE
    sources = {}
    for path in sorted(folder.rglob("*.py")):
        name = ".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__init__")
        if name != "__init__" and (not rooms or room_of(name) in rooms):
            sources[name] = path.read_text(encoding="utf-8")
    assert sources, rooms
    return sources


def programs() -> dict[str, str]:
    """Returns the sources beside the package, the tests left out, by their paths."""
    paths = [*ROOT.glob("*.py"), *ROOT.glob("experiments/*.py"), *ROOT.glob("benchmarks/**/*.py")]
    return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in sorted(paths)}


def faults(rule, sources: Mapping[str, str]) -> dict[str, object]:
    """Returns what a rule finds wrong, by the names of the sources."""
    return {name: wrong for name, source in sources.items() if (wrong := rule(source))}


ROOMS = sorted(
    path.name for path in (ROOT / PACKAGE).iterdir() if path.is_dir() and path.name[0] != "_"
)


def test_every_room_and_every_file_of_the_ground_floor_has_its_floor():
    rooms = {room_of(name) for name in modules()}
    assert rooms <= FLOOR.keys(), rooms - FLOOR.keys()
    assert set(ROOMS) == FLOOR.keys() - GROUND - FLOORS[-1]


@pytest.mark.parametrize("room", ["the ground floor", *ROOMS])
def test_imports_go_down(room):
    sources = modules(*(GROUND if room == "the ground floor" else [room]))
    found = {name: climbs(name, source) for name, source in sources.items()}
    assert not any(found.values()), found


def test_no_modules_import_each_other_in_a_circle():
    assert circle(modules()) == []


def test_each_room_is_introduced_by_a_docstring_and_nothing_else():
    sources = {room: (ROOT / PACKAGE / room / "__init__.py").read_text() for room in ROOMS}
    assert faults(more_than_a_docstring, sources) == {}


def test_the_science_imports_jax_flax_and_nothing_that_reads_files_or_flags():
    assert faults(other_than_science, modules(*SCIENCE)) == {}


def test_kernels_import_equations_and_nothing_else_of_the_package():
    kernels = {n: s for n, s in modules("model").items() if n.startswith("model.kernels.")}
    assert kernels
    assert faults(other_than_equations, kernels) == {}


def test_the_ground_floor_imports_no_jax():
    assert faults(lambda source: imported_from(source, JAX), modules(*GROUND)) == {}


def without_jax() -> dict[str, str]:
    """Returns the sources that import no JAX; one that is gone is an error."""
    evaluation = modules("evaluation")
    return modules("data") | {n: evaluation[n] for n in PLAIN_EVALUATION}


def test_data_and_metrics_import_no_jax():
    assert faults(lambda source: imported_from(source, JAX), without_jax()) == {}
    assert faults(other_than_setup, modules("data")) == {}


def loaded(names: Iterable[str], heavy: set[str]) -> str:
    """Returns which of the heavy modules a fresh process has after importing the names."""
    code = f"import sys, {', '.join(f'{PACKAGE}.{name}' for name in sorted(names))}\n"
    code += f"print(sorted({heavy!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    return done.stdout + done.stderr


def test_data_and_metrics_import_no_module_that_imports_jax_either():
    assert loaded(without_jax(), JAX) == "[]\n"


@pytest.mark.parametrize(
    ("imported", "importers"),
    [
        ({"orbax"}, {"workdir/checkpoints.py"}),
        (FLAGS, {"cli"}),
        ({"matplotlib"}, {"reports"}),
        ({"tensorboardX"}, {"workdir"}),
        ({"sentencepiece", "tensorflow_datasets", "array_record"}, {"data"}),
        ({"optuna", "submitit"}, {"sweeps"}),
    ],
    ids=["checkpoints", "flags", "drawing", "tensorboard", "text", "schedulers"],
)
def test_a_library_with_one_place_is_imported_there_only(imported, importers):
    found = set()
    for name, source in modules().items():
        if imported_from(source, imported):
            path = name.replace(".", "/") + ".py"
            found |= {path if path in importers else room_of(name)}
    assert found and found <= importers
    others = {name: source for name, source in programs().items() if name != "launch.py"}
    assert faults(lambda source: imported_from(source, imported), others) == {}


def test_only_devices_maps_over_devices():
    sources = modules()
    assert mapped_over_devices(sources.pop("runtime.devices"))
    assert faults(mapped_over_devices, {**sources, **programs()}) == {}


def test_nothing_imports_launch_and_the_package_imports_no_program():
    assert faults(lambda source: imported_from(source, {"launch"}), programs()) == {}
    names = {"launch", "experiments", "benchmarks", "tests"}
    assert faults(lambda source: imported_from(source, names), modules()) == {}


def undeclared(source: str, declared: set[str]) -> set[str]:
    """Returns the modules that a source imports from distributions that aren't declared."""
    installed = distributions()
    names = {name.partition(".")[0] for name in imports(source)}
    names -= {*sys.stdlib_module_names, PACKAGE}
    return {
        module
        for module in names
        if not {canonical(name) for name in installed.get(module, [module])} & declared
    }


@functools.cache
def distributions() -> Mapping[str, list[str]]:
    """Returns the installed distributions by the modules that they bring."""
    return importlib.metadata.packages_distributions()


def canonical(name: str) -> str:
    """Returns a requirement's name as registries compare names."""
    return re.split(r"[<>=!~;\[ ]", name)[0].lower().replace("_", "-")


def test_every_import_is_of_a_declared_dependency():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = {canonical(name) for name in project["dependencies"]}
    for extra in ("slurm", "tune"):  # imported where they are used, with a word where they aren't
        declared |= {canonical(name) for name in project["optional-dependencies"][extra]}
    assert faults(lambda source: undeclared(source, declared), modules()) == {}
    assert undeclared("import jax, hypothesis\nimport no_such", declared) == {
        "hypothesis",
        "no_such",
    }


def test_every_name_says_what_is_in_the_file():
    folders = (PACKAGE, "benchmarks", "experiments", "tests")
    paths = [path.relative_to(ROOT) for name in folders for path in (ROOT / name).rglob("*.py")]
    assert len(paths) > 30
    assert [path for path in paths if vague(path)] == []


def test_every_file_can_be_read_in_one_sitting():
    sources = {**modules(), **programs()}
    assert [name for name, source in sources.items() if length_is_wrong(source)] == []


@pytest.mark.parametrize(
    ("name", "source", "wrong"),
    [
        ("model.cells", "from bahdanau_jax.config import ModelConfig", []),
        ("model.cells", "from bahdanau_jax.model import dropout", []),
        ("model.cells", "import bahdanau_jax.data.corpus", ["data.corpus"]),
        ("model.cells", "from bahdanau_jax import data", ["data"]),
        ("model.cells", "def f():\n    from bahdanau_jax.runtime import devices", 2),
        ("runtime.devices", "from bahdanau_jax.model import cells", 2),
        ("search.beam", "from bahdanau_jax.model import seq2seq", []),
        ("search.beam", "from bahdanau_jax.data import batching", 2),
        ("training.step", "from bahdanau_jax.sweeps import grid", 2),
        ("modes.align", "if True:\n    from bahdanau_jax.sweeps import grid", 2),
        ("cli.flags", "from bahdanau_jax.training.train import train", []),
        ("workdir.manifest", "from bahdanau_jax import __version__", []),
        ("fields", "from bahdanau_jax.config import Config", []),
        ("fields", "from bahdanau_jax.model.cells import make_cell", 2),
        ("comparison.compare", "import jax, absl", []),
    ],
)
def test_the_rule_of_the_floors_sees_an_import_that_climbs(name, source, wrong):
    found = climbs(name, source)
    assert len(found) == wrong if isinstance(wrong, int) else found == wrong


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import jax, flax.linen as nn\nfrom bahdanau_jax.config import Config", []),
        ("import functools, typing\nfrom bahdanau_jax.special_ids import PAD", []),
        ("import absl.flags as f", ["absl"]),
        ("def f():\n    from absl import flags", ["absl"]),
        ("if True:\n    import orbax.checkpoint as ocp", ["orbax"]),
        ("import numpy as np", ["numpy"]),
        ("from pathlib import Path", ["pathlib"]),
        ("from bahdanau_jax.errors import InputError", ["errors"]),
    ],
)
def test_the_rule_for_science_sees_a_forbidden_import(source, found):
    assert other_than_science(source) == found


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        ("import jax\nfrom bahdanau_jax.model.equations import gru_after", False),
        ("from bahdanau_jax.model import equations", False),
        ("from bahdanau_jax.model.kernels.gru import recur", False),
        ("from bahdanau_jax.model.kernels import gru", False),
        ("from bahdanau_jax.model.cells import GRUAfter", True),
        ("from bahdanau_jax.model import cells", True),
        ("from bahdanau_jax.config import ModelConfig", True),
    ],
)
def test_the_rule_for_kernels_sees_a_forbidden_import(source, wrong):
    assert bool(other_than_equations(source)) == wrong


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
    assert bool(imported_from(source, JAX)) == wrong


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        ("from bahdanau_jax.runtime.setup import cache_directory", False),
        ("from bahdanau_jax.runtime import setup", False),
        ("from bahdanau_jax.runtime import devices", True),
        ("from bahdanau_jax.runtime.signals import Notice", True),
    ],
)
def test_the_rule_for_data_sees_more_of_the_runtime_than_its_set_up(source, wrong):
    assert bool(other_than_setup(source)) == wrong


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


def test_a_circle_is_seen():
    inside = f"from {PACKAGE}.model import b"
    assert circle({"model.a": inside, "model.b": ""}) == []
    assert set(circle({"model.a": inside, "model.b": f"import {PACKAGE}.model.a"})) == {
        "model.a",
        "model.b",
    }


@pytest.mark.parametrize(
    ("source", "wrong"),
    [('"""Says what."""', False), ("", True), ("x = 1", True), ('"""Says."""\nimport jax', True)],
)
def test_the_rule_for_introductions_sees_more_than_a_docstring(source, wrong):
    assert more_than_a_docstring(source) == wrong


def test_the_rules_for_names_and_lengths_can_fail():
    assert vague("bahdanau_jax/utils.py")
    assert vague("bahdanau_jax/helpers/text.py")
    assert vague("tests/misc.py")
    assert not vague("bahdanau_jax/model/attention.py")
    assert length_is_wrong("")
    assert length_is_wrong("x\n" * 401)
    assert not length_is_wrong("x\n" * 400)


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
