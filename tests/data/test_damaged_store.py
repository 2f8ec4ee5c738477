"""A store that isn't what was written is never read, and nothing of one stays behind."""

import multiprocessing
import os
import shutil
import signal
import threading
import time

import numpy as np
import pytest

from bahdanau_jax.data import store_files, token_store
from bahdanau_jax.data.token_store import StoreError
from bahdanau_jax.errors import RunError

SIZES = (100, 90_000)
PAIRS = [([5, 6, 7], [8]), ([], [9, 70_000]), ([10], []), ([11, 12], [13, 14, 15])]
MANY = [([5 + i % 90] * 7, [6 + i % 80] * 5) for i in range(2000)]  # files of several pages
FILES = [*(f"{name}.npy" for name in store_files.FILES), store_files.RECORD]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Two stores, of few and of many pairs, which nobody changes."""
    directory = tmp_path_factory.mktemp("made")
    token_store.build(directory / "few", PAIRS, SIZES)
    token_store.build(directory / "many", MANY, SIZES)
    return directory


@pytest.mark.parametrize("name", FILES)
def test_every_byte_of_every_file_counts(made, tmp_path, name):
    shutil.copytree(made / "few", tmp_path / "few")
    token_store.open(tmp_path / "few", SIZES)
    whole = (tmp_path / "few" / name).read_bytes()
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 8
        (tmp_path / "few" / name).write_bytes(damaged)
        with pytest.raises(StoreError):
            token_store.open(tmp_path / "few", SIZES)


def exchange_words(content):
    content[4096:4104], content[4200:4208] = content[4200:4208], content[4096:4104]


def exchange_pages(content):
    content[4096:8192], content[8192:12288] = content[8192:12288], content[4096:8192]


def shift(content):
    content[4096:8192] = content[4104:8200]


def zero_a_page(content):
    content[4096:8192] = bytes(4096)


def change_the_last_byte(content):
    content[-1] ^= 1


def change_one_bit_of_two_words(content):
    """One up and one down, which a plain sum doesn't see."""
    words = np.frombuffer(content, "<u4")
    low = 128 // 4 + np.flatnonzero(words[128 // 4 : 1024] & 1 == 0)[0]
    high = 128 // 4 + np.flatnonzero(words[128 // 4 : 1024] & 1)[0]
    high += (high - low) % 2  # the same half of a word of 64 bits
    del words
    content[4 * low] ^= 1
    content[4 * high] ^= 1


@pytest.mark.parametrize(
    "damage",
    [
        exchange_words,
        exchange_pages,
        shift,
        zero_a_page,
        change_the_last_byte,
        change_one_bit_of_two_words,
    ],
)
def test_a_change_that_keeps_the_size_is_noticed(made, tmp_path, damage):
    shutil.copytree(made / "many", tmp_path / "many")
    path = tmp_path / "many" / "source_ids.npy"
    content = bytearray(path.read_bytes())
    damage(content)
    assert len(content) == path.stat().st_size and content != path.read_bytes()
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"source_ids\.npy isn't what was written"):
        token_store.open(tmp_path / "many", SIZES)


def test_a_whole_store_under_another_name_is_not_that_store(made, tmp_path):
    shutil.copytree(made / "many", tmp_path / "few")
    with pytest.raises(StoreError, match="another store"):
        token_store.open(tmp_path / "few", SIZES)


@pytest.mark.parametrize("record", ["", "[]", "{}", "[" * 99_999, '{"name": "few"}', "\udc80"])
def test_a_record_that_is_none_is_recognised(made, tmp_path, record):
    shutil.copytree(made / "few", tmp_path / "few")
    (tmp_path / "few" / store_files.RECORD).write_bytes(record.encode(errors="surrogateescape"))
    with pytest.raises(StoreError):
        token_store.open(tmp_path / "few", SIZES)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("source_ids", 0),  # padding
        ("source_ids", 2),  # the end mark
        ("source_ids", SIZES[0]),
        ("target_ids", SIZES[1]),
        ("target_ids", 2**32 - 1),
        ("source_offsets", 10**12),
        ("target_offsets", -(10**12)),
    ],
)
def test_ids_that_leave_the_vocabulary_while_a_run_goes_on_end_it_and_the_next_makes_them_anew(
    made, tmp_path, name, value
):
    shutil.copytree(made / "few", tmp_path / "few")
    store = token_store.open(tmp_path / "few", SIZES)
    every = np.arange(len(PAIRS))

    def read():
        return store.sources(every, 4, 5).tolist(), store.targets(every, 4, 5).tolist()

    whole = read()
    file = np.load(tmp_path / "few" / f"{name}.npy", mmap_mode="r+")
    file[1:3] = value
    file.flush()
    with pytest.raises(RunError, match="give the same command again") as caught:
        read()
    assert "\n" not in str(caught.value)
    with pytest.raises(StoreError):
        token_store.open(tmp_path / "few", SIZES)
    store = token_store.build(tmp_path / "few", PAIRS, SIZES)
    assert read() == whole


def test_a_store_whose_ids_were_written_for_a_larger_vocabulary_ends_once_and_not_again(tmp_path):
    token_store.build(tmp_path / "few", PAIRS, SIZES)
    store = token_store.open(tmp_path / "few", (8, 90_000))  # its checksums fit
    with pytest.raises(RunError):
        store.sources(np.arange(4), 4, 5)
    with pytest.raises(StoreError):
        token_store.open(tmp_path / "few", SIZES)


def _build_for_ever(directory, begun):
    def pairs():
        for _ in range(store_files._CHUNK):
            yield PAIRS[0]
        begun.set()
        time.sleep(600)
        yield PAIRS[0]

    token_store.build(directory, pairs(), SIZES)


def test_what_a_killed_builder_left_is_removed_by_the_next_start_and_nothing_else(made, tmp_path):
    stores = tmp_path / "tokens"
    shutil.copytree(made / "few", stores / "few")
    bystanders = [stores / ".hidden", stores / ".few.0123", stores / "few.0123456789abcdef"]
    for path in bystanders:
        path.mkdir()
    there = sorted(stores.iterdir())
    context = multiprocessing.get_context("spawn")
    begun = context.Event()
    builder = context.Process(target=_build_for_ever, args=(stores / "other", begun))
    builder.start()
    assert begun.wait(300)
    (left,) = set(stores.iterdir()) - set(there)
    token_store.remove_unfinished(stores)
    assert left.is_dir()  # its builder lives
    assert builder.pid is not None
    os.kill(builder.pid, signal.SIGKILL)
    builder.join()
    moved = left.with_name(f"{left.name}.damaged")  # killed as it removed what it had replaced
    shutil.copytree(left, moved)
    assert len(list(left.iterdir())) == 4
    token_store.remove_unfinished(stores)
    assert sorted(stores.iterdir()) == there
    token_store.open(stores / "few", SIZES)


def test_builders_and_starts_at_once_leave_one_store(tmp_path):
    stop, stores = threading.Event(), []

    def start():
        while not stop.is_set():
            token_store.remove_unfinished(tmp_path)

    starting = threading.Thread(target=start)
    starting.start()
    try:
        for number in range(20):
            shutil.rmtree(tmp_path / "store", ignore_errors=True)
            stores.append(token_store.build(tmp_path / "store", PAIRS[: 1 + number % 4], SIZES))
    finally:
        stop.set()
        starting.join()
    assert [len(store) for store in stores] == [1 + number % 4 for number in range(20)]
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


@pytest.mark.parametrize("how", ["file", "fifo", "link", "dangling", "directory"])
@pytest.mark.parametrize("where", ["tokens", "tokens/store"])
def test_whatever_lies_in_a_stores_place_is_replaced_and_what_it_leads_to_is_kept(
    tmp_path, how, where
):
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "text").write_text("the user's")
    (tmp_path / where).parent.mkdir(exist_ok=True)
    {
        "file": lambda path: path.write_text("no store"),
        "fifo": os.mkfifo,
        "link": lambda path: path.symlink_to(kept),
        "dangling": lambda path: path.symlink_to(tmp_path / "nowhere"),
        "directory": lambda path: (path / "inside").mkdir(parents=True),
    }[how](tmp_path / where)
    with pytest.raises(StoreError):
        token_store.open(tmp_path / "tokens" / "store", SIZES)
    assert len(token_store.build(tmp_path / "tokens" / "store", PAIRS, SIZES)) == len(PAIRS)
    assert len(token_store.open(tmp_path / "tokens" / "store", SIZES)) == len(PAIRS)
    assert (kept / "text").read_text() == "the user's"
    assert not list((tmp_path / "tokens").glob(".*"))
