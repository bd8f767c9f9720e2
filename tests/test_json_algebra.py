"""The algebra of JSON Schemas: normal forms against ``jsonschema``, the suite, and by hand."""

from __future__ import annotations

import dataclasses
import gzip
import json
import os
import random
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from llgx.errors import LimitError, LlgxError, SchemaError
from llgx.json_schema.algebra import Algebra
from llgx.json_schema.finite import values_of
from llgx.json_schema.inhabited import can_match
from llgx.json_schema.keywords import build
from llgx.json_schema.loading import load, number_of
from llgx.json_schema.normal import (
    ArrayGroup,
    BoolGroup,
    Group,
    NullGroup,
    NumberGroup,
    ObjectGroup,
    Schema,
    StringGroup,
)
from llgx.json_schema.numbers import NumberSet
from llgx.json_schema.report import Report
from llgx.json_schema.strings import StringSet
from llgx.limits import Limits
from tests.json_membership import belongs, in_group, key_of

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("LLGX_DATA", ROOT.parent / "shared" / "data"))
METASCHEMAS = {
    "draft4": "http://json-schema.org/draft-04/schema#",
    "draft6": "http://json-schema.org/draft-06/schema#",
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
}


@dataclasses.dataclass
class Options:
    resources: dict[str, Any] = dataclasses.field(default_factory=dict)
    strict_formats: bool = False
    ignored_formats: frozenset[str] = frozenset()
    one_is_any: bool = False


def compiled(source: object, **options: Any) -> tuple[Algebra, Schema]:
    return build(load(source), Options(**options), Report())


def schema_of(source: object, **options: Any) -> Schema:
    return compiled(source, **options)[1]


def is_unsatisfiable(source: object) -> bool:
    try:
        schema_of(source)
    except SchemaError as error:
        if "no value satisfies" not in error.message:
            raise
        return True
    return False


def object_groups(schema: Schema) -> list[ObjectGroup]:
    return [group for group in schema.groups if isinstance(group, ObjectGroup)]


def reachable(root: Schema) -> set[Schema]:
    """All schemas of the normal form of ``root``."""
    seen: set[Schema] = set()
    todo = [root]
    while todo:
        schema = todo.pop()
        if schema in seen:
            continue
        seen.add(schema)
        for group in schema.groups:
            if isinstance(group, ArrayGroup):
                todo += [*group.prefix, group.rest, *(one.schema for one in group.counted)]
            elif isinstance(group, ObjectGroup):
                todo += [one.schema for one in (*group.members, *group.cells, *group.some)]
    return seen


# The suite


@pytest.mark.parametrize("draft", sorted(METASCHEMAS))
def test_suite(draft: str) -> None:
    suite = DATA / "json-schema-suite.jsonl.gz"
    if not suite.is_file():
        pytest.skip(f"NOT TESTED: no {suite}; set LLGX_DATA to its directory")
    resources = json.loads(
        gzip.decompress((DATA / "json-schema-suite-remotes.json.gz").read_bytes())
    )
    wrong = []
    count = 0
    for line in gzip.decompress(suite.read_bytes()).splitlines():
        case = json.loads(line)
        # By default formats assert here, other than in the standard.
        if case["draft"] != draft or case["file"] == "format":
            continue
        source = case["schema"]
        if isinstance(source, dict) and "$schema" not in source:
            source = {"$schema": METASCHEMAS[draft], **source}
        schema = None
        if not isinstance(source, bool) or source:
            try:
                schema = schema_of(source, resources=resources)
            except SchemaError as error:
                if "no value" not in error.message:
                    wrong.append((case["group"], str(error)))
                    continue
        for test in case["tests"]:
            count += 1
            if (schema is not None and belongs(schema, test["data"])) != test["valid"]:
                wrong.append((case["group"], test["about"]))
    assert count > 400
    assert wrong == []


# Random schemas and values

NAMES = ("a", "b", "c", "ab")
VALUES = (None, True, False, 0, 1, 2, 3, -1, 1.5, 0.5, 10, "", "a", "b", "ab", "abc", "xyz")
LEAVES: tuple[Any, ...] = (
    True,
    False,
    {"type": "integer"},
    {"type": "string"},
    {"const": 1},
    {"type": "object"},
    {"type": "array"},
    {"enum": ["a", 1, None]},
    {"minLength": 1},
    {"type": ["null", "boolean"]},
    {"$ref": "#/$defs/d"},
)
KEYWORDS = (
    "type minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength "
    "minItems maxItems minProperties maxProperties minContains maxContains pattern properties "
    "properties patternProperties dependentSchemas additionalProperties propertyNames items "
    "contains not not unevaluatedProperties unevaluatedItems required required "
    "dependentRequired prefixItems allOf anyOf oneOf oneOf if const enum uniqueItems"
).split()


def random_value(rng: random.Random, depth: int) -> Any:
    kind = rng.random()
    if depth == 0 or kind < 0.55:
        return rng.choice(VALUES)
    if kind < 0.75:
        return [random_value(rng, depth - 1) for _ in range(rng.randrange(4))]
    return {name: random_value(rng, depth - 1) for name in rng.sample(NAMES, rng.randrange(4))}


def random_schema(rng: random.Random, depth: int) -> Any:
    if depth == 0 or rng.random() < 0.1:
        return rng.choice(LEAVES)
    schema: dict[str, Any] = {}
    for _ in range(rng.choice((1, 1, 2, 2, 3, 4))):
        keyword = rng.choice(KEYWORDS)
        schema[keyword] = _operand(rng, keyword, depth - 1, schema)
    return schema


def _operand(rng: random.Random, keyword: str, depth: int, schema: dict[str, Any]) -> Any:
    def sub() -> Any:
        return random_schema(rng, depth)

    if keyword == "type":
        return rng.choice(
            ("integer", "string", "object", "array", "number", "null", ["object", "string"])
        )
    if "imum" in keyword:
        return rng.choice((0, 1, 2, 1.5, -1))
    if keyword == "multipleOf":
        return rng.choice((1, 2, 0.5, 3))
    if keyword in ("minContains", "maxContains"):
        schema.setdefault("contains", sub())
        return rng.randrange(3)
    if keyword.startswith(("min", "max")):
        return rng.randrange(4)
    if keyword == "pattern":
        return rng.choice(("a", "^a", "b$", "^[a-b]+$", "^x"))
    if keyword in ("properties", "dependentSchemas"):
        return {name: sub() for name in rng.sample(NAMES, rng.randrange(1, 3))}
    if keyword == "patternProperties":
        patterns = ("a", "^b", "b$", "^[ab]$", "c")
        return {pattern: sub() for pattern in rng.sample(patterns, rng.randrange(1, 3))}
    if keyword == "required":
        return rng.sample(NAMES, rng.randrange(1, 3))
    if keyword == "dependentRequired":
        return {rng.choice(NAMES): rng.sample(NAMES, rng.randrange(3))}
    if keyword in ("prefixItems", "allOf", "anyOf", "oneOf"):
        return [sub() for _ in range(rng.randrange(1, 4))]
    if keyword == "if":
        for case in ("then", "else"):
            if rng.random() < 0.8:
                schema[case] = sub()
        return sub()
    if keyword == "const":
        return random_value(rng, 2)
    if keyword == "enum":
        return [random_value(rng, 1) for _ in range(rng.randrange(1, 4))]
    if keyword == "uniqueItems":
        return True
    return sub() if rng.random() < 0.7 else False


def random_case(seed: int, depth: int) -> tuple[random.Random, dict[str, Any]]:
    rng = random.Random(seed)
    schema = random_schema(rng, depth)
    if not isinstance(schema, dict):
        schema = {"allOf": [schema]}
    # References lead on through members and items only, so that jsonschema comes to an end.
    inside = random_schema(rng, 1)
    schema["$defs"] = {
        "d": {
            "type": ["object", "array", "integer"],
            "properties": {"a": {"$ref": "#/$defs/d"}, "b": inside},
            "items": {"$ref": "#/$defs/d"},
        }
    }
    return rng, schema


@pytest.mark.parametrize("block", range(6))
def test_random_schemas_mean_what_jsonschema_says(block: int) -> None:
    depth = 3 if block == 0 else 2
    valid = 0
    for seed in range(block * 1000, block * 1000 + (40 if depth == 3 else 150)):
        rng, source = random_case(seed, depth)
        validator = jsonschema.Draft202012Validator(source)
        try:
            schema: Schema | None = schema_of(source)
        except LimitError:
            if depth < 3:
                raise
            continue
        except SchemaError as error:
            # What refers to itself through its own negation has no meaning.
            if "does not belong to it" in error.message:
                continue
            if "no value" not in error.message:
                raise
            schema = None
        for _ in range(40):
            value = random_value(rng, 3)
            try:
                expected = validator.is_valid(value)
            except BaseException as error:  # RecursionError, or the panic it causes in rpds
                if isinstance(error, KeyboardInterrupt):
                    raise
                break
            found = schema is not None and belongs(schema, value)
            assert found == expected, (seed, json.dumps(source), json.dumps(value))
            valid += expected
    assert valid > 500


def random_branch(rng: random.Random) -> dict[str, Any]:
    """Objects with a tag, most of them: required or not, with strings that others may have too."""
    tags = rng.sample(["a", "b", "c", "d"], rng.randrange(1, 3))
    values = [
        {"enum": tags},
        {"type": "string", "enum": tags},
        {"const": tags[0]},
        {"pattern": f"^({'|'.join(tags)})$"},
        {"pattern": f"^{tags[0]}"},
        {"type": ["string", "null"]},
        {"enum": [*tags, 1]},
    ]
    branch: dict[str, Any] = {"properties": {rng.choice(("k", "k", "j")): rng.choice(values)}}
    if rng.random() < 0.5:
        branch["properties"][rng.choice("jxy")] = {"type": rng.choice(("integer", "string"))}
    if rng.random() < 0.5:
        branch["required"] = rng.sample(["k", "j", "x"], rng.randrange(1, 3))
    if rng.random() < 0.6:
        branch["type"] = rng.choice(("object", "object", ["object", "null"], "string"))
    if rng.random() < 0.2:
        branch["additionalProperties"] = False
    return branch


@pytest.mark.parametrize("block", range(4))
def test_random_branches_within_other_constraints(block: int) -> None:
    valid = 0
    for seed in range(block * 1000, block * 1000 + 120):
        rng = random.Random(seed)
        source = random_branch(rng) if rng.random() < 0.8 else {}
        source["oneOf"] = [random_branch(rng) for _ in range(rng.randrange(2, 6))]
        if rng.random() < 0.3:
            source["allOf"] = [{"oneOf": [random_branch(rng) for _ in range(2)]}]
        if rng.random() < 0.2:
            source = {"not": source}
        validator = jsonschema.Draft202012Validator(source)
        schema = None if is_unsatisfiable(source) else schema_of(source)
        for _ in range(60):
            value: Any = {
                name: rng.choice(["a", "b", "c", "d", "e", 1, None])
                for name in rng.sample(["k", "j", "x", "y"], rng.randrange(4))
            }
            if rng.random() < 0.1:
                value = rng.choice([None, "a", 1])
            expected = validator.is_valid(value)
            assert (schema is not None and belongs(schema, value)) == expected, (
                seed,
                source,
                value,
            )
            valid += expected
    assert valid > 500


# Every group of a normal form has a value


class NoSample(Exception):
    """The sampler gave up; not every obligation is within its reach."""


def sample(schema: Schema, rng: random.Random, depth: int) -> Any:
    """A value of ``schema``, small where ``depth`` is used up."""
    groups = list(schema.groups)
    assert groups, "a child without a value"
    rng.shuffle(groups)
    if depth <= 0:
        groups.sort(key=lambda group: isinstance(group, ArrayGroup | ObjectGroup))
        if depth < -12:
            raise NoSample
    return sample_group(groups[0], rng, depth)


def sample_group(group: Group, rng: random.Random, depth: int) -> Any:
    if isinstance(group, NullGroup):
        return None
    if isinstance(group, BoolGroup):
        return rng.choice(sorted(group.values))
    if isinstance(group, NumberGroup):
        for number in (0, 1, 2, 3, -1, 1.5, 0.5, 4, 5, 6, -2, 0.25, 9, 12, 1.75):
            known = group.numbers.values
            value: Any = number if known is None else float(rng.choice(sorted(known)))
            if group.numbers.contains(number_of(value)):
                return value
        raise NoSample
    if isinstance(group, StringGroup):
        return sample_string(group.strings)
    if isinstance(group, ArrayGroup):
        return sample_array(group, rng, depth)
    return sample_object(group, rng, depth)


def sample_string(strings: StringSet) -> str:
    for text in (
        *(strings.values or ()),
        "",
        "a",
        "b",
        "ab",
        "xa",
        "bb",
        "c",
        "abc",
        "xyzw",
        "zz",
        "xab",
    ):
        if strings.contains(text):
            return text
    raise NoSample


def sample_array(group: ArrayGroup, rng: random.Random, depth: int) -> list[Any]:
    least = max([group.low, *(one.start + one.low for one in group.counted)])
    for _ in range(60):
        length = least + rng.randrange(2)
        if group.high is not None:
            length = min(length, group.high)
        items = []
        for index in range(length):
            item = group.prefix[index] if index < len(group.prefix) else group.rest
            wanted = [item]
            for one in group.counted:
                if index >= one.start and rng.random() < 0.7:
                    wanted.append(one.schema)
            both = item.algebra.both(*wanted)
            items.append(sample(item if both.is_never else both, rng, depth - 1))
        if group.duplicate and length > 1:
            items[-1] = items[0]
        if in_group(group, items):
            return items
    raise NoSample


def sample_object(group: ObjectGroup, rng: random.Random, depth: int) -> dict[str, Any]:
    for _ in range(60):
        members = {}
        for member in group.members:
            if member.name in group.required or rng.random() < 0.3:
                schema = member.schema
                for one in group.some:
                    both = schema.algebra.both(schema, one.schema)
                    if one.names.contains(member.name) and rng.random() < 0.5 and not both.is_never:
                        schema = both
                members[member.name] = sample(schema, rng, depth - 1)
        for cell in group.cells:
            for _ in range(rng.randrange(2) + group.low):
                names = cell.names
                schema = cell.schema
                for one in group.some:
                    both = schema.algebra.both(schema, one.schema)
                    common = names.meet(one.names)
                    if rng.random() < 0.6 and not both.is_never and not common.is_empty():
                        names, schema = common, both
                name = sample_name(names, rng)
                if name is not None:
                    members[name] = sample(schema, rng, depth - 1)
        if in_group(group, members):
            return members
    raise NoSample


def sample_name(names: StringSet, rng: random.Random) -> str | None:
    pool = ["a", "b", "c", "ab", "x", "abc", "ba", "xb", "xx", "", "ca", "xyz", "bx", "zzzz", "aab"]
    rng.shuffle(pool)
    return next((name for name in pool if names.contains(name)), None)


@pytest.mark.parametrize("block", range(4))
def test_each_group_has_a_value_and_jsonschema_agrees(block: int) -> None:
    found = given_up = 0
    for seed in range(block * 1000, block * 1000 + 120):
        rng, source = random_case(seed, 2)
        validator = jsonschema.Draft202012Validator(source)
        try:
            schema = schema_of(source)
            for group in schema.groups:
                try:
                    value = sample_group(group, rng, 3)
                except NoSample:
                    given_up += 1
                    continue
                found += 1
                assert validator.is_valid(value), (seed, json.dumps(source), json.dumps(value))
        except LlgxError:
            continue
    assert found > 300
    assert given_up * 10 < found


# Emptiness


@pytest.mark.parametrize(
    "source",
    [
        {"$ref": "#"},
        {"anyOf": [{"$ref": "#"}]},
        {"allOf": [{"$ref": "#"}, {"type": "string"}]},
        {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]},
        {"type": "array", "items": {"$ref": "#"}, "minItems": 1},
        {"type": "array", "contains": {"$ref": "#"}},
        {"type": "object", "patternProperties": {"a": {"$ref": "#"}}, "required": ["xa"]},
        {"type": "object", "additionalProperties": {"$ref": "#"}, "minProperties": 1},
        {
            "$ref": "#/$defs/a",
            "$defs": {
                "a": {"type": "array", "prefixItems": [{"$ref": "#/$defs/b"}], "minItems": 1},
                "b": {
                    "type": "object",
                    "properties": {"x": {"$ref": "#/$defs/a"}},
                    "required": ["x"],
                },
            },
        },
        {"type": "array", "items": {"type": "boolean"}, "uniqueItems": True, "minItems": 3},
        {"type": "array", "items": {"enum": [1, 1.0, 2]}, "uniqueItems": True, "minItems": 3},
        {
            "type": "array",
            "prefixItems": [{"const": 1}, {"enum": [1, 2]}, {"enum": [1, 2]}],
            "uniqueItems": True,
            "minItems": 3,
        },
        {"type": "array", "items": {"type": "null"}, "minItems": 2, "uniqueItems": True},
        {"type": "array", "contains": {"const": 1}, "minContains": 2, "uniqueItems": True},
        {"type": "array", "contains": {"const": 1}, "items": {"type": "string"}},
        {"type": "array", "contains": {"type": "integer"}, "maxContains": 1, "minItems": 2}
        | {"items": {"type": "integer"}},
        {"type": "array", "contains": True, "minContains": 3, "maxItems": 2},
        {
            "type": "array",
            "maxItems": 1,
            "allOf": [{"contains": {"const": 1}}, {"contains": {"const": 2}}],
        },
        {"type": "object", "propertyNames": {"enum": ["a", "b"]}, "minProperties": 3},
        {"type": "object", "propertyNames": {"pattern": "^a$"}, "minProperties": 2},
        {"type": "object", "propertyNames": False, "minProperties": 1},
        {"type": "object", "required": ["a", "b"], "maxProperties": 1},
        {
            "type": "object",
            "maxProperties": 1,
            "not": {"patternProperties": {"^a": {"type": "string"}, "^b": {"type": "string"}}},
            "required": ["c"],
        },
        {
            "type": "object",
            "allOf": [
                {"not": {"patternProperties": {"^x": {"type": "string"}}}},
                {"patternProperties": {"^x": {"const": "a"}}},
            ],
        },
        {"type": "string", "pattern": "^a+$", "allOf": [{"pattern": "b"}]},
        {"type": "string", "not": {"minLength": 0}},
        {"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 2},
        {"type": "number", "multipleOf": 3, "minimum": 1, "maximum": 2},
        {"type": "integer", "not": {"multipleOf": 1}},
        {"enum": [1, "a"], "not": {"enum": ["a", 1.0]}},
        {"const": {"a": [1, {"b": 2}]}, "not": {"const": {"a": [1.0, {"b": 2}]}}},
        {"if": {"type": "string"}, "then": False, "else": {"type": "string"}},
        {"oneOf": [True, True]},
        {"oneOf": [{"type": "string"}, {"type": "string", "minLength": 0}]},
        {"type": "object", "dependentRequired": {"a": ["b"]}, "required": ["a"]}
        | {"properties": {"b": False}},
        {"type": "object", "required": ["a"], "unevaluatedProperties": False},
    ],
    ids=str,
)
def test_what_has_no_value(source: dict[str, Any]) -> None:
    assert is_unsatisfiable(source)


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ({"anyOf": [{"$ref": "#"}, {"type": "string"}]}, "a"),
        ({"type": "array", "items": {"$ref": "#"}}, [[], [[]]]),
        ({"type": "object", "additionalProperties": {"$ref": "#"}}, {"a": {"b": {}}}),
        (
            {"type": "array", "items": {"type": "boolean"}, "uniqueItems": True, "minItems": 2},
            [1 > 0, 0 > 1],
        ),
        (
            {
                "type": "array",
                "prefixItems": [{"enum": [1, 2]}, {"const": 1}],
                "uniqueItems": True,
                "minItems": 2,
            },
            [2, 1],
        ),
        ({"type": "array", "contains": {"$ref": "#"}, "minContains": 0}, [1]),
        (
            {
                "type": "array",
                "maxItems": 2,
                "allOf": [{"contains": {"const": 1}}, {"contains": {"const": 2}}],
            },
            [2, 1],
        ),
        ({"type": "array", "not": {"uniqueItems": True}, "maxItems": 2}, [1, 1]),
        (
            {"type": "object", "propertyNames": {"enum": ["a", "b"]}, "minProperties": 2},
            {"a": 1, "b": 1},
        ),
        (
            {"type": "object", "maxProperties": 1, "not": {"propertyNames": {"const": "a"}}},
            {"b": 0},
        ),
        (
            {
                "not": {"$ref": "#/$defs/s"},
                "$defs": {"s": {"anyOf": [{"$ref": "#/$defs/s"}, {"const": 1}]}},
            },
            2,
        ),
    ],
    ids=str,
)
def test_what_has_a_value(source: dict[str, Any], value: Any) -> None:
    assert belongs(schema_of(source), value)


@pytest.mark.parametrize(
    "source",
    [
        {"not": {"$ref": "#"}},
        {"oneOf": [{"$ref": "#"}, {"type": "string"}]},
        {"if": {"$ref": "#"}, "then": False, "else": True},
        {"allOf": [{"not": {"allOf": [{"$ref": "#"}]}}]},
    ],
    ids=str,
)
def test_what_is_defined_by_its_own_negation_is_refused(source: dict[str, Any]) -> None:
    with pytest.raises(SchemaError, match="does not belong to it"):
        schema_of(source)


def test_negation_of_a_recursive_schema() -> None:
    tree = {"type": "array", "items": {"$ref": "#/$defs/tree"}}
    schema = schema_of({"not": {"$ref": "#/$defs/tree"}, "$defs": {"tree": tree}})
    for value, inside in (([], False), ([[]], False), ([[[], []]], False), ([1], True)):
        assert belongs(schema, value) is inside
    assert belongs(schema, [[], [[[1]]]])
    assert belongs(schema, "a")
    assert len(reachable(schema)) < 12


def test_recursion_in_a_conjunction_ends() -> None:
    definitions = {
        "even": {"items": {"$ref": "#/$defs/odd"}, "type": "array"},
        "odd": {"items": {"$ref": "#/$defs/even"}, "type": "array"},
        "list": {"items": {"$ref": "#/$defs/list"}, "maxItems": 2},
    }
    names = [{"$ref": f"#/$defs/{name}"} for name in definitions]
    schema = schema_of({"allOf": names, "$defs": definitions})
    assert belongs(schema, [[[[]], []]])
    assert not belongs(schema, [[[[]], [], []]])
    assert len(reachable(schema)) < 12


# Shape


def test_equal_schemas_are_one_handle() -> None:
    algebra, schema = compiled(
        {
            "type": "object",
            "properties": {
                "a": {"type": "string", "minLength": 1, "title": "A"},
                "b": {"minLength": 1, "type": "string"},
                "c": {"allOf": [{"type": "string"}, {"minLength": 1}]},
                "d": {"type": "string", "not": {"const": ""}},
                "e": {"anyOf": [{"const": 1}, {"const": "x"}]},
                "f": {"enum": ["x", 1.0]},
            },
        }
    )
    (group,) = object_groups(schema)
    found = {member.name: member.schema for member in group.members}
    assert found["a"] is found["b"] is found["c"]
    assert found["e"] is found["f"]
    assert algebra.both(found["a"], found["a"]) is found["a"]
    assert algebra.negation(algebra.negation(found["a"])) is found["a"]
    assert algebra.both(found["a"], algebra.negation(found["a"])) is algebra.never
    assert algebra.either(found["a"], algebra.negation(found["a"])) is algebra.any
    assert algebra.are_disjoint(found["a"], found["e"]) is False
    assert algebra.are_disjoint(found["a"], algebra.leaf([NumberGroup(NumberSet.ANY)]))


def test_members_keep_the_order_of_the_text() -> None:
    schema = schema_of(
        {
            "type": "object",
            "allOf": [{"properties": {"z": {}, "y": {}}}, {"required": ["x", "z"]}],
            "properties": {"b": {}, "y": {}, "a": {}},
            "required": ["c", "b"],
        }
    )
    (group,) = object_groups(schema)
    assert [member.name for member in group.members] == ["z", "y", "b", "a", "x", "c"]
    later = schema_of(
        {"allOf": [{"properties": {"z": {}}}], "properties": {"b": {}}, "type": "object"}
    )
    assert [member.name for member in object_groups(later)[0].members] == ["z", "b"]


def test_required_names_are_members() -> None:
    source = {
        "type": "object",
        "required": ["xa", "q"],
        "patternProperties": {"^x": {"type": "string"}},
        "additionalProperties": {"type": "null"},
    }
    (group,) = object_groups(schema_of(source))
    kinds = {member.name: type(member.schema.groups[0]) for member in group.members}
    assert kinds == {"xa": StringGroup, "q": NullGroup}
    assert group.required == {"xa", "q"}


def test_cells_are_disjoint_and_cover_the_other_names() -> None:
    source = {
        "properties": {"ab": {}},
        "patternProperties": {"a": {"type": "string"}, "b": {"maxLength": 3}, "^c": {}},
    }
    (group,) = object_groups(schema_of({"type": "object", **source}))
    for name in ("", "a", "b", "ba", "ca", "cab", "c", "zzz", "é", "xab"):
        assert sum(cell.names.contains(name) for cell in group.cells) == 1
    assert not any(cell.names.contains("ab") for cell in group.cells)
    for index, cell in enumerate(group.cells):
        assert not cell.names.is_empty()
        assert all(cell.names.is_disjoint(other.names) for other in group.cells[:index])


def test_disjoint_branches_of_one_of_are_not_subtracted() -> None:
    branches = [
        {
            "properties": {"kind": {"const": f"k{i}"}, f"x{i}": {"type": "string"}},
            "required": ["kind"],
        }
        for i in range(30)
    ]
    schema = schema_of({"type": "object", "oneOf": branches})
    assert len(schema.groups) == 30
    assert all(len(group.members) == 2 for group in object_groups(schema))


def test_branches_told_apart_by_what_is_around_them_are_not_subtracted() -> None:
    # {"kind": ...} is optional in each branch, so that {} is in all of them; it is required around.
    branches = [
        {"properties": {"kind": {"enum": [f"k{i}"]}, "value": {"minimum": i}}} for i in range(36)
    ]
    source = {"type": "object", "required": ["kind"], "oneOf": branches}
    algebra, schema = compiled(source)
    assert len(schema.groups) == 36
    assert algebra.steps < 3_000
    assert belongs(schema, {"kind": "k3", "value": 3})
    assert not belongs(schema, {"kind": "k3", "value": 2})
    assert not belongs(schema, {"value": 3})
    # Around it nothing is required: then they do exclude each other.
    without = schema_of({**source, "required": []})
    assert not belongs(without, {})
    assert belongs(without, {"kind": "k3", "value": 3})


def test_a_great_many_branches_with_a_tag_each_are_not_compared_in_pairs() -> None:
    branches = [
        {"properties": {"kind": {"enum": [f"k{i}"]}, f"v{i}": {"type": "string"}}}
        for i in range(1_500)
    ]
    source = {"type": "object", "required": ["kind"], "oneOf": branches}
    algebra, schema = compiled(source)
    assert len(schema.groups) == 1_500
    assert algebra.steps < 60_000
    assert belongs(schema, {"kind": "k700", "v700": "x", "v701": 1})
    assert not belongs(schema, {"kind": "k700", "v700": 1})
    # Two that share a string overlap there, and only there.
    both = {"properties": {"kind": {"enum": ["k7", "k8", "other"]}}}
    shared = schema_of({**source, "oneOf": [*branches[:60], both]})
    assert not belongs(shared, {"kind": "k7"})
    assert belongs(shared, {"kind": "k7", "v7": 1})
    assert belongs(shared, {"kind": "k9"})
    assert belongs(shared, {"kind": "other"})


def test_branches_around_which_types_are_told_keep_their_own_groups() -> None:
    # Patterns say nothing of numbers: by themselves the branches overlap there.
    branches = [
        {"properties": {"kind": {"pattern": f"^k{i}"}, f"v{i}": {"type": "string"}}}
        for i in range(9)
    ]
    source = {"properties": {"kind": {"type": "string"}}, "required": ["kind"], "oneOf": branches}
    schema = schema_of({**source, "type": "object"})
    assert len(schema.groups) == 9
    assert belongs(schema, {"kind": "k3", "v3": "x", "v4": 1})
    assert not belongs(schema, {"kind": "k3", "v3": 1})
    assert not belongs(schema, {"kind": 3})


def test_branches_that_need_not_be_told_apart_keep_the_order_of_the_text() -> None:
    schema = schema_of(
        {
            "allOf": [{"required": ["kind"], "properties": {"first": {}}}],
            "oneOf": [{"properties": {"kind": {"enum": [kind]}, kind: {}}} for kind in ("a", "b")],
            "properties": {"last": {}},
        }
    )
    orders = {tuple(member.name for member in group.members) for group in object_groups(schema)}
    assert orders == {("first", "kind", "a", "last"), ("first", "kind", "b", "last")}


def test_overlapping_branches_split_only_where_they_overlap() -> None:
    branches = [
        {"properties": {"kind": {"enum": [f"k{i}"]}, f"x{i}": {"type": "string"}}}
        for i in range(12)
    ]
    schema = schema_of(
        {"type": "object", "oneOf": [*branches, {"properties": {"kind": {"const": 0}}}]}
    )
    assert belongs(schema, {"kind": "k3", "x4": 1})
    assert not belongs(schema, {"kind": "k3", "x3": 1})
    assert not belongs(schema, {})
    assert len(schema.groups) < 40


def test_conditions_do_not_multiply() -> None:
    rules = [
        {
            "if": {"properties": {"kind": {"const": i}}, "required": ["kind"]},
            "then": {"required": [f"x{i}"]},
        }
        for i in range(25)
    ]
    schema = schema_of({"type": "object", "allOf": rules})
    assert len(schema.groups) <= 27
    assert belongs(schema, {"kind": 3, "x3": 1})
    assert not belongs(schema, {"kind": 3, "x4": 1})


def test_a_member_missing_or_wrong_is_one_group() -> None:
    schema = schema_of(
        {"type": "object", "not": {"required": ["a"], "properties": {"a": {"const": 1}}}}
    )
    (group,) = object_groups(schema)
    assert not group.required
    assert belongs(schema, {})
    assert belongs(schema, {"a": 2})
    assert not belongs(schema, {"a": 1.0})


def test_the_negation_of_objects_with_tags_does_not_multiply() -> None:
    branches = [
        {
            "type": "object",
            "properties": {
                "kind": {"enum": [f"k{i}"]},
                "label": {"type": "string"},
                f"v{i}": {"type": "integer"},
            },
            "required": ["kind", "label"],
            "additionalProperties": False,
        }
        for i in range(8)
    ]
    schema = schema_of({"type": "object", "not": {"anyOf": branches}})
    assert len(schema.groups) <= 1 + 3 * 8
    assert not belongs(schema, {"kind": "k3", "label": "x", "v3": 1})
    for value in (
        {},
        {"kind": "k9", "label": "x"},
        {"kind": "k3"},
        {"kind": "k3", "label": 1},
        {"kind": "k3", "label": "x", "v3": "1"},
        {"kind": "k3", "label": "x", "v4": 1},
        {"kind": "k3", "label": "x", "v3": 1, "other": None},
    ):
        assert belongs(schema, value), value


def test_one_of_may_be_read_as_any_of() -> None:
    source = {"oneOf": [{"type": "integer"}, {"type": "number"}]}
    assert not belongs(schema_of(source), 1)
    assert belongs(schema_of(source, one_is_any=True), 1)


def test_unevaluated_outcomes_are_bounded() -> None:
    branches = [{"properties": {f"p{i}": {}}, "required": [f"q{i}"]} for i in range(12)]
    with pytest.raises(SchemaError) as caught:
        schema_of({"anyOf": branches, "unevaluatedProperties": False})
    assert caught.value.keyword == "unevaluatedProperties"
    report = Report(records=True)
    source = {"anyOf": branches, "unevaluatedProperties": False, "minProperties": 1}
    recorded = build(load(source), Options(), report)[1]
    assert [entry[:2] for entry in report.entries] == [("", "unevaluatedProperties")]
    assert belongs(recorded, {"q0": 1, "x": 1})
    assert not belongs(recorded, {"x": 1})
    few = schema_of({"anyOf": branches[:5], "unevaluatedProperties": False})
    assert not belongs(few, {"q0": 1})
    nested = [{"properties": {f"p{i}": {}, f"q{i}": {}}, "required": [f"q{i}"]} for i in range(5)]
    schema = schema_of({"anyOf": nested, "unevaluatedProperties": False})
    assert belongs(schema, {"q0": 1, "p0": 1, "q3": 1, "p3": 2})
    assert not belongs(schema, {"q0": 1, "p1": 1})


def test_the_work_is_the_same_each_time() -> None:
    source = {"oneOf": [{"properties": {f"x{i}": {"type": "string"}}} for i in range(8)]}
    steps = set()
    for _ in range(2):
        algebra, schema = compiled(source)
        reachable(schema)
        steps.add(algebra.steps)
    (count,) = steps
    with pytest.raises(LimitError, match="schema_steps"):
        reachable(build(load(source), Options(), Report(), Limits(schema_steps=count - 1))[1])
    reachable(build(load(source), Options(), Report(), Limits(schema_steps=count))[1])


@pytest.mark.parametrize(
    "source",
    [
        {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 10**12}}
        | {"uniqueItems": True, "minItems": 10**9},
        {"type": "array", "contains": {"const": 1}, "minContains": 10**9},
        {"type": "object", "propertyNames": {"pattern": "^[a-z]{9}$"}, "minProperties": 10**8},
    ],
    ids=str,
)
def test_great_counts_end_in_a_result_or_a_limit(source: dict[str, Any]) -> None:
    try:
        schema = schema_of(source)
    except LimitError:
        return
    assert not belongs(schema, [])
    assert not belongs(schema, {})


# Few values


@pytest.mark.parametrize(
    ("source", "values"),
    [
        ({"enum": [1, 1.0, "a", None, True]}, [1, "a", None, True]),
        ({"type": "boolean"}, [True, False]),
        ({"type": "integer", "minimum": 1, "maximum": 3}, [1, 2, 3]),
        ({"type": "integer", "minimum": 1, "maximum": 30}, None),
        ({"type": "string"}, None),
        ({"type": "array"}, None),
        (
            {"type": "array", "items": {"type": "boolean"}, "maxItems": 1},
            [[], [True], [False]],
        ),
        (
            {"type": "array", "items": {"enum": [1, 2]}, "uniqueItems": True},
            [[], [1], [2], [1, 2], [2, 1]],
        ),
        ({"type": "array", "items": {"type": "null"}}, None),
        (
            {
                "type": "object",
                "properties": {"a": {"enum": [1, 2]}},
                "additionalProperties": False,
            },
            [{}, {"a": 1}, {"a": 2}],
        ),
        ({"type": "object", "properties": {"a": {"const": 1}}}, None),
        ({"type": "array", "items": {"$ref": "#"}, "maxItems": 1}, None),
    ],
    ids=str,
)
def test_schemas_with_few_values(source: dict[str, Any], values: list[Any] | None) -> None:
    algebra, schema = compiled(source)
    found = values_of(algebra, schema, 8)
    if values is None:
        assert found is None
    else:
        assert found is not None
        assert len(found) == len(values)
        plain = {"null": "NoneType", "boolean": "bool", "string": "str"}

        def translated(value: Any) -> object:
            kind, *rest = value
            if kind == "array":
                return (kind, tuple(map(translated, rest[0])))
            if kind == "object":
                return (kind, frozenset((name, translated(item)) for name, item in rest[0]))
            return (plain.get(kind, kind), *(rest or [None]))

        assert {translated(value) for value in found} == {key_of(value) for value in values}


def test_matching() -> None:
    rng = random.Random(1)
    for _ in range(300):
        sets: list[list[object]] = [
            list(rng.sample("abcde", rng.randrange(1, 4))) for _ in range(rng.randrange(6))
        ]

        def possible(index: int, used: frozenset[object], sets: list[list[object]] = sets) -> bool:
            return index == len(sets) or any(
                possible(index + 1, used | {value}) for value in sets[index] if value not in used
            )

        assert can_match(sets) is possible(0, frozenset())
