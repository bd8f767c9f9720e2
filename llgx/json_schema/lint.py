"""What becomes of each keyword of a JSON Schema, for tools that check schemas before they are used.

:func:`lint_schema` walks the schema along the keywords that hold schemas, and asks the compiler
what it could not enforce. Invariant: each keyword of each schema object that takes part is listed
once; left out are only keywords that name, locate or comment and constrain nothing by themselves
(``$schema``, ``$id``, ``$anchor``, ``$defs``, ``$comment`` and their like).
Cost: that of compiling the schema once, and linear in its size beside that.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import unquote

from llgx.json_schema.compile import compile_schema
from llgx.json_schema.dialects import ANNOTATIONS, DEFAULT, SILENT, Dialect
from llgx.json_schema.loading import load
from llgx.json_schema.normal import Place, pointer_of
from llgx.json_schema.options import Options, options_of
from llgx.json_schema.references import dialect_for

__all__ = ["Lint", "Status", "lint_schema", "schemas_of"]

Status: TypeAlias = Literal["enforced", "approximated", "ignored"]

_SCHEMA: Final = frozenset(
    "not if then else additionalProperties additionalItems items contains propertyNames "
    "unevaluatedItems unevaluatedProperties".split()
)
_SCHEMAS: Final = frozenset("allOf anyOf oneOf prefixItems items".split())
_NAMED_SCHEMAS: Final = frozenset(
    "properties patternProperties dependentSchemas dependencies $defs definitions".split()
)
_DEFINITIONS: Final = frozenset({"$defs", "definitions"})
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
# Keywords that say nothing unless another one stands beside them
_NEEDS: Final = {
    "then": ("if",),
    "else": ("if",),
    "minContains": ("contains",),
    "maxContains": ("contains",),
    "additionalItems": ("items",),
}


@dataclasses.dataclass(frozen=True, slots=True)
class Lint:
    """What becomes of one keyword: ``pointer`` leads to it, ``reason`` is "" where it is enforced.

    *Enforced*: no text is generated that breaks it. *Approximated*: part of what it says is held
    to, and ``reason`` says which part is not. *Ignored*: it has no influence on the grammar.
    """

    pointer: str
    keyword: str
    status: Status
    reason: str = ""


def lint_schema(schema: object, **options: Any) -> list[Lint]:
    """Each keyword of ``schema`` with its JSON pointer and what becomes of it, in document order.

    ``schema`` and ``options`` are what :meth:`llgx.Grammar.from_json_schema` takes. Keywords in
    definitions that nothing refers to are ignored, and listed as such. Raises
    :class:`llgx.SchemaError` for a schema that is malformed or allows nothing at all, and
    :class:`llgx.LimitError` for one that takes too much work, as compiling it would. Compiles the
    schema once.
    """
    chosen = options_of({"on_unsupported": "record", **options})
    contents = load(schema).contents
    compiled = compile_schema(contents, chosen)
    if isinstance(contents, bool):
        return []
    if "x-guidance" in contents:
        chosen = chosen.over(contents["x-guidance"])
    dialect = dialect_for(contents, DEFAULT, chosen.resources)
    used = _used_definitions(contents, dialect)
    found = list(_lint(contents, dialect, chosen, used))
    for pointer, keyword, reason in compiled.unenforced:
        _mark(found, pointer.removeprefix("#"), keyword, reason)
    return found


def _mark(found: list[Lint], pointer: str, keyword: str, reason: str) -> None:
    """Note that ``keyword`` of the schema at ``pointer`` is not enforced.

    The compiler may see a keyword only after schemas have been put together, and then reports the
    schema around them: all keywords of that name in it count.
    """
    exact = [index for index, lint in enumerate(found) if lint.pointer == f"{pointer}/{keyword}"]
    inside = [
        index
        for index, lint in enumerate(found)
        if lint.keyword == keyword and lint.pointer.startswith(f"{pointer}/")
    ]
    for index in exact or inside:
        if found[index].status == "enforced":
            found[index] = dataclasses.replace(found[index], status="ignored", reason=reason)


def _lint(
    contents: Mapping[str, Any],
    dialect: Dialect,
    options: Options,
    used: frozenset[str] | None,
) -> Iterator[Lint]:
    for place, schema, is_used in schemas_of(contents, dialect, used):
        for keyword in schema:
            if keyword in SILENT:
                continue
            pointer = pointer_of((place, keyword))
            if is_used:
                yield Lint(pointer, keyword, *_fate(schema, keyword, dialect, options))
            else:
                yield Lint(pointer, keyword, "ignored", "nothing refers to this definition")


def _fate(
    schema: Mapping[str, Any], keyword: str, dialect: Dialect, options: Options
) -> tuple[Status, str]:
    """What the draft and the options make of a keyword."""
    if dialect.draft <= 7 and "$ref" in schema and keyword != "$ref":
        return "ignored", f"{dialect.name} ignores what stands beside $ref"
    known_by = "if" if keyword in ("then", "else") else keyword
    if keyword in ANNOTATIONS or known_by not in dialect.keywords:
        note = "an annotation" if keyword in ANNOTATIONS else f"unknown to {dialect.name}"
        return "ignored", note
    missing = [need for need in _NEEDS.get(keyword, ()) if need not in schema]
    if missing:
        return "ignored", f"says nothing without {missing[0]}"
    if keyword == "additionalItems" and not isinstance(schema["items"], list):
        return "ignored", "says nothing unless items is an array"
    if keyword == "oneOf" and options.one_is_any:
        return "approximated", "read as anyOf, as coerce_one_of asks"
    return "enforced", ""


def schemas_of(
    contents: Any, dialect: Dialect, used: frozenset[str] | None = None
) -> Iterator[tuple[Place, Mapping[str, Any], bool]]:
    """Each schema object with its place, in document order, and whether it takes part."""
    todo: list[tuple[Place, Any, bool]] = [(None, contents, True)]
    while todo:
        place, schema, is_used = todo.pop()
        if not isinstance(schema, Mapping):
            continue
        yield place, schema, is_used
        below: list[tuple[Place, Any, bool]] = []
        for keyword, child_place, child in _children(place, schema, dialect):
            taken = is_used
            if keyword in _DEFINITIONS:
                taken = used is None or pointer_of(child_place) in used
            below.append((child_place, child, taken))
        todo += reversed(below)


def _children(
    place: Place, schema: Mapping[str, Any], dialect: Dialect
) -> Iterator[tuple[str, Place, Any]]:
    voided = dialect.draft <= 7 and "$ref" in schema
    for keyword, value in schema.items():
        if voided and keyword not in _DEFINITIONS:
            continue
        here: Place = (place, keyword)
        if keyword in _SCHEMA and isinstance(value, Mapping):
            yield keyword, here, value
        elif keyword in _SCHEMAS and isinstance(value, list):
            for index, child in enumerate(value):
                yield keyword, (here, index), child
        elif keyword in _NAMED_SCHEMAS and isinstance(value, Mapping):
            for name, child in value.items():
                yield keyword, (here, name), child


def _used_definitions(contents: Mapping[str, Any], dialect: Dialect) -> frozenset[str] | None:
    """Pointers of the definitions that are referred to from the root on; None for all of them.

    Pointers are followed; a schema that refers by URI or anchor counts as one that uses everything.
    """
    targets: dict[str, set[str]] = {"": set()}
    owners: list[tuple[Place, Any, str]] = [(None, contents, "")]
    while owners:
        place, schema, owner = owners.pop()
        if not isinstance(schema, Mapping):
            continue
        for keyword in _REFERENCES:
            reference = schema.get(keyword)
            if reference is None:
                continue
            if not isinstance(reference, str) or not (reference + "/").startswith("#/"):
                return None
            targets[owner].add(unquote(reference[1:]))
        for keyword, child_place, child in _children(place, schema, dialect):
            inner = owner
            if keyword in _DEFINITIONS:
                inner = pointer_of(child_place)
                targets[inner] = set()
            owners.append((child_place, child, inner))
    used: set[str] = set()
    todo = [""]
    while todo:
        for target in targets[todo.pop()]:
            # A reference into a definition uses all of it
            for pointer in targets:
                if pointer not in used and (target + "/").startswith(pointer + "/"):
                    used.add(pointer)
                    todo.append(pointer)
    return frozenset(used)
