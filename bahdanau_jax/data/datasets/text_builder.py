"""What this project's TFDS builders share: records of text, written fast as array_record."""

import os
from typing import Any

import tensorflow_datasets as tfds
from array_record.python.array_record_module import ArrayRecordWriter
from tensorflow_datasets.proto import tf_example_pb2


class TextBuilder(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    """A data set in which every feature is a text or a sequence of texts, one shard a split.

    A builder that derives from it must keep its order (`disable_shuffling`), and yield each
    example as a dictionary of `str` and `list[str]`.
    """

    def __init__(self, *, file_format: str = "array_record", **kwargs: Any):
        super().__init__(file_format=file_format, **kwargs)

    def _download_and_prepare(self, dl_manager: Any, download_config: Any) -> None:
        # What TFDS's own method does, for text features and one shard, in a quarter of the time:
        # TFDS encodes each value by itself, which takes longer than all the rest.
        del download_config
        splits = []
        for split, examples in self._split_generators(dl_manager).items():
            template = self._get_filename_template(split_name=split)
            path = template.sharded_filepath(shard_index=0, num_shards=1)
            writer = ArrayRecordWriter(os.fspath(path), "group_size:1")
            count = size = 0
            for _, example in examples:
                record = _serialize(example)
                writer.write(record)
                count += 1
                size += len(record)
            writer.close()
            splits.append(
                tfds.core.SplitInfo(
                    name=split, shard_lengths=[count], num_bytes=size, filename_template=template
                )
            )
        self.info.set_splits(tfds.core.SplitDict(splits))


def _serialize(example: dict[str, str | list[str]]) -> bytes:
    record = tf_example_pb2.Example()  # pyright: ignore[reportAttributeAccessIssue]
    for name, value in example.items():
        texts = [value] if isinstance(value, str) else value
        record.features.feature[name].bytes_list.value.extend(text.encode() for text in texts)
    return record.SerializeToString()
