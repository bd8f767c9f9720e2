"""Lets what a grammar skips stand before the grammars that are nested in it.

Terminals say by their class what may be skipped before them. The first lexeme of a nested grammar
stands among those of the grammar around it, so it takes their class, wherever it may be the first:
a nested grammar is entered through copies of those of its rules that a text of it can begin with.
A copy derives what the rule derives but the empty text, with the first lexeme in the other class.

Cost: one copy of each such rule for each class it is entered from; a production is copied once for
each symbol of it that may come first.
"""

from __future__ import annotations

import dataclasses

from llgx import ir
from llgx.lark.builder import Builder
from llgx.lark.shapes import Shapes

__all__ = ["Entrances"]


class Entrances:
    """The places where nested grammars are entered.

    Rules are copied by :meth:`finish`, when all are there.
    """

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self._places: dict[tuple[int, int], int] = {}
        self._targets: dict[int, int] = {}  # the start that an entrance leads to
        self._nullable: list[bool] = []
        self._copies: dict[tuple[int, int], int] = {}
        self._terminals: dict[tuple[int, int], ir.TerminalRef] = {}
        self._empty: dict[int, int] = {}
        self._todo: list[tuple[int, int]] = []
        self._todo_empty: list[int] = []
        self._shapes = Shapes()

    def enter(self, start: int, skip_class: int) -> ir.RuleRef:
        """The rule through which terminals of ``skip_class`` enter the grammar of ``start``."""
        key = (start, skip_class)
        index = self._places.get(key)
        if index is None:
            index = self._places[key] = self._builder.add_rule(ir.Rule("", []))
            self._targets[index] = start
        return ir.RuleRef(index)

    def finish(self) -> None:
        """Give the entrances their productions."""
        if not self._places:
            return
        for (start, _), index in self._places.items():
            self._builder.rules[index].productions.append(ir.Production((ir.RuleRef(start),)))
        self._nullable = self._nullable_rules()
        for (start, skip_class), index in self._places.items():
            if self._classes_below(start) <= {skip_class}:
                continue  # nothing to copy
            productions = [ir.Production((self._copy(start, skip_class, None),))]
            if self._nullable[start]:
                productions.append(ir.Production(self._empties((ir.RuleRef(start),))))
            self._builder.rules[index].productions = productions
        while self._todo or self._todo_empty:
            if self._todo:
                self._fill(*self._todo.pop())
            else:
                self._fill_empty(self._todo_empty.pop())

    def _classes_below(self, start: int) -> set[int]:
        """The classes of the terminals that may come first."""
        builder = self._builder
        seen = {start}
        stack = [start]
        classes: set[int] = set()
        while stack:
            for production in builder.rules[stack.pop()].productions:
                for symbol in production.symbols:
                    if isinstance(symbol, ir.TerminalRef):
                        classes.add(builder.terminals[symbol.index].skip_class)
                    elif symbol.index not in seen:
                        seen.add(symbol.index)
                        stack.append(symbol.index)
                    if not self._is_nullable(symbol):
                        break
        return classes

    def _is_nullable(self, symbol: ir.Symbol) -> bool:
        if isinstance(symbol, ir.TerminalRef):
            return self._shapes.of(self._builder.terminals[symbol.index].regex).nullable
        return self._nullable[symbol.index]

    def _copy(self, rule: int, skip_class: int, argument: ir.ParamExpr | None) -> ir.RuleRef:
        """The copy of a rule; that of an entrance is a copy of what it leads to."""
        rule = self._targets.get(rule, rule)
        key = (rule, skip_class)
        index = self._copies.get(key)
        if index is None:
            source = self._builder.rules[rule]
            index = self._builder.add_rule(dataclasses.replace(source, productions=[]))
            self._copies[key] = index
            self._todo.append(key)
        return ir.RuleRef(index, argument)

    def _terminal(self, index: int, skip_class: int) -> ir.TerminalRef:
        key = (index, skip_class)
        found = self._terminals.get(key)
        if found is None:
            terminal = self._builder.terminals[index]
            found = ir.TerminalRef(index)
            if terminal.skip_class != skip_class:
                copy = dataclasses.replace(terminal, skip_class=skip_class)
                found = self._builder.add_terminal(copy)
            self._terminals[key] = found
        return found

    def _fill(self, rule: int, skip_class: int) -> None:
        """The productions of a copy: for each symbol that may come first, one where it does."""
        builder = self._builder
        productions = builder.rules[self._copies[rule, skip_class]].productions
        for production in builder.rules[rule].productions:
            symbols = production.symbols
            for place, symbol in enumerate(symbols):
                first: ir.Symbol
                if isinstance(symbol, ir.TerminalRef):
                    first = self._terminal(symbol.index, skip_class)
                else:
                    first = self._copy(symbol.index, skip_class, symbol.argument)
                before = self._empties(symbols[:place])
                copied = ir.Production(
                    (*before, first, *symbols[place + 1 :]), production.condition
                )
                productions.append(builder.count(copied))
                if not self._is_nullable(symbol):
                    break

    def _empties(self, symbols: tuple[ir.Symbol, ...]) -> tuple[ir.Symbol, ...]:
        """What derives nothing but the empty text, with the guards and captures of ``symbols``."""
        return tuple(
            ir.RuleRef(self._empty_rule(symbol.index), symbol.argument)
            for symbol in symbols
            if isinstance(symbol, ir.RuleRef)
        )

    def _empty_rule(self, rule: int) -> int:
        """The copy of a rule that derives the empty text only; see :meth:`_copy` for entrances."""
        rule = self._targets.get(rule, rule)
        index = self._empty.get(rule)
        if index is None:
            copy = dataclasses.replace(self._builder.rules[rule], productions=[])
            index = self._empty[rule] = self._builder.add_rule(copy)
            self._todo_empty.append(rule)
        return index

    def _fill_empty(self, rule: int) -> None:
        productions = self._builder.rules[self._empty[rule]].productions
        for production in self._builder.rules[rule].productions:
            if all(map(self._is_nullable, production.symbols)):
                symbols = self._empties(production.symbols)
                copied = ir.Production(symbols, production.condition)
                productions.append(self._builder.count(copied))

    def _nullable_rules(self) -> list[bool]:
        """Which rules derive the empty text, if their guards let them. Linear."""
        rules = self._builder.rules
        known = [False] * len(rules)
        users: list[list[tuple[int, int]]] = [[] for _ in rules]
        open_symbols: list[int] = []
        ready: list[int] = []
        for index, rule in enumerate(rules):
            for production in rule.productions:
                needed = [s.index for s in production.symbols if isinstance(s, ir.RuleRef)]
                terminals = [s for s in production.symbols if isinstance(s, ir.TerminalRef)]
                if not all(map(self._is_nullable, terminals)):
                    continue
                for other in needed:
                    users[other].append((len(open_symbols), index))
                open_symbols.append(len(needed))
                if not needed:
                    ready.append(index)
        while ready:
            index = ready.pop()
            if known[index]:
                continue
            known[index] = True
            for number, user in users[index]:
                open_symbols[number] -= 1
                if not open_symbols[number]:
                    ready.append(user)
        return known
