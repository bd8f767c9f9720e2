"""``llgx.bitmask``: the layout of masks, and writing -inf where they forbid."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llgx.bitmask import allocate_token_bitmask, apply_token_bitmask_inplace


def mask_of(rows: list[set[int]], bits: int) -> np.ndarray[Any, np.dtype[np.int32]]:
    mask = np.zeros((len(rows), (bits + 31) // 32), dtype=np.uint32)
    for row, tokens in enumerate(rows):
        for token in tokens:
            mask[row, token // 32] |= np.uint32(1 << (token % 32))
    return mask.view(np.int32)


@pytest.mark.parametrize(
    ("batch", "size", "words"), [(1, 1, 1), (1, 32, 1), (3, 33, 2), (0, 64, 2), (2, 262144, 8192)]
)
def test_new_masks_allow_everything(batch: int, size: int, words: int) -> None:
    mask = allocate_token_bitmask(batch, size)
    assert mask.dtype == np.int32
    assert mask.shape == (batch, words)
    assert (mask == -1).all()


@pytest.mark.parametrize(("batch", "size"), [(-1, 10), (1, 0), (1, -5)])
def test_masks_of_impossible_sizes(batch: int, size: int) -> None:
    with pytest.raises(ValueError, match="no mask"):
        allocate_token_bitmask(batch, size)


def test_sizes_are_integers() -> None:
    with pytest.raises(TypeError):
        allocate_token_bitmask(1.5, 10)  # type: ignore[arg-type]


@given(st.data())
def test_forbidden_logits_and_no_others_become_minus_infinity(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 100), "logits")
    bits = data.draw(st.integers(1, count), "bits of the mask")
    batch = data.draw(st.integers(0, 3), "batch")
    tokens = st.sets(st.integers(0, bits - 1)) | st.just(set(range(bits)))
    rows = data.draw(st.lists(tokens, min_size=batch, max_size=batch), "allowed")
    dtype = data.draw(st.sampled_from(["float16", "float32", "float64"]), "type")
    step = data.draw(st.integers(1, 3), "stride")
    size = data.draw(st.none() | st.integers(0, bits), "vocabulary size")
    storage = np.arange(batch * count * step, dtype=dtype).reshape(batch, count * step)
    before = storage.copy()
    logits = storage[:, ::step][:, :count]
    apply_token_bitmask_inplace(logits, mask_of(rows, bits), vocabulary_size=size)
    for row in range(batch):
        for token in range(count):
            allowed = token in rows[row] and (size is None or token < size)
            expected = before[row, token * step] if allowed else -np.inf
            assert storage[row, token * step] == expected
    untouched = np.ones(storage.shape, dtype=bool)
    untouched[:, ::step] = False
    assert np.array_equal(storage[untouched], before[untouched])


def test_one_row_without_a_batch() -> None:
    for mask in (mask_of([{0, 2}], 3), mask_of([{0, 2}], 3)[0]):
        logits = np.ones(3, dtype=np.float32)
        apply_token_bitmask_inplace(logits, mask)
        assert logits.tolist() == [1, -np.inf, 1]


def test_field_of_records_and_reversed_views() -> None:
    records = np.zeros(40, dtype=[("id", "i4"), ("logit", "f4"), ("p", "f4")])
    apply_token_bitmask_inplace(records["logit"], mask_of([{33}], 40))
    assert np.flatnonzero(records["logit"] == 0).tolist() == [33]
    assert not records["id"].any()
    assert not records["p"].any()
    backwards = np.zeros(40, dtype=np.float32)
    apply_token_bitmask_inplace(backwards[::-1], mask_of([{33}], 40))
    assert np.flatnonzero(backwards == 0).tolist() == [6]
    packed = np.zeros(40, dtype=np.dtype([("byte", "u1"), ("logit", "f4")]))
    apply_token_bitmask_inplace(packed["logit"], mask_of([{33}], 40))
    assert np.flatnonzero(packed["logit"] == 0).tolist() == [33]
    assert not packed["byte"].any()


def test_masks_of_any_layout() -> None:
    wide = np.zeros((2, 8), dtype=np.int32)
    wide[:, 2] = 1
    logits = np.ones((2, 100), dtype=np.float32)
    apply_token_bitmask_inplace(logits, wide[:, ::2])
    assert np.argwhere(logits == 1).tolist() == [[0, 32], [1, 32]]


def test_logits_beyond_the_mask_are_forbidden() -> None:
    logits = np.ones(100, dtype=np.float32)
    apply_token_bitmask_inplace(logits, allocate_token_bitmask(1, 40))
    assert np.flatnonzero(logits == 1).tolist() == list(range(64))
    apply_token_bitmask_inplace(logits, allocate_token_bitmask(1, 40), vocabulary_size=40)
    assert np.flatnonzero(logits == 1).tolist() == list(range(40))


ROW = np.zeros(64, dtype=np.float32)
MASK = np.zeros((1, 2), dtype=np.int32)


@pytest.mark.parametrize(
    ("logits", "mask"),
    [
        ([0.0] * 64, MASK),
        (ROW.astype(np.int32), MASK),
        (ROW.astype(np.complex64), MASK),
        (ROW.astype(">f4" if np.little_endian else "<f4"), MASK),
        (ROW, MASK.astype(np.int64)),
        (ROW, MASK.view(np.uint32)),
        (ROW, MASK.tolist()),
        (ROW, None),
    ],
)
def test_other_types_are_refused(logits: Any, mask: Any) -> None:
    with pytest.raises(TypeError):
        apply_token_bitmask_inplace(logits, mask)


@pytest.mark.parametrize(
    ("logits", "mask"),
    [
        (ROW.reshape(1, 1, 64), MASK),
        (np.zeros((), dtype=np.float32), MASK),
        (ROW, MASK.reshape(1, 1, 2)),
        (ROW, np.zeros((2, 2), dtype=np.int32)),
        (np.zeros((2, 64), dtype=np.float32), MASK),
        (ROW, np.zeros((1, 3), dtype=np.int32)),
    ],
)
def test_shapes_that_do_not_fit_are_refused(logits: Any, mask: Any) -> None:
    with pytest.raises(ValueError, match=r"shape|rows|words"):
        apply_token_bitmask_inplace(logits, mask)


def test_read_only_logits_are_refused() -> None:
    logits = np.zeros(64, dtype=np.float32)
    logits.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        apply_token_bitmask_inplace(logits, MASK)


@pytest.mark.parametrize("size", [-1, 65])
def test_vocabulary_size_is_within_the_mask(size: int) -> None:
    with pytest.raises(ValueError, match="vocabulary_size"):
        apply_token_bitmask_inplace(ROW.copy(), MASK, vocabulary_size=size)
