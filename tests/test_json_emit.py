"""JSON Schema grammars against ``jsonschema``, document by document, and by random walks."""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

import llgx
from llgx import ir
from llgx.json_schema import compile_schema, embed
from llgx.json_schema.numbers import NumberSet
from llgx.json_schema.options import DEFAULT_OPTIONS
from llgx.json_schema.strings import StringSet
from llgx.json_schema.style import Style

BYTES = llgx.Vocabulary.from_tokens([*(bytes((byte,)) for byte in range(256)), b""], eog=256)
EOG = 256


def matcher_of(schema: object, **options: Any) -> llgx.Matcher:
    return llgx.Matcher(llgx.Grammar.from_json_schema(schema, **options).compile(BYTES))


def accepts(matcher: llgx.Matcher, text: str) -> bool:
    data = text.encode()
    return matcher.match_bytes(data) == (len(data), True)


def check_texts(schema: object, accepted: list[str], rejected: list[str]) -> None:
    matcher = matcher_of(schema)
    for text in accepted:
        assert accepts(matcher, text), text
    for text in rejected:
        assert not accepts(matcher, text), text


def object_documents() -> Iterator[Any]:
    rng = random.Random(3)
    values = [0, 1, "s", True, None, [], {"a": 1}]
    for size in range(5):
        for names in itertools.permutations(("a", "b", "c", "x1", "x2"), size):
            for _ in range(2):
                yield {name: rng.choice(values) for name in names}


def array_documents() -> Iterator[Any]:
    rng = random.Random(4)
    values = [0, 1, "s", True, {"b": 1, "a": [0]}, {"a": 1}]
    for size in range(5):
        for items in itertools.product(values, repeat=size):
            if size < 4 or rng.random() < 0.2:
                yield list(items)


OBJECTS = list(object_documents())
ARRAYS = list(array_documents())
ABC = {"a": {}, "b": {"type": "integer"}, "c": {}}

OBJECT_SCHEMAS: list[dict[str, Any]] = [
    {"properties": ABC},
    {"properties": ABC, "required": ["b"]},
    {"properties": ABC, "required": ["a", "c"]},
    {"properties": ABC, "required": ["a", "b", "c"], "additionalProperties": False},
    {"properties": ABC, "required": ["c"], "additionalProperties": False},
    {"properties": ABC, "required": ["x1"], "additionalProperties": {"type": "integer"}},
    {
        "properties": {"b": {}},
        "patternProperties": {"^x": {"type": "integer"}, "1$": {"minimum": 1}},
    },
    {"minProperties": 2},
    {"maxProperties": 2},
    {"maxProperties": 0},
    {"minProperties": 1, "maxProperties": 3, "properties": ABC, "required": ["b"]},
    {"minProperties": 2, "properties": ABC, "additionalProperties": False},
    {"maxProperties": 2, "properties": ABC, "additionalProperties": False, "required": ["c"]},
    {"maxProperties": 1, "properties": ABC, "required": ["c"]},
    {"not": {"properties": {"a": {"type": "integer"}}}},
    {"not": {"additionalProperties": {"type": "integer"}}},
    {
        "not": {"additionalProperties": {"type": "integer"}},
        "properties": {"a": {}, "b": {}},
        "maxProperties": 2,
    },
    {"not": {"patternProperties": {"^x": {"type": "integer"}}}},
    {
        "not": {"patternProperties": {"^x": {"type": "integer"}}},
        "allOf": [{"not": {"patternProperties": {"[ab]": {"type": "string"}}}}],
        "maxProperties": 2,
    },
    {"propertyNames": {"enum": ["a", "x1", "x2"]}},
    {"propertyNames": {"enum": ["a", "x1", "x2"]}, "minProperties": 2},
    {
        "properties": {"b": {}},
        "patternProperties": {"^(a|x1)$": {"type": "integer"}},
        "additionalProperties": False,
        "minProperties": 2,
    },
    {"dependentRequired": {"a": ["b"], "b": ["c"]}},
    {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
    {
        "if": {"properties": {"a": {"const": 1}}, "required": ["a"]},
        "then": {"required": ["b"]},
        "else": {"required": ["c"]},
    },
]

ARRAY_SCHEMAS: list[dict[str, Any]] = [
    {"items": {"type": "integer"}},
    {"minItems": 2, "maxItems": 3},
    {"maxItems": 0},
    {"minItems": 3},
    {"prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False},
    {"prefixItems": [{"type": "string"}, {"type": "integer"}], "items": {"type": "object"}},
    {"prefixItems": [{"type": "string"}, {"type": "integer"}], "minItems": 1, "maxItems": 1},
    {
        "prefixItems": [{"type": "string"}],
        "items": {"type": "integer"},
        "minItems": 2,
        "maxItems": 3,
    },
    {"contains": {"type": "integer"}},
    {"contains": {"type": "integer"}, "minContains": 2},
    {"contains": {"type": "integer"}, "minContains": 0, "maxContains": 1},
    {"contains": {"type": "integer"}, "minContains": 2, "maxContains": 2, "maxItems": 3},
    {
        "contains": {"const": 1},
        "prefixItems": [{"type": "string"}, {"type": "integer"}],
        "maxItems": 3,
    },
    {"allOf": [{"contains": {"const": 1}}, {"contains": {"const": "s"}}], "maxItems": 2},
    {"not": {"items": {"type": "integer"}}},
    {"not": {"prefixItems": [{"type": "integer"}, {"type": "string"}]}},
    {"items": {"enum": [0, 1, "s"]}, "uniqueItems": True},
    {"items": {"enum": [0, 1, "s"]}, "uniqueItems": True, "minItems": 2, "maxItems": 2},
    {"items": {"type": "boolean"}, "uniqueItems": True, "contains": {"const": True}},
    {"items": {"enum": [0, 1, "s"]}, "not": {"uniqueItems": True}},
    {"items": {"enum": [{"b": 1, "a": [0]}, {"a": 1}, 0]}, "uniqueItems": True},
]


@pytest.mark.parametrize("schema", OBJECT_SCHEMAS, ids=json.dumps)
def test_objects_in_any_order(schema: dict[str, Any]) -> None:
    schema = {"type": "object", **schema}
    matcher = matcher_of(schema, property_order="any")
    oracle = jsonschema.Draft202012Validator(schema)
    verdicts = {oracle.is_valid(document) for document in OBJECTS}
    assert verdicts == {True, False}
    for document in OBJECTS:
        assert accepts(matcher, json.dumps(document)) == oracle.is_valid(document), document


@pytest.mark.parametrize("schema", OBJECT_SCHEMAS, ids=json.dumps)
def test_objects_in_schema_order(schema: dict[str, Any]) -> None:
    schema = {"type": "object", **schema}
    named = [*schema.get("properties", {})]
    named += [name for name in schema.get("required", ()) if name not in named]
    # Which keys count as named is plain here; `not` and `if` add theirs in an order of their own.
    is_plain = not {"not", "if", "oneOf", "dependentRequired", "allOf"} & schema.keys()
    matcher = matcher_of(schema)
    oracle = jsonschema.Draft202012Validator(schema)
    reached = 0
    for document in OBJECTS:
        in_order = [name for name in named if name in document]
        is_ordered = list(document)[: len(in_order)] == in_order
        got = accepts(matcher, json.dumps(document))
        if not oracle.is_valid(document):
            assert not got, document
        elif is_plain:
            assert got == is_ordered, document
        reached += got
    assert reached


@pytest.mark.parametrize("schema", ARRAY_SCHEMAS, ids=json.dumps)
def test_arrays(schema: dict[str, Any]) -> None:
    schema = {"type": "array", **schema}
    matcher = matcher_of(schema)
    oracle = jsonschema.Draft202012Validator(schema)
    verdicts = {oracle.is_valid(document) for document in ARRAYS}
    assert verdicts == {True, False}
    for document in ARRAYS:
        assert accepts(matcher, json.dumps(document)) == oracle.is_valid(document), document


# Random walks


def walk(matcher: llgx.Matcher, rng: random.Random, most: int = 250) -> bytes | None:
    """A random text that ends, or None if it grew too long. Fails at a dead end."""
    matcher.reset()
    text = bytearray()
    while len(text) < most:
        allowed = matcher.allowed_tokens()
        assert allowed, bytes(text)
        if EOG in allowed and (len(allowed) == 1 or rng.random() < 0.7):
            return bytes(text)
        choices = [token for token in allowed if token != EOG]
        ends = [token for token in choices if token in b'}]"']
        plain = [token for token in choices if token in b'}]",:{[tfn-0123456789abcx']
        if ends and rng.random() < (0.25 if len(text) < most // 3 else 0.9):
            choices = ends
        elif plain and rng.random() < 0.95:
            choices = plain
        token = rng.choice(choices)
        matcher.consume(token)
        text.append(token)
    return None


@pytest.mark.parametrize("options", [{}, {"property_order": "any"}, {"indent": 2}], ids=repr)
@pytest.mark.parametrize(
    "schema",
    [{"type": "object", **schema} for schema in OBJECT_SCHEMAS]
    + [{"type": "array", **schema} for schema in ARRAY_SCHEMAS],
    ids=json.dumps,
)
def test_walks_end_in_valid_documents(schema: dict[str, Any], options: dict[str, Any]) -> None:
    matcher = matcher_of(schema, **options)
    oracle = jsonschema.Draft202012Validator(schema)
    rng = random.Random(json.dumps(schema))
    ended = 0
    for _ in range(12):
        text = walk(matcher, rng)
        if text is None:
            continue
        ended += 1
        document = json.loads(text, object_pairs_hook=_distinct_pairs)
        # Long digits are beyond the oracle's floats.
        if not re.search(rb"[0-9]{16}|[0-9][eE]", text):
            assert oracle.is_valid(document), text
        spells_as_python = not re.search(rb"-0|[0-9][eE.]|[0-9]{16}|\\\\", text)
        if "indent" in options and spells_as_python:
            assert text.decode() == json.dumps(document, indent=2, ensure_ascii=False)
    # Random keys rarely are those that have to come: other orders may not end in so few steps.
    assert ended or options


def _distinct_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len(dict(pairs)) == len(pairs), pairs
    return dict(pairs)


# Structure


def test_rules_grow_linearly_with_keys() -> None:
    def size(count: int) -> int:
        schema = {"type": "object", "properties": {f"k{i}": {"type": "null"} for i in range(count)}}
        grammar = compile_schema(schema)
        return sum(1 + len(p.symbols) for rule in grammar.rules for p in rule.productions)

    assert size(2_000) - size(1_000) <= 10 * 1_000
    assert size(2_000) - size(1_000) == pytest.approx(size(1_000) - size(10), rel=0.05)


@pytest.mark.parametrize("bound", [1_000, 1_000_000])
def test_array_bounds_are_not_expanded(bound: int) -> None:
    schema = {"type": "array", "items": {"type": "null"}, "minItems": bound - 7, "maxItems": bound}
    assert len(compile_schema(schema).rules) < 100


@pytest.mark.parametrize("low", [0, 1, 2, 5, 8, 13])
@pytest.mark.parametrize("extra", [0, 1, 2, 3, 6, 7, 8, 30])
def test_array_bounds(low: int, extra: int) -> None:
    schema = {"type": "array", "items": {"type": "null"}, "minItems": low, "maxItems": low + extra}
    matcher = matcher_of(schema)
    for count in range(low + extra + 3):
        expected = low <= count <= low + extra
        assert accepts(matcher, json.dumps([None] * count)) == expected, count


def test_scalars_of_one_schema_are_few_terminals() -> None:
    grammar = compile_schema({"enum": ["a", "b", 1, 2, None, True, False]})
    assert len(grammar.rules) == 1
    [production] = grammar.rules[grammar.start].productions
    assert len(production.symbols) == 1


def test_scalars_that_are_in_use_stay_spelled() -> None:
    """However many others there are: formats take milliseconds. Of the others the last are kept."""
    style = Style(DEFAULT_OPTIONS)
    used = StringSet.pattern("^[a-z]+$")
    first = style.string_of(used)
    others = [NumberSet.between(low, None, False, False) for low in range(2_000)]
    terminals = []
    for numbers in others:
        terminals.append(style.number_of(numbers))
        assert style.string_of(used) is first
    kept = [
        style.number_of(numbers) is terminal
        for numbers, terminal in zip(reversed(others), reversed(terminals), strict=True)
    ]
    assert all(kept[:500])
    assert not any(kept[1_100:])


def test_deep_recursion_takes_no_stack() -> None:
    schema: dict[str, Any] = {"type": "null"}
    for _ in range(400):
        schema = {"type": "array", "items": schema}
    matcher = matcher_of(schema)
    assert accepts(matcher, "[" * 400 + "null" + "]" * 400)
    assert not accepts(matcher, "[" * 399 + "null" + "]" * 399)


def test_no_space_around_a_document() -> None:
    matcher = matcher_of({"type": "object"})
    assert accepts(matcher, '{ "a" :\n1 , "b":[ ] }')
    assert not accepts(matcher, ' {"a":1}')
    assert not accepts(matcher, '{"a":1} ')


def test_counters_beyond_what_is_written_out() -> None:
    schema = {"type": "object", "minProperties": 900, "maxProperties": 1_000}
    matcher = matcher_of(schema)
    for count in (899, 900, 1_000, 1_001):
        document = {f"k{i}": None for i in range(count)}
        assert accepts(matcher, json.dumps(document)) == (900 <= count <= 1_000)


def test_many_keys_in_any_order() -> None:
    names = [f"k{i}" for i in range(30)]
    schema = {
        "type": "object",
        "properties": {name: {"type": "null"} for name in names},
        "required": names[::2],
        "additionalProperties": False,
    }
    matcher = matcher_of(schema, property_order="any")
    rng = random.Random(1)
    for _ in range(20):
        rng.shuffle(names)
        chosen = names[: rng.randrange(10, 31)]
        text = json.dumps(dict.fromkeys(chosen))
        assert accepts(matcher, text) == (set(schema["required"]) <= set(chosen))
        assert not accepts(matcher, f'{text[:-1]}, "{chosen[0]}": null}}')


def test_more_keys_in_any_order_than_bits() -> None:
    names = [f"k{i}" for i in range(100)]
    schema = {
        "type": "object",
        "properties": {name: {"type": "null"} for name in names},
        "required": names[:70],
        "additionalProperties": False,
    }
    matcher = matcher_of(schema, property_order="any")
    rng = random.Random(2)
    for count in (69, 70, 85, 100):
        chosen = names[:count]
        rng.shuffle(chosen)
        text = json.dumps(dict.fromkeys(chosen))
        assert accepts(matcher, text) == (count >= 70)
        assert not accepts(matcher, f'{text[:-1]}, "{chosen[0]}": null}}')
    # Once all keys are there, none may be begun.
    matcher.match_bytes(text.encode())
    for byte in text[:-1].encode():
        matcher.consume(byte)
    assert ord(",") not in matcher.allowed_tokens()


# Alternatives in one row: the lexer takes the longest lexeme of all of them


NAMED = {"type": "object", "properties": {"a": {"const": 1}, "b": {"const": 2}}, "required": ["a"]}
OTHER = {"type": "object", "additionalProperties": {"const": 3}}


@pytest.mark.parametrize(
    ("schema", "accepted", "rejected"),
    [
        ({"anyOf": [NAMED, OTHER]}, ['{"a":1}', '{"a" :3,"b":3}', '{"a":1, "b":2}'], ['{"a":2}']),
        (
            {"anyOf": [{**NAMED, "required": ["a", "b"]}, OTHER]},
            ['{"a":1,"b":2}', '{"a":3,"b":3}', '{"c":3, "a" : 3}'],
            ['{"a":1,"b":3}', '{"a":1}'],
        ),
        (
            {"anyOf": [{"type": "array", "items": NAMED}, {"type": "array", "items": OTHER}]},
            ['[{"a":1},{"a":1,"b":2}]', '[{"a":3},{"a":3}]'],
            ['[{"a":1},{"a":3}]'],
        ),
        (
            {"type": "array", "contains": NAMED, "items": {"anyOf": [NAMED, OTHER]}},
            ['[{"a":3},{"a":1}]', '[{"a":1},{"a":3,"b":3}]'],
            ['[{"a":3}]', "[]"],
        ),
    ],
    ids=repr,
)
def test_alternatives(schema: object, accepted: list[str], rejected: list[str]) -> None:
    check_texts(schema, accepted, rejected)


# Keys and items that are kept apart


@pytest.mark.parametrize(
    ("schema", "accepted", "rejected"),
    [
        (True, ['{"a":1,"b":{"a":1}}', '[{"a":1},{"a":1}]'], ['{"a":1,"a":2}', '[{"a":1,"a":1}]']),
        ({"properties": {"a": {}}}, ['{"a":1,"b":2,"c":2}'], ['{"a":1,"a":2}', '{"b":1,"b":2}']),
        (
            {"additionalProperties": False, "patternProperties": {"^x": {}}},
            ['{"x":1,"xa":2}'],
            ['{"x":1,"x":1}', '{"a":1}'],
        ),
        (
            {"type": "array", "uniqueItems": True, "items": {"type": "string"}},
            ["[]", '["a"]', '["a", "b"]', '["a" , "b","ab"]'],
            ['["a", "a"]', '["a","b", "a"]'],
        ),
        (
            {"type": "array", "uniqueItems": True, "items": {"type": "number"}},
            ["[1, 2.5]", "[1,10,100]"],
            ["[1,1]", "[1,1.0]", "[1,2,1]"],
        ),
        (
            {"type": "array", "uniqueItems": True, "items": {"properties": {"a": {}, "b": {}}}},
            ['[{"a":1},{"a":2}]', '[{"a":1,"b":2},{"b":2},1,"1",null]'],
            ['[{"a":1},{"a" : 1}]', '[{"a":[1]},{"a":[ 1]}]', "[{},{}]", "[1,1]"],
        ),
        (
            {"type": "array", "uniqueItems": True, "items": {"type": "array"}},
            ["[[1],[2]]", "[[1,1]]", "[[],[1],[1,1]]"],
            ["[[1],[1]]", "[[],[ ]]"],
        ),
        ({"type": "array", "items": {"uniqueItems": True}}, ["[[1],[1]]"], ["[[1,1]]"]),
        # What is counted may be of few values at one place and of others at the next.
        (
            {"uniqueItems": True, "contains": {"maxItems": 3}, "enum": [[None, [True], False]]},
            ["[null,[ true],false]"],
            ["[null,[true]]", "[]"],
        ),
        (
            {
                "type": "array",
                "uniqueItems": True,
                "contains": {"type": "integer"},
                "prefixItems": [{"enum": [1, 2, 3]}, {"const": 1}, {"enum": [1, 2]}],
                "items": False,
                "minItems": 3,
            },
            ["[3,1,2]"],
            ["[2,1,2]", "[1,1,2]", "[3,1,1]"],
        ),
        # Of two arrays one keeps its items apart: the other one does not.
        (
            {
                "anyOf": [
                    {"items": {"properties": {"a": {"type": "integer"}}}, "uniqueItems": True},
                    {"items": {"type": "object", "additionalProperties": {"type": "string"}}},
                ],
                "type": "array",
            },
            ['[{"a":1},{"a":2}]', '[{"a":"1"},{"a":"1"}]', "[{},{}]", "[[1],[2],1,2]"],
            ['[{"a":1},{"a":1}]', '[{"a":1},{},{"a":1}]', "[[1],[1]]", '[{"a":"1"},{"a":1},[]]]'],
        ),
        (
            {
                "anyOf": [
                    {"items": {"items": {"type": "integer"}}, "uniqueItems": True, "minItems": 2},
                    {"items": {"type": "array", "maxItems": 1}},
                ],
                "type": "array",
            },
            ["[[1],[1]]", "[[1,2],[1]]", '[["a"],["a"],[]]', "[[1,2],[1],[]]"],
            ["[[1,2],[1,2]]", "[[1,2],[1],[1]]", '[["a"],[1,2]]'],
        ),
        (
            {"type": "array", "uniqueItems": True, "items": {"enum": list(range(100))}},
            [json.dumps(list(range(100)))],
            ["[1,2,1]", "[100]"],
        ),
    ],
    ids=repr,
)
def test_kept_apart(schema: object, accepted: list[str], rejected: list[str]) -> None:
    check_texts(schema, accepted, rejected)


def test_unique_objects_are_narrowed_where_order_would_show() -> None:
    schema = {"type": "array", "uniqueItems": True, "items": {"type": "object"}}
    grammar = llgx.Grammar.from_json_schema(schema)
    assert any("unique" in warning for warning in grammar.warnings)
    matcher = llgx.Matcher(grammar.compile(BYTES))
    assert accepts(matcher, '[{"a":1},{"b":1}]')
    assert not accepts(matcher, '[{"a":1,"b":2},{"b":2,"a":1}]')


@pytest.mark.parametrize("low", [2, 3, 900])
@pytest.mark.parametrize("order", ["schema", "named", "any"])
def test_unique_objects_that_one_further_member_does_not_fill(low: int, order: str) -> None:
    """Seed 760014528 of the campaign: what such an object began with led to no end."""
    full = {"type": "object", "minProperties": low}
    items = {"type": "object", "patternProperties": {"[0-9]": full}}
    schema = {"type": "array", "uniqueItems": True, "minItems": 2, "items": items}
    matcher = matcher_of(schema, property_order=order)
    assert accepts(matcher, '[{"a":1},{"b":1}]')
    assert matcher.match_bytes(b'[{"a1')[0] == 4
    named = {**full, "properties": {name: {"type": "null"} for name in ("a", "b")}}
    matcher = matcher_of({"type": "array", "uniqueItems": True, "items": named})
    for texts in ('{"a":null,"b":null}', '{"a":null,"c":null}', '{"a":null,"b":null,"c":null}'):
        assert accepts(matcher, f"[{texts}]") == (texts.count(":") >= low), texts
    assert matcher.match_bytes(b'[{"c":1')[0] < 7
    with pytest.raises(llgx.GrammarError, match="comes to an end"):
        matcher_of({"type": "array", "uniqueItems": True, "minItems": 2, "items": full})


# Embedding


def test_embedded_in_a_grammar_of_another_syntax() -> None:
    rules = [ir.Rule("start", [])]
    terminals = [
        ir.Terminal("tilde", ir.Literal(b"~")),
        ir.Terminal("ignored", ir.Repeat(ir.Literal(b"_"), 1, None)),
    ]
    skip = [1]
    symbol, unenforced, warnings = embed(
        '{"type": "array", "items": {"type": "integer"}}',
        rules=rules,
        terminals=terminals,
        skip=skip,
    )
    assert (unenforced, warnings, len(skip)) == ([], [], 2)
    rules[0].productions.append(ir.Production((ir.TerminalRef(0), symbol, ir.TerminalRef(0))))
    grammar = llgx.Grammar.from_ir(ir.GrammarIR(rules, terminals, 0, skip=skip, skip_once=False))
    matcher = llgx.Matcher(grammar.compile(BYTES))
    assert accepts(matcher, "~[1 , 2]~")
    assert accepts(matcher, "~__[1 , 2]__~")
    assert not accepts(matcher, "~ [1]~")
    assert not accepts(matcher, "~[1] ~")
    assert not accepts(matcher, "~[_1]~")


def test_embedded_schemas_may_be_alternatives() -> None:
    rules = [ir.Rule("start", [])]
    terminals: list[ir.Terminal] = []
    skip = [-1]
    for schema in (NAMED, OTHER):
        symbol, _, _ = embed(schema, rules=rules, terminals=terminals, skip=skip)
        rules[0].productions.append(ir.Production((symbol,)))
    grammar = llgx.Grammar.from_ir(ir.GrammarIR(rules, terminals, 0, skip=skip))
    matcher = llgx.Matcher(grammar.compile(BYTES))
    assert accepts(matcher, '{"a" : 1}')
    assert accepts(matcher, '{"a":3}')
    assert not accepts(matcher, '{"a":2}')


def test_nothing_is_embedded_of_a_schema_at_fault() -> None:
    rules: list[ir.Rule] = []
    terminals: list[ir.Terminal] = []
    skip = [-1]
    with pytest.raises(llgx.SchemaError):
        embed({"type": "nonsense"}, rules=rules, terminals=terminals, skip=skip)
    assert (rules, terminals, skip) == ([], [], [-1])


def test_what_is_not_enforced_is_listed() -> None:
    schema = {"type": "string", "format": "unheard-of"}
    compiled = llgx.Grammar.from_json_schema(schema).compile(BYTES)
    [(_, keyword, reason)] = compiled.unenforced
    assert keyword == "format"
    assert "unheard-of" in reason
    twice = {"type": "array", "items": {"type": "string"}, "not": {"uniqueItems": True}}
    with pytest.raises(llgx.SchemaError) as caught:
        llgx.Grammar.from_json_schema(twice)
    assert caught.value.keyword == "uniqueItems"
    grammar = llgx.Grammar.from_json_schema(twice, on_unsupported="record")
    assert [entry[1] for entry in grammar.unenforced] == ["uniqueItems"]
    assert grammar.compile(BYTES).unenforced == grammar.unenforced


@pytest.mark.parametrize("most", [2**53 - 1, 10**30])
def test_bounds_that_nothing_reaches(most: int) -> None:
    for schema, text in (
        ({"type": "object", "maxProperties": most, "properties": {"a": {}}}, '{"a":1,"b":2}'),
        ({"type": "array", "maxItems": most}, "[1,2]"),
        ({"type": "array", "contains": {"const": 1}, "maxContains": most}, "[1,1]"),
    ):
        grammar = compile_schema(schema)
        assert len(grammar.rules) < 30
        assert accepts(matcher_of(schema), text)


def test_numbers_beyond_what_can_be_spelled_have_a_place() -> None:
    schema = {"properties": {"a": {"items": {"maximum": 10**5_000}}}}
    with pytest.raises(llgx.SchemaError) as caught:
        llgx.Grammar.from_json_schema(schema)
    assert caught.value.pointer.startswith("/properties/a")


def test_unique_items_of_more_values_than_bits_are_counted_as_well() -> None:
    schema = {
        "type": "array",
        "items": {"enum": list(range(60))},
        "uniqueItems": True,
        "contains": {"maximum": 9},
        "minContains": 10,
    }
    assert accepts(matcher_of(schema), json.dumps(list(range(59, -1, -1))))
    assert not accepts(matcher_of(schema), json.dumps(list(range(1, 60))))
    assert not accepts(matcher_of(schema), json.dumps([*range(1, 10), 9]))


def test_many_obligations_of_one_object() -> None:
    schema = {
        "type": "object",
        "allOf": [
            {"not": {"patternProperties": {f"^{letter}": {"type": "integer"}}}}
            for letter in "abcdefghi"
        ],
    }
    matcher = matcher_of(schema)
    document = dict.fromkeys("abcdefghi", "x")
    assert accepts(matcher, json.dumps(document))
    for letter in "aei":
        assert not accepts(matcher, json.dumps({**document, letter: 1}))
    overlapping = {
        "type": "object",
        "allOf": [
            {"not": {"patternProperties": {f"{letter}": {"type": "integer"}}}}
            for letter in "abcdefgh"
        ],
    }
    matcher = matcher_of(overlapping)
    assert accepts(matcher, json.dumps({"abc": "x", "def": "x", "gh": "x"}))
    assert accepts(matcher, json.dumps({"abcdef": "x", "g": "x", "h": None}))
    assert not accepts(matcher, json.dumps({"abc": "x", "def": "x", "g": "x"}))


def test_alternatives_that_begin_alike_share_the_rules_of_their_beginning() -> None:
    common = {f"c{i}": {"type": "integer"} for i in range(20)}
    branches = [
        {
            "type": "object",
            "properties": {**common, f"x{i}": {"const": i}, "last": {}},
            "required": [f"x{i}"],
            "additionalProperties": False,
        }
        for i in range(30)
    ]
    assert len(compile_schema({"anyOf": branches}).rules) < 150
    matcher = matcher_of({"anyOf": branches})
    assert accepts(matcher, '{"c0": 1, "c7": 2, "x3": 3, "last": null}')
    assert accepts(matcher, '{"x29": 29}')
    assert not accepts(matcher, '{"c0": 1, "c7": 2, "x3": 4}')
    assert not accepts(matcher, '{"c0": 1, "c7": 2, "x3": 3, "x4": 4}')
    assert not accepts(matcher, '{"c0": 1, "c7": 2}')
