"""The mean of checkpoints' parameters: one model, often a better one than each of them.

Vaswani et al. 2017, section 6.1.
"""

import jax

from bahdanau_jax.errors import InputError
from bahdanau_jax.workdir.checkpoints import Checkpoints, Restored


def restore_average(checkpoints: Checkpoints, template: dict, count: int) -> Restored:
    """Reads the mean of the newest checkpoints' parameters.

    Args:
      checkpoints: of the run.
      template: the tree of the parameters.
      count: checkpoints, at least 1.

    Returns:
      The parameters, and the step and progress of the newest.

    Raises:
      InputError: there are fewer checkpoints, or one is damaged.
    """
    steps = checkpoints.steps()
    if len(steps) < count:
        there = ", ".join(map(str, steps)) or "none"
        raise InputError(
            f"--checkpoint=average:{count} needs {count} checkpoints; those there: {there}"
        )
    restored = [checkpoints.restore_params(template, step) for step in steps[:count]]
    states = [each.state for each in restored]
    mean = jax.tree.map(lambda *leaves: sum(leaves[1:], leaves[0]) / count, *states)
    return restored[0]._replace(state=mean)
