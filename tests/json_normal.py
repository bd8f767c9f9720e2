"""Which documents a normal form allows: the groups of the algebra, read literally.

Between the algebra, which makes groups, and emission, which makes rules of them, this tells whose
fault a wrong answer is. Recursive, and slow: for small documents.
"""

from __future__ import annotations

import decimal
from fractions import Fraction
from typing import Any

from llgx.json_schema import normal

__all__ = ["allows", "same"]


def allows(schema: normal.Schema, document: Any) -> bool:
    """Whether some group of ``schema`` has ``document``, whose numbers are exact."""
    return any(_has(group, document) for group in schema.groups)


def same(a: Any, b: Any) -> bool:
    """Equality of JSON values, in which ``True`` is not 1."""
    if isinstance(a, bool) != isinstance(b, bool):
        return False
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return bool(a == b)


def _has(group: normal.Group, document: Any) -> bool:
    if isinstance(group, normal.NullGroup):
        return document is None
    if isinstance(group, normal.BoolGroup):
        return isinstance(document, bool) and document in group.values
    if isinstance(group, normal.NumberGroup):
        if isinstance(document, bool) or not isinstance(document, (int, float, decimal.Decimal)):
            return False
        exact = Fraction(repr(document) if isinstance(document, float) else document)
        return group.numbers.contains(exact)
    if isinstance(group, normal.StringGroup):
        return isinstance(document, str) and group.strings.contains(document)
    if isinstance(group, normal.ArrayGroup):
        return isinstance(document, list) and _has_array(group, document)
    return isinstance(document, dict) and _has_object(group, document)


def _within(count: int, low: int, high: int | None) -> bool:
    return low <= count and (high is None or count <= high)


def _has_array(group: normal.ArrayGroup, items: list[Any]) -> bool:
    if not _within(len(items), group.low, group.high):
        return False
    for index, item in enumerate(items):
        schema = group.prefix[index] if index < len(group.prefix) else group.rest
        if not allows(schema, item):
            return False
    for counted in group.counted:
        found = sum(allows(counted.schema, item) for item in items[counted.start :])
        if not _within(found, counted.low, counted.high):
            return False
    repeated = any(same(a, b) for i, a in enumerate(items) for b in items[:i])
    return not (group.unique and repeated) and not (group.duplicate and not repeated)


def _has_object(group: normal.ObjectGroup, members: dict[str, Any]) -> bool:
    if not _within(len(members), group.low, group.high) or not group.required <= members.keys():
        return False
    named = {member.name: member.schema for member in group.members}
    for name, value in members.items():
        if name in named:
            schemas = [named[name]]
        else:
            schemas = [cell.schema for cell in group.cells if cell.names.contains(name)]
        if len(schemas) != 1 or not allows(schemas[0], value):
            return False
    return all(
        any(some.names.contains(name) and allows(some.schema, members[name]) for name in members)
        for some in group.some
    )
