"""Emission of arrays.

Items that must be there stand in one production (many equal ones as O(log n) rules of halves), the
optional ones of the prefix are nested, and the rest is a left-recursive list or "at most n more",
again O(log n) rules: bounds of a million cost what bounds of thirty do. In "at most n" a smaller
half is taken or passed, so each length has one derivation.

Arrays with counted, unique or equal items: :mod:`llgx.json_schema.emit_items`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llgx.json_schema import emit_items
from llgx.json_schema.emit_machine import reachable
from llgx.json_schema.normal import ArrayGroup, Schema

if TYPE_CHECKING:
    from collections.abc import Callable

    from llgx import ir
    from llgx.json_schema.emit import Emitter, Symbols

__all__ = ["at_most", "exactly", "items", "productions"]

_INLINE = 6


def productions(emitter: Emitter, group: ArrayGroup, schema: Schema) -> list[Symbols]:
    """The texts of the arrays of ``group``."""
    high = reachable(group.high)
    if group.rest.is_never:
        high = len(group.prefix) if high is None else min(high, len(group.prefix))
    is_unique = group.unique and (high is None or high > 1)
    if (
        group.counted
        or group.duplicate
        or (is_unique and not emit_items.are_kept_apart(emitter, group))
    ):
        return emit_items.productions(emitter, group, schema)
    begin = emitter.open_array
    value = emitter.value
    if is_unique:
        begin = emitter.open_unique_array
        value = emitter.comparing.distinct_value
    bodies = () if high == 0 else (items(emitter, group, high, value),)
    return emitter.bracketed(begin, bodies, emitter.close_array, group.low == 0)


def items(
    emitter: Emitter,
    group: ArrayGroup,
    high: int | None,
    value: Callable[[Schema], ir.Symbol],
) -> Symbols:
    """The lists of at least one item."""
    low = max(group.low, 1)
    prefix = group.prefix if high is None else group.prefix[:high]
    head: list[ir.Symbol] = []
    for place, item in enumerate(prefix[:low]):
        if place:
            head += emitter.comma
        head.append(value(item))
    optional = prefix[low:]
    tail: Symbols = ()
    if high is None or high > len(prefix):
        rest = value(group.rest)
        step = (*emitter.comma, rest)
        missing = low - len(prefix[:low])
        if missing and not head:
            head.append(rest)
            missing -= 1
        head += exactly(emitter, step, missing)
        if high is None:
            if not optional:
                return (emitter.repeated((tuple(head),), step),)
            more = emitter.repeated((step,), step)
            tail = (emitter.rule(((), (more,))),)
        else:
            tail = at_most(emitter, step, high - max(low, len(prefix)))
    for item in reversed(optional):
        tail = (emitter.rule(((), (*emitter.comma, value(item), *tail))),)
    return (*head, *tail)


def exactly(emitter: Emitter, step: Symbols, count: int) -> Symbols:
    """``count`` times ``step``: O(log count) rules."""
    if count <= _INLINE:
        return step * count
    powers = _powers(emitter, step, count)
    return tuple(powers[bit] for bit in range(len(powers)) if count >> bit & 1)


def at_most(emitter: Emitter, step: Symbols, count: int) -> Symbols:
    """Up to ``count`` times ``step``, one derivation for each number: O(log count) rules."""
    if count <= 0:
        return ()
    powers = _powers(emitter, step, count)
    # Fewer than 2^k is fewer than 2^(k - 1), or so many and then fewer than 2^(k - 1) again; and
    # at most `count` is fewer than its highest power of two, or so many and at most the rest.
    below: list[Symbols] = [()]
    for power in powers[:-1]:
        below.append((emitter.rule((below[-1], (power, *below[-1]))),))
    result: Symbols = ()
    rest = 0
    for bit, power in enumerate(powers):
        if count >> bit & 1:
            rest |= 1 << bit
            if rest == (2 << bit) - 1 and bit + 1 < len(below):
                result = below[bit + 1]
            else:
                result = (emitter.rule((below[bit], (power, *result))),)
    return result


def _powers(emitter: Emitter, step: Symbols, count: int) -> list[ir.Symbol]:
    """1, 2, 4 … times ``step``, up to ``count``."""
    powers = [*emitter.one(step)]
    for _ in range(count.bit_length() - 1):
        powers.append(emitter.rule(((powers[-1], powers[-1]),)))
    return powers
