import logging
import math
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any, NamedTuple

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from bahdanau_jax import durable
from bahdanau_jax.errors import InputError
from bahdanau_jax.workdir.checkpoints import Checkpoints


@flax.struct.dataclass
class State:
    step: Any
    params: Any
    opt_state: Any
    key: Any


class Pair(NamedTuple):
    first: Any
    second: Any


OPTIMIZER = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-3))


def make_state(step=0, seed=0):
    key = jax.random.key(seed)
    params = {
        "encoder": {"forward_0": {"W": jax.random.normal(key, (3, 5)), "b": jnp.arange(5.0)}},
        "attention": {"v_a": jax.random.normal(key, (4,)), "g": jnp.float32(1.5)},
    }
    return State(jnp.int32(step), params, OPTIMIZER.init(params), jax.random.fold_in(key, 7))


def plain(state):
    return [
        np.asarray(jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x)
        for x in jax.tree.leaves(state)
    ]


def assert_same(a, b):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for x, y in zip(plain(a), plain(b), strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_array_equal(x, y)


def template():
    return jax.eval_shape(make_state)


def saved_steps(directory, kind):
    return sorted(int(p.name) for p in (directory / kind).iterdir())


def files_of(directory):
    return sorted(p for p in directory.rglob("*") if p.is_file())


def test_what_is_restored_is_what_was_saved(tmp_path):
    progress = {"best": 1.25, "waited": 3, "worst": math.inf, "unknown": math.nan, "names": ["a"]}
    with Checkpoints(tmp_path / "deep" / "checkpoints") as checkpoints:
        checkpoints.save(40, make_state(40), progress)
        restored = checkpoints.restore(template())
    assert restored.step == 40
    assert_same(restored.state, make_state(40))
    assert restored.state.key.dtype == make_state().key.dtype
    assert math.isnan(restored.progress.pop("unknown"))
    assert restored.progress == {k: v for k, v in progress.items() if k != "unknown"}


def test_another_process_reads_it_without_the_first_being_there(tmp_path):
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, make_state(1, seed=3), {}, best=[1])
    with Checkpoints(tmp_path) as checkpoints:
        assert_same(checkpoints.restore(template()).state, make_state(1, seed=3))


def test_tuples_and_named_tuples_come_back_as_themselves(tmp_path):
    state = {"params": {"w": jnp.ones(2)}, "rest": Pair((jnp.zeros(1), jnp.ones(3)), [jnp.int8(3)])}
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, state, {})
        assert_same(checkpoints.restore(jax.eval_shape(lambda: state)).state, state)


def test_a_state_may_be_donated_as_soon_as_save_returns(tmp_path):
    increment = jax.jit(lambda x: jax.tree.map(lambda y: y + 1, x), donate_argnums=0)
    state = {"params": {"w": jnp.zeros(300_000)}}
    with Checkpoints(tmp_path) as checkpoints:
        for step in range(1, 4):
            state = increment(state)
            checkpoints.save(step, state, {})
            for _ in range(3):
                state = increment(state)
            values = np.unique(
                checkpoints.restore(jax.eval_shape(lambda s=state: s)).state["params"]["w"]
            )
            np.testing.assert_array_equal(values, [4 * step - 3])


def test_the_latest_two_and_the_best_are_kept(tmp_path):
    with Checkpoints(tmp_path) as checkpoints:
        for step, best in [(10, True), (20, True), (30, False), (40, False), (50, False)]:
            checkpoints.save(step, make_state(step), {"at": step}, [step] if best else [])
        assert checkpoints.latest_step() == 50
        assert checkpoints.best_steps() == [20]
        assert checkpoints.restore(template(), "best").progress == {"at": 20}
        assert int(checkpoints.restore(template(), 40).state.step) == 40
    assert saved_steps(tmp_path, "latest") == [40, 50]
    assert saved_steps(tmp_path, "best") == [20]
    assert list((tmp_path / "writing").iterdir()) == []


@pytest.mark.parametrize("keep", [1, 3])
def test_as_many_of_the_newest_are_kept_as_asked_for(tmp_path, keep):
    with Checkpoints(tmp_path, keep=keep) as checkpoints:
        for step in (10, 20, 30, 40):
            checkpoints.save(step, make_state(step), {})
    assert saved_steps(tmp_path, "latest") == [10, 20, 30, 40][-keep:]


def test_parameters_alone_are_read_without_the_optimizers_state(tmp_path):
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, make_state(1), {"at": 1}, best=[1])
        checkpoints.save(2, make_state(2, seed=9), {"at": 2})
        best = checkpoints.restore_params(template().params)
        latest = checkpoints.restore_params(template().params, "latest")
    assert (best.step, best.progress) == (1, {"at": 1})
    assert_same(best.state, make_state(1).params)
    assert_same(latest.state, make_state(2, seed=9).params)


def test_without_a_best_checkpoint_the_parameters_are_the_latest(tmp_path):
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, make_state(1), {})
        assert checkpoints.best_steps() == []
        assert checkpoints.restore_params(template().params).step == 1


def test_arrays_go_where_the_template_says(tmp_path):
    mesh = jax.make_mesh((jax.device_count(),), ("data",), (jax.sharding.AxisType.Auto,))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    placed = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), template()
    )
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, make_state(1), {})
        for leaf in jax.tree.leaves(checkpoints.restore(placed).state):
            assert leaf.sharding == sharding
        for leaf in jax.tree.leaves(checkpoints.restore(template()).state):
            assert leaf.devices() == {jax.local_devices()[0]}


def test_an_empty_directory_says_that_there_is_nothing(tmp_path):
    with Checkpoints(tmp_path / "none") as checkpoints:
        assert checkpoints.latest_step() is None
        assert checkpoints.best_steps() == []
        with pytest.raises(InputError, match="there is no checkpoint; train first"):
            checkpoints.restore(template())
        with pytest.raises(InputError, match="there is no checkpoint of step 7"):
            checkpoints.restore(template(), 7)
    assert not (tmp_path / "none").exists()


def test_a_step_is_saved_twice_and_the_second_one_counts(tmp_path):
    for seed in (0, 1):
        with Checkpoints(tmp_path) as checkpoints:
            checkpoints.save(5, make_state(5, seed), {"seed": seed}, best=[5])
            checkpoints.save(5, make_state(5, seed), {"seed": seed}, best=[5])
    with Checkpoints(tmp_path) as checkpoints:
        for which in ("latest", "best"):
            restored = checkpoints.restore(template(), which)
            assert restored.progress == {"seed": 1}
            assert_same(restored.state, make_state(5, seed=1))


def test_a_run_that_went_back_removes_what_lies_after_it(tmp_path):
    with Checkpoints(tmp_path) as checkpoints:
        for step in (10, 20):
            checkpoints.save(step, make_state(step), {})
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(15, make_state(15), {})
        assert checkpoints.latest_step() == 15
    assert saved_steps(tmp_path, "latest") == [10, 15]


def truncate(file):
    os.truncate(file, file.stat().st_size // 2)


def flip(file):
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(bytes(data))


@pytest.mark.parametrize("damage", [truncate, flip, Path.unlink], ids=["short", "flip", "missing"])
def test_any_damaged_file_is_reported_and_the_checkpoint_before_is_read(tmp_path, caplog, damage):
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, make_state(1), {})
        checkpoints.save(2, make_state(2), {})
        checkpoints.wait()
        newest = tmp_path / "latest" / "00000002"
        assert len(files_of(newest)) > 10
        for file in files_of(newest):
            content = file.read_bytes()
            if not content and damage is not Path.unlink:
                continue
            damage(file)
            caplog.clear()
            assert checkpoints._newest_good("latest").name == "00000001", file
            report = " ".join(record.getMessage() for record in caplog.records)
            assert f"{newest} is damaged" in report
            # A changed list of checksums may still be a list, and then another file is at odds.
            assert file.name in report or file.name == durable.CHECKSUMS
            file.write_bytes(content)
        assert checkpoints._newest_good("latest") == newest


def test_a_damaged_checkpoint_gives_way_to_the_one_before(tmp_path, caplog):
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, make_state(1), {"at": 1})
        checkpoints.save(2, make_state(2), {"at": 2})
        checkpoints.wait()
        flip(next((tmp_path / "latest" / "00000002" / "params").rglob("manifest.ocdbt")))
        restored = checkpoints.restore(template())
        assert (restored.step, restored.progress) == (1, {"at": 1})
        assert_same(restored.state, make_state(1))
        assert [r.levelname for r in caplog.records] == ["WARNING", "WARNING"]
        with pytest.raises(InputError, match="every checkpoint of step 2 is damaged"):
            checkpoints.restore(template(), 2)


def test_the_best_and_its_twin_stand_in_for_each_other(tmp_path):
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, make_state(1), {})
        checkpoints.save(2, make_state(2), {}, best=[2])
        checkpoints.wait()
        for kind in ("latest", "best"):
            backup = tmp_path / "backup"
            shutil.copytree(tmp_path / kind / "00000002", backup)
            (tmp_path / kind / "00000002" / "_CHECKPOINT_METADATA").unlink()
            assert checkpoints.restore(template(), "latest").step == 2
            assert checkpoints.restore(template(), "best").step == 2
            shutil.rmtree(tmp_path / kind / "00000002")
            backup.rename(tmp_path / kind / "00000002")


def test_if_none_is_good_the_message_says_what_to_do(tmp_path):
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, make_state(1), {}, best=[1])
        checkpoints.wait()
        for kind in ("latest", "best"):
            (tmp_path / kind / "00000001" / durable.CHECKSUMS).unlink()
        with pytest.raises(InputError, match=r"every checkpoint is damaged; .* or remove all and"):
            checkpoints.restore(template())


def test_another_model_is_told_apart_from_damage_and_named(tmp_path):
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, make_state(1), {})
        wider = template()
        wider.params["attention"]["v_a"] = jax.ShapeDtypeStruct((6,), jnp.float32)
        with pytest.raises(
            InputError, match=r"params\.attention\.v_a is float32\[4\] there and float32\[6\] here"
        ):
            checkpoints.restore(wider)
        with pytest.raises(InputError, match=r"rest\.opt_state\..* is absent there|absent here"):
            checkpoints.restore(template().replace(opt_state=optax.sgd(0.1).init({})))
        with pytest.raises(InputError, match=r"params\.extra is absent there"):
            checkpoints.restore_params({**template().params, "extra": template().step})


def test_no_file_holds_a_pickle(tmp_path):
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, make_state(1), {}, best=[1])
    for file in files_of(tmp_path):
        assert not file.read_bytes().startswith(b"\x80"), file
        assert file.suffix not in (".pkl", ".pickle", ".npy")


def test_an_error_in_the_background_is_raised_by_the_next_call(tmp_path, monkeypatch):
    with Checkpoints(tmp_path) as checkpoints:

        def full(_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(durable, "write_checksums", full)
        checkpoints.save(1, make_state(1), {})
        with pytest.raises(OSError, match="No space left"):
            checkpoints.wait()
        monkeypatch.undo()
        assert checkpoints.latest_step() is None
        checkpoints.save(1, make_state(1), {})
        assert checkpoints.latest_step() == 1


def test_a_checkpoint_removed_between_choice_and_reading_is_chosen_again(tmp_path, monkeypatch):
    with Checkpoints(tmp_path) as checkpoints:
        for step in (1, 2):
            checkpoints.save(step, make_state(step), {})
        checkpoints.wait()
        load = checkpoints._load

        def late(path, template):
            if path.name == "00000002":
                shutil.rmtree(path)
            return load(path, template)

        monkeypatch.setattr(checkpoints, "_load", late)
        assert checkpoints.restore(template()).step == 1


def test_orbax_is_silent_but_for_errors(caplog):
    logger = logging.getLogger("absl")

    def emit(path, level, words="words"):
        logger.handle(logger.makeRecord("absl", level, path, 1, words, (), None))

    caplog.set_level(logging.INFO)
    library = "/venv/site-packages/orbax/checkpoint/_src/handlers/handler.py"
    emit(library, logging.WARNING)
    assert caplog.records == []
    emit(library, logging.ERROR)
    emit(library, logging.ERROR, "Failed writing: No space left on device [os_error_code='28']")
    emit("/venv/site-packages/other/thing.py", logging.WARNING)
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]


KILLED = """
    import sys, time
    import jax.numpy as jnp
    from bahdanau_jax import durable
    from bahdanau_jax.workdir.checkpoints import Checkpoints

    checkpoints = Checkpoints(sys.argv[1])
    checkpoints.save(1, {"params": {"w": jnp.ones(4)}}, {})
    checkpoints.wait()
    if sys.argv[2] == "checksums":
        durable.write_checksums = lambda _: (print("ready", flush=True), time.sleep(60))
    else:
        checkpoints._move = lambda *_: (print("ready", flush=True), time.sleep(60))
    checkpoints.save(2, {"params": {"w": 2 * jnp.ones(4)}}, {}, best=[2])
    time.sleep(60)
"""


@pytest.mark.parametrize("moment", ["checksums", "move"])
def test_a_save_that_was_killed_is_ignored_and_cleared_away(tmp_path, moment):
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(KILLED), tmp_path, moment],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGKILL)
    _, errors = process.communicate()
    assert errors == b""
    assert list((tmp_path / "writing").iterdir()) != []
    with Checkpoints(tmp_path) as checkpoints:
        like = {"params": {"w": jax.ShapeDtypeStruct((4,), jnp.float32)}}
        restored = checkpoints.restore(like)
        assert restored.step == 1
        np.testing.assert_array_equal(restored.state["params"]["w"], np.ones(4))
        assert list((tmp_path / "writing").iterdir()) != []
        checkpoints.save(2, {"params": {"w": 2 * jnp.ones(4)}}, {})
        assert checkpoints.latest_step() == 2
    assert list((tmp_path / "writing").iterdir()) == []


def test_closing_waits_for_the_save_and_ends_the_threads(tmp_path):
    before = threading.active_count()
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(3, make_state(3), {})
    assert saved_steps(tmp_path, "latest") == [3]
    assert not [t for t in threading.enumerate() if t.name.startswith("checkpoint")]
    assert threading.active_count() <= before + 1
