"""The versions that are allowed, and those that CI tests as the oldest."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_oldest_versions_tested_are_the_lower_bounds():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    pins = (ROOT / "constraints-oldest.txt").read_text().splitlines()
    oldest = dict(pin.split("==") for pin in pins if not pin.startswith("#"))
    for requirement in wanted:
        match = re.fullmatch(r"([\w-]+)>=([\d.]+)(,<[\d.]+)?(; .*)?", requirement)
        assert match, f"{requirement} has no lower bound"
        bound, tested = match[2], oldest[match[1].lower().replace("_", "-")]
        assert is_first_of(tested, bound), f"{requirement}, but {tested} is tested"


def is_first_of(version: str, bound: str) -> bool:
    """Returns whether a version is a bound's own, or the first that was released of its series."""
    return version == bound or version.startswith(bound + ".")
