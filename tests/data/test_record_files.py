"""Records: JSON lines, CSV and Parquet give the pairs, or one line that says where they don't."""

import gzip
import json
import lzma

import pyarrow
import pyarrow.ipc
import pyarrow.parquet
import pytest
from open_files import open_files

from bahdanau_jax.config import DataConfig
from bahdanau_jax.data.corpus import Corpus, Example
from bahdanau_jax.errors import InputError

PAIRS = [("猫", "cat"), ("犬, 魚", 'a "dog", fish'), ("", "nothing"), ("鳥", "a\nbird")]


def opened(kind, place, source="ja", target="en"):
    return Corpus(DataConfig(f"{kind}:{place}", source, target))


def jsonl(pairs):
    return "".join(json.dumps({"ja": s, "en": t, "id": 7}) + "\n" for s, t in pairs)


def csv(pairs):
    rows = [("en", "ja"), *((t, s) for s, t in pairs)]
    return "".join(",".join('"' + x.replace('"', '""') + '"' for x in row) + "\r\n" for row in rows)


def tsv(pairs):
    return "".join(f"{s}\t{t}\n" for s, t in pairs)


def table(pairs):
    return pyarrow.table({"ja": [s for s, _ in pairs], "en": [t for _, t in pairs]})


def write_parquet(path, pairs):
    pyarrow.parquet.write_table(table(pairs), path, row_group_size=2)


def write_arrow(path, pairs):
    made = table(pairs)
    with pyarrow.OSFile(str(path), "wb") as file, pyarrow.ipc.new_stream(file, made.schema) as out:
        out.write_table(made, max_chunksize=2)


EXAMPLES = [Example(s, (t.replace("\n", " "),)) for s, t in PAIRS]


@pytest.mark.parametrize("dev", ["dev", "val", "valid", "validation"])
@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_records_are_pairs_by_their_keys(kind, dev, tmp_path):
    for split in ("train", dev, "test_2"):
        path = tmp_path / f"{split}.{kind}"
        if kind == "parquet":
            write_parquet(path, PAIRS)
        else:
            path.write_text({"jsonl": jsonl, "csv": csv}[kind](PAIRS), encoding="utf-8")
    corpus = opened(kind, tmp_path)
    assert corpus.splits == ("train", "dev", "test_2")
    assert [*corpus.examples("train")] == [*corpus.examples("dev")] == EXAMPLES
    assert next(iter(opened(kind, tmp_path, "en", "ja").pairs())) == ("cat", "猫")


def test_the_text_has_one_fingerprint_however_it_is_stored(tmp_path):
    pairs = [(s, t.replace("\n", " ")) for s, t in PAIRS]
    corpora = []
    for kind in ("text", "tsv", "jsonl", "csv", "parquet"):
        place = tmp_path / kind
        place.mkdir()
        if kind == "text":
            (place / "train.ja").write_text("".join(f"{s}\n" for s, _ in pairs))
            (place / "train.en.gz").write_bytes(
                gzip.compress("".join(f"{t}\n" for _, t in pairs).encode())
            )
        elif kind == "parquet":
            write_parquet(place / "train.parquet", pairs)
        else:
            made = {
                "jsonl": jsonl,
                "csv": csv,
                "tsv": lambda p: "".join(f"{s}\t{t}\n" for s, t in p),
            }
            (place / f"train.{kind}.xz").write_bytes(lzma.compress(made[kind](pairs).encode()))
        corpora.append(opened(kind, place))
    assert len({corpus.fingerprint("train") for corpus in corpora}) == 1
    assert all(file.is_file() for corpus in corpora for file in corpus._source.files("train"))


def test_parts_of_a_split_and_the_folder_of_a_repository_are_read(tmp_path):
    (tmp_path / "data").mkdir()
    for number, pairs in enumerate((PAIRS[:2], PAIRS[2:])):
        write_parquet(tmp_path / "data" / f"train-0000{number}-of-00002.parquet", pairs)
    assert [*opened("parquet", tmp_path).examples("train")] == EXAMPLES


def test_a_data_set_that_was_saved_to_disk_is_read(tmp_path):
    for split in ("train", "validation"):
        (tmp_path / split).mkdir()
        (tmp_path / split / "state.json").write_text("{}")
        for number, pairs in enumerate((PAIRS[:2], PAIRS[2:])):
            write_arrow(tmp_path / split / f"data-0000{number}-of-00002.arrow", pairs)
    corpus = opened("parquet", tmp_path)
    assert corpus.splits == ("train", "dev")
    assert [*corpus.examples("dev")] == EXAMPLES


def test_a_key_leads_into_a_record_and_a_list_is_several_references(tmp_path):
    record = {"translation": {"ja": "猫", "en": ["cat", "a cat"]}}
    (tmp_path / "train.jsonl").write_text(json.dumps(record) + "\n\n")
    corpus = opened("jsonl", tmp_path, "translation.ja", "translation.en")
    assert [*corpus.examples("train")] == [Example("猫", ("cat", "a cat"))]


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_one_file_is_divided_by_its_sources(kind, tmp_path):
    pairs = [(f"s{n % 500}", f"t{n}") for n in range(1000)]
    path = tmp_path / f"all.{kind}"
    path.write_text({"jsonl": jsonl, "csv": csv}[kind](pairs))
    corpus = opened(kind, path)
    made = {split: [*corpus.examples(split)] for split in ("train", "dev", "test")}
    sources = {split: {example.source for example in made[split]} for split in made}
    assert sum(map(len, made.values())) == 1000
    assert not sources["train"] & sources["dev"] and not sources["test"] & sources["train"]
    assert 10 < len(sources["dev"]) < 45 and 10 < len(sources["test"]) < 45


WRONG = {
    "no JSON": ("jsonl", '{"ja": "a", "en": "b"}\n{"ja"\n', "line 2: no JSON"),
    "no object": ("jsonl", "[1]\n", "line 1: JSON, but no object"),
    "no key": (
        "jsonl",
        '{"ja": "a", "de": "b"}\n',
        r"\(split train\): no key 'en' .* ja, de",
    ),
    "a number": ("jsonl", '{"ja": "a", "en": 1}\n', r"line 1 \(split train\): 1 at 'en'"),
    "null": ("jsonl", '{"ja": null, "en": "b"}\n', r"nothing \(null\) at 'ja'"),
    "NUL": ("jsonl", '{"ja": "a\\u0000", "en": "b"}\n', "a NUL character at 'ja'"),
    "half a character": ("jsonl", '{"ja": "\\ud800", "en": "b"}\n', "line 1: JSON that isn't read"),
    "two sources": ("jsonl", '{"ja": ["a", "b"], "en": "b"}\n', "a source is one text"),
    "columns": ("csv", "ja,en\na,b\na,b,c\n", "line 3: 3 columns, but the first line names 2"),
    "no column": ("csv", "ja,de\na,b\n", "no key 'en' .*ja, de"),
    "a name twice": ("csv", "ja,en,ja\na,b,c\n", "names a column twice"),
    "an open quotation": ("csv", 'ja,en\n"a,b\n', "line 2: no CSV"),
    "no Parquet": ("parquet", "text", "after row 0: it can't be read"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_one_line_with_its_place(name, tmp_path):
    kind, text, said = WRONG[name]
    (tmp_path / f"train.{kind}").write_text(text)
    with pytest.raises(InputError, match=said) as refused:
        list(opened(kind, tmp_path).examples("train"))
    assert "\n" not in str(refused.value) and f"train.{kind}" in str(refused.value)
    assert open_files(tmp_path) == []


def test_without_keys_or_files_it_says_so(tmp_path):
    with pytest.raises(InputError, match=r"has no train\.jsonl, dev\.jsonl"):
        opened("jsonl", tmp_path)
    with pytest.raises(InputError, match=r"data\.source_language is empty; with csv:"):
        opened("csv", tmp_path, "", "en")
    with pytest.raises(InputError, match="is no directory"):
        opened("parquet", tmp_path / "nowhere")
