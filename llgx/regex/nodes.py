"""Syntax trees that both dialects parse into.

A node that holds no assertion carries its finished regex in ``regex``, so that a pattern without
assertions is translated while it is parsed. Nodes with one have ``regex`` None and wait for
:mod:`llgx.regex.translate`. ``nullable`` says whether the node can match without consuming a
character (its assertions permitting); ``depth`` is the height of the part that holds assertions, 0
without any. Building a node is linear in its direct children.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from llgx import ir
from llgx.regex import build, charset, utf8
from llgx.regex.charset import CharSet

__all__ = [
    "ANY_SIDE",
    "EDGE",
    "EMPTY",
    "Alt",
    "Assertion",
    "Bytes",
    "Chars",
    "Look",
    "Loop",
    "Node",
    "Seq",
    "Side",
    "alt",
    "assertions",
    "at_boundary",
    "at_end",
    "at_start",
    "chars",
    "last_chars",
    "look",
    "loop",
    "raw_bytes",
    "seq",
    "size",
]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Chars:
    """One character of a set."""

    members: CharSet
    regex: ir.Regex | None
    nullable: bool = False
    depth: int = 0


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Bytes:
    """One byte of a set that is not text of its own: only with Unicode mode off."""

    regex: ir.Regex | None
    nullable: bool = False
    depth: int = 0


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Seq:
    """One after the other."""

    items: tuple[Node, ...]
    regex: ir.Regex | None
    nullable: bool
    depth: int


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Alt:
    """Any of them."""

    items: tuple[Node, ...]
    regex: ir.Regex | None
    nullable: bool
    depth: int


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Loop:
    """``low`` to ``high`` times ``item``; ``high`` is None for no bound."""

    item: Node
    low: int
    high: int | None
    regex: ir.Regex | None
    nullable: bool
    depth: int


@dataclasses.dataclass(frozen=True, slots=True)
class Side:
    """What may stand on one side of a position: a character of a set, or with ``edge`` nothing."""

    members: CharSet
    edge: bool

    def negate(self) -> Side:
        """Whatever this side does not allow."""
        return Side(charset.negate(self.members), not self.edge)


ANY_SIDE = Side(charset.ALL, True)
EDGE = Side(charset.NONE, True)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Assertion:
    """A condition on the two characters around a position; ``offset`` is where it is written.

    It holds where at least one pair of ``cases`` does, of what stands before and what comes after.
    """

    cases: tuple[tuple[Side, Side], ...]
    offset: int
    regex: ir.Regex | None = None
    nullable: bool = True
    depth: int = 1


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Look:
    """Whether ``body`` matches what follows (``ahead``) or ends here; negated if ``negative``."""

    body: Node
    ahead: bool
    negative: bool
    offset: int
    depth: int
    regex: ir.Regex | None = None
    nullable: bool = True


Node = Chars | Bytes | Seq | Alt | Loop | Assertion | Look

EMPTY = Seq((), ir.EPSILON, True, 0)


def chars(members: CharSet) -> Chars:
    """One character of ``members``."""
    return Chars(members, utf8.set_regex(members))


def raw_bytes(mask: int) -> Bytes:
    """One byte of ``mask``."""
    return Bytes(build.alternate((ir.ByteSet(mask),)))


def seq(items: Sequence[Node]) -> Node:
    """``items`` one after the other; next to assertions, neighbours without any become one item."""
    if len(items) == 1:
        return items[0]
    depth = max((item.depth for item in items), default=0)
    nullable = all(item.nullable for item in items)
    if not depth:
        return Seq(tuple(items), build.concat(_finished(items)), nullable, 0)
    merged: list[Node] = []
    run: list[Node] = []
    for item in items:
        if item.depth:
            if run:
                merged.append(seq(run))
                run = []
            merged.append(item)
        else:
            run.append(item)
    if run:
        merged.append(seq(run))
    return Seq(tuple(merged), None, nullable, depth + 1)


def alt(items: Sequence[Node]) -> Node:
    """Any of ``items``."""
    if len(items) == 1:
        return items[0]
    depth = max((item.depth for item in items), default=0)
    regex = None if depth else build.alternate(_finished(items))
    return Alt(tuple(items), regex, any(item.nullable for item in items), depth and depth + 1)


def loop(item: Node, low: int, high: int | None) -> Node:
    """``low`` to ``high`` times ``item``."""
    if low == high == 1:
        return item
    if high == 0:
        return EMPTY
    regex = None if item.regex is None else build.repeat(item.regex, low, high)
    return Loop(item, low, high, regex, not low or item.nullable, item.depth and item.depth + 1)


def at_start(offset: int) -> Assertion:
    """Holds at the start of the text."""
    return Assertion(((EDGE, ANY_SIDE),), offset)


def at_end(offset: int) -> Assertion:
    """Holds at the end of the text."""
    return Assertion(((ANY_SIDE, EDGE),), offset)


def at_boundary(members: CharSet, offset: int, inside: bool = False) -> Assertion:
    """Holds where one side alone is a character of ``members``; if ``inside``, where not."""
    word = Side(members, False)
    other = word.negate()
    cases = ((word, word), (other, other)) if inside else ((word, other), (other, word))
    return Assertion(cases, offset)


def look(body: Node, ahead: bool, negative: bool, offset: int) -> Node:
    """A look-around; one at a single character becomes an :class:`Assertion`."""
    members = _single_chars(body)
    if members is not None:
        side = Side(members, False)
        side = side.negate() if negative else side
        return Assertion(((ANY_SIDE, side) if ahead else (side, ANY_SIDE),), offset)
    return Look(body, ahead, negative, offset, body.depth + 1)


def _single_chars(node: Node) -> CharSet | None:
    """The set that ``node`` matches one character of, if that is all it does."""
    if isinstance(node, Chars):
        return node.members
    if isinstance(node, Alt) and all(isinstance(item, Chars) for item in node.items):
        return charset.union(*(item.members for item in node.items if isinstance(item, Chars)))
    return None


def _finished(items: Sequence[Node]) -> list[ir.Regex]:
    return [item.regex for item in items if item.regex is not None]


def last_chars(node: Node) -> CharSet | None:
    """Every character that a match of ``node`` can end with, or None where bytes are concerned.

    Linear in the part of ``node`` that a match can end in.
    """
    found: list[CharSet] = []
    stack = [node]
    while stack:
        item = stack.pop()
        if isinstance(item, Chars):
            found.append(item.members)
        elif isinstance(item, Bytes):
            return None
        elif isinstance(item, Alt):
            stack.extend(item.items)
        elif isinstance(item, Loop):
            stack.append(item.item)
        elif isinstance(item, Seq):
            for part in reversed(item.items):
                stack.append(part)
                if not part.nullable:
                    break
    return charset.union(*found) if found else charset.NONE


def size(node: Node) -> int:
    """The number of nodes of ``node``, where one without assertions counts as one."""
    count = 0
    stack = [node]
    while stack:
        item = stack.pop()
        count += 1
        if not item.depth:
            continue
        if isinstance(item, Look):
            stack.append(item.body)
        elif isinstance(item, Loop):
            stack.append(item.item)
        elif isinstance(item, (Seq, Alt)):
            stack.extend(item.items)
    return count


def assertions(node: Node) -> list[Assertion | Look]:
    """All assertions of ``node`` in the order of the text, those inside of look-around included."""
    found: list[Assertion | Look] = []
    stack = [node]
    while stack:
        item = stack.pop()
        if not item.depth:
            continue
        if isinstance(item, Assertion):
            found.append(item)
        elif isinstance(item, Look):
            found.append(item)
            stack.append(item.body)
        elif isinstance(item, Loop):
            stack.append(item.item)
        elif isinstance(item, (Seq, Alt)):
            stack.extend(reversed(item.items))
    return found
