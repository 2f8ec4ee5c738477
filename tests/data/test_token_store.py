import concurrent.futures
import tracemalloc

import numpy as np
import pytest

from bahdanau_jax.data import store_files, token_store
from bahdanau_jax.data.token_store import StoreError, TokenStore
from bahdanau_jax.special_ids import EOS, PAD

PAIRS = [([5, 6, 7], [8]), ([], [9, 70_000]), ([10], []), ([11, 12], [13, 14, 15])]
SIZES = (1000, 100_000)  # of the vocabularies
FILES = ["source_ids", "source_offsets", "target_ids", "target_offsets"]


def assert_holds(store, pairs):
    assert len(store) == len(pairs)
    numbers = np.arange(len(pairs))
    for side, fill, lengths in (
        (0, store.sources, store.source_lengths),
        (1, store.targets, store.target_lengths),
    ):
        expected = [[*pair[side], EOS] for pair in pairs]
        assert lengths.dtype == np.int32
        assert lengths.tolist() == [len(ids) for ids in expected]
        width = max(map(len, expected), default=1)
        filled = fill(numbers, len(pairs), width)
        assert filled.dtype == np.int32
        assert filled.tolist() == [ids + [PAD] * (width - len(ids)) for ids in expected]


def test_what_was_built_is_what_is_read(tmp_path):
    assert_holds(token_store.build(tmp_path / "store", iter(PAIRS), SIZES), PAIRS)
    assert_holds(token_store.open(tmp_path / "store", SIZES), PAIRS)


def test_a_store_in_memory_holds_the_same():
    assert_holds(TokenStore.from_pairs(PAIRS), PAIRS)


@pytest.mark.parametrize("pairs", [[], [([], [])]])
def test_a_store_without_any_token(tmp_path, pairs):
    token_store.build(tmp_path / "store", pairs, SIZES)
    assert_holds(token_store.open(tmp_path / "store", SIZES), pairs)
    assert_holds(TokenStore.from_pairs(pairs), pairs)


def test_many_chunks_make_the_same_files_as_one(tmp_path, monkeypatch):
    pairs = [([4 + i] * (i % 7), [5 + i] * (i % 5)) for i in range(100)]
    token_store.build(tmp_path / "one", pairs, SIZES)
    monkeypatch.setattr(store_files, "_CHUNK", 3)
    token_store.build(tmp_path / "many", pairs, SIZES)
    for name in FILES:
        one, many = (tmp_path / kind / f"{name}.npy" for kind in ("one", "many"))
        assert one.read_bytes() == many.read_bytes()


def test_rows_come_in_the_order_asked_for_and_the_rest_is_padding():
    filled = TokenStore.from_pairs(PAIRS).sources(np.array([3, 0, 3]), 4, 5)
    assert filled.tolist() == [
        [11, 12, EOS, PAD, PAD],
        [5, 6, 7, EOS, PAD],
        [11, 12, EOS, PAD, PAD],
        [PAD] * 5,
    ]


@pytest.mark.parametrize(("rows", "width"), [(1, 4), (2, 3)])
def test_pairs_that_do_not_fit_are_refused(rows, width):
    with pytest.raises(ValueError, match="don't fit"):
        TokenStore.from_pairs(PAIRS).sources(np.array([0, 1]), rows, width)


def test_building_needs_memory_for_a_chunk_and_no_more(tmp_path, monkeypatch):
    monkeypatch.setattr(store_files, "_CHUNK", 100)
    token_store.build(tmp_path / "first", [([4], [4])], SIZES)  # what is imported on first use
    tracemalloc.start()
    token_store.build(tmp_path / "store", (([4] * 30, [5] * 30) for _ in range(20_000)), SIZES)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # A chunk, and the lengths of the store that is opened; the ids alone would be 4.8 MB.
    assert peak < 1_500_000


def test_ids_are_left_on_disk(tmp_path):
    store = token_store.build(tmp_path / "store", PAIRS, SIZES)
    assert isinstance(store._source_ids.base, np.memmap)


def test_the_padding_id_in_a_sentence_is_refused(tmp_path):
    with pytest.raises(ValueError, match="padding id"):
        token_store.build(tmp_path / "store", [([5, PAD], [6])], SIZES)
    assert list(tmp_path.iterdir()) == []


def test_where_nothing_lies_nothing_is_opened(tmp_path):
    with pytest.raises(StoreError, match="No such file"):
        token_store.open(tmp_path / "store", SIZES)


def truncate(path):
    path.write_bytes(path.read_bytes()[:-1])


def cut_header(path):
    path.write_bytes(path.read_bytes()[:40])


def empty(path):
    path.write_bytes(b"")


def lengthen(path):
    path.write_bytes(path.read_bytes() + b"\0")


def fill_with_text(path):
    path.write_text("nothing that NumPy wrote")


def change_type(path):
    np.save(path, np.load(path).astype(np.float64))


def drop_last(path):
    np.save(path, np.load(path)[:-1])


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    "damage",
    [
        truncate,
        cut_header,
        empty,
        lengthen,
        fill_with_text,
        change_type,
        drop_last,
        lambda path: path.unlink(),
    ],
)
def test_damage_is_recognised_and_repaired_by_building_again(tmp_path, name, damage):
    token_store.build(tmp_path / "store", PAIRS, SIZES)
    damage(tmp_path / "store" / f"{name}.npy")
    with pytest.raises(StoreError):
        token_store.open(tmp_path / "store", SIZES)
    assert_holds(token_store.build(tmp_path / "store", PAIRS, SIZES), PAIRS)
    assert_holds(token_store.open(tmp_path / "store", SIZES), PAIRS)
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


@pytest.mark.parametrize(
    ("offsets", "message"),
    [([0, 3, 2, 4, 6], "backwards"), ([1, 3, 3, 4, 6], "disagree"), ([0, 3, 6], "differ")],
)
def test_offsets_that_make_no_sense_are_recognised(tmp_path, offsets, message):
    token_store.build(tmp_path / "store", PAIRS, SIZES)
    np.save(tmp_path / "store" / "source_offsets.npy", np.array(offsets, np.int64))
    store_files.write_record(tmp_path / "store", "store")
    with pytest.raises(StoreError, match=message):
        token_store.open(tmp_path / "store", SIZES)


def test_a_store_is_not_seen_before_it_is_complete(tmp_path):
    def pairs():
        yield PAIRS[0]
        with pytest.raises(StoreError):
            token_store.open(tmp_path / "store", SIZES)
        yield PAIRS[1]

    assert_holds(token_store.build(tmp_path / "store", pairs(), SIZES), PAIRS[:2])


def test_a_build_that_fails_leaves_nothing_behind(tmp_path):
    def pairs():
        yield PAIRS[0]
        raise RuntimeError("the source broke off")

    with pytest.raises(RuntimeError, match="broke off"):
        token_store.build(tmp_path / "store", pairs(), SIZES)
    assert list(tmp_path.iterdir()) == []


def test_the_first_of_two_builds_at_once_is_kept(tmp_path):
    inodes = []

    def pairs():
        yield PAIRS[0]
        token_store.build(tmp_path / "store", PAIRS, SIZES)
        inodes.append((tmp_path / "store").stat().st_ino)
        yield from PAIRS[1:]

    assert_holds(token_store.build(tmp_path / "store", pairs(), SIZES), PAIRS)
    assert (tmp_path / "store").stat().st_ino == inodes[0]
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_a_store_that_is_moved_away_while_it_is_opened_is_a_missing_one(tmp_path, monkeypatch):
    store, read_array = tmp_path / "store", store_files._read_array
    token_store.build(store, PAIRS, SIZES)

    def read_then_lose(*arguments):
        array = read_array(*arguments)
        if store.exists():
            store.rename(tmp_path / "elsewhere")
        return array

    monkeypatch.setattr(store_files, "_read_array", read_then_lose)
    with pytest.raises(StoreError, match="No such file"):
        token_store.open(store, SIZES)


def test_many_builds_at_once_over_a_damaged_store_all_end_with_a_good_one(tmp_path):
    token_store.build(tmp_path / "store", PAIRS, SIZES)
    truncate(tmp_path / "store" / "target_ids.npy")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        stores = list(
            pool.map(lambda _: token_store.build(tmp_path / "store", PAIRS, SIZES), range(16))
        )
    for store in stores:
        assert_holds(store, PAIRS)
    assert_holds(token_store.open(tmp_path / "store", SIZES), PAIRS)
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
