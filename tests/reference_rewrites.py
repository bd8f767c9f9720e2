"""What the reference twin does to a description before it begins: zero limits and hidden tails."""

from __future__ import annotations

import dataclasses

from llgx.ir import (
    Concat,
    GrammarIR,
    Intersection,
    Literal,
    Production,
    Regex,
    Rule,
    RuleRef,
    TerminalRef,
)
from tests.reference_regex import (
    EVERYTHING,
    derivative,
    is_empty,
    may_be_empty,
    normalise,
    nullable,
)

__all__ = ["with_literal_tails", "without_tail", "without_zero_limits"]


def without_tail(regex: Regex, tail: Regex) -> Regex:
    """What is before ``tail`` in a regex that was put together of both; else anything."""
    if isinstance(regex, Concat) and len(regex.items) == 2 and regex.items[1] == tail:
        return regex.items[0]
    return EVERYTHING


def without_zero_limits(ir: GrammarIR) -> GrammarIR:
    """A rule that may spend no token derives nothing."""
    rules = [
        dataclasses.replace(rule, productions=[Production(())], max_tokens=None)
        if rule.max_tokens == 0
        else rule
        for rule in ir.rules
    ]
    return dataclasses.replace(ir, rules=rules)


def with_literal_tails(ir: GrammarIR) -> GrammarIR:
    """``ir`` with one terminal for each text of a hidden tail, where these are few and short."""
    rules = [dataclasses.replace(rule, productions=list(rule.productions)) for rule in ir.rules]
    terminals = list(ir.terminals)
    for index, terminal in enumerate(ir.terminals):
        texts = _short_texts(terminal.tail) if terminal.hidden_tail and terminal.tail else None
        if texts is None:
            continue
        body = without_tail(terminal.regex, terminal.tail)
        productions = []
        for text in sorted(texts):
            parts = Concat((body, Literal(text)))
            regex = Intersection((terminal.regex, parts)) if body == EVERYTHING else parts
            productions.append(Production((TerminalRef(len(terminals)),)))
            terminals.append(dataclasses.replace(terminal, regex=regex, tail=Literal(text)))
        for rule in rules[: len(ir.rules)]:
            for at, production in enumerate(rule.productions):
                symbols = tuple(
                    RuleRef(len(rules)) if symbol == TerminalRef(index) else symbol
                    for symbol in production.symbols
                )
                rule.productions[at] = dataclasses.replace(production, symbols=symbols)
        rules.append(Rule("", productions))
    return dataclasses.replace(ir, rules=rules, terminals=terminals)


def _short_texts(regex: Regex) -> set[bytes] | None:
    """All texts of a regex if they are at most 64 of at most 200 bytes, by trying bytes.

    A regex with complements, intersections or remainders is not looked into.
    """
    if may_be_empty(regex):
        return None
    todo = [(b"", normalise(regex))]
    alphabet = range(256)
    found: set[bytes] = set()
    while todo:
        text, residual = todo.pop()
        if nullable(residual):
            found.add(text)
        longer = [(text + bytes((b,)), derivative(residual, b)) for b in alphabet]
        todo += [(text, residual) for text, residual in longer if not is_empty(residual)]
        if len(found) + len(todo) > 64 or len(text) > 200:
            return None
    return found
