import ast
import importlib
import re
import socket
from pathlib import Path

import pytest

from bahdanau_jax.config import Config
from bahdanau_jax.data.corpus import Corpus
from bahdanau_jax.data.datasets.raw_files import VARIABLE
from bahdanau_jax.errors import InputError
from bahdanau_jax.fields import from_json, to_json
from bahdanau_jax.validation import validate

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "experiments").glob("[!_]*.py"))
NOT_MEASURED = "not yet measured"


def header(source):
    """Returns the docstring's lines, and each labelled paragraph of it on one line."""
    docstring = ast.get_docstring(ast.parse(source)) or ""
    labelled = re.findall(r"^(Hardware|Time|Expect): (.*(?:\n  .*)*)$", docstring, re.M)
    return docstring, {label: " ".join(text.split()) for label, text in labelled}


def faults(name, source):
    """Returns what a header leaves out: the command, the hardware, the time or the number."""
    docstring, labelled = header(source)
    command = "python launch.py"
    if name != "cmudict.py":
        command += f" --config=experiments/{name}"
    lines = [line.strip() for line in docstring.splitlines()]
    wrong = [] if command in lines else [f"the command {command}"]
    for label, pattern in (
        ("Hardware", r"\b(cores?|CPU|GPU|TPU|H200)\b"),
        ("Time", r"\d[\d.,]* ?(s|seconds?|min|minutes?|h|hours?)\b"),
        ("Expect", r"\d"),
    ):
        text = labelled.get(label, "")
        if not re.search(pattern, text) and NOT_MEASURED not in text:
            wrong.append(label)
    return wrong


def test_the_default_experiment_is_among_them():
    assert ROOT / "experiments" / "cmudict.py" in FILES


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_loads_validates_and_survives_json(path):
    module = importlib.import_module(f"experiments.{path.stem}")
    config = module.get_config()
    assert type(config) is Config
    validate(config)
    assert from_json(to_json(config)) == config
    assert module.get_config() is not config  # nothing that one caller changes reaches another
    assert module.get_config() == config


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_header_names_the_command_the_hardware_the_time_and_the_number(path):
    assert faults(path.name, path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_is_short_and_imports_nothing_but_configurations(path):
    source = path.read_text(encoding="utf-8")
    assert len(source.splitlines()) <= 120
    modules = {n.module for n in ast.walk(ast.parse(source)) if isinstance(n, ast.ImportFrom)}
    assert modules <= {"bahdanau_jax.config", "experiments"}
    assert not [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Import)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_none_names_a_place_where_data_lie(path):
    config = importlib.import_module(f"experiments.{path.stem}").get_config()
    assert config.data.source.startswith("tfds:")
    assert config.data.directory == ""


@pytest.mark.parametrize("name", ["multi30k", "pronalsyl"])
def test_data_that_cannot_be_had_end_in_one_line_with_every_way_to_get_them(
    name, tmp_path, monkeypatch
):
    def offline(*arguments, **options):
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", offline)
    monkeypatch.delenv(VARIABLE, raising=False)
    config = importlib.import_module(f"experiments.{name}").get_config()
    config.data.directory = str(tmp_path)
    with pytest.raises(InputError) as caught:
        Corpus(config.data)
    message = str(caught.value)
    assert "\n" not in message
    places = (f"{tmp_path}/downloads/manual/", "data.directory", VARIABLE)
    for word in ("https://raw.githubusercontent.com/", *places):
        assert word in message


GOOD = '''"""A title.

    python launch.py --config=experiments/good.py

Hardware: 2 CPU cores.
Time: 9 minutes.
Expect: test WER 30.1 %, greedy,
  whatever reference counts.
"""
'''


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        (GOOD, []),
        (GOOD.replace("Time: 9 minutes.", "Time: not yet measured."), []),
        (GOOD.replace("experiments/good.py", "experiments/bad.py"), ["the command"]),
        (GOOD.replace("2 CPU cores", "my own"), ["Hardware"]),
        (GOOD.replace("9 minutes", "a while"), ["Time"]),
        (GOOD.replace("30.1 %", "is low"), ["Expect"]),
        (GOOD.replace("Time: 9 minutes.\n", ""), ["Time"]),
        ("", ["the command", "Hardware", "Time", "Expect"]),
    ],
)
def test_the_rule_for_headers_sees_what_is_missing(source, wrong):
    found = faults("good.py", source)
    assert [fault.partition(" python")[0] for fault in found] == wrong
