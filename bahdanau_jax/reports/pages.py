"""HTML pages from templates: every value is escaped, and what a template lacks is an error.

A page is one file that loads nothing: no script, style, font or picture from anywhere else.
"""

import functools
from typing import Any

import jinja2

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def render(name: str, **values: Any) -> str:
    """Returns a page.

    Args:
      name: of the template, as `alignments` for `templates/alignments.html.j2`.
      values: what the template names, all of it.

    Returns:
      The HTML text. Values are escaped, but for those that the template declares to be markup: the
      pictures that `plots` draws.

    Raises:
      jinja2.UndefinedError: the template names a value that isn't given.
    """
    return _environment().get_template(f"{name}.html.j2").render(values)


def printable(text: str) -> str:
    """Returns text without what HTML can't hold: control characters, lone surrogates, marks."""
    return "".join(c if c.isprintable() else REPLACEMENT for c in text)


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("bahdanau_jax.reports"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["printable"] = printable
    return environment
