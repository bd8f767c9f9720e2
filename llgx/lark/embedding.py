"""Puts the rules of a JSON Schema into a grammar under construction, for ``%json {...}``."""

from __future__ import annotations

from llgx import ir
from llgx.errors import GrammarError, SchemaError
from llgx.lark.builder import Builder
from llgx.limits import Limits

__all__ = ["embed_json_schema"]


def embed_json_schema(
    source: object, builder: Builder, skip_class: int, limits: Limits
) -> tuple[ir.Symbol, list[tuple[str, str, str]], list[str]]:
    """Add what the JSON Schema ``source``, JSON text or its value, describes to ``builder``.

    Gives the symbol that derives it, what of it is not enforced, and warnings. ``skip_class`` is
    the class of its first lexeme, so that what the surrounding grammar skips may stand before it.
    Raises :class:`GrammarError` without a position, which the caller knows, for a schema that is
    malformed or cannot be enforced. Costs what compiling the schema does.
    """
    from llgx.json_schema import embed  # large, and most grammars do without

    first = len(builder.rules)
    try:
        symbol, unenforced, warnings = embed(
            source,
            rules=builder.rules,
            terminals=builder.terminals,
            skip=builder.skip,
            first_skip_class=skip_class,
            limits=limits,
        )
    except SchemaError as error:
        place = f"{error.pointer or '/'}" + (f" ({error.keyword})" if error.keyword else "")
        raise GrammarError(f"JSON Schema {place}: {error.message}") from error
    builder.once.add(len(builder.skip) - 1)
    for rule in builder.rules[first:]:
        for production in rule.productions:
            builder.count(production)
    return symbol, unenforced, warnings
