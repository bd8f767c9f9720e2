"""A text cut into words, for regexes of its runs."""

from __future__ import annotations

import itertools

from llgx.regex import charset, tables

__all__ = ["words"]


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
