"""Parametric rules written out: one rule for each rule and parameter that can be reached.

The guards are gone after that, so a state from which no text can be completed is a rule that
derives nothing, which the core removes: no dead end is left. Rows without parameters are smaller,
too. Linear in the number of rules and states reached.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from llgx import ir

if TYPE_CHECKING:
    from llgx.json_schema.emit import Emitter

__all__ = ["evaluate", "expand", "holds"]

_ALL: Final = (1 << 64) - 1


def expand(emitter: Emitter) -> None:
    """Write out the machines that ask for it (``emitter.written_out``).

    A depth in the upper bits of the parameter stays. Rules that nothing refers to any more become
    empty.
    """
    starts = set(emitter.written_out)
    if not starts:
        return
    rules, first = emitter.rules, emitter.first_rule
    numbers: dict[tuple[int, int], ir.RuleRef] = {}
    todo: list[tuple[int, int, ir.Rule]] = []

    def state(index: int, value: int) -> ir.RuleRef:
        found = numbers.get((index, value))
        if found is None:
            rule, found = emitter.new_rule()
            numbers[index, value] = found
            todo.append((index, value, rule))
        return found

    for at in range(len(rules)):
        if first + at in emitter.machine_rules:
            continue
        for place, production in enumerate(rules[at].productions):
            for symbol in production.symbols:
                if symbol.index in starts and type(symbol) is ir.RuleRef:
                    break
            else:
                continue
            symbols = tuple(
                state(symbol.index, symbol.argument.a)
                if type(symbol) is ir.RuleRef and symbol.index in starts and symbol.argument
                else symbol
                for symbol in production.symbols
            )
            rules[at].productions[place] = ir.Production(symbols, production.condition)
    reached: set[int] = set()
    while todo:
        index, value, rule = todo.pop()
        reached.add(index)
        for production in rules[index - first].productions:
            condition = production.condition
            if condition is not None and not holds(condition, value):
                continue
            symbols = tuple(
                state(symbol.index, evaluate(symbol.argument, value))
                if type(symbol) is ir.RuleRef
                and symbol.argument is not None
                and symbol.index in emitter.machine_rules
                else symbol
                for symbol in production.symbols
            )
            rule.productions.append(ir.Production(symbols))
    for index in reached:
        rules[index - first] = ir.Rule("", [], True)


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
