"""The texts that a grammar is made of, in one address space.

A grammar may consist of several texts: its own, imported ones, and others that it refers to by
``@name``. Each lies at a base of its own, so that a single offset, as nodes of the syntax tree hold
it, says which text and where in it. Texts are never removed. Looking an offset up is logarithmic in
the number of texts.
"""

from __future__ import annotations

import bisect

from llgx.errors import GrammarError, LimitError, position_of

__all__ = ["Sources"]


class Sources:
    """Texts by their bases. The name of a text, if it has one, is part of every message."""

    def __init__(self) -> None:
        self._bases: list[int] = []
        self._texts: list[tuple[str, str]] = []
        self._end = 0

    def add(self, text: str, name: str = "") -> int:
        """Put ``text`` behind the others; returns its base."""
        base = self._end
        self._bases.append(base)
        self._texts.append((text, name))
        self._end += len(text) + 1  # the place after its last character belongs to it
        return base

    def __len__(self) -> int:
        """Characters in all texts, and one for each text."""
        return self._end

    def locate(self, offset: int) -> tuple[str, int, str]:
        """The text at ``offset``, the place in it, and its name."""
        index = bisect.bisect_right(self._bases, offset) - 1
        text, name = self._texts[index]
        return text, offset - self._bases[index], name

    def extract(self, begin: int, end: int) -> str:
        """The characters from ``begin`` to ``end``, which lie in one text."""
        if len(self._bases) == 1:
            return self._texts[0][0][begin:end]
        text, place, _ = self.locate(begin)
        return text[place : place + end - begin]

    def error(self, message: str, offset: int) -> GrammarError:
        """The error that points at ``offset``."""
        text, place, name = self.locate(offset)
        return GrammarError(_named(message, name), text=text, offset=place)

    def limit_error(self, message: str, offset: int, limit: str) -> LimitError:
        """The same for a cap: ``limit`` names the field of :class:`llgx.Limits`."""
        text, place, name = self.locate(offset)
        return LimitError(_named(message, name), limit=limit, text=text, offset=place)

    def where(self, offset: int) -> str:
        """``"line 1, column 2"``, with the name of the text if it has one."""
        text, place, name = self.locate(offset)
        line, column = position_of(text, place)
        return _named(f"line {line}, column {column}", name)


def _named(message: str, name: str) -> str:
    return f"{message} (in {name})" if name else message
