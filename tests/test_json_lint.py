"""``lint_schema``: each keyword once, with what becomes of it."""

from __future__ import annotations

import random
from typing import Any

import pytest

import llgx
from llgx.json_schema.compile import compile_schema
from tests.json_schemas import random_schema


def _statuses(schema: object, **options: Any) -> dict[str, str]:
    found = llgx.lint_schema(schema, **options)
    assert len({lint.pointer for lint in found}) == len(found)
    assert all((lint.status == "enforced") == (lint.reason == "") for lint in found)
    return {lint.pointer: lint.status for lint in found}


def _reason(schema: object, pointer: str, **options: Any) -> str:
    (reason,) = [
        lint.reason for lint in llgx.lint_schema(schema, **options) if lint.pointer == pointer
    ]
    return reason


def test_each_keyword_has_its_pointer_in_document_order() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "an order",
        "type": "object",
        "properties": {"a/b": {"enum": ["x"]}, "c~": {"items": {"minimum": 1}}},
        "allOf": [{"required": ["c~"]}, True],
    }
    found = llgx.lint_schema(schema)
    assert [(lint.pointer, lint.keyword, lint.status) for lint in found] == [
        ("/title", "title", "ignored"),
        ("/type", "type", "enforced"),
        ("/properties", "properties", "enforced"),
        ("/allOf", "allOf", "enforced"),
        ("/properties/a~1b/enum", "enum", "enforced"),
        ("/properties/c~0/items", "items", "enforced"),
        ("/properties/c~0/items/minimum", "minimum", "enforced"),
        ("/allOf/0/required", "required", "enforced"),
    ]


def test_names_that_look_like_keywords_are_none() -> None:
    schema = {"properties": {"minimum": {"type": "integer"}}, "enum": [{"pattern": "("}]}
    assert set(_statuses(schema)) == {"/properties", "/enum", "/properties/minimum/type"}


def test_unknown_keywords_are_ignored() -> None:
    assert _statuses({"minLenght": 3}) == {"/minLenght": "ignored"}
    assert "unknown" in _reason({"minLenght": 3}, "/minLenght")


@pytest.mark.parametrize(
    ("keyword", "value", "beside"),
    [
        ("then", {"type": "null"}, {}),
        ("else", {"type": "null"}, {}),
        ("minContains", 2, {}),
        ("maxContains", 2, {}),
        ("additionalItems", {"type": "null"}, {}),
        ("additionalItems", {"type": "null"}, {"items": {"type": "string"}}),
    ],
)
def test_keywords_that_say_nothing_alone(
    keyword: str, value: object, beside: dict[str, Any]
) -> None:
    schema = {"$schema": "https://json-schema.org/draft/2019-09/schema", **beside, keyword: value}
    assert _statuses(schema)[f"/{keyword}"] == "ignored"


def test_keywords_of_another_draft() -> None:
    old = "http://json-schema.org/draft-07/schema#"
    assert _statuses({"$schema": old, "prefixItems": [True]}) == {"/prefixItems": "ignored"}
    assert _statuses({"prefixItems": [True]}) == {"/prefixItems": "enforced"}
    beside = {
        "$schema": old,
        "$ref": "#/definitions/a",
        "type": "string",
        "definitions": {"a": True},
    }
    assert _statuses(beside) == {"/$ref": "enforced", "/type": "ignored"}
    assert "beside $ref" in _reason(beside, "/type")


def test_definitions_that_nothing_refers_to() -> None:
    schema = {
        "$ref": "#/$defs/a",
        "$defs": {
            "a": {"items": {"$ref": "#/$defs/c/properties/x"}},
            "b": {"$ref": "#/$defs/d"},
            "c": {"properties": {"x": {"type": "null"}}},
            "d": {"type": "null"},
        },
    }
    statuses = _statuses(schema)
    assert {pointer for pointer, status in statuses.items() if status == "ignored"} == {
        "/$defs/b/$ref",
        "/$defs/d/type",
    }


def test_formats() -> None:
    assert _statuses({"format": "email"}) == {"/format": "enforced"}
    assert _statuses({"format": "colour"}) == {"/format": "ignored"}
    with pytest.raises(llgx.SchemaError):
        llgx.lint_schema({"format": "colour"}, strict_formats=True, on_unsupported="error")


def test_what_the_compiler_records_is_ignored() -> None:
    schema = {"properties": {"a": {"not": {"uniqueItems": True}, "type": "array"}}}
    with pytest.raises(llgx.SchemaError) as raised:
        llgx.Grammar.from_json_schema(schema)
    ignored = [lint for lint in llgx.lint_schema(schema) if lint.status == "ignored"]
    assert [lint.keyword for lint in ignored] == [raised.value.keyword]
    assert ignored[0].reason in str(raised.value)


def test_one_of_that_is_coerced_is_approximated() -> None:
    schema = {"oneOf": [{"minimum": 1}, {"maximum": 5}]}
    assert _statuses(schema)["/oneOf"] == "enforced"
    assert _statuses(schema, coerce_one_of=True)["/oneOf"] == "approximated"
    guided = {**schema, "x-guidance": {"coerce_one_of": True}}
    assert _statuses(guided)["/oneOf"] == "approximated"


def test_booleans_have_no_keywords() -> None:
    assert llgx.lint_schema(True) == []
    assert llgx.lint_schema('{"type": "string"}')[0].pointer == "/type"


@pytest.mark.parametrize("schema", [False, {"type": "strin"}, {"minimum": "a"}, 5, "{"])
def test_schemas_that_cannot_be_used_are_errors(schema: object) -> None:
    with pytest.raises(llgx.SchemaError):
        llgx.lint_schema(schema)


def test_options_are_checked() -> None:
    with pytest.raises(TypeError):
        llgx.lint_schema({}, colour="red")


def test_random_schemas_have_every_keyword_listed() -> None:
    listed = 0
    for seed in range(150):
        _, schema = random_schema(random.Random(seed))
        try:
            found = llgx.lint_schema(schema)
        except llgx.LlgxError:
            continue
        if isinstance(schema, dict):
            expected = [key for key in schema if key not in ("$schema", "$defs", "definitions")]
            assert [lint.keyword for lint in found[: len(expected)]] == expected
            listed += len(found)
    assert listed > 500


@pytest.mark.parametrize(
    ("schema", "pointer", "meant"),
    [
        ({"items": {"minLenght": 2}}, "/items/minLenght", "minLength"),
        ({"properties": {"a": {"maxlength": 2}}}, "/properties/a/maxlength", "maxLength"),
        ({"requird": ["a"]}, "/requird", "required"),
        ({"allOf": [{"additional_properties": False}]}, "/allOf/0/additional_properties", "addit"),
        ({"$schema": "http://json-schema.org/draft-04/schema#", "const": 1}, "/const", "draft4"),
    ],
)
def test_compiling_warns_of_likely_typing_errors(
    schema: dict[str, object], pointer: str, meant: str
) -> None:
    (warning,) = compile_schema(schema).warnings
    assert warning.startswith(f"{pointer}: ")
    assert meant in warning


@pytest.mark.parametrize(
    "schema",
    [
        {"x-order": 1, "name": "a", "title": "b", "javaType": "c", "version": "1", "example": 1},
        {"_format": "email", "_uniqueItems": True, "$required": 1, "x-format": "date"},
        {"properties": {"requird": {}, "minLenght": {}}, "enum": [{"requird": 1}]},
        {"then": {}, "else": {}, "$defs": {}, "default": {"tipe": 1}},
    ],
)
def test_other_unknown_keywords_are_no_typing_errors(schema: dict[str, object]) -> None:
    assert not compile_schema(schema).warnings


def test_one_warning_for_each_place() -> None:
    (warning,) = compile_schema({"type": "array", "uniqueItems": True}).warnings
    assert "one member that is not named" in warning
