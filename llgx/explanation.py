"""What :meth:`llgx.Matcher.explain` answers: how far a text fits, and what was expected there."""

from __future__ import annotations

import dataclasses

from llgx.errors import caret_excerpt

__all__ = ["Explanation"]

_SHOWN = 12


@dataclasses.dataclass(frozen=True, slots=True)
class Explanation:
    """How a text fits what a matcher allows next.

    ``offset`` is the number of bytes that fit; ``fits`` says whether all do, ``complete`` whether
    the text may also end after them. ``expected`` are the names of the terminals that could begin
    or go on at ``offset``, and ``rules`` the
    names of the rules that have begun and go on there, from the start inwards: the shortest such
    path where there are several.
    """

    text: bytes
    offset: int
    complete: bool
    expected: tuple[str, ...]
    rules: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether every byte of the text is allowed."""
        return self.offset == len(self.text)

    def __str__(self) -> str:
        if self.complete:
            return "the text fits and is complete"
        names = ", ".join(self.expected[:_SHOWN])
        if len(self.expected) > _SHOWN:
            names += f" and {len(self.expected) - _SHOWN} more"
        expected = f"expected {names}" if names else "nothing can follow"
        if self.fits:
            return f"the text fits so far; {expected}"
        shown = self.text.decode("utf-8", "replace")
        at = len(self.text[: self.offset].decode("utf-8", "replace"))
        where = f" in {' > '.join(_ends(self.rules))}" if self.rules else ""
        return f"byte {self.offset} does not fit{where}: {expected}\n{caret_excerpt(shown, at)}"


def _ends(rules: tuple[str, ...]) -> tuple[str, ...]:
    """The rules to show: of a long path the two ends."""
    if len(rules) <= _SHOWN:
        return rules
    return (*rules[: _SHOWN // 2], "...", *rules[-_SHOWN // 2 :])
