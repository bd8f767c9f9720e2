"""Random JSON Schemas over all keywords, and documents near the border of what they allow.

A seed determines everything. Schemas draw names, patterns, strings and numbers from small pools, so
that keywords meet each other's values; documents draw from the same pools and from the constants of
their schema. Invariant: references only lead to definitions, and never back without passing a
member or an item, so each schema says something of each document.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from typing import Any, Final

__all__ = ["DIALECTS", "PATTERNS", "mutated", "random_document", "random_schema"]

DIALECTS: Final = {
    "draft4": "http://json-schema.org/draft-04/schema#",
    "draft6": "http://json-schema.org/draft-06/schema#",
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
}
_LEGACY: Final = ("draft4", "draft6", "draft7")

# ECMA-262 patterns and what they mean to Python's re, whose $ and . take other line ends
_ANY: Final = "[^\\n\\r\\u2028\\u2029]"
PATTERNS: Final = {
    "^x": "^x",
    "b$": r"b\Z",
    "^a": "^a",
    "[0-9]": "[0-9]",
    "^.$": rf"^{_ANY}\Z",
    "^[a-c]*$": r"^[a-c]*\Z",
    "a.?b|^$": rf"a{_ANY}?b|^\Z",
    "^(?!x)": "^(?!x)",
    "^(ab|x[0-9]+)$": r"^(ab|x[0-9]+)\Z",
}

_KEYS: Final = ("a", "b", "c", "ab", "x1", "x2", "é", "")
_STRINGS: Final = ("", "a", "b", "ab", "abc", "x1", "0", "12", "é", "\U0001f600", 'q"', "\\", "\t")
_NUMBERS: Final = (-3, -1, 0, 1, 2, 3, 4, 6, 10, 12, 100, 10**20, -0.5, 0.5, 1.5, 2.25, 3.75)
_STEPS: Final = (1, 2, 3, 5, 0.5, 0.25, 1.5)
_TYPES: Final = ("null", "boolean", "integer", "number", "string", "array", "object")
_DEFINITIONS: Final = 3


class _Maker:
    """Makes one schema. ``free`` is the first definition that may be referred to right here."""

    def __init__(self, rng: random.Random, dialect: str) -> None:
        self.rng = rng
        self.dialect = dialect
        self.legacy = dialect in _LEGACY
        self.booleans = dialect != "draft4"
        self.definitions = "definitions" if self.legacy else "$defs"
        self.has_definitions = rng.random() < 0.4

    def root(self) -> Any:
        schema = self.schema(self.rng.choice((0, 1, 1, 2, 2, 3)), 0)
        if not isinstance(schema, dict):
            return schema
        result: dict[str, Any] = {"$schema": DIALECTS[self.dialect], **schema}
        if self.has_definitions:
            if self.legacy and "$ref" in result:
                # Beside $ref nothing counts in these drafts, definitions included
                result = {"$schema": result["$schema"], "allOf": [schema]}
            result[self.definitions] = {
                f"d{number}": self.schema(2, number + 1) for number in range(_DEFINITIONS)
            }
        return result

    def schema(self, depth: int, free: int) -> Any:
        rng = self.rng
        roll = rng.random()
        if self.booleans and roll < 0.06:
            return roll < 0.045
        if roll < 0.1:
            return {}
        if self.has_definitions and roll < 0.2 and free < _DEFINITIONS:
            reference: dict[str, Any] = {
                "$ref": f"#/{self.definitions}/d{rng.randrange(free, _DEFINITIONS)}"
            }
            if rng.random() < 0.7 or self.legacy:
                return reference
            return {**reference, **self._keywords(depth - 1, free, 1)}
        if depth <= 0:
            return self._keywords(0, free, rng.choice((1, 1, 2)))
        return self._keywords(depth, free, rng.choice((1, 2, 2, 3, 4)))

    def _keywords(self, depth: int, free: int, count: int) -> dict[str, Any]:
        rng = self.rng
        result: dict[str, Any] = {}
        kind = rng.choice(("any", "number", "string", "array", "object", "object"))
        families: dict[str, list[Callable[[int, int], dict[str, Any]]]] = {
            "number": [self._bounds, self._bounds, self._multiple],
            "string": [self._length, self._pattern, self._pattern],
            "array": [self._items, self._items, self._counts, self._contains, self._unique],
            "object": [
                self._properties, self._properties, self._required, self._patterns,
                self._sizes, self._names, self._dependent,
            ],
        }  # fmt: skip
        families["any"] = [one for family in families.values() for one in family]
        general = [self._type, self._constants]
        if depth > 0:
            general += [self._combined, self._combined, self._condition]
            if not self.legacy:
                general.append(self._unevaluated)
        if rng.random() < 0.5 and kind != "any":
            result["type"] = "integer" if kind == "number" and rng.random() < 0.5 else kind
        for _ in range(count):
            family = general if rng.random() < 0.3 else families[kind]
            for key, value in rng.choice(family)(depth, free).items():
                result.setdefault(key, value)
        return result

    def _type(self, depth: int, free: int) -> dict[str, Any]:
        if self.rng.random() < 0.6:
            return {"type": self.rng.choice(_TYPES)}
        return {"type": self.rng.sample(_TYPES, self.rng.randint(1, 4))}

    def _constants(self, depth: int, free: int) -> dict[str, Any]:
        if self.rng.random() < 0.4 and self.dialect != "draft4":
            return {"const": random_value(self.rng, 2)}
        values: list[Any] = []
        for _ in range(self.rng.randint(1, 5)):
            value = random_value(self.rng, 2)
            if not any(_same(value, other) for other in values):
                values.append(value)
        return {"enum": values}

    def _combined(self, depth: int, free: int) -> dict[str, Any]:
        keyword = self.rng.choice(("allOf", "anyOf", "oneOf", "not"))
        if keyword == "not":
            return {"not": self.schema(depth - 1, free)}
        return {keyword: [self.schema(depth - 1, free) for _ in range(self.rng.randint(1, 3))]}

    def _condition(self, depth: int, free: int) -> dict[str, Any]:
        if self.dialect in ("draft4", "draft6"):
            return self._combined(depth, free)
        result = {"if": self.schema(depth - 1, free)}
        for keyword in ("then", "else"):
            if self.rng.random() < 0.7:
                result[keyword] = self.schema(depth - 1, free)
        return result

    def _bounds(self, depth: int, free: int) -> dict[str, Any]:
        rng = self.rng
        low, high = sorted(rng.sample(_NUMBERS, 2))
        result: dict[str, Any] = {}
        for bound, value in (("minimum", low), ("maximum", high)):
            if rng.random() < 0.4:
                continue
            exclusive = f"exclusive{bound.capitalize()}"
            if self.dialect == "draft4":
                result[bound] = value
                if rng.random() < 0.4:
                    result[exclusive] = rng.random() < 0.8
            else:
                result[exclusive if rng.random() < 0.4 else bound] = value
        return result

    def _multiple(self, depth: int, free: int) -> dict[str, Any]:
        return {"multipleOf": self.rng.choice(_STEPS)}

    def _length(self, depth: int, free: int) -> dict[str, Any]:
        return self._range("minLength", "maxLength")

    def _counts(self, depth: int, free: int) -> dict[str, Any]:
        return self._range("minItems", "maxItems")

    def _sizes(self, depth: int, free: int) -> dict[str, Any]:
        return self._range("minProperties", "maxProperties")

    def _range(self, low: str, high: str) -> dict[str, Any]:
        rng = self.rng
        numbers = sorted((rng.randint(0, 3), rng.randint(0, 4)))
        chosen = rng.choice(((low,), (high,), (low, high)))
        return {key: numbers[key == high] for key in chosen}

    def _pattern(self, depth: int, free: int) -> dict[str, Any]:
        return {"pattern": self.rng.choice(tuple(PATTERNS))}

    def _items(self, depth: int, free: int) -> dict[str, Any]:
        rng = self.rng
        prefix = [self.schema(depth - 1, 0) for _ in range(rng.randint(1, 3))]
        rest = self.schema(depth - 1, 0)
        if self.dialect == "draft2020-12":
            chosen = rng.choice((("prefixItems",), ("items",), ("prefixItems", "items")))
            return {key: prefix if key == "prefixItems" else rest for key in chosen}
        result = {"items": rest if rng.random() < 0.5 else prefix}
        if rng.random() < 0.5:
            result["additionalItems"] = rest if self.booleans or rng.random() < 0.5 else False
        return result

    def _contains(self, depth: int, free: int) -> dict[str, Any]:
        if self.dialect == "draft4":
            return self._counts(depth, free)
        result = {"contains": self.schema(min(depth - 1, 1), 0)}
        if not self.legacy and self.rng.random() < 0.5:
            result |= self._range("minContains", "maxContains")
        return result

    def _unique(self, depth: int, free: int) -> dict[str, Any]:
        return {"uniqueItems": self.rng.random() < 0.8}

    def _properties(self, depth: int, free: int) -> dict[str, Any]:
        rng = self.rng
        result: dict[str, Any] = {
            "properties": {
                key: self.schema(depth - 1, 0) for key in rng.sample(_KEYS, rng.randint(1, 4))
            }
        }
        if rng.random() < 0.4:
            result["required"] = rng.sample(_KEYS, rng.randint(1, 2))
        if rng.random() < 0.4:
            rest = rng.random() < 0.5 and self.schema(depth - 1, 0)
            result["additionalProperties"] = rest
        return result

    def _required(self, depth: int, free: int) -> dict[str, Any]:
        return {"required": self.rng.sample(_KEYS, self.rng.randint(1, 3))}

    def _patterns(self, depth: int, free: int) -> dict[str, Any]:
        chosen = self.rng.sample(tuple(PATTERNS), self.rng.randint(1, 2))
        return {"patternProperties": {text: self.schema(depth - 1, 0) for text in chosen}}

    def _names(self, depth: int, free: int) -> dict[str, Any]:
        if self.dialect == "draft4":
            return self._sizes(depth, free)
        if self.rng.random() < 0.5:
            return {"propertyNames": self._pattern(depth, free)}
        return {"propertyNames": self.schema(min(depth - 1, 1), free)}

    def _dependent(self, depth: int, free: int) -> dict[str, Any]:
        rng = self.rng
        keys = rng.sample(_KEYS, rng.randint(1, 2))
        lists: dict[str, Any] = {key: rng.sample(_KEYS, rng.randint(1, 2)) for key in keys}
        schemas: dict[str, Any] = {key: self.schema(depth - 1, free) for key in keys}
        if self.legacy:
            return {"dependencies": {k: rng.choice((lists[k], schemas[k])) for k in keys}}
        return rng.choice(({"dependentRequired": lists}, {"dependentSchemas": schemas}))

    def _unevaluated(self, depth: int, free: int) -> dict[str, Any]:
        keyword = self.rng.choice(("unevaluatedProperties", "unevaluatedItems"))
        value = self.rng.random() < 0.4 and self.schema(depth - 1, 0)
        return {keyword: value, **self._combined(depth, free)}


def random_schema(rng: random.Random, dialect: str | None = None) -> tuple[str, Any]:
    """A dialect and a schema in it; a schema that is a boolean has the newest."""
    if dialect is None:
        names = tuple(DIALECTS)
        dialect = rng.choices(names, weights=(1, 1, 3, 2, 6))[0]
    schema = _Maker(rng, dialect).root()
    if dialect == "draft2019-09":
        while _confuses_oracle(json.dumps(schema)):
            schema = _Maker(rng, dialect).root()
    return (dialect if isinstance(schema, dict) else "draft2020-12"), schema


def _confuses_oracle(text: str) -> bool:
    """Whether jsonschema is wrong about such a schema of draft 2019-09.

    It counts items that ``contains`` matches as evaluated, which came with 2020-12, and members
    that ``additionalProperties`` or a nested ``unevaluatedProperties`` allow by a schema as
    unevaluated.
    """
    if '"unevaluatedItems"' in text and '"contains"' in text:
        return True
    count = text.count('"unevaluatedProperties"')
    return count > 1 or (count == 1 and '"additionalProperties"' in text)


def random_value(rng: random.Random, depth: int) -> Any:
    """A JSON value out of the pools."""
    roll = rng.random()
    if depth > 0 and roll < 0.2:
        return [random_value(rng, depth - 1) for _ in range(rng.randint(0, 3))]
    if depth > 0 and roll < 0.45:
        keys = rng.sample(_KEYS, rng.randint(0, 3))
        return {key: random_value(rng, depth - 1) for key in keys}
    return rng.choice((None, True, False, rng.choice(_NUMBERS), rng.choice(_STRINGS)))


def random_document(rng: random.Random, schema: Any, depth: int = 4) -> Any:
    """A document that has something to do with ``schema``: guided by it, but not faithful to it."""
    if not isinstance(schema, dict) or depth <= 0 or rng.random() < 0.05:
        return random_value(rng, min(2, max(0, depth)))
    if "const" in schema and rng.random() < 0.9:
        return copy.deepcopy(schema["const"])
    if "enum" in schema and rng.random() < 0.9:
        return copy.deepcopy(rng.choice(schema["enum"]))
    branches = [
        branch
        for keyword in ("allOf", "anyOf", "oneOf")
        for branch in schema.get(keyword, ())
        if isinstance(branch, dict)
    ]
    branches += [schema[key] for key in ("then", "else", "if") if isinstance(schema.get(key), dict)]
    if branches and rng.random() < 0.5:
        # The keywords of both, as far as one dict can hold them
        branch = rng.choice(branches)
        outer = {k: v for k, v in schema.items() if k not in ("allOf", "anyOf", "oneOf")}
        return random_document(rng, {**branch, **outer} if rng.random() < 0.5 else branch, depth)
    return _of_type(rng, schema, depth)


def _of_type(rng: random.Random, schema: dict[str, Any], depth: int) -> Any:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = rng.choice(kind)
    if kind is None:
        for name, keywords in _HINTS.items():
            if any(keyword in schema for keyword in keywords):
                kind = name
                break
    if kind == "object":
        return _object(rng, schema, depth)
    if kind == "array":
        return _array(rng, schema, depth)
    if kind == "string":
        return rng.choice(_STRINGS)
    if kind in ("integer", "number"):
        bounds = [schema[k] for k in ("minimum", "maximum", "exclusiveMinimum") if k in schema]
        numbers = [b for b in bounds if not isinstance(b, bool)]
        pool = [n + step for n in numbers for step in (-1, 0, 1, 0.5)] + list(_NUMBERS)
        return _plain(rng.choice(pool))
    if kind == "boolean":
        return rng.random() < 0.5
    return random_value(rng, 1)


_HINTS: Final = {
    "object": (
        "properties", "required", "patternProperties", "additionalProperties", "minProperties",
        "maxProperties", "propertyNames", "dependencies", "dependentRequired", "dependentSchemas",
        "unevaluatedProperties",
    ),
    "array": (
        "items", "prefixItems", "additionalItems", "minItems", "maxItems", "contains",
        "uniqueItems", "unevaluatedItems",
    ),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "string": ("minLength", "maxLength", "pattern"),
}  # fmt: skip


def _object(rng: random.Random, schema: dict[str, Any], depth: int) -> dict[str, Any]:
    properties: dict[str, Any] = schema.get("properties", {})
    required = schema.get("required", ())
    result: dict[str, Any] = {}
    for key, child in properties.items():
        if rng.random() < (0.95 if key in required else 0.5):
            result[key] = random_document(rng, child, depth - 1)
    for key in required:
        if key not in result and rng.random() < 0.95:
            result[key] = random_value(rng, 1)
    while rng.random() < 0.3:
        result.setdefault(rng.choice(_KEYS), random_value(rng, 1))
    return result


def _array(rng: random.Random, schema: dict[str, Any], depth: int) -> list[Any]:
    items = schema.get("items", True)
    prefix = schema.get("prefixItems", items if isinstance(items, list) else [])
    rest = schema.get("additionalItems", True) if isinstance(items, list) else items
    length = max(0, min(6, schema.get("minItems", 0) + rng.randint(-1, 3)))
    places = [*prefix, *[rest] * length][: max(length, rng.randint(0, len(prefix)))]
    result = [random_document(rng, place, depth - 1) for place in places]
    if "contains" in schema and rng.random() < 0.7:
        result.append(random_document(rng, schema["contains"], depth - 1))
    return result


def mutated(rng: random.Random, document: Any) -> Any:
    """A copy of ``document`` with one change somewhere."""
    result = [copy.deepcopy(document)]
    places = list(_places(result))
    container, key = rng.choice(places)
    value = container[key]
    if isinstance(value, dict) and rng.random() < 0.6:
        if value and rng.random() < 0.5:
            del value[rng.choice(list(value))]
        else:
            value[rng.choice(_KEYS)] = random_value(rng, 1)
    elif isinstance(value, list) and rng.random() < 0.6:
        if value and rng.random() < 0.5:
            del value[rng.randrange(len(value))]
        else:
            extra = copy.deepcopy(rng.choice(value)) if value and rng.random() < 0.4 else None
            value.insert(rng.randint(0, len(value)), extra if extra else random_value(rng, 1))
    elif isinstance(value, (int, float)) and not isinstance(value, bool) and rng.random() < 0.7:
        container[key] = _plain(value + rng.choice((-1, 1, 0.5, -0.5, 2)))
    elif isinstance(value, str) and rng.random() < 0.7:
        container[key] = value[1:] if rng.random() < 0.5 else value + rng.choice(_STRINGS)
    else:
        container[key] = random_value(rng, 1)
    return result[0]


def _places(root: list[Any]) -> Iterator[tuple[Any, Any]]:
    todo: list[Any] = [root]
    while todo:
        container = todo.pop()
        keys = list(container) if isinstance(container, dict) else range(len(container))
        for key in keys:
            yield container, key
            if isinstance(container[key], (dict, list)):
                todo.append(container[key])


def _plain(number: float) -> float:
    """A number as an ``int`` where it is one: how JSON text spells it by default."""
    return int(number) if number == int(number) else number


def _same(a: Any, b: Any) -> bool:
    """Equality of JSON values, in which ``True`` is not 1."""
    if isinstance(a, bool) != isinstance(b, bool):
        return False
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    return bool(a == b)
