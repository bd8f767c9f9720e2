"""Equal schemas are compiled once; what is kept is bounded."""

from __future__ import annotations

import collections
import decimal
import gc
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import llgx
from llgx.cache import SchemaCache
from llgx.grammar import Grammar

_SCHEMA: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "integer"}}}


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    before = llgx.schema_cache.limit
    llgx.schema_cache.clear()
    llgx.schema_cache.limit = 64_000_000
    yield
    llgx.schema_cache.clear()
    llgx.schema_cache.limit = before


@pytest.fixture(scope="module")
def vocabulary() -> llgx.Vocabulary:
    return llgx.Vocabulary.from_tokens([*(bytes((b,)) for b in range(256)), b"<end>"], eog=[256])


def test_equal_schemas_are_one_grammar(vocabulary: llgx.Vocabulary) -> None:
    first = Grammar.from_json_schema(_SCHEMA)
    again = Grammar.from_json_schema(json.loads(json.dumps(_SCHEMA)))
    assert again is first
    assert again.compile(vocabulary) is first.compile(vocabulary)
    text = json.dumps(_SCHEMA)
    assert Grammar.from_json_schema(text) is Grammar.from_json_schema(text + "")


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ({"const": 1}, {"const": True}),
        ({"const": 1}, {"const": 1.5}),
        ({"enum": [0]}, {"enum": [False]}),
        ({"properties": {"a": {}, "b": {}}}, {"properties": {"b": {}, "a": {}}}),
        (True, 1),
        ('"a"', b'"a"'),
    ],
)
def test_what_differs_is_not_mixed_up(left: Any, right: Any) -> None:
    def outcome(schema: Any) -> Any:
        try:
            return Grammar.from_json_schema(schema).ir
        except llgx.SchemaError as error:
            return str(error)

    expected = outcome(right)
    llgx.schema_cache.clear()
    outcome(left)
    assert outcome(right) == expected


def test_options_limits_and_documents_count() -> None:
    schema = {"$ref": "http://a/b"}
    one = Grammar.from_json_schema(schema, resources={"http://a/b": {"type": "null"}})
    other = Grammar.from_json_schema(schema, resources={"http://a/b": {"type": "string"}})
    assert one.ir.terminals != other.ir.terminals
    assert Grammar.from_json_schema(schema, resources={"http://a/b": {"type": "null"}}) is one
    plain = Grammar.from_json_schema(_SCHEMA)
    assert Grammar.from_json_schema(_SCHEMA, whitespace="compact") is not plain
    assert Grammar.from_json_schema(_SCHEMA, limits=llgx.Limits(nesting=9)) is not plain


def test_a_schema_that_is_changed_is_another_one() -> None:
    schema = json.loads(json.dumps(_SCHEMA))
    before = Grammar.from_json_schema(schema)
    schema["properties"]["a"]["type"] = "string"
    after = Grammar.from_json_schema(schema)
    assert after is not before
    assert after.ir.terminals != before.ir.terminals


@pytest.mark.parametrize(
    "schema",
    [
        {"const": decimal.Decimal("1.5")},
        collections.OrderedDict(type="string"),
        {"properties": collections.OrderedDict(a={})},
    ],
    ids=str,
)
def test_what_has_no_key_is_compiled_each_time(schema: Any) -> None:
    assert Grammar.from_json_schema(schema) is not Grammar.from_json_schema(schema)
    assert len(llgx.schema_cache) == 0


def test_errors_are_not_kept() -> None:
    for _ in range(2):
        with pytest.raises(llgx.SchemaError):
            Grammar.from_json_schema({"type": "strin"})
    with pytest.raises(llgx.SchemaError):
        Grammar.from_json_schema({"properties": {1: {}}})
    assert len(llgx.schema_cache) == 0


def test_what_is_kept_is_bounded(vocabulary: llgx.Vocabulary) -> None:
    llgx.schema_cache.limit = 1_000_000
    for number in range(200):
        schema = {"type": "object", "properties": {f"key {number}": {"type": "string"}}}
        matcher = llgx.Matcher(Grammar.from_json_schema(schema).compile(vocabulary))
        matcher.consume(ord("{"))
        assert llgx.schema_cache.memory < 1_200_000
    assert 0 < len(llgx.schema_cache) < 100
    last = Grammar.from_json_schema(schema)
    assert Grammar.from_json_schema(schema) is last
    llgx.schema_cache.limit = 0
    assert len(llgx.schema_cache) == 0
    assert Grammar.from_json_schema(schema) is not last


def test_what_grows_is_measured_again(vocabulary: llgx.Vocabulary) -> None:
    grammar = Grammar.from_json_schema({"type": "string", "maxLength": 4_000})
    compiled = grammar.compile(vocabulary)
    before = llgx.schema_cache.memory
    matcher = llgx.Matcher(compiled)
    mask = llgx.allocate_token_bitmask(1, len(vocabulary))
    for byte in b'"' + b"a" * 3_000:
        matcher.fill_bitmask(mask)
        matcher.consume(byte)
    Grammar.from_json_schema({"type": "string", "maxLength": 4_000})
    assert llgx.schema_cache.memory >= before + compiled.stats()["memory"] // 2


def test_what_is_compiled_and_not_used_is_bounded(vocabulary: llgx.Vocabulary) -> None:
    llgx.schema_cache.limit = 1_000_000
    for number in range(200):
        schema = {"type": "object", "properties": {f"key {number}": {"type": "string"}}}
        Grammar.from_json_schema(schema).compile(vocabulary)
        assert llgx.schema_cache.memory <= 1_000_000
    assert 0 < len(llgx.schema_cache) < 100
    # Nothing is left of those that were dropped.
    assert list(llgx.schema_cache._turns) == list(llgx.schema_cache._entries)


def test_a_matcher_that_goes_has_its_grammar_measured(vocabulary: llgx.Vocabulary) -> None:
    compiled = Grammar.from_json_schema({"type": "string", "maxLength": 4_000}).compile(vocabulary)
    before = llgx.schema_cache.memory
    built = compiled.memory
    matcher = llgx.Matcher(compiled)
    for byte in b'"' + b"a" * 3_000:
        matcher.allowed_tokens()
        matcher.consume(byte)
    grown = compiled.memory - built
    assert grown > 100_000
    assert llgx.schema_cache.memory == before
    del matcher
    assert llgx.schema_cache.memory == before + grown


def test_room_is_made_when_a_matcher_goes(vocabulary: llgx.Vocabulary) -> None:
    limit = llgx.schema_cache.limit = 1_000_000
    fullest = 0
    for number in range(100):
        schema = {"type": "object", "properties": {f"key {number}": {"type": "string"}}}
        grammar = Grammar.from_json_schema(schema)
        matcher = llgx.Matcher(grammar.compile(vocabulary))
        for byte in b'{"key':
            matcher.allowed_tokens()
            matcher.consume(byte)
        fullest = max(fullest, llgx.schema_cache.memory)
        del matcher
        assert llgx.schema_cache.memory <= limit - limit // 16
        assert Grammar.from_json_schema(schema) is grammar
    assert fullest > limit - limit // 16


def test_a_matcher_may_go_where_the_cache_is_in_use(vocabulary: llgx.Vocabulary) -> None:
    compiled = Grammar.from_json_schema(_SCHEMA).compile(vocabulary)
    matcher = llgx.Matcher(compiled)
    matcher.allowed_tokens()
    before = llgx.schema_cache.memory
    with llgx.schema_cache._lock:
        del matcher  # as the garbage collector may do
    assert llgx.schema_cache.memory == before
    circle: list[Any] = [llgx.Matcher(compiled)]
    circle.append(circle)
    circle[0].consume(ord("{"))
    circle[0].allowed_tokens()
    del circle
    gc.collect()
    assert llgx.schema_cache.memory > before


def test_least_recently_used_goes_first() -> None:
    cache = SchemaCache(1_000)
    kept = Grammar.from_json_schema({"type": "null"})
    cache.add("a", kept, 200)
    cache.add("b", kept, 200)
    for name in "cde":
        assert cache.get("a") is kept
        cache.add(name, kept, 250)
    assert cache.get("b") is None
    assert cache.get("a") is kept


def test_threads() -> None:
    found: list[Grammar] = []
    barrier = threading.Barrier(4)

    def work() -> None:
        barrier.wait()
        for number in range(50):
            found.append(Grammar.from_json_schema({"const": number % 5}))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(grammar) for grammar in found}) == 5


def test_a_second_use_is_quick(vocabulary: llgx.Vocabulary) -> None:
    schema = {"type": "object", "properties": {f"key {i}": {"type": "string"} for i in range(30)}}
    times = []
    for _ in range(200):
        begin = time.perf_counter()
        Grammar.from_json_schema(schema).compile(vocabulary)
        times.append(time.perf_counter() - begin)
    # A machine that is busy is given ten times what it should take.
    assert sorted(times)[20] < 200e-6
