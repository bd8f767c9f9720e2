"""Loading of JSON Schemas, references, dialects, and what is said of bad ones."""

from __future__ import annotations

import dataclasses
import decimal
import enum
import inspect
import json
import subprocess
import sys
import uuid
from fractions import Fraction
from typing import Any, Literal, TypedDict

import pydantic
import pydantic.v1
import pytest

from llgx.errors import LimitError, SchemaError
from llgx.json_schema.keywords import build
from llgx.json_schema.loading import load, number_of
from llgx.json_schema.normal import NumberGroup, ObjectGroup, Schema
from llgx.json_schema.report import Report
from llgx.limits import Limits
from tests.json_membership import belongs


@dataclasses.dataclass
class Options:
    resources: dict[str, Any] = dataclasses.field(default_factory=dict)
    strict_formats: bool = False
    ignored_formats: frozenset[str] = frozenset()
    one_is_any: bool = False


def schema_of(source: object, **options: Any) -> Schema:
    return build(load(source), Options(**options), Report())[1]


def fault(source: object, **options: Any) -> SchemaError:
    with pytest.raises(SchemaError) as caught:
        schema_of(source, **options)
    return caught.value


# Sources


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Movie(TypedDict):
    title: str
    year: int


@dataclasses.dataclass
class Tree:
    value: int | None
    tags: frozenset[str] = frozenset()
    pair: tuple[int, str] | None = None
    children: list[Tree] = dataclasses.field(default_factory=list)


class Model(pydantic.BaseModel):
    name: str
    size: Literal["s", "m"]


@dataclasses.dataclass
class Holder:
    model: Model


class Model1(pydantic.v1.BaseModel):
    name: str


@pytest.mark.parametrize(
    ("source", "good", "bad"),
    [
        ({"type": "string"}, "a", 1),
        ('{"type": "string"}', "a", 1),
        (b'\xef\xbb\xbf{"type": "string"}', "a", 1),
        (Point, {"x": 1}, {"y": 1}),
        (Movie, {"title": "a", "year": 1}, {"title": "a"}),
        (Movie, {"title": "a", "year": 1}, {"title": "a", "year": 1, "x": 1}),
        (Tree, {"value": None, "children": [{"value": 1}]}, {"value": 1, "children": [{}]}),
        (Tree, {"value": 1, "pair": [1, "a"]}, {"value": 1, "pair": [1]}),
        (Tree, {"value": 1, "tags": ["a", "b"]}, {"value": 1, "tags": ["a", "a"]}),
        (Holder, {"model": {"name": "a", "size": "s"}}, {"model": {"name": "a", "size": "x"}}),
        (dict[str, int | bool], {"a": 1, "b": True}, {"a": "x"}),
        (tuple[int, ...], [1, 2], ["a"]),
        (uuid.UUID, "12345678-1234-1234-1234-123456789abc", "1"),
        (Model, {"name": "a", "size": "s"}, {"name": "a", "size": "l"}),
        (Model1, {"name": "a"}, {}),
        (pydantic.TypeAdapter(list[int]), [1], ["a"]),
        (list[int], [1], ["a"]),
        (Literal["a", "b"], "a", "c"),
        (enum.Enum("Colour", {"RED": "red"}), "red", "blue"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_sources(source: object, good: object, bad: object) -> None:
    schema = schema_of(source)
    assert belongs(schema, good)
    assert not belongs(schema, bad)


def test_booleans_are_schemas() -> None:
    assert schema_of(True).is_any
    assert "false allows no value" in str(fault(False))


@pytest.mark.parametrize("source", [None, 1, 1.5, [], "[]", "1", "null", '"a"', object(), b"\xff"])
def test_what_is_no_schema(source: object) -> None:
    fault(source)


@pytest.mark.parametrize(
    "text", ["", "{", '{"a":}', '{"const": NaN}', '{"const": 01}', "{} {}", "{'a': 1}"]
)
def test_text_that_is_no_json(text: str) -> None:
    assert "JSON" in fault(text).message


# Depth


def test_deep_text_is_read_without_recursion() -> None:
    deep = Limits(nesting=10**6)
    levels = 10_000
    text = '{"items":' * levels + '{"a": [1, 2.5, "\\u00e9", null, true, {}, []]}' + "}" * levels
    contents = load(text, deep).contents
    for _ in range(levels):
        contents = contents["items"]
    assert contents == {"a": [1, decimal.Decimal("2.5"), "é", None, True, {}, []]}
    with pytest.raises(LimitError, match="nesting"):
        load(text)


@pytest.mark.parametrize(
    "inside",
    [
        "[1,]",
        "[,1]",
        '{"a"}',
        '{"a":1,}',
        '{"a" 1}',
        "[1 2]",
        "]",
        "{]",
        "nul",
        "{1:2}",
        '"a',
        "1 1",
    ],
)
def test_deep_text_that_is_no_json(inside: str) -> None:
    with pytest.raises(SchemaError, match="no JSON"):
        load("[" * 200 + inside + "]" * 200)


@pytest.mark.parametrize("end", ['{"type": "string"}', "{}"])
@pytest.mark.parametrize(
    "level",
    [
        '{"items":',
        '{"type":"object","required":["a"],"properties":{"a":',
        '{"minLength":1,"allOf":[',
        '{"minLength":1,"anyOf":[',
        '{"minLength":1,"oneOf":[',
        '{"not":',
        '{"if":{"minLength":3},"then":',
    ],
)
def test_deep_schemas_end_in_a_result(level: str, end: str) -> None:
    closing = "".join({"{": "}", "[": "]"}[c] for c in reversed(level) if c in "{[" and c != "")
    if level.startswith('{"type"'):
        closing = "}}"
    elif level.startswith('{"if"'):
        closing = "}"
    document = load(level * 5_000 + end + closing * 5_000, Limits(nesting=10**6))
    build(document, Options(), Report())[1].groups  # noqa: B018


def test_a_shallow_stack_is_enough() -> None:
    """With 350 frames to spare, as in an application that is deep in calls itself."""
    schema: dict[str, Any] = {"type": "string"}
    for level in range(60):
        left = {"properties": {"a": schema}, "required": ["a"]}
        right = {"properties": {"b": schema, "c": {"const": level}}, "required": ["b"]}
        schema = {"type": "object", "oneOf": [left, right], "not": {"required": ["d"]}}
        if level % 4 == 0:
            schema = {"anyOf": [schema, {"not": {"allOf": [schema]}, "type": "array"}]}
    depth = len(inspect.stack())
    old = sys.getrecursionlimit()
    sys.setrecursionlimit(depth + 350)
    try:
        found = schema_of(schema)
        assert found.groups
    finally:
        sys.setrecursionlimit(old)


def test_long_chains_of_references() -> None:
    count = 5_000
    chain: dict[str, Any] = {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(count)}
    chain[f"d{count}"] = {"type": "string"}
    assert belongs(schema_of({"$defs": chain, "$ref": "#/$defs/d0"}), "a")
    cycle = {f"d{i}": {"$ref": f"#/$defs/d{(i + 1) % count}"} for i in range(count)}
    assert "without end" in str(fault({"$defs": cycle, "$ref": "#/$defs/d0"}))
    required: dict[str, Any] = {
        f"d{i}": {
            "type": "object",
            "properties": {"a": {"$ref": f"#/$defs/d{(i + 1) % count}"}},
            "required": ["a"],
        }
        for i in range(count)
    }
    fault({"$defs": required, "$ref": "#/$defs/d0"})
    required["d7"]["required"] = []
    assert belongs(schema_of({"$defs": required, "$ref": "#/$defs/d7"}), {})


def test_a_dict_that_holds_itself() -> None:
    cycle: dict[str, Any] = {"type": "object", "required": ["n"], "properties": {"n": {}}}
    cycle["properties"]["a"] = cycle
    schema = schema_of(cycle)
    assert belongs(schema, {"n": 1, "a": {"n": 2}})
    assert not belongs(schema, {"n": 1, "a": {"a": {}}})
    value: list[Any] = []
    value.append(value)
    assert fault({"const": value}).keyword == "const"


def test_large_schemas() -> None:
    properties = {f"p{i}": {"type": "integer", "minimum": i} for i in range(20_000)}
    schema = schema_of(json.dumps({"type": "object", "properties": properties}))
    assert belongs(schema, {"p19999": 19_999})
    assert not belongs(schema, {"p19999": 19_998})
    with pytest.raises(LimitError, match="schema_bytes"):
        load('{"title": "' + "a" * 9_000_000 + '"}')


# Numbers


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (1, 1),
        (True, None),
        (None, None),
        ("1", None),
        (0.1, Fraction(1, 10)),
        (1e22, 10**22),
        (float("nan"), None),
        (float("inf"), None),
        (decimal.Decimal("1.50"), Fraction(3, 2)),
        (decimal.Decimal("-1e3"), -1000),
        (decimal.Decimal("0e99999"), 0),
        (2**70, 2**70),
    ],
)
def test_numbers_are_exact(value: object, number: int | Fraction | None) -> None:
    assert number_of(value) == number


def test_numbers_in_text_keep_every_digit() -> None:
    digits = "0.1000000000000000000000000000000000001"
    (group,) = schema_of(f'{{"const": {digits}}}').groups
    assert isinstance(group, NumberGroup)
    assert group.numbers.values == {Fraction(digits)}
    assert belongs(schema_of('{"const": 1.0}'), 1)
    assert belongs(schema_of('{"minLength": 2.0, "type": "string"}'), "ab")


@pytest.mark.parametrize("number", ["1e999999999", "1" + "0" * 5_000, "1e-5000", "-1e4001"])
@pytest.mark.parametrize("keyword", ["const", "minimum", "multipleOf"])
def test_numbers_out_of_reach(number: str, keyword: str) -> None:
    fault(f'{{"{keyword}": {number}}}')


# References

TREE = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.mark.parametrize(
    ("pointer", "definitions"),
    [
        ("#/$defs/a~1b", {"a/b": TREE}),
        ("#/$defs/a~0b", {"a~b": TREE}),
        ("#/$defs/a%25b", {"a%b": TREE}),
        ("#/$defs/a%20b", {"a b": TREE}),
        ("#/$defs/~01", {"~1": TREE}),
        ("#/$defs//x", {"": {"x": TREE}}),
        ("#/$defs/list/1", {"list": [1, TREE]}),
        ("#/$defs/a/b/c", {"a": {"b": {"c": TREE}}}),
        ("#here", {"a": {"$anchor": "here", **TREE}}),
        ("http://example.com/a", {"a": {"$id": "http://example.com/a", **TREE}}),
    ],
)
def test_references(pointer: str, definitions: dict[str, Any]) -> None:
    schema = schema_of({"$ref": pointer, "$defs": definitions})
    assert belongs(schema, {"n": 1})
    assert not belongs(schema, {"n": "a"})


@pytest.mark.parametrize(
    "pointer",
    "#/$defs/b #/$defs/list/2 #/$defs/list/01 #/$defs/list/x #/$defs/list/-1 #no #/$defs/list/1/2 "
    "http://example.com/x file:///etc/passwd x.json#/a urn:a:b".split(),
)
def test_references_that_lead_nowhere(pointer: str) -> None:
    error = fault({"properties": {"p": {"$ref": pointer}}, "$defs": {"list": [1, 2]}})
    assert error.keyword == "$ref"
    assert error.pointer.endswith("/properties/p")


def test_siblings_of_a_reference() -> None:
    siblings = {"$ref": "#/$defs/d", "minLength": 2, "$defs": {"d": {"type": "string"}}}
    assert not belongs(schema_of(siblings), "a")
    for draft, ignored in (("07", True), ("06", True), ("04", True)):
        older = {"$schema": f"http://json-schema.org/draft-{draft}/schema#", **siblings}
        assert belongs(schema_of(older), "a") is ignored
    newer = {"$schema": "https://json-schema.org/draft/2019-09/schema", **siblings}
    assert not belongs(schema_of(newer), "a")


def test_documents_of_the_caller() -> None:
    resources = {
        "http://example.com/b": {"$defs": {"c": {"type": "integer"}}, "items": {"$ref": "c"}},
        "http://example.com/c": '{"$ref": "b#/$defs/c"}',
    }
    schema = schema_of({"$ref": "http://example.com/b"}, resources=resources)
    assert belongs(schema, [1])
    assert not belongs(schema, ["a"])
    assert "resources" in fault({"$ref": "http://example.com/b"}).remedy


def test_metaschemas_are_known() -> None:
    schema = schema_of({"$ref": "http://json-schema.org/draft-07/schema#"})
    assert belongs(schema, {"type": "string"})
    assert not belongs(schema, {"type": "strings"})


def test_dynamic_references_are_told_apart_by_scope() -> None:
    base = {
        "$id": "http://example.com/tree",
        "$dynamicAnchor": "node",
        "type": "object",
        "properties": {"data": True, "children": {"items": {"$dynamicRef": "#node"}}},
    }
    strict = {
        "$id": "http://example.com/strict",
        "$dynamicAnchor": "node",
        "$ref": "tree",
        "unevaluatedProperties": False,
    }
    both = {
        "properties": {"free": {"$ref": "http://example.com/tree"}, "strict": {"$ref": "strict"}},
        "$id": "http://example.com/root",
        "$defs": {"a": base, "b": strict},
    }
    schema = schema_of(both)
    odd = {"children": [{"daat": 1}]}
    assert belongs(schema, {"free": odd})
    assert not belongs(schema, {"strict": odd})
    assert belongs(schema, {"strict": {"children": [{"data": 1}]}})


def test_a_nested_resource_has_its_own_dialect() -> None:
    nested_schema = {
        "$id": "http://example.com/old",
        "$schema": "http://json-schema.org/draft-07/schema#",
        "items": [{"type": "integer"}],
        "additionalItems": False,
    }
    schema = schema_of(
        {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "properties": {"a": nested_schema, "b": {"prefixItems": [{"type": "integer"}]}},
        }
    )
    assert belongs(schema, {"a": [1], "b": [1, 2]})
    assert not belongs(schema, {"a": [1, 2]})
    assert not belongs(schema, {"b": ["a"]})


def test_nothing_heavy_is_imported_for_plain_schemas() -> None:
    code = (
        "import sys, types; from llgx.json_schema.keywords import build;"
        "from llgx.json_schema.loading import load; from llgx.json_schema.report import Report;"
        "o = types.SimpleNamespace(resources={}, strict_formats=False,"
        " ignored_formats=(), one_is_any=False);"
        "s = {'$ref': '#/$defs/a', '$defs': {'a': {'not': {'type': 'null'}}}};"
        "build(load(s), o, Report());"
        "print(*{'jsonschema', 'referencing', 'pydantic', 'interegular'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


# Dialects


@pytest.mark.parametrize(
    ("draft", "schema", "value", "valid"),
    [
        ("http://json-schema.org/draft-04/schema#", {"const": 1}, 2, True),
        ("http://json-schema.org/draft-06/schema#", {"const": 1}, 2, False),
        ("http://json-schema.org/draft-06/schema#", {"if": True, "then": False}, 2, True),
        (
            "http://json-schema.org/draft-07/schema",
            {"dependentRequired": {"a": ["b"]}},
            {"a": 1},
            True,
        ),
        (
            "https://json-schema.org/draft-07/schema#",
            {"dependencies": {"a": ["b"]}},
            {"a": 1},
            False,
        ),
        ("https://json-schema.org/draft/2019-09/schema#", {"prefixItems": [False]}, [1], True),
        ("https://json-schema.org/draft/2020-12/schema", {"prefixItems": [False]}, [1], False),
        (
            "http://json-schema.org/draft-04/schema#",
            {"minimum": 1, "exclusiveMinimum": True},
            1,
            False,
        ),
        ("http://json-schema.org/draft-04/schema#", {"minimum": 1}, 1, True),
        ("http://json-schema.org/draft-07/schema#", {"exclusiveMinimum": 1}, 1, False),
    ],
)
def test_keywords_by_draft(draft: str, schema: dict[str, Any], value: Any, valid: bool) -> None:
    assert belongs(schema_of({"$schema": draft, **schema}), value) is valid


def test_without_a_draft_older_keywords_keep_their_meaning() -> None:
    assert not belongs(schema_of({"items": [{"type": "integer"}]}), ["a"])
    assert not belongs(schema_of({"items": [True], "additionalItems": False}), [1, 2])
    assert not belongs(schema_of({"dependencies": {"a": {"required": ["b"]}}}), {"a": 1})
    assert not belongs(schema_of({"maximum": 2, "exclusiveMaximum": True}), 2)


# Faults


@pytest.mark.parametrize(
    ("schema", "pointer", "keyword"),
    [
        ({"type": "foo"}, "", "type"),
        ({"type": ["string", 1]}, "", "type"),
        ({"properties": {"a/b": {"minLength": -1}}}, "/properties/a~1b", "minLength"),
        ({"items": {"maxItems": 1.5}}, "/items", "maxItems"),
        ({"allOf": []}, "", "allOf"),
        ({"anyOf": {}}, "", "anyOf"),
        ({"allOf": [True, {"required": "a"}]}, "/allOf/1", "required"),
        ({"required": [1]}, "", "required"),
        ({"multipleOf": 0}, "", "multipleOf"),
        ({"minimum": "1"}, "", "minimum"),
        ({"uniqueItems": 1}, "", "uniqueItems"),
        ({"enum": 1}, "", "enum"),
        ({"not": 1}, "/not", ""),
        ({"properties": []}, "", "properties"),
        ({"pattern": 1}, "", "pattern"),
        ({"format": 1}, "", "format"),
        ({"$ref": 1}, "", "$ref"),
        ({"dependentRequired": {"a": 1}}, "", "dependentRequired"),
        ({"prefixItems": True}, "", "prefixItems"),
        ({"pattern": "("}, "", "pattern"),
        (
            {"properties": {"a": {"patternProperties": {"[": {}}}}},
            "/properties/a",
            "patternProperties",
        ),
    ],
)
def test_malformed_schemas_name_the_place(
    schema: dict[str, Any], pointer: str, keyword: str
) -> None:
    error = fault(schema)
    assert (error.pointer, error.keyword) == (pointer, keyword)
    assert str(error).startswith(f"{pointer or '/'}")


def test_the_metaschema_explains() -> None:
    assert fault({"items": {"minLength": -1}}).message == "-1 is less than the minimum of 0"


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "string", "minLength": 3, "maxLength": 2}, ["minLength 3", "maxLength 2"]),
        ({"type": "integer", "minimum": 3, "maximum": 2}, ["at least 3 and at most 2"]),
        ({"type": "array", "minItems": 3, "maxItems": 2}, ["minItems 3"]),
        ({"type": "string", "enum": [1]}, ["'type' and 'enum'"]),
        ({"allOf": [{"type": "string"}, {"type": "null"}]}, ["allOf/0", "allOf/1"]),
        (
            {"type": "object", "required": ["a"], "properties": {"a": {"enum": []}}},
            ["required property 'a'", "no value that it allows"],
        ),
        (
            {
                "type": "object",
                "allOf": [
                    {"required": ["k"], "properties": {"k": {"const": 1}}},
                    {"properties": {"k": {"const": 2}}},
                ],
            },
            ["/allOf/0", "/allOf/1", "'k'"],
        ),
        (
            {
                "type": "object",
                "allOf": [
                    {"required": ["k"]},
                    {"properties": {"j": True}, "additionalProperties": False},
                ],
            },
            ["requires the property 'k'", "forbids"],
        ),
        (
            {"type": "array", "items": {"enum": [1]}, "uniqueItems": True, "minItems": 2},
            ["different"],
        ),
        ({"type": "array", "items": {"enum": []}, "minItems": 2}, ["no value that it allows"]),
        ({"oneOf": [{"type": "integer"}, {"multipleOf": 1, "type": "number"}]}, ["oneOf"]),
        ({"not": {}}, ["'not'"]),
        (
            {"type": "object", "additionalProperties": False, "minProperties": 1},
            ["more properties"],
        ),
    ],
)
def test_unsatisfiable_schemas_name_the_conflict(schema: dict[str, Any], words: list[str]) -> None:
    message = str(fault(schema))
    assert "no value satisfies" in message
    for word in words:
        assert word in message


def test_what_is_unsatisfiable_below_an_option_is_left_out() -> None:
    schema = schema_of(
        {
            "type": "object",
            "properties": {"a": {"type": "string", "minLength": 2, "maxLength": 1}, "b": {}},
            "additionalProperties": False,
        }
    )
    (group,) = schema.groups
    assert isinstance(group, ObjectGroup)
    assert [member.name for member in group.members] == ["b"]


def test_the_budget_is_a_count() -> None:
    hard = {
        "allOf": [{"anyOf": [{"required": [f"a{i}"]}, {"required": [f"b{i}"]}]} for i in range(30)]
    }
    with pytest.raises(LimitError, match="schema_steps"):
        build(load(hard), Options(), Report(), Limits(schema_steps=20_000))


# Formats and reports


def test_unknown_formats_are_noted() -> None:
    report = Report()
    build(load({"items": {"format": "colour"}}), Options(), report)
    ((pointer, keyword, reason),) = report.entries
    assert (pointer, keyword) == ("/items", "format")
    assert "'colour'" in reason
    assert fault({"format": "colour"}, strict_formats=True).keyword == "format"


def test_what_is_not_enforced_is_recorded_or_refused() -> None:
    schema = {"properties": {"a": {"pattern": r"(a)\1", "maxLength": 2}}}
    error = fault(schema)
    assert (error.pointer, error.keyword) == ("/properties/a", "pattern")
    assert "record" in error.remedy
    report = Report(records=True)
    _, found = build(load(schema), Options(), report)
    assert [entry[:2] for entry in report.entries] == [("/properties/a", "pattern")]
    assert belongs(found, {"a": "bb"})
    assert not belongs(found, {"a": "bbb"})


@pytest.mark.parametrize(
    "schema",
    [
        {"not": {"pattern": r"(a)\1"}},
        {"not": {"$ref": "#/$defs/p"}},
        {"items": {"not": {"$ref": "#/$defs/p"}}, "properties": {"a": {"$ref": "#/$defs/p"}}},
        {"oneOf": [{"pattern": r"(a)\1"}, {"type": "string"}]},
        {"if": {"pattern": r"(a)\1"}, "then": {"minLength": 2}, "else": {"maxLength": 0}},
    ],
    ids=str,
)
def test_what_is_not_enforced_never_excludes(schema: dict[str, Any]) -> None:
    definitions = {"p": {"pattern": r"(a)\1"}}
    report = Report(records=True)
    _, found = build(load({**schema, "$defs": definitions}), Options(), report)
    assert report.entries
    for value in ("", "bb", ["b"], {"a": "b"}):
        assert belongs(found, value)
