"""JSON Schemas on their way through llama-cpp-python, which hands grammars on as text.

White space inside a JSON text is bounded here, as in llama.cpp's own grammars: small models would
otherwise write blanks and line ends until the tokens run out. A schema with ``x-guidance`` says for
itself what it wants.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from llgx.errors import SchemaError

__all__ = ["JSON_OBJECT", "WHITESPACE", "described_schema", "dump", "schema_in", "schema_text"]

# Between two tokens: one blank, or a line end and an indent.
WHITESPACE: Final = r" |\n[ \t]{0,20}"

_HEAD: Final = "%llguidance {}\nstart: %json "
_GUIDANCE: Final = f'"x-guidance": {json.dumps({"whitespace_pattern": WHITESPACE})}'


def described_schema(schema: Any) -> Any:
    """``schema`` as JSON describes it: that of a type, for a pydantic model, a ``TypeAdapter``, a
    dataclass and the like; anything else as it is. Raises :class:`SchemaError` for what is none."""
    if schema is None or isinstance(schema, (bool, str, int, float, list, Mapping)):
        return schema
    from llgx.json_schema.loading import describe

    return describe(schema)


def dump(schema: Any) -> str:
    """A schema as JSON text, as the chat handlers of llama-cpp-python write it.

    Raises :class:`SchemaError` for what is no JSON.
    """
    try:
        return json.dumps(schema)
    except (TypeError, ValueError, RecursionError) as error:
        raise SchemaError(f"the schema is no JSON: {error}") from None


def schema_text(schema: str) -> str:
    """Grammar text for the JSON texts that a schema, given as JSON text, allows.

    Never fails: what is wrong with the schema is found when the text is compiled. Linear.
    """
    rest = schema.lstrip()
    if rest.startswith("{") and '"x-guidance"' not in rest:
        rest = rest[1:].lstrip()
        schema = "{" + _GUIDANCE + ("" if rest.startswith("}") else ", ") + rest
    elif rest.rstrip() == "true":
        return schema_text("{}")
    return f"{_HEAD}{schema}\n"


def schema_in(text: str) -> str | None:
    """The schema in a grammar text of :func:`schema_text`; None in any other."""
    if not text.startswith(_HEAD):
        return None
    schema = text[len(_HEAD) :]
    try:
        json.loads(schema)
    except (ValueError, RecursionError):
        return None  # rules follow it, or it is malformed
    return schema


JSON_OBJECT: Final = schema_text('{"type": "object"}')
