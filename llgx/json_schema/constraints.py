"""The keywords that constrain one type each: from their values to the groups of that type.

Each function reads the keywords of one type in a schema object and returns the values of that type
that satisfy all of them; None, or an empty set, if there are none. A keyword with a value of the
wrong kind is a fault of the schema, reported through :meth:`Translator.malformed`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from llgx.errors import GrammarError
from llgx.json_schema.formats import number_format, string_format
from llgx.json_schema.loading import number_of
from llgx.json_schema.meet import make_array, make_object
from llgx.json_schema.normal import (
    KIND_NEVER,
    ArrayGroup,
    Cell,
    Counted,
    ObjectGroup,
    Place,
    Schema,
)
from llgx.json_schema.numbers import NumberSet
from llgx.json_schema.strings import StringSet

if TYPE_CHECKING:
    from llgx.json_schema.keywords import Translator
    from llgx.json_schema.references import Scope

__all__ = ["array_group", "number_set", "object_group", "pattern_set", "string_set"]

_EMPTINESS_STEPS: Final = 100  # what it takes to look at a cell, more where patterns overlap
_NO_SCHEMAS: Final[tuple[Schema, ...]] = ()


def count_of(
    t: Translator, value: Mapping[str, Any], keyword: str, place: Place, default: int | None
) -> int | None:
    """A keyword whose value is a number of things."""
    if keyword not in value:
        return default
    count = value[keyword]
    if type(count) is not int:
        number = number_of(count)
        if number is None or number.denominator != 1:
            t.malformed(place, keyword, "has to be an integer")
        count = int(number)
    if count < 0:
        t.malformed(place, keyword, "cannot be negative")
    return count


def number_set(t: Translator, value: Mapping[str, Any], place: Place, scope: Scope) -> NumberSet:
    """minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf, format."""
    result = NumberSet.ANY
    known = scope.dialect.keywords

    def limit(keyword: str) -> tuple[Fraction | None, bool]:
        end: Fraction | None = None
        is_open = False
        if keyword in value and keyword in known:
            end = number_of(value[keyword])
            if end is None:
                t.malformed(place, keyword, "has to be a number")
        name = f"exclusive{keyword[:1].upper()}{keyword[1:]}"
        if name in value and name in known:
            other = value[name]
            if isinstance(other, bool) and (scope.dialect.draft == 4 or scope.dialect.lenient):
                return end, other
            bound = number_of(other)
            if bound is None or scope.dialect.draft == 4:
                t.malformed(place, name, "has to be a number")
            if end is None or (bound >= end if keyword == "minimum" else bound <= end):
                end, is_open = bound, True
        return end, is_open

    low, low_open = limit("minimum")
    high, high_open = limit("maximum")
    if low is not None or high is not None:
        result = NumberSet.between(low, high, low_open, high_open)
        if low is not None and high is not None and result.is_empty():
            t.conflict(place, "minimum", f"no number is at least {low} and at most {high}")
    if "multipleOf" in value and "multipleOf" in known:
        divisor = number_of(value["multipleOf"])
        if divisor is None or divisor <= 0:
            t.malformed(place, "multipleOf", "has to be a number above 0")
        result = result.meet(NumberSet.multiples_of(divisor))
    if "format" in value:
        numbers = number_format(t.format_name(value, place, scope))
        if numbers is not None:
            result = result.meet(numbers)
    return result


def string_set(t: Translator, value: Mapping[str, Any], place: Place, scope: Scope) -> StringSet:
    """minLength, maxLength, pattern, format."""
    result = StringSet.ANY
    known = scope.dialect.keywords
    if "minLength" in known:
        low = count_of(t, value, "minLength", place, 0) or 0
        high = count_of(t, value, "maxLength", place, None)
        if low or high is not None:
            if high is not None and low > high:
                t.conflict(place, "minLength", f"minLength {low} is greater than maxLength {high}")
                return StringSet.NONE
            result = StringSet.length(low, high)
        if "pattern" in value:
            result = result.meet(pattern_set(t, value["pattern"], place, "pattern"))
    if "format" in value:
        strings = string_format(t.format_name(value, place, scope), scope.dialect.name)
        if strings is not None:
            result = result.meet(strings)
    return result


def pattern_set(t: Translator, pattern: object, place: Place, keyword: str) -> StringSet:
    """The strings with a match of ``pattern``; all of them if it cannot be enforced."""
    if not isinstance(pattern, str):
        t.malformed(place, keyword, "has to be a regex as a string")
    found = t.patterns.get(pattern)
    if found is None:
        try:
            found = StringSet.pattern(pattern)
        except GrammarError as error:
            t.unenforced(place, keyword, f"the pattern {pattern!r}: {error.message}")
            found = StringSet.ANY
        t.patterns[pattern] = found
    return found


# Arrays


def array_group(
    t: Translator, value: Mapping[str, Any], place: Place, scope: Scope
) -> ArrayGroup | None:
    """items, prefixItems, additionalItems, contains and its counts, the counts, uniqueItems."""
    known = scope.dialect.keywords
    draft = scope.dialect.draft
    prefix: list[Schema] = []
    rest = t.algebra.any
    items = value.get("items", True) if "items" in known else True
    if "prefixItems" in value and "prefixItems" in known:
        prefix = _schemas(t, value["prefixItems"], (place, "prefixItems"), scope)
    elif isinstance(items, (list, tuple)) and (draft < 2020 or scope.dialect.lenient):
        prefix = _schemas(t, items, (place, "items"), scope)
        items = True
        if "additionalItems" in known and "additionalItems" in value:
            rest = t.child(value["additionalItems"], (place, "additionalItems"), scope)
    if items is not True:
        rest = t.child(items, (place, "items"), scope)
    low, high = 0, None
    unique = False
    if "minItems" in known:
        low = count_of(t, value, "minItems", place, 0) or 0
        high = count_of(t, value, "maxItems", place, None)
        if high is not None and low > high:
            t.conflict(place, "minItems", f"minItems {low} is greater than maxItems {high}")
        unique = t.flag(value, "uniqueItems", place)
    counted: tuple[Counted, ...] = ()
    if "contains" in value and "contains" in known:
        schema = t.schema(value["contains"], (place, "contains"), scope)
        least, most = 1, None
        if "minContains" in known:
            found = count_of(t, value, "minContains", place, 1)
            least = 1 if found is None else found
            most = count_of(t, value, "maxContains", place, None)
            if most is not None and least > most:
                reason = f"minContains {least} is greater than maxContains {most}"
                t.conflict(place, "minContains", reason)
                return None
        counted = (Counted(schema, least, most),)
    elif not prefix and rest is t.algebra.any and not low and high is None and not unique:
        return ArrayGroup((), rest)
    made = make_array(t.algebra, prefix, rest, low, high, counted, unique)
    if made is None:
        t.conflict(place, "minItems", "it asks for more items than it allows")
    return made


def _schemas(t: Translator, values: object, place: Place, scope: Scope) -> list[Schema]:
    if not isinstance(values, (list, tuple)):
        assert isinstance(place, tuple)
        t.malformed(place[0], str(place[1]), "has to be a list of schemas")
    return [t.schema(item, (place, index), scope) for index, item in enumerate(values)]


# Objects


def object_group(
    t: Translator, value: Mapping[str, Any], place: Place, scope: Scope
) -> ObjectGroup | None:
    """properties, patternProperties, additionalProperties, required, the counts."""
    known = scope.dialect.keywords
    members: dict[str, Schema] = {}
    patterns: list[tuple[StringSet, Schema]] = []
    rest = t.algebra.any
    if "properties" in known:
        if "properties" in value:
            properties = t.mapping(value, "properties", place)
            inside = (place, "properties")
            make = t.child
            members = {name: make(item, (inside, name), scope) for name, item in properties.items()}
        if "patternProperties" in value:
            inside = (place, "patternProperties")
            for pattern, item in t.mapping(value, "patternProperties", place).items():
                strings = pattern_set(t, pattern, place, "patternProperties")
                patterns.append((strings, t.child(item, (inside, pattern), scope)))
        if "additionalProperties" in value:
            inside = (place, "additionalProperties")
            rest = t.child(value["additionalProperties"], inside, scope)
    required: tuple[str, ...] = ()
    low, high = 0, None
    if "minProperties" in known:
        if "required" in value:
            required = t.names_of(value["required"], place, "required")
        low = count_of(t, value, "minProperties", place, 0) or 0
        high = count_of(t, value, "maxProperties", place, None)
        if high is not None and low > high:
            reason = f"minProperties {low} is greater than maxProperties {high}"
            t.conflict(place, "minProperties", reason)
            return None
    if patterns:
        for name, schema in members.items():
            matching = [found for strings, found in patterns if strings.contains(name)]
            if matching:
                members[name] = t.algebra.both(schema, *matching)
    unlisted: list[str] = []
    for name in required:
        found = members.get(name)
        if found is None:
            matching = [found for strings, found in patterns if strings.contains(name)]
            found = t.algebra.both(*matching) if matching else rest
            members[name] = found
            unlisted.append(name)
        if found.kind == KIND_NEVER:
            t.conflict(place, "required", f"the required property {name!r} can have no value")
    cells = _cells(t, members, patterns, rest)
    made = make_object(
        t.algebra, members, cells, frozenset(required), (), low, high, frozenset(unlisted)
    )
    if made is None and not any(members[name].kind == KIND_NEVER for name in required):
        t.conflict(place, "minProperties", "it asks for more properties than it allows")
    return made


def _cells(
    t: Translator,
    members: Mapping[str, Schema],
    patterns: Sequence[tuple[StringSet, Schema]],
    rest: Schema,
) -> list[Cell]:
    """Names that are no members, by the patterns that they match."""
    if not patterns:
        if rest.kind == KIND_NEVER:
            return []
        return [Cell(StringSet.of(members).complement() if members else StringSet.ANY, rest)]
    others = StringSet.of(members).complement() if members else StringSet.ANY
    parts: list[tuple[StringSet, tuple[Schema, ...]]] = [(others, _NO_SCHEMAS)]
    for strings, schema in patterns:
        outside = strings.complement()
        refined = []
        for names, schemas in parts:
            if len(patterns) > 1:
                t.algebra.spend(_EMPTINESS_STEPS * (1 + len(schemas)) ** 2)
            for cell in (
                (names.meet(strings), (*schemas, schema)),
                (names.meet(outside), schemas),
            ):
                if len(patterns) == 1 or not cell[0].is_empty():
                    refined.append(cell)
        parts = refined
    return [
        Cell(
            names,
            rest if not schemas else schemas[0] if len(schemas) == 1 else t.algebra.both(*schemas),
        )
        for names, schemas in parts
    ]
