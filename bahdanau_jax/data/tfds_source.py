"""Parallel text in a TFDS data set prepared as array_record, read without TensorFlow."""

import contextlib
import functools
import io
import pathlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from bahdanau_jax.data.gold_links import GoldLinks, parse_line, reverse
from bahdanau_jax.data.text_files import given_path
from bahdanau_jax.errors import InputError, flat
from bahdanau_jax.terminal import say

if TYPE_CHECKING:
    from tensorflow_datasets.core import DatasetBuilder

_DEV_NAMES = ("validation", "val", "valid", "dev")
_BLOCK = 4096  # examples read together: an array_record is slow to read one by one


class TfdsSource:
    """Two text features of a data set; the target's may be a sequence of references.

    The data sets of this project are prepared on first use; any other must be there already.
    """

    def __init__(self, name: str, source_feature: str, target_feature: str, directory: str = ""):
        """Opens a data set.

        Args:
          name: TFDS's name, `NAME[/CONFIG][:VERSION]`; the latest version by default.
          source_feature: name of the source's feature.
          target_feature: name of the target's feature.
          directory: where prepared data sets lie; empty: TFDS's own default.

        Raises:
          InputError: the data set is not prepared, or has no such feature.
        """
        self._place = f"tfds:{name}"
        self._features = (source_feature, target_feature)
        self._directory = str(given_path(directory, "data.directory")) if directory else None
        with self._undamaged():
            _check_files(name, self._directory)
            self._builder = _builder(name, self._directory)
            features = list(self._builder.info.features or ())  # pyright: ignore[reportArgumentType]
        for field, feature in (("source", source_feature), ("target", target_feature)):
            if feature not in features:
                raise InputError(
                    f"data.{field}_language: {self._place} has no feature "
                    f"{feature or 'without a name'}; its features: {', '.join(features)}"
                )
        names = sorted(self._builder.info.splits)
        devs = [split for split in names if split in _DEV_NAMES]
        if len(devs) > 1:
            raise InputError(f"{self._place} has both {' and '.join(devs)} for development")
        self._names = {"train": "train"} if "train" in names else {}
        if devs:
            self._names["dev"] = devs[0]
        self._names |= {split: split for split in names if split not in ("train", *devs)}
        self.splits = tuple(self._names)

    @property
    def alignment(self) -> Callable[[str], list[int]] | None:
        """The rule that made the data set's targets, of `datasets.synthetic`; None for others."""
        from bahdanau_jax.data.datasets.synthetic import Synthetic

        return self._builder.alignment if isinstance(self._builder, Synthetic) else None

    def links(self, split: str) -> list[GoldLinks] | None:
        """Returns the gold links of every example of `split`; None where the set has none."""
        from bahdanau_jax.data.datasets.greek_nt import GreekNt

        if not isinstance(self._builder, GreekNt) or {*self._features} != {"greek", "english"}:
            return None
        lines = [texts[0][0] for texts in self._read(split, ("links",))]
        gold = [parse_line(line) for line in lines]
        return gold if self._features[0] == "greek" else [reverse(links) for links in gold]

    def files(self, split: str) -> list[pathlib.Path]:
        """Returns the files of the prepared data set, in which a split's are not told apart."""
        del split
        return sorted(p for p in pathlib.Path(self._builder.data_dir).iterdir() if p.is_file())

    def rows(self, split: str) -> Iterator[tuple[str, ...]]:
        """Yields source and references; raises InputError where a feature holds no text."""
        for number, (sources, references) in enumerate(self._read(split, self._features)):
            if len(sources) != 1:
                raise InputError(
                    f"{self._place}, {split} example {number}: {len(sources)} sources where there "
                    "must be one"
                )
            yield sources[0], *(references or [""])

    def _read(self, split: str, names: tuple[str, ...]) -> Iterator[list[list[str]]]:
        """Yields the texts of features, one list a feature, of every example."""
        import tensorflow_datasets as tfds
        from tensorflow_datasets.proto import tf_example_pb2

        # The records' own bytes: decoding through the features takes several times as long.
        open_split: Any = self._builder.as_data_source
        name = self._names[split]
        with self._undamaged():
            records = open_split(name, deserialize_method=tfds.decode.DeserializeMethod.RAW_BYTES)
            said = self._builder.info.splits[name].num_examples
            if len(records) < said:
                raise ValueError(f"{split} has {len(records)} examples in place of {said}")
        parse = tf_example_pb2.Example.FromString  # pyright: ignore[reportAttributeAccessIssue]
        for start in range(0, len(records), _BLOCK):
            block = range(start, min(start + _BLOCK, len(records)))
            with self._undamaged():
                parsed = [parse(record).features.feature for record in records.__getitems__(block)]
            for number, features in zip(block, parsed, strict=True):
                try:
                    yield [_texts(features[name]) for name in names]
                except ValueError as error:
                    raise InputError(f"{self._place}, {split} example {number}: {error}") from error

    @contextlib.contextmanager
    def _undamaged(self) -> Iterator[None]:
        """Raises InputError in place of whatever the libraries raise at files that are damaged."""
        try:
            yield
        except InputError:
            raise
        except Exception as error:
            name = self._place.removeprefix("tfds:")
            words = f"{type(error).__name__}: {flat(error)}"[:200]
            again = "by the same command" if _own(name) else _commands(name, self._directory)
            raise InputError(
                f"{self._place}: what is prepared in {_folder(name, self._directory)} is damaged "
                f"({words}); move it away, and prepare it again: {again}"
            ) from error


def _texts(feature: Any) -> list[str]:
    """Returns the strings of a `tf.train.Feature`; raises ValueError if it holds no text."""
    texts = [value.decode() for value in feature.bytes_list.value]
    if not texts and feature.WhichOneof("kind") not in (None, "bytes_list"):
        raise ValueError("numbers in place of text")
    for text in texts:
        if "\0" in text:
            raise ValueError("a NUL byte in the text")
    return texts


def _own(name: str) -> type["DatasetBuilder"] | None:
    """Returns the builder of a data set of this project; None: it is somebody else's."""
    from bahdanau_jax.data import datasets

    base = name.partition(":")[0].partition("/")[0]
    return {builder.name: builder for builder in datasets.BUILDERS}.get(base)


def _folder(name: str, directory: str | None) -> pathlib.Path:
    """Returns where every configuration and version of a data set is prepared."""
    from tensorflow_datasets.core import constants

    base = name.partition(":")[0].partition("/")[0]
    return pathlib.Path(directory or constants.DATA_DIR) / base


def _check_files(name: str, directory: str | None) -> None:
    """Refuses what would keep its reader waiting for ever, as a FIFO does."""
    for path in _folder(name, directory).rglob("*"):
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise ValueError(f"{path} is neither a file nor a directory")


def _builder(name: str, directory: str | None) -> "DatasetBuilder":
    """Returns the builder of a data set that is prepared."""
    # Imported here and not above: it takes a second, and text files don't need it.
    import tensorflow_datasets as tfds

    base, colon, version = name.partition(":")
    base, slash, configuration = base.partition("/")
    own: Any = _own(name)
    if own is not None:
        configurations = list(own.builder_configs)
        names = [f"{base}/{each}" for each in configurations] or [base]
        if base + slash + configuration not in names:
            there = " or ".join(f"tfds:{each}" for each in names)
            raise InputError(f"tfds:{name}: there is no such data set; give {there}")
        if colon and version != str(own.VERSION):
            raise InputError(
                f"tfds:{name}: {base} has no such version; give "
                f"tfds:{base}{slash}{configuration}:{own.VERSION}"
            )
        # Made anew each time: a builder learns what is on the disk when it is made.
        make = functools.partial(own, data_dir=directory, config=configuration or None)
        if not _is_prepared(make()):
            # TFDS renames a whole folder into place, and takes one that is there for complete.
            if pathlib.Path(make().data_dir).exists() and not _is_prepared(make()):
                raise ValueError(f"{make().data_dir} has no dataset_info.json")
            _prepare(make())
        return make()

    try:
        # With a version given, TFDS looks for prepared files before it looks for a builder's code.
        builder = tfds.builder(name if ":" in name else f"{name}:*.*.*", data_dir=directory)
    except (ValueError, ImportError, AssertionError):
        builder = None
    if builder is None or not _is_prepared(builder):
        raise InputError(
            f"tfds:{name} is not prepared in {directory or 'the default directory of TFDS'}; "
            f"prepare it once: {_commands(name, directory)}"
        )
    if tfds.core.FileFormat.ARRAY_RECORD not in builder.info.available_file_formats():
        raise InputError(
            f"tfds:{name} is not prepared as array_record in {builder.data_dir}; prepare it in "
            f"another directory, and set data.directory: {_commands(name, 'DIRECTORY')}"
        )
    return builder


def _commands(name: str, directory: str | None) -> str:
    # In Python and not by `tfds build`, which needs Apache Beam as well even to start.
    return (
        'pip install "bahdanau_jax[tensorflow]" && python -c "import tensorflow_datasets as tfds; '
        f"tfds.builder('{name}', data_dir={directory!r}, file_format='array_record')"
        '.download_and_prepare()"'
    )


def _is_prepared(builder: "DatasetBuilder") -> bool:
    return (pathlib.Path(builder.data_dir) / "dataset_info.json").is_file()


def _prepare(builder: "DatasetBuilder") -> None:
    import tensorflow_datasets as tfds

    say(f"preparing the data set {builder.name} in {builder.data_dir}, once")
    tfds.disable_progress_bar()
    try:
        # TFDS announces a download of unknown size, which there isn't, on standard output.
        with contextlib.redirect_stdout(io.StringIO()):
            builder.download_and_prepare()
    except OSError as error:
        # Of several processes that prepare it at once, one succeeds.
        if not _is_prepared(builder):
            raise InputError(
                f"can't prepare tfds:{builder.name} in {builder.data_dir} ({error}); set "
                "data.directory to a place that can be written to"
            ) from error
