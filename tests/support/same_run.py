"""Whether two workdirs hold the same run, bit for bit."""

import contextlib
import io

import jax
import numpy as np

from bahdanau_jax.data.vocabularies import Vocabularies
from bahdanau_jax.evaluation.trained_run import make_model
from bahdanau_jax.training.optimizer import make_optimizer
from bahdanau_jax.training.step import create_state
from bahdanau_jax.training.train import train
from bahdanau_jax.workdir import directory as workdir
from bahdanau_jax.workdir.checkpoints import Checkpoints
from bahdanau_jax.workdir.metrics_log import read_metrics, read_result

# In a result: which run and start it is of, and what its metrics, which have speeds, are known by.
RESULT_OWN = ("run", "start", "metrics.jsonl")


def without_speed(directory):
    """Returns the lines of metrics.jsonl without what depends on the clock."""
    return [
        {k: v for k, v in line.items() if not k.startswith(("speed/", "time"))}
        for line in read_metrics(directory)
    ]


def result_of(directory):
    """Returns a result without what tells which run and start it is of."""
    result = read_result(directory)
    assert result is not None
    return {name: value for name, value in result.items() if name not in RESULT_OWN}


def loop_of(progress):
    """Returns a checkpoint's progress without what depends on the clock."""
    return {name: value for name, value in progress.items() if name != "lines_digest"}


def steps_saved(directory, kind):
    names = [path.name for path in (directory / "checkpoints" / kind).iterdir()]
    return sorted(int(name) for name in names if name.isdecimal())


def saved_state(directory, config, which):
    """Returns a whole checkpoint: step, parameters, optimiser, key."""
    vocabularies = Vocabularies.load(directory / "vocabulary")
    model, optimizer = make_model(config, vocabularies), make_optimizer(config.train, 1)
    template = jax.eval_shape(lambda: create_state(model, optimizer, 0, config.train.average))
    with Checkpoints(directory / "checkpoints") as checkpoints:
        restored = checkpoints.restore(template, which)
    state = dict(vars(restored.state), key=jax.random.key_data(restored.state.key))
    return restored.step, jax.tree.map(np.asarray, state), restored.progress


def quietly(config, directory):
    err = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err):
        train(config, directory, [])
    return err.getvalue()


def assert_same_run(ours, theirs):
    """Asserts that metrics, result and checkpoints are the same but for what the clock decides."""
    config = workdir.read_config(theirs)
    assert without_speed(ours) == without_speed(theirs)
    assert result_of(ours) == result_of(theirs)
    for which in ("latest", "best"):
        a, b = saved_state(ours, config, which), saved_state(theirs, config, which)
        assert a[0] == b[0]
        assert jax.tree.structure(a[1]) == jax.tree.structure(b[1])
        jax.tree.map(np.testing.assert_array_equal, a[1], b[1])
        assert loop_of(a[2]) == loop_of(b[2])
