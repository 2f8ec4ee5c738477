import os
import re
import signal
import subprocess
import sys

import pytest

from bahdanau_jax.config import Config
from bahdanau_jax.errors import InputError
from bahdanau_jax.fields import from_json, to_json
from bahdanau_jax.workdir import directory as workdir
from bahdanau_jax.workdir.directory import lock, make, read_config, write_config


def test_the_configuration_is_written_once_and_read_back(tmp_path):
    config = Config(seed=3)
    config.model.attention.score = "dot"
    write_config(tmp_path, config)
    assert read_config(tmp_path) == config
    assert (tmp_path / "config.json").read_text() == to_json(config)
    written = (tmp_path / "config.json").stat()
    write_config(tmp_path, config)
    assert (tmp_path / "config.json").stat().st_ino == written.st_ino


def test_another_configuration_is_refused_with_every_difference_named(tmp_path):
    write_config(tmp_path, Config())
    other = Config(seed=1)
    other.model.attention.score = "dot"
    other.train.steps = 5
    with pytest.raises(InputError) as caught:
        write_config(tmp_path, other, may_differ={"train.steps"})
    message = str(caught.value)
    assert "seed is 0 there and 1 now" in message
    assert "model.attention.score is 'additive' there and 'dot' now" in message
    assert "train.steps" not in message
    assert "choose another --workdir" in message
    assert "\n" not in message
    assert read_config(tmp_path) == Config()


def test_fields_that_may_differ_do_and_the_file_stays(tmp_path):
    write_config(tmp_path, Config())
    longer = Config()
    longer.train.steps = 99_999
    write_config(tmp_path, longer, may_differ={"train.steps"})
    assert read_config(tmp_path) == Config()
    with pytest.raises(InputError, match=r"train\.steps is 10000 there and 99999 now"):
        write_config(tmp_path, longer)


def test_a_configuration_from_before_a_field_existed_has_its_default(tmp_path):
    text = to_json(Config()).replace('"seed": 0,', "", 1)
    assert from_json(text) == Config()
    (tmp_path / "config.json").write_text(text)
    write_config(tmp_path, Config())


def test_a_directory_without_a_run_says_so(tmp_path):
    with pytest.raises(InputError, match=r"no config\.json here; train in it first"):
        read_config(tmp_path)


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"sed": 1}', b"\xff\xfe"])
def test_a_broken_configuration_names_its_file(tmp_path, content):
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(InputError, match=re.escape(str(tmp_path / "config.json"))):
        read_config(tmp_path)


def test_a_file_in_the_way_of_a_workdir_is_an_input_error(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(InputError, match="choose another --workdir"):
            make(path)
    assert make(tmp_path / "a" / "b").is_dir()


HOLD = """
import sys, time
from bahdanau_jax.workdir.directory import lock
with lock(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_process_is_refused_with_the_firsts_id_until_it_dies(tmp_path):
    first = subprocess.Popen([sys.executable, "-c", HOLD, tmp_path], stdout=subprocess.PIPE)
    assert first.stdout is not None
    with first.stdout:
        assert first.stdout.readline() == b"held\n"
        with (
            pytest.raises(InputError, match=rf"process {first.pid} on \S+\); wait"),
            lock(tmp_path),
        ):
            pass
        first.send_signal(signal.SIGKILL)
        first.wait()
    # The file is still there, with the number of a process that isn't.
    assert str(first.pid) in (tmp_path / workdir.LOCK).read_text()
    (tmp_path / workdir.LOCK).write_text(f"{first.pid} on a host with a long name\n" * 9)
    with lock(tmp_path):
        (line,) = (tmp_path / workdir.LOCK).read_text().splitlines()
        assert line.startswith(f"{os.getpid()} on ")


def test_a_lock_ends_with_its_context_and_covers_one_workdir(tmp_path):
    mine = f"process {os.getpid()} "
    refused = pytest.raises(InputError, match=mine)
    with lock(tmp_path / "a"), lock(tmp_path / "b"), refused, lock(tmp_path / "a"):
        pass
    with lock(tmp_path / "a"):
        pass


def test_a_file_system_without_locks_warns_and_goes_on(tmp_path, monkeypatch, caplog):
    def unsupported(*_):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(workdir.fcntl, "flock", unsupported)
    with lock(tmp_path):
        assert "can't be locked (Function not implemented)" in caplog.text


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_lock_that_is_no_file_is_refused(make, tmp_path):
    make(tmp_path / workdir.LOCK)
    with pytest.raises(InputError, match="no regular file"), workdir.lock(tmp_path):
        pass


@pytest.mark.parametrize("target", ["victim", "run/inside", "/dev/zero"])
def test_a_lock_never_writes_through_a_link(target, tmp_path):
    (tmp_path / "run").mkdir()
    for name in ("victim", "run/inside"):
        (tmp_path / name).write_text("kept")
    (tmp_path / "run" / workdir.LOCK).symlink_to(tmp_path / target)
    with pytest.raises(InputError, match="no regular file"), workdir.lock(tmp_path / "run"):
        pass
    assert (tmp_path / "victim").read_text() == (tmp_path / "run/inside").read_text() == "kept"


@pytest.mark.parametrize("read", [workdir.read_config, lambda w: workdir.check_config(w, Config())])
def test_a_workdir_with_a_link_out_of_it_is_not_used(read, tmp_path):
    (tmp_path / "run" / "alignments").mkdir(parents=True)
    if read is workdir.read_config:
        workdir.write_config(tmp_path / "run", Config())
    (tmp_path / "run" / "alignments" / "test.png").symlink_to(tmp_path / "victim")
    with pytest.raises(InputError, match="leads out of the workdir"):
        read(tmp_path / "run")


@pytest.mark.parametrize("text", ["[" * 200_000, '{"data": {"source": "\\ud800"}}'])
def test_a_configuration_that_only_json_allows_is_refused(text, tmp_path):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(InputError, match="not valid JSON"):
        workdir.read_config(tmp_path)
