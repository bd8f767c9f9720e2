"""The runs of :class:`llgx.ir.Substring`, from one piece to the next and without any shortcut."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from llgx.ir import EPSILON, Alternation, Concat, Literal, Regex, Substring

__all__ = ["Onward", "derive_substring", "runs_of"]


@dataclasses.dataclass(frozen=True, slots=True)
class Onward:
    """Any run of ``pieces`` that begins with the one at ``at``, and the empty text."""

    pieces: tuple[bytes, ...]
    at: int


def derive_substring(regex: Substring | Onward, byte: int) -> Iterator[tuple[bytes, Onward]]:
    """The ways to go on after ``byte``: what is left of a piece, and what may follow it."""
    pieces = regex.pieces
    for at in range(len(pieces)) if isinstance(regex, Substring) else (regex.at,):
        place = at
        while place < len(pieces) and not pieces[place]:
            place += 1
        if place < len(pieces) and pieces[place][0] == byte:
            yield pieces[place][1:], Onward(pieces, place + 1)


def runs_of(regex: Substring) -> Regex:
    """The same language in plain regexes; as deep as there are pieces."""
    begun: list[Regex] = [EPSILON]
    for piece in reversed(regex.pieces):
        begun.append(Alternation((EPSILON, Concat((Literal(piece), begun[-1])))))
    return Alternation(tuple(begun))
