"""Regex text to byte-level trees of :mod:`llgx.ir`.

:func:`parse_rust` reads the dialect of Lark grammars and matches as a whole, :func:`parse_ecma`
that of JSON Schema and searches. :func:`char_class` and :func:`literal` make the leaves that
front ends need directly. Every construct means exactly what its dialect says or is an error with
its position.
"""

from __future__ import annotations

from llgx.regex.ecma import parse_ecma
from llgx.regex.rust import parse_rust, parse_rust_lexeme
from llgx.regex.utf8 import ANY_CHAR, ANY_TEXT, char_class, literal

__all__ = [
    "ANY_CHAR",
    "ANY_TEXT",
    "char_class",
    "literal",
    "parse_ecma",
    "parse_rust",
    "parse_rust_lexeme",
]
