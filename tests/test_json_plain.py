"""The short way of plain schemas gives the rules that the algebra gives."""

from __future__ import annotations

import contextlib
import gc
import gzip
import json
import random
from typing import Any

import json_cases
import pytest

from llgx import ir
from llgx.errors import LlgxError, SchemaError
from llgx.json_schema import compile as compile_module
from llgx.json_schema import compile_schema
from llgx.json_schema._plain import compile_plain
from llgx.json_schema.options import DEFAULT_OPTIONS, Options
from tests.ir_canonical import canonical
from tests.json_schemas import random_schema
from tests.shared_data import data_file

_LONGEST = 8_000  # characters of a schema of MaskBench; the algebra takes its time over others


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each schema that is compiled from here on is plain."""
    taken: list[bool] = []

    def noted(*arguments: Any) -> Any:
        found = compile_plain(*arguments)
        taken.append(found is not None)
        return found

    monkeypatch.setattr(compile_module, "compile_plain", noted)
    return taken


def _outcome(schema: Any, options: Options = DEFAULT_OPTIONS, plain: bool = True) -> Any:
    try:
        grammar: ir.GrammarIR = compile_schema(schema, options, plain=plain)
    except LlgxError as error:
        return type(error), str(error)
    return canonical(grammar)


def _assert_same(schema: Any, options: Options = DEFAULT_OPTIONS) -> None:
    assert _outcome(schema, options) == _outcome(schema, options, plain=False), schema


_TREE = {
    "type": "object",
    "properties": {"value": {"type": "integer"}, "left": {"$ref": "#"}, "right": {"$ref": "#"}},
    "required": ["value"],
}
_PLAIN: dict[str, Any] = {
    "types": {"type": ["string", "integer", "null"]},
    "nothing said": {"properties": {"a": {}, "b": True, "c": {"title": "any"}}},
    "an unknown format of any type": {"properties": {"a": {"format": "zeal"}}},
    "all types": {"properties": {"a": {"minLength": 1, "minimum": 0, "items": {}}}},
    "constants": {"properties": {"a": {"enum": ["x", "é", '"']}, "b": {"const": "x"}}},
    "type and enum": {"items": {"type": ["string", "null"], "enum": ["b", "a", "b"]}},
    "unlisted": {
        "properties": {"b": {"type": "string"}},
        "required": ["z", "b", "a", "z"],
        "additionalProperties": {"type": "number"},
    },
    "closed": {"properties": {"a": False, "b": {}}, "additionalProperties": False},
    "open without a name": {"properties": {"a": False}},
    "optional before required": {
        "properties": {"a": {}, "b": {}, "c": {}, "d": {}},
        "required": ["c", "d"],
    },
    "bounds of arrays": {
        "properties": {
            str(low): {"items": {"type": "string"}, "minItems": low, "maxItems": high}
            for low, high in ((0, 0), (0, 1), (1, 1), (2, 9), (7, 7), (8, 200))
        }
    },
    "at least so many items": {"type": "array", "minItems": 9, "items": {"type": "null"}},
    "equal content": {
        "properties": {name: {"type": "object", "properties": {"x": {}}} for name in "abc"}
    },
    "recursion": _TREE,
    "recursion over items": {"type": "array", "items": {"$ref": "#"}},
    "mutual recursion": {
        "$ref": "#/$defs/a",
        "$defs": {
            "a": {"properties": {"b": {"$ref": "#/$defs/b"}}},
            "b": {"properties": {"a": {"$ref": "#/$defs/a"}}, "required": ["a"]},
        },
    },
    "a reference to a reference": {
        "items": {"$ref": "#/$defs/a"},
        "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"items": {"$ref": "#/$defs/a"}}},
    },
    "what is not plain in the middle": {
        "properties": {
            "a": {"anyOf": [{"type": "string"}, {"type": "object"}]},
            "b": {"type": "object", "patternProperties": {"^x": {"type": "integer"}}},
            "c": {"enum": [1, None, {"a": 1}]},
            "d": {"type": "array", "uniqueItems": True, "items": {"type": "integer"}},
        },
        "required": ["a"],
    },
    "one of different types": {
        "properties": {
            "a": {"oneOf": [{"type": "object"}, {"type": "string"}, {"type": "null"}]},
            "b": {"anyOf": [{"$ref": "#/$defs/list"}, {"$ref": "#/$defs/word"}]},
            "c": {"type": ["integer", "array"], "anyOf": [{"$ref": "#/$defs/list"}]},
            "d": {"allOf": [{"$ref": "#/$defs/word"}]},
            "e": {"oneOf": [{"items": {"type": "string"}}]},
            "f": {"anyOf": [{"type": "array", "items": {"$ref": "#"}}, {"type": "boolean"}]},
        },
        "required": ["c"],
        "$defs": {
            "list": {"type": "array", "items": {"$ref": "#/$defs/word"}},
            "word": {"enum": ["x", "y"]},
        },
    },
    "any of two": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    "any of two that overlap": {"anyOf": [{"type": "string"}, {"minLength": 2}]},
    "one of two objects": {
        "oneOf": [{"type": "object", "required": ["a"]}, {"type": "object", "required": ["b"]}]
    },
    "an integer and a number": {"oneOf": [{"type": "integer"}, {"type": "number"}]},
    "two of the few": {"anyOf": [{"type": "null"}, {"enum": ["a", "b"]}]},
    "beside another type": {"type": "string", "anyOf": [{"type": "string"}, {"type": "null"}]},
    "members of alternatives": {
        "anyOf": [
            {"properties": {"a": {"$ref": "#/$defs/tree"}, "b": {"type": "integer"}}},
            {"properties": {"a": {"$ref": "#/$defs/tree"}}, "required": ["a"]},
            {"type": "array", "items": {"$ref": "#"}},
        ],
        "$defs": {"tree": _TREE},
    },
    "members of what is met": {
        "allOf": [
            {"properties": {"a": {"items": {"type": "string"}}, "b": {"properties": {"x": {}}}}},
            {"properties": {"a": {"items": {"maxLength": 3}}}, "required": ["b"]},
        ]
    },
    "members of what is negated": {
        "properties": {"a": {"items": {"type": "string"}}, "b": {"properties": {"x": {}}}},
        "not": {"properties": {"a": {"items": {"type": "string"}}}, "required": ["a"]},
    },
    "members by pattern": {
        "patternProperties": {
            "^x": {"properties": {"y": {"$ref": "#"}}, "required": ["y"]},
            "^z": {"items": {"anyOf": [{"$ref": "#"}, {"properties": {"c": {"const": 1}}}]}},
        },
        "additionalProperties": {"type": "array", "items": {"type": ["integer", "number"]}},
    },
    "a part that leads to what is around it": {
        "properties": {"a": {"$ref": "#/$defs/a"}},
        "$defs": {
            "a": {
                "oneOf": [
                    {
                        "type": "object",
                        "required": ["b"],
                        "properties": {"b": {"$ref": "#/$defs/b"}},
                    },
                    {"type": "object", "required": ["c"], "properties": {"c": {"items": {}}}},
                ]
            },
            "b": {
                "type": "object",
                "properties": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}]}},
                "additionalProperties": False,
            },
        },
    },
    "items that differ": {
        "properties": {
            "a": {"uniqueItems": True, "items": {"properties": {"x": {"items": {"$ref": "#"}}}}}
        }
    },
    "draft 7, siblings of a reference": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "properties": {"a": {"$ref": "#/definitions/x", "type": "string"}},
        "definitions": {"x": {"type": "integer", "minimum": 0}},
    },
    "an identifier within": {
        "properties": {"a": {"$ref": "#/$defs/a"}, "b": {"$id": "b", "items": {"$id": "c"}}},
        "$defs": {"a": {"$id": "http://a/b", "type": "string"}},
    },
    "strings": {
        "properties": {
            "a": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 9},
            "b": {"type": "string", "pattern": "x", "minLength": 2},
            "c": {"type": "string", "format": "date"},
            "d": {"type": "string", "pattern": ".*"},
        }
    },
    "numbers": {
        "properties": {
            "a": {"type": "integer", "minimum": 0, "maximum": 1000},
            "b": {"type": "number", "multipleOf": 0.5},
            "c": {"type": "integer", "format": "int32"},
            "d": {"type": ["integer", "string"], "minimum": 3, "maxLength": 3},
        }
    },
}


@pytest.mark.parametrize("name", _PLAIN)
def test_plain(name: str, ways: list[bool]) -> None:
    _assert_same(_PLAIN[name])
    assert ways == [True]


@pytest.mark.parametrize(
    "options",
    [
        Options(whitespace="compact"),
        Options(whitespace=2),
        Options(item_separator=", ", key_separator=": "),
        Options(lenient=True),
        Options(property_order="any"),
        Options(indent=2),
    ],
    ids=str,
)
def test_options(options: Options) -> None:
    for schema in _PLAIN.values():
        _assert_same(schema, options)


_SELF = {"properties": {"a": {"$ref": "#"}}, "required": ["a"], "type": "object"}
_NOT_PLAIN: dict[str, Any] = {
    "what requires itself": _SELF,
    "what requires itself over another": {
        "$ref": "#/$defs/r",
        "$defs": {
            "r": {
                "type": "object",
                "properties": {"o": {"$ref": "#/$defs/s"}, "q": {"$ref": "#/$defs/s"}},
                "required": ["q"],
            },
            "s": {
                "type": "object",
                "properties": {"r": {"$ref": "#/$defs/r"}},
                "required": ["r"],
            },
        },
    },
    "items of itself, at least one": {"type": "array", "minItems": 1, "items": {"$ref": "#"}},
    "nothing but itself": {"$ref": "#"},
    "a part that requires itself": {
        "properties": {"a": {"$ref": "#/$defs/a"}},
        "$defs": {
            "a": {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "required": ["a"]}
        },
    },
    "an alternative that requires what is around it": {
        "$ref": "#/$defs/a",
        "$defs": {
            "a": {
                "anyOf": [
                    {
                        "type": "object",
                        "properties": {"b": {"properties": {"a": {"$ref": "#/$defs/a"}}}},
                        "required": ["b"],
                    },
                ],
                "properties": {"b": {"type": "object", "required": ["a"]}},
            }
        },
    },
    "an integer where an object is asked for": {
        "properties": {"a": {"type": "object", "anyOf": [{"type": "integer"}]}}
    },
    "required and forbidden": {"properties": {"a": False}, "required": ["a"], "type": "object"},
    "required and closed": {"additionalProperties": False, "required": ["a"], "type": "object"},
    "no string": {"properties": {"a": {"type": "string", "pattern": "^a$", "minLength": 2}}},
    "no number": {"items": {"type": "integer", "minimum": 3, "maximum": 2}},
    "malformed": {"properties": {"a": {"type": "strin"}}},
    "malformed count": {"properties": {"a": {"type": "array", "minItems": -1}}},
    "malformed required": {"properties": {}, "required": True},
    "leads nowhere": {"properties": {"a": {"$ref": "#/nowhere"}}},
    "a reference within a resource": {
        "properties": {
            "a": {"$id": "http://a/b", "items": {"$ref": "#/$defs/x"}, "$defs": {"x": True}}
        }
    },
    "a draft within": {
        "properties": {"a": {"$id": "http://a/b", "$schema": "http://json-schema.org/schema#"}}
    },
    "an anchor": {"$ref": "#x", "$defs": {"x": {"$anchor": "x", "type": "string"}}},
    "an empty part": {"items": {"allOf": [{"type": "string"}, {"type": "null"}]}},
    "no schema": {"properties": {"a": 1}},
    "deep": json.loads('{"items":' * 110 + "{}" + "}" * 110),
}


@pytest.mark.parametrize("name", _NOT_PLAIN)
def test_the_long_way(name: str, ways: list[bool]) -> None:
    _assert_same(_NOT_PLAIN[name])
    assert ways == [False]


def test_warnings_are_about_what_is_in_use() -> None:
    """The member's rules are made before it turns out that only names of members matter."""
    unique = {"properties": {"x": {"uniqueItems": True, "items": {"type": "object"}}}}
    assert compile_schema({"propertyNames": {"oneOf": [unique]}}).warnings == []
    used = {"anyOf": [unique, {"type": "null"}]}
    assert len(compile_schema(used).warnings) > 0
    assert compile_schema(used).warnings == compile_schema(used, plain=False).warnings


def test_nothing_is_left_to_the_garbage_collection() -> None:
    """Of what reads a document off: what it has read, and the document itself."""
    gc.collect()
    gc.disable()
    try:
        for schema in (*_PLAIN.values(), _NOT_PLAIN["an empty part"]):
            with contextlib.suppress(LlgxError):
                compile_schema(schema)
        left = [thing for thing in gc.get_objects() if type(thing).__name__ == "_Plain"]
    finally:
        gc.enable()
    assert left == []


def test_what_requires_itself_has_no_value() -> None:
    with pytest.raises(SchemaError, match="no value satisfies the schema"):
        compile_schema(_SELF)


def test_random_schemas(ways: list[bool]) -> None:
    rng = random.Random(7)
    for _ in range(1_500):
        _assert_same(random_schema(rng)[1])
    assert sum(ways) > 200


def test_schemas_of_maskbench(ways: list[bool]) -> None:
    compared = 0
    with gzip.open(data_file("maskbench.jsonl.gz"), "rt", encoding="utf-8") as lines:
        for line in lines:
            case = json.loads(line)
            text = json.dumps(case["schema"])
            if json_cases.tenth(case["id"]) and len(text) < _LONGEST:
                _assert_same(text)
                compared += 1
    assert sum(ways) > 0.7 * compared
