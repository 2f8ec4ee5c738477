import hashlib
import itertools
import os
import pathlib
import subprocess
import sys
from typing import Any

import given_data
import numpy as np
import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from bahdanau_jax.data.batching import Batch, Batcher, decoding_batches, evaluation_batches
from bahdanau_jax.data.shapes import round_up
from bahdanau_jax.data.token_store import TokenStore
from bahdanau_jax.errors import InputError
from bahdanau_jax.special_ids import EOS, PAD

MAX_LENGTH = 12
quick = settings(max_examples=30, deadline=None)


def store_of(lengths):
    """Returns a store of pairs of these lengths, in which every token names its pair."""
    return TokenStore.from_pairs(([4 + n] * s, [4 + n] * t) for n, (s, t) in enumerate(lengths))


# Some pairs are longer than MAX_LENGTH; at least one is not.
stores = st.lists(
    st.tuples(st.integers(0, MAX_LENGTH + 2), st.integers(0, MAX_LENGTH + 2)), max_size=70
).map(lambda lengths: store_of([(3, 4), *lengths]))
common = {
    "seed": st.integers(-3, 2**40),
    "batch_size": st.integers(1, 9),
    "max_length": st.just(MAX_LENGTH),
    "shapes": st.integers(1, 12),
}
tokens = st.just(0) | st.integers(MAX_LENGTH + 1, 150)
by_shape = st.fixed_dictionaries({**common, "batch_tokens": tokens})
pooled = st.fixed_dictionaries({**common, "pool": st.integers(1, 4)})
limits = by_shape | pooled


def epoch(batcher, number=0):
    return range(number * batcher.batches_per_epoch, (number + 1) * batcher.batches_per_epoch)


def assert_rows(filled, store_lengths, pairs):
    """Asserts that the rows are the pairs' ids, each with its end mark, and then filler."""
    expected = np.full_like(filled, PAD)
    for row, pair in zip(expected, pairs, strict=False):
        size = store_lengths[pair] - 1
        row[:size], row[size] = 4 + pair, EOS
    assert filled.dtype == np.int32
    assert (filled == expected).all()


@quick
@given(stores, limits)
def test_every_short_enough_pair_occurs_once_an_epoch(store, limits):
    batcher = Batcher(store, **limits)
    longer = np.maximum(store.source_lengths, store.target_lengths) - 1
    kept = np.flatnonzero(longer <= MAX_LENGTH)
    for number in (0, 1, 7):
        seen = np.concatenate([batcher.indices(k) for k in epoch(batcher, number)])
        assert np.sort(seen).tolist() == kept.tolist()
    assert (batcher.pairs, batcher.left_out) == (len(kept), len(store) - len(kept))


def sides(batch: Batch) -> tuple[np.ndarray, np.ndarray]:
    assert batch.links is None
    return batch.source, batch.target


@quick
@given(stores, limits, st.integers(1, 4))
def test_batches_hold_their_pairs_in_the_shapes_that_were_announced(store, limits, multiple):
    batcher = Batcher(store, **limits, multiple=multiple)
    occurring = set()
    real = positions = 0
    for k in epoch(batcher):
        source, target = sides(batcher.batch(k))
        assert_rows(source, store.source_lengths, batcher.indices(k))
        assert_rows(target, store.target_lengths, batcher.indices(k))
        assert len(source) % multiple == 0
        occurring.add((*source.shape, target.shape[1]))
        real += np.count_nonzero(source) + np.count_nonzero(target)
        positions += source.size + target.size
    if "pool" in limits:  # what occurs differs between epochs
        assert occurring <= set(batcher.shapes)
    else:
        assert set(batcher.shapes) == occurring
        assert batcher.padding_share == pytest.approx(1 - real / positions)
    assert len(batcher.shapes) == len({*batcher.shapes}) <= limits["shapes"]
    sizes = [B * S * T for B, S, T in batcher.shapes]
    assert sizes == sorted(sizes, reverse=True)


@quick
@given(stores, limits)
def test_at_most_one_batch_of_an_epoch_is_ragged(store, limits):
    batcher = Batcher(store, **limits)
    filler = [len(batcher.batch(k).source) - len(batcher.indices(k)) for k in epoch(batcher)]
    assert np.count_nonzero(filler) <= 1


@quick
@given(stores, limits)
def test_rows_keep_to_the_limit(store, limits):
    batcher = Batcher(store, **limits)
    if limits.get("batch_tokens"):
        assert all(B * max(S, T) <= limits["batch_tokens"] for B, S, T in batcher.shapes)
        assert len({(S, T) for _, S, T in batcher.shapes}) == len(batcher.shapes)
    else:
        assert {B for B, _, _ in batcher.shapes} == {limits["batch_size"]}
        assert batcher.batches_per_epoch == -(-batcher.pairs // limits["batch_size"])


@quick
@given(stores, limits, st.data())
def test_batch_k_is_the_same_in_any_order_and_after_any_restart(store, limits, data):
    steady = Batcher(store, **limits)
    ks = data.draw(st.lists(st.integers(0, 3 * steady.batches_per_epoch), min_size=1, max_size=6))
    expected = {k: steady.batch(k) for k in sorted(ks)}
    jumping = Batcher(store, **limits)
    for k in ks:
        fresh = Batcher(store, **limits)
        for batcher in (jumping, fresh):
            for ours, theirs in zip(sides(batcher.batch(k)), sides(expected[k]), strict=True):
                assert np.array_equal(ours, theirs)


@quick
@given(stores, limits, st.integers(1, 9))
def test_the_number_of_devices_moves_no_pair(store, limits, multiple):
    one, several = Batcher(store, **limits), Batcher(store, **limits, multiple=multiple)
    assert one.batches_per_epoch == several.batches_per_epoch
    for k in epoch(one, 1):
        assert np.array_equal(one.indices(k), several.indices(k))
        for ours, theirs in zip(sides(one.batch(k)), sides(several.batch(k)), strict=True):
            assert np.array_equal(ours, theirs[: len(ours)])
            assert (theirs[len(ours) :] == PAD).all()
            assert len(theirs) - len(ours) < multiple


@quick
@given(stores, limits, st.integers(1, 4), st.integers(1, 3))
def test_the_parts_of_the_processes_make_the_whole_batch(store, limits, processes, multiple):
    multiple *= processes
    whole = Batcher(store, **limits, multiple=multiple)
    parts = [
        Batcher(store, **limits, multiple=multiple, process_index=index, process_count=processes)
        for index in range(processes)
    ]
    assert all(part.shapes == whole.shapes for part in parts)
    for k in epoch(whole):
        pieces = [part.batch(k) for part in parts]
        assert len({len(piece.source) for piece in pieces}) == 1
        for side, expected in zip(
            zip(*map(sides, pieces), strict=True), sides(whole.batch(k)), strict=True
        ):
            assert np.array_equal(np.concatenate(side), expected)


def test_epochs_and_seeds_differ_in_order():
    store = store_of([(n % 5, n % 7) for n in range(200)])

    def order(seed, number):
        batcher = Batcher(store, seed=seed, batch_size=8, max_length=9)
        return tuple(np.concatenate([batcher.indices(k) for k in epoch(batcher, number)]).tolist())

    assert len({order(seed, number) for seed in (0, 1, -1) for number in (0, 1, 2)}) == 9


def test_long_and_short_batches_come_in_mixed_order():
    batcher = Batcher(store_of([(1, 1), (9, 9)] * 160), seed=0, batch_size=8, max_length=9)
    widths = [batcher.batch(k).source.shape[1] for k in epoch(batcher)]
    changes = sum(ours != theirs for ours, theirs in itertools.pairwise(widths))
    assert changes > 8


def longer(store, pairs):
    return np.maximum(store.source_lengths[pairs], store.target_lengths[pairs])


@quick
@given(stores, pooled)
def test_a_pool_is_sorted_by_the_longer_side_and_cut(store, limits):
    batcher, pool = Batcher(store, **limits), limits["pool"]
    for number in (0, 3):
        batches = [batcher.indices(k) for k in epoch(batcher, number)]
        for begin in range(0, len(batches), pool):
            read = np.concatenate(batches[begin : begin + pool])
            assert (np.diff(longer(store, read)) >= 0).all()
            # A batch that isn't full is the shortest of the last pool.
            full = [len(pairs) == limits["batch_size"] for pairs in batches[begin : begin + pool]]
            assert all(full[1:])
            assert full[0] or begin + pool >= len(batches)


@quick
@given(stores, pooled)
def test_a_pool_of_one_batch_cuts_the_shuffled_order_and_larger_ones_join_it(store, limits):
    pool, size = limits["pool"], limits["batch_size"]
    plain = Batcher(store, **limits | {"pool": 1})
    order = [set(plain.indices(k).tolist()) for k in epoch(plain, 2)]
    batcher = Batcher(store, **limits)
    batches = [batcher.indices(k).tolist() for k in epoch(batcher, 2)]
    for begin in range(0, len(order), pool):
        read = list(itertools.chain(*batches[begin : begin + pool]))
        assert set(read) == set().union(*order[begin : begin + pool])
        assert len(read) in (pool * size, batcher.pairs - begin * size)


@quick
@given(stores, pooled)
def test_a_batch_of_a_pool_takes_the_cheapest_shape_that_holds_it(store, limits):
    batcher = Batcher(store, **limits)
    for k in epoch(batcher, 1):
        pairs = batcher.indices(k)
        S, T = store.source_lengths[pairs].max(), store.target_lengths[pairs].max()
        holding = [s + t for _, s, t in batcher.shapes if s >= S and t >= T]
        assert sum(batcher.shape(k)[1:]) == min(holding)


def padded_cells(store, **limits):
    batcher = Batcher(store, seed=0, batch_size=16, max_length=50, shapes=12, **limits)
    shapes = [batcher.shape(k) for k in epoch(batcher)]
    tokens = store.source_lengths.sum() + store.target_lengths.sum()
    cells = sum(B * (S + T) for B, S, T in shapes)
    assert batcher.padding_share == pytest.approx(1 - tokens / cells, abs=0.02)
    return cells - tokens


def test_sorting_in_pools_pads_far_less_than_the_plain_order():
    chance = np.random.default_rng(5)
    source = chance.integers(1, 50, 3200)
    target = np.clip(source + chance.integers(-2, 3, 3200), 1, 49)
    store = store_of(zip(source.tolist(), target.tolist(), strict=True))
    plain, few, twenty = (padded_cells(store, pool=pool) for pool in (1, 4, 20))
    assert few < plain * 0.6
    assert twenty < plain * 0.25


def test_the_compiled_shapes_of_pools_follow_no_seed():
    store = store_of([(n % 11, n % 13) for n in range(400)])
    batchers = [Batcher(store, seed=seed, batch_size=8, max_length=20, pool=4) for seed in range(3)]
    assert len({tuple(batcher.shapes) for batcher in batchers}) == 1
    assert len({tuple(batcher.indices(0).tolist()) for batcher in batchers}) == 3


def test_batches_of_pairs_all_alike_are_cut_without_padding():
    batcher = Batcher(store_of([(5, 3)] * 32), seed=0, batch_size=8, max_length=9)
    assert batcher.shapes == [(8, 6, 4)]
    assert batcher.padding_share == 0


def test_the_batch_that_is_not_full_is_a_short_one():
    store = store_of([(1, 1)] * 42 + [(9, 9)] * 40)
    batcher = Batcher(store, seed=0, batch_size=8, max_length=9)
    (ragged,) = [k for k in epoch(batcher) if len(batcher.indices(k)) < 8]
    assert batcher.batch(ragged).source.shape == (8, 2)


def test_rows_by_tokens_suit_the_usual_numbers_of_devices():
    store = store_of([(n, n) for n in range(1, 50) for _ in range(40)])
    batcher = Batcher(store, seed=0, batch_size=1, batch_tokens=1000, max_length=50)
    for rows, S, T in batcher.shapes:
        most = 1000 // max(S, T)
        assert most * 7 / 8 < rows <= most
        assert rows % (8 if most >= 64 else 4 if most >= 32 else 2 if most >= 16 else 1) == 0


def test_there_is_no_batch_before_the_first():
    with pytest.raises(ValueError, match="no batch -1"):
        Batcher(store_of([(1, 1)]), seed=0, batch_size=1, max_length=5).batch(-1)


@pytest.mark.parametrize(
    ("lengths", "limits", "message"),
    [
        ([], {}, "no training pairs; check data.source"),
        ([(6, 2), (1, 9)], {}, "data.max_length is 5.*between 6 and 9 tokens; raise"),
        ([(4, 2)], {"batch_tokens": 4}, "train.batch_tokens is 4.*has 5 tokens.*data.max_length"),
    ],
)
def test_what_cannot_be_batched_is_explained(lengths, limits, message):
    with pytest.raises(InputError, match=message) as caught:
        Batcher(store_of(lengths), seed=0, batch_size=2, max_length=5, **limits)
    assert "\n" not in str(caught.value)


DIGEST = """
import hashlib
from bahdanau_jax.data.batching import Batcher
from bahdanau_jax.data.token_store import TokenStore
store = TokenStore.from_pairs(([5 + n] * (n % 9), [6 + n] * (n % 13)) for n in range(300))
batcher = Batcher(store, seed=3, batch_size=8, max_length=10, shapes=5, pool=POOL)
digest = hashlib.sha256(repr(batcher.shapes).encode())
for k in range(batcher.batches_per_epoch):
    for side in batcher.batch(k)[:2]:
        digest.update(side.tobytes())
print(digest.hexdigest())
"""


@pytest.mark.parametrize("pool", [0, 4])
def test_hash_randomisation_changes_nothing(pool):
    digests = {
        subprocess.run(
            [sys.executable, "-c", DIGEST.replace("POOL", str(pool))],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=pathlib.Path(__file__).parents[2],
            check=True,
            capture_output=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1
    assert len(digests.pop().strip()) == 2 * hashlib.sha256().digest_size


@quick
@given(stores, st.integers(1, 9), st.integers(1, 4))
def test_evaluation_reads_every_pair_once(store, batch_size, multiple):
    batches = list(evaluation_batches(store, batch_size, multiple=multiple))
    seen = np.concatenate([pairs for pairs, _ in batches])
    assert np.sort(seen).tolist() == list(range(len(store)))
    for pairs, batch in batches:
        source, target = sides(batch)
        assert_rows(source, store.source_lengths, pairs)
        assert_rows(target, store.target_lengths, pairs)
        assert all(round_up(width) == width for width in (source.shape[1], target.shape[1]))
    assert len({len(batch.source) for _, batch in batches}) == 1
    assert len(batches[0][1].source) % multiple == 0
    full = {len(pairs) for pairs, _ in batches[:-1]}
    assert full <= {min(batch_size, len(batches[0][1].source))}


@quick
@given(stores, st.integers(1, 9))
def test_decoding_reads_every_source_once_and_the_longest_first(store, batch_size):
    batches = list(decoding_batches(store, batch_size))
    seen = np.concatenate([pairs for pairs, _ in batches])
    assert np.sort(seen).tolist() == list(range(len(store)))
    for pairs, source in batches:
        assert_rows(source, store.source_lengths, pairs)
    widths = [source.shape[1] for _, source in batches]
    assert widths == sorted(widths, reverse=True)


def test_few_sentences_take_few_rows():
    store = store_of([(3, 3)] * 5)
    ((_, batch),) = evaluation_batches(store, 128)
    assert batch.source.shape == (8, 8)


def test_an_empty_store_gives_no_evaluation_batch():
    assert list(evaluation_batches(store_of([]), 4)) == []
    assert list(decoding_batches(store_of([]), 4)) == []


def cmudict_lengths():
    text = (given_data.folder("cmudict-pronalsyl") / "train.tsv").read_text("utf-8")
    for line in text.splitlines():
        word, phones = line.split("\t")
        yield len(word), len(phones.split())


def multi30k_lengths(directory):
    sides = []
    for language in ("en", "de"):
        text = given_data.folder("multi30k") / f"train.{language}"
        sentencepiece.SentencePieceTrainer.Train(
            input=str(text),
            model_prefix=str(directory / language),
            vocab_size=8000,
            model_type="bpe",
            minloglevel=2,
        )
        model = sentencepiece.SentencePieceProcessor(
            model_file=str(directory / f"{language}.model")
        )
        sides.append([len(ids) for ids in model.Encode(text.read_text("utf-8").splitlines())])
    return zip(*sides, strict=True)


@pytest.mark.parametrize("name", ["cmudict-pronalsyl", "multi30k"])
def test_nine_of_ten_positions_hold_a_token(name, tmp_path):
    lengths = cmudict_lengths() if name == "cmudict-pronalsyl" else multi30k_lengths(tmp_path)
    store = TokenStore.from_pairs(([5] * source, [5] * target) for source, target in lengths)
    tried: list[dict[str, Any]] = [{"batch_size": 64}, {"batch_size": 128}, {"batch_tokens": 4096}]
    for limits in tried:
        batcher = Batcher(store, **{"seed": 0, "batch_size": 1, "max_length": 50, **limits})
        assert batcher.padding_share <= 0.1
        assert len(batcher.shapes) <= 12
        assert batcher.left_out == 0
