"""What an installation has in it, and that it works where nothing else of the clone is."""

import tomllib
import zipfile

import pytest
from installing import ROOT, Installation, run

IMPORT_ALL = """
import importlib, pkgutil, sys
import bahdanau_jax, experiments
names = []
for package in (bahdanau_jax, experiments):
    names += [m.name for m in pkgutil.walk_packages(package.__path__, package.__name__ + ".")]
for name in names:
    importlib.import_module(name)
print(len(names), bahdanau_jax.__file__, experiments.__file__, sep="\\n")
"""
INSTALLED = ("bahdanau_jax", "experiments")


@pytest.fixture(params=["built", "editable"])
def installation(request) -> Installation:
    return request.getfixturevalue(request.param)


def files(folder: str) -> set[str]:
    """Returns the paths of a folder's files, whatever they are, less what Python leaves there."""
    return {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and not {"__pycache__", "results"} & {*path.parts[:-1]}
    }


def test_the_wheel_holds_every_file_of_the_two_packages_and_nothing_else(built):
    with zipfile.ZipFile(built.wheel) as archive:
        names = set(archive.namelist())
    described = {name for name in names if name.partition("/")[0].endswith(".dist-info")}
    assert names - described == set.union(*map(files, INSTALLED))


def test_every_module_can_be_imported_from_another_folder(installation, tmp_path):
    done = run([installation.python, "-W", "error", "-c", IMPORT_ALL], tmp_path)
    assert done.returncode == 0, done.stderr
    count, package, experiments = done.stdout.split()
    modules = [name for folder in INSTALLED for name in files(folder) if name.endswith(".py")]
    assert int(count) == len(modules) - len(INSTALLED)
    home = installation.clone if installation.wheel is None else installation.bin.parent
    assert all(path.startswith(f"{home}/") for path in (package, experiments))


def test_the_command_helps_from_another_folder(installation, tmp_path):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    if "bahdanau_jax" not in project.get("scripts", {}):
        pytest.skip("pyproject.toml declares no command bahdanau_jax")
    done = run([installation.bin / "bahdanau_jax", "--help"], tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "--config" in done.stdout


def test_a_benchmark_of_a_clone_starts_from_another_folder(installation, tmp_path):
    command = [installation.python, installation.clone / "benchmarks" / "train_step.py", "--help"]
    done = run(command, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
