"""Flags of decoding: short names for fields of `decode`; what translate reads and writes."""

import contextlib
import dataclasses
import os
from pathlib import Path
from typing import Any

from absl import flags

from bahdanau_jax.config import DecodeConfig
from bahdanau_jax.errors import InputError
from bahdanau_jax.validation import CHOICES
from bahdanau_jax.workdir.selection import Selection, parse_selection

_HELP = {
    "beam_size": "hypotheses kept a sentence; 1 is greedy search",
    "length_penalty": "none, average (per token) or gnmt",
    "length_penalty_alpha": "alpha of gnmt",
    "coverage_penalty": "beta of GNMT's penalty for words not attended to; 0: none",
    "min_length_ratio": "outputs have at least this many times the source's words",
    "max_length_ratio": "outputs have at most this many times the source's tokens, plus 10",
    "suppress_unk": "never choose the unknown word",
    "temperature": "above 0: sample, instead of searching",
}
_TYPES = {field.name: field.type for field in dataclasses.fields(DecodeConfig)}
_DEFINE = {int: flags.DEFINE_integer, float: flags.DEFINE_float, bool: flags.DEFINE_bool}


def _define(name: str, text: str) -> flags.FlagHolder:
    text = f"evaluate, translate: {text}. Default: the run's decode.{name}."
    if name == "length_penalty":
        return flags.DEFINE_enum(name, None, CHOICES["decode.length_penalty"], text)
    return _DEFINE[_TYPES[name]](name, None, text)


# The short flags, by the names of their fields.
FIELDS = {name: _define(name, text) for name, text in _HELP.items()}
_NBEST = flags.DEFINE_integer(
    "nbest", 0, "translate: the N best outputs of each line, as rank, score and text.", 0
)
_INPUT = flags.DEFINE_string("input", None, "translate: file of lines; default: standard input.")
_PREFIXES = flags.DEFINE_string(
    "prefixes", None, "translate: file of what the outputs of each line must begin with."
)
_OUTPUT = flags.DEFINE_string("output", None, "translate: file; default: standard output.")
_ALIGNMENTS = flags.DEFINE_string(
    "alignments", None, "translate: file for the alignments, one line an output."
)
_ALIGNMENT_FORMAT = flags.DEFINE_enum(
    "alignment_format",
    None,
    ("json", "pharaoh"),
    "translate: tokens and matrix, or links i-j of words; default: by the name of --alignments.",
)
_REPLACE_UNK = flags.DEFINE_bool(
    "replace_unk", False, "translate: put the aligned source word in the place of an unknown one."
)
_LEXICON = flags.DEFINE_string(
    "lexicon", None, "translate, --replace_unk: file of source word, tab, translation."
)
_ENSEMBLE = flags.DEFINE_list(
    "ensemble", [], "translate: further workdirs, each perhaps with @CHECKPOINT behind it."
)


def fields(overrides: dict[str, Any]) -> dict[str, Any]:
    """Returns the fields of `decode` that the command line sets, by name.

    Args:
      overrides: what `--config.` flags set, by path.

    Raises:
      InputError: one of them isn't a field of `decode`, or a field is set twice.
    """
    found = {}
    for path, value in overrides.items():
        section, _, name = path.partition(".")
        if section != "decode":
            raise InputError(
                "this mode takes the configuration from the workdir, all but its fields decode.…; "
                f"leave out --config.{path}={value}"
            )
        found[name] = value
    for name, flag in FIELDS.items():
        if flag.value is None:
            continue
        if name in found:
            raise InputError(f"--{name} and --config.decode.{name} are the same; give one")
        found[name] = flag.value
    return found


def run_translate(directory: Path, which: Selection, decode: dict[str, Any]) -> None:
    """Runs the mode translate as its flags say.

    Args:
      directory: the workdir.
      which: the checkpoint.
      decode: what `fields` returned.
    """
    if _LEXICON.value and not _REPLACE_UNK.value:
        raise InputError("--lexicon is read where unknown words are replaced; add --replace_unk")
    if _ALIGNMENT_FORMAT.value and not _ALIGNMENTS.value:
        raise InputError("--alignment_format needs a file: give --alignments=FILE")
    if _OUTPUT.value and _ALIGNMENTS.value and _same_file(_OUTPUT.value, _ALIGNMENTS.value):
        raise InputError("--output and --alignments name the same file; give each its own")
    members = [(directory, which), *map(_member, _ENSEMBLE.value)]
    # Imported here, so that a wrong flag is answered at once.
    from bahdanau_jax.evaluation.trained_run import open_ensemble
    from bahdanau_jax.lines import open_input, open_output, read_lines
    from bahdanau_jax.modes.hypothesis_lines import Wanted
    from bahdanau_jax.modes.translate import translate
    from bahdanau_jax.modes.unknown_words import read_lexicon

    lexicon = None
    if _REPLACE_UNK.value:
        lexicon = read_lexicon(_LEXICON.value) if _LEXICON.value else {}
    wanted = Wanted(_NBEST.value, lexicon, _format())
    with contextlib.ExitStack() as files:
        lines = files.enter_context(open_input(_INPUT.value))
        run = open_ensemble(members, decode)
        out = files.enter_context(open_output(_OUTPUT.value))
        alignments = None
        if _ALIGNMENTS.value:
            alignments = files.enter_context(open_output(_ALIGNMENTS.value))
        prefixes = None
        if _PREFIXES.value:
            begun = files.enter_context(open_input(_PREFIXES.value, "--prefixes"))
            prefixes = read_lines(begun, _PREFIXES.value)
        translate(run, lines, out, wanted, alignments, prefixes)


def _format() -> str:
    """Returns the format of the alignments, empty where there are none."""
    if not _ALIGNMENTS.value:
        return ""
    named = "pharaoh" if _ALIGNMENTS.value.endswith(".pharaoh") else "json"
    return _ALIGNMENT_FORMAT.value or named


def _same_file(first: str, second: str) -> bool:
    return os.path.realpath(first) == os.path.realpath(second)


def _member(text: str) -> tuple[Path, Selection]:
    if not text.partition("@")[0]:
        raise InputError("--ensemble has an empty name; give workdirs with commas between")
    path, at, which = text.rpartition("@")
    if not at:
        return Path(text), "best"
    return Path(path), parse_selection(which, "--ensemble: the checkpoint behind @")
