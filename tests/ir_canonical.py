"""A canonical form of descriptions, to tell whether two are the same but for numbers and copies.

Terminals are compared by what they are; rules are put into classes by partition refinement, so that
two rules are in one class exactly if the productions, down to the terminals, are alike in number,
order and guards. A rule that derives what another one derives is that one. Then the classes are
numbered from the start rule on.
"""

from __future__ import annotations

import dataclasses

from llgx import ir

__all__ = ["canonical"]


def canonical(grammar: ir.GrammarIR) -> object:
    """Equal for descriptions that are the same but for numbers and copies."""
    grammar = _without_unions(_without_chains(grammar))
    terminals: dict[object, int] = {}
    kinds = [
        terminals.setdefault((t.regex, t.lazy, t.scope, t.distinct, t.unique, t.name), at)
        for at, t in enumerate(grammar.terminals)
    ]
    reached = [grammar.start]
    seen = {grammar.start}
    for rule in reached:
        for production in grammar.rules[rule].productions:
            for symbol in production.symbols:
                if isinstance(symbol, ir.RuleRef) and symbol.index not in seen:
                    seen.add(symbol.index)
                    reached.append(symbol.index)
    classes = dict.fromkeys(reached, 0)
    count = 1

    def shape(rule: int, of_rule: dict[int, int]) -> object:
        return frozenset(
            (
                tuple(
                    ("t", kinds[symbol.index])
                    if isinstance(symbol, ir.TerminalRef)
                    else ("r", of_rule[symbol.index], symbol.argument)
                    for symbol in production.symbols
                ),
                production.condition,
            )
            for production in grammar.rules[rule].productions
        )

    while True:
        names: dict[object, int] = {}
        refined = {
            rule: names.setdefault((classes[rule], shape(rule, classes)), len(names))
            for rule in reached
        }
        if len(names) == count:
            break
        classes, count = refined, len(names)
    order: dict[int, int] = {}
    todo = [grammar.start]
    result: list[object] = []
    while todo:
        rule = todo.pop()
        if classes[rule] in order:
            continue
        order[classes[rule]] = len(order)
        todo += [
            symbol.index
            for production in reversed(grammar.rules[rule].productions)
            for symbol in reversed(production.symbols)
            if isinstance(symbol, ir.RuleRef)
        ]
    done: set[int] = set()
    for rule in sorted(reached, key=lambda rule: order[classes[rule]]):
        if classes[rule] in done:
            continue
        done.add(classes[rule])
        result.append(
            [
                (
                    [
                        grammar.terminals[kinds[s.index]]
                        if isinstance(s, ir.TerminalRef)
                        else (order[classes[s.index]], s.argument)
                        for s in production.symbols
                    ],
                    production.condition,
                )
                for production in _each_once(grammar.rules[rule].productions)
            ]
        )
    skip = [-1 if at < 0 else grammar.terminals[at] for at in grammar.skip]
    return (result, skip, grammar.skip_once, len(grammar.warnings) > 0, sorted(grammar.unenforced))


def _without_unions(grammar: ir.GrammarIR) -> ir.GrammarIR:
    """Where one of several productions is another rule, those of that rule take its place."""

    def spread(productions: list[ir.Production], under_way: frozenset[int]) -> list[ir.Production]:
        if len(productions) < 2:
            return productions
        result = []
        for production in productions:
            symbols = production.symbols
            rule = symbols[0].index if len(symbols) == 1 and _is_plain_rule(symbols[0]) else -1
            if rule < 0 or production.condition is not None or rule in under_way:
                result.append(production)
            else:
                result += spread(grammar.rules[rule].productions, under_way | {rule})
        return result

    rules = [
        dataclasses.replace(rule, productions=spread(rule.productions, frozenset((at,))))
        for at, rule in enumerate(grammar.rules)
    ]
    return dataclasses.replace(grammar, rules=rules)


def _is_plain_rule(symbol: ir.Symbol) -> bool:
    return isinstance(symbol, ir.RuleRef) and symbol.argument is None


def _without_chains(grammar: ir.GrammarIR) -> ir.GrammarIR:
    def resolved(symbol: ir.Symbol) -> ir.Symbol:
        while isinstance(symbol, ir.RuleRef) and symbol.argument is None:
            productions = grammar.rules[symbol.index].productions
            if len(productions) != 1 or productions[0].condition is not None:
                break
            (*symbols,) = productions[0].symbols
            if len(symbols) != 1 or not isinstance(symbols[0], ir.RuleRef):
                break
            symbol = symbols[0]
        return symbol

    rules = [
        dataclasses.replace(
            rule,
            productions=[
                ir.Production(tuple(map(resolved, production.symbols)), production.condition)
                for production in rule.productions
            ],
        )
        for rule in grammar.rules
    ]
    start = resolved(ir.RuleRef(grammar.start))
    return dataclasses.replace(grammar, rules=rules, start=start.index)


def _each_once(productions: list[ir.Production]) -> list[ir.Production]:
    return list(dict.fromkeys(productions))
