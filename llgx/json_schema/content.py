"""Facts about regexes over the content of a string, read off their trees.

Lengths count code points: a continuation byte of UTF-8 counts nothing. Everything here is linear in
the tree and goes through it with a stack of its own, since trees may be deeper than Python's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from llgx import ir
from llgx.regex.build import alternate, concat, repeat
from llgx.regex.utf8 import ANY_CHAR, ANY_TEXT

__all__ = [
    "fold",
    "is_plainly_inhabited",
    "length_bounds",
    "literal_prefix",
    "literals",
    "of_length",
    "with_length",
]

_T = TypeVar("_T")

Bounds = tuple[int, "int | None"]

_MOST_KEPT: Final = 1_000
_CHARACTERS: Final[dict[int, tuple[ir.Regex, Bounds | None]]] = {}
_NOTHING_KEPT: Final[dict[int, Any]] = {}
_CONTINUATION: Final = ((1 << 64) - 1) << 0x80


def fold(
    tree: ir.Regex,
    visit: Callable[[ir.Regex, list[_T]], _T],
    kept: Mapping[int, tuple[ir.Regex, _T]] = _NOTHING_KEPT,
) -> _T:
    """``visit(node, results of its children)`` from the leaves up; each object once.

    Objects whose identity is in ``kept``, with themselves, are not visited.
    """
    return fold_all(tree, visit, kept)[id(tree)]


def fold_all(
    tree: ir.Regex,
    visit: Callable[[ir.Regex, list[_T]], _T],
    kept: Mapping[int, tuple[ir.Regex, _T]] = _NOTHING_KEPT,
) -> dict[int, _T]:
    """:func:`fold` of every node, by its identity; nothing of what is below nodes that are kept."""
    known: dict[int, _T] = {}
    stack: list[tuple[ir.Regex, tuple[ir.Regex, ...] | None]] = [(tree, None)]
    while stack:
        node, parts = stack.pop()
        place = id(node)
        if parts is not None:
            known[place] = visit(node, [known[id(part)] for part in parts])
        elif place not in known:
            found = kept.get(place)
            if found is not None:
                known[place] = found[1]
                continue
            parts = _parts(node)
            if not parts:
                known[place] = visit(node, [])
                continue
            stack.append((node, parts))
            stack += [(part, None) for part in parts if id(part) not in known]
    return known


def _parts(node: ir.Regex) -> tuple[ir.Regex, ...]:
    # Most are bytes.
    if isinstance(node, (ir.Literal, ir.ByteSet)):
        return ()
    if isinstance(node, (ir.Concat, ir.Alternation, ir.Intersection)):
        return node.items
    return (node.item,) if isinstance(node, (ir.Complement, ir.Repeat)) else ()


def is_plainly_inhabited(tree: ir.Regex) -> bool:
    """Whether it is plain to see that some text matches: no ``&``, ``~`` or empty alternation."""
    stack = [tree]
    seen: set[int] = set()  # by identity: trees may share parts
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, (ir.Intersection, ir.Complement, ir.Remainder)):
            return False
        if isinstance(node, ir.ByteSet):
            if not node.mask:
                return False
            continue
        parts = _parts(node)
        if not parts and isinstance(node, ir.Alternation):
            return False
        stack += parts
    return True


def literal_prefix(tree: ir.Regex) -> bytes:
    """What every match begins with, as far as the beginning of ``tree`` is literal."""
    prefix = b""
    for item in tree.items if isinstance(tree, ir.Concat) else (tree,):
        if not isinstance(item, ir.Literal):
            break
        prefix += item.data
    return prefix


def literals(tree: ir.Regex) -> list[bytes] | None:
    """All matches of ``tree`` where it lists them one by one, else None."""
    items = tree.items if isinstance(tree, ir.Alternation) else (tree,)
    found = [item.data for item in items if isinstance(item, ir.Literal)]
    return found if len(found) == len(items) else None


def length_bounds(tree: ir.Regex) -> Bounds | None:
    """The least and the greatest length of a match, or bounds of these; None if nothing matches."""
    return _all_bounds(tree)[id(tree)]


def _all_bounds(tree: ir.Regex) -> dict[int, Bounds | None]:
    """:func:`length_bounds` of ``tree`` and what it is made of, down to single characters."""
    if len(_CHARACTERS) > _MOST_KEPT:
        _CHARACTERS.clear()
    return fold_all(tree, _bounds, _CHARACTERS)


def _bounds(node: ir.Regex, parts: list[Bounds | None]) -> Bounds | None:
    if isinstance(node, ir.Literal):
        length = sum(byte & 0xC0 != 0x80 for byte in node.data)
        return length, length
    if isinstance(node, ir.ByteSet):
        if not node.mask:
            return None
        return int(not node.mask & _CONTINUATION), int(bool(node.mask & ~_CONTINUATION))
    if isinstance(node, ir.Concat):
        low, high = 0, 0
        open_end = False
        for part in parts:
            if part is None:
                return None
            low += part[0]
            open_end = open_end or part[1] is None
            high += part[1] or 0
        return low, None if open_end else high
    if isinstance(node, ir.Alternation):
        known = [part for part in parts if part is not None]
        if not known:
            return None
        result = min(low for low, _ in known), _highest([high for _, high in known])
        if result == (1, 1) and type(node.items[0]) is ir.ByteSet:
            # The alternatives of a character are shared by all trees: see llgx.regex.utf8.
            _CHARACTERS[id(node)] = (node, result)
        return result
    if isinstance(node, ir.Intersection):
        low, top = 0, None
        for part in parts:
            if part is None:
                return None
            low = max(low, part[0])
            top = part[1] if top is None else top if part[1] is None else min(top, part[1])
        return None if top is not None and top < low else (low, top)
    if isinstance(node, ir.Repeat):
        part = parts[0]
        if part is None:
            return None if node.low else (0, 0)
        if node.high is None:
            return part[0] * node.low, 0 if part[1] == 0 else None
        return part[0] * node.low, None if part[1] is None else part[1] * node.high
    return 0, None


def _highest(highs: list[int | None]) -> int | None:
    return None if None in highs else max(high for high in highs if high is not None)


def of_length(low: int, high: int | None) -> ir.Regex:
    """All texts of ``low`` to ``high`` characters."""
    return ANY_TEXT if low == 0 and high is None else repeat(ANY_CHAR, low, high)


def with_length(tree: ir.Regex, low: int, high: int | None) -> ir.Regex | None:
    """The matches of ``tree`` with ``low`` to ``high`` characters where one loop can count them.

    None where an intersection is needed.
    """
    return _with_length(tree, low, high, _all_bounds(tree))


def _with_length(
    tree: ir.Regex, low: int, high: int | None, known: Mapping[int, Bounds | None]
) -> ir.Regex | None:
    bounds = known[id(tree)]
    if bounds is None:
        return ir.EMPTY
    shortest, longest = bounds
    if (high is not None and shortest > high) or (longest is not None and longest < low):
        return ir.EMPTY
    if shortest >= low and (high is None or (longest is not None and longest <= high)):
        return tree
    if isinstance(tree, ir.Repeat):
        return _count(tree, 0, low, high, known)
    if isinstance(tree, ir.Concat):
        return _count_concat(tree, low, high, known)
    if isinstance(tree, ir.Alternation) and len(tree.items) <= 64:
        options = []
        for item in tree.items:
            option = _with_length(item, low, high, known) if _is_shallow(item) else None
            if option is None:
                return None
            options.append(option)
        return alternate(options)
    return None


def _is_shallow(tree: ir.Regex) -> bool:
    return not isinstance(tree, ir.Alternation)


def _count(
    tree: ir.Repeat, others: int, low: int, high: int | None, known: Mapping[int, Bounds | None]
) -> ir.Regex | None:
    """``tree``, next to a fixed number of other characters, with its rounds bounded."""
    if known[id(tree.item)] != (1, 1):
        return None
    least = max(tree.low, low - others)
    most = tree.high
    if high is not None:
        most = high - others if most is None else min(most, high - others)
    return ir.EMPTY if most is not None and most < least else repeat(tree.item, least, most)


def _count_concat(
    tree: ir.Concat, low: int, high: int | None, known: Mapping[int, Bounds | None]
) -> ir.Regex | None:
    loop = None
    others = 0
    for index, item in enumerate(tree.items):
        bounds = known[id(item)]
        if bounds is None:
            return ir.EMPTY
        if bounds[0] == bounds[1]:
            others += bounds[0]
        elif loop is None:
            loop = index
        else:
            return None
    assert loop is not None
    counted = _with_length(tree.items[loop], max(low - others, 0), _less(high, others), known)
    if counted is None:
        return None
    return concat((*tree.items[:loop], counted, *tree.items[loop + 1 :]))


def _less(high: int | None, others: int) -> int | None:
    return None if high is None else high - others
