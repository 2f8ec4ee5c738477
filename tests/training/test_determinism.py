"""The same seed gives the same run, bit for bit."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest
import tiny
from launching import LAUNCH, ROOT
from same_run import assert_same_run

from bahdanau_jax.runtime import setup


def test_another_process_with_another_hash_seed_ends_with_the_same_bits(trained, tmp_path):
    (tmp_path / "spelling.py").write_text(
        f"import tiny\ndef get_config():\n    return tiny.config({trained.config.data.source!r})\n"
    )
    paths = [str(ROOT), str(Path(tiny.__file__).parent), os.environ.get("PYTHONPATH", "")]
    here = int(os.environ.get("PYTHONHASHSEED", "0").replace("random", "0"))
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONHASHSEED": str(here + 1),
    }
    done = subprocess.run(
        [sys.executable, LAUNCH, "--config=spelling.py", "--workdir=run"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert_same_run(tmp_path / "run", trained.directory)


@pytest.fixture
def settings():
    name = "jax_persistent_cache_min_compile_time_secs"
    before = jax.config.values[name]
    yield
    jax.config.update(name, before)


def test_deterministic_programs_are_asked_for_beside_what_the_user_set(monkeypatch, settings):
    monkeypatch.setattr(setup, "keep_freed_memory", lambda: None)
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=false")
    setup.configure(deterministic=True)
    assert os.environ["XLA_FLAGS"].split() == [
        "--xla_cpu_enable_fast_math=false",
        "--xla_gpu_deterministic_ops=true",
        "--xla_gpu_autotune_level=0",
    ]


def test_this_version_of_xla_knows_the_flags(tmp_path):
    code = "import jax, jax.numpy as jnp; print(int(jnp.ones(3).sum()))"
    flags = "--xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "XLA_FLAGS": flags},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr
