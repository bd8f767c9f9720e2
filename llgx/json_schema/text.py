"""JSON Schema to grammar text, for whoever hands grammars around as text.

By default the text is a Lark grammar that holds the schema itself (``%json``), so that nothing is
lost. GBNF, for llama.cpp's own parser, is written out from the emitted rules.
"""

from __future__ import annotations

import decimal
import json
from collections.abc import Mapping
from typing import Any

from llgx import ir
from llgx.arguments import check_flag, check_limits
from llgx.json_schema.compile import compile_schema, embed
from llgx.json_schema.emit_gbnf import to_gbnf
from llgx.json_schema.loading import Document, load
from llgx.json_schema.options import DEFAULT_OPTIONS, Options, options_of
from llgx.limits import DEFAULT_LIMITS, Limits

__all__ = ["json_schema_to_grammar"]


def json_schema_to_grammar(
    schema: object, force_gbnf: bool = False, *, limits: Limits = DEFAULT_LIMITS, **options: Any
) -> str:
    """Grammar text for the JSON texts that ``schema`` allows.

    ``"%llguidance {}"`` and a start rule with the schema, or with ``force_gbnf`` GBNF. ``schema``
    and ``options`` are as for :meth:`llgx.Grammar.from_json_schema`. Raises as that does, and
    :class:`GrammarError` where GBNF cannot say it; ``ValueError`` for an option that has no name in
    ``x-guidance``, which takes the options along in the text. In GBNF members with further names
    may come twice.
    """
    check_flag(force_gbnf, "force_gbnf")
    check_limits(limits)
    chosen = options_of(options)
    document = load(schema, limits)
    if force_gbnf:
        return to_gbnf(_without_leading_space(document, chosen, limits))
    compile_schema(document, chosen, limits=limits)  # faults are found here, not by the reader
    contents = document.contents
    if chosen != DEFAULT_OPTIONS:
        contents = {**_as_object(contents), "x-guidance": _guidance(contents, chosen)}
    return f"%llguidance {{}}\nstart: %json {_dumps(contents)}\n"


def _without_leading_space(document: Document, options: Options, limits: Limits) -> ir.GrammarIR:
    """The grammar with lexemes of their own where a text begins, before which nothing stands."""
    rules: list[ir.Rule] = []
    terminals: list[ir.Terminal] = []
    skip = [-1]
    start, _, _ = embed(
        document, options, rules=rules, terminals=terminals, skip=skip, limits=limits
    )
    rules.append(ir.Rule("root", [ir.Production((start,))]))
    return ir.GrammarIR(rules=rules, terminals=terminals, start=len(rules) - 1, skip=skip)


def _as_object(contents: Any) -> dict[str, Any]:
    if isinstance(contents, bool):
        return {} if contents else {"not": {}}
    return dict(contents)


def _guidance(contents: Any, options: Options) -> dict[str, Any]:
    """The options as ``x-guidance`` in the text, over those that the schema has."""
    known = contents.get("x-guidance", {}) if isinstance(contents, dict) else {}
    return {**known, **options.guidance()}


def _dumps(contents: Any) -> str:
    """``contents`` as JSON text: decimals exactly, and no recursion."""
    parts: list[str] = []
    todo: list[Any] = [contents]
    while todo:
        item = todo.pop()
        if isinstance(item, _Text):
            parts.append(item)
        elif isinstance(item, Mapping):
            after: list[Any] = [_Text("{")]
            for name, value in item.items():
                comma = "," if len(after) > 1 else ""
                after += [_Text(f"{comma}{json.dumps(str(name), ensure_ascii=False)}:"), value]
            todo += reversed([*after, _Text("}")])
        elif isinstance(item, (list, tuple)):
            after = [_Text("[")]
            for value in item:
                after += [_Text(","), value] if len(after) > 1 else [value]
            todo += reversed([*after, _Text("]")])
        elif isinstance(item, decimal.Decimal):
            parts.append(str(item))
        else:
            parts.append(json.dumps(item, ensure_ascii=False))
    return "".join(parts)


class _Text(str):
    """A piece of the result, and no value of the schema."""

    __slots__ = ()
