"""The values of schemas that have few: for ``uniqueItems`` and for what cannot be told apart.

A value is written as a tuple that says its type, so that values are equal exactly when JSON Schema
says so (``1`` and ``1.0`` are, ``1`` and ``true`` are not): ``("null",)``, ``("boolean", True)``,
``("number", Fraction(1))``, ``("string", "a")``, ``("array", (value, ...))``, ``("object",
frozenset({(name, value), ...}))``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from llgx.json_schema.meet import item_at
from llgx.json_schema.normal import (
    ArrayGroup,
    BoolGroup,
    Group,
    NullGroup,
    NumberGroup,
    ObjectGroup,
    Schema,
    StringGroup,
)

if TYPE_CHECKING:
    from llgx.json_schema.algebra import Algebra

__all__ = ["values_of"]

_DEEPEST: Final = 16


class _TooMany(Exception):
    pass


def values_of(algebra: Algebra, schema: Schema, most: int) -> list[object] | None:
    """All values of ``schema`` if there are at most ``most`` and that can be told, else None.

    None as well where values nest deeper than 16 levels. Exact otherwise.
    """
    try:
        return list(_values(algebra, schema, most, 0))
    except _TooMany:
        return None


def _values(algebra: Algebra, schema: Schema, most: int, depth: int) -> dict[object, None]:
    if depth > _DEEPEST:
        raise _TooMany
    found: dict[object, None] = {}
    for group in algebra.raw(schema):
        algebra.spend(1)
        for value in _group_values(algebra, group, most, depth):
            found[value] = None
            if len(found) > most:
                raise _TooMany
    return found


def _group_values(algebra: Algebra, group: Group, most: int, depth: int) -> Iterable[object]:
    if isinstance(group, NullGroup):
        return [("null",)]
    if isinstance(group, BoolGroup):
        return [("boolean", value) for value in sorted(group.values)]
    if isinstance(group, NumberGroup):
        numbers = group.numbers.enumerate(most)
        if numbers is None:
            raise _TooMany
        return [("number", value) for value in numbers]
    if isinstance(group, StringGroup):
        strings = group.strings.enumerate(most)
        if strings is None:
            raise _TooMany
        return [("string", value) for value in strings]
    if isinstance(group, ArrayGroup):
        return _arrays(algebra, group, most, depth)
    return _objects(algebra, group, most, depth)


def _arrays(algebra: Algebra, group: ArrayGroup, most: int, depth: int) -> Iterable[object]:
    if group.counted or group.duplicate:
        raise _TooMany
    length = 0
    current: list[tuple[object, ...]] = [()]
    while True:
        if length >= group.low:
            for items in current:
                if not group.unique or len(set(items)) == len(items):
                    yield ("array", items)
        if length == group.high:
            return
        if length > most and length >= len(group.prefix):
            if algebra.is_empty(group.rest):
                return
            raise _TooMany
        values = _values(algebra, item_at(group, length), most, depth + 1)
        if not values:
            return
        current = [(*items, value) for items in current for value in values]
        algebra.spend(len(current))
        if group.unique:
            current = [items for items in current if len(set(items)) == len(items)]
            if not current:
                return
        elif len(current) > most and length + 1 >= group.low:
            raise _TooMany
        if len(current) > 16 * most + 16:
            raise _TooMany
        length += 1


def _objects(algebra: Algebra, group: ObjectGroup, most: int, depth: int) -> Iterable[object]:
    if group.some:
        raise _TooMany
    choices: list[list[tuple[str, object] | None]] = []
    total = 1

    def add(name: str, schema: Schema, optional: bool) -> None:
        nonlocal total
        values = _values(algebra, schema, most, depth + 1)
        options: list[tuple[str, object] | None] = [None] if optional else []
        options += [(name, value) for value in values]
        total *= len(options)
        if total > 16 * most + 16:
            raise _TooMany
        choices.append(options)

    for member in group.members:
        add(member.name, member.schema, member.name not in group.required)
    for cell in group.cells:
        if algebra.is_empty(cell.schema):
            continue
        names = cell.names.enumerate(most)
        if names is None:
            raise _TooMany
        for name in names:
            add(name, cell.schema, True)
    algebra.spend(total)
    for picked in itertools.product(*choices):
        members = frozenset(item for item in picked if item is not None)
        if len(members) >= group.low and (group.high is None or len(members) <= group.high):
            yield ("object", members)
