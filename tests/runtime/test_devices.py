import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bahdanau_jax.runtime import devices

ROOT = Path(__file__).parents[2]

FOUR = """
import json
import jax, numpy as np
from jax import lax
from bahdanau_jax.runtime import devices

rows = np.arange(8 * 3, dtype=np.float32).reshape(8, 3)
placed = devices.shard({"x": rows, "n": np.arange(8)})
weights = devices.replicate({"w": np.arange(3.0, dtype=np.float32)})

def step(state, batch):
    total = lax.psum(batch["x"].sum(0), devices.AXIS)
    return {"w": state["w"] + total}, lax.axis_index(devices.AXIS)

def per_row(state, batch):
    return batch["x"] @ state["w"], batch["n"] + 100 * lax.axis_index(devices.AXIS)

stacked = devices.on_devices(per_row, outputs=0)(weights, placed)
replicated = weights["w"].sharding.is_fully_replicated
after, _ = devices.on_devices(step, outputs=None, donate=True)(weights, placed)
print(json.dumps({
    "devices": jax.device_count(),
    "shape": placed["x"].shape,
    "held": [[int(s.device.id), np.asarray(s.data)[0].tolist()]
             for s in placed["x"].addressable_shards],
    "replicated": replicated,
    "stacked": [np.asarray(x).tolist() for x in stacked],
    "after": np.asarray(after["w"]).tolist(),
    "after_replicated": after["w"].sharding.is_fully_replicated,
    "donated": weights["w"].is_deleted(),
}))
"""


@pytest.fixture(scope="module")
def four():
    environment = {**os.environ, "JAX_NUM_CPU_DEVICES": "4"}
    done = subprocess.run(
        [sys.executable, "-c", FOUR], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


ROWS = np.arange(8 * 3, dtype=np.float32).reshape(8, 3)


def test_each_device_holds_consecutive_rows_of_a_batch(four):
    assert four["devices"] == 4
    assert four["shape"] == [4, 2, 3]
    assert four["held"] == [[d, ROWS[2 * d : 2 * d + 2].tolist()] for d in range(4)]


def test_every_device_holds_a_replicated_array_whole_before_and_after_a_step(four):
    assert four["replicated"]
    assert four["after_replicated"]


def test_sums_go_over_all_devices_and_come_back_without_a_device_axis(four):
    assert four["after"] == (np.arange(3) + ROWS.sum(0)).tolist()


def test_rows_come_back_stacked_in_the_batchs_order(four):
    sums, numbers = four["stacked"]
    assert np.reshape(sums, -1).tolist() == (ROWS @ np.arange(3)).tolist()
    assert np.reshape(numbers, -1).tolist() == [n + 100 * (n // 2) for n in range(8)]


def test_a_donated_state_is_gone(four):
    assert four["donated"]


def test_one_device_needs_no_other_code():
    weights = devices.replicate(jnp.arange(3.0))
    placed = devices.shard(ROWS)
    assert placed.shape == (1, 8, 3)
    both = devices.on_devices(lambda w, x: (w + 1, x @ w), outputs=0)(weights, placed)
    assert [x.shape for x in both] == [(1, 3), (1, 8)]
    total = devices.on_devices(lambda w, x: w + jax.lax.psum(x.sum(0), devices.AXIS), outputs=None)(
        weights, placed
    )
    np.testing.assert_array_equal(total, np.arange(3.0) + ROWS.sum(0))
    assert not weights.is_deleted()
