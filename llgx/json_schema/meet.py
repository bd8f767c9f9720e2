"""Conjunction of two groups of one type, and the canonical form of arrays and objects.

:func:`meet` refutes early: it returns None as soon as the two groups are seen to have no value in
common, and looks at what objects require before it builds anything. It does not look below the
schemas of members and items, so that a group that it returns may still have no value. Linear in the
members and in the product of the cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from llgx.json_schema.normal import (
    KIND_ANY,
    KIND_NEVER,
    ArrayGroup,
    BoolGroup,
    Cell,
    Counted,
    Group,
    Member,
    NumberGroup,
    ObjectGroup,
    Schema,
    Some,
    StringGroup,
)
from llgx.json_schema.strings import StringSet

if TYPE_CHECKING:
    from llgx.json_schema.algebra import Algebra

__all__ = ["drop_subsumed", "item_at", "make_array", "make_object", "meet", "value_of"]

_NO_NAMES: Final = StringSet.NONE
_MOST_COMPARED: Final = 250


def meet(algebra: Algebra, left: Group, right: Group) -> Group | None:
    """The values in both groups, which are of the same type; None if there are surely none."""
    if left == right:
        return left
    if isinstance(left, ObjectGroup):
        assert isinstance(right, ObjectGroup)
        return _meet_objects(algebra, left, right)
    if isinstance(left, ArrayGroup):
        assert isinstance(right, ArrayGroup)
        return _meet_arrays(algebra, left, right)
    if isinstance(left, StringGroup):
        assert isinstance(right, StringGroup)
        strings = left.strings.meet(right.strings)
        values = strings.values
        return None if values is not None and not values else StringGroup(strings)
    if isinstance(left, NumberGroup):
        assert isinstance(right, NumberGroup)
        numbers = left.numbers.meet(right.numbers)
        return None if numbers.is_empty() else NumberGroup(numbers)
    if isinstance(left, BoolGroup):
        assert isinstance(right, BoolGroup)
        both = left.values & right.values
        return BoolGroup(both) if both else None
    return left


def drop_subsumed(algebra: Algebra, groups: list[Group]) -> list[Group]:
    """``groups`` without objects that surely belong to another of them.

    Quadratic, so that longer lists are left as they are.
    """
    objects = [group for group in groups if isinstance(group, ObjectGroup)]
    if not 1 < len(objects) <= _MOST_COMPARED:
        return groups
    algebra.spend(len(objects) ** 2 // 16)
    # Groups that ask for less come first: nothing after a group can hold it, but for equals.
    objects.sort(key=lambda group: len(group.required))
    kept: list[ObjectGroup] = []
    for group in objects:
        required = group.required
        if not any(other.required <= required and _holds(algebra, other, group) for other in kept):
            kept.append(group)
    return [group for group in groups if not isinstance(group, ObjectGroup)] + list(kept)


def _holds(algebra: Algebra, outer: ObjectGroup, inner: ObjectGroup) -> bool:
    """Whether ``outer``, which requires nothing more than ``inner``, plainly holds all of it."""
    if outer.low > len(inner.required):
        return False
    if outer.high is not None or (outer.some and outer.some != inner.some):
        return False
    any_ = algebra.any
    for member in outer.members:
        schema = member.schema
        if schema is not any_:
            value = value_of(inner, member.name)
            if value is not None and algebra.pair(value, schema) is not value:
                return False
    names = {member.name for member in outer.members}
    for member in inner.members:
        if member.name not in names:
            found = _in_cells(outer.cells, member.name)
            if found is not any_ and found is not member.schema:
                return False
    if outer.cells == inner.cells:
        return True
    # A member that only one of the two names is in no cell of that one.
    return all(
        any(
            (cell.schema is any_ or cell.schema is part.schema)
            and part.names.meet(cell.names) == part.names
            for cell in outer.cells
        )
        for part in inner.cells
    )


# Arrays


def item_at(group: ArrayGroup, index: int) -> Schema:
    """The schema of the item at ``index``."""
    return group.prefix[index] if index < len(group.prefix) else group.rest


def _meet_arrays(algebra: Algebra, left: ArrayGroup, right: ArrayGroup) -> ArrayGroup | None:
    length = max(len(left.prefix), len(right.prefix))
    both = algebra.pair
    prefix = [both(item_at(left, i), item_at(right, i)) for i in range(length)]
    algebra.spend(length)
    return make_array(
        algebra,
        prefix,
        both(left.rest, right.rest),
        max(left.low, right.low),
        _least(left.high, right.high),
        (*left.counted, *right.counted),
        left.unique or right.unique,
        left.duplicate or right.duplicate,
    )


def make_array(
    algebra: Algebra,
    prefix: Sequence[Schema],
    rest: Schema,
    low: int = 0,
    high: int | None = None,
    counted: Iterable[Counted] = (),
    unique: bool = False,
    duplicate: bool = False,
) -> ArrayGroup | None:
    """The canonical array group; None if it is surely empty."""
    prefix = list(prefix)
    if counted:
        kept: dict[tuple[Schema, int], Counted] = {}
        for one in counted:
            schema, start = one.schema, one.start
            if schema.kind == KIND_NEVER:
                if one.low:
                    return None
                continue
            if one.high is not None and one.low > one.high:
                return None
            if schema.kind == KIND_ANY:
                if one.low:
                    low = max(low, start + one.low)
                if one.high is not None:
                    high = _least(high, start + one.high)
                continue
            if one.high == 0:
                none = algebra.negation(schema)
                while len(prefix) < start:
                    prefix.append(rest)
                    algebra.spend(1)
                for i in range(start, len(prefix)):
                    prefix[i] = algebra.both(prefix[i], none)
                rest = algebra.both(rest, none)
                continue
            low = max(low, start + one.low) if one.low else low
            if not one.low and one.high is None:
                continue
            old = kept.get((schema, start))
            if old is not None:
                one = Counted(schema, max(old.low, one.low), _least(old.high, one.high), start)
                if one.high is not None and one.low > one.high:
                    return None
            kept[schema, start] = one
        counted = tuple(kept.values())
    else:
        counted = ()
    for index, item in enumerate(prefix):
        if item.kind == KIND_NEVER:
            high = _least(high, index)
            break
    if rest.kind == KIND_NEVER:
        high = _least(high, len(prefix))
    if duplicate:
        low = max(low, 2)
        if unique:
            return None
    if high is not None:
        if low > high:
            return None
        if high <= len(prefix):
            del prefix[high:]
            rest = algebra.never
        if high < 2:
            unique = False
        if counted and any(one.start >= high for one in counted):
            counted = tuple(one for one in counted if one.start < high)  # none of them has a low
    while prefix and prefix[-1] is rest:
        prefix.pop()
    return ArrayGroup(tuple(prefix), rest, low, high, tuple(counted), unique, duplicate)


# Objects


def value_of(group: ObjectGroup, name: str) -> Schema | None:
    """The schema of the member ``name`` in ``group``; None where no such member is allowed."""
    for member in group.members:
        if member.name == name:
            return member.schema
    for cell in group.cells:
        if cell.names.contains(name):
            return cell.schema
    return None


def _in_cells(cells: Sequence[Cell], name: str) -> Schema | None:
    for cell in cells:
        if cell.names.contains(name):
            return cell.schema
    return None


def _meet_objects(algebra: Algebra, left: ObjectGroup, right: ObjectGroup) -> ObjectGroup | None:
    high = _least(left.high, right.high)
    required = left.required | right.required
    if high is not None and len(required) > high:
        return None
    ours = {member.name: member.schema for member in left.members}
    theirs = {member.name: member.schema for member in right.members}
    members: dict[str, Schema] = {}
    never = algebra.never
    both = algebra.pair

    def value(name: str) -> Schema:
        one = ours.get(name)
        if one is None:
            one = _in_cells(left.cells, name)
            if one is None:
                return never
        other = theirs.get(name)
        if other is None:
            other = _in_cells(right.cells, name)
            if other is None:
                return never
        return both(one, other)

    checked: dict[str, Schema] = {}
    for name in required:
        checked[name] = value(name)
        if checked[name].kind == KIND_NEVER:
            return None
    unlisted = left.unlisted | right.unlisted
    ordered: Iterable[str] = (*ours, *theirs)
    if unlisted:
        listed = [name for name in ours if name not in left.unlisted]
        listed += [name for name in theirs if name not in right.unlisted]
        unlisted = unlisted.difference(listed)
        ordered = (*listed, *ordered)
    for name in ordered:
        if name not in members:
            found = checked.get(name)
            members[name] = value(name) if found is None else found
    algebra.spend(len(members))
    cells: list[Cell] = []
    if left.cells == right.cells and not (ours.keys() ^ theirs.keys()):
        cells = list(left.cells)
    else:
        for one in left.cells:
            for other in right.cells:
                schema = both(one.schema, other.schema)
                if schema.kind == KIND_NEVER:
                    continue
                names = one.names.meet(other.names)
                if len(left.cells) > 1 or len(right.cells) > 1:
                    algebra.spend(1)
                    if names.is_empty():
                        continue
                cells.append(Cell(names, schema))
    some = left.some if left.some == right.some else (*left.some, *right.some)
    low = max(left.low, right.low)
    return make_object(algebra, members, cells, required, some, low, high, unlisted)


def make_object(
    algebra: Algebra,
    members: dict[str, Schema],
    cells: Sequence[Cell],
    required: frozenset[str] = frozenset(),
    some: Sequence[Some] = (),
    low: int = 0,
    high: int | None = None,
    unlisted: frozenset[str] = frozenset(),
) -> ObjectGroup | None:
    """The canonical object group; None if it is surely empty.

    ``required`` and ``unlisted`` names are among ``members``. Counts that say nothing more are
    dropped.
    """
    if some:
        kept: dict[Some, None] = {}
        for one in some:
            values = one.names.values
            if one.schema.kind == KIND_NEVER or (values is not None and not values):
                return None
            if values is not None and len(values) == 1:
                (name,) = values
                schema = members.get(name)
                if schema is None:
                    schema = _in_cells(cells, name)
                    if schema is None:
                        return None
                    unlisted |= {name}
                    cells = [
                        Cell(cell.names.meet(_all_but(name)), cell.schema)
                        if cell.names.contains(name)
                        else cell
                        for cell in cells
                    ]
                members = {**members, name: algebra.both(schema, one.schema)}
                required |= {name}
            elif one.names.is_any and one.schema.kind == KIND_ANY:
                low = max(low, 1)
            else:
                kept[one] = None
        some = tuple(kept)
    if len(cells) > 1:
        cells = _merge_cells(cells)
    cells = [cell for cell in cells if cell.schema.kind != KIND_NEVER and cell.names != _NO_NAMES]
    if high is not None:
        if len(required) > high or low > high:
            return None
        if high == len(required):
            members = {name: schema for name, schema in members.items() if name in required}
            cells = []
    result = []
    for name, schema in members.items():
        if schema.kind == KIND_NEVER:
            if name in required:
                return None
            continue
        result.append(Member(name, schema))
    if not cells:
        if low > len(result):
            return None
        if low == len(result) and low > len(required):
            required = frozenset(member.name for member in result)
        if high is not None and high >= len(result):
            high = None
    if low <= len(required):
        low = 0
    if some:
        some = [
            one
            for one in some
            if one.schema.kind != KIND_ANY or not any(one.names.contains(name) for name in required)
        ]
    if unlisted:
        unlisted &= {member.name for member in result}
        result.sort(key=lambda member: member.name in unlisted)  # stable
    return ObjectGroup(tuple(result), tuple(cells), required, tuple(some), low, high, unlisted)


def _all_but(name: str) -> StringSet:
    return StringSet.of((name,)).complement()


def _merge_cells(cells: Sequence[Cell]) -> list[Cell]:
    """Cells of the same schema as one."""
    merged: dict[Schema, StringSet] = {}
    for cell in cells:
        names = merged.get(cell.schema)
        merged[cell.schema] = cell.names if names is None else names.join(cell.names)
    if len(merged) == len(cells):
        return list(cells)
    return [Cell(names, schema) for schema, names in merged.items()]


def _least(left: int | None, right: int | None) -> int | None:
    if left is None:
        return right
    if right is None:
        return left
    return min(left, right)
