"""The regexes that ``%regex {...}`` describes as a JSON object.

``substring_words``, ``substring_chars`` and ``substring_chunks`` match any run of consecutive
pieces of a text, the empty one included. ``type`` with bounds matches numbers.
"""

from __future__ import annotations

import decimal
import json
from fractions import Fraction
from typing import Any, Final

from llgx import ir
from llgx.errors import GrammarError, suggestion
from llgx.regex.words import words

__all__ = ["regex_object"]

_DIGITS: Final = 4_000
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
        value = json.loads(text, parse_float=decimal.Decimal, parse_constant=_no_constant)
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
        return ir.Substring(tuple(chunk.encode() for chunk in chunks))
    except UnicodeEncodeError:
        raise ValueError(f"{key!r} of %regex holds a lone surrogate") from None


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is no JSON")


def _number(value: dict[str, Any]) -> ir.Regex:
    """The numbers of a type within bounds, in the spelling of JSON."""
    for key in value:
        if key in _SUBSTRINGS:
            raise ValueError(f"{key!r} of %regex does not go with 'type'")
    kind = value["type"]
    if kind not in ("number", "integer"):
        raise ValueError("'type' of %regex is 'number' or 'integer'")
    from llgx.json_schema.numbers import NumberSet  # large, and most grammars do without

    numbers = NumberSet.INTEGERS if kind == "integer" else NumberSet.ANY
    bounds = {key: _bound(key, value[key]) for key in value if key != "type"}
    try:
        for key, bound in bounds.items():
            if key == "multipleOf":
                if bound <= 0:
                    raise ValueError("'multipleOf' of %regex is greater than 0")
                narrowed = NumberSet.multiples_of(bound)
            elif key.endswith("inimum"):
                narrowed = NumberSet.between(bound, None, low_open=key != "minimum")
            else:
                narrowed = NumberSet.between(None, bound, high_open=key != "maximum")
            numbers = numbers.meet(narrowed)
        if numbers.is_empty():
            raise ValueError("no number is within these bounds of %regex")
        regex: ir.Regex = numbers.regex()
    except GrammarError as error:
        raise ValueError(error.message) from None
    todo = [regex]
    while todo:
        part = todo.pop()
        if isinstance(part, ir.Remainder) and part.modulus > ir.MAX_MODULUS:
            most = f"{ir.MAX_MODULUS:.0e}"
            raise ValueError(f"'multipleOf' of %regex, its point left out, is at most {most}")
        todo += ir.parts_of(part)
    return regex


def _bound(key: str, value: object) -> Fraction:
    """A bound as written; one of very many digits is refused before it is multiplied out."""
    if isinstance(value, bool) or not isinstance(value, int | decimal.Decimal):
        raise ValueError(f"{key!r} of %regex is a number")
    if isinstance(value, decimal.Decimal) and not -_DIGITS < value.adjusted() < _DIGITS:
        raise ValueError(f"{key!r} of %regex has more than {_DIGITS} digits")
    return Fraction(value)
