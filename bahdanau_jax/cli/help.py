"""What `--help` prints: how to begin, the flags by the modes that read them, and every field."""

import functools
import inspect
import textwrap

from bahdanau_jax import config as config_module
from bahdanau_jax.allowed import CHOICES, RANGES
from bahdanau_jax.cli.flags import ALL, FLAGS, MODES, help_lines
from bahdanau_jax.config import Config
from bahdanau_jax.fields import field_paths, field_type, text_of, value_of

USAGE = """\
{0}                                                 train the default experiment
{0} --config=experiments/cmudict.py --workdir=W     train another, or go on
{0} --config=C --workdir=V --init_from=W            begin with W's best parameters
{0} --config=C --config.seed=1 --config.score=dot   with other values of its fields
{0} --mode=evaluate  --workdir=W --split=test       figures of a split
{0} --mode=translate --workdir=W < in.txt > out.txt one output a line
{0} --mode=translate --workdir=W --beam_size=5 --nbest=5 --input=in.txt
{0} --mode=score     --workdir=W --source=F --target=G   log-probability of each
{0} --mode=align     --workdir=W --source=F --target=G   Pharaoh lines, pictures
{0} --mode=explain   --config=C                     each choice, and what it costs
{0} --config=C --sweep=score=additive,dot --sweep=seed=0,1 --workdir=W
{0} --mode=compare   --workdir=W                    a sweep's table and report.html
{0} --config=C --tune=train.learning_rate=1e-4..1e-2:log --trials=20 --workdir=W
"""
WIDTH = 96


def help_text(command: str) -> str:
    """Returns the whole help.

    Args:
      command: what starts the program, as a user types it.
    """
    lines = [USAGE.format(command), "Modes"]
    lines += [f"  --mode={name:<10} {what}" for name, what in MODES.items()]
    groups: dict[tuple[str, ...], list[str]] = {}
    for flag in FLAGS:
        groups.setdefault(flag.modes, []).extend(_entry(*help_lines(flag)))
    for modes, entries in groups.items():
        title = "every mode" if modes == ALL else ", ".join(modes)
        lines += ["", f"Flags of {title}", *entries]
    lines += ["", "Fields of the configuration, with Config's own defaults"]
    for path in field_paths():
        lines += _entry(f"--config.{path}={text_of(value_of(Config(), path))}", describe(path))
    return "\n".join(lines) + "\n"


def describe(path: str) -> str:
    """Returns a field's type, what is allowed, and the comment that config.py has behind it."""
    kind, allowed, comment = field_type(path).__name__, "", comments()[path]
    if path in RANGES:
        least, limit = RANGES[path]
        allowed = f", at least {least}" + (f" and below {limit}" if limit is not None else "")
    if not all(name in comment for name in CHOICES.get(path, ())):
        allowed = ", one of " + ", ".join(name or "''" for name in CHOICES[path])
    return f"{kind}{allowed}: {comment}".rstrip(": ")


@functools.cache
def comments() -> dict[str, str]:
    """Returns the comment behind each field, with the line below it where that is one too."""
    return dict(zip(field_paths(), _comments(Config), strict=True))


def _comments(kind: type) -> list[str]:
    """Returns the comments of a dataclass's leaf fields in their order."""
    lines = inspect.getsource(kind).splitlines()
    hints, found = inspect.get_annotations(kind), []
    for number, line in enumerate(lines):
        name = line.partition(":")[0].strip()
        if name not in hints or not line.startswith(f"    {name}: "):
            continue
        if hasattr(config_module, getattr(hints[name], "__name__", "")):
            found += _comments(hints[name])
            continue
        texts = [line.partition("  # ")[2]]
        for below in lines[number + 1 :]:
            if not below.startswith("    # "):
                break
            texts.append(below.strip("# "))
        found.append(" ".join(text for text in texts if text))
    return found


def field_table() -> str:
    """Returns the fields as a table in Markdown, for the documentation."""
    lines = ["| field | default | what |", "|---|---|---|"]
    for path in field_paths():
        default = text_of(value_of(Config(), path))
        what = describe(path).replace("|", "\\|")
        lines.append(f"| `{path}` | `{default}` | {what} |")
    return "\n".join(lines) + "\n"


def _entry(flag: str, text: str) -> list[str]:
    wrapped = textwrap.wrap(text, WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 6)
    return [f"  {flag}", *wrapped]
