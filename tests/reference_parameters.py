"""Parameters of the reference twin: 64-bit unsigned integers.

``[a:b]`` is the slice of bits a to b - 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from llgx.ir import Condition, ParamExpr

__all__ = ["condition_holds", "evaluate"]

_ONES: Final = (1 << 64) - 1


def _slice(value: int, a: int, b: int) -> int:
    return value >> a & ((1 << (b - a)) - 1)


def evaluate(expression: ParamExpr, parameter: int) -> int:
    """The argument that ``expression`` stands for in a rule whose parameter is ``parameter``."""
    a, b = expression.a, expression.b
    if expression.op == "const":
        return a & _ONES
    if expression.op == "self":
        return parameter
    if expression.op == "set_bit":
        return parameter | 1 << a
    if expression.op == "clear_bit":
        return parameter & ~(1 << a)
    if expression.op == "bit_and":
        return parameter & a
    if expression.op == "bit_or":
        return parameter | a
    if expression.op == "incr":
        full = (1 << (b - a)) - 1
        return parameter if _slice(parameter, a, b) == full else parameter + (1 << a)
    if expression.op == "decr":
        return parameter if _slice(parameter, a, b) == 0 else parameter - (1 << a)
    raise ValueError(f"unknown expression {expression.op}")


_COMPARISONS: Final[dict[str, Callable[[int, int], bool]]] = {
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
}


def condition_holds(condition: Condition | None, parameter: int) -> bool:
    """Whether a production guarded by ``condition`` is there for this ``parameter``."""
    if condition is None or condition.op == "true":
        return True
    op, items = condition.op, condition.items
    part = _slice(parameter, condition.a, condition.b)
    if op in _COMPARISONS:
        return _COMPARISONS[op](part, condition.value)
    if op.startswith("bit_count_"):
        return _COMPARISONS[op.removeprefix("bit_count_")](bin(part).count("1"), condition.value)
    if op == "bit_set":
        return bool(parameter >> condition.a & 1)
    if op == "bit_clear":
        return not parameter >> condition.a & 1
    if op == "is_ones":
        return part == (1 << (condition.b - condition.a)) - 1
    if op == "is_zeros":
        return part == 0
    if op == "and":
        return all(condition_holds(item, parameter) for item in items)
    if op == "or":
        return any(condition_holds(item, parameter) for item in items)
    if op == "not":
        return not condition_holds(items[0], parameter)
    raise ValueError(f"unknown condition {op}")
