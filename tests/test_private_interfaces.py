"""Names of other libraries that are none of their public interface: all that the package uses."""

import ast
from pathlib import Path
from typing import NamedTuple

import pytest
import tensorflow_datasets as tfds
from sacrebleu.metrics.base import Metric

import bahdanau_jax

PACKAGE = Path(bahdanau_jax.__file__).parent
# Documented in spite of their names: typing.NamedTuple's, and os._exit.
DOCUMENTED = {"_replace", "_asdict", "_fields", "_exit"}


class Private(NamedTuple):
    """A name that may change without notice, and who uses it."""

    owner: type
    files: set[str]  # of the package


BLEU_SUMS = Private(Metric, {"evaluation/breakdown.py", "evaluation/metrics.py"})
BUILDER = Private(tfds.core.GeneratorBasedBuilder, {"data/datasets/text_builder.py"})
USED = {
    "_extract_corpus_statistics": BLEU_SUMS,
    "_compute_score_from_stats": BLEU_SUMS,
    "_get_filename_template": BUILDER,
}
OVERRIDDEN = {"_download_and_prepare": BUILDER}


def foreign_names() -> dict[str, set[str]]:
    """Returns the private names that the package reads and doesn't define, with their files."""
    trees = {
        path.relative_to(PACKAGE).as_posix(): list(ast.walk(ast.parse(path.read_text("utf-8"))))
        for path in PACKAGE.rglob("*.py")
    }
    defined, read = set(DOCUMENTED), {}
    for name, nodes in trees.items():
        for node in nodes:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                defined.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                defined.add(node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                defined.add(node.attr)
            elif isinstance(node, ast.Attribute):
                read.setdefault(node.attr, set()).add(name)
            elif isinstance(node, ast.ImportFrom):
                parts = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
                for part in parts:
                    read.setdefault(part, set()).add(name)
    private = {name for name in read if name.startswith("_") and not name.startswith("__")}
    return {name: read[name] for name in private - defined}


def test_no_other_private_name_is_used() -> None:
    assert foreign_names().keys() == USED.keys()


@pytest.mark.parametrize("name", USED)
def test_it_is_used_in_no_other_file(name: str) -> None:
    assert foreign_names()[name] <= USED[name].files


@pytest.mark.parametrize("name", USED | OVERRIDDEN)
def test_the_library_still_has_it(name: str) -> None:
    owner, files = (USED | OVERRIDDEN)[name]
    library = owner.__module__.partition(".")[0]
    assert callable(getattr(owner, name, None)), f"{library} lost {name}, for {', '.join(files)}"
