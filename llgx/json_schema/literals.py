"""JSON values as schemas of themselves, for ``const`` and ``enum``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from llgx.json_schema.loading import number_of
from llgx.json_schema.meet import make_array, make_object
from llgx.json_schema.normal import (
    BoolGroup,
    Group,
    NullGroup,
    NumberGroup,
    Place,
    Schema,
    StringGroup,
)
from llgx.json_schema.numbers import NumberSet
from llgx.json_schema.strings import StringSet

if TYPE_CHECKING:
    from llgx.json_schema.algebra import Algebra

__all__ = ["literals"]

_DEEPEST = 100


def literals(algebra: Algebra, values: Iterable[Any], place: Place, depth: int = 0) -> Schema:
    """The schema of just ``values``; arrays and objects item by item, in their own order.

    Raises ``ValueError`` for what is no JSON value and for what nests more than 100 levels deep.
    """
    if depth > _DEEPEST:
        raise ValueError(f"a value nests more than {_DEEPEST} levels deep")
    groups: list[Group] = []
    strings: list[str] = []
    numbers: list[Fraction] = []
    for value in values:
        if isinstance(value, str):
            strings.append(value)
        elif value is None:
            groups.append(NullGroup())
        elif isinstance(value, bool):
            groups.append(BoolGroup(frozenset((value,))))
        elif isinstance(value, Mapping):
            algebra.spend(1)
            members = {
                name: literals(algebra, (item,), place, depth + 1) for name, item in value.items()
            }
            made = make_object(algebra, members, (), frozenset(members))
            if made is not None:
                groups.append(made)
        elif isinstance(value, (list, tuple)):
            algebra.spend(1)
            items = [literals(algebra, (item,), place, depth + 1) for item in value]
            array = make_array(algebra, items, algebra.never, len(items), len(items))
            if array is not None:
                groups.append(array)
        else:
            number = number_of(value)
            if number is None:
                raise ValueError(f"{value!r} is no JSON value")
            numbers.append(number)
    if strings:
        groups.append(StringGroup(StringSet.of(strings)))
    if numbers:
        groups.append(NumberGroup(NumberSet.of(numbers)))
    return algebra.leaf(groups, place)
