"""Emission of objects in the order of the schema.

The lists of members over the first i keys are a rule made of the rule for i - 1: without key i, or
with it after a comma or as the first one. Required keys add to a production and take no rule.
So n keys are at most n rules, left-recursive: all items of a row have one origin, the opening
bracket. Members with other names follow as one left-recursive list, at whose end the parser is
where it was before.

Named keys come at most once by construction, others by distinct lexemes. Objects that have to be
counted, hold obligations, or may come in any order: :mod:`llgx.json_schema.emit_members`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llgx.json_schema import emit_members
from llgx.json_schema.emit_machine import reachable
from llgx.json_schema.normal import ObjectGroup, Schema

if TYPE_CHECKING:
    from llgx import ir
    from llgx.json_schema.emit import Emitter, Symbols

__all__ = ["productions"]


def productions(emitter: Emitter, group: ObjectGroup, schema: Schema) -> list[Symbols]:
    """The texts of the objects of ``group``."""
    if _needs_machine(emitter, group):
        return emit_members.productions(emitter, group, schema)
    head: list[ir.Symbol] = []  # the lists of at least one member so far; none at first
    may_be_empty = True
    after_required = False  # whether each of them ends in the member before
    for member in group.members:
        name = member.name
        value = emitter.value(member.schema)
        if name in group.required:
            if not head:
                head += (*emitter.key(name), value)
            elif may_be_empty:
                first = (*emitter.key(name), value)
                head = [emitter.shared_rule((first, (*head, *emitter.comma, *first)))]
            elif after_required:
                head += (*emitter.next_key(name), value)
            else:
                head += (*emitter.comma, *emitter.key(name), value)
            may_be_empty = False
            after_required = True
            continue
        first = (*emitter.key(name), value)
        after_required = False
        if not head:
            head += first
            continue
        before = emitter.one(tuple(head))
        alternatives = [before, (*before, *emitter.comma, *first)]
        if may_be_empty:
            alternatives.append(first)
        head = [emitter.shared_rule(alternatives)]
    if group.cells:
        head = [_with_others(emitter, group, schema, tuple(head), may_be_empty)]
    bodies = (tuple(head),) if head else ()
    return emitter.bracketed(emitter.open_object, bodies, emitter.close_object, may_be_empty)


def _with_others(
    emitter: Emitter,
    group: ObjectGroup,
    schema: Schema,
    head: Symbols,
    may_be_empty: bool,
) -> ir.RuleRef:
    """``head`` and then any number of members of the cells, or one at most where texts count."""
    members = [
        (*emitter.distinct_key(cell.names), emitter.value(cell.schema)) for cell in group.cells
    ]
    if len(members) > 1:
        members = [(emitter.rule(members),)]
    first = []
    if head:
        first.append(head)
    if may_be_empty:
        first += members
    if emitter.compares:
        emitter.narrow(schema)
        if head:
            first.append((*head, *emitter.comma, *members[0]))
        return emitter.rule(first)
    return emitter.repeated(first, (*emitter.comma, *members[0]))


def _needs_machine(emitter: Emitter, group: ObjectGroup) -> bool:
    """Whether something in ``group`` has to be remembered along its members."""
    if group.some:
        return True
    if group.low > len(group.required):
        return True
    high = reachable(group.high)
    if high is not None and (group.cells or high < len(group.members)):
        return True
    if emitter.any_order and not emitter.compares and len(group.members) + len(group.cells) > 1:
        return True
    # Lines come between a comma and a key: see emit_members.
    return emitter.style.unit is not None and any(
        emit_members.number_of_names(cell.names) is not None for cell in group.cells
    )
