"""A matcher for :data:`llgx.ir.Regex` that is slow and obvious: the oracle of other tests.

It takes derivatives byte by byte (Brzozowski, *Derivatives of Regular Expressions*, JACM 1964) of
hash-consed copies of the nodes. A counted repeat is never unrolled: the derivative of ``r{l,h}`` is
that of ``r`` followed by ``r{l-1,h-1}``, so bounds of a thousand million cost nothing. It shares no
code with the engine under test.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from llgx import ir
from tests.remainders import derive_remainder, remainder_is_nullable
from tests.substrings import runs_of

__all__ = ["Oracle", "accepted", "find_difference", "matches"]

Node = tuple[Any, ...]


class Oracle:
    """Derivatives of any number of regexes over one table of nodes.

    Nodes are small integers; equal integers mean equal content. Residuals are kept equal up to
    associativity, commutativity and idempotence of union and intersection, which makes their
    number finite. The depth of recursion is that of the regex.
    """

    def __init__(self) -> None:
        self._ids: dict[Node, int] = {}
        self._nodes: list[Node] = []
        self._nullable: dict[int, bool] = {}
        self._derived: dict[tuple[int, int], int] = {}
        self._added: dict[int, tuple[ir.Regex, int]] = {}
        self.empty = self._intern(("or", frozenset()))
        self.epsilon = self._intern(("literal", b""))
        self.everything = self._intern(("and", frozenset()))

    # Construction

    def add(self, regex: ir.Regex) -> int:
        """The node for ``regex``; one that was added before (the same object) costs nothing."""
        known = self._added.get(id(regex))
        if known is not None:
            return known[1]
        if isinstance(regex, ir.Literal):
            node = self._intern(("literal", regex.data))
        elif isinstance(regex, ir.ByteSet):
            assert 0 <= regex.mask < 1 << 256
            node = self._intern(("set", regex.mask)) if regex.mask else self.empty
        elif isinstance(regex, ir.Concat):
            node = self._concat([self.add(item) for item in regex.items])
        elif isinstance(regex, ir.Alternation):
            node = self._union(self.add(item) for item in regex.items)
        elif isinstance(regex, ir.Intersection):
            node = self._intersection(self.add(item) for item in regex.items)
        elif isinstance(regex, ir.Complement):
            node = self._complement(self.add(regex.item))
        elif isinstance(regex, ir.Repeat):
            assert regex.low >= 0
            assert regex.high is None or regex.low <= regex.high
            node = self._repeat(self.add(regex.item), regex.low, regex.high)
        elif isinstance(regex, ir.Remainder):
            node = self._intern(("remainder", regex))
        elif isinstance(regex, ir.Substring):
            node = self.add(runs_of(regex))
        else:
            raise TypeError(f"not a regex: {regex!r}")
        self._added[id(regex)] = (regex, node)  # keeps the object alive, hence its id valid
        return node

    def _intern(self, node: Node) -> int:
        index = self._ids.setdefault(node, len(self._nodes))
        if index == len(self._nodes):
            self._nodes.append(node)
        return index

    def _concat(self, items: list[int]) -> int:
        flat: list[int] = []
        for item in items:
            if item == self.empty:
                return self.empty
            if item != self.epsilon:
                kind = self._nodes[item]
                flat.extend(kind[1] if kind[0] == "concat" else (item,))
        if not flat:
            return self.epsilon
        return flat[0] if len(flat) == 1 else self._intern(("concat", tuple(flat)))

    def _union(self, items: Iterable[int]) -> int:
        flat = self._flatten("or", items)
        if self.everything in flat:
            return self.everything
        return next(iter(flat)) if len(flat) == 1 else self._intern(("or", flat))

    def _intersection(self, items: Iterable[int]) -> int:
        flat = self._flatten("and", items)
        if self.empty in flat:
            return self.empty
        return next(iter(flat)) if len(flat) == 1 else self._intern(("and", flat))

    def _flatten(self, kind: str, items: Iterable[int]) -> frozenset[int]:
        flat: set[int] = set()
        for item in items:
            node = self._nodes[item]
            flat.update(node[1] if node[0] == kind else (item,))
        return frozenset(flat)

    def _complement(self, item: int) -> int:
        node = self._nodes[item]
        if node[0] == "not":
            return int(node[1])
        if item == self.empty:
            return self.everything
        return self.empty if item == self.everything else self._intern(("not", item))

    def _repeat(self, item: int, low: int, high: int | None) -> int:
        if high == 0 or item == self.epsilon:
            return self.epsilon
        if (low, high) == (1, 1):
            return item
        return self._intern(("repeat", item, low, high))

    # Queries

    def nullable(self, index: int) -> bool:
        """Whether the node matches the empty string."""
        known = self._nullable.get(index)
        if known is None:
            kind, *rest = self._nodes[index]
            if kind == "literal":
                known = not rest[0]
            elif kind == "set":
                known = False
            elif kind in ("concat", "and"):
                known = all(self.nullable(item) for item in rest[0])
            elif kind == "or":
                known = any(self.nullable(item) for item in rest[0])
            elif kind == "remainder":
                known = remainder_is_nullable(rest[0])
            elif kind == "not":
                known = not self.nullable(rest[0])
            else:
                known = rest[1] == 0 or self.nullable(rest[0])
            self._nullable[index] = known
        return known

    def derive(self, index: int, byte: int) -> int:
        """The node that matches what may follow ``byte``."""
        known = self._derived.get((index, byte))
        if known is None:
            known = self._derived[index, byte] = self._derive(index, byte)
        return known

    def _derive(self, index: int, byte: int) -> int:
        kind, *rest = self._nodes[index]
        if kind == "literal":
            data = rest[0]
            if not data or data[0] != byte:
                return self.empty
            return self._intern(("literal", data[1:]))
        if kind == "set":
            return self.epsilon if rest[0] >> byte & 1 else self.empty
        if kind == "concat":
            parts = []
            items = rest[0]
            for position, item in enumerate(items):
                tail = list(items[position + 1 :])
                parts.append(self._concat([self.derive(item, byte), *tail]))
                if not self.nullable(item):
                    break
            return self._union(parts)
        if kind == "or":
            return self._union(self.derive(item, byte) for item in rest[0])
        if kind == "and":
            return self._intersection(self.derive(item, byte) for item in rest[0])
        if kind == "remainder":
            after = derive_remainder(rest[0], byte)
            return self.empty if after is None else self._intern(("remainder", after))
        if kind == "not":
            return self._complement(self.derive(rest[0], byte))
        item, low, high = rest
        # With a nullable item a repeat may as well spend its empty rounds last, so that the first
        # round is the one that takes the byte.
        less = None if high is None else high - 1
        return self._concat([self.derive(item, byte), self._repeat(item, max(low - 1, 0), less)])

    def run(self, index: int, data: bytes) -> int:
        """The node that is left after ``data``."""
        for byte in data:
            if index == self.empty:
                break
            index = self.derive(index, byte)
        return index

    def matches(self, index: int, data: bytes) -> bool:
        """Whether the node matches exactly ``data``."""
        return self.nullable(self.run(index, data))


def matches(regex: ir.Regex, data: bytes) -> bool:
    """Whether ``regex`` matches exactly ``data``.

    >>> matches(ir.Repeat(ir.Literal(b"ab"), 1, 1_000_000_000), b"abab")
    True
    """
    oracle = Oracle()
    return oracle.matches(oracle.add(regex), data)


def accepted(regex: ir.Regex, alphabet: Iterable[bytes], length: int) -> Iterator[bytes]:
    """All concatenations of at most ``length`` members of ``alphabet`` that ``regex`` matches.

    Shortest first; prefixes with no future are cut off, so sparse languages are cheap.
    """
    oracle = Oracle()
    letters = list(alphabet)
    level = [(b"", oracle.add(regex))]
    for left in range(length, -1, -1):
        for text, node in level:
            if oracle.nullable(node):
                yield text
        if left:
            level = [
                (text + letter, after)
                for text, node in level
                for letter in letters
                if (after := oracle.run(node, letter)) != oracle.empty
            ]


def find_difference(
    left: ir.Regex, right: ir.Regex, alphabet: Iterable[bytes], states: int = 100_000
) -> bytes | None:
    """A shortest word over ``alphabet`` that just one of the two regexes matches, or None.

    Raises ``AssertionError`` when more than ``states`` pairs of residuals turn up. The answer holds
    for words over ``alphabet`` only: give one letter of each class that the regexes tell apart.
    """
    oracle = Oracle()
    letters = list(alphabet)
    start = (oracle.add(left), oracle.add(right))
    seen = {start}
    queue = [(b"", start)]
    for text, (a, b) in queue:
        if oracle.nullable(a) != oracle.nullable(b):
            return text
        if a == b:
            continue
        for letter in letters:
            pair = (oracle.run(a, letter), oracle.run(b, letter))
            if pair not in seen:
                assert len(seen) < states, "too many residuals to compare"
                seen.add(pair)
                queue.append((text + letter, pair))
    return None
