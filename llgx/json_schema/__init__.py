"""JSON Schema to grammars: all of it, or an error that says what not.

:func:`compile_schema` gives a grammar, :func:`json_schema_to_grammar` its text, :func:`embed` is
for other front ends.
"""

from __future__ import annotations

from llgx.json_schema.compile import compile_schema, embed
from llgx.json_schema.lint import Lint, lint_schema
from llgx.json_schema.options import Options, options_of
from llgx.json_schema.text import json_schema_to_grammar

__all__ = [
    "Lint",
    "Options",
    "compile_schema",
    "embed",
    "json_schema_to_grammar",
    "lint_schema",
    "options_of",
]
