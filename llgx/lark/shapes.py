"""What can be read off a regex without running it: how its matches begin, end, and go on.

Each answer is a bound on the safe side, and says which. Linear in the regex, shared parts counted
once, and bounded.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from llgx import ir

__all__ = ["ALL_BYTES", "Shape", "Shapes"]

ALL_BYTES: Final = (1 << 256) - 1


_PARTS: Final = 50_000  # of one regex


class Shape(NamedTuple):
    """What is known of a regex; sets of bytes are integers, with bit ``b`` for byte ``b``.

    ``nullable`` says whether it matches the empty text, ``void`` that it matches none, ``sure``
    that it matches one. ``may`` are the bytes that a match might begin with, ``must`` those that
    one certainly does; ``onward`` are the bytes that a match goes on with wherever it ends.
    """

    nullable: bool
    may: int
    must: int
    onward: int
    void: bool
    sure: bool


_NOTHING: Final = Shape(False, 0, 0, ALL_BYTES, True, False)
_UNKNOWN: Final = Shape(True, ALL_BYTES, 0, 0, False, False)


class Shapes:
    """The shapes of regexes, each part looked at once."""

    def __init__(self) -> None:
        # By identity, next to the regex, which keeps the identity its own.
        self._known: dict[int, tuple[ir.Regex, Shape]] = {}

    def of(self, regex: ir.Regex) -> Shape:
        """The shape of ``regex``; of one with very many parts nothing is said. Does not recurse."""
        known = self._known
        stack = [regex]
        most = len(known) + _PARTS
        while stack:
            if len(known) > most:
                known[id(regex)] = (regex, _UNKNOWN)
                break
            node = stack[-1]
            if id(node) in known:
                stack.pop()
                continue
            parts = ir.parts_of(node)
            missing = [part for part in parts if id(part) not in known]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            known[id(node)] = (node, _combine(node, [known[id(part)][1] for part in parts]))
        return known[id(regex)][1]


def _combine(node: ir.Regex, parts: list[Shape]) -> Shape:
    if isinstance(node, ir.Literal):
        if not node.data:
            return Shape(True, 0, 0, ALL_BYTES, False, True)
        first = 1 << node.data[0]
        return Shape(False, first, first, 0, False, True)
    if isinstance(node, ir.ByteSet):
        return Shape(False, node.mask, node.mask, 0, False, True) if node.mask else _NOTHING
    if isinstance(node, ir.Alternation):
        nullable = sure = False
        may = must = 0
        onward = ALL_BYTES
        void = True
        for part in parts:
            if not part.void:
                void = False
                nullable = nullable or part.nullable
                sure = sure or part.sure
                may |= part.may
                must |= part.must
                onward &= part.onward
        return _NOTHING if void else Shape(nullable, may, must, onward, False, sure)
    if isinstance(node, ir.Concat):
        return _concat(parts)
    if isinstance(node, ir.Repeat):
        return _repeat(parts[0], node.low, node.high)
    if isinstance(node, ir.Intersection):
        may = ALL_BYTES
        for part in parts:
            may &= part.may
        nullable = all(part.nullable for part in parts)
        return Shape(nullable, may, 0, 0, False, nullable)
    if isinstance(node, ir.Complement):
        return Shape(not parts[0].nullable, ALL_BYTES, 0, 0, False, not parts[0].nullable)
    if isinstance(node, ir.Substring):
        firsts = {piece[0] for piece in node.pieces if piece}
        first = sum(1 << byte for byte in firsts)
        return Shape(True, first, first, 0 if first else ALL_BYTES, False, True)
    return _UNKNOWN


def _concat(parts: list[Shape]) -> Shape:
    if any(part.void for part in parts):
        return _NOTHING
    may = must = 0
    onward = ALL_BYTES
    nullable = sure = True
    for part in reversed(parts):  # in front of what has been put together
        if nullable:
            onward &= part.onward | (must if sure else 0)
        may = part.may | may if part.nullable else part.may
        must = part.must | must if part.nullable else part.must
        nullable = nullable and part.nullable
        sure = sure and part.sure
    return Shape(nullable, may, must if sure else 0, onward, False, sure)


def _repeat(part: Shape, low: int, high: int | None) -> Shape:
    if high == 0 or (part.void and not low):
        return Shape(True, 0, 0, ALL_BYTES, False, True)
    if part.void:
        return _NOTHING
    onward = part.onward | part.must if high is None else part.onward
    return Shape(not low or part.nullable, part.may, part.must, onward, False, part.sure or not low)
