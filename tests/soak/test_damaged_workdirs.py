"""All files of a workdir, damaged in every way, before every use of it."""

import contextlib
import io
import os
from collections import Counter

import damaged_workdirs as family
import pytest

ENOUGH = 1500  # cases; the family has some 1,900
SHARE = int(os.environ.get("BAHDANAU_JAX_DAMAGE_SHARE", "5"))  # 1: every case, half an hour


@pytest.fixture(scope="module")
def used(tmp_path_factory):
    """The runs, and what each use of them comes to while nothing is damaged."""
    with family.compiled_once():
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            runs = family.make(tmp_path_factory.mktemp("runs"))
        yield runs, family.use_undamaged(runs)


@pytest.mark.slow
@pytest.mark.parametrize("use", family.USES)
@pytest.mark.parametrize("how", family.DAMAGES)
@pytest.mark.parametrize("name", ["metrics.jsonl"])
def test_what_a_run_depends_on_is_missed(used, name, how, use):
    runs, undamaged = used
    assert_good(runs, undamaged, name, how, use)


@pytest.mark.slow
def test_no_damage_of_any_file_ends_a_use_badly(used):
    """Every file, and of its damages one in `SHARE`: CI has no time for more."""
    runs, undamaged = used
    names = family.paths(runs.damaged)
    endings = Counter(
        assert_good(runs, undamaged, name, how, use)
        for number, name in enumerate(names)
        for turn, how in enumerate(family.DAMAGES)
        if (number + turn) % SHARE == 0
        for use in family.uses_of(name, number + turn)
    )
    print(dict(endings))
    assert sum(endings.values()) >= ENOUGH // SHARE


def assert_good(runs, undamaged, name, how, use):
    """Asserts that a use of the run ends well though one path of it is damaged; returns how."""
    family.damage(runs, name, how)
    try:
        ending, words = family.judge(runs, use, undamaged)
    finally:
        family.bring_back(runs)
    assert ending in family.GOOD, f"{use.__name__} with {name} {how.__name__}: {ending}: {words}"
    return ending
