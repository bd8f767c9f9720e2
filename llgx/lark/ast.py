"""The syntax tree of a Lark grammar.

Nodes are immutable and say where they stand: ``text[begin:end]`` of the grammar. Groups are nested
:class:`Choice` nodes; a group that holds one unguarded alternative is replaced by that alternative.
Trees can be as deep as ``Limits.nesting`` allows, hence :func:`fold` in place of recursion.
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
    "Name",
    "Options",
    "Range",
    "RegexLiteral",
    "Repetition",
    "RuleDefinition",
    "Series",
    "String",
    "TerminalDefinition",
    "Unsupported",
    "fold",
    "parts",
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
class Unsupported:
    """Something that the parser knows and the compiler does not; ``construct`` names it."""

    construct: str
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
    | Unsupported
    | Complement
    | Repetition
    | Series
    | Conjunction
    | Choice
)


@dataclasses.dataclass(frozen=True, slots=True)
class Attributes:
    """What stands in brackets after the name of a rule; at most one of the fields is set."""

    lazy: bool = False
    suffix: Expression | None = None
    unsupported: Unsupported | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class RuleDefinition:
    """``name[attributes]: body`` or ``name::_: body``; ``begin`` is that of the name."""

    name: str
    parametric: bool
    attributes: Attributes
    body: Choice
    begin: int


@dataclasses.dataclass(frozen=True, slots=True)
class TerminalDefinition:
    """``NAME: body``, or an imported terminal; ``begin`` is that of the name."""

    name: str
    body: Expression
    begin: int


@dataclasses.dataclass(slots=True)
class Options:
    """What the ``%llguidance`` lines say; the names are theirs."""

    no_forcing: bool = False
    allow_initial_skip: bool = False
    ignore_once: bool = False
    allow_invalid_utf8: bool = False


@dataclasses.dataclass(slots=True)
class Grammar:
    """A whole text: definitions by name, in the order of the text."""

    rules: dict[str, RuleDefinition] = dataclasses.field(default_factory=dict)
    terminals: dict[str, TerminalDefinition] = dataclasses.field(default_factory=dict)
    ignored: list[Expression] = dataclasses.field(default_factory=list)
    options: Options = dataclasses.field(default_factory=Options)


def parts(node: Expression) -> Sequence[Expression]:
    """The direct children of ``node``, left to right."""
    if isinstance(node, (Series, Conjunction)):
        return node.items
    if isinstance(node, (Repetition, Complement)):
        return (node.item,)
    if isinstance(node, Choice):
        return [alternative.body for alternative in node.alternatives]
    return ()


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
