"""Whether a run's data and vocabularies are still those that its manifest names."""

import os
from collections.abc import Mapping

from bahdanau_jax.errors import InputError
from bahdanau_jax.workdir import manifest


def check(workdir: str | os.PathLike[str], found: Mapping[str, str]) -> None:
    """Compares fingerprints with those that the run's starts have recorded.

    Args:
      workdir: the run's directory; one without a manifest has nothing to compare with.
      found: fingerprints by name, as from `Data.fingerprints`; a name that no start has recorded,
        as that of a test set which came later, is passed over.

    Raises:
      InputError: one differs, and what to do; or the manifest can't be read.
    """
    recorded: dict[str, str] = {}
    for start in manifest.read_starts(workdir):
        recorded |= start["fingerprints"]
    for name, now in found.items():
        before = recorded.get(name, now)
        if before != now:
            what = "the vocabulary"
            if name.startswith("data/"):
                what = f"the text of the split {name.removeprefix('data/')}"
            raise InputError(
                f"{workdir}: {what} isn't what this run was trained with (fingerprint {before} "
                f"then, {now} now); bring it back, or train anew with another --workdir"
            )
