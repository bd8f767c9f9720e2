"""Whether a JSON value belongs to a schema in normal form, as plainly as it can be said."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from llgx.json_schema.loading import number_of
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


def belongs(schema: Schema, value: Any) -> bool:
    """Whether ``value`` (as the json module reads it) is in any group of ``schema``."""
    return any(in_group(group, value) for group in schema.groups)


def in_group(group: Group, value: Any) -> bool:
    if isinstance(group, NullGroup):
        return value is None
    if isinstance(group, BoolGroup):
        return isinstance(value, bool) and value in group.values
    if isinstance(group, NumberGroup):
        number = number_of(value)
        return number is not None and group.numbers.contains(number)
    if isinstance(group, StringGroup):
        return isinstance(value, str) and group.strings.contains(value)
    if isinstance(group, ArrayGroup):
        return isinstance(value, list) and _in_array(group, value)
    return isinstance(value, dict) and _in_object(group, value)


def _in_array(group: ArrayGroup, items: list[Any]) -> bool:
    if len(items) < group.low or (group.high is not None and len(items) > group.high):
        return False
    for index, item in enumerate(items):
        schema = group.prefix[index] if index < len(group.prefix) else group.rest
        if not belongs(schema, item):
            return False
    for one in group.counted:
        count = sum(belongs(one.schema, item) for item in items[one.start :])
        if count < one.low or (one.high is not None and count > one.high):
            return False
    distinct = len({key_of(item) for item in items}) == len(items)
    return not (group.unique and not distinct) and not (group.duplicate and distinct)


def _in_object(group: ObjectGroup, members: dict[str, Any]) -> bool:
    if len(members) < group.low or (group.high is not None and len(members) > group.high):
        return False
    if not group.required <= members.keys():
        return False
    named = {member.name: member.schema for member in group.members}
    for name, value in members.items():
        schemas = [cell.schema for cell in group.cells if cell.names.contains(name)]
        assert len(schemas) <= 1, f"cells overlap at {name!r}"
        if name in named:
            assert not schemas, f"the member {name!r} is in a cell too"
            schemas = [named[name]]
        if not schemas or not belongs(schemas[0], value):
            return False
    return all(
        any(one.names.contains(name) and belongs(one.schema, v) for name, v in members.items())
        for one in group.some
    )


def key_of(value: Any) -> object:
    """Equal for equal JSON values only."""
    if isinstance(value, dict):
        return ("object", frozenset((name, key_of(item)) for name, item in value.items()))
    if isinstance(value, list):
        return ("array", tuple(map(key_of, value)))
    number = number_of(value)
    if number is not None:
        return ("number", Fraction(number))
    return (type(value).__name__, value)
