"""The grammar under construction: rules and terminals of :mod:`llgx.ir`.

A helper rule takes the parameter of the rule around it exactly when something in it reads the
parameter. Equal repetitions (:mod:`llgx.repetition`) share their rules, equal skip terminals their
class.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

from llgx import ir
from llgx.errors import LimitError
from llgx.limits import Limits
from llgx.repetition import Repetitions, Symbols

__all__ = ["Builder", "Symbols", "reads_parameter"]

_SELF: Final = ir.ParamExpr("self")


class Builder:
    """What a whole grammar is collected in, its nested and referenced grammars included."""

    def __init__(self, limits: Limits) -> None:
        self.rules: list[ir.Rule] = []
        self.terminals: list[ir.Terminal] = []
        self.skip: list[int] = []
        self.once: set[int] = set()  # the classes that skip at most once per gap
        self._limits = limits
        self._symbol_count = 0
        self._classes: dict[tuple[Hashable, bool], int] = {}
        self._unbounded: dict[tuple[ir.Symbol, int], ir.RuleRef] = {}
        self._repetitions = Repetitions(self._counted_helper)

    def add_rule(self, rule: ir.Rule) -> int:
        """Append ``rule``; returns its index."""
        self.rules.append(rule)
        return len(self.rules) - 1

    def add_terminal(self, terminal: ir.Terminal) -> ir.TerminalRef:
        """Append ``terminal``."""
        self.terminals.append(terminal)
        return ir.TerminalRef(len(self.terminals) - 1)

    def skip_class(self, key: Hashable, once: bool) -> int:
        """A class of terminals; the same for equal keys, but a new one for None."""
        if key is not None:
            found = self._classes.get((key, once))
            if found is not None:
                return found
            self._classes[key, once] = len(self.skip)
        self.skip.append(-1)
        if once:
            self.once.add(len(self.skip) - 1)
        return len(self.skip) - 1

    def set_skip(self, skip_class: int, regex: ir.Regex) -> None:
        """Let ``regex`` be skipped before the terminals of a class, if nothing is yet."""
        if self.skip[skip_class] < 0:
            terminal = ir.Terminal("%ignore", regex, skip_class=skip_class)
            self.skip[skip_class] = self.add_terminal(terminal).index

    # Productions

    def count(self, production: ir.Production) -> ir.Production:
        """``production``, its symbols counted against ``Limits.symbols``."""
        self._symbol_count += 1 + len(production.symbols)
        if self._symbol_count > self._limits.symbols:
            raise LimitError("the grammar has too many symbols", limit="symbols")
        return production

    def helper(self, productions: Sequence[ir.Production]) -> ir.RuleRef:
        """A new rule without a name, applied to the parameter at hand if it reads it."""
        parametric = any(map(reads_parameter, productions))
        index = self.add_rule(ir.Rule("", list(productions), parametric))
        return ir.RuleRef(index, _SELF if parametric else None)

    def _counted_helper(self, productions: Sequence[ir.Production]) -> ir.RuleRef:
        return self.helper([self.count(production) for production in productions])

    # Repetition

    def repeat(self, symbols: Symbols, low: int, high: int | None) -> Symbols:
        """``low`` to ``high`` times ``symbols``; ``high`` is None for no bound."""
        if not symbols:
            return ()
        unit = self._repetitions.unit(symbols)
        if high is None:
            return (self._at_least(unit, low),)
        return self._repetitions.between(unit, low, high)

    def _at_least(self, unit: ir.Symbol, low: int) -> ir.RuleRef:
        """``unit{low,}``, left-recursive."""
        key = (unit, low)
        found = self._unbounded.get(key)
        if found is None:
            first = ir.Production(self._repetitions.copies(unit, low))
            parametric = reads_parameter(ir.Production((unit,)))
            found = ir.RuleRef(len(self.rules), _SELF if parametric else None)
            productions = [self.count(first), self.count(ir.Production((found, unit)))]
            self.add_rule(ir.Rule("", productions, parametric))
            self._unbounded[key] = found
        return found


def reads_parameter(production: ir.Production) -> bool:
    """Whether the production depends on the parameter of its rule."""
    return production.condition is not None or any(
        isinstance(symbol, ir.RuleRef)
        and symbol.argument is not None
        and symbol.argument.op != "const"
        for symbol in production.symbols
    )
