"""Regexes of the reference twin: derivatives (Brzozowski 1964) tree by tree, and emptiness by a
look at every derivative.

The only memory are results of pure functions, keyed by their whole arguments. Imports ``llgx.ir``
and nothing else of the package.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Final

from llgx.ir import (
    EMPTY,
    EPSILON,
    Alternation,
    ByteSet,
    Complement,
    Concat,
    Intersection,
    Literal,
    Regex,
    Remainder,
    Repeat,
    Substring,
)
from tests.remainders import BYTES, derive_remainder, remainder_is_nullable
from tests.substrings import Onward, derive_substring

__all__ = [
    "EVERYTHING",
    "Residual",
    "byte_classes",
    "can_continue",
    "derivative",
    "forget",
    "is_empty",
    "is_within",
    "matches",
    "may_be_empty",
    "nonempty",
    "normalise",
    "nullable",
    "residual_of",
]

EVERYTHING: Final = Complement(EMPTY)


# --------------------------------------------------------------------------------------------------
# Regexes: constructors that keep trees in a normal form, so that a regex has finitely many
# derivatives (Brzozowski: similarity under associativity, commutativity and idempotence suffices).


@functools.cache
def _order(regex: Regex) -> str:
    return repr(regex)


def _concat(items: Iterable[Regex]) -> Regex:
    flat: list[Regex] = []
    for item in items:
        if item == EMPTY:
            return EMPTY
        if isinstance(item, Concat):
            flat.extend(item.items)
        elif item != EPSILON:
            flat.append(item)
    if len(flat) == 1:
        return flat[0]
    return Concat(tuple(flat)) if flat else EPSILON


def _alternation(items: Iterable[Regex]) -> Regex:
    flat: set[Regex] = set()
    byte_set = 0
    for item in items:
        for part in item.items if isinstance(item, Alternation) else (item,):
            if isinstance(part, ByteSet):
                byte_set |= part.mask
            else:
                flat.add(part)
    if EVERYTHING in flat:
        return EVERYTHING
    if byte_set:
        flat.add(ByteSet(byte_set))
    if len(flat) == 1:
        return flat.pop()
    return Alternation(tuple(sorted(flat, key=_order)))


def _intersection(items: Iterable[Regex]) -> Regex:
    flat: set[Regex] = set()
    for item in items:
        flat.update(item.items if isinstance(item, Intersection) else (item,))
    flat.discard(EVERYTHING)
    if EMPTY in flat:
        return EMPTY
    if not flat:
        return EVERYTHING
    if len(flat) == 1:
        return flat.pop()
    return Intersection(tuple(sorted(flat, key=_order)))


def _complement(item: Regex) -> Regex:
    return item.item if isinstance(item, Complement) else Complement(item)


def _repeat(item: Regex, low: int, high: int | None) -> Regex:
    if high is not None and high < low:
        return EMPTY
    if high == 0 or item == EPSILON:
        return EPSILON
    if item == EMPTY:
        return EPSILON if low == 0 else EMPTY
    if low == 1 and high == 1:
        return item
    return Repeat(item, 0 if nullable(item) else low, high)


@functools.cache
def normalise(regex: Regex) -> Regex:
    """The same language in the normal form that :func:`derivative` keeps."""
    if isinstance(regex, (Literal, Remainder, Substring, Onward)):
        return regex
    if isinstance(regex, ByteSet):
        return regex if regex.mask else EMPTY
    if isinstance(regex, Concat):
        return _concat(map(normalise, regex.items))
    if isinstance(regex, Alternation):
        return _alternation(map(normalise, regex.items))
    if isinstance(regex, Intersection):
        return _intersection(map(normalise, regex.items))
    if isinstance(regex, Complement):
        return _complement(normalise(regex.item))
    return _repeat(normalise(regex.item), regex.low, regex.high)


@functools.cache
def nullable(regex: Regex) -> bool:
    """Whether ``regex`` matches the empty string."""
    if isinstance(regex, Literal):
        return not regex.data
    if isinstance(regex, ByteSet):
        return False
    if isinstance(regex, (Concat, Intersection)):
        return all(map(nullable, regex.items))
    if isinstance(regex, Alternation):
        return any(map(nullable, regex.items))
    if isinstance(regex, Complement):
        return not nullable(regex.item)
    if isinstance(regex, Remainder):
        return remainder_is_nullable(regex)
    if isinstance(regex, (Substring, Onward)):
        return True
    return regex.low == 0 or nullable(regex.item)


@functools.cache
def derivative(regex: Regex, byte: int) -> Regex:
    """What may follow ``byte`` in the texts of a normalised ``regex`` that begin with it."""
    if isinstance(regex, Literal):
        return Literal(regex.data[1:]) if regex.data[:1] == bytes((byte,)) else EMPTY
    if isinstance(regex, ByteSet):
        return EPSILON if regex.mask >> byte & 1 else EMPTY
    if isinstance(regex, Alternation):
        return _alternation(derivative(item, byte) for item in regex.items)
    if isinstance(regex, Intersection):
        return _intersection(derivative(item, byte) for item in regex.items)
    if isinstance(regex, Complement):
        return _complement(derivative(regex.item, byte))
    if isinstance(regex, Concat):
        first, rest = regex.items[0], _concat(regex.items[1:])
        here = _concat((derivative(first, byte), rest))
        return _alternation((here, derivative(rest, byte))) if nullable(first) else here
    if isinstance(regex, Remainder):
        after = derive_remainder(regex, byte)
        return EMPTY if after is None else after
    if isinstance(regex, (Substring, Onward)):
        ways = derive_substring(regex, byte)
        return _alternation(_concat((Literal(rest), onward)) for rest, onward in ways)
    # Repeat. A nullable item has low == 0 by normal form: empty turns may as well come last, so the
    # first turn is the one that takes the byte.
    high = None if regex.high is None else regex.high - 1
    rest = _repeat(regex.item, max(regex.low - 1, 0), high)
    return _concat((derivative(regex.item, byte), rest))


def _byte_sets(regex: Regex) -> Iterable[int]:
    """Every set of bytes, as a bit mask, that ``regex`` tells apart from the others."""
    if isinstance(regex, Literal):
        for byte in regex.data:
            yield 1 << byte
    elif isinstance(regex, ByteSet):
        yield regex.mask
    elif isinstance(regex, Remainder):
        for byte in BYTES:
            yield 1 << byte
    elif isinstance(regex, (Substring, Onward)):
        for byte in set(b"".join(regex.pieces)):
            yield 1 << byte
    elif isinstance(regex, (Repeat, Complement)):
        yield from _byte_sets(regex.item)
    else:
        for item in regex.items:
            yield from _byte_sets(item)


def byte_classes(regexes: Iterable[Regex]) -> list[int]:
    """For each byte the smallest byte that no derivative of ``regexes`` tells apart from it."""
    masks = sorted({mask for regex in regexes for mask in _byte_sets(regex)})
    first: dict[tuple[int, ...], int] = {}
    return [first.setdefault(tuple(m >> b & 1 for m in masks), b) for b in range(256)]


def may_be_empty(regex: Regex) -> bool:
    """Whether ``regex`` holds what may match nothing though no part of it is ``EMPTY``."""
    if isinstance(regex, (Literal, ByteSet, Substring, Onward)):
        return False
    if isinstance(regex, (Complement, Intersection, Remainder)):
        return True
    if isinstance(regex, Repeat):
        return may_be_empty(regex.item)
    return any(map(may_be_empty, regex.items))


@functools.cache
def is_empty(regex: Regex) -> bool:
    """Whether a normalised ``regex`` matches nothing at all: exact."""
    if not may_be_empty(regex):
        return regex == EMPTY  # the constructors let EMPTY survive nowhere inside such a tree
    alphabet = sorted(set(byte_classes((regex,))))
    seen = {regex}
    waiting = [regex]
    while waiting:
        residual = waiting.pop()
        if nullable(residual):
            return False
        for byte in alphabet:
            after = derivative(residual, byte)
            if after not in seen:
                seen.add(after)
                waiting.append(after)
    return True


@functools.cache
def can_continue(regex: Regex) -> bool:
    """Whether a normalised ``regex`` matches a text of at least one byte."""
    alphabet = sorted(set(byte_classes((regex,))))
    return any(not is_empty(derivative(regex, byte)) for byte in alphabet)


class Residual:
    """A normalised regex and what has been asked of it: what is left of a terminal.

    Compared by identity, so that a set of residuals costs no walk over their trees; equal regexes
    have one residual, :func:`residual_of` sees to that.
    """

    __slots__ = ("_after", "_can_continue", "nullable", "regex")

    def __init__(self, regex: Regex) -> None:
        self.regex = regex
        self.nullable = nullable(regex)
        self._after: dict[int, Residual | None] = {}
        self._can_continue: bool | None = None

    def after(self, byte: int) -> Residual | None:
        """What is left after ``byte``, None where that is nothing."""
        if byte not in self._after:
            regex = derivative(self.regex, byte)
            self._after[byte] = None if is_empty(regex) else residual_of(regex)
        return self._after[byte]

    def can_continue(self) -> bool:
        """Whether a text of at least one byte is left."""
        if self._can_continue is None:
            self._can_continue = can_continue(self.regex)
        return self._can_continue


@functools.cache
def residual_of(regex: Regex) -> Residual:
    """The residual of a normalised ``regex``."""
    return Residual(regex)


def is_within(regex: Regex, texts: frozenset[bytes]) -> bool:
    """Whether a normalised ``regex`` matches nothing but some of ``texts``."""
    return is_empty(_intersection((regex, Complement(_alternation(map(Literal, texts))))))


def nonempty(regex: Regex) -> Regex:
    """``regex`` without the empty string."""
    return _intersection((regex, Complement(EPSILON))) if nullable(regex) else regex


def matches(regex: Regex, text: bytes) -> bool:
    """Whether ``regex`` matches the whole of ``text``."""
    residual = normalise(regex)
    for byte in text:
        residual = derivative(residual, byte)
    return nullable(residual)


def forget() -> None:
    """Empty the memories of the functions above, for runs over very many regexes."""
    memories = (_order, normalise, nullable, derivative, is_empty, can_continue, residual_of)
    for function in memories:
        function.cache_clear()
