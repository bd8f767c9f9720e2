"""Emission of arrays whose items are counted or compared.

Items that are counted (``contains``, and what ``not`` and ``oneOf`` leave of ``items``) are steps
of a :class:`Machine` with a counter for each such schema. Where no upper bound is set, an item
may or may not claim to belong to it; under a bound the items are split into those that do and
those that do not, by the algebra.

Unique items. The engine keeps their texts apart (:attr:`Terminal.distinct`, ``unique``), so each
value has to have one text: they are spelled in one way only, and open objects have at most one
further member, whose order would not matter but show. Where that could lead to a dead end, and
values are few, each is a step with a bit. Equal items (negated ``uniqueItems``) exist for few
values only.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from llgx import ir
from llgx.json_schema.emit_machine import (
    Counter,
    Machine,
    Step,
    TooManyBits,
    are_scalar,
    both,
    reachable,
)
from llgx.json_schema.finite import values_of
from llgx.json_schema.normal import ArrayGroup, Counted, Schema

if TYPE_CHECKING:
    from llgx.json_schema.emit import Emitter, Symbols

__all__ = ["are_kept_apart", "productions"]

_VALUE_BITS: Final = 60  # values that are remembered one by one
_MOST_VALUES: Final = 5_000  # of an item, up to which they are counted so that none is missed


def productions(emitter: Emitter, group: ArrayGroup, schema: Schema) -> list[Symbols]:
    """The texts of the arrays of ``group``.

    What cannot be done is reported, and then not enforced.
    """
    try:
        items = _Items(emitter, group, schema, one_by_one=True)
    except TooManyBits:
        try:
            items = _Items(emitter, group, schema, one_by_one=False)
        except TooManyBits:
            reason = "counting items takes more than 64 bits"
            emitter.report.unenforced(schema.pointer, "contains", reason)
            group = dataclasses.replace(group, counted=(), duplicate=False)
            items = _Items(emitter, group, schema, one_by_one=False)
    begin = emitter.open_unique_array if items.compares else emitter.open_array
    return emitter.machine_in_brackets(begin, items.first(), emitter.close_array)


def are_kept_apart(emitter: Emitter, group: ArrayGroup) -> bool:
    """Whether the engine alone can keep the items of ``group`` apart.

    It refuses a comma where no scalar is left that could follow it. It searches through the texts
    of arrays and objects, which is for many different ones; and it does not look over line breaks,
    or ahead to a place where the items are others.
    """
    if group.prefix:
        return False
    if are_scalar(group.rest.groups) and emitter.style.unit is None:
        return True
    return values_of(emitter.algebra, group.rest, _VALUE_BITS) is None and (
        emitter.style.unit is None or values_of(emitter.algebra, group.rest, _MOST_VALUES) is None
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _Alternative:
    """Values of an item, what they count for, and what guards them."""

    schema: Schema
    effects: tuple[ir.ParamExpr, ...] = ()
    guard: ir.Condition | None = None


class _Items:
    """The machine of one array. ``compares`` says whether the engine keeps items apart."""

    def __init__(
        self, emitter: Emitter, group: ArrayGroup, schema: Schema, one_by_one: bool
    ) -> None:
        self._emitter = emitter
        self._machine = machine = Machine(emitter)
        self._group = group
        high = reachable(group.high)
        if group.rest.is_never:
            high = len(group.prefix) if high is None else min(high, len(group.prefix))
        self._high = high
        # Places that are walked one by one; from there on all are alike.
        places = max(len(group.prefix), *(item.start for item in group.counted), 0)
        self._places = places if high is None else min(places, high)
        self._claims: list[tuple[Counted, Counter | None]] = []
        for counted in group.counted:
            counted = dataclasses.replace(counted, high=reachable(counted.high))
            most = counted.low if counted.high is None else counted.high
            if most or counted.high is not None:
                self._claims.append((counted, machine.counter(most) if most else None))
        self._length: Counter | None = None
        if high is not None:
            if high > self._places:
                self._length = machine.counter(high - self._places)
        elif group.low > self._places:
            self._length = machine.counter(group.low - self._places)
        self._unique = group.unique and (high is None or high > 1)
        self._values: dict[object, int] | None = None
        self._twice = 0
        self.compares = False
        if self._unique or group.duplicate:
            self._prepare_values(schema, one_by_one)
        self._is_small = machine.write_out(self._places)
        self._waste: list[Counter | None] = [None] * len(self._claims)
        if high is not None and not self._is_small:
            for number, (counted, _) in enumerate(self._claims):
                spare = high - counted.start - counted.low
                if counted.low and spare > 0:
                    self._waste[number] = machine.counter(spare)

    def _prepare_values(self, schema: Schema, one_by_one: bool) -> None:
        """Remember the values of items one by one, or let the engine compare them."""
        emitter, group = self._emitter, self._group
        schemas = [*group.prefix, group.rest] if self._high != len(group.prefix) else group.prefix
        every = emitter.algebra.either(*schemas)
        values = values_of(emitter.algebra, every, _VALUE_BITS) if one_by_one else None
        if values is not None and (self._unique or values):
            begin = self._machine.bits(len(values))
            self._values = {value: begin + at for at, value in enumerate(values)}
            if group.duplicate:
                self._twice = self._machine.bits(1)
            return
        if group.duplicate:
            reason = f"two equal items are found among at most {_VALUE_BITS} different values"
            emitter.report.unenforced(schema.pointer, "uniqueItems", reason)
            self._group = dataclasses.replace(group, duplicate=False)
        if self._unique:
            self.compares = True
            emitter = self._emitter = emitter.comparing
            self._values = None
            many = values_of(emitter.algebra, every, _MOST_VALUES)
            if many is not None and self._length is None and self._high is None:
                # All of them used: no comma may come after that.
                self._high = self._places + len(many)
                self._length = self._machine.counter(len(many))

    # What an item may be

    def _alternatives(self, schema: Schema, place: int) -> list[_Alternative]:
        """The ways in which an item at ``place`` may count."""
        algebra = self._emitter.algebra
        found = [_Alternative(schema)]
        for number, (counted, counter) in enumerate(self._claims):
            if place < counted.start:
                continue
            extended: list[_Alternative] = []
            for item in found:
                inside = algebra.both(item.schema, counted.schema)
                outside: Schema | None = item.schema
                if counted.high is not None:
                    outside = algebra.both(item.schema, algebra.negation(counted.schema))
                elif inside is item.schema:
                    outside = None
                if counter is not None and not inside.is_never:
                    guard = item.guard
                    if counted.high is not None:
                        guard = both(guard, counter.has_room)
                    extended.append(_Alternative(inside, (*item.effects, counter.effect), guard))
                if outside is not None and not outside.is_never:
                    effects, guard = item.effects, item.guard
                    waste = self._waste[number]
                    if waste is not None:
                        effects, guard = (*effects, waste.effect), both(guard, waste.has_room)
                    extended.append(_Alternative(outside, effects, guard))
            found = extended
        return found

    def _steps(self, schema: Schema, place: int) -> list[Step]:
        steps: list[Step] = []
        emitter = self._emitter
        for item in self._alternatives(schema, place):
            effects, guard = item.effects, item.guard
            if place >= self._places and self._length is not None:
                effects = (*effects, self._length.effect)
                if self._high is not None:
                    guard = both(guard, self._length.has_room)
            if self._values is not None:
                steps += self._value_steps(item.schema, effects, guard)
            elif self.compares:
                steps.append(Step((emitter.distinct_value(item.schema),), effects, guard))
            else:
                steps.append(Step((emitter.value(item.schema),), effects, guard))
        return steps

    def _value_steps(
        self, schema: Schema, effects: tuple[ir.ParamExpr, ...], guard: ir.Condition | None
    ) -> list[Step]:
        """A step for each value of ``schema``, or two: for the first time, and again."""
        assert self._values is not None
        steps: list[Step] = []
        for value in values_of(self._emitter.algebra, schema, _VALUE_BITS) or ():
            bit = self._values[value]
            symbols = self._emitter.constant(value, (schema,))
            fresh = both(guard, ir.Condition("bit_clear", bit))
            steps.append(Step(symbols, (*effects, ir.ParamExpr("set_bit", bit)), fresh))
            if self._group.duplicate:
                again = both(guard, ir.Condition("bit_set", bit))
                twice = ir.ParamExpr("set_bit", self._twice)
                steps.append(Step(symbols, (*effects, twice), again))
        return steps

    def _accept(self, place: int) -> list[ir.Condition | None]:
        """That the array may end before an item at ``place``: an empty list for never."""
        if place < min(self._group.low, self._places):
            return []
        parts: list[ir.Condition | None] = []
        for counted, counter in self._claims:
            if counter is not None:
                parts.append(counter.at_least(counted.low))
        if place >= self._places and self._length is not None:
            parts.append(self._length.at_least(self._group.low - self._places))
        if self._group.duplicate:
            parts.append(ir.Condition("bit_set", self._twice))
        return [both(*parts)]

    # The rules

    def first(self) -> ir.RuleRef:
        """The rule of the whole list, in its first state."""
        machine, group, emitter = self._machine, self._group, self._emitter
        steps: list[Step] = []
        if self._high is None or self._high > self._places:
            steps = self._steps(group.rest, self._places)
        [accept] = self._accept(self._places)
        rest = machine.rest(steps, accept)
        if not self._places:
            return machine.begin(machine.first(steps, accept, rest))
        comma = machine.inside(emitter.comma)
        for place in range(self._places - 1, -1, -1):
            item = group.prefix[place] if place < len(group.prefix) else group.rest
            steps = self._steps(item, place)
            accepts = self._accept(place)
            if place == 0:
                nothing = accepts[0] if accepts else _NEVER
                return machine.begin(machine.first(steps, nothing, rest))
            rule, here = machine.rule(((), accept) for accept in accepts)
            for step in steps:
                symbols = (*comma, *machine.inside(step.symbols), machine.then(rest, step.effects))
                rule.productions.append(ir.Production(symbols, step.guard))
            rest = here
        raise AssertionError("a list of places has a first one")


_NEVER: Final = ir.Condition("not", items=(ir.Condition("true"),))
