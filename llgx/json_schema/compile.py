"""From a schema to a grammar: loading, the algebra, emission, and the places that ask for it.

:func:`compile_schema` makes a whole grammar, :func:`embed` adds a schema to a grammar that is being
built. Both are linear in the normal form of the schema.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from llgx import ir
from llgx.json_schema._plain import compile_plain
from llgx.json_schema._plain_rules import finished
from llgx.json_schema.emit import Emitter
from llgx.json_schema.emit_expand import expand
from llgx.json_schema.keywords import build
from llgx.json_schema.loading import Document, load
from llgx.json_schema.options import DEFAULT_OPTIONS, Options
from llgx.json_schema.report import Report
from llgx.json_schema.style import Style
from llgx.limits import DEFAULT_LIMITS, Limits

__all__ = ["compile_schema", "embed"]

_FLAT = ir.ParamExpr("const", 0)


def compile_schema(
    source: object,
    options: Options = DEFAULT_OPTIONS,
    *,
    limits: Limits = DEFAULT_LIMITS,
    plain: bool = True,
) -> ir.GrammarIR:
    """The grammar of the JSON texts that the schema ``source`` allows.

    ``source`` is what :func:`llgx.json_schema.loading.load` takes. With ``plain`` off, all of it
    goes through the algebra (see :mod:`llgx.json_schema._plain`): the language is the same.

    Raises :class:`SchemaError` with a JSON pointer for a schema that is malformed, unsatisfiable or
    not enforceable, :class:`LimitError` for one that takes too much work, ``ValueError`` for an
    option that is malformed.
    """
    options, document = _guided(options, load(source, limits))
    style = Style.of(options)
    if plain and options.property_order == "schema" and style.unit is None:
        found = None if options.resources else compile_plain(document, options, style, limits)
        if found is not None:
            return found
    emitter, start, report = _emit(document, options, limits)
    skip = -1 if style.skip is None else emitter.ref(style.skip).index
    return finished(
        emitter.rules,
        emitter.terminals,
        start,
        skip,
        [*report.warnings, *emitter.warnings],
        report.entries,
        style.common,
    )


def embed(
    source: object,
    options: Options = DEFAULT_OPTIONS,
    *,
    rules: list[ir.Rule],
    terminals: list[ir.Terminal],
    skip: list[int],
    first_skip_class: int = 0,
    limits: Limits = DEFAULT_LIMITS,
) -> tuple[ir.Symbol, list[tuple[str, str, str]], list[str]]:
    """Add the schema ``source`` to a grammar under construction.

    Appends to ``rules``, ``terminals`` and ``skip``; what the JSON text skips is the last class of
    ``skip``, at most once per gap. The first lexeme of the text has ``first_skip_class``, so that
    what the surrounding grammar skips may stand before it, and white space of JSON may not. Gives
    the symbol that derives the texts, what is not enforced, and warnings. Raises as
    :func:`compile_schema` does; then nothing has been added.
    """
    skip_class = len(skip)
    # Not merged: in the rows of the grammar around it other schemas may be alternatives.
    options, document = _guided(options, load(source, limits))
    emitter, start, report = _emit(
        document, options, limits, False, skip_class, len(rules), len(terminals)
    )
    space = -1
    if emitter.style.skip is not None:
        space = emitter.ref(emitter.style.skip).index
    if isinstance(start, ir.RuleRef) and start.argument is not None:
        start = ir.RuleRef(start.index, _FLAT)
    start = _Leading(emitter, len(rules), len(terminals), first_skip_class).symbol(start)
    rules += emitter.rules
    terminals += emitter.terminals
    skip.append(space)
    return start, report.entries, [*report.warnings, *emitter.warnings]


def _emit(
    document: Document,
    options: Options,
    limits: Limits,
    merged: bool = True,
    skip_class: int = 0,
    first_rule: int = 0,
    first_terminal: int = 0,
) -> tuple[Emitter, ir.Symbol, Report]:
    report = Report(options.records)
    style = Style.of(options)
    algebra, schema = build(document, options, report, limits)
    emitter = Emitter(
        style,
        algebra,
        report,
        any_order=options.property_order != "schema",
        others_last=options.property_order == "named",
        merged=merged,
        skip_class=skip_class,
        first_rule=first_rule,
        first_terminal=first_terminal,
    )
    start = emitter.value(schema)
    emitter.finish()
    expand(emitter)
    return emitter, start, report


def _guided(options: Options, document: Document) -> tuple[Options, Document]:
    """The options with those of ``x-guidance`` at the root, which is not the schema's business."""
    contents: Any = document.contents
    if not isinstance(contents, dict) or "x-guidance" not in contents:
        return options, document
    options = options.over(contents["x-guidance"])
    rest = {name: value for name, value in contents.items() if name != "x-guidance"}
    return options, Document(rest)


class _Leading:
    """Copies of rules whose first lexeme has another skip class."""

    def __init__(
        self, emitter: Emitter, first_rule: int, first_terminal: int, skip_class: int
    ) -> None:
        self._emitter = emitter
        self._first_rule = first_rule
        self._first_terminal = first_terminal
        self._skip_class = skip_class
        self._rules: dict[int, int] = {}
        self._terminals: dict[int, ir.TerminalRef] = {}
        self._todo: list[tuple[ir.Rule, ir.Rule]] = []

    def symbol(self, symbol: ir.Symbol) -> ir.Symbol:
        """``symbol`` with its first lexeme, which all its productions begin with, in the class."""
        result = self._replace(symbol)
        while self._todo:
            source, copy = self._todo.pop()
            for production in source.productions:
                first, *others = production.symbols
                copy.productions.append(
                    ir.Production((self._replace(first), *others), production.condition)
                )
        return result

    def _replace(self, symbol: ir.Symbol) -> ir.Symbol:
        emitter = self._emitter
        if isinstance(symbol, ir.TerminalRef):
            terminal = emitter.terminals[symbol.index - self._first_terminal]
            found = self._terminals.get(symbol.index)
            if found is None:
                found = ir.TerminalRef(self._first_terminal + len(emitter.terminals))
                emitter.terminals.append(dataclasses.replace(terminal, skip_class=self._skip_class))
                self._terminals[symbol.index] = found
            return found
        index = self._rules.get(symbol.index)
        if index is None:
            source = emitter.rules[symbol.index - self._first_rule]
            copy, reference = emitter.new_rule(source.parametric)
            index = self._rules[symbol.index] = reference.index
            self._todo.append((source, copy))
        return ir.RuleRef(index, symbol.argument)
