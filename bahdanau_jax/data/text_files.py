"""Parallel text in files, packed or not: a file for each language, or tab-separated columns."""

import pathlib
from collections.abc import Iterator

from bahdanau_jax.errors import InputError
from bahdanau_jax.lines import read_lines, read_pairs
from bahdanau_jax.packed import without_ending

_DEV_NAMES = ("dev", "val", "valid", "validation")


class TextSource:
    """`train.LANGUAGE`, `dev.LANGUAGE`, `test*.LANGUAGE`: the same line number, the same sentence.

    The development set may also be called `val`, `valid` or `validation`.
    """

    def __init__(self, directory: str, source_language: str, target_language: str):
        """Looks for the files; raises InputError if a language or one side of a set is missing."""
        self._paths = names = files_by_name(given_directory(directory))
        sides = []
        for field, language in (("source", source_language), ("target", target_language)):
            suffix = f".{language}"
            stems = [name.removesuffix(suffix) for name in names if name.endswith(suffix)]
            sides.append(stems_by_split(directory, stems))
            if not language or not sides[-1]:
                languages = {name.partition(".")[2] for name in names if _is_split(name)} - {""}
                there = ", ".join(sorted(languages)) or "none (no file is called train.LANGUAGE)"
                raise InputError(
                    f"data.{field}_language: {directory} has no text in "
                    f"{language or 'an unnamed language'}; languages there: {there}"
                )
        self._suffixes = (f".{source_language}", f".{target_language}")
        self._stems = sides[0] | sides[1]
        for split, stem in tuple(self._stems.items()):
            missing = [name for name in self._names(stem) if name not in names]
            if missing and split in ("train", "dev"):
                raise InputError(
                    f"{directory}/{missing[0]} is missing; the other language's {stem} is there"
                )
            if missing:
                del self._stems[split]  # a test set of another pair of languages
        self.splits = tuple(self._stems)

    def rows(self, split: str) -> Iterator[tuple[str, ...]]:
        """Yields the two sides of each line; raises InputError if the files don't fit together."""
        source, target = self.files(split)
        yield from read_pairs(source, target)

    def files(self, split: str) -> list[pathlib.Path]:
        """Returns the files that a split is read from."""
        return [self._paths[name] for name in self._names(self._stems[split])]

    def _names(self, stem: str) -> list[str]:
        return [stem + suffix for suffix in self._suffixes]


class TsvSource:
    """`train.tsv`, `dev.tsv`, `test*.tsv`: source, tab, target, further references after tabs.

    The development set may also be called `val`, `valid` or `validation`. There is no quoting. An
    empty line is an empty example.
    """

    def __init__(self, directory: str):
        """Looks for the files; raises InputError if there are none."""
        self._paths = files_by_name(given_directory(directory))
        stems = [name.removesuffix(".tsv") for name in self._paths if name.endswith(".tsv")]
        self._stems = stems_by_split(directory, stems)
        if not self._stems:
            raise InputError(f"{directory} has no train.tsv, dev.tsv or test*.tsv")
        self.splits = tuple(self._stems)

    def rows(self, split: str) -> Iterator[tuple[str, ...]]:
        """Yields source and references; raises InputError at a line without a tab."""
        (path,) = self.files(split)
        for number, line in enumerate(read_lines(path), 1):
            source, *references = line.split("\t")
            if source and not references:
                raise InputError(f"{path}, line {number}: no tab between source and target")
            # An empty further reference is a stray tab; a sole empty one keeps its line.
            yield source, *([text for text in references if text.strip()] or [""])

    def files(self, split: str) -> list[pathlib.Path]:
        """Returns the file that a split is read from."""
        return [self._paths[f"{self._stems[split]}.tsv"]]


def given_path(name: str, named_by: str) -> pathlib.Path:
    """Returns a path that the user gave, with the home directory that a `~` in front stands for.

    Args:
      name: the path.
      named_by: the field or the environment variable that has it.

    Raises:
      InputError: `~NAME` where nobody of that name is known.
    """
    try:
        return pathlib.Path(name).expanduser()
    except RuntimeError:
        raise InputError(
            f"{named_by}: {name} begins with a home directory that isn't known; write all of it"
        ) from None


def given_directory(name: str) -> pathlib.Path:
    """Returns the directory that `data.source` names; raises InputError if there is none."""
    path = given_path(name, "data.source")
    if not path.is_dir():
        raise InputError(
            f"data.source: {name} is no directory; name the one that has the data by "
            "--config.data.source=KIND:DIR"
        )
    return path


def files_by_name(directory: pathlib.Path) -> dict[str, pathlib.Path]:
    """Returns the files of a directory by their names without the ending of what packed them.

    Raises:
      InputError: a split is there twice, as `train.en` and `train.en.gz`.
    """
    files: dict[str, pathlib.Path] = {}
    for path in sorted(path for path in directory.iterdir() if not path.is_dir()):
        name = without_ending(path.name)
        if name in files and _is_split(name):
            raise InputError(
                f"{directory} has both {files[name].name} and {path.name}; keep one of them"
            )
        files[name] = path
    return files


def stems_by_split(directory: str, stems: list[str]) -> dict[str, str]:
    """Returns the file names, without their ending, of the splits `train`, `dev` and tests."""
    devs = [stem for stem in _DEV_NAMES if stem in stems]
    if len(devs) > 1:
        raise InputError(f"{directory} has both {' and '.join(devs)} for development; keep one")
    splits = {"train": "train"} if "train" in stems else {}
    if devs:
        splits["dev"] = devs[0]
    return splits | {stem: stem for stem in sorted(stems) if stem.startswith("test")}


def _is_split(name: str) -> bool:
    stem = name.partition(".")[0]
    return stem == "train" or stem in _DEV_NAMES or stem.startswith("test")
