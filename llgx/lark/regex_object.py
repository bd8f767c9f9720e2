"""The regexes that ``%regex {...}`` describes as a JSON object.

``substring_words``, ``substring_chars`` and ``substring_chunks`` match any run of consecutive
pieces of a text, the empty one included. ``type`` with bounds matches numbers.
"""

from __future__ import annotations

import json
from typing import Any, Final

from llgx import ir
from llgx.lark.cursor import suggestion
from llgx.regex.substring import substring, words

__all__ = ["regex_object"]

_SUBSTRINGS: Final = ("substring_words", "substring_chars", "substring_chunks")
_NUMBER_KEYS: Final = (
    "type",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
)


def regex_object(text: str) -> ir.Regex:
    """The regex that the JSON ``text`` describes. Raises ``ValueError`` with the reason."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, ValueError) else "nests too deep"
        raise ValueError(f"%regex takes a JSON object: {reason}") from None
    if not isinstance(value, dict):
        raise ValueError("%regex takes a JSON object")
    for key in value:
        if key not in _SUBSTRINGS and key not in _NUMBER_KEYS:
            hint = suggestion(key, (*_SUBSTRINGS, *_NUMBER_KEYS))
            raise ValueError(f"unknown key {key[:40]!r} of %regex{hint}")
    if "type" in value:
        return _number(value)
    if len(value) != 1 or next(iter(value)) not in _SUBSTRINGS:
        raise ValueError("%regex takes one substring key, or 'type' with bounds")
    ((key, given),) = value.items()
    if key == "substring_chunks":
        if not isinstance(given, list) or not all(isinstance(item, str) for item in given):
            raise ValueError("'substring_chunks' of %regex is a list of strings")
        chunks = given
    elif not isinstance(given, str):
        raise ValueError(f"{key!r} of %regex is a string")
    else:
        chunks = words(given) if key == "substring_words" else list(given)
    try:
        return substring([chunk.encode() for chunk in chunks])
    except UnicodeEncodeError:
        raise ValueError(f"{key!r} of %regex holds a lone surrogate") from None


def _number(value: dict[str, Any]) -> ir.Regex:
    raise ValueError("numbers are not supported in %regex yet")
