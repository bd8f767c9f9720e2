"""Grammars made of grammars: rules and terminals of several descriptions in one.

What is embedded keeps its meaning: its own skip terminal, its own bound on tokens, and no skipping
before its first lexeme. Linear in what is embedded.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Final

from llgx import ir
from llgx.regex.build import intersect

__all__ = ["Composition"]

_SOMETHING: Final = ir.Repeat(ir.ANY_BYTE, 1, None)


class Composition:
    """A grammar under construction. Skip class 0 is for what skips nothing."""

    def __init__(self) -> None:
        self._rules: list[ir.Rule] = []
        self._terminals: list[ir.Terminal] = []
        self._skip: list[int] = [-1]
        self._once: set[int] = set()
        self._shared: dict[tuple[ir.Terminal, bytes | int], ir.TerminalRef] = {}
        self._warnings: list[str] = []
        self._unenforced: list[tuple[str, str, str]] = []
        self._forcing = True
        self._exact = False

    def terminal(self, terminal: ir.Terminal) -> ir.TerminalRef:
        """A terminal of skip class 0; equal texts, and equal names of one regex, are one.

        Regexes are told apart by identity: comparing them would take as long as they are large, and
        as much stack as they are deep.
        """
        regex = terminal.regex
        content = regex.data if isinstance(regex, ir.Literal) else id(regex)
        key = (dataclasses.replace(terminal, regex=ir.EMPTY), content)
        found = self._shared.get(key)
        if found is None:
            found = self._shared[key] = ir.TerminalRef(len(self._terminals))
            self._terminals.append(terminal)
        return found

    def rule(
        self,
        name: str,
        productions: Iterable[Sequence[ir.Symbol]],
        *,
        max_tokens: int | None = None,
    ) -> ir.RuleRef:
        """A rule with these alternatives."""
        bodies = [ir.Production(tuple(symbols)) for symbols in productions]
        self._rules.append(ir.Rule(name, bodies, max_tokens=max_tokens))
        return ir.RuleRef(len(self._rules) - 1)

    def recursive(self, name: str, item: Sequence[ir.Symbol], *, least: int = 0) -> ir.RuleRef:
        """``item``, any number of times but at least 0 or 1."""
        own = ir.RuleRef(len(self._rules))
        first = tuple(item) if least else ()
        self._rules.append(ir.Rule(name, [ir.Production(first), ir.Production((own, *item))]))
        return own

    def either(self, alternatives: Sequence[Sequence[ir.Symbol]]) -> tuple[ir.Symbol, ...]:
        """Any of ``alternatives``; a rule if there are several."""
        if len(alternatives) == 1:
            return tuple(alternatives[0])
        return (self.rule("", alternatives),)

    def embed(self, grammar: ir.GrammarIR) -> ir.RuleRef:
        """All of ``grammar``; its start rule.

        What ``exact`` and ``forcing`` say of one grammar holds for the whole.
        """
        rule_base, terminal_base = len(self._rules), len(self._terminals)
        class_base = len(self._skip)

        def moved(symbol: ir.Symbol) -> ir.Symbol:
            if isinstance(symbol, ir.TerminalRef):
                return ir.TerminalRef(symbol.index + terminal_base)
            return ir.RuleRef(symbol.index + rule_base, symbol.argument)

        self._terminals += [
            dataclasses.replace(terminal, skip_class=terminal.skip_class + class_base)
            for terminal in grammar.terminals
        ]
        for rule in grammar.rules:
            bodies = [
                ir.Production(tuple(map(moved, body.symbols)), body.condition)
                for body in rule.productions
            ]
            self._rules.append(dataclasses.replace(rule, productions=bodies))
        self._skip += [index + terminal_base if index >= 0 else -1 for index in grammar.skip]
        if grammar.skip_once:
            classes = grammar.skip_once_classes
            known = range(len(grammar.skip)) if classes is None else classes
            self._once.update(index + class_base for index in known)
        self._warnings += grammar.warnings
        self._unenforced += grammar.unenforced
        self._forcing = self._forcing and grammar.forcing
        self._exact = self._exact or grammar.exact
        start = ir.RuleRef(grammar.start + rule_base)
        if any(index >= 0 for index in grammar.skip) and not grammar.initial_skip:
            start = _Beginning(self._rules, self._terminals, self._skip).of(start)
        if grammar.max_tokens is not None:
            start = self.rule("", [(start,)], max_tokens=grammar.max_tokens)
        return start

    def finish(self, start: ir.RuleRef) -> ir.GrammarIR:
        """The grammar that begins with ``start``."""
        often = {place for place, index in enumerate(self._skip) if index >= 0} - self._once
        return ir.GrammarIR(
            rules=self._rules,
            terminals=self._terminals,
            start=start.index,
            skip=self._skip,
            skip_once=bool(self._once),
            skip_once_classes=frozenset(self._once) if self._once and often else None,
            forcing=self._forcing,
            exact=self._exact,
            warnings=self._warnings,
            unenforced=self._unenforced,
        )


class _Beginning:
    """Copies of rules that differ in one thing: nothing is skipped before their first lexeme.

    The copy of a rule derives what the rule does, but for the empty text: of each production one
    variant for each symbol that can be the first to derive something. Rules with a parameter that
    derive nothing do so under conditions; they are taken as they are, and as never empty.
    """

    def __init__(self, rules: list[ir.Rule], terminals: list[ir.Terminal], skip: list[int]) -> None:
        self._rules = rules
        self._terminals = terminals
        self._skip = skip
        self._copies: dict[ir.Symbol, ir.Symbol] = {}
        self._todo: list[tuple[ir.RuleRef, ir.RuleRef]] = []
        self._empty: set[int] = set()
        self._empty_terminals: dict[int, bool] = {}

    def of(self, start: ir.RuleRef) -> ir.RuleRef:
        """A rule for the texts of ``start``."""
        self._find_empty(start.index)
        first = self._copy(start)
        while self._todo:
            source, copy = self._todo.pop()
            rule = self._rules[source.index]
            bodies: list[ir.Production] = []
            for body in rule.productions:
                for place, symbol in enumerate(body.symbols):
                    symbols = (self._copy(symbol), *body.symbols[place + 1 :])
                    bodies.append(ir.Production(symbols, body.condition))
                    if not self._is_empty(symbol):
                        break
            self._rules[copy.index] = dataclasses.replace(rule, productions=bodies)
        assert isinstance(first, ir.RuleRef)
        if start.index not in self._empty:
            return first
        bodies = [ir.Production(()), ir.Production((first,))]
        self._rules.append(ir.Rule("", bodies))
        return ir.RuleRef(len(self._rules) - 1)

    def _find_empty(self, start: int) -> None:
        """The rules without a parameter that derive the empty text, of those below ``start``: the
        grammar may hold very many others."""
        below = {start: None}
        todo = [start]
        while todo:
            for body in self._rules[todo.pop()].productions:
                for symbol in body.symbols:
                    if isinstance(symbol, ir.RuleRef) and symbol.index not in below:
                        below[symbol.index] = None
                        todo.append(symbol.index)
        changed = True
        while changed:
            changed = False
            for index in reversed(below):
                rule = self._rules[index]
                if index in self._empty or rule.parametric:
                    continue
                if any(all(map(self._is_empty, body.symbols)) for body in rule.productions):
                    self._empty.add(index)
                    changed = True

    def _is_empty(self, symbol: ir.Symbol) -> bool:
        if isinstance(symbol, ir.RuleRef):
            return symbol.index in self._empty
        known = self._empty_terminals.get(symbol.index)
        if known is None:
            terminal = self._terminals[symbol.index]
            known = terminal.tokens is None and _matches_empty(terminal.regex)
            self._empty_terminals[symbol.index] = known
        return known

    def _copy(self, symbol: ir.Symbol) -> ir.Symbol:
        found = self._copies.get(symbol)
        if found is not None:
            return found
        if isinstance(symbol, ir.TerminalRef):
            terminal = self._terminals[symbol.index]
            if self._skip[terminal.skip_class] < 0 and not self._is_empty(symbol):
                return symbol
            regex = terminal.regex
            if self._is_empty(symbol):
                regex = intersect((regex, _SOMETHING))
            copy: ir.Symbol = ir.TerminalRef(len(self._terminals))
            self._terminals.append(dataclasses.replace(terminal, regex=regex, skip_class=0))
        else:
            copy = ir.RuleRef(len(self._rules), symbol.argument)
            self._rules.append(ir.Rule("", []))
            self._todo.append((symbol, copy))
        self._copies[symbol] = copy
        return copy


def _matches_empty(regex: ir.Regex) -> bool:
    """Whether ``regex`` matches the empty string. Each node is looked at once."""
    known: dict[int, bool] = {}
    stack = [(regex, False)]
    while stack:
        node, finished = stack.pop()
        if id(node) in known:
            continue
        if isinstance(node, (ir.Concat, ir.Alternation, ir.Intersection)):
            items: Sequence[ir.Regex] = node.items
        elif isinstance(node, (ir.Complement, ir.Repeat)):
            items = (node.item,)
        else:
            items = ()
        if not finished and items:
            stack.append((node, True))
            stack.extend((item, False) for item in items)
            continue
        values = [known[id(item)] for item in items]
        if isinstance(node, ir.Literal):
            known[id(node)] = not node.data
        elif isinstance(node, ir.Alternation):
            known[id(node)] = any(values)
        elif isinstance(node, ir.Complement):
            known[id(node)] = not values[0]
        elif isinstance(node, ir.Repeat):
            known[id(node)] = not node.low or values[0]
        else:
            known[id(node)] = isinstance(node, ir.Substring) or (
                isinstance(node, (ir.Concat, ir.Intersection)) and all(values)
            )
    return known[id(regex)]
