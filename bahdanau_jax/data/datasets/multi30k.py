"""Multi30k: captions of photographs in English, with their translations into German and French.

The raw text of task 1 of https://github.com/multi30k/dataset (Elliott et al. 2016). There is no
licence file; its README restricts the use to research and education that isn't commercial.
"""

import io
from collections.abc import Iterator
from typing import Any, ClassVar

import tensorflow_datasets as tfds

from bahdanau_jax.data.datasets.raw_files import RawFiles, read_raw_files
from bahdanau_jax.data.datasets.text_builder import TextBuilder
from bahdanau_jax.lines import read_lines

_COMMIT = "a3d2e0d26b56f3846f66a952536ffed4e401d05a"
ADDRESS = f"https://raw.githubusercontent.com/multi30k/dataset/{_COMMIT}/data/task1/raw"
FILES = {"train": "train", "validation": "val", "test_2016_flickr": "test_2016_flickr"}
# Of the text that the files NAME.gz hold at that commit.
SHA256 = {
    "train.en": "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6",
    "train.de": "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72",
    "train.fr": "5925a3c18f1587b6b54b87743106e6e8ab93618edb6f65d19eac0621f853a10d",
    "val.en": "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227",
    "val.de": "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660",
    "val.fr": "5304e444d842e962b2dda4d816b70b22a1765b15401642b7ca37a67477e708dc",
    "test_2016_flickr.en": "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
    "test_2016_flickr.de": "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
    "test_2016_flickr.fr": "cb3160d69b002bb638e66cc7612fcd56cb0af82eadc9c142dedc438afb885ef6",
}


class Multi30k(TextBuilder):
    """29,000 captions to train on, 1,014 to develop on, and the 1,000 of the test set of 2016.

    Features: the two languages of the configuration, in either direction. Splits: `train`,
    `validation` and `test_2016_flickr`, as the files have them, in their order.
    """

    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS: ClassVar[list[Any]] = [
        tfds.core.BuilderConfig(name=name, description="Two languages, of the same captions.")
        for name in ("en-de", "en-fr", "de-fr")
    ]

    @property
    def _languages(self) -> list[str]:
        assert self.builder_config is not None  # TFDS takes the first if none is given
        return self.builder_config.name.split("-")

    def _info(self) -> tfds.core.DatasetInfo:
        return tfds.core.DatasetInfo(
            builder=self,
            description="Captions of photographs and their translations, task 1 of Multi30k.",
            homepage="https://github.com/multi30k/dataset",
            license="research and education that isn't commercial",
            features=tfds.features.FeaturesDict(
                {language: tfds.features.Text() for language in self._languages}
            ),
            disable_shuffling=True,  # the files' order
        )

    def _split_generators(self, dl_manager: Any) -> dict[str, Iterator[tuple[int, dict]]]:
        del dl_manager  # it would keep the files
        names = [f"{stem}.{language}" for stem in FILES.values() for language in self._languages]
        contents = read_raw_files(
            RawFiles(
                dataset=f"{self.name}/{'-'.join(self._languages)}",
                folder=self.name,
                address=ADDRESS,
                sha256={f"{name}.gz": SHA256[name] for name in names},
            ),
            self.data_dir_root,
        )
        return {
            split: self._generate_examples(
                *(contents[f"{stem}.{language}"] for language in self._languages)
            )
            for split, stem in FILES.items()
        }

    def _generate_examples(self, *texts: bytes) -> Iterator[tuple[int, dict]]:
        sides = [read_lines(io.BytesIO(text)) for text in texts]
        for key, lines in enumerate(zip(*sides, strict=True)):
            yield key, dict(zip(self._languages, lines, strict=True))
