"""Parametric rules written out: one rule for each rule and parameter that can be reached.

The guards are gone after that, so a state from which no text can be completed is a rule that
derives nothing, which the core removes: no dead end is left. Rows without parameters are smaller,
too. Linear in the number of rules and states reached.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from llgx import ir

__all__ = ["expand"]

_ALL: Final = (1 << 64) - 1


def expand(rules: list[ir.Rule], starts: Iterable[int], first: int = 0) -> None:
    """Write out what the parametric rules ``starts`` reach from constant arguments elsewhere.

    ``rules`` are numbered from ``first``. Rules that nothing refers to any more become empty.
    """
    wanted = {start - first for start in starts}
    if not wanted:
        return
    numbers: dict[tuple[int, int], int] = {}
    todo: list[tuple[int, int, int]] = []

    def state(rule: int, value: int) -> ir.RuleRef:
        number = numbers.get((rule, value))
        if number is None:
            number = numbers[rule, value] = len(rules)
            rules.append(ir.Rule("", []))
            todo.append((rule, value, number))
        return ir.RuleRef(first + number)

    for at in range(len(rules)):
        rule = rules[at]
        if rule.parametric:
            continue
        for place, production in enumerate(rule.productions):
            if any(_is_start(symbol, wanted, first) for symbol in production.symbols):
                symbols = tuple(
                    state(symbol.index - first, symbol.argument.a)  # type: ignore[union-attr]
                    if _is_start(symbol, wanted, first)
                    else symbol
                    for symbol in production.symbols
                )
                rule.productions[place] = ir.Production(symbols, production.condition)
    reached: set[int] = set()
    while todo:
        source, value, number = todo.pop()
        reached.add(source)
        productions = rules[number].productions
        for production in rules[source].productions:
            condition = production.condition
            if condition is not None and not holds(condition, value):
                continue
            symbols = tuple(
                state(symbol.index - first, evaluate(symbol.argument, value))
                if type(symbol) is ir.RuleRef and symbol.argument is not None
                else symbol
                for symbol in production.symbols
            )
            productions.append(ir.Production(symbols))
    for source in reached:
        rules[source] = ir.Rule("", [], True)


def _is_start(symbol: ir.Symbol, wanted: set[int], first: int) -> bool:
    return (
        type(symbol) is ir.RuleRef
        and symbol.argument is not None
        and symbol.argument.op == "const"
        and symbol.index - first in wanted
    )


def evaluate(argument: ir.ParamExpr, value: int) -> int:
    """The parameter that ``argument`` gives where it is ``value``."""
    op, a, b = argument.op, argument.a, argument.b
    if op == "self":
        return value
    if op == "const":
        return a
    if op == "set_bit":
        return value | 1 << a
    if op == "clear_bit":
        return value & ~(1 << a) & _ALL
    if op == "bit_and":
        return value & a
    if op == "bit_or":
        return value | a
    ones = (1 << (b - a)) - 1
    part = value >> a & ones
    part = min(part + 1, ones) if op == "incr" else max(part - 1, 0)
    return value & ~(ones << a) & _ALL | part << a


def holds(condition: ir.Condition, value: int) -> bool:
    """Whether the guard ``condition`` lets the parameter ``value`` pass."""
    op = condition.op
    if op == "true":
        return True
    if op == "and":
        return all(holds(item, value) for item in condition.items)
    if op == "or":
        return any(holds(item, value) for item in condition.items)
    if op == "not":
        return not holds(condition.items[0], value)
    if op == "bit_set":
        return bool(value >> condition.a & 1)
    if op == "bit_clear":
        return not value >> condition.a & 1
    ones = (1 << (condition.b - condition.a)) - 1
    part = value >> condition.a & ones
    if op == "is_ones":
        return part == ones
    if op == "is_zeros":
        return part == 0
    if op.startswith("bit_count_"):
        part = bin(part).count("1")
        op = op[10:]
    other = condition.value
    return {
        "eq": part == other,
        "ne": part != other,
        "lt": part < other,
        "le": part <= other,
        "gt": part > other,
        "ge": part >= other,
    }[op]
