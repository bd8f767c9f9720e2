"""Lists that have to be remembered: bits and counters in the parameter of a rule.

A :class:`Machine` is a finite automaton over the steps (items, members) of one list. Its state is
the 64-bit parameter of its rules: bits that say what has come, and counters that start so that full
means all ones, which is where ``incr`` saturates. So each effect is idempotent once it has
saturated, and states that have the same future are equal.

A step whose effects are all saturated leaves the state as it is. Such steps stand in left-recursive
lists, so that the parser returns to the same row; steps that change the state are nested to the
right, at most as deep as the state has changes.

Guards alone cannot see a dead end (a counter that can no longer be filled). So a machine with few
states is written out, one rule for each rule and state (:mod:`llgx.json_schema.emit_expand`), and
what derives nothing is dropped like any other rule; only a machine beyond that size keeps its
parameters, with guards that leave enough room.

The construction is that of bit-vector automata for existential obligations in Attouche et al.,
"Witness Generation for JSON Schema" (VLDB 2022), section 6, with counters added.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from llgx import ir
from llgx.json_schema.normal import ArrayGroup, Group, ObjectGroup

if TYPE_CHECKING:
    from llgx.json_schema.emit import Emitter, Symbols

__all__ = ["Counter", "Machine", "Step", "TooManyBits", "are_scalar", "both", "reachable"]

_SELF: Final = ir.ParamExpr("self")
_MOST_STATES: Final = 500
_ENDLESS: Final = 1 << 48


class TooManyBits(Exception):
    """The obligations of one list do not fit into a parameter."""


@dataclasses.dataclass(frozen=True, slots=True)
class Counter:
    """Bits ``begin`` to ``end - 1``, counting ``most`` up to all ones."""

    begin: int
    end: int
    most: int

    @property
    def effect(self) -> ir.ParamExpr:
        """One more."""
        return ir.ParamExpr("incr", self.begin, self.end)

    @property
    def is_full(self) -> ir.Condition:
        """All have been counted."""
        return ir.Condition("is_ones", self.begin, self.end)

    @property
    def has_room(self) -> ir.Condition:
        """At least one more may be counted."""
        return ir.Condition("not", items=(self.is_full,))

    def at_least(self, count: int) -> ir.Condition | None:
        """So many have been counted; None if that always holds."""
        if count <= 0:
            return None
        return ir.Condition("ge", self.begin, self.end, self._start + count)

    def at_most(self, count: int) -> ir.Condition | None:
        """No more than so many have been counted; None if that always holds."""
        if count >= self.most:
            return None
        if count < 0:
            return ir.Condition("not", items=(ir.Condition("true"),))
        return ir.Condition("le", self.begin, self.end, self._start + count)

    @property
    def _start(self) -> int:
        return (1 << (self.end - self.begin)) - 1 - self.most

    @property
    def start(self) -> int:
        """The parameter before anything is counted."""
        return self._start << self.begin


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """One alternative for an item or member: its symbols, what it does, and when it may come.

    Guards say where a counter must not overflow; they need not say what the effects imply.
    """

    symbols: Symbols
    effects: tuple[ir.ParamExpr, ...] = ()
    guard: ir.Condition | None = None


class Machine:
    """State and rules of one list. Raises :class:`TooManyBits`."""

    def __init__(self, emitter: Emitter) -> None:
        self._emitter = emitter
        self._limit = 48 if emitter.deep else 64
        self._used = 0
        self._states = 1
        self._is_written_out = False
        self._choices: dict[
            tuple[tuple[Step, ...], ir.RuleRef], tuple[ir.Condition | None, ir.RuleRef]
        ] = {}
        self._after: dict[tuple[int, tuple[ir.ParamExpr, ...]], ir.RuleRef] = {}
        self.start = 0

    def counter(self, most: int) -> Counter:
        """A counter up to ``most``, at least 1."""
        begin = self._take(most.bit_length())
        counter = Counter(begin, self._used, most)
        self.start |= counter.start
        self._states *= most + 1
        return counter

    def bits(self, count: int) -> int:
        """The first of ``count`` bits in a row, all clear at first."""
        self._states <<= count
        return self._take(count)

    @property
    def free(self) -> int:
        """How many bits there still are."""
        return self._limit - self._used

    def _take(self, width: int) -> int:
        begin = self._used
        if begin + width > self._limit:
            raise TooManyBits
        self._used += width
        return begin

    def write_out(self, places: int) -> bool:
        """Have the machine written out if the states of all ``places`` together are few."""
        self._is_written_out = self._states * (places + 1) <= _MOST_STATES
        return self._is_written_out

    # Rules

    def inside(self, symbols: Symbols) -> Symbols:
        """``symbols`` as parts of a step: their rules know nothing of this machine."""
        if not self._emitter.deep:
            return symbols
        return tuple(
            symbol
            if isinstance(symbol, ir.TerminalRef)
            # The lines of this list are rules too, and read the same depth.
            else ir.RuleRef(
                symbol.index, _ONLY_DEPTH if symbol.argument == _SELF else symbol.argument
            )
            for symbol in symbols
        )

    def then(self, rule: ir.RuleRef, effects: Sequence[ir.ParamExpr]) -> ir.RuleRef:
        """``rule`` in the state after ``effects``."""
        if not effects:
            return ir.RuleRef(rule.index, _SELF)
        if len(effects) == 1:
            return ir.RuleRef(rule.index, effects[0])
        # One rule for each further effect: an argument is a single operation.
        key = (rule.index, tuple(effects[1:]))
        found = self._after.get(key)
        if found is None:
            _, found = self.rule((((self.then(rule, effects[1:]),), None),))
            self._after[key] = found
        return ir.RuleRef(found.index, effects[0])

    def begin(self, rule: ir.RuleRef) -> ir.RuleRef:
        """``rule`` in the first state."""
        if self._is_written_out:
            self._emitter.written_out.append(rule.index)
        if not self._emitter.deep:
            return ir.RuleRef(rule.index, ir.ParamExpr("const", self.start))
        return ir.RuleRef(rule.index, ir.ParamExpr("bit_or", self.start))

    def rule(
        self, alternatives: Iterable[tuple[Symbols, ir.Condition | None]] = ()
    ) -> tuple[ir.Rule, ir.RuleRef]:
        """A rule of the machine."""
        rule, reference = self._emitter.new_rule(True)
        self._emitter.machine_rules.add(reference.index)
        rule.productions += [ir.Production(symbols, guard) for symbols, guard in alternatives]
        return rule, reference

    def rest(self, steps: Sequence[Step], accept: ir.Condition | None) -> ir.RuleRef:
        """Any number of further steps, each after a comma, up to a state that ``accept`` holds in.

        The rule may derive nothing.
        """
        _, here = self.rule((((), accept),))
        self.add(here, steps, here)
        return here

    def add(
        self,
        rest: ir.RuleRef,
        steps: Sequence[Step],
        after: ir.RuleRef,
        guard: ir.Condition | None = None,
    ) -> None:
        """Let ``rest`` also be a comma, one of ``steps`` and then ``after``, if ``guard`` holds."""
        if steps:
            possible, taken = self._one_of(steps, after)
            symbols = (*self.inside(self._emitter.comma), taken)
            self._emitter.rule_of(rest).productions.append(
                ir.Production(symbols, both(guard, possible))
            )

    def first(
        self, steps: Sequence[Step], accept: ir.Condition | None, after: ir.RuleRef
    ) -> ir.RuleRef:
        """Nothing, if the first state may be the last; or one of ``steps`` and then ``after``."""
        _, here = self.rule((((), accept),))
        self.add_first(here, steps, after)
        return here

    def add_first(
        self,
        first: ir.RuleRef,
        steps: Sequence[Step],
        after: ir.RuleRef,
        guard: ir.Condition | None = None,
    ) -> None:
        """Let ``first`` also be one of ``steps`` and then ``after``, where ``guard`` holds."""
        if steps:
            emitter = self._emitter
            enter, leave = self.inside(emitter.enter), self.inside(emitter.leave)
            possible, taken = self._one_of(steps, after)
            emitter.rule_of(first).productions.append(
                ir.Production((*enter, taken, *leave), both(guard, possible))
            )

    def _one_of(
        self, steps: Sequence[Step], after: ir.RuleRef
    ) -> tuple[ir.Condition | None, ir.RuleRef]:
        """One of ``steps`` and then ``after``, and the guard that there is one to take."""
        key = (tuple(steps), after)
        found = self._choices.get(key)
        if found is None:
            _, here = self.rule(
                ((*self.inside(step.symbols), self.then(after, step.effects)), step.guard)
                for step in steps
            )
            found = self._choices[key] = (_any_of([step.guard for step in steps]), here)
        return found


_ONLY_DEPTH: Final = ir.ParamExpr("bit_and", ((1 << 16) - 1) << 48)


def reachable(high: int | None) -> int | None:
    """An upper bound of a count, or None for one that no text in this world gets to."""
    return None if high is None or high >= _ENDLESS else high


def are_scalar(groups: Iterable[Group]) -> bool:
    """Whether no array or object is among ``groups``."""
    return all(type(group) is not ObjectGroup and type(group) is not ArrayGroup for group in groups)


def both(*conditions: ir.Condition | None) -> ir.Condition | None:
    """All of ``conditions``; None stands for one that always holds."""
    parts = tuple(condition for condition in conditions if condition is not None)
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else ir.Condition("and", items=parts)


def _any_of(guards: Sequence[ir.Condition | None]) -> ir.Condition | None:
    """That one of ``guards`` holds; None where that is always so."""
    if None in guards:
        return None
    distinct = tuple(dict.fromkeys(guard for guard in guards if guard is not None))
    if len(distinct) == 1:
        return distinct[0]
    clear = sorted(guard.a for guard in distinct if guard.op == "bit_clear")
    if len(clear) == len(distinct) == clear[-1] - clear[0] + 1:
        full = ir.Condition("is_ones", clear[0], clear[-1] + 1)
        return ir.Condition("not", items=(full,))
    return ir.Condition("or", items=distinct)
