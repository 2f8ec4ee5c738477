"""The modes of the command line, and which flags each of them reads."""

from absl import flags

from bahdanau_jax.cli.decode_flags import FIELDS
from bahdanau_jax.errors import InputError

MODES = ("train", "evaluate", "translate", "score", "align", "compare", "explain")

# Flags by the modes that read them; --config, --workdir, --mode and --deterministic are for all.
_READ = {
    ("train",): (
        *("distributed", "coordinator", "process", "processes", "init_from"),
        *("sweep", "zip", "match", "executor", "parallel", "slurm", "dry_run"),
        *("tune", "trials", "metric", "replicas"),
    ),
    ("evaluate", "translate", "score", "align"): ("checkpoint",),
    ("evaluate", "score", "align"): ("split",),
    ("score", "align"): ("source", "target"),
    ("evaluate", "align"): ("gold",),
    ("align",): ("threshold", "draw", "pictures"),
    ("evaluate", "translate"): tuple(FIELDS),
    ("translate",): (
        *("input", "output", "nbest", "prefixes", "alignments", "alignment_format"),
        *("replace_unk", "lexicon", "ensemble"),
    ),
}


def refuse_ignored(mode: str) -> None:
    """Raises InputError if the command line gives a flag that the mode would ignore.

    Args:
      mode: one of `MODES`.
    """
    for modes, names in _READ.items():
        for name in names:
            if mode in modes or not flags.FLAGS[name].present:
                continue
            read = " and ".join(f"--mode={m}" for m in modes)
            also = ""
            if name in FIELDS and mode in ("train", "explain"):
                also = f", or give --config.decode.{name}={flags.FLAGS[name].value}"
            raise InputError(f"--{name} is for {read}; leave it out of --mode={mode}{also}")
