"""Emission: schemas in normal form to the rules and terminals of :mod:`llgx.ir`.

One rule for each schema, recursion by reference; what is to be done waits in a list, so that
nesting costs no Python stack. A schema that one terminal matches takes no rule at all. All its
finite scalars are one terminal; plain strings and numbers are the same terminals everywhere, so
that lexer states and masks are shared. Any JSON is one left-recursive sub-grammar.

Linear in the normal form: objects take one rule for each optional key
(:mod:`llgx.json_schema.emit_objects`), arrays O(log n) for their bounds
(:mod:`llgx.json_schema.emit_arrays`); what has to be counted or remembered becomes parametric
rules (:mod:`llgx.json_schema.emit_machine`).

With an indent (:attr:`Style.deep`) every rule takes the depth as bits 48 to 63 of its parameter.
"""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, Final

from llgx import ir
from llgx.errors import GrammarError, SchemaError
from llgx.json_schema import emit_arrays, emit_objects
from llgx.json_schema.emit_machine import are_scalar
from llgx.json_schema.meet import item_at
from llgx.json_schema.normal import (
    ArrayGroup,
    BoolGroup,
    Group,
    NullGroup,
    NumberGroup,
    ObjectGroup,
    PlainPart,
    Schema,
    StringGroup,
)
from llgx.json_schema.numbers import NumberSet
from llgx.json_schema.strings import StringSet
from llgx.json_schema.style import Style, literal_name
from llgx.regex.build import alternate

if TYPE_CHECKING:
    from llgx.json_schema.algebra import Algebra
    from llgx.json_schema.report import Report

__all__ = ["DEPTH_BITS", "Emitter", "Shared", "Symbols"]

Symbols = tuple[ir.Symbol, ...]
# Rules, terminals, symbols of terminals by identity, terminals in their own class, any JSON.
Shared = tuple[
    list[ir.Rule], list[ir.Terminal], dict[int, ir.TerminalRef], list[ir.Terminal], ir.Symbol
]
_Task = tuple["Emitter", ir.Rule, tuple[Group, ...], Schema]

DEPTH_BITS: Final = (48, 64)
_SELF: Final = ir.ParamExpr("self")
_DEEPER: Final = ir.ParamExpr("incr", *DEPTH_BITS)
_SHALLOWER: Final = ir.ParamExpr("decr", *DEPTH_BITS)
_ONLY_DEPTH: Final = ir.ParamExpr("bit_and", ((1 << 16) - 1) << DEPTH_BITS[0])
# Depths whose line begins are one terminal each; those below are put together.
_SPELT_DEPTHS: Final = 12


class Emitter:
    """Rules and terminals in the making.

    ``merged`` says whether a key and its colon, or a comma and the key after it, are one lexeme.
    They are not where texts are compared, since white space within a lexeme is part of it; nor
    where alternatives meet in a row, since the lexer takes the longest lexeme of all: ``"a":`` of
    one object would cut off the key ``"a"`` of another one. For such places there is a *variant*,
    :attr:`separate`, and for what is compared another one, :meth:`comparing`, with spellings of its
    own. Variants share rules and terminals. ``shared`` is what the emitter adds to, if it is not
    the only one at work.
    """

    def __init__(
        self,
        style: Style,
        algebra: Algebra,
        report: Report,
        *,
        any_order: bool = False,
        others_last: bool = False,
        merged: bool = True,
        skip_class: int = 0,
        first_rule: int = 0,
        first_terminal: int = 0,
        shared: Shared | None = None,
    ) -> None:
        self.style = style
        self.algebra = algebra
        self.report = report
        self.any_order = any_order
        # Of members in any order those that are not named come last, all the same.
        self.others_last = others_last
        self.compares = False
        self.merged = merged and style.unit is None
        self.deep = style.deep
        self.rules: list[ir.Rule] = []
        self.terminals: list[ir.Terminal] = []
        self._refs: dict[int, ir.TerminalRef] = {}
        self._originals: list[ir.Terminal] = []
        any_value: ir.Symbol | None = None
        if shared is not None:
            self.rules, self.terminals, self._refs, self._originals, any_value = shared
        self.warnings: list[str] = []
        # Each with the rule that was under way, which is kept in a list of one.
        self._warned: list[tuple[str, ir.Rule | None]] = []
        self._emitting: list[ir.Rule | None] = [None]
        # Of the machines: all their rules, and those to write out at the end (emit_expand).
        self.machine_rules: set[int] = set()
        self.written_out: list[int] = []
        self.first_rule = first_rule
        self._first_terminal = first_terminal
        self._skip_class = skip_class
        self._todo: list[_Task] = []
        self._shared_rules: dict[tuple[tuple[int, ...], ...], ir.RuleRef] = {}
        self._distinct_terminals: dict[int, ir.TerminalRef] = {}
        self.comma: Symbols = (self.ref(style.comma),)
        self.open_object = self.ref(style.open_object)
        self.close_object = self.ref(style.close_object)
        self.open_array = self.ref(style.open_array)
        self.close_array = self.ref(style.close_array)
        # What stands after an opening and before a closing bracket.
        self.enter: Symbols = ()
        self.leave: Symbols = ()
        if style.unit is not None:
            self._add_lines(style.unit)
        self._begin_variant(any_value)

    def _begin_variant(self, any_value: ir.Symbol | None = None) -> None:
        self._keys: dict[tuple[str, bool], Symbols] = {}
        self._values: dict[Schema, ir.Symbol] = {}
        self._unions: dict[tuple[Group, ...], ir.TerminalRef] = {}
        self._distinct_values: dict[Schema, ir.Symbol] = {}
        self._any = any_value
        self._separate: Emitter | None = None
        self._comparing: Emitter | None = None

    @property
    def separate(self) -> Emitter:
        """The variant for places where alternatives meet."""
        if not self.merged:
            return self
        if self._separate is None:
            any_value = self.any_value()
            self._separate = copy.copy(self)
            self._separate._begin_variant(any_value)
            self._separate.merged = False
        return self._separate

    @property
    def comparing(self) -> Emitter:
        """The variant for items that are kept apart by their texts."""
        if self.compares:
            return self
        if self._comparing is None:
            self._comparing = copy.copy(self)
            self._comparing._begin_variant()
            self._comparing.merged = False
            self._comparing.compares = True
            self._comparing.any_order = False
            self._comparing.style = self.style.unique
            self._comparing.close_object, self._comparing.close_array = map(
                self.ref, self.style.close_unique_item
            )
        return self._comparing

    # What the parts of emission build with

    def ref(self, terminal: ir.Terminal) -> ir.TerminalRef:
        """The place of ``terminal``, an object that is not made anew for each call."""
        found = self._refs.get(id(terminal))
        if found is None:
            found = ir.TerminalRef(self._first_terminal + len(self.terminals))
            self._refs[id(terminal)] = found
            self._originals.append(terminal)
            if self._skip_class:
                terminal = dataclasses.replace(terminal, skip_class=self._skip_class)
            self.terminals.append(terminal)
        return found

    def new_rule(self, parametric: bool | None = None) -> tuple[ir.Rule, ir.RuleRef]:
        """A rule without productions yet, and how one refers to it at the depth where one is."""
        parametric = self.deep if parametric is None else parametric
        rule = ir.Rule("", [], parametric)
        self.rules.append(rule)
        index = self.first_rule + len(self.rules) - 1
        return rule, ir.RuleRef(index, _SELF if parametric else None)

    def rule_of(self, reference: ir.RuleRef) -> ir.Rule:
        """The rule that ``reference`` stands for."""
        return self.rules[reference.index - self.first_rule]

    def shared_rule(self, alternatives: Iterable[Symbols]) -> ir.RuleRef:
        """A rule that derives any of ``alternatives``, the same one for the same symbols.

        Groups that are alike up to some member have one rule for what they begin with, and one row
        while that is read.
        """
        alternatives = tuple(alternatives)
        # By identity, which is that of the rule or terminal: symbols are kept by those who made
        # them, and by the rule.
        key = tuple([tuple(map(id, symbols)) for symbols in alternatives])
        found = self._shared_rules.get(key)
        if found is None:
            found = self._shared_rules[key] = self.rule(alternatives)
        return found

    def rule(self, alternatives: Iterable[Symbols]) -> ir.RuleRef:
        """A rule that derives any of ``alternatives``."""
        rule, reference = self.new_rule()
        for symbols in alternatives:
            rule.productions.append(ir.Production(symbols))
        return reference

    def one(self, symbols: Symbols) -> Symbols:
        """``symbols`` as at most one symbol, for use in several places."""
        return symbols if len(symbols) <= 1 else (self.shared_rule((symbols,)),)

    def repeated(self, first: Iterable[Symbols], step: Symbols) -> ir.RuleRef:
        """One of ``first`` and then any number of ``step``, left-recursive."""
        rule, reference = self.new_rule()
        rule.productions += [ir.Production(symbols) for symbols in first]
        rule.productions.append(ir.Production((reference, *step)))
        return reference

    def bracketed(
        self, begin: ir.Symbol, bodies: Sequence[Symbols], end: ir.Symbol, may_be_empty: bool
    ) -> list[Symbols]:
        """Any of ``bodies``, or nothing if that may be, in brackets."""
        result: list[Symbols] = []
        if bodies:
            if self.deep:
                inner = self.rule((*self.enter, *body, *self.leave) for body in bodies)
                result.append((begin, ir.RuleRef(inner.index, _DEEPER), end))
            else:
                result += [(begin, *self.enter, *body, *self.leave, end) for body in bodies]
        if may_be_empty:
            result.append((begin, end))
        return result

    def key(self, name: str) -> Symbols:
        """The key ``name`` and its colon."""
        return self._key(name, False)

    def next_key(self, name: str) -> Symbols:
        """A comma, the key ``name`` and its colon, where nothing else with a comma may follow."""
        return self._key(name, True) if self.merged else self.comma + self._key(name, False)

    def _key(self, name: str, comma: bool) -> Symbols:
        at = (name, comma)
        found = self._keys.get(at)
        if found is None:
            found = (self.ref(self.style.key(name, comma, self.merged)),)
            if not self.merged:
                found += (self.ref(self.style.colon),)
            self._keys[at] = found
        return found

    def distinct_key(self, names: StringSet) -> Symbols:
        """A key out of ``names`` that its object does not have yet, and its colon."""
        return (self.ref(self.style.distinct_key(names)), self.ref(self.style.colon))

    def distinct_name(self, name: str) -> Symbols:
        """The key ``name`` if its object does not have it yet, and its colon."""
        key = dataclasses.replace(self.style.key(name, False, False), distinct=True)
        return (self.ref(key), self.ref(self.style.colon))

    def machine_in_brackets(
        self, begin: ir.Symbol, first: ir.RuleRef, end: ir.Symbol
    ) -> list[Symbols]:
        """A list that a machine derives, in brackets."""
        if self.deep:
            first = ir.RuleRef(self.rule(((first,),)).index, _DEEPER)
        return [(begin, first, end)]

    # What is compared

    @property
    def open_unique_array(self) -> ir.TerminalRef:
        """The opening bracket of an array whose items are kept apart."""
        return self.ref(self.style.open_unique_array)

    def narrow(self, schema: Schema) -> None:
        """Note that objects of ``schema`` are held to one further member."""
        warning = (
            f"{schema.pointer or '/'}: within items that have to be unique, objects have at most "
            "one member that is not named"
        )
        self._warned.append((warning, self._emitting[0]))
        if warning not in self.warnings:
            self.warnings.append(warning)

    def warnings_of(self, rules: Set[int]) -> list[str]:
        """The warnings that are about rules with the indices ``rules``."""
        used = {id(self.rules[index - self.first_rule]) for index in rules}
        found = [text for text, rule in self._warned if rule is None or id(rule) in used]
        return list(dict.fromkeys(found))

    def distinct_value(self, schema: Schema) -> ir.Symbol:
        """The symbol that derives the values of ``schema`` that their array does not have yet."""
        found = self._distinct_values.get(schema)
        if found is None:
            groups = schema.groups
            symbols: list[ir.Symbol] = [
                self._distinct_terminal(reference) for reference in self.scalars(groups)
            ]
            others = tuple(group for group in groups if type(group) in (ObjectGroup, ArrayGroup))
            if others:
                symbols.append(self.value(self.algebra.leaf(others)))
            found = symbols[0]
            if len(symbols) > 1:
                found = self.rule((symbol,) for symbol in symbols)
            self._distinct_values[schema] = found
        return found

    def _distinct_terminal(self, reference: ir.TerminalRef) -> ir.TerminalRef:
        found = self._distinct_terminals.get(reference.index)
        if found is None:
            original = self._originals[reference.index - self._first_terminal]
            found = self.ref(dataclasses.replace(original, distinct=True))
            self._distinct_terminals[reference.index] = found
        return found

    def constant(self, value: Any, schemas: Sequence[Schema]) -> Symbols:
        """The one value ``value``, as :func:`values_of` writes it, of one of ``schemas``.

        Objects have their keys in the order of a schema. Recursive where the value nests, which
        is 16 levels deep at the most.
        """
        kind, *rest = value
        if kind == "array":
            arrays = [g for s in schemas for g in s.groups if type(g) is ArrayGroup]
            symbols: Symbols = ()
            for place, item in enumerate(rest[0]):
                parts = [item_at(group, place) for group in arrays]
                symbols += (*(self.comma if place else ()), *self.constant(item, parts))
            return self._constant_list(self.open_array, symbols, self.close_array)
        if kind == "object":
            values = dict(rest[0])
            objects = [g for s in schemas for g in s.groups if type(g) is ObjectGroup]
            named: dict[str, list[Schema]] = {}
            for group in sorted(objects, key=lambda group: not _names(group, values)):
                for member in group.members:
                    named.setdefault(member.name, []).append(member.schema)
            symbols = ()
            for name in [*named, *sorted(values.keys() - named.keys())]:
                if name in values:
                    symbols += self.comma if symbols else ()
                    symbols += self.key(name)
                    symbols += self.constant(values[name], named.get(name, ()))
            return self._constant_list(self.open_object, symbols, self.close_object)
        return (self._union((_scalar_group(kind, *rest),)),)

    def _constant_list(self, begin: ir.Symbol, symbols: Symbols, end: ir.Symbol) -> Symbols:
        [result] = self.bracketed(begin, (symbols,) if symbols else (), end, not symbols)
        return result

    # Values

    def value(self, schema: Schema) -> ir.Symbol:
        """The symbol that derives the values of ``schema``."""
        found = self._values.get(schema)
        if found is None:
            found = self._values[schema] = self._new_value(schema)
        return found

    def _new_value(self, schema: Schema) -> ir.Symbol:
        if type(schema) is PlainPart and not self.compares:
            made: ir.Symbol = schema.symbol(self.merged)
            return made
        groups = schema.groups
        if groups is self.algebra.any_groups:
            if self.compares:
                self.narrow(schema)
            return self.any_value()
        try:
            terminals = self.scalars(groups)
        except GrammarError as error:
            raise SchemaError(error.message, pointer=schema.pointer) from None
        if len(terminals) == 1 and are_scalar(groups):
            return terminals[0]
        if self.merged and _is_ambiguous(groups):
            return self.separate.value(schema)
        rule, reference = self.new_rule()
        rule.productions += [ir.Production((terminal,)) for terminal in terminals]
        self._todo.append((self, rule, groups, schema))
        return reference

    def finish(self) -> None:
        """Do everything that is still to be done."""
        while self._todo:
            emitter, rule, groups, schema = self._todo.pop()
            self._emitting[0] = rule
            try:
                for group in groups:
                    if type(group) is ObjectGroup:
                        bodies = emit_objects.productions(emitter, group, schema)
                    elif type(group) is ArrayGroup:
                        bodies = emit_arrays.productions(emitter, group, schema)
                    else:
                        continue
                    rule.productions += [ir.Production(symbols) for symbols in bodies]
            except GrammarError as error:
                raise SchemaError(error.message, pointer=schema.pointer) from None

    def any_value(self) -> ir.Symbol:
        """Any JSON value."""
        if self._any is None:
            style = self.style
            rule, value = self.new_rule()
            self._any = value
            member = (*self.distinct_key(StringSet.ANY), value)
            if self.compares:
                members = self.rule((member,))
            else:
                members = self.repeated((member,), (*self.comma, *member))
            items = self.repeated(((value,),), (*self.comma, value))
            scalars = (style.string, style.number, style.boolean, style.null)
            bodies: list[Symbols] = [(self.ref(terminal),) for terminal in scalars]
            bodies += self.bracketed(self.open_object, ((members,),), self.close_object, True)
            bodies += self.bracketed(self.open_array, ((items,),), self.close_array, True)
            rule.productions += [ir.Production(symbols) for symbols in bodies]
        return self._any

    # Scalars

    def scalars(self, groups: tuple[Group, ...]) -> list[ir.TerminalRef]:
        """Terminals for the scalars among ``groups``: one for all finite sets, one for the other
        strings and one for the other numbers."""
        terminals: list[ir.TerminalRef] = []
        finite: list[Group] = []
        numbers: list[NumberSet] = []
        for group in groups:
            kind = type(group)
            if kind is StringGroup:
                strings = group.strings  # type: ignore[union-attr]
                if strings.is_any:
                    terminals.append(self.ref(self.style.string))
                elif strings.values is None:
                    terminals.append(self.ref(self.style.string_of(strings)))
                else:
                    finite.append(group)
            elif kind is NumberGroup:
                if group.numbers.values is None:  # type: ignore[union-attr]
                    numbers.append(group.numbers)  # type: ignore[union-attr]
                else:
                    finite.append(group)
            elif kind is NullGroup or kind is BoolGroup:
                finite.append(group)
        if len(numbers) == 1:
            terminals.append(self.ref(self.style.number_of(numbers[0])))
        elif numbers:
            terminals.append(self._union(tuple(NumberGroup(item) for item in numbers)))
        if len(finite) == 1:
            only = finite[0]
            if type(only) is NullGroup:
                terminals.append(self.ref(self.style.null))
                return terminals
            if type(only) is BoolGroup and len(only.values) == 2:
                terminals.append(self.ref(self.style.boolean))
                return terminals
        if finite:
            terminals.append(self._union(tuple(finite)))
        return terminals

    def _union(self, groups: tuple[Group, ...]) -> ir.TerminalRef:
        """One terminal for scalars."""
        found = self._unions.get(groups)
        if found is None:
            regexes: list[ir.Regex] = []
            shown: list[str] = []
            for group in groups:
                self._spell(group, regexes, shown)
            name = literal_name(shown) if shown else "number"
            found = self._unions[groups] = self.ref(ir.Terminal(name, alternate(regexes)))
        return found

    def _spell(self, group: Group, regexes: list[ir.Regex], shown: list[str]) -> None:
        if type(group) is NullGroup:
            regexes.append(ir.Literal(b"null"))
            shown.append("null")
        elif type(group) is BoolGroup:
            for value in sorted(group.values):
                shown.append("true" if value else "false")
                regexes.append(ir.Literal(shown[-1].encode()))
        elif type(group) is NumberGroup:
            regexes.append(group.numbers.regex(self.style.numbers))
            shown += [str(value) for value in sorted(group.numbers.values or ())]
        elif type(group) is StringGroup:
            values = sorted(group.strings.values or ())
            regexes += [self.style.quoted(value) for value in values]
            shown += [json.dumps(value, ensure_ascii=False) for value in values]

    # Lines

    def _add_lines(self, unit: bytes) -> None:
        """Line breaks with their indent, at the depth where one is."""
        newline = ir.Terminal("line break", ir.Literal(b"\n"))
        if not unit:
            self.enter = self.leave = (self.ref(newline),)
            self.comma += self.enter
            return
        begin, end = DEPTH_BITS
        padding, more = self.new_rule()
        padding.productions = [
            ir.Production((), ir.Condition("eq", begin, end, 0)),
            ir.Production(
                (
                    ir.RuleRef(more.index, _SHALLOWER),
                    self.ref(ir.Terminal("indent", ir.Literal(unit))),
                ),
                ir.Condition("ne", begin, end, 0),
            ),
        ]
        line, here = self.new_rule()
        for depth in range(_SPELT_DEPTHS):
            text = ir.Terminal("line break", ir.Literal(b"\n" + unit * depth))
            condition = ir.Condition("eq", begin, end, depth)
            line.productions.append(ir.Production((self.ref(text),), condition))
        deep = ir.Condition("ge", begin, end, _SPELT_DEPTHS)
        line.productions.append(ir.Production((self.ref(newline), more), deep))
        self.enter = (here,)
        self.leave = (ir.RuleRef(here.index, _SHALLOWER),)
        self.comma += self.enter


def _names(group: ObjectGroup, values: Mapping[str, object]) -> bool:
    """Whether the members of ``group`` say in which order the keys of ``values`` come."""
    return values.keys() <= {member.name for member in group.members}


def _scalar_group(kind: str, value: Any = None) -> Group:
    if kind == "null":
        return NullGroup()
    if kind == "boolean":
        return BoolGroup(frozenset((value,)))
    if kind == "number":
        return NumberGroup(NumberSet.of((value,)))
    return StringGroup(StringSet.of((value,)))


def _is_ambiguous(groups: tuple[Group, ...]) -> bool:
    """Whether several of ``groups``, or several ways to read one of them, begin alike."""
    objects = arrays = 0
    for group in groups:
        if type(group) is ObjectGroup:
            objects += 2 if group.some else 1
        elif type(group) is ArrayGroup:
            arrays += 2 if group.counted else 1
    return objects > 1 or arrays > 1
