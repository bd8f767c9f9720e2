"""The order of members: that of llguidance, by default.

Names of ``properties`` come in the order of the text, applicators taken where they stand; then the
names that are only required; then all others. (To let each ``properties`` keep its own order where
several share names was tried: of the MaskBench cases four more pass then, and four others fail.)
"""

from __future__ import annotations

import functools
import itertools
import json
import random
import time
from typing import Any

import jsonschema
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
    accepted: dict[str, set[str]] = {"schema": set(), "named": set(), "any": set()}
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
    assert accepted["named"] == accepted["any"]


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"required": ["a"]},
        {"required": ["a", "c"], "patternProperties": {"^[xy]$": {}}},
        {"required": ["a"], "minProperties": 3, "maxProperties": 4},
        {"required": ["x"]},
        {"minProperties": 3, "patternProperties": {"^[xy]$": {}}, "additionalProperties": False},
        {
            "patternProperties": {"^[ax]$": {}},
            "not": {"patternProperties": {"^[ax]$": {"const": 2}}},
        },
    ],
    ids=json.dumps,
)
def test_named_members_in_any_order_and_then_the_others(
    more: dict[str, Any], indent: int | None
) -> None:
    schema = {"type": "object", "properties": {"a": {}, "b": {}, "c": {}}, **more}
    grammar = llgx.Grammar.from_json_schema(schema, property_order="named", indent=indent)
    compiled = grammar.compile(vocabulary())
    oracle = jsonschema.Draft202012Validator(schema)
    named = {"a", "b", "c", *more.get("required", ())}
    names = [chosen for count in range(6) for chosen in itertools.permutations("abcxy", count)]
    for chosen in names:
        document = dict.fromkeys(chosen, 1)
        are_named = [name in named for name in chosen]
        expected = oracle.is_valid(document) and are_named == sorted(are_named, reverse=True)
        text = json.dumps(document, indent=indent).encode()
        assert (llgx.Matcher(compiled).match_bytes(text) == (len(text), True)) == expected, text


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("is_open", [True, False])
@pytest.mark.parametrize(
    ("count", "needed"),
    [(3, 1), (47, 9), (48, 48), (63, 0), (64, 3), (65, 0), (65, 65), (90, 70), (130, 1)],
)
def test_more_keys_than_bits_come_in_any_order(
    count: int, needed: int, is_open: bool, indent: int | None
) -> None:
    """Keys beyond the bits of a parameter are kept apart by distinct lexemes."""
    names = [f"k{number}" for number in range(count)]
    rng = random.Random(count)
    rng.shuffle(names)
    required = names[:needed]
    schema = {
        "type": "object",
        "properties": {key: {"type": "boolean"} for key in names},
        "required": required,
        "additionalProperties": is_open,
    }
    grammar = llgx.Grammar.from_json_schema(schema, property_order="any", indent=indent)
    compiled = grammar.compile(vocabulary())

    def accepted(*keys: str) -> bool:
        pairs = (f'"{key}": true' for key in keys)
        text = "{" + ", ".join(pairs) + "}"
        if indent is not None:
            text = json.dumps(json.loads(text), indent=indent)
        data = text.encode()
        return llgx.Matcher(compiled).match_bytes(data) == (len(data), True)

    for _ in range(4):
        kept = [name for name in names if name in required or rng.random() < 0.7]
        rng.shuffle(kept)
        assert accepted(*kept)
        shuffled = rng.sample(names, count)
        assert accepted(*shuffled)
        assert accepted("other", *shuffled, "another") == is_open
        if indent is None and kept:
            assert not accepted(*kept, rng.choice(kept))
        if required:
            missing = rng.choice(required)
            assert not accepted(*(name for name in kept if name != missing))
    matcher = llgx.Matcher(compiled)
    text = json.dumps(dict.fromkeys(names, True), indent=indent)
    for byte in text[:-1].rstrip().encode():
        assert matcher.try_consume([byte]) == 1
    assert (ord(",") in matcher.allowed_tokens()) == is_open


def test_keys_beside_a_pattern_are_walked_once(llama3: llgx.Vocabulary) -> None:
    """A key out of a pattern, beside names and in the middle: its state and that of any key part
    nearly everywhere. Walking both took 20 seconds a mask, each node sorting what all others had
    noted; the masks are those of states that have no twin."""
    schema = {
        "properties": {"id": {"type": "string"}, "createdAt": {"type": "string"}},
        "patternProperties": {"^[0-9a-zA-Z_-]{1,255}$": {"type": ["string", "number"]}},
    }
    grammar = llgx.Grammar.from_json_schema(schema)
    plain = llgx.Shortcuts(twin_masks=False, shared_plans=False)
    first = llgx.Matcher(grammar.compile(llama3))
    second = llgx.Matcher(grammar.compile(llama3, shortcuts=plain))
    spent = 0.0
    for token in llama3.tokenize(b'{"id": "a", "key1": "b", "key2": 3, "-k": 4}'):
        begin = time.process_time()
        allowed = first.allowed_tokens()
        spent += time.process_time() - begin
        assert allowed == second.allowed_tokens()
        first.consume(token)
        second.consume(token)
    assert spent < 5
