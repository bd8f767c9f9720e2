"""Which schemas have a value at all: the least fixpoint of witness generation.

A schema has a value when one of its groups has one, given what is known about the items and members
that the group cannot do without. Nothing is known to have a value at first; what gets one makes its
dependents be looked at again, and what has none at the end is empty. So recursion without end (an
object that requires itself) is empty. Only required parts are visited: most schemas are decided
without a look at anything else. Each look costs time in proportion to the group, apart from
obligations (``some``, ``counted``), which are searched through; the search counts as steps.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from llgx.json_schema import finite
from llgx.json_schema.meet import item_at
from llgx.json_schema.normal import (
    ArrayGroup,
    BoolGroup,
    Group,
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

__all__ = ["Inhabitation"]

_FEW: Final = 16  # a set with more names than that to spare is as good as endless


# How many items there are of each counted kind, and how many of each kind with few values.
_State = tuple[tuple[int, ...], tuple[tuple[int, int], ...]]


class Inhabitation:
    """Decides emptiness for one :class:`Algebra`; what it finds is kept in the schemas."""

    def __init__(self, algebra: Algebra) -> None:
        self._algebra = algebra
        self._asked: list[Schema] = []

    def decide(self, root: Schema) -> bool:
        """Set ``root.inhabited``; True when it is empty."""
        outer, self._asked = self._asked, []
        try:
            self._decide(root)
        finally:
            self._asked = outer
        return not root.inhabited

    def _decide(self, root: Schema) -> None:
        queue = [root]
        seen = {root}
        waiting: dict[Schema, list[Schema]] = {}
        while queue and root.inhabited is None:
            schema = queue.pop()
            if schema.inhabited is not None:  # perhaps found out on the way to something else
                queue += waiting.pop(schema, ())
                continue
            self._algebra.spend(1)
            self._asked = []
            if self._schema_has_value(schema):
                schema.inhabited = True
                queue += waiting.pop(schema, ())
                continue
            for child in self._asked:
                waiting.setdefault(child, []).append(schema)
                if child not in seen:
                    seen.add(child)
                    queue.append(child)
        if root.inhabited is None:
            for schema in seen:
                if schema.inhabited is None:
                    schema.inhabited = False

    def _ask(self, schema: Schema) -> bool:
        if schema.inhabited is None:
            self._asked.append(schema)
            return False
        return schema.inhabited

    def _schema_has_value(self, schema: Schema) -> bool:
        return any(self._group_has_value(group) for group in self._algebra.raw(schema))

    def _group_has_value(self, group: Group) -> bool:
        if isinstance(group, StringGroup):
            return not group.strings.is_empty()
        if isinstance(group, NumberGroup):
            return not group.numbers.is_empty()
        if isinstance(group, ObjectGroup):
            return self._object_has_value(group)
        if isinstance(group, ArrayGroup):
            return self._array_has_value(group)
        if isinstance(group, BoolGroup):
            return bool(group.values)
        assert isinstance(group, NullGroup)
        return True

    # Arrays

    def _array_has_value(self, group: ArrayGroup) -> bool:
        if group.counted:
            return self._counted_has_value(group)
        if not all(self._ask(item) for item in self._first_items(group, group.low)):
            return False
        if group.unique and group.low > 1:
            return self._distinct_items(group)
        if group.duplicate:
            return self._equal_items(group)
        return True

    @staticmethod
    def _first_items(group: ArrayGroup, count: int) -> Iterator[Schema]:
        yield from group.prefix[:count]
        if count > len(group.prefix):
            yield group.rest

    def _equal_items(self, group: ArrayGroup) -> bool:
        both = self._algebra.pair
        length = len(group.prefix) + 2
        if group.high is not None:
            length = min(length, group.high)
        for last in range(1, length):
            if not self._ask(item_at(group, last)):
                return False
            for first in range(last):
                if self._ask(both(item_at(group, first), item_at(group, last))):
                    return True
        return False

    def _distinct_items(self, group: ArrayGroup) -> bool:
        """Whether ``low`` items can differ: by matching items with their values where few."""
        low = group.low
        self._algebra.spend(low)  # before so many values are listed
        known: dict[Schema, list[object] | None] = {}
        sets: list[list[object]] = []
        tail = max(0, low - len(group.prefix))
        for item in group.prefix[:low]:
            if item not in known:
                known[item] = finite.values_of(self._algebra, item, low)
            values = known[item]
            if values is not None:
                sets.append(values)
        if tail:
            values = finite.values_of(self._algebra, group.rest, low)
            if values is not None:
                if len(values) < tail:
                    return False
                sets += [values] * tail
        return can_match(sets)

    def _counted_has_value(self, group: ArrayGroup) -> bool:
        """A search over how many of each counted kind there are, item by item."""
        algebra = self._algebra
        counted = group.counted
        caps = [max(one.low, 0 if one.high is None else one.high + 1) for one in counted]

        def kinds(item: Schema, index: int) -> list[tuple[tuple[int, ...], int | None]]:
            """Which counted schemas an item at ``index`` may belong to at once; with that, where
            items have to differ, the number of the few values it may then be."""
            choices: list[tuple[Schema, tuple[int, ...]]] = [(item, ())]
            for place, one in enumerate(counted):
                if one.start > index:
                    continue
                grown = []
                for schema, chosen in choices:
                    algebra.spend(2)
                    inside = algebra.pair(schema, one.schema)
                    if self._ask(inside):
                        grown.append((inside, (*chosen, place)))
                    outside = algebra.pair(schema, algebra.negation(one.schema))
                    if self._ask(outside):
                        grown.append((outside, chosen))
                choices = grown
            return [(chosen, few_values(schema)) for schema, chosen in choices]

        def few_values(schema: Schema) -> int | None:
            if not group.unique:
                return None
            if schema not in numbers:
                found = finite.values_of(algebra, schema, group.low + sum(caps) + 1)
                numbers[schema] = None if found is None else len(few)
                if found is not None:
                    few.append(found)
            return numbers[schema]

        def can_differ(tally: Mapping[int, int]) -> bool:
            if len(tally) == 1:
                return all(count <= len(few[number]) for number, count in tally.items())
            algebra.spend(sum(tally.values()))
            return can_match([few[number] for number, count in tally.items() for _ in range(count)])

        few: list[list[object]] = []
        numbers: dict[Schema, int | None] = {}
        fixed = max([len(group.prefix), *(one.start for one in counted)])
        if group.high is not None:
            fixed = min(fixed, group.high)
        states: dict[_State, None] = {(tuple(0 for _ in counted), ()): None}
        index = 0
        seen: set[_State] = set()
        while states:
            algebra.spend(len(states))
            if index >= group.low:
                for counts, _ in states:
                    if all(
                        count >= one.low and (one.high is None or count <= one.high)
                        for count, one in zip(counts, counted, strict=True)
                    ):
                        return True
            if group.high is not None and index >= group.high:
                return False
            if index >= max(fixed, group.low):
                states = {key: None for key in states if key not in seen}
                seen.update(states)
            following: dict[_State, None] = {}
            options = kinds(item_at(group, index), index)
            for counts, used in states:
                for chosen, number in options:
                    grown = tuple(
                        min(count + (place in chosen), caps[place])
                        for place, count in enumerate(counts)
                    )
                    if any(
                        one.high is not None and count > one.high
                        for count, one in zip(grown, counted, strict=True)
                    ):
                        continue
                    spent = used
                    if number is not None:
                        tally = dict(used)
                        tally[number] = tally.get(number, 0) + 1
                        if not can_differ(tally):
                            continue
                        spent = tuple(sorted(tally.items()))
                    following[grown, spent] = None
            states = following
            index += 1
        return False

    # Objects

    def _object_has_value(self, group: ObjectGroup) -> bool:
        required = group.required
        if required:
            for member in group.members:
                if member.name in required and not self._ask(member.schema):
                    return False
        if not group.some and group.low <= len(required):
            return True
        some = group.some
        if some and group.high is None:
            some = tuple(one for one in some if not self._is_free(group, one))
            if not some and not group.low:
                return True
            group = dataclasses.replace(group, some=some)
        chosen = {member.name: member.schema for member in group.members if member.name in required}
        return self._discharge(group, 0, chosen, [])

    def _is_free(self, group: ObjectGroup, one: Some) -> bool:
        """Whether a member of its own can always be added for an obligation."""
        for cell in group.cells:
            names = cell.names.meet(one.names)
            if self._ask(self._algebra.pair(cell.schema, one.schema)) and (
                names.enumerate(len(group.members) + len(group.some) + _FEW) is None
            ):
                return True
        return False

    def _discharge(
        self,
        group: ObjectGroup,
        index: int,
        chosen: dict[str, Schema],
        fresh: list[tuple[StringSet, Schema]],
    ) -> bool:
        """Whether the obligations from ``index`` on can be met, given the members chosen so far.

        ``fresh`` are members from the cells, each with the names that it may have.
        """
        algebra = self._algebra
        algebra.spend(1)
        if index == len(group.some):
            return self._counts_fit(group, chosen, fresh)
        one: Some = group.some[index]
        for member in group.members:
            name = member.name
            if not one.names.contains(name):
                continue
            schema = algebra.pair(chosen.get(name, member.schema), one.schema)
            if self._ask(schema) and self._discharge(
                group, index + 1, {**chosen, name: schema}, fresh
            ):
                return True
        for place, (names, value) in enumerate(fresh):
            common = names.meet(one.names)
            if common.is_empty():
                continue
            schema = algebra.pair(value, one.schema)
            if self._ask(schema):
                shared = [*fresh[:place], (common, schema), *fresh[place + 1 :]]
                if self._discharge(group, index + 1, chosen, shared):
                    return True
        for cell in group.cells:
            common = cell.names.meet(one.names)
            if common.is_empty():
                continue
            schema = algebra.pair(cell.schema, one.schema)
            if self._ask(schema) and self._discharge(
                group, index + 1, chosen, [*fresh, (common, schema)]
            ):
                return True
        return False

    def _counts_fit(
        self, group: ObjectGroup, chosen: dict[str, Schema], fresh: list[tuple[StringSet, Schema]]
    ) -> bool:
        algebra = self._algebra
        used = len(chosen) + len(fresh)
        if group.high is not None and used > group.high:
            return False
        # Names of new members have to differ: a matching where they are few.
        sets: list[list[object]] = []
        for names, _ in fresh:
            few = names.enumerate(len(fresh))
            if few is not None:
                sets.append(list(few))
        if not can_match(sets):
            return False
        missing = group.low - used
        for member in group.members:
            if missing <= 0:
                break
            if member.name not in chosen and self._ask(member.schema):
                missing -= 1
        for cell in group.cells:
            if missing <= 0:
                break
            if not self._ask(cell.schema):
                continue
            taken = len(fresh)
            few = cell.names.enumerate(taken + min(missing, _FEW))
            if few is None and missing > _FEW and not cell.names.is_any:
                algebra.spend(missing)  # before so many names are listed
                few = cell.names.enumerate(taken + missing)
            if few is None:
                missing = 0
            else:
                inside = sum(not names.is_disjoint(cell.names) for names, _ in fresh)
                missing -= max(0, len(few) - inside)
        return missing <= 0


def can_match(sets: list[list[object]]) -> bool:
    """Whether each of ``sets`` can be given a value of its own: augmenting paths.

    O(n m) for n sets of m values in all. The path is kept on a stack of its own.
    """
    owner: dict[object, int] = {}
    for first in range(len(sets)):
        parent: dict[object, tuple[int, object | None]] = {}
        queue: list[tuple[int, object | None]] = [(first, None)]
        free: object | None = None
        found = False
        while queue and not found:
            index, via = queue.pop()
            for value in sets[index]:
                if value in parent:
                    continue
                parent[value] = (index, via)
                if value not in owner:
                    free, found = value, True
                    break
                queue.append((owner[value], value))
        if not found:
            return False
        value = free
        while value is not None:
            index, via = parent[value]
            owner[value] = index
            value = via
    return True
