"""Random schemas against ``jsonschema``, and that the comparison would find a fault.

``python -m tests.json_campaign`` runs the same for as long as one likes.
"""

from __future__ import annotations

import decimal
import random
from collections import Counter
from typing import Any

import pytest

import llgx
from tests import json_campaign
from tests.json_campaign import Difference, check_seed, reduce_difference
from tests.json_oracle import DuplicateKeyError, Oracle, parse, spell, spellings
from tests.json_schemas import DIALECTS, mutated, random_document, random_schema


@pytest.mark.parametrize("first", range(0, 200, 20))
def test_random_schemas_agree_with_jsonschema(first: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(first, first + 20):
        check_seed(seed, counts)
    assert counts["valid"] > 200
    assert counts["invalid"] > 200
    assert counts["walks: complete"] > 10


@pytest.mark.parametrize("dialect", DIALECTS)
def test_each_dialect(dialect: str) -> None:
    counts: Counter[str] = Counter()
    for seed in range(15):
        check_seed(seed, counts, dialect)
    assert counts["valid"] > 100


# ------------------------------------------------------------------ planted faults


def _without(schema: Any, keyword: str) -> Any:
    if isinstance(schema, dict):
        return {key: _without(value, keyword) for key, value in schema.items() if key != keyword}
    return [_without(item, keyword) for item in schema] if isinstance(schema, list) else schema


def _find(monkeypatch: pytest.MonkeyPatch, change: Any) -> Difference:
    """The first difference when llgx gets a schema that has been changed."""
    compile_schema = json_campaign.compile_schema
    monkeypatch.setattr(
        json_campaign, "compile_schema", lambda schema, order: compile_schema(change(schema), order)
    )
    for seed in range(400):
        try:
            check_seed(seed, Counter())
        except Difference as found:
            return found
    raise AssertionError("the fault has not been found")


@pytest.mark.parametrize(
    "keyword",
    [
        "required",
        "pattern",
        "minimum",
        "maxItems",
        "contains",
        "propertyNames",
        "uniqueItems",
        "not",
    ],
)
def test_a_keyword_that_is_forgotten_is_found(
    monkeypatch: pytest.MonkeyPatch, keyword: str
) -> None:
    found = _find(monkeypatch, lambda schema: _without(schema, keyword))
    assert found.kind.startswith("wrong")
    smaller = reduce_difference(found, seconds=5)
    assert f'"{keyword}"' in str(smaller)
    assert len(str(smaller)) <= len(str(found))


def test_a_schema_that_is_too_strict_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(schema: Any) -> Any:
        if not isinstance(schema, dict) or "maxProperties" in schema or "$ref" in schema:
            return schema
        return {**schema, "maxProperties": 1}

    assert _find(monkeypatch, change).kind.startswith("wrong reject")


def test_a_schema_that_is_taken_for_empty_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_campaign, "compile_schema", lambda schema, order: None)
    with pytest.raises(Difference, match="wrong reject"):
        check_seed(1, Counter())


def test_a_crash_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(schema: Any, order: str) -> None:
        raise KeyError("a")

    monkeypatch.setattr(json_campaign, "compile_schema", crash)
    with pytest.raises(Difference, match="KeyError instead of a typed error"):
        check_seed(0, Counter())


# ------------------------------------------------------------------ what it stands on


def test_documents_are_near_the_border() -> None:
    valid = invalid = 0
    for seed in range(60):
        rng = random.Random(seed)
        dialect, schema = random_schema(rng)
        oracle = Oracle(dialect, schema)
        documents = [random_document(rng, schema) for _ in range(6)]
        documents += [mutated(rng, document) for document in documents]
        verdicts = [oracle.allows(document) for document in documents]
        valid += sum(verdicts)
        invalid += len(verdicts) - sum(verdicts)
    assert valid > 150
    assert invalid > 150


def test_all_keywords_are_drawn() -> None:
    seen: set[str] = set()
    for seed in range(300):
        _, schema = random_schema(random.Random(seed))
        todo = [schema]
        while todo:
            value = todo.pop()
            if isinstance(value, dict):
                seen |= value.keys()
                todo += value.values()
            elif isinstance(value, list):
                todo += value
    expected = set(
        "type enum const allOf anyOf oneOf not if then else $ref properties patternProperties "
        "additionalProperties required minProperties maxProperties propertyNames dependencies "
        "dependentRequired dependentSchemas unevaluatedProperties items prefixItems "
        "additionalItems contains minContains maxContains minItems maxItems uniqueItems "
        "unevaluatedItems minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength "
        "maxLength pattern".split()
    )
    assert expected <= seen


def test_oracle_reads_numbers_and_patterns_exactly() -> None:
    assert Oracle("draft2020-12", {"multipleOf": 0.1}).allows(decimal.Decimal("0.3"))
    assert not Oracle("draft2020-12", {"multipleOf": 2}).allows(10**40 + 1)
    assert not Oracle("draft2020-12", {"pattern": "b$"}).allows("b\n")
    assert not Oracle("draft7", {"patternProperties": {"^.$": False}}).allows({"é": 1})
    assert Oracle("draft2020-12", {"const": {"pattern": "b$"}}).allows({"pattern": "b$"})


def test_texts_and_documents() -> None:
    assert parse('{"a": [1.50, 1e2, true]}') == {"a": [decimal.Decimal("1.50"), 100, True]}
    with pytest.raises(DuplicateKeyError):
        parse('{"a": 1, "b": {"c": 1, "c": 1}}')
    with pytest.raises(OverflowError):
        parse("1e999999999999")
    assert spell({"é": [1, "\t"]}) == '{"é":[1,"\\t"]}'
    assert parse(spell({"a": [[], {}]}, random.Random(1))) == {"a": [[], {}]}
    assert spellings({"a": 1, "b": {"c": 1, "d": 2}}, 3) is None
    assert len(set(spellings({"a": 1, "b": {"c": 1, "d": 2}}, 4) or ())) == 4


def test_limits_are_typed_errors_of_a_campaign() -> None:
    with pytest.raises(llgx.SchemaError):
        json_campaign.compile_schema({"type": "strin"}, "any")
    assert json_campaign.compile_schema(False, "any") is None
