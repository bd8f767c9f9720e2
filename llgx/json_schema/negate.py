"""The complement of a union of groups, as groups again.

Scalars have a complement of their own. The complement of an array or object group is a union with
one group for each way to violate it: too few items, an item that does not fit, a member that is
missing, and so on (the duals of the structural operators). A union is negated by the product of the
negations, type by type, with early refutation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from llgx.json_schema.meet import make_array, make_object, meet
from llgx.json_schema.normal import (
    KIND_ANY,
    KIND_LEAF,
    STRUCTURES,
    ArrayGroup,
    BoolGroup,
    Cell,
    Counted,
    Group,
    Member,
    NullGroup,
    NumberGroup,
    ObjectGroup,
    Schema,
    Some,
    StringGroup,
)
from llgx.json_schema.strings import StringSet

if TYPE_CHECKING:
    from llgx.json_schema.algebra import Algebra

__all__ = ["negate_groups"]


def negate_groups(algebra: Algebra, groups: Sequence[Group]) -> list[Group]:
    """The values that belong to none of ``groups``."""
    result: list[Group] = []
    for whole in algebra.any_groups:
        mine = [group for group in groups if type(group) is type(whole)]
        if not mine:
            result.append(whole)
        elif whole not in mine:
            result += _negate_type(algebra, mine)
    return result


def _negate_type(algebra: Algebra, groups: list[Group]) -> list[Group]:
    first = groups[0]
    if isinstance(first, NullGroup):
        return []
    if isinstance(first, BoolGroup):
        rest = frozenset((False, True))
        for group in groups:
            if isinstance(group, BoolGroup):
                rest -= group.values
        return [BoolGroup(rest)] if rest else []
    if isinstance(first, StringGroup):
        strings = [g.strings.complement() for g in groups if isinstance(g, StringGroup)]
        return [StringGroup(strings[0].meet(*strings[1:]))]
    current: list[Group] | None = None
    for group in groups:
        algebra.spend(1)
        negated = _negate_group(algebra, group)
        if current is None:
            current = negated
            continue
        met: dict[Group, None] = {}
        for one in current:
            if meet(algebra, one, group) is None:
                met[one] = None  # outside of it already
                continue
            for other in negated:
                algebra.spend(1)
                both = meet(algebra, one, other)
                if both is not None:
                    met[both] = None
        current = list(met)
    return current or []


def _negate_group(algebra: Algebra, group: Group) -> list[Group]:
    if isinstance(group, NumberGroup):
        return [NumberGroup(numbers) for numbers in group.numbers.complement()]
    if isinstance(group, ArrayGroup):
        return _negate_array(algebra, group)
    assert isinstance(group, ObjectGroup)
    return _negate_object(algebra, group)


def _negate_array(algebra: Algebra, group: ArrayGroup) -> list[Group]:
    any_, never = algebra.any, algebra.never
    result: list[ArrayGroup | None] = []
    if group.low:
        result.append(make_array(algebra, (), any_, high=group.low - 1))
    if group.high is not None:
        result.append(make_array(algebra, (), any_, low=group.high + 1))
    for index, item in enumerate(group.prefix):
        if item.kind != KIND_ANY:
            algebra.spend(1 + index // 8)
            prefix = [any_] * index + [algebra.negation(item)]
            result.append(make_array(algebra, prefix, any_, low=index + 1))
    if group.rest is not any_ and not (group.rest is never and group.high is not None):
        outside = Counted(algebra.negation(group.rest), 1, None, len(group.prefix))
        result.append(make_array(algebra, (), any_, counted=(outside,)))
    for one in group.counted:
        if one.low:
            fewer = Counted(one.schema, 0, one.low - 1, one.start)
            result.append(make_array(algebra, (), any_, counted=(fewer,)))
        if one.high is not None:
            more = Counted(one.schema, one.high + 1, None, one.start)
            result.append(make_array(algebra, (), any_, counted=(more,)))
    if group.unique:
        result.append(make_array(algebra, (), any_, duplicate=True))
    if group.duplicate:
        result.append(make_array(algebra, (), any_, unique=True))
    return [one for one in result if one is not None]


def _negate_object(algebra: Algebra, group: ObjectGroup) -> list[Group]:
    any_, never = algebra.any, algebra.never
    result: list[ObjectGroup | None] = []
    all_names = Cell(StringSet.ANY, any_)
    whole = (all_names,)

    # What a group excludes first is granted to those after it where that is one scalar member or a
    # name: so groups that are told apart by such a member stay apart in the products to come.
    granted: dict[str, Schema] = {}
    required: set[str] = set()

    def outside(name: str, schema: Schema, present: bool) -> None:
        """The member is not as it should be: absent if it may be, or with a value outside."""
        members = {**granted, name: algebra.negation(schema)}
        needed = required | {name} if present else required
        for other in needed:
            members.setdefault(other, any_)
        cells = (Cell(StringSet.of(members).complement(), any_),)
        unlisted = frozenset(members)
        result.append(make_object(algebra, members, cells, frozenset(needed), unlisted=unlisted))

    def rank(member: Member) -> int:
        is_scalar = member.schema.kind == KIND_LEAF and not member.schema.types & STRUCTURES
        return (0 if is_scalar else 2) + (member.name not in group.required)

    for member in sorted(group.members, key=rank):
        is_required = member.name in group.required
        if is_required or member.schema.kind != KIND_ANY:
            outside(member.name, member.schema, not is_required)
            if rank(member) < 2:
                granted[member.name] = member.schema
                if is_required:
                    required.add(member.name)
    # Members that are to exist are granted only what is required and one of a few strings: the
    # order of more would show.
    tags = {name: schema for name, schema in granted.items() if _is_tag(schema, name in required)}
    others = (Cell(StringSet.of(tags).complement(), any_),) if tags else whole

    def exists(names: StringSet, schema: Schema) -> None:
        some = (Some(names, schema),)
        required = frozenset(tags)
        result.append(make_object(algebra, tags, others, required, some, unlisted=required))

    for cell in group.cells:
        if cell.schema.kind != KIND_ANY and cell.schema is not never:
            exists(cell.names, algebra.negation(cell.schema))
    covered = [cell.names for cell in group.cells if cell.schema is not never]
    if group.members:
        covered.append(StringSet.of([member.name for member in group.members]))
    if covered:
        uncovered = covered[0].join(*covered[1:]).complement()
        if not uncovered.is_empty():
            exists(uncovered, any_)
    else:
        result.append(make_object(algebra, {}, whole, low=1))
    for one in group.some:
        cells = (
            Cell(one.names, algebra.negation(one.schema)),
            Cell(one.names.complement(), any_),
        )
        result.append(make_object(algebra, {}, cells))
    if group.low:
        result.append(make_object(algebra, {}, whole, high=group.low - 1))
    if group.high is not None:
        result.append(make_object(algebra, {}, whole, low=group.high + 1))
    return [one for one in result if one is not None]


def _is_tag(schema: Schema, is_required: bool) -> bool:
    """Whether a member is required to be one of a few strings."""
    if not is_required or schema.kind != KIND_LEAF or len(schema.parts) != 1:
        return False
    (group,) = schema.parts
    return isinstance(group, StringGroup) and group.strings.values is not None
