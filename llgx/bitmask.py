"""Token bit masks: what a grammar allows next, one bit a token.

A mask is an int32 array of shape ``(batch, ceil(vocabulary_size / 32))``. Token ``t`` is bit
``t % 32`` (least significant first) of word ``t // 32``; a set bit allows it. This is the layout
that constrained decoding engines share, so a mask can go to the kernels of an inference server as
it is. Nothing here knows llama.cpp.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from llgx import _bitmask
from llgx.arguments import check_integer

__all__ = ["allocate_token_bitmask", "apply_token_bitmask_inplace"]

_FLOATS: Final = frozenset(np.dtype(name) for name in ("float16", "float32", "float64"))


def allocate_token_bitmask(batch: int, vocabulary_size: int) -> NDArray[np.int32]:
    """A mask for ``batch`` sequences that allows everything, until a matcher fills it.

    All bits are set, those beyond the vocabulary too: a row that no matcher fills leaves its
    sequence unconstrained. Raises :class:`ValueError` for a negative batch or a vocabulary without
    tokens.
    """
    batch = check_integer(batch, "a batch")
    vocabulary_size = check_integer(vocabulary_size, "the size of a vocabulary")
    if batch < 0 or vocabulary_size < 1:
        raise ValueError(f"no mask for a batch of {batch} over {vocabulary_size} tokens")
    return np.full((batch, (vocabulary_size + 31) // 32), -1, dtype=np.int32)


def apply_token_bitmask_inplace(
    logits: NDArray[Any], mask: NDArray[np.int32], *, vocabulary_size: int | None = None
) -> None:
    """Set the logits of all tokens that ``mask`` does not allow to -inf.

    ``logits`` is float16, float32 or float64, of shape ``(tokens,)`` with a mask of one row, or
    ``(batch, tokens)`` with as many rows as ``mask``; any strides. There may be more logits than
    the mask has bits (models pad their output): those without a bit, and all from
    ``vocabulary_size`` on when it is given, become -inf.

    Raises :class:`TypeError` for other types and :class:`ValueError` for shapes that do not fit,
    for a mask of more words than the logits need and for read-only logits, before anything is
    written. Cost: one pass over the mask, and one store for each token not allowed.
    """
    if not isinstance(logits, np.ndarray):
        raise TypeError(
            f"logits must be a NumPy array, not {type(logits).__name__} "
            "(a CPU tensor of PyTorch shares its memory with tensor.numpy())"
        )
    if logits.dtype not in _FLOATS:
        raise TypeError(f"logits must be float16, float32 or float64, not {logits.dtype}")
    if not isinstance(mask, np.ndarray) or mask.dtype != np.dtype(np.int32):
        found = mask.dtype if isinstance(mask, np.ndarray) else type(mask).__name__
        raise TypeError(f"a mask must be a NumPy array of int32, not {found}")
    if logits.ndim not in (1, 2) or mask.ndim not in (1, 2):
        raise ValueError(
            f"logits of shape {logits.shape} and a mask of shape {mask.shape}: "
            "both must have one or two dimensions"
        )
    if not logits.flags.writeable:
        raise ValueError("logits are read-only")
    # Views only: what is written through them is written to the caller's array.
    rows = logits if logits.ndim == 2 else logits[np.newaxis]
    words = mask if mask.ndim == 2 else mask[np.newaxis]
    if rows.shape[0] != words.shape[0]:
        raise ValueError(f"{rows.shape[0]} rows of logits, but {words.shape[0]} rows of masks")
    count = rows.shape[1]
    if words.shape[1] > (count + 31) // 32:
        raise ValueError(
            f"a mask of {words.shape[1]} words is for more tokens than the {count} logits"
        )
    allowed = min(count, 32 * words.shape[1])
    if vocabulary_size is not None:
        vocabulary_size = check_integer(vocabulary_size, "the size of a vocabulary")
        if not 0 <= vocabulary_size <= allowed:
            raise ValueError(f"vocabulary_size is {vocabulary_size}, not within 0 to {allowed}")
        allowed = vocabulary_size
    _bitmask.apply_rows(rows, np.ascontiguousarray(words), allowed)
