"""A run that is killed again and again ends as if nothing had been."""

import random

import pytest
from killing import train_until_killed
from same_run import assert_same_run

NEVER = 10**9


def kill(count, trained, tmp_path, seed):
    """Kills a run at random moments, begins anew whenever it got through, and compares each."""
    chance, kills, runs = random.Random(seed), 0, 0
    directory = tmp_path / "0"
    while kills < count:
        status = train_until_killed(
            trained.config, directory, chance.randrange(120), chance.uniform(0, 0.02)
        )
        assert status in (0, -9)
        kills += status == -9
        if status == 0 or kills == count:
            if status:
                assert train_until_killed(trained.config, directory, NEVER, 0) == 0
            assert_same_run(directory, trained.directory)
            runs += 1
            directory = tmp_path / str(runs)


@pytest.mark.parametrize(
    ("count", "seed"), [(2, 1), pytest.param(20, 0, marks=pytest.mark.slow)], ids=["2", "20"]
)
def test_a_run_killed_at_random_moments_is_the_run_that_was_not(count, seed, trained, tmp_path):
    kill(count, trained, tmp_path, seed)
