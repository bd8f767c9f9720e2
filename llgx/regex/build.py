"""Constructors of :mod:`llgx.ir` regexes that keep trees small and flat.

What they return matches exactly what the plain nodes would. Sequences and alternations are flat,
adjacent literals are one literal, single bytes of an alternation are one byte set, which stands
first, and repeats that say nothing are gone. Each call is linear in the number of its arguments;
operands that are flat already are spliced in with one copy and not looked at again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from llgx import ir

__all__ = ["ANYTHING", "alternate", "complement", "concat", "intersect", "open_end", "repeat"]

ANYTHING: Final = ir.Repeat(ir.ANY_BYTE, 0, None)  # every byte string

# A sequence of more items than this is not looked through by `_matches_empty`.
_GLANCE = 16


def concat(items: Iterable[ir.Regex]) -> ir.Regex:
    """``items`` one after the other."""
    flat: list[ir.Regex] = []
    pending: list[bytes] = []
    for item in items:
        if isinstance(item, ir.Literal):
            pending.append(item.data)
            continue
        parts: tuple[ir.Regex, ...] = (item,)
        if isinstance(item, ir.Concat):
            parts = item.items
            if parts and isinstance(parts[0], ir.Literal):
                pending.append(parts[0].data)
                parts = parts[1:]
        elif item == ir.EMPTY:
            return ir.EMPTY
        if not parts:
            continue
        if data := b"".join(pending):
            flat.append(ir.Literal(data))
        pending.clear()
        flat.extend(parts)
        last = flat[-1]
        if isinstance(last, ir.Literal):
            pending.append(last.data)
            flat.pop()
    if data := b"".join(pending):
        flat.append(ir.Literal(data))
    if not flat:
        return ir.EPSILON
    return flat[0] if len(flat) == 1 else ir.Concat(tuple(flat))


def alternate(items: Iterable[ir.Regex]) -> ir.Regex:
    """Any of ``items``."""
    mask = 0
    flat: list[ir.Regex] = []
    seen: set[bytes] = set()
    for item in items:
        if isinstance(item, ir.ByteSet):
            mask |= item.mask
        elif isinstance(item, ir.Literal):
            if len(item.data) == 1:
                mask |= 1 << item.data[0]
            elif item.data not in seen:
                seen.add(item.data)
                flat.append(item)
        elif isinstance(item, ir.Alternation):
            parts = item.items
            if parts and isinstance(parts[0], ir.ByteSet):
                mask |= parts[0].mask
                parts = parts[1:]
            flat.extend(parts)
        elif not flat or item is not flat[-1]:
            flat.append(item)
    if mask.bit_count() == 1:
        single: ir.Regex = ir.Literal(bytes((mask.bit_length() - 1,)))
        flat.insert(0, single)
    elif mask:
        flat.insert(0, ir.ByteSet(mask))
    return flat[0] if len(flat) == 1 else ir.Alternation(tuple(flat))


def repeat(item: ir.Regex, low: int, high: int | None) -> ir.Regex:
    """``low`` to ``high`` times ``item``; the bounds are not expanded."""
    if high == 0 or item == ir.EPSILON:
        return ir.EPSILON
    if low == 1 and high == 1:
        return item
    if isinstance(item, ir.Alternation) and not item.items:
        return ir.EMPTY if low else ir.EPSILON
    if isinstance(item, ir.Repeat) and item.high is None and item.low <= 1:
        # Rounds of `x*` or `x+` add up to one run.
        return ir.Repeat(item.item, item.low * low, None)
    if isinstance(item, ir.Repeat) and item.low == 0 and item.high == 1 and high is None:
        return ir.Repeat(item.item, 0, None)
    return ir.Repeat(item, low, high)


def complement(item: ir.Regex) -> ir.Regex:
    """Every byte string but those of ``item``."""
    return item.item if isinstance(item, ir.Complement) else ir.Complement(item)


def open_end(item: ir.Regex, rest: ir.Regex) -> ir.Regex:
    """``item`` with :data:`ANYTHING` for ``rest``, any text, where it ends in that.

    Among texts the two match the same. But where nothing is asked of the end any more, what is left
    of the result is every byte string, and that of its complement nothing, plain to see.
    """
    if item == rest:
        return ANYTHING
    if isinstance(item, ir.Concat) and item.items[-1] == rest:
        return ir.Concat((*item.items[:-1], ANYTHING))
    if isinstance(item, ir.Alternation) and len(item.items) <= _GLANCE:
        return ir.Alternation(
            tuple(
                option if isinstance(option, ir.Alternation) else open_end(option, rest)
                for option in item.items
            )
        )
    return item


def intersect(items: Iterable[ir.Regex]) -> ir.Regex:
    """What all of ``items`` match."""
    flat: list[ir.Regex] = []
    for item in items:
        for part in item.items if isinstance(item, ir.Intersection) else (item,):
            if part == ir.EMPTY:
                return ir.EMPTY
            if not any(part is other for other in flat):
                flat.append(part)
    if ir.EPSILON in flat:
        known = [_matches_empty(item) for item in flat]
        if False in known:
            return ir.EMPTY
        flat = [item for item, state in zip(flat, known, strict=True) if state is None]
        flat.append(ir.EPSILON)
    return flat[0] if len(flat) == 1 else ir.Intersection(tuple(flat))


def _matches_empty(item: ir.Regex) -> bool | None:
    """Whether ``item`` matches the empty string; None where a glance does not tell."""
    if isinstance(item, ir.Literal):
        return not item.data
    if isinstance(item, ir.ByteSet):
        return False
    if isinstance(item, ir.Repeat) and not item.low:
        return True
    if isinstance(item, ir.Concat) and len(item.items) <= _GLANCE:
        if any(
            isinstance(part, (ir.Literal, ir.ByteSet)) and part != ir.EPSILON for part in item.items
        ):
            return False
        if all(isinstance(part, ir.Repeat) and not part.low for part in item.items):
            return True
    return None
