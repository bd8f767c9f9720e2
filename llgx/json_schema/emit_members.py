"""Emission of objects whose members have to be counted, or remembered, or may come in any order.

What has to be remembered becomes the state of a :class:`Machine`:

- ``minProperties`` and ``maxProperties``: a counter of the members that are not required;
- members that must exist with some name and value: a bit each. A member that satisfies such an
  obligation is an alternative of its own, whose value lies in both schemas;
- in any order: a bit for each key; beyond the bits that there are, equal keys are kept apart by
  distinct lexemes, and those that are required counted;
- a finite set of further names: a counter of how many of them have been used.

In schema order the named keys are walked first, with two rules for each: one where no member has
come yet, one where a comma is due.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final, TypeAlias

from llgx import ir
from llgx.errors import LimitError
from llgx.json_schema.emit_machine import Counter, Machine, Step, TooManyBits, both, reachable
from llgx.json_schema.normal import Member, ObjectGroup, Schema

if TYPE_CHECKING:
    from llgx.json_schema.emit import Emitter, Symbols
    from llgx.json_schema.strings import StringSet

__all__ = ["number_of_names", "productions"]

# Names of a cell, what their members may be, and the obligations that speak of them.
_Part: TypeAlias = "tuple[StringSet, Schema, tuple[int, ...]]"

_FEW_NAMES: Final = 64
_MOST_OBLIGATIONS: Final = 40
_MOST_ALTERNATIVES: Final = 32  # for the value of one member


def productions(emitter: Emitter, group: ObjectGroup, schema: Schema) -> list[Symbols]:
    """The texts of the objects of ``group``.

    What takes more than the bits of a parameter is reported, and then not enforced.
    """
    if emitter.compares and group.cells and group.low > len(group.members) + 1:
        emitter.narrow(schema)
        return []  # the members that are named, and one
    if len(group.some) > _MOST_OBLIGATIONS:
        reason = f"more than {_MOST_OBLIGATIONS} members that must exist are not remembered"
        emitter.report.unenforced(schema.pointer, "patternProperties", reason)
        group = dataclasses.replace(group, some=())
    for count_names in (True, False):
        try:
            members = _Members(emitter, group, count_names)
            break
        except TooManyBits:
            continue
    else:
        reason = "counts and keys to remember take more than 64 bits"
        emitter.report.unenforced(schema.pointer, "properties", reason)
        group = dataclasses.replace(group, some=(), low=0, high=None)
        members = _Members(emitter, group, count_names=False)
    first = members.first()
    return emitter.machine_in_brackets(emitter.open_object, first, emitter.close_object)


@dataclasses.dataclass(slots=True)
class _Alternative:
    """One way in which a member may be: a value, and the obligations that it satisfies."""

    value: Symbols
    claims: frozenset[int]


def number_of_names(names: StringSet) -> int | None:
    """How many names there are; None for more than 64, or more than can be searched."""
    values = names.values
    if values is not None:
        return len(values)
    if names.excluded is not None:
        return None
    try:
        found = names.enumerate(_FEW_NAMES)
    except LimitError:
        return None
    return None if found is None else len(found)


class _Members:
    """The machine of one object.

    With ``count_names`` names of finite cells are counted where something hangs on it: a lower
    bound, or a line break, over which the engine does not look when it refuses a comma that no key
    may follow.
    """

    def __init__(self, emitter: Emitter, group: ObjectGroup, count_names: bool) -> None:
        self._emitter = emitter
        self._machine = machine = Machine(emitter)
        self._group = group
        self._some = group.some
        required = group.required
        self._low = max(0, group.low - len(required))
        self._high = reachable(group.high)
        if self._high is not None:
            self._high -= len(required)
        self._members = group.members
        self._cells = self._split_cells() if self._high != 0 else []
        if self._high == 0:
            self._members = tuple(m for m in group.members if m.name in required)
        self._any_order = emitter.any_order and not emitter.compares
        optional = len(self._members) - len(required)
        sizes: list[int | None] = [None] * len(self._cells)
        if count_names and (self._low or emitter.style.unit is not None):
            sizes = [number_of_names(names) for names, _, _ in self._cells]
        room: int | None = optional
        for size in sizes:
            room = None if room is None or size is None else room + size
        # Obligations, required keys and all keys, each in bits side by side.
        self._some_bit = machine.bits(len(self._some)) if self._some else 0
        self._count: Counter | None = None
        most = self._low if self._high is None else self._high
        self._is_bounded = self._high is not None and (room is None or self._high < room)
        if self._low or self._is_bounded:
            self._count = machine.counter(most)
        # Whether keys that have a bit are counted, too.
        self._counts_bits = self._count is not None
        # Where texts are compared, one member of the cells at most: their order would show.
        self._others: Counter | None = None
        if emitter.compares and self._cells:
            self._others = machine.counter(1)
        self._used: dict[int, Counter] = {}
        for at, size in enumerate(sizes):
            if size is not None:
                self._used[at] = machine.counter(size)
        self._key_bit: dict[str, int] = {}
        self._required: Counter | None = None
        self._required_bits = (0, 0)
        if self._any_order:
            self._remember_keys(room)
        places = 0 if self._any_order else len(self._members)
        self._is_small = self._can_fail() and machine.write_out(places)

    def _remember_keys(self, room: int | None) -> None:
        """A bit for each key in any order, or for as many as there are bits, required ones first.

        Of the others the required ones are counted. ``room`` is how many members there may be that
        are not required, if that is known.
        """
        machine, required = self._machine, self._group.required
        ordered = [member.name for member in self._members if member.name in required]
        ordered += [member.name for member in self._members if member.name not in required]
        free = machine.free
        if len(ordered) > free:
            free -= len(required).bit_length() + (room or len(ordered)).bit_length()
        if free > 0 and ordered:
            begin = machine.bits(min(free, len(ordered)))
            self._key_bit = {name: begin + i for i, name in enumerate(ordered[:free])}
            self._required_bits = (begin, begin + sum(name in required for name in self._key_bit))
        missing = len(required) - sum(name in required for name in self._key_bit)
        if missing:
            self._required = machine.counter(missing)
        if room is not None and self._count is None and len(self._key_bit) < len(ordered):
            # All of them used: no comma may come after that.
            room -= sum(name not in required for name in self._key_bit)
            if room:
                self._count = machine.counter(room)
                self._is_bounded = True

    def _can_fail(self) -> bool:
        """Whether there may be a state from which no text can be completed.

        Not where members without end may still come that can do all that is to be done.
        """
        if self._is_bounded:
            return True
        if self._others is not None and (self._low or self._some):
            return True  # one further member may not be enough
        endless = [cell for cell in self._cells if number_of_names(cell[0]) is None]
        if self._low and not endless:
            return True
        both_of = self._emitter.algebra.both
        return not all(
            any(
                number in obligations and not both_of(schema, some.schema).is_never
                for _, schema, obligations in endless
            )
            for number, some in enumerate(self._some)
        )

    # What a member may be

    def _split_cells(self) -> list[_Part]:
        """The cells, cut so that each obligation speaks of all names of a part or of none."""
        parts: list[_Part] = [(cell.names, cell.schema, ()) for cell in self._group.cells]
        for number, some in enumerate(self._some):
            cut: list[_Part] = []
            for names, schema, obligations in parts:
                inside = names.meet(some.names)
                if inside.is_empty():
                    cut.append((names, schema, obligations))
                    continue
                cut.append((inside, schema, (*obligations, number)))
                outside = names.meet(some.names.complement())
                if not outside.is_empty():
                    cut.append((outside, schema, obligations))
            parts = cut
        return parts

    def _alternatives(self, schema: Schema, obligations: tuple[int, ...]) -> list[_Alternative]:
        """Each set of obligations that a value of ``schema`` may satisfy, with such values."""
        emitter = self._emitter
        # By schema: a value that is in it satisfies all that was found for it on any way.
        found: dict[Schema, frozenset[int]] = {schema: frozenset()}
        for number in obligations:
            extended: dict[Schema, frozenset[int]] = {}
            many = len(found) >= _MOST_ALTERNATIVES
            for part, claims in found.items():
                if many and part is not schema:
                    # In every combination it would be too many: this one by itself, then.
                    extended[part] = extended.get(part, frozenset()) | claims
                    continue
                narrower = emitter.algebra.both(part, self._some[number].schema)
                if not narrower.is_never:
                    satisfied = claims | {number}
                    extended[narrower] = extended.get(narrower, frozenset()) | satisfied
                if narrower is not part:
                    extended[part] = extended.get(part, frozenset()) | claims
            found = extended
        return [_Alternative((emitter.value(part),), claims) for part, claims in found.items()]

    def _step(
        self,
        key: Symbols,
        alternative: _Alternative,
        own: tuple[ir.ParamExpr, ...],
        counts: bool,
        guard: ir.Condition | None,
    ) -> Step:
        """A member as a step; ``counts`` when it is not a required one."""
        effects = list(own)
        effects += [
            ir.ParamExpr("set_bit", self._some_bit + number)
            for number in sorted(alternative.claims)
        ]
        if counts and self._count is not None:
            effects.append(self._count.effect)
            if self._is_bounded:
                guard = both(guard, self._count.has_room, self._room(alternative.claims))
        return Step((*key, *alternative.value), tuple(effects), guard)

    def _room(self, claims: frozenset[int]) -> ir.Condition | None:
        """After one more member, each obligation that is left has room for a member of its own.

        Only where the machine is too large to be written out.
        """
        if self._is_small or not self._some or self._high is None or self._count is None:
            return None
        number = len(self._some)
        parts: list[ir.Condition] = []
        begin, end = self._some_bit, self._some_bit + number
        for left in range(1, number + 1):
            satisfied = number - left + 1 - len(claims)
            if satisfied <= 0:
                continue
            few = ir.Condition("bit_count_ge", begin, end, satisfied)
            room = self._count.at_most(self._high - 1 - left)
            if room is not None:
                parts.append(ir.Condition("or", items=(few, room)))
        return both(*parts)

    def _cell_steps(self) -> list[Step]:
        steps: list[Step] = []
        for at, (names, schema, obligations) in enumerate(self._cells):
            key = self._emitter.distinct_key(names)
            own: tuple[ir.ParamExpr, ...] = ()
            guard: ir.Condition | None = None
            used = self._used.get(at)
            if used is not None:
                own, guard = (used.effect,), used.has_room
            if self._others is not None:
                own, guard = (*own, self._others.effect), both(guard, self._others.has_room)
            for alternative in self._alternatives(schema, obligations):
                steps.append(self._step(key, alternative, own, True, guard))
        return steps

    def _member_alternatives(self, member: Member) -> list[_Alternative]:
        obligations = tuple(
            number for number, some in enumerate(self._some) if some.names.contains(member.name)
        )
        return self._alternatives(member.schema, obligations)

    def _accept(self) -> ir.Condition | None:
        parts: list[ir.Condition | None] = []
        if self._some:
            begin = self._some_bit
            parts.append(ir.Condition("is_ones", begin, begin + len(self._some)))
        parts.append(self._all_required())
        if self._count is not None:
            parts.append(self._count.at_least(self._low))
        return both(*parts)

    def _all_required(self) -> ir.Condition | None:
        """In any order: that all required members are there."""
        parts: list[ir.Condition | None] = []
        begin, end = self._required_bits
        if begin < end:
            parts.append(ir.Condition("is_ones", begin, end))
        if self._required is not None:
            parts.append(self._required.is_full)
        return both(*parts)

    # The rules

    def first(self) -> ir.RuleRef:
        """The rule of the whole list, in its first state."""
        machine = self._machine
        others = self._cell_steps()
        accept = self._accept()
        if not self._any_order:
            rest = machine.rest(others, accept)
            first = self._walk(machine.first(others, accept, rest), rest)
            return machine.begin(first)
        named = self._free_steps()
        if not (named and others and self._emitter.others_last):
            rest = machine.rest([*others, *named], accept)
            return machine.begin(machine.first([*others, *named], accept, rest))
        # The others end what may be named: then nothing named may be missing.
        to_others = self._may_leave_named()
        ending = machine.rest(others, accept)
        rest = machine.rest(named, accept)
        machine.add(rest, others, ending, to_others)
        first = machine.first(named, accept, rest)
        machine.add_first(first, others, ending, to_others)
        return machine.begin(first)

    def _may_leave_named(self) -> ir.Condition | None:
        """That no named member is missing: the others can do what is still to be done."""
        unsupported = set(range(len(self._some)))
        for _, _, obligations in self._cells:
            unsupported -= set(obligations)
        parts = [self._all_required(), self._still_to_come(unsupported)]
        if len(self._used) == len(self._cells) and self._count is not None and not self._is_small:
            left = sum(used.most for used in self._used.values())
            parts.append(self._count.at_least(self._low - left))
        return both(*parts)

    def _free_steps(self) -> list[Step]:
        """The named members as steps that may come at any time, once each."""
        emitter = self._emitter
        steps: list[Step] = []
        for member in self._members:
            name = member.name
            is_required = name in self._group.required
            own: list[ir.ParamExpr] = []
            guard: ir.Condition | None = None
            counts = not is_required
            bit = self._key_bit.get(name)
            if bit is None:
                key = emitter.distinct_name(name)
                if is_required and self._required is not None:
                    own.append(self._required.effect)
                    guard = self._required.has_room
            else:
                key = emitter.key(name)
                own.append(ir.ParamExpr("set_bit", bit))
                guard = ir.Condition("bit_clear", bit)
                counts = counts and self._counts_bits
            for alternative in self._member_alternatives(member):
                steps.append(self._step(key, alternative, tuple(own), counts, guard))
        return steps

    def _walk(self, first: ir.RuleRef, rest: ir.RuleRef) -> ir.RuleRef:
        """The named members in order, and then ``rest``; before any member, ``first`` at last."""
        machine, emitter = self._machine, self._emitter
        comma = machine.inside(emitter.comma)
        enter, leave = machine.inside(emitter.enter), machine.inside(emitter.leave)
        left = sum(used.most for used in self._used.values())
        is_closed = len(self._used) == len(self._cells)
        unsupported = set(range(len(self._some)))
        for _, _, obligations in self._cells:
            unsupported -= set(obligations)
        for member in reversed(self._members):
            is_required = member.name in self._group.required
            alternatives = self._member_alternatives(member)
            taking: list[tuple[Symbols, Step]] = []
            for alternative in alternatives:
                guard = self._still_to_come(unsupported - alternative.claims)
                step = self._step(emitter.key(member.name), alternative, (), not is_required, guard)
                taking.append((machine.inside(step.symbols), step))
            later, here = machine.rule(
                ((*comma, *symbols, machine.then(rest, step.effects)), step.guard)
                for symbols, step in taking
            )
            begin, before = machine.rule(
                ((*enter, *symbols, machine.then(rest, step.effects), *leave), step.guard)
                for symbols, step in taking
            )
            if not is_required:
                skip = self._still_to_come(unsupported)
                if is_closed and self._count is not None and not self._is_small:
                    skip = both(skip, self._count.at_least(self._low - left))
                later.productions.append(ir.Production((rest,), skip))
                begin.productions.append(ir.Production((first,), skip))
                left += 1
            first, rest = before, here
            for alternative in alternatives:
                unsupported -= alternative.claims
        return first

    def _still_to_come(self, obligations: set[int] | frozenset[int]) -> ir.Condition | None:
        """That ``obligations``, which nothing further on satisfies, are satisfied."""
        if self._is_small:
            return None
        return both(
            *(ir.Condition("bit_set", self._some_bit + number) for number in sorted(obligations))
        )
