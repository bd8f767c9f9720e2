"""Why a schema has no value, in words.

What contradicts itself within one schema object is noticed while it is translated. All other
conflicts are looked for afterwards, from the root down to what is to blame: a required member or
item without a value, or two parts of a conjunction with no value in common. Only a schema that is
refused anyway pays for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from llgx.errors import LimitError, SchemaError
from llgx.json_schema.meet import item_at
from llgx.json_schema.normal import (
    ALL_TYPES,
    KIND_AND,
    KIND_LEAF,
    KIND_NAME,
    KIND_NEVER,
    KIND_NOT,
    KIND_ONE,
    KIND_OR,
    ArrayGroup,
    Group,
    ObjectGroup,
    Place,
    Schema,
    StringGroup,
    pointer_of,
)

if TYPE_CHECKING:
    from llgx.json_schema.algebra import Algebra

__all__ = ["explain"]

_DEEPEST: Final = 20
_MOST_PAIRS: Final = 500
_Conflict = tuple[Place, str, str]


def explain(algebra: Algebra, root: Schema, conflicts: Sequence[_Conflict]) -> SchemaError:
    """The error for the empty schema ``root``; ``conflicts`` were noticed on the way to it."""
    try:
        place, keyword, reasons = _Explanation(algebra, conflicts).of(root, None)
    except LimitError:
        place, keyword, reasons = root.place, "", []
    message = ": ".join(["no value satisfies the schema", *reasons])
    return SchemaError(message, pointer=pointer_of(place), keyword=keyword)


class _Explanation:
    def __init__(self, algebra: Algebra, conflicts: Sequence[_Conflict]) -> None:
        self._algebra = algebra
        self._conflicts = conflicts
        self._seen: set[Schema] = set()

    def of(self, schema: Schema, place: Place) -> tuple[Place, str, list[str]]:
        """The place and keyword to blame, and the reasons from ``schema`` down to there."""
        if schema.place is not None:
            place = schema.place
        if schema.kind == KIND_NEVER:
            return self._noticed(place)
        if schema in self._seen or len(self._seen) >= _DEEPEST:
            return place, "", ["it requires itself, without end"]
        self._seen.add(schema)
        if schema.kind == KIND_LEAF:
            for group in sorted(
                self._algebra.raw(schema), key=lambda g: type(g) is not ObjectGroup
            ):
                return self._of_group(group, place)
        parts: tuple[Schema, ...] = schema.parts
        if schema.kind == KIND_AND:
            return self._of_conjunction(parts, place)
        if schema.kind == KIND_OR:
            return self.of(parts[0], place)
        if schema.kind == KIND_NAME:
            return self.of(parts[0], place)
        if schema.kind == KIND_ONE:
            for part in parts:
                if self._algebra.is_empty(part):
                    return self.of(part, place)
            return place, "oneOf", ["what one branch of oneOf allows, another one allows as well"]
        if schema.kind == KIND_NOT:
            return place, "not", ["'not' excludes every value"]
        return self._noticed(place)

    def _noticed(self, place: Place) -> tuple[Place, str, list[str]]:
        """The conflicts noticed at ``place`` or below it, from the outermost to the innermost."""
        pointer = pointer_of(place)
        chain: list[_Conflict] = []
        for conflict in reversed(self._conflicts):
            inner = pointer_of(conflict[0])
            if inner == pointer or inner.startswith(f"{pointer}/"):
                chain.append(conflict)
                pointer = inner
        if not chain:
            return place, "", []
        return chain[-1][0], chain[-1][1], [reason for _, _, reason in chain]

    def _of_group(self, group: Group, place: Place) -> tuple[Place, str, list[str]]:
        algebra = self._algebra
        if isinstance(group, ObjectGroup):
            for member in group.members:
                if member.name in group.required and algebra.is_empty(member.schema):
                    found, keyword, reasons = self.of(member.schema, place)
                    blame = f"the required property {member.name!r} can have no value"
                    return found, keyword or "required", [blame, *reasons]
            return place, "", ["no object has all the members that it asks for"]
        if isinstance(group, ArrayGroup):
            for index in range(min(group.low, len(group.prefix) + 1)):
                item = item_at(group, index)
                if algebra.is_empty(item):
                    found, keyword, reasons = self.of(item, place)
                    return (
                        found,
                        keyword or "minItems",
                        [f"item {index} can have no value", *reasons],
                    )
            if group.unique:
                few = f"there are not {group.low} different items"
                return place, "uniqueItems", [few]
            return place, "", ["no array has all the items that it asks for"]
        if isinstance(group, StringGroup):
            return place, "", ["no string satisfies its lengths, patterns and formats together"]
        return place, "", ["no number satisfies its bounds and multiples together"]

    def _of_conjunction(
        self, parts: Sequence[Schema], place: Place
    ) -> tuple[Place, str, list[str]]:
        algebra = self._algebra
        for part in parts:
            if algebra.is_empty(part):
                return self.of(part, place)
        types = ALL_TYPES
        for part in parts:
            types &= part.types
        frame = algebra.leaf(
            group for index, group in enumerate(algebra.any_groups) if types & 1 << index
        )
        pairs = 0
        for index, one in enumerate(parts):
            for other in parts[:index]:
                pairs += 1
                if pairs > _MOST_PAIRS or not algebra.is_empty(algebra.both(frame, other, one)):
                    continue
                left, right = other.pointer or "/", one.pointer or "/"
                reasons = [f"{left} and {right} have no value in common"]
                return one.place, "", reasons + self._common(other, one)
        return place, "", ["its parts have no value in common"]

    def _common(self, left: Schema, right: Schema) -> list[str]:
        """More about two disjoint schemas, where one member of two objects is to blame."""
        algebra = self._algebra
        for one in algebra.raw(left):
            for other in algebra.raw(right):
                if isinstance(one, ObjectGroup) and isinstance(other, ObjectGroup):
                    for name in sorted(one.required | other.required):
                        ours = {m.name: m.schema for m in one.members}.get(name)
                        theirs = {m.name: m.schema for m in other.members}.get(name)
                        if ours is None or theirs is None:
                            if (ours is None and not one.cells) or (
                                theirs is None and not other.cells
                            ):
                                return [f"one requires the property {name!r}, the other forbids it"]
                        elif algebra.are_disjoint(ours, theirs):
                            return [f"the property {name!r} can have no value"]
        return []
