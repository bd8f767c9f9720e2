"""Sets of JSON values under and, or, not: interned formulas, worked out one level at a time.

A formula over handles is brought into a disjunction of groups of one type each (the normal form of
:mod:`llgx.json_schema.normal`) when its groups are asked for; the schemas of members and items stay
formulas until their own groups are asked for. So recursion under a member or an item needs no
care: a conjunction of the same schemas is the same handle, and there are finitely many of them. The
construction follows Attouche et al., "Witness Generation for JSON Schema" (arXiv 2202.12849): each
structural operator has a dual, negation moves to the leaves, and what has no value is found by a
least fixpoint (:mod:`llgx.json_schema.inhabited`).

A reference that leads back to itself without passing a member or item (``{"$ref": "#"}``) stands
for the least set that satisfies its equation, its negation for the complement of that.

All work is counted against ``Limits.schema_steps``. Stack depth is bounded: a formula too deep to
be worked out on the way is put off and worked out first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Final

from llgx.errors import LimitError, SchemaError
from llgx.json_schema import meet as meeting
from llgx.json_schema import negate
from llgx.json_schema.inhabited import Inhabitation
from llgx.json_schema.normal import (
    ALL_TYPES,
    KIND_AND,
    KIND_ANY,
    KIND_LEAF,
    KIND_NAME,
    KIND_NAMES,
    KIND_NEVER,
    KIND_NOT,
    KIND_ONE,
    KIND_OR,
    OBJECTS,
    STRUCTURES,
    TYPE_BITS,
    TYPES,
    ArrayGroup,
    BoolGroup,
    Cell,
    Counted,
    Group,
    Member,
    NullGroup,
    NumberGroup,
    ObjectGroup,
    Place,
    PlainPart,
    Schema,
    Some,
    StringGroup,
)
from llgx.json_schema.numbers import NumberSet
from llgx.json_schema.strings import StringSet
from llgx.limits import DEFAULT_LIMITS, Limits

__all__ = ["Algebra", "resolve", "types_of"]

_DEEPEST: Final = 20  # formulas worked out inside one another; each takes a few Python frames
_MANY: Final = 12  # from so many groups on, a product drops those without a value on the way
_NO_CUT: Final = 1 << 60


class _Busy(Exception):
    """What is asked for is being worked out further up, so that it cannot be had now."""


class _Deeper(Exception):
    """``schema`` has to be worked out first, the stack being deep enough."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema


class Algebra:
    """The interned formulas of one compilation, with their memo tables and their budget.

    ``any`` and ``never`` are the schemas of all and of no values.
    """

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self.limits = limits
        self.steps = 0
        self._limit = limits.schema_steps
        self._leaves: dict[tuple[Group, ...], Schema] = {}
        self._formulas: dict[tuple[int, tuple[Schema, ...]], Schema] = {}
        self._pairs: dict[tuple[Schema, Schema], Schema] = {}
        self._branched: set[Schema] = set()
        self._tags: dict[ObjectGroup, dict[str, frozenset[str]]] = {}
        # What is being worked out: the context it belongs to and its position on the path.
        self._active: dict[Schema, tuple[int, int]] = {}
        self._path: list[Schema] = []
        self._signs: list[bool] = []  # whether it stands for itself or for a negation
        self._context = 0
        self._cut = _NO_CUT
        self.never = Schema(self, KIND_NEVER, (), None, 0)
        self.never.raw = self.never.final = ()
        self.never.inhabited = False
        self.any = Schema(self, KIND_ANY, ())
        self.any.inhabited = True
        self.any.dual = self.never
        self.never.dual = self.any
        groups = (
            NullGroup(),
            BoolGroup(frozenset((False, True))),
            NumberGroup(NumberSet.ANY),
            StringGroup(StringSet.ANY),
            ArrayGroup((), self.any),
            ObjectGroup((), (Cell(StringSet.ANY, self.any),)),
        )
        self.any_groups: tuple[Group, ...] = groups
        self.any.raw = self.any.final = groups
        self._leaves[groups] = self.any
        self._leaves[()] = self.never
        self._inhabitation = Inhabitation(self)

    # Formulas

    def leaf(self, groups: Iterable[Group], place: Place = None) -> Schema:
        """The union of ``groups``, each of one type (any order, duplicates allowed)."""
        unified = self.unify(groups)
        found = self._leaves.get(unified)
        if found is None:
            found = Schema(self, KIND_LEAF, unified, place, types_of(unified))
            found.raw = unified
            self._leaves[unified] = found
            for group in unified:
                if _plainly_inhabited(group):
                    found.inhabited = True
                    break
        return found

    def name(self, place: Place = None) -> Schema:
        """A reference to be bound later: set ``parts`` to what it stands for."""
        return Schema(self, KIND_NAME, (), place)

    def both(self, *schemas: Schema, place: Place = None) -> Schema:
        """The values that belong to all of ``schemas``; members keep the order of the first."""
        parts: dict[Schema, None] = {}
        types = ALL_TYPES
        are_leaves = True
        for schema in schemas:
            if schema.kind == KIND_NAME:
                if type(schema) is PlainPart and _is_alone(schema, schemas):
                    return schema
                schema = resolve(schema)
            kind = schema.kind
            if kind == KIND_ANY:
                continue
            types &= schema.types
            if kind == KIND_AND:
                are_leaves = False
                for part in schema.parts:
                    parts[part] = None
                continue
            if kind != KIND_LEAF:
                are_leaves = False
            parts[schema] = None
        if not types:
            return self.never
        if len(parts) < 2:
            for part in parts:
                return part
            return self.any
        for part in parts:
            if part.dual is not None and part.dual in parts:
                return self.never
        if are_leaves and not types & STRUCTURES:
            return self.leaf(self._product([part.parts for part in parts]), place)
        return self._formula(KIND_AND, tuple(parts), place, types)

    def pair(self, left: Schema, right: Schema) -> Schema:
        """:meth:`both` of two schemas, remembered."""
        if left is right or right is self.any:
            return left
        if left is self.any:
            return right
        found = self._pairs.get((left, right))
        if found is None:
            found = self.both(left, right)
            if left.kind != KIND_NAME and right.kind != KIND_NAME:
                self._pairs[left, right] = found
        return found

    def either(self, *schemas: Schema, place: Place = None) -> Schema:
        """The values that belong to any of ``schemas``."""
        parts: dict[Schema, None] = {}
        for schema in schemas:
            schema = resolve(schema)
            kind = schema.kind
            if kind == KIND_NEVER:
                continue
            if kind == KIND_ANY:
                return self.any
            if kind == KIND_OR:
                for part in schema.parts:
                    parts[part] = None
                continue
            parts[schema] = None
        if len(parts) < 2:
            for part in parts:
                return part
            return self.never
        for part in parts:
            if part.dual is not None and part.dual in parts:
                return self.any
        if all(part.kind == KIND_LEAF for part in parts):
            return self.leaf([group for part in parts for group in part.parts], place)
        types = 0
        for part in parts:
            types |= part.types
        return self._formula(KIND_OR, tuple(parts), place, types)

    def one(self, *schemas: Schema, place: Place = None) -> Schema:
        """The values that belong to just one of ``schemas``."""
        parts = [schema for schema in map(resolve, schemas) if schema.kind != KIND_NEVER]
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return self.never
        whole = sum(schema.kind == KIND_ANY for schema in parts)
        if whole > 1:
            return self.never
        if whole:
            rest = [self.negation(schema) for schema in parts if schema.kind != KIND_ANY]
            return self.both(*rest, place=place)
        types = 0
        for schema in parts:
            types |= schema.types
        return self._formula(KIND_ONE, tuple(parts), place, types)

    def negation(self, schema: Schema) -> Schema:
        """The values that do not belong to ``schema``."""
        schema = resolve(schema)
        dual = schema.dual
        if dual is None:
            if schema.kind == KIND_LEAF and not schema.types & STRUCTURES:
                dual = self.leaf(negate.negate_groups(self, schema.parts), schema.place)
            else:
                dual = self._formula(KIND_NOT, (schema,), schema.place)
            schema.dual = dual
            if dual.dual is None:
                dual.dual = schema
        return dual

    def names(self, schema: Schema, place: Place = None) -> Schema:
        """All values but the objects with a member whose name does not belong to ``schema``."""
        schema = resolve(schema)
        if schema.kind == KIND_ANY:
            return schema
        return self._formula(KIND_NAMES, (schema,), place)

    def _formula(
        self, kind: int, parts: tuple[Schema, ...], place: Place, types: int = ALL_TYPES
    ) -> Schema:
        key = (kind, parts)
        found = self._formulas.get(key)
        if found is None:
            self.spend(1)
            found = Schema(self, kind, parts, parts[0].place if place is None else place, types)
            self._formulas[key] = found
        return found

    def spend(self, steps: int) -> None:
        """Count work; raises :class:`LimitError` when the budget is spent."""
        self.steps += steps
        if self.steps > self._limit:
            raise LimitError(
                f"the schema takes more than {self._limit:,} steps to bring into normal form",
                limit="schema_steps",
            )

    # Questions

    @property
    def is_busy(self) -> bool:
        """Whether groups are being worked out, so that others may have to wait."""
        return bool(self._path)

    def groups_of(self, schema: Schema) -> tuple[Group, ...]:
        """See :attr:`Schema.groups`."""
        if schema.final is None:
            settled = self.settle(schema)
            if settled.final is None:
                settled.final = self._finish(settled)
            schema.final = settled.final
        return schema.final

    def is_empty(self, schema: Schema) -> bool:
        """Whether no value belongs to ``schema``. Exact."""
        if schema.inhabited is None:
            self._inhabitation.decide(schema)
        return not schema.inhabited

    def are_disjoint(self, left: Schema, right: Schema) -> bool:
        """Whether no value belongs to both. Exact."""
        return self.is_empty(self.both(left, right))

    def settle(self, schema: Schema) -> Schema:
        """The one handle for all formulas with the groups of ``schema``; ``never`` if empty.

        What has its rules already stays what it is.
        """
        if type(schema) is PlainPart:
            return schema
        schema = resolve(schema)
        if self.is_empty(schema):
            return self.never
        if schema.kind == KIND_LEAF or schema.kind == KIND_ANY:
            return schema
        settled = self.leaf(self.raw(schema), schema.place)
        settled.inhabited = True
        return settled

    # Working out

    def raw(self, schema: Schema) -> tuple[Group, ...]:
        """The groups of ``schema``, those without a value still among them."""
        if schema.raw is not None:
            return schema.raw
        if self._path:
            return self._work_out(schema)
        waiting = [schema]
        while True:
            try:
                result = self._work_out(waiting[-1])
            except _Deeper as deeper:
                if deeper.schema in waiting:
                    raise SchemaError(
                        "references lead back to themselves over too many steps",
                        pointer=deeper.schema.pointer,
                    ) from None
                waiting.append(deeper.schema)
                continue
            waiting.pop()
            if not waiting:
                return result

    def _work_out(self, schema: Schema, negated: bool = False) -> tuple[Group, ...]:
        """:meth:`raw` inside of another schema; ``negated`` for what a negation was turned into."""
        if schema.raw is not None:
            return schema.raw
        position = len(self._path)
        active = self._active.get(schema)
        if active is not None:
            if active[0] != self._context:
                raise _Busy
            return self._cut_cycle(schema, active[1])
        if position >= _DEEPEST:
            raise _Deeper(schema)
        self._active[schema] = (self._context, position)
        self._path.append(schema)
        self._signs.append(not negated and schema.kind != KIND_NOT)
        outer_cut, self._cut = self._cut, _NO_CUT
        try:
            result = self._groups(schema)
            if self._cut >= position:
                schema.raw = result
                self._cut = outer_cut
            else:
                self._cut = min(self._cut, outer_cut)
        except BaseException:
            self._cut = outer_cut
            raise
        finally:
            self._path.pop()
            self._signs.pop()
            del self._active[schema]
        return result

    def _cut_cycle(self, schema: Schema, position: int) -> tuple[Group, ...]:
        """The value to assume for ``schema`` where its own equation mentions it."""
        signs = set(self._signs[position:])
        if len(signs) != 1:
            raise SchemaError(
                "the schema is defined as what does not belong to it",
                pointer=schema.pointer,
                keyword="$ref",
                remedy="break the reference that leads through 'not' or 'oneOf' back to itself",
            )
        self._cut = min(self._cut, position)
        return () if True in signs else self.any_groups

    def attempt(self, question: Callable[[], bool]) -> bool:
        """Ask something that may need what is being worked out; False where it does.

        For shortcuts only, which may or may not be taken.
        """
        if not self._path:
            return question()
        self._context += 1
        outer_cut, self._cut = self._cut, _NO_CUT
        try:
            return question()
        except _Busy:
            return False
        finally:
            self._context -= 1
            self._cut = outer_cut

    def _groups(self, schema: Schema) -> tuple[Group, ...]:
        kind = schema.kind
        parts: tuple[Schema, ...] = schema.parts
        if kind == KIND_NAME:
            if not parts:
                raise AssertionError(f"{schema!r} was never bound")
            return self._work_out(parts[0])
        if kind == KIND_AND:
            current = tuple(map(resolve, parts))
            if current != parts:
                return self._work_out(self.both(*current, place=schema.place))
            return self._conjunction(parts)
        if kind == KIND_OR:
            return self.unify([group for part in parts for group in self._work_out(part)])
        if kind == KIND_NOT:
            return self._negated(parts[0])
        if kind == KIND_NAMES:
            strings = [
                group.strings
                for group in self._work_out(parts[0])
                if isinstance(group, StringGroup)
            ]
            cells = (Cell(StringSet.NONE.join(*strings), self.any),) if strings else ()
            return (*self.any_groups[:-1], ObjectGroup((), cells))
        if kind == KIND_ONE:
            return self._work_out(self.either(*self._exclusive(parts)))
        raise AssertionError(f"no groups for {schema!r}")

    def _conjunction(self, parts: tuple[Schema, ...]) -> tuple[Group, ...]:
        """The groups of an AND. What is excluded comes last: it splits only what it overlaps."""
        choices = [index for index, part in enumerate(parts) if part.kind == KIND_ONE]
        if len(choices) == 1:
            branches = self._branches(parts, choices[0])
            if branches is not None:
                return self._work_out(self.either(*branches))
        excluded: list[Schema] = []
        factors: list[tuple[Group, ...]] = []
        for part in parts:
            groups = self._work_out(part)
            if part.kind == KIND_NOT:
                excluded.append(part)
            else:
                factors.append(groups)
        current = self.unify(self._product(factors)) if factors else self.any_groups
        while excluded and current:
            # The exclusion that leaves the fewest groups first.
            best: tuple[int, tuple[Group, ...]] | None = None
            for index, part in enumerate(excluded):
                rest = self._without(current, part)
                if best is None or len(rest) < len(best[1]):
                    best = (index, rest)
                if len(rest) <= len(current) + 1:  # as good as any
                    break
            assert best is not None
            del excluded[best[0]]
            current = best[1]
        return current

    def _without(self, groups: tuple[Group, ...], negation: Schema) -> tuple[Group, ...]:
        """``groups`` met with those of a negation; what lies outside of it already is kept."""
        inside: Schema = negation.parts[0]
        parts = self._work_out(negation)
        result: list[Group] = []
        for group in groups:
            kind = type(group)
            mine = [part for part in parts if type(part) is kind]
            if not mine:
                continue
            if (kind is ArrayGroup or kind is ObjectGroup) and self._surely_disjoint(
                self.leaf((group,)), inside
            ):
                result.append(group)
                continue
            met = self._meet_all([group], mine)
            if len(met) > 1:
                met = [one for one in met if not self._surely_empty(one)]
            result += met
        return self.unify(meeting.drop_subsumed(self, result))

    def _negated(self, schema: Schema) -> tuple[Group, ...]:
        kind = schema.kind
        parts: tuple[Schema, ...] = schema.parts
        if kind == KIND_NAME:
            return self._work_out(self.negation(parts[0]))
        if kind == KIND_AND:
            return self._work_out(self.either(*map(self.negation, parts)), negated=True)
        if kind == KIND_OR:
            return self._work_out(self.both(*map(self.negation, parts)), negated=True)
        if kind == KIND_ONE:
            exclusive = self._exclusive(parts)
            return self._work_out(self.both(*map(self.negation, exclusive)), negated=True)
        return self.unify(negate.negate_groups(self, self._work_out(schema)))

    def _exclusive(self, parts: Sequence[Schema]) -> list[Schema]:
        """Each of ``parts`` without what also belongs to another."""
        return self._without_common(parts, parts, self._overlaps(parts))

    def _overlaps(self, parts: Sequence[Schema]) -> list[tuple[int, int]]:
        """The pairs of ``parts`` that may have a value in common."""
        found: list[tuple[int, int]] = []
        for i, j in self._suspects(parts):
            self.spend(1)
            if not self._surely_disjoint(parts[i], parts[j]):
                found.append((i, j))
        return found

    def _suspects(self, parts: Sequence[Schema]) -> list[tuple[int, int]]:
        """The pairs of ``parts`` that neither types nor tags tell apart, the later one first.

        A *tag* is a member that an object has to have, with a string out of a list. Linear where
        all parts have one of the same name, and each its own strings.
        """
        objects = [self._objects_of(part) for part in parts]
        names: dict[str, int] = {}
        for groups in objects:
            for name in groups[0].required if groups else ():
                if name in self._tags_of(groups[0]):
                    names[name] = names.get(name, 0) + 1
        # Under the name that tells most of them apart: the parts with each value, and the others.
        tag = max(names, key=lambda name: names[name], default="")
        by_value: dict[str, list[int]] = {}
        others: list[int] = []
        found: set[tuple[int, int]] = set()
        before = 0
        for i, groups in enumerate(objects):
            tags = [self._tags_of(group).get(tag) for group in groups if tag in group.required]
            if groups and len(tags) == len(groups) and None not in tags:
                found.update((i, j) for j in others)
                for value in frozenset().union(*filter(None, tags)):
                    alike = by_value.setdefault(value, [])
                    found.update((i, j) for j in alike)
                    alike.append(i)
            else:
                found.update((i, j) for j in range(i))
                others.append(i)
            self.spend(1 + (len(found) - before) // 4)
            before = len(found)
        return [
            (i, j)
            for i, j in sorted(found)
            if parts[i].types & parts[j].types
            and not (
                objects[i]
                and objects[j]
                and all(self._have_other_tags(a, b) for a in objects[i] for b in objects[j])
            )
        ]

    def _without_common(
        self, parts: Sequence[Schema], whole: Sequence[Schema], overlaps: Iterable[tuple[int, int]]
    ) -> list[Schema]:
        """Each of ``parts`` without those of ``whole`` that it overlaps."""
        others: list[list[Schema]] = [[] for _ in parts]
        for i, j in overlaps:
            others[i].append(whole[j])
            others[j].append(whole[i])
        return [
            self.both(part, *map(self.negation, excluded))
            for part, excluded in zip(parts, others, strict=True)
        ]

    def _branches(self, parts: tuple[Schema, ...], index: int) -> list[Schema] | None:
        """The branches of an AND with just one of some schemas at ``index``.

        What else holds may tell them apart, so that no branch need exclude the others. None for
        what has been branched before, so that its own groups are worked out once instead of time
        and again.
        """
        choice = parts[index]
        if choice.raw is not None or choice in self._branched:
            return None
        self._branched.add(choice)
        before, after = parts[:index], parts[index + 1 :]
        branches = [self.both(*before, branch, *after) for branch in choice.parts]
        overlaps: list[tuple[int, int]] = []
        for i, j in self._suspects(branches):
            self.spend(1)
            # A closer look as long as it is worth it.
            if overlaps or not self._surely_disjoint(branches[i], branches[j]):
                overlaps.append((i, j))
        return self._without_common(branches, choice.parts, overlaps)

    def _surely_disjoint(self, left: Schema, right: Schema) -> bool:
        common = self.both(left, right)
        if common.inhabited is not None:
            return not common.inhabited
        return self.attempt(lambda: self._inhabitation.decide(common))

    def _objects_of(self, schema: Schema) -> list[ObjectGroup]:
        """The groups of a schema of nothing but objects, where they can be told."""
        groups: list[Group] = []

        def work_out() -> bool:
            groups.extend(self._work_out(schema))
            return True

        if schema.types != OBJECTS or not self.attempt(work_out):
            return []
        return [group for group in groups if isinstance(group, ObjectGroup)]

    def _have_other_tags(self, one: ObjectGroup, other: ObjectGroup) -> bool:
        """Whether a member that one of them requires has other values in the other."""
        ours, theirs = self._tags_of(one), self._tags_of(other)
        return any(
            name in theirs
            and (name in one.required or name in other.required)
            and values.isdisjoint(theirs[name])
            for name, values in ours.items()
        )

    def _tags_of(self, group: ObjectGroup) -> dict[str, frozenset[str]]:
        """The members of ``group`` that are strings out of a list, with that list."""
        found = self._tags.get(group)
        if found is None:
            found = self._tags[group] = {}
            for member in group.members:
                parts = member.schema.parts if member.schema.kind == KIND_LEAF else ()
                if len(parts) == 1 and isinstance(parts[0], StringGroup):
                    values = parts[0].strings.values
                    if values is not None:
                        found[member.name] = values
        return found

    def _product(self, factors: Sequence[tuple[Group, ...]]) -> list[Group]:
        """The groups of a conjunction."""
        types = ALL_TYPES
        for groups in factors:
            types &= types_of(groups)
        result: list[Group] = []
        for index, kind in enumerate(TYPES):
            if not types & 1 << index:
                continue
            whole = self.any_groups[index]
            current: list[Group] | None = None
            for groups in factors:
                mine = [group for group in groups if type(group) is kind]
                if mine[0] == whole:
                    continue
                current = mine if current is None else self._meet_all(current, mine)
                if not current:
                    break
            result += [whole] if current is None else current
        return result

    def _meet_all(self, left: list[Group], right: list[Group]) -> list[Group]:
        """The meets of each of ``left`` with each of ``right``, all of one type."""
        met: dict[Group, None] = {}
        for one in left:
            for other in right:
                self.spend(1)
                group = meeting.meet(self, one, other)
                if group is not None:
                    met[group] = None
        if len(met) > _MANY and type(left[0]) in (ArrayGroup, ObjectGroup):
            return [group for group in met if not self._surely_empty(group)]
        return list(met)

    def _surely_empty(self, group: Group) -> bool:
        schema = self.leaf((group,))
        if schema.inhabited is not None:
            return not schema.inhabited
        return self.attempt(lambda: self._inhabitation.decide(schema))

    def unify(self, groups: Iterable[Group]) -> tuple[Group, ...]:
        """``groups`` in the order of their types: scalars joined, no duplicates, no subsumed."""
        groups = tuple(groups)
        if len(groups) < 2:
            return groups
        buckets: dict[type, dict[Group, None]] = {}
        for group in groups:
            buckets.setdefault(type(group), {})[group] = None
        result: list[Group] = []
        for index, kind in enumerate(TYPES):
            bucket = buckets.get(kind)
            if bucket is None:
                continue
            whole = self.any_groups[index]
            if whole in bucket:
                result.append(whole)
            elif len(bucket) == 1:
                result += bucket
            else:
                result += _join(kind, list(bucket))
        return tuple(result)

    # Finishing

    def _finish(self, schema: Schema) -> tuple[Group, ...]:
        """The groups of ``schema`` that have a value, with settled children."""
        groups = self.raw(schema)
        result = []
        for group in groups:
            if len(groups) > 1 and self.is_empty(self.leaf((group,))):
                continue
            finished = self._finish_group(group)
            if finished is not None:
                result.append(finished)
        return self.unify(result)

    def _finish_group(self, group: Group) -> Group | None:
        if type(group) is ArrayGroup:
            return meeting.make_array(
                self,
                [self.settle(item) for item in group.prefix],
                self.settle(group.rest),
                group.low,
                group.high,
                [Counted(self.settle(c.schema), c.low, c.high, c.start) for c in group.counted],
                group.unique,
                group.duplicate,
            )
        if type(group) is ObjectGroup:
            if not group.some and all(map(_is_settled, group.members)):
                for cell in group.cells:
                    if not _is_settled(cell) or cell.names.is_empty():
                        break
                else:
                    return group
            return meeting.make_object(
                self,
                {member.name: self.settle(member.schema) for member in group.members},
                [
                    Cell(cell.names, self.settle(cell.schema))
                    for cell in group.cells
                    if not cell.names.is_empty()
                ],
                group.required,
                [Some(some.names, self.settle(some.schema)) for some in group.some],
                group.low,
                group.high,
                group.unlisted,
            )
        return group


def resolve(schema: Schema) -> Schema:
    """``schema``, or what it stands for if it is a reference that is bound."""
    if schema.kind != KIND_NAME:
        return schema
    first = schema
    passed = 0
    while schema.kind == KIND_NAME and schema.parts:
        schema = schema.parts[0]
        passed += 1
        if schema is first:  # a cycle of nothing but references
            return schema
    if passed > 1:
        first.parts = (schema,)
    return schema


def _is_alone(part: Schema, schemas: Iterable[Schema]) -> bool:
    """Whether ``schemas`` ask for nothing but ``part``."""
    return all(schema is part or schema.kind == KIND_ANY for schema in schemas)


def _is_settled(part: Member | Cell) -> bool:
    schema = part.schema
    return (
        schema.kind == KIND_ANY
        or (schema.kind == KIND_LEAF and schema.inhabited is True)
        or type(schema) is PlainPart
    )


def types_of(groups: Iterable[Group]) -> int:
    """The types among ``groups``, as bits in the order of :data:`TYPES`."""
    types = 0
    for group in groups:
        types |= TYPE_BITS[type(group)]
    return types


def _plainly_inhabited(group: Group) -> bool:
    """Whether ``group`` has a value; False also where that takes a closer look."""
    if isinstance(group, StringGroup):
        strings = group.strings
        return strings.is_any or bool(strings.values)
    if isinstance(group, ObjectGroup):
        if group.some or group.low:
            return False
        required = group.required
        if not required:
            return True
        return group.high is None and all(
            member.schema.inhabited for member in group.members if member.name in required
        )
    if isinstance(group, ArrayGroup):
        return group.low == 0 and not group.duplicate and not group.counted
    if isinstance(group, NumberGroup):
        return group.numbers is NumberSet.ANY or group.numbers is NumberSet.INTEGERS
    return isinstance(group, NullGroup) or bool(group.values)


def _join(kind: type, bucket: list[Group]) -> list[Group]:
    """Distinct groups of one type as few."""
    if kind is BoolGroup:
        return [BoolGroup(frozenset((False, True)))]
    if kind is StringGroup:
        strings = [group.strings for group in bucket if isinstance(group, StringGroup)]
        return [StringGroup(strings[0].join(*strings[1:]))]
    if kind is NumberGroup:
        return _join_numbers([group.numbers for group in bucket if isinstance(group, NumberGroup)])
    return bucket


def _join_numbers(sets: list[NumberSet]) -> list[Group]:
    """All finite sets as one, without what the others hold anyway."""
    values: set[Fraction] = set()
    rest = []
    for numbers in sets:
        known = numbers.finite
        if known is None:
            rest.append(numbers)
        else:
            values |= known
    left = [value for value in values if not any(numbers.contains(value) for numbers in rest)]
    if left:
        rest.append(NumberSet.of(left))
    return [NumberGroup(numbers) for numbers in rest]
