"""Parallel text in records: JSON lines, CSV, and tables of Arrow, as Hugging Face saves them.

A record names its texts by keys, `data.source_language` and `data.target_language`; a dot leads
into a record inside it, as `translation.en`.
"""

import contextlib
import csv
import hashlib
import json
import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from bahdanau_jax.data.text_files import (
    files_by_name,
    given_directory,
    given_path,
    stems_by_split,
)
from bahdanau_jax.errors import InputError, flat
from bahdanau_jax.lines import read_lines
from bahdanau_jax.stored_files import parse_json
from bahdanau_jax.terminal import counted

_PART = re.compile(r"-\d+-of-\d+$")  # of a file that is one of several of its split
_SHARE = 20  # of a single file, one source in so many is for development, and one for the test


class RecordSource:
    """`train`, `dev` and `test*` as files of records in a directory; or one file, divided here.

    The development set may also be called `val`, `valid` or `validation`. A split may lie in
    several files, `train-00000-of-00002` and so on. A single file is divided by a hash of the
    source: the same source is in the same split wherever the file is read.
    """

    KIND: ClassVar[str]  # the word before the colon in `data.source`
    ENDING: ClassVar[str]  # of the files' names

    def __init__(self, name: str, source_key: str, target_key: str):
        """Looks for the files; raises InputError if there are none, or a key has no name."""
        self._keys = (source_key, target_key)
        for side, key in zip(("source", "target"), self._keys, strict=True):
            if not key:
                raise InputError(
                    f"data.{side}_language is empty; with {self.KIND}: it is the key of the "
                    f"{side} in each record"
                )
        self._divided: pathlib.Path | None = None
        path = given_path(name, "data.source")
        if path.is_file():
            self._divided = path
            self.splits = ("train", "dev", "test")
            return
        self._files = self._files_by_split(given_directory(name))
        if not self._files:
            raise InputError(
                f"{name} has no train{self.ENDING}, dev{self.ENDING} or test*{self.ENDING}"
            )
        self.splits = tuple(self._files)

    def files(self, split: str) -> list[pathlib.Path]:
        """Returns the files that a split is read from."""
        return [self._divided] if self._divided else self._files[split]

    def rows(self, split: str) -> Iterator[tuple[str, ...]]:
        """Yields source and references; raises InputError at a record without them."""
        for path in self.files(split):
            for place, record in self._records(path):
                where = f"{path}, {place} (split {split})"
                (source, *more), references = (
                    _texts(record, key, side, where)
                    for key, side in zip(self._keys, ("source", "target"), strict=True)
                )
                if more:
                    raise InputError(
                        f"{where}: {counted(len(more) + 1, 'text')} at {self._keys[0]!r}; a source "
                        "is one text"
                    )
                if self._divided is None or _split_of(source) == split:
                    yield source, *references

    def _files_by_split(self, directory: pathlib.Path) -> dict[str, list[pathlib.Path]]:
        paths = {
            name.removesuffix(self.ENDING): path
            for name, path in files_by_name(directory).items()
            if name.endswith(self.ENDING)
        }
        stems = {stem: _PART.sub("", stem) for stem in paths}
        splits = stems_by_split(str(directory), sorted({*stems.values()}))
        return {
            split: [paths[part] for part, stem in sorted(stems.items()) if stem == whole]
            for split, whole in splits.items()
        }

    def _records(self, path: pathlib.Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yields where each record stands, as `line 3`, and the record."""
        raise NotImplementedError


class JsonlSource(RecordSource):
    """JSON lines: an object a line; a list of texts at the target's key is several references."""

    KIND, ENDING = "jsonl", ".jsonl"

    def _records(self, path: pathlib.Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
        for number, line in enumerate(read_lines(path), 1):
            if line.strip():
                yield f"line {number}", parse_object(line, f"{path}, line {number}")


class CsvSource(RecordSource):
    """Tables with commas between columns, whose first line names them (RFC 4180)."""

    KIND, ENDING = "csv", ".csv"

    def _records(self, path: pathlib.Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
        names: list[str] | None = None
        # An error keeps `rows`, and with it the file open, if that isn't closed here.
        with contextlib.closing(read_lines(path)) as lines:
            rows = csv.reader((f"{line}\n" for line in lines), strict=True)
            try:
                for row in rows:
                    if names is None:
                        names = row
                        if len({*names}) < len(names):
                            raise InputError(f"{path}: the first line names a column twice")
                    elif row and len(row) != len(names):
                        raise InputError(
                            f"{path}, line {rows.line_num}: {counted(len(row), 'column')}, but "
                            f"the first line names {len(names)}; put what has a comma in "
                            "quotation marks"
                        )
                    elif row:
                        yield f"line {rows.line_num}", dict(zip(names, row, strict=True))
            except csv.Error as error:
                raise InputError(f"{path}, line {rows.line_num}: no CSV ({flat(error)})") from error


class ParquetSource(RecordSource):
    """Parquet files, or a data set that Hugging Face's library saved to disk, by pyarrow."""

    KIND, ENDING = "parquet", ".parquet"

    def _files_by_split(self, directory: pathlib.Path) -> dict[str, list[pathlib.Path]]:
        inner = directory / "data"  # where repositories of data sets keep the files
        found = super()._files_by_split(directory)
        if not found and inner.is_dir():
            found = super()._files_by_split(inner)
        if found:
            return found
        saved = {path.parent.name: path.parent for path in directory.glob("*/state.json")}
        splits = stems_by_split(str(directory), sorted(saved))
        return {split: sorted(saved[name].glob("*.arrow")) for split, name in splits.items()}

    def _records(self, path: pathlib.Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
        # Imported here: it would make every start longer.
        import pyarrow
        import pyarrow.ipc
        import pyarrow.parquet

        number = 0
        keys = {key.partition(".")[0] for key in self._keys} | {*self._keys}
        try:
            if path.suffix == ".arrow":
                with pyarrow.memory_map(str(path)) as file, pyarrow.ipc.open_stream(file) as stream:
                    for batch in stream:
                        wanted = [name for name in batch.schema.names if name in keys]
                        for record in batch.select(wanted).to_pylist():
                            number += 1
                            yield f"row {number}", record
            else:
                # Opened here: where the file is none, pyarrow would leave it open.
                with pyarrow.OSFile(str(path)) as raw, pyarrow.parquet.ParquetFile(raw) as file:
                    wanted = [name for name in file.schema_arrow.names if name in keys]
                    for batch in file.iter_batches(columns=wanted):
                        for record in batch.to_pylist():
                            number += 1
                            yield f"row {number}", record
        except (pyarrow.ArrowException, OSError) as error:
            raise InputError(
                f"{path}, after row {number}: it can't be read ({flat(error)}); make it again"
            ) from error


def parse_object(line: str, where: str) -> dict[str, Any]:
    """Returns the object that a line of JSON is; raises InputError, beginning with `where`."""
    try:
        value = parse_json(line)
    except json.JSONDecodeError as error:
        raise InputError(f"{where}: no JSON ({error.msg}, character {error.pos + 1})") from error
    except ValueError as error:
        raise InputError(f"{where}: JSON that isn't read ({flat(error)})") from error
    if not isinstance(value, dict):
        raise InputError(f"{where}: JSON, but no object; each line must be one, as {{…}}")
    return value


def text_at(record: Mapping[str, Any], key: str, what: str, where: str) -> Any:
    """Returns what a record has at a key, or inside it at the parts of a key with dots.

    Args:
      record: of any source.
      key: its own name first.
      what: the flag or field that gave the key.
      where: what a complaint begins with.

    Raises:
      InputError: there is no such key.
    """
    if key in record:
        return record[key]
    value: Any = record
    for part in key.split("."):
        if not isinstance(value, Mapping) or part not in value:
            there = ", ".join(map(str, record)) or "none"
            raise InputError(f"{where}: no key {key!r} ({what}); keys there: {there}")
        value = value[part]
    return value


def _texts(record: Mapping[str, Any], key: str, side: str, where: str) -> list[str]:
    value = text_at(record, key, f"data.{side}_language", where)
    texts = value if isinstance(value, list) else [value]
    for text in texts:
        if not isinstance(text, str):
            there = "nothing (null)" if text is None else f"{json.dumps(text, default=str)[:60]}"
            raise InputError(f"{where}: {there} at {key!r} in place of text")
        if "\0" in text:
            raise InputError(f"{where}: a NUL character at {key!r}; take it out")
    return texts or [""]


def _split_of(source: str) -> str:
    """Returns the split of a source in a file that isn't divided."""
    number = int.from_bytes(hashlib.sha256(source.encode()).digest()[:8], "big") % _SHARE
    return {0: "dev", 1: "test"}.get(number, "train")
