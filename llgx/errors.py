"""The exceptions of llgx: one base class, one child per kind of fault.

Every fault of a caller ends in one of these, raised before anything has changed. Other exceptions
(``MemoryError``, ``KeyboardInterrupt``) pass through untouched.
"""

from __future__ import annotations

import difflib
import heapq
from collections.abc import Iterable

__all__ = [
    "GrammarError",
    "LimitError",
    "LlgxError",
    "SchemaError",
    "TokenRejected",
    "VocabularyError",
    "caret_excerpt",
    "position_of",
    "suggestion",
]

_EXCERPT_WIDTH = 100
# Pairs of characters that a search for the nearest name compares.
_COMPARED = 100_000


class LlgxError(Exception):
    """Base of all errors that llgx raises itself."""

    def within(self, place: str) -> LlgxError:
        """The same error, said to be in ``place``, a part of what was given."""
        self.args = (f"{place}: {self}",)
        return self


class GrammarError(LlgxError, ValueError):
    """A grammar or regex is malformed, or asks for what llgx does not do.

    ``line`` and ``column`` count from 1 in code points and are 0 where no position applies;
    ``excerpt`` is the offending line with a caret below the column, or ``""``. ``names`` are those
    of the rules and terminals that the error is about, where it is found out when compiling.
    """

    def __init__(
        self,
        message: str,
        *,
        text: str | None = None,
        offset: int | None = None,
        names: tuple[str, ...] = (),
    ) -> None:
        self.message = message
        self.names = names
        self.line = 0
        self.column = 0
        self.excerpt = ""
        if text is not None and offset is not None:
            self.line, self.column = position_of(text, offset)
            self.excerpt = caret_excerpt(text, offset)
        super().__init__(self._render())

    def hint(self, hint: str) -> None:
        """Add to the message, unless it gives such advice already."""
        if "Grammar.from_" not in self.message and "%llguidance" not in self.message:
            self.message += hint
            self.args = (self._render(),)

    def _render(self) -> str:
        if not self.line:
            return self.message
        return f"line {self.line}, column {self.column}: {self.message}\n{self.excerpt}"


class SchemaError(LlgxError, ValueError):
    """A JSON Schema is malformed, unsatisfiable, or has a part that llgx does not enforce.

    ``pointer`` is the JSON pointer of the place, ``keyword`` the keyword there or ``""``,
    ``message`` the reason, and ``remedy`` what to do about it, or ``""``.
    """

    def __init__(
        self, message: str, *, pointer: str = "", keyword: str = "", remedy: str = ""
    ) -> None:
        self.message = message
        self.pointer = pointer
        self.keyword = keyword
        self.remedy = remedy
        where = f"{pointer or '/'}" + (f" ({keyword})" if keyword else "")
        super().__init__(f"{where}: {message}" + (f"; {remedy}" if remedy else ""))


class LimitError(LlgxError):
    """Work or memory would pass a cap of :class:`llgx.Limits`; ``limit`` names the field.

    ``line``, ``column`` and ``excerpt`` are those of :class:`GrammarError`.
    """

    def __init__(
        self, message: str, *, limit: str, text: str | None = None, offset: int | None = None
    ) -> None:
        self.message = message
        self.limit = limit
        self.line = 0
        self.column = 0
        self.excerpt = ""
        shown = f"{message} (raise Limits.{limit} to allow more)"
        if text is not None and offset is not None:
            self.line, self.column = position_of(text, offset)
            self.excerpt = caret_excerpt(text, offset)
            shown = f"line {self.line}, column {self.column}: {shown}\n{self.excerpt}"
        super().__init__(shown)


class VocabularyError(LlgxError, ValueError):
    """A vocabulary is inconsistent with itself or with the model that it came from."""


class TokenRejected(LlgxError, ValueError):
    """A token that the grammar does not allow here; the matcher is as it was before.

    ``token`` is the id, ``token_bytes`` its text, ``position`` the number of tokens consumed before
    it, ``byte_offset`` how many of its bytes were still allowed, and ``expected`` the names of the
    terminals that could have gone on there.
    """

    def __init__(
        self,
        message: str,
        *,
        token: int,
        token_bytes: bytes = b"",
        position: int = 0,
        byte_offset: int = 0,
        expected: Iterable[str] = (),
    ) -> None:
        self.message = message
        self.token = token
        self.token_bytes = token_bytes
        self.position = position
        self.byte_offset = byte_offset
        self.expected = tuple(expected)
        super().__init__(message)


def position_of(text: str, offset: int) -> tuple[int, int]:
    """Line and column, both from 1, of the code point at ``offset`` of ``text``."""
    before = text[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1


def caret_excerpt(text: str, offset: int) -> str:
    """The line of ``text`` around ``offset``, cut to a readable width, with a caret below it."""
    begin = text.rfind("\n", 0, offset) + 1
    end = text.find("\n", offset)
    end = len(text) if end < 0 else end
    if end - begin > _EXCERPT_WIDTH:
        begin = max(begin, offset - _EXCERPT_WIDTH // 2)
        end = min(end, begin + _EXCERPT_WIDTH)
    shown = "".join(c if c.isprintable() else " " for c in text[begin:end])
    return f"{shown}\n{' ' * (offset - begin)}^"


def suggestion(name: str, known: Iterable[str]) -> str:
    """``" (did you mean 'x'?)"`` with the nearest of ``known``, or ``""``; bounded work.

    Linear in ``known`` for the few that begin and end most alike; only these are compared in full.
    """
    if not name or len(name) > 100:
        return ""
    candidates = [other for other in known if abs(len(other) - len(name)) <= 3]
    for other in candidates:
        if other.lower() == name.lower():
            return f" (did you mean '{other}'?)"
    few = heapq.nlargest(
        _COMPARED // len(name) ** 2 + 4, candidates, key=lambda other: _likeness(name, other)
    )
    near = difflib.get_close_matches(name, few, n=1)
    return f" (did you mean '{near[0]}'?)" if near else ""


def _likeness(name: str, other: str) -> int:
    """How many characters both begin and end with."""
    shared = 0
    for text, same in ((name, other), (name[::-1], other[::-1])):
        for left, right in zip(text, same, strict=False):
            if left != right:
                break
            shared += 1
    return shared
