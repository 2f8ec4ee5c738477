import math
import struct
import subprocess
import sys
import textwrap

import jax.numpy as jnp
import numpy as np
import pytest
from strict_json import strict

from bahdanau_jax.workdir.metrics_log import (
    MetricsWriter,
    read_metrics,
    read_result,
    to_json,
    write_result,
)


def lines_of(workdir):
    return [strict(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]


def test_json_holds_what_numpy_and_jax_compute():
    value = {
        "a": np.float32(0.5),
        "b": jnp.int32(3),
        "c": [np.bool_(True), None, (1, "x")],
        "d": {"nan": math.nan, "low": -math.inf, "high": np.float64("inf")},
    }
    assert strict(to_json(value)) == {
        "a": 0.5,
        "b": 3,
        "c": [True, None, [1, "x"]],
        "d": {"nan": "nan", "low": "-inf", "high": "inf"},
    }


def test_a_result_is_replaced_and_read_back(tmp_path):
    assert read_result(tmp_path) is None
    write_result(tmp_path, {"test": {"wer": 25.0}})
    write_result(tmp_path, {"test": {"wer": 24.0}})
    assert read_result(tmp_path) == {"test": {"wer": 24.0}}


def test_a_line_is_in_the_file_when_write_returns(tmp_path):
    with MetricsWriter(tmp_path, mirror=False) as writer:
        writer.write(1, {"train/loss": jnp.float32(2.5)})
        assert lines_of(tmp_path) == [{"step": 1, "train/loss": 2.5}]
        writer.write(2, {"dev/wer": 30})
        assert lines_of(tmp_path)[1] == {"step": 2, "dev/wer": 30}


def test_numbers_that_json_lacks_are_valid_lines_and_numbers_again_when_read(tmp_path):
    with MetricsWriter(tmp_path, mirror=False) as writer:
        writer.write(1, {"train/loss": math.nan, "a": -math.inf, "signature": "nan|x"})
    assert lines_of(tmp_path) == [
        {"step": 1, "train/loss": "nan", "a": "-inf", "signature": "nan|x"}
    ]
    (line,) = read_metrics(tmp_path)
    assert math.isnan(line["train/loss"])
    assert line["a"] == -math.inf
    assert line["signature"] == "nan|x"


def steps_of(workdir):
    return [line["step"] for line in lines_of(workdir)]


def test_a_resumed_run_has_neither_gaps_nor_doubles(tmp_path):
    with MetricsWriter(tmp_path, mirror=False) as writer:
        for step in range(1, 8):
            writer.write(step, {"train/loss": float(step)})
    with MetricsWriter(tmp_path, resume_step=4, mirror=False) as writer:
        assert steps_of(tmp_path) == [1, 2, 3, 4]
        for step in range(5, 10):
            writer.write(step, {"train/loss": float(step)})
    assert steps_of(tmp_path) == list(range(1, 10))


def test_a_new_run_starts_with_an_empty_file(tmp_path):
    with MetricsWriter(tmp_path, mirror=False) as writer:
        writer.write(1, {"train/loss": 1.0})
    with MetricsWriter(tmp_path, mirror=False):
        assert steps_of(tmp_path) == []


@pytest.mark.parametrize("cut", range(1, 30, 7))
def test_a_line_cut_off_by_a_kill_is_dropped(tmp_path, cut):
    with MetricsWriter(tmp_path, mirror=False) as writer:
        for step in (1, 2, 3):
            writer.write(step, {"train/loss": 1.25, "speed/tokens": 10.0})
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(path.read_bytes()[:-1][:-cut])
    assert [line["step"] for line in read_metrics(tmp_path)] == [1, 2]
    with MetricsWriter(tmp_path, resume_step=3, mirror=False) as writer:
        writer.write(3, {"train/loss": 1.25})
    assert steps_of(tmp_path) == [1, 2, 3]


def test_a_last_line_that_lacks_only_its_end_counts(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n{"step": 2}')
    with MetricsWriter(tmp_path, resume_step=2, mirror=False) as writer:
        writer.write(3, {})
    assert steps_of(tmp_path) == [1, 2, 3]


def test_a_line_in_the_middle_that_is_none_is_reported(tmp_path, caplog):
    (tmp_path / "metrics.jsonl").write_text('{"step": 1}\nwords\n{"step": 2}\n')
    assert [line["step"] for line in read_metrics(tmp_path)] == [1, 2]
    assert "line 2 isn't a line of metrics" in caplog.text


def records(workdir):
    """Reads TensorBoard's files: records of length, checksum, data, checksum."""
    from tensorboardX.proto.event_pb2 import Event  # type: ignore[attr-defined]

    for path in sorted((workdir / "tensorboard").iterdir()):
        data = path.read_bytes()
        while data:
            (length,) = struct.unpack("<Q", data[:8])
            yield Event.FromString(data[12 : 12 + length])
            data = data[16 + length :]


def scalars(workdir):
    return [(v.tag, e.step, v.simple_value) for e in records(workdir) for v in e.summary.value]


def test_tensorboard_gets_the_same_numbers(tmp_path, caplog):
    with MetricsWriter(tmp_path) as writer:
        writer.write(1, {"train/loss": 0.5, "dev/signature": "words"})
        writer.write(2, {"train/loss": 0.25, "dev/bleu": math.inf})
    assert scalars(tmp_path) == [
        ("train/loss", 1, 0.5),
        ("train/loss", 2, 0.25),
        ("dev/bleu", 2, math.inf),
    ]
    assert caplog.records == []


@pytest.mark.parametrize(("resume_step", "hidden_from"), [(None, 0), (4, 5)])
def test_tensorboard_hides_what_a_resumed_run_writes_again(tmp_path, resume_step, hidden_from):
    with MetricsWriter(tmp_path, resume_step) as writer:
        writer.write(5, {"train/loss": 0.5})
    starts = [event.step for event in records(tmp_path) if event.session_log.status]
    assert starts == [hidden_from]


def test_neither_tensorflow_nor_tensorboard_is_imported_at_the_start(tmp_path):
    program = """
        import sys
        from bahdanau_jax.workdir.metrics_log import MetricsWriter
        writer = MetricsWriter(sys.argv[1])
        assert not {"tensorboardX", "jax"} & set(sys.modules)
        writer.write(1, {"train/loss": 1.0})
        writer.close()
        assert "tensorboardX" in sys.modules
        assert not {"tensorflow", "torch"} & {name.split(".")[0] for name in sys.modules}
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program), tmp_path], check=True)
