"""The run that another one takes its first parameters from: `--init_from`."""

import os
from pathlib import Path
from typing import Any

from bahdanau_jax.config import Config
from bahdanau_jax.data.vocabularies import Vocabularies
from bahdanau_jax.errors import InputError
from bahdanau_jax.fields import differences, to_dict
from bahdanau_jax.workdir import directory as workdir
from bahdanau_jax.workdir.checkpoints import Checkpoints

# What decides the parameters' shapes, and which word each row of an embedding means.
SAME = ("model.", "data.vocabulary.", "data.lowercase")


class WarmStart:
    """A trained run whose model and vocabularies fit the new one.

    Attributes:
      vocabulary: the directory of its vocabularies, which the new run takes over.
    """

    def __init__(self, directory: str | os.PathLike[str], config: Config):
        """Checks that it fits.

        Args:
          directory: its workdir.
          config: of the new run.

        Raises:
          InputError: there is no run, or its model is another; names the fields that differ.
        """
        self._directory = Path(directory)
        try:
            theirs = workdir.read_config(directory)
        except InputError as error:
            raise InputError(f"--init_from={error}") from error
        differing = [
            f"{field} is {old!r} there and {new!r} here"
            for field, (old, new) in differences(to_dict(theirs), config).items()
            if field.startswith(SAME)
        ]
        if differing:
            raise InputError(
                f"--init_from={directory} holds another model: {'; '.join(differing)}; give the "
                "values that it was trained with"
            )
        self.vocabulary = self._directory / "vocabulary"
        with self._checkpoints() as checkpoints:
            self._step = checkpoints.choose("best")

    def check(self, vocabularies: Vocabularies) -> None:
        """Raises InputError if the new run has vocabularies of its own already."""
        if vocabularies.fingerprint != Vocabularies.load(self.vocabulary).fingerprint:
            raise InputError(
                f"--init_from={self._directory}: the workdir was begun with other vocabularies; "
                "choose another --workdir"
            )

    def params(self, like: Any) -> Any:
        """Returns its best parameters, placed as the tree `like` is.

        Raises:
          InputError: there is no good checkpoint.
        """
        with self._checkpoints() as checkpoints:
            return checkpoints.restore_params(like, "best").state

    def describe(self) -> dict[str, Any]:
        """Returns its workdir and the step of its parameters, for the manifest."""
        return {"workdir": os.fspath(self._directory), "step": self._step}

    def _checkpoints(self) -> Checkpoints:
        return Checkpoints(self._directory / "checkpoints")
