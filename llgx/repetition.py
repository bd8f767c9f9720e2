"""Repetitions over symbols of a grammar as rules.

``x*`` and ``x+`` are left-recursive, so that the parser returns to the same row after each round.
``x{m,n}`` takes O(log n) rules: ``x{k}`` is made of two halves; ``x{0,k}`` is "at most ``a``, or
else ``a + 1`` and then at most ``k - a - 1``" with ``a = (k - 1) // 2``, so each count has one
derivation, and both smaller counts are again about half.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from llgx import ir

__all__ = ["Repetitions", "Symbols"]

_INLINE_COPIES: Final = 8

Symbols = tuple[ir.Symbol, ...]


class Repetitions:
    """Makes helper rules by ``helper``, and the same one for the same thing.

    ``helper`` adds a rule with the productions it is given to the grammar under construction, and
    returns a reference to it.
    """

    def __init__(self, helper: Callable[[list[ir.Production]], ir.RuleRef]) -> None:
        self._helper = helper
        self._units: dict[Symbols, ir.Symbol] = {}
        self._powers: dict[tuple[ir.Symbol, int], ir.RuleRef] = {}
        self._at_most: dict[tuple[ir.Symbol, int], ir.RuleRef] = {}

    def productions(
        self, own: ir.RuleRef, body: Symbols, low: int, high: int | None
    ) -> list[ir.Production]:
        """Productions for the rule ``own``, which is ``low`` to ``high`` times ``body``.

        ``high`` is None for no bound. O(log high) rules.
        """
        if not body:
            return [ir.Production(())]
        if high is None:
            few = low * len(body) <= _INLINE_COPIES
            first = body * low if few else self.copies(self.unit(body), low)
            return [ir.Production(first), ir.Production((own, *body))]
        if low == 0 and high == 1:
            return [ir.Production(()), ir.Production(body)]
        return [ir.Production(self.between(self.unit(body), low, high))]

    def between(self, unit: ir.Symbol, low: int, high: int) -> Symbols:
        """``unit{low,high}``."""
        return self.copies(unit, low) + self._up_to(unit, high - low)

    def unit(self, body: Symbols) -> ir.Symbol:
        """One symbol for ``body``."""
        if len(body) == 1:
            return body[0]
        unit = self._units.get(body)
        if unit is None:
            unit = self._units[body] = self._helper([ir.Production(body)])
        return unit

    def copies(self, unit: ir.Symbol, count: int) -> Symbols:
        """``unit{count}``."""
        if count <= _INLINE_COPIES:
            return (unit,) * count
        key = (unit, count)
        found = self._powers.get(key)
        if found is None:
            half = self.copies(unit, count // 2)
            found = self._helper([ir.Production(half + half + (unit,) * (count % 2))])
            self._powers[key] = found
        return (found,)

    def _up_to(self, unit: ir.Symbol, count: int) -> Symbols:
        """``unit{0,count}``; see the head of the module."""
        if not count:
            return ()
        key = (unit, count)
        found = self._at_most.get(key)
        if found is None:
            few = (count - 1) // 2
            more = self.copies(unit, few + 1) + self._up_to(unit, count - few - 1)
            found = self._helper([ir.Production(self._up_to(unit, few)), ir.Production(more)])
            self._at_most[key] = found
        return (found,)
