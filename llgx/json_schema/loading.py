"""From what users hold to a JSON Schema document: text, dicts, models, types.

Numbers in text are kept exactly: integers as ``int``, all others as ``decimal.Decimal``; a
``float`` in a dict stands for the shortest decimal that gives it. Text is read without recursion of
Python's where it nests deep. Nothing here looks into the document.
"""

from __future__ import annotations

import dataclasses
import decimal
import json
import re
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any, Final

from llgx.doors import other_door
from llgx.errors import LimitError, SchemaError
from llgx.json_schema._survey import survey
from llgx.limits import DEFAULT_LIMITS, Limits

__all__ = ["Document", "describe", "load", "number_of"]

_C_DEPTH: Final = 100  # nesting that json.loads may recurse into, wherever it is called
_MOST_DIGITS: Final = 4_000
_TOKEN: Final = re.compile(
    r'[ \t\n\r]*(?:([{}\[\]:,])|"((?:[^"\\\x00-\x1f]|\\.)*)"'
    r"|(-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)|(true|false|null))",
    re.DOTALL,
)
_WORDS: Final = {"true": True, "false": False, "null": None}


@dataclasses.dataclass(frozen=True, slots=True)
class Document:
    """A JSON Schema as Python data: a dict or a bool."""

    contents: Any


def load(source: object, limits: Limits = DEFAULT_LIMITS) -> Document:
    """The document that ``source`` stands for.

    A dict, a bool, JSON text (``str`` or UTF-8 ``bytes``), a pydantic model (version 1 or 2), a
    ``TypeAdapter``, a dataclass, a ``TypedDict``, or an annotation such as ``list[int]``; where
    that is built of types that only pydantic knows, it takes pydantic. Raises :class:`SchemaError`
    for text that is no JSON and for what is no schema, :class:`LimitError` for text that is too
    long or nests too deep.
    """
    if isinstance(source, Document):
        return source
    if isinstance(source, (str, bytes)):
        source = _parse(source, limits)
    if isinstance(source, bool) or type(source) is dict:
        return Document(source)
    if isinstance(source, Mapping):
        return Document(dict(source))
    if isinstance(source, (list, tuple, int, float, decimal.Decimal)) or source is None:
        raise SchemaError(f"a schema is an object or a boolean, not {_kind(source)}")
    return Document(describe(source))


def number_of(value: object) -> Fraction | None:
    """``value`` exactly, or None if it is no finite number (a bool is none).

    Raises :class:`SchemaError` for a number of more than 4,000 digits.
    """
    if type(value) is int:
        return Fraction(value)
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, Fraction)):
        return Fraction(value)
    if isinstance(value, float):
        value = decimal.Decimal(repr(float(value)))
    if isinstance(value, decimal.Decimal):
        if not value.is_finite():
            return None
        exponent = value.as_tuple().exponent
        assert isinstance(exponent, int)
        if abs(exponent) > _MOST_DIGITS or abs(value.adjusted()) > _MOST_DIGITS:
            if value == 0:
                return Fraction(0)
            raise SchemaError(f"a number of more than {_MOST_DIGITS:,} digits")
        return Fraction(value)
    return None


# Text


def _parse(text: str | bytes, limits: Limits) -> object:
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise SchemaError(f"the schema is not UTF-8: {error}") from None
    if len(text) > limits.schema_bytes:
        raise LimitError(f"a schema of {len(text):,} characters", limit="schema_bytes")
    nesting, digits = survey(text)
    if nesting > limits.nesting:
        raise LimitError(f"the schema nests {nesting:,} levels deep", limit="nesting")
    try:
        if nesting > _C_DEPTH:
            return _parse_deep(text)
        if text.startswith("\ufeff"):
            raise json.JSONDecodeError("it begins with a byte order mark", text, 0)
        decoder = _DECODER if digits <= _MOST_DIGITS else _LONG_DECODER
        if text.startswith("{"):
            value, end = decoder.raw_decode(text)
            if end == len(text):
                return value
        return decoder.decode(text)
    except json.JSONDecodeError as error:
        raise SchemaError(
            f"the schema is no JSON: line {error.lineno}, column {error.colno}: {error.msg}"
            f"{other_door(text, 'json_schema')}"
        ) from None


def _integer(text: str) -> int | decimal.Decimal:
    # Python refuses to read very long integers; number_of refuses them with an error of its own.
    return int(text) if len(text) <= _MOST_DIGITS else decimal.Decimal(text)


def _no_constant(text: str) -> object:
    raise SchemaError(f"the schema is no JSON: {text} is no number")


_DECODER: Final = json.JSONDecoder(parse_float=decimal.Decimal, parse_constant=_no_constant)
_LONG_DECODER: Final = json.JSONDecoder(
    parse_float=decimal.Decimal, parse_int=_integer, parse_constant=_no_constant
)


def _number(text: str) -> int | decimal.Decimal:
    return _integer(text) if text.lstrip("-").isdigit() else decimal.Decimal(text)


def _parse_deep(text: str) -> object:
    """JSON text to data with a stack of its own; slower than :func:`json.loads`."""
    stack: list[tuple[Any, str | None]] = []  # containers not yet closed, and the key above
    container: Any = None
    key: str | None = None
    expects = "value"  # or "first value", "key", "first key", "colon", "comma", "end"
    result: object = None
    offset = 0
    for match in _tokens(text):
        mark, string, number, word = match.groups()
        offset = match.start(match.lastindex or 0)
        value: Any
        if mark in ("]", "}"):
            kind = list if mark == "]" else dict
            if type(container) is not kind or expects not in ("comma", "first value", "first key"):
                raise json.JSONDecodeError(f"misplaced {mark}", text, offset)
            value = container
            container, key = stack.pop()
        elif mark == ",":
            if expects != "comma":
                raise json.JSONDecodeError("misplaced comma", text, offset)
            expects = "key" if type(container) is dict else "value"
            continue
        elif mark == ":":
            if expects != "colon":
                raise json.JSONDecodeError("misplaced colon", text, offset)
            expects = "value"
            continue
        elif expects in ("key", "first key"):
            if string is None:
                raise json.JSONDecodeError("a member begins with its name", text, offset)
            key = json.loads(f'"{string}"')
            expects = "colon"
            continue
        elif expects not in ("value", "first value"):
            raise json.JSONDecodeError("a comma or the end belongs here", text, offset)
        elif mark is not None:
            stack.append((container, key))
            container = [] if mark == "[" else {}
            expects = "first value" if mark == "[" else "first key"
            continue
        elif string is not None:
            value = json.loads(f'"{string}"')
        elif number is not None:
            value = _number(number)
        else:
            value = _WORDS[word]
        if container is None:
            result = value
            expects = "end"
        else:
            if type(container) is dict:
                container[key] = value
            else:
                container.append(value)
            expects = "comma"
    if expects != "end":
        raise json.JSONDecodeError("the text ends too early", text, len(text))
    return result


def _tokens(text: str) -> Iterator[re.Match[str]]:
    end = len(text.rstrip(" \t\n\r"))
    position = 0
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            raise json.JSONDecodeError("no JSON value", text, position)
        yield match
        position = match.end()


# Models and types


def describe(source: Any) -> object:
    """The schema that a model, an adapter or a type stands for."""
    for name in ("model_json_schema", "json_schema", "schema"):
        method: Callable[[], object] | None = getattr(source, name, None)
        if callable(method) and isinstance(source, type) is (name != "json_schema"):
            contents = method()
            if isinstance(contents, dict):
                return contents
    if not isinstance(source, type) and not any(
        hasattr(source, name) for name in ("__origin__", "__args__", "__supertype__", "__value__")
    ):
        raise SchemaError(
            f"no schema can be made of an instance of {type(source).__name__}",
            remedy="give a dict, JSON text, a boolean, a pydantic model, a type or a TypeAdapter",
        )
    name = getattr(source, "__name__", None) or repr(source)
    from llgx.json_schema import python_types  # only here: it takes a look at many types

    try:
        return python_types.describe(source)
    except NameError as error:
        raise SchemaError(f"an annotation in {name} cannot be resolved: {error}") from error
    except python_types.ForeignType as error:
        unknown = str(error)
    try:
        import pydantic
    except ImportError:
        raise SchemaError(
            f"it takes pydantic to make a schema of {name}: nothing is known of {unknown}",
            remedy="install pydantic, or give the schema as a dict",
        ) from None
    try:
        return pydantic.TypeAdapter(source).json_schema()
    except (TypeError, AttributeError, pydantic.errors.PydanticUserError) as error:
        raise SchemaError(f"no schema can be made of {name}: {error}") from error


def _kind(source: object) -> str:
    return f"an instance of {type(source).__name__}"
