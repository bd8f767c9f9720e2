"""Sets of code points.

A :data:`CharSet` is a tuple of inclusive ranges, sorted, disjoint and not adjacent, so that equal
sets are equal tuples. The surrogates U+D800 to U+DFFF may be members: nothing encodes them, and
they vanish when a set is turned into UTF-8. Operations are linear in the number of ranges where
they do not say otherwise (after sorting, in :func:`make`).
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable
from typing import Final

__all__ = [
    "ALL",
    "MAX_CODE_POINT",
    "NONE",
    "CharSet",
    "clip",
    "contains",
    "difference",
    "intersect",
    "make",
    "minterms",
    "negate",
    "symmetric_difference",
    "union",
]

CharSet = tuple[tuple[int, int], ...]

MAX_CODE_POINT: Final = 0x10FFFF
ALL: Final[CharSet] = ((0, MAX_CODE_POINT),)
NONE: Final[CharSet] = ()


def make(ranges: Iterable[tuple[int, int]]) -> CharSet:
    """The set of all code points in ``ranges``, which may overlap and come in any order."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            if high > merged[-1][1]:
                merged[-1] = (merged[-1][0], high)
        else:
            merged.append((low, high))
    return tuple(merged)


def union(*sets: CharSet) -> CharSet:
    """Members of any of ``sets``."""
    if len(sets) == 1:
        return sets[0]
    return make(item for members in sets for item in members)


def negate(members: CharSet, top: int = MAX_CODE_POINT) -> CharSet:
    """The numbers from 0 to ``top`` that are not in ``members``."""
    result = []
    begin = 0
    for low, high in members:
        if low > begin:
            result.append((begin, low - 1))
        begin = high + 1
    if begin <= top:
        result.append((begin, top))
    return tuple(result)


def intersect(left: CharSet, right: CharSet) -> CharSet:
    """Members of both."""
    result = []
    i = j = 0
    while i < len(left) and j < len(right):
        left_low, left_high = left[i]
        right_low, right_high = right[j]
        low = left_low if left_low > right_low else right_low
        if left_high < right_high:
            high = left_high
            i += 1
        else:
            high = right_high
            j += 1
        if low <= high:
            result.append((low, high))
    return tuple(result)


def clip(members: CharSet, low: int, high: int) -> CharSet:
    """Members from ``low`` to ``high``. Logarithmic, plus the copy."""
    begin = bisect.bisect_left(members, low, key=_last)
    end = bisect.bisect_right(members, high, key=_first)
    if begin >= end:
        return NONE
    inside = list(members[begin:end])
    inside[0] = (max(inside[0][0], low), inside[0][1])
    inside[-1] = (inside[-1][0], min(inside[-1][1], high))
    return tuple(inside)


def _first(item: tuple[int, int]) -> int:
    return item[0]


def _last(item: tuple[int, int]) -> int:
    return item[1]


def difference(left: CharSet, right: CharSet) -> CharSet:
    """Members of ``left`` that are not in ``right``."""
    return intersect(left, negate(right))


def symmetric_difference(left: CharSet, right: CharSet) -> CharSet:
    """Members of just one of the two."""
    return union(difference(left, right), difference(right, left))


def contains(members: CharSet, point: int) -> bool:
    """Whether ``point`` is a member. Logarithmic."""
    index = bisect.bisect_right(members, point, key=_first)
    return index > 0 and point <= members[index - 1][1]


def minterms(sets: Iterable[CharSet]) -> list[CharSet]:
    """The coarsest partition of all code points of which every set of ``sets`` is a union.

    Ordered by least member. O(n log n + n k) for n ranges in k sets.
    """
    events: list[tuple[int, int]] = []
    for index, members in enumerate(sets):
        bit = 1 << index
        for low, high in members:
            events += ((low, bit), (high + 1, bit))
    events.sort()
    parts: dict[int, list[tuple[int, int]]] = {}
    begin = signature = 0
    for point, bit in events:
        if point > begin:
            parts.setdefault(signature, []).append((begin, point - 1))
            begin = point
        signature ^= bit
    if begin <= MAX_CODE_POINT:
        parts.setdefault(signature, []).append((begin, MAX_CODE_POINT))
    return [tuple(part) for part in parts.values()]
