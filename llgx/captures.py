"""What :meth:`llgx.Matcher.captures` answers."""

from __future__ import annotations

import dataclasses

__all__ = ["Capture"]


@dataclasses.dataclass(frozen=True, slots=True)
class Capture:
    """The text of one derivation of a rule that has a name for it.

    ``data`` are the bytes from ``start`` to ``end`` of the text so far, which is that of its text
    tokens: special tokens and those that ended a generation add nothing to it.
    """

    name: str
    data: bytes
    start: int
    end: int
