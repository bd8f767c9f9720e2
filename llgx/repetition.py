"""Repetitions over symbols of a grammar as rules.

``x*`` and ``x+`` are left-recursive, so that the parser returns to the same row after each round.
``x{m,n}`` takes O(log n) rules: ``x{k}`` is made of two halves; ``x{0,k}`` is "at most ``a``, or
else ``a + 1`` and then at most ``k - a - 1``" with ``a = (k - 1) // 2``, so each count has one
derivation, and both smaller counts are again about half.
"""

from __future__ import annotations

from typing import Final

from llgx import ir

__all__ = ["Repetitions"]

_INLINE_COPIES: Final = 8

Symbols = tuple[ir.Symbol, ...]


class Repetitions:
    """Adds helper rules to ``rules``, and the same one for the same thing."""

    def __init__(self, rules: list[ir.Rule]) -> None:
        self._rules = rules
        self._units: dict[Symbols, ir.Symbol] = {}
        self._powers: dict[tuple[ir.Symbol, int], ir.RuleRef] = {}
        self._at_most: dict[tuple[ir.Symbol, int], ir.RuleRef] = {}

    def productions(
        self, own: ir.RuleRef, body: Symbols, low: int, high: int | None
    ) -> list[ir.Production]:
        """Productions for the rule ``own``, which is ``low`` to ``high`` times ``body``.

        ``high`` is None for no bound. No rule takes a parameter. O(log high) rules.
        """
        if not body:
            return [ir.Production(())]
        if high is None:
            first = body * low if low * len(body) <= _INLINE_COPIES else self._many(body, low)
            return [ir.Production(first), ir.Production((own, *body))]
        if low == 0 and high == 1:
            return [ir.Production(()), ir.Production(body)]
        return [ir.Production(self._many(body, low) + self._up_to(self._unit(body), high - low))]

    def _many(self, body: Symbols, count: int) -> Symbols:
        return self._copies(self._unit(body), count)

    def _unit(self, body: Symbols) -> ir.Symbol:
        """One symbol for ``body``."""
        if len(body) == 1:
            return body[0]
        unit = self._units.get(body)
        if unit is None:
            unit = self._units[body] = self._helper([ir.Production(body)])
        return unit

    def _copies(self, unit: ir.Symbol, count: int) -> Symbols:
        if count <= _INLINE_COPIES:
            return (unit,) * count
        key = (unit, count)
        found = self._powers.get(key)
        if found is None:
            half = self._copies(unit, count // 2)
            found = self._helper([ir.Production(half + half + (unit,) * (count % 2))])
            self._powers[key] = found
        return (found,)

    def _up_to(self, unit: ir.Symbol, count: int) -> Symbols:
        if not count:
            return ()
        key = (unit, count)
        found = self._at_most.get(key)
        if found is None:
            few = (count - 1) // 2
            more = self._copies(unit, few + 1) + self._up_to(unit, count - few - 1)
            found = self._helper([ir.Production(self._up_to(unit, few)), ir.Production(more)])
            self._at_most[key] = found
        return (found,)

    def _helper(self, productions: list[ir.Production]) -> ir.RuleRef:
        self._rules.append(ir.Rule("", productions))
        return ir.RuleRef(len(self._rules) - 1)
