"""All runs of consecutive pieces of a text, as one regex of nearly linear size.

The runs are the words of the suffix automaton of the pieces (Blumer et al., *The smallest automaton
recognizing the subwords of a text*, 1985), which has at most two states a piece. Its long chains
would make the regex as deep as the text is long. So each state has one heavy transition, the one
with the most runs behind it, and the tree of these is cut into blocks of powers of two: a run stays
in a block, or takes the whole block, spelled out, and goes on behind it. A run leaves heavy
transitions O(log n) times, so the depth is O(log(n)**2) and the size O(n log n).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Final

from llgx import ir
from llgx.regex import charset, tables

__all__ = ["substring", "words"]

# Text of blocks up to this many pieces is spelled in one literal.
_SPELLED: Final = 64
# More transitions than this are grouped by their first bytes, this many bytes deep.
_WIDE: Final = 8
_GROUPED: Final = 4


def words(text: str) -> list[str]:
    """``text`` cut into words, blanks between them, and runs of whatever else there is.

    A word is a run of letters, numbers and ``_``. The pieces joined are ``text`` again.

    >>> words("one, two")
    ['one', ',', ' ', 'two']
    """
    return ["".join(run) for _, run in itertools.groupby(text, _kind)]


def _kind(char: str) -> int:
    if char.isascii():
        return 1 if char.isalnum() or char == "_" else 2 if char.isspace() else 0
    point = ord(char)
    for kind, name in ((1, "Alphabetic"), (1, "N"), (2, "White_Space")):
        members = tables.loose_property(name)
        assert members is not None
        if charset.contains(members, point):
            return kind
    return 0


def substring(pieces: Sequence[bytes]) -> ir.Regex:
    """The regex for any run of consecutive ``pieces``, the empty one included."""
    automaton = _SuffixAutomaton(piece for piece in pieces if piece)
    return _Spelling(automaton).regex()


class _SuffixAutomaton:
    """States are numbers, 0 is the start; every state accepts."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self.length = [0]  # of the longest run that leads to a state
        self.next: list[dict[bytes, int]] = [{}]
        self._link = [-1]
        last = 0
        for piece in pieces:
            last = self._extend(last, piece)

    def _state(self, length: int, transitions: dict[bytes, int], link: int) -> int:
        self.length.append(length)
        self.next.append(transitions)
        self._link.append(link)
        return len(self.length) - 1

    def _extend(self, last: int, piece: bytes) -> int:
        current = self._state(self.length[last] + 1, {}, 0)
        state = last
        while state >= 0 and piece not in self.next[state]:
            self.next[state][piece] = current
            state = self._link[state]
        if state < 0:
            return current
        target = self.next[state][piece]
        if self.length[target] == self.length[state] + 1:
            self._link[current] = target
            return current
        copy = self._state(self.length[state] + 1, dict(self.next[target]), self._link[target])
        while state >= 0 and self.next[state].get(piece) == target:
            self.next[state][piece] = copy
            state = self._link[state]
        self._link[target] = self._link[current] = copy
        return current


class _Spelling:
    """Regexes of the states; those of longer runs are made first, as transitions lead there."""

    def __init__(self, automaton: _SuffixAutomaton) -> None:
        self._next = automaton.next
        self._order = sorted(range(len(automaton.length)), key=lambda s: -automaton.length[s])
        count = len(automaton.length)
        self._heavy = [-1] * count
        self._piece = [b""] * count  # on the heavy transition
        self._left = [0] * count  # heavy transitions from here on, itself counted
        # By state and exponent: the runs that stay in the block of 2**k states which begins here,
        # what it spells, and the state behind it.
        self._blocks: list[list[ir.Regex]] = [[] for _ in range(count)]
        self._texts: list[list[ir.Regex]] = [[] for _ in range(count)]
        self._behind: list[list[int]] = [[] for _ in range(count)]
        self._regexes: list[ir.Regex] = [ir.EPSILON] * count

    def regex(self) -> ir.Regex:
        runs = [1] * len(self._order)
        for state in self._order:
            transitions = self._next[state]
            runs[state] += sum(runs[target] for target in transitions.values())
            if transitions:
                piece, heavy = max(transitions.items(), key=lambda item: runs[item[1]])
                self._heavy[state], self._piece[state] = heavy, piece
            heavy = self._heavy[state]
            self._left[state] = 1 + (self._left[heavy] if heavy >= 0 else 0)
            self._spell(state)
        return self._regexes[0]

    def _spell(self, state: int) -> None:
        left = self._left[state]
        light = [
            (piece, self._regexes[target])
            for piece, target in self._next[state].items()
            if piece != self._piece[state]
        ]
        blocks, texts, behind = self._blocks[state], self._texts[state], self._behind[state]
        blocks.append(_alternation([ir.EPSILON, *_branches(light)]))
        texts.append(ir.Literal(self._piece[state]))
        behind.append(self._heavy[state])
        size = 1
        while not left & size:
            middle = behind[-1]
            exponent = len(blocks) - 1
            after = ir.Concat((texts[-1], self._blocks[middle][exponent]))
            blocks.append(_alternation([blocks[-1], after]))
            texts.append(_joined(texts[-1], self._texts[middle][exponent], 2 * size))
            behind.append(self._behind[middle][exponent])
            size *= 2
        following = behind[-1]
        regex = blocks[-1]
        if following >= 0:
            after = ir.Concat((texts[-1], self._regexes[following]))
            regex = _alternation([regex, after])
        self._regexes[state] = regex


def _alternation(items: Sequence[ir.Regex]) -> ir.Regex:
    return items[0] if len(items) == 1 else ir.Alternation(tuple(items))


def _joined(left: ir.Regex, right: ir.Regex, pieces: int) -> ir.Regex:
    if pieces <= _SPELLED and isinstance(left, ir.Literal) and isinstance(right, ir.Literal):
        return ir.Literal(left.data + right.data)
    return ir.Concat((left, right))


def _branches(edges: list[tuple[bytes, ir.Regex]], depth: int = 0) -> list[ir.Regex]:
    """One regex for each of ``edges``, text and what follows; many are grouped by first byte."""
    if len(edges) <= _WIDE or depth >= _GROUPED:
        return [ir.Concat((ir.Literal(text), after)) if text else after for text, after in edges]
    groups: dict[bytes, list[tuple[bytes, ir.Regex]]] = {}
    for text, after in edges:
        groups.setdefault(text[:1], []).append((text[1:], after))
    found: list[ir.Regex] = []
    for first, inside in groups.items():
        rest = _alternation(_branches(inside, depth + 1))
        found.append(ir.Concat((ir.Literal(first), rest)) if first else rest)
    return found
