import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


def start(what, devices):
    environment = {
        **os.environ,
        "JAX_NUM_CPU_DEVICES": str(devices),
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
    }
    return subprocess.Popen(
        [sys.executable, ROOT / "tests" / "support" / "device_figures.py", what],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(scope="module")
def measured():
    """The figures of three processes that run at once."""
    processes = {
        "one": start("losses", 1),
        "four": start("losses", 4),
        "gradients": start("gradients", 4),
    }
    figures = {}
    for name, process in processes.items():
        out, err = process.communicate(timeout=500)
        assert process.returncode == 0, err
        figures[name] = json.loads(out)
    return figures


def test_the_devices_and_the_ragged_rows_are_those_that_the_test_is_about(measured):
    assert measured["one"]["devices"] == 1
    assert measured["four"]["devices"] == measured["gradients"]["devices"] == 4
    assert set(measured["one"]["rows"]) == {6}
    assert set(measured["four"]["rows"]) == {8}
    # The same pairs in both; some batches are not full, so that a device has filler only.
    assert measured["one"]["real_rows"] == measured["four"]["real_rows"]
    assert min(measured["one"]["real_rows"]) < 6 == max(measured["one"]["real_rows"])


def test_four_devices_give_the_loss_of_one_with_dropout_on(measured):
    one, four = (np.array(measured[name]["figures"]) for name in ("one", "four"))
    assert one.shape == (20, 6)
    assert abs(four[:, 0] - one[:, 0]).max() < 1e-5
    np.testing.assert_array_equal(four[:, 2], one[:, 2])  # tokens
    np.testing.assert_allclose(four, one, rtol=1e-5)
    # Adam divides a gradient by its own size: where an entry's gradient is nearly 0, what rounding
    # (the order in which devices are summed isn't fixed) leaves of it moves the entry as far as a
    # true one would. So all entries are measured together, and none alone.
    one, four = (np.array(measured[name]["params"]) for name in ("one", "four"))
    assert np.linalg.norm(four - one) < 1e-5 * np.linalg.norm(one)


def test_the_steps_do_train(measured):
    losses = np.array(measured["one"]["figures"])[:, 0]
    assert losses[-5:].mean() < losses[:5].mean() - 0.05


def test_the_gradient_is_that_of_the_mean_over_all_tokens(measured):
    figures = measured["gradients"]
    taken, wanted = np.array(figures["taken"]), np.array(figures["of_all_tokens"])
    assert figures["tokens"] == 14
    np.testing.assert_allclose(taken, wanted, atol=2e-6)
    assert figures["norm"] == pytest.approx(np.linalg.norm(wanted), rel=1e-5)
    # What averaging the devices' own means would give is another gradient altogether.
    wrong = np.array(figures["mean_of_means"])
    assert np.linalg.norm(wrong - wanted) > 0.2 * np.linalg.norm(wanted)
