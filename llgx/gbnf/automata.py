"""What the texts of regular expressions have in common, over an alphabet of character classes.

An :class:`Alphabet` partitions the characters into letters that the expressions of a grammar do not
tell apart; a set of letters is an int of bits. A :class:`Automaton` is the position automaton of an
expression (Glushkov, 1961), determinised as far as it is walked. :func:`compare` walks two of them
side by side.

Counted repeats of any size but small ones are taken as unbounded: what is said here holds for a
language that contains the true one, which is the safe side for all that is asked. Every size is
bounded, and :class:`TooLargeError` says that a bound was reached.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Iterable, Iterator
from typing import Final

from llgx.gbnf.nodes import Chars, Choice, Loop, Node, Reference, Series, Text
from llgx.regex import charset
from llgx.regex.charset import CharSet

__all__ = [
    "DEPTH",
    "POSITIONS",
    "Alphabet",
    "Automaton",
    "Budget",
    "Comparison",
    "OutOfBudgetError",
    "TooLargeError",
    "bits",
    "compare",
    "copies",
]

# What an automaton is made of at the most: expressions below one another, and positions.
DEPTH: Final = 250
POSITIONS: Final = 6_000
_STATES: Final = 6_000
# Copies of the body of a counted repeat together have at most so many positions.
_COPIED: Final = 64


class TooLargeError(Exception):
    """An automaton passes a bound of the module."""


class OutOfBudgetError(Exception):
    """The steps that a budget allows are spent."""


class Budget:
    """A number of steps, each of about a microsecond."""

    def __init__(self, steps: int) -> None:
        self._left = steps

    def spend(self, steps: int) -> None:
        """Take ``steps`` off; raises :class:`OutOfBudgetError` where there are not as many."""
        self._left -= steps
        if self._left < 0:
            raise OutOfBudgetError


def bits(mask: int) -> Iterator[int]:
    """The numbers of the bits of ``mask``."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


class Alphabet:
    """The letters of a grammar. ``leads`` are the bytes that a set of letters can begin with."""

    def __init__(self, sets: Iterable[CharSet], characters: Iterable[str]) -> None:
        points = {ord(char) for char in characters}
        terms = charset.minterms([*set(sets), *(((point, point),) for point in points)])
        segments = sorted((low, index) for index, term in enumerate(terms) for low, _ in term)
        self._begins = [begin for begin, _ in segments]
        self._letters = [index for _, index in segments]
        self._bytes = [_lead_bytes(term) for term in terms]
        self._sets: dict[CharSet, int] = {}
        self._leads: dict[int, int] = {}

    def letter(self, char: str) -> int:
        """The set of the letter of ``char``."""
        return 1 << self._letters[bisect.bisect_right(self._begins, ord(char)) - 1]

    def letters(self, members: CharSet) -> int:
        """The letters of ``members``, which is one of the sets that the alphabet is made for."""
        found = self._sets.get(members)
        if found is None:
            found = 0
            for low, high in members:
                at = bisect.bisect_right(self._begins, low) - 1
                while at < len(self._begins) and self._begins[at] <= high:
                    found |= 1 << self._letters[at]
                    at += 1
            self._sets[members] = found
        return found

    def leads(self, letters: int) -> int:
        """The first bytes of the characters of ``letters``: bit ``b`` for byte ``b``."""
        found = self._leads.get(letters)
        if found is None:
            found = 0
            for letter in bits(letters):
                found |= self._bytes[letter]
            self._leads[letters] = found
        return found


def _lead_bytes(members: CharSet) -> int:
    mask = 0
    for low, high in members:
        for begin, end in ((0, 0x7F), (0x80, 0x7FF), (0x800, 0xFFFF), (0x10000, 0x10FFFF)):
            first, last = max(low, begin), min(high, end)
            if first <= last:
                mask |= (2 << _lead_byte(last)) - (1 << _lead_byte(first))
    return mask


def _lead_byte(point: int) -> int:
    if point < 0x80:
        return point
    if point < 0x800:
        return 0xC0 | point >> 6
    return 0xE0 | point >> 12 if point < 0x10000 else 0xF0 | point >> 18


@dataclasses.dataclass(frozen=True, slots=True)
class _Part:
    """Positions of a subexpression: the first ones, the last ones, whether it may be empty."""

    first: int
    last: int
    nullable: bool


class Automaton:
    """The positions of an expression; states are the sets of positions that may just have passed.

    State 0 is the start. ``accepting[s]`` says whether the text may end there, ``going[s]`` which
    letters go on, ``states[s]`` which positions those are.
    """

    def __init__(self, node: Node, bodies: dict[int, Node], alphabet: Alphabet) -> None:
        self._bodies = bodies
        self._alphabet = alphabet
        self.letters: list[int] = []
        self.follow: list[int] = []
        whole = self._build(node, 0)
        self._first = whole.first
        self._last = whole.last
        self.states: list[int] = [0]
        self.accepting: list[bool] = [whole.nullable]
        self.going: list[int] = [self._union(whole.first)]
        self._index: dict[int, int] = {}
        self._steps: list[list[tuple[int, int]] | None] = [None]

    def _union(self, positions: int) -> int:
        letters = 0
        for position in bits(positions):
            letters |= self.letters[position]
        return letters

    def _leaf(self, letters: int) -> _Part:
        if len(self.letters) >= POSITIONS:
            raise TooLargeError
        self.letters.append(letters)
        self.follow.append(0)
        place = 1 << len(self.letters) - 1
        return _Part(place, place, False)

    def _join(self, left: _Part, right: _Part) -> _Part:
        for position in bits(left.last):
            self.follow[position] |= right.first
        return _Part(
            left.first | right.first if left.nullable else left.first,
            left.last | right.last if right.nullable else right.last,
            left.nullable and right.nullable,
        )

    def _build(self, node: Node, depth: int) -> _Part:
        """Number the positions of ``node`` from left to right; see :func:`copies` for loops."""
        if depth > DEPTH:
            raise TooLargeError
        part = _Part(0, 0, True)
        if isinstance(node, Text):
            for char in node.value:
                part = self._join(part, self._leaf(self._alphabet.letter(char)))
        elif isinstance(node, Chars):
            part = self._leaf(self._alphabet.letters(node.members))
        elif isinstance(node, Series):
            for item in node.items:
                part = self._join(part, self._build(item, depth + 1))
        elif isinstance(node, Choice):
            parts = [self._build(item, depth + 1) for item in node.items]
            first = last = 0
            for one in parts:
                first |= one.first
                last |= one.last
            part = _Part(first, last, any(one.nullable for one in parts))
        elif isinstance(node, Reference):
            part = self._build(self._bodies[node.rule], depth + 1)
        elif isinstance(node, Loop):
            before = len(self.letters)
            one = self._build(node.item, depth + 1)
            count, around = copies(node, len(self.letters) - before)
            for copy in range(count):
                if copy:
                    one = self._build(node.item, depth + 1)
                if around and copy == count - 1:
                    for position in bits(one.last):
                        self.follow[position] |= one.first
                optional = copy >= node.low
                part = self._join(part, _Part(one.first, one.last, one.nullable or optional))
        return part

    def steps(self, state: int) -> list[tuple[int, int]]:
        """Disjoint sets of letters and the states that they lead to from ``state``."""
        found = self._steps[state]
        if found is None:
            reachable = self._first if state == 0 else 0
            for position in bits(self.states[state]):
                reachable |= self.follow[position]
            by_letter: dict[int, int] = {}
            for position in bits(reachable):
                place = 1 << position
                for letter in bits(self.letters[position]):
                    by_letter[letter] = by_letter.get(letter, 0) | place
            targets: dict[int, int] = {}
            for letter, positions in by_letter.items():
                targets[positions] = targets.get(positions, 0) | 1 << letter
            found = [(letters, self._state(positions)) for positions, letters in targets.items()]
            self._steps[state] = found
        return found

    def _state(self, positions: int) -> int:
        found = self._index.get(positions)
        if found is None:
            if len(self.states) >= _STATES:
                raise TooLargeError
            found = self._index[positions] = len(self.states)
            self.states.append(positions)
            self.accepting.append(bool(positions & self._last))
            reachable = 0
            for position in bits(positions):
                reachable |= self.follow[position]
            self.going.append(self._union(reachable))
            self._steps.append(None)
        return found


def copies(loop: Loop, positions: int) -> tuple[int, bool]:
    """How often the body of ``loop`` is written out, and whether its last copy may repeat.

    ``positions`` are those of one copy.
    """
    if loop.high == 1 or (loop.high is not None and loop.high * positions <= _COPIED):
        return loop.high, False
    return (loop.low if loop.low and loop.low * positions <= _COPIED else 1), True


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """Of two expressions: whether they share a text, and where one ends while the other goes on.

    ``overrun[0]`` maps states of the second automaton to the letters that go on from there, where
    the first has just ended; ``overrun[1]`` the other way round.
    """

    shared: bool
    overrun: tuple[dict[int, int], dict[int, int]]


def compare(left: Automaton, right: Automaton, budget: Budget) -> Comparison:
    """Walk both automata together over every text that is a beginning of texts of both."""
    shared = False
    overrun: tuple[dict[int, int], dict[int, int]] = ({}, {})
    seen = {(0, 0)}
    todo = [(0, 0)]
    while todo:
        i, j = todo.pop()
        budget.spend(2)
        if i or j:
            if left.accepting[i]:
                shared = shared or right.accepting[j]
                if right.going[j]:
                    overrun[0][j] = right.going[j]
            if right.accepting[j] and left.going[i]:
                overrun[1][i] = left.going[i]
        if not left.going[i] & right.going[j]:
            continue
        budget.spend(len(left.steps(i)) * len(right.steps(j)))
        for letters, after in left.steps(i):
            if not letters & right.going[j]:
                continue
            for others, then in right.steps(j):
                if letters & others and (after, then) not in seen:
                    seen.add((after, then))
                    todo.append((after, then))
    return Comparison(shared, overrun)
