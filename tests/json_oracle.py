"""Second opinion on JSON Schema: the ``jsonschema`` package, given exact numbers and ECMA patterns.

Its patterns are Python's and its numbers may be floats; here patterns come from a table with a
translation (``json_schemas.PATTERNS``) and numbers are ``int`` or ``Decimal``. Formats are not
looked at.
"""

from __future__ import annotations

import decimal
import itertools
import json
import math
import random
from collections.abc import Iterator
from typing import Any, Final

import jsonschema
import jsonschema.validators

from tests.json_schemas import PATTERNS

__all__ = ["DuplicateKeyError", "Oracle", "parse", "spell", "spellings"]

_VALIDATORS: Final = {
    "draft4": jsonschema.Draft4Validator,
    "draft6": jsonschema.Draft6Validator,
    "draft7": jsonschema.Draft7Validator,
    "draft2019-09": jsonschema.Draft201909Validator,
    "draft2020-12": jsonschema.Draft202012Validator,
}
_DIGITS: Final = 2000


class DuplicateKeyError(ValueError):
    """An object of the text has a key twice."""


class Oracle:
    """Says whether a schema of a dialect allows a document."""

    def __init__(self, dialect: str, schema: Any) -> None:
        self._validator = _VALIDATORS[dialect](_translated(schema))

    def allows(self, document: Any) -> bool:
        """Whether it does; numbers of the document may be ``int``, ``float`` or ``Decimal``."""
        with decimal.localcontext() as context:
            context.prec = _DIGITS
            return bool(self._validator.is_valid(_exact(document)))


def _translated(schema: Any) -> Any:
    """``schema`` for Python's ``re``, with exact numbers. Constants that are no schemas stay."""
    if not isinstance(schema, dict):
        return schema
    result = {}
    for keyword, value in schema.items():
        if keyword == "pattern":
            result[keyword] = PATTERNS.get(value, value)
        elif keyword == "patternProperties":
            result[keyword] = {PATTERNS.get(k, k): _translated(v) for k, v in value.items()}
        elif keyword == "additionalItems" and not isinstance(schema.get("items"), list):
            continue  # without a list of items it says nothing, but trips the package up
        elif keyword == "items" and isinstance(value, bool):
            result[keyword] = {} if value else {"not": {}}  # as above
        elif keyword in ("properties", "$defs", "definitions", "dependentSchemas", "dependencies"):
            result[keyword] = {key: _translated(child) for key, child in value.items()}
        elif isinstance(value, dict) and keyword != "const":
            result[keyword] = _translated(value)
        elif isinstance(value, list) and keyword not in ("enum", "const"):
            result[keyword] = [_translated(child) for child in value]
        else:
            result[keyword] = _exact(value)
    return result


def _exact(value: Any) -> Any:
    if isinstance(value, float):
        return decimal.Decimal(repr(value))
    if isinstance(value, list):
        return [_exact(item) for item in value]
    if isinstance(value, dict):
        return {key: _exact(item) for key, item in value.items()}
    return value


def parse(text: str) -> Any:
    """A document from text, numbers exact; ``DuplicateKeyError``, or ``ValueError`` if it is none.

    Numbers that are whole are ``int``, as JSON Schema sees them.
    """
    return json.loads(text, parse_float=_number, object_pairs_hook=_members)


def _number(text: str) -> Any:
    try:
        number = decimal.Decimal(text)
        exponent = number.as_tuple().exponent
    except decimal.InvalidOperation:  # beyond what Decimal can hold
        exponent = "F"
    if not isinstance(exponent, int) or abs(exponent) > _DIGITS // 2:
        raise OverflowError(f"{text} has too many digits for this test")
    return int(number) if number == number.to_integral_value() else number


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        raise DuplicateKeyError(f"a key twice: {[key for key, _ in pairs]}")
    return result


def spell(document: Any, rng: random.Random | None = None) -> str:
    """JSON text of ``document`` in the canonical spelling; ``rng`` decides on white space."""

    def gap() -> str:
        return rng.choice(("", "", " ", "\n  ")) if rng else ""

    if isinstance(document, dict):
        members = [
            f"{gap()}{json.dumps(key, ensure_ascii=False)}{gap()}:{gap()}{spell(value, rng)}{gap()}"
            for key, value in document.items()
        ]
        return "{" + (",".join(members) if members else gap()) + "}"
    if isinstance(document, list):
        items = [f"{gap()}{spell(value, rng)}{gap()}" for value in document]
        return "[" + (",".join(items) if items else gap()) + "]"
    if isinstance(document, decimal.Decimal):
        return str(document)
    return json.dumps(document, ensure_ascii=False)


def spellings(document: Any, limit: int) -> list[str] | None:
    """Texts of ``document``, its members in each order; None if there are more than ``limit``."""
    if _orders(document) > limit:
        return None
    return list(_spellings(document))


def _orders(document: Any) -> int:
    if isinstance(document, dict):
        return math.factorial(len(document)) * math.prod(map(_orders, document.values()))
    return math.prod(map(_orders, document)) if isinstance(document, list) else 1


def _spellings(document: Any) -> Iterator[str]:
    if isinstance(document, dict):
        keys = [json.dumps(key, ensure_ascii=False) for key in document]
        for values in itertools.product(*(list(_spellings(v)) for v in document.values())):
            members = [f"{key}:{value}" for key, value in zip(keys, values, strict=True)]
            for order in itertools.permutations(members):
                yield "{" + ",".join(order) + "}"
    elif isinstance(document, list):
        for items in itertools.product(*(list(_spellings(item)) for item in document)):
            yield "[" + ",".join(items) + "]"
    else:
        yield spell(document)
