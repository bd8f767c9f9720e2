"""The syntax tree of a Lark grammar.

Nodes are immutable and say where they stand: ``begin`` and ``end`` are offsets of
:class:`llgx.lark.source.Sources`. Groups are nested :class:`Choice` nodes; a group that holds one
unguarded alternative is replaced by that alternative. Trees can be as deep as ``Limits.nesting``
allows, hence :func:`fold` in place of recursion.

Names are keys of :class:`Grammar`: as written, but with the module before them for what stands in
an imported text, as ``"lists:item"``. :func:`plain` takes it off for messages.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from llgx import ir

__all__ = [
    "FALSE",
    "TRUE",
    "Alternative",
    "Attributes",
    "Choice",
    "Complement",
    "Conjunction",
    "Expression",
    "Grammar",
    "Import",
    "JsonSchema",
    "Name",
    "Nested",
    "Options",
    "Range",
    "Reference",
    "RegexLiteral",
    "RegexObject",
    "Repetition",
    "RuleDefinition",
    "Series",
    "String",
    "TemplateUse",
    "TerminalDefinition",
    "Tokens",
    "fold",
    "parts",
    "plain",
    "rebuild",
]

TRUE: Final = ir.Condition("true")
FALSE: Final = ir.Condition("not", items=(TRUE,))


@dataclasses.dataclass(frozen=True, slots=True)
class Name:
    """A rule, with its argument if one is written, or a terminal."""

    name: str
    argument: ir.ParamExpr | None
    begin: int
    end: int


@dataclasses.dataclass(frozen=True, slots=True)
class String:
    """A string literal, escapes resolved."""

    value: str
    ignore_case: bool
    begin: int
    end: int


@dataclasses.dataclass(frozen=True, slots=True)
class RegexLiteral:
    """A regex; ``begin`` is that of its first slash, or -1 when it is not from the text."""

    pattern: str
    flags: str
    begin: int
    end: int


@dataclasses.dataclass(frozen=True, slots=True)
class Range:
    """One character from ``first`` to ``last``, both included."""

    first: str
    last: str
    begin: int
    end: int


@dataclasses.dataclass(frozen=True, slots=True)
class RegexObject:
    """``%regex {...}``; ``value`` is the JSON text."""

    value: str
    begin: int
    end: int


@dataclasses.dataclass(frozen=True, slots=True)
class Tokens:
    """``<name>`` or ``<[ids]>``: one model token; ``text`` is that, brackets included."""

    text: str
    begin: int
    end: int


@dataclasses.dataclass(frozen=True, slots=True)
class JsonSchema:
    """``%json {...}``; ``value`` is the JSON text."""

    value: str
    begin: int
    end: int


@dataclasses.dataclass(frozen=True, slots=True)
class Nested:
    """``%lark {...}``: a grammar with names of its own."""

    grammar: Grammar
    begin: int
    end: int


@dataclasses.dataclass(frozen=True, slots=True)
class Reference:
    """``@name``: the grammar that the caller gave this name; ``name`` is without the ``@``."""

    name: str
    begin: int
    end: int


@dataclasses.dataclass(frozen=True, slots=True)
class TemplateUse:
    """``name{argument, ...}``."""

    name: str
    arguments: tuple[Expression, ...]
    begin: int
    end: int


@dataclasses.dataclass(frozen=True, slots=True)
class Complement:
    """``~item``."""

    item: Expression
    begin: int
    end: int


@dataclasses.dataclass(frozen=True, slots=True)
class Repetition:
    """``low`` to ``high`` times ``item``; ``high`` is None for no bound."""

    item: Expression
    low: int
    high: int | None
    begin: int
    end: int


@dataclasses.dataclass(frozen=True, slots=True)
class Series:
    """One after the other; without items, the empty string."""

    items: tuple[Expression, ...]
    begin: int
    end: int


@dataclasses.dataclass(frozen=True, slots=True)
class Conjunction:
    """``a & b``."""

    items: tuple[Expression, ...]
    begin: int
    end: int


@dataclasses.dataclass(frozen=True, slots=True)
class Alternative:
    """One branch of a choice; ``condition`` is what ``%if`` says, simplified, else :data:`TRUE`."""

    body: Expression
    condition: ir.Condition


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """``a | b``."""

    alternatives: tuple[Alternative, ...]
    begin: int
    end: int


Expression = (
    Name
    | String
    | RegexLiteral
    | Range
    | RegexObject
    | Tokens
    | JsonSchema
    | Nested
    | Reference
    | TemplateUse
    | Complement
    | Repetition
    | Series
    | Conjunction
    | Choice
)


@dataclasses.dataclass(frozen=True, slots=True)
class Attributes:
    """What stands in brackets after the name of a rule.

    At most one of ``lazy``, ``suffix`` and ``stop`` is set. ``capture`` is ``""`` for the name of
    the rule. ``begin`` is where the brackets open.
    """

    lazy: bool = False
    suffix: Expression | None = None
    stop: Expression | None = None
    capture: str | None = None
    stop_capture: str | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    begin: int = -1


@dataclasses.dataclass(frozen=True, slots=True)
class RuleDefinition:
    """``name[attributes]: body``, ``name::_: body`` or ``name{parameters}: body``.

    ``begin`` is that of the name.
    """

    name: str
    parametric: bool
    attributes: Attributes
    body: Choice
    begin: int
    parameters: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class TerminalDefinition:
    """``NAME: body`` or ``NAME{parameters}: body``, or a declared or imported terminal.

    ``begin`` is that of the name. ``shown`` is how messages speak of it, if not by its name.
    """

    name: str
    body: Expression
    begin: int
    parameters: tuple[str, ...] = ()
    shown: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Import:
    """A name that stands for ``target``, one of another module; ``begin`` is where it says so."""

    target: str
    begin: int


@dataclasses.dataclass(slots=True)
class Options:
    """What the ``%llguidance`` lines say; the names are theirs."""

    no_forcing: bool = False
    allow_initial_skip: bool = False
    ignore_once: bool = False
    allow_invalid_utf8: bool = False
    lexer: str = "longest"


@dataclasses.dataclass(slots=True, eq=False)
class Grammar:
    """One namespace: definitions by name, in the order of the text, and what it imports."""

    rules: dict[str, RuleDefinition] = dataclasses.field(default_factory=dict)
    terminals: dict[str, TerminalDefinition] = dataclasses.field(default_factory=dict)
    imports: dict[str, Import] = dataclasses.field(default_factory=dict)
    ignored: list[Expression] = dataclasses.field(default_factory=list)
    options: Options = dataclasses.field(default_factory=Options)
    warnings: list[str] = dataclasses.field(default_factory=list)
    begin: int = 0

    def resolve(self, name: str) -> str:
        """What ``name`` stands for after all imports. The parser has checked that these end."""
        while True:
            found = self.imports.get(name)
            if found is None:
                return name
            name = found.target


def plain(name: str) -> str:
    """``name`` as it is written, without its module; cut to a length fit for messages."""
    return name.rsplit(":", 1)[-1].split("{", 1)[0][:40]


def parts(node: Expression) -> Sequence[Expression]:
    """The direct children of ``node``, left to right."""
    if isinstance(node, (Series, Conjunction)):
        return node.items
    if isinstance(node, (Repetition, Complement)):
        return (node.item,)
    if isinstance(node, Choice):
        return [alternative.body for alternative in node.alternatives]
    if isinstance(node, TemplateUse):
        return node.arguments
    return ()


def rebuild(node: Expression, children: Sequence[Expression]) -> Expression:
    """``node`` with other ``children``, one for each of :func:`parts`."""
    if all(new is old for new, old in zip(children, parts(node), strict=True)):
        return node
    if isinstance(node, (Series, Conjunction)):
        return dataclasses.replace(node, items=tuple(children))
    if isinstance(node, (Repetition, Complement)):
        return dataclasses.replace(node, item=children[0])
    if isinstance(node, TemplateUse):
        return dataclasses.replace(node, arguments=tuple(children))
    assert isinstance(node, Choice)
    pairs = zip(children, node.alternatives, strict=True)
    alternatives = tuple(Alternative(body, old.condition) for body, old in pairs)
    return dataclasses.replace(node, alternatives=alternatives)


Result = TypeVar("Result")


def fold(
    root: Expression,
    combine: Callable[[Expression, Sequence[Result]], Result],
    parts_of: Callable[[Expression], Sequence[Expression]] = parts,
) -> Result:
    """Replace each node, children first, by ``combine(node, results of its children)``.

    Does not recurse. Linear in the number of nodes.
    """
    results: list[Result] = []
    stack: list[tuple[Expression, int]] = [(root, -1)]
    while stack:
        node, count = stack.pop()
        if count < 0:
            children = parts_of(node)
            if children:
                stack.append((node, len(children)))
                stack.extend((child, -1) for child in reversed(children))
            else:
                results.append(combine(node, ()))
        else:
            values = results[-count:]
            del results[-count:]
            results.append(combine(node, values))
    return results[0]
