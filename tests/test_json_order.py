"""The order of members: that of llguidance, by default.

Names of ``properties`` come in the order of the text, applicators taken where they stand; then the
names that are only required; then all others.
"""

from __future__ import annotations

import functools
import itertools
import json
from typing import Any

import pytest

import llgx

ORDERS: list[tuple[dict[str, Any], str]] = [
    ({"properties": {"d": {}}, "required": ["t"]}, "dt"),
    ({"required": ["t", "d"], "properties": {"d": {}}}, "dt"),
    ({"anyOf": [{"required": ["t"]}], "properties": {"d": {}}}, "dt"),
    ({"properties": {"d": {}}, "anyOf": [{"required": ["t"]}]}, "dt"),
    ({"oneOf": [{"properties": {"t": {}}}], "properties": {"d": {}}}, "td"),
    ({"type": "object", "oneOf": [{"properties": {"t": {}}}], "properties": {"d": {}}}, "td"),
    ({"type": "object", "allOf": [{"properties": {"t": {}}}], "properties": {"d": {}}}, "td"),
    ({"properties": {"d": {}}, "oneOf": [{"properties": {"t": {}}}]}, "dt"),
    (
        {
            "oneOf": [{"$ref": "#/$defs/a"}],
            "required": ["t"],
            "$defs": {"a": {"required": ["d"]}},
        },
        "dt",
    ),
    ({"allOf": [{"required": ["y"]}, {"properties": {"u": {}}}]}, "uy"),
    ({"allOf": [{"required": ["y"]}, {"properties": {"u": {}, "y": {}}}]}, "uy"),
    (
        {
            "properties": {"e": {}},
            "allOf": [{"properties": {"t": {}}}, {"properties": {"u": {}}}],
        },
        "etu",
    ),
    (
        {
            "allOf": [
                {"required": ["y"], "properties": {"z": {}}},
                {"properties": {"u": {}, "y": {}}, "required": ["w"]},
            ]
        },
        "zuyw",
    ),
    (
        {
            "allOf": [
                {"required": ["y"], "properties": {"z": {}}},
                {"properties": {"u": {}}, "required": ["w"]},
            ]
        },
        "zuyw",
    ),
    (
        {
            "$ref": "#/$defs/a",
            "properties": {"u": {}, "y": {}},
            "$defs": {"a": {"properties": {"y": {}, "z": {}}}},
        },
        "yzu",
    ),
]


@functools.cache
def vocabulary() -> llgx.Vocabulary:
    tokens = [bytes([byte]) for byte in range(256)]
    return llgx.Vocabulary.from_tokens([*tokens, b"<|end|>"], eog=256)


@pytest.mark.parametrize(("schema", "order"), ORDERS, ids=[json.dumps(s) for s, _ in ORDERS])
def test_members_come_in_this_order_only(schema: dict[str, Any], order: str) -> None:
    accepted: dict[str, set[str]] = {"schema": set(), "any": set()}
    for option, found in accepted.items():
        compiled = llgx.Grammar.from_json_schema(schema, property_order=option).compile(
            vocabulary()
        )
        for names in itertools.permutations(order):
            text = json.dumps(dict.fromkeys(names, 1)).encode()
            if llgx.Matcher(compiled).match_bytes(text) == (len(text), True):
                found.add("".join(names))
    assert accepted["schema"] == {order}
    assert len(accepted["any"]) == len(list(itertools.permutations(order)))
