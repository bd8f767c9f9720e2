"""From a JSON Schema document to a formula of the algebra.

A schema object is the conjunction of its keywords. Keywords that constrain one type each become one
leaf, a union of groups (:mod:`llgx.json_schema.constraints`); each applicator becomes a
formula of its own, in the order of the text, so that members keep that order. A schema that is met
again while it is being translated is a reference by name.

The translation starts simple, with pointers into the document only. Where it meets a URI, an anchor
or a dynamic reference, it starts again with a registry, and once more to tell dynamic scopes apart.
Linear in the document, and in the number of dynamic scopes; the stack stays shallow, since deep
parts are put off.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, NoReturn, Protocol

from llgx.errors import SchemaError
from llgx.json_schema import constraints, unevaluated
from llgx.json_schema.algebra import Algebra
from llgx.json_schema.conflicts import explain
from llgx.json_schema.dialects import (
    ANNOTATIONS,
    ARRAY,
    BASE,
    DEFAULT,
    NUMBER,
    OBJECT,
    REFERENCE,
    SILENT,
    STRING,
    TYPE,
    UNEVALUATED,
    Dialect,
)
from llgx.json_schema.formats import number_format, string_format
from llgx.json_schema.literals import literals
from llgx.json_schema.loading import Document, load
from llgx.json_schema.meet import make_object
from llgx.json_schema.normal import (
    KIND_NEVER,
    Cell,
    Group,
    NumberGroup,
    ObjectGroup,
    Place,
    Schema,
    StringGroup,
    pointer_of,
)
from llgx.json_schema.numbers import NumberSet
from llgx.json_schema.references import References, Scope, Target, dialect_for, find_local
from llgx.json_schema.report import Report
from llgx.json_schema.strings import StringSet
from llgx.limits import DEFAULT_LIMITS, Limits

__all__ = ["MEANINGLESS", "SchemaOptions", "Translator", "build", "misspelt"]

_DEEPEST: Final = 16  # schemas translated inside one another; each takes a few Python frames
_LONGEST_MESSAGE: Final = 300
_TYPES: Final = ("null", "boolean", "number", "string", "array", "object")
# No typing errors: annotations, and what stands beside another keyword.
MEANINGLESS: Final = ANNOTATIONS | SILENT | {"then", "else"}
_SINGLE_TYPES: Final = {name: (name,) for name in (*_TYPES, "integer")}


class SchemaOptions(Protocol):
    """What of :class:`~llgx.json_schema.options.Options` decides about the set of values."""

    @property
    def resources(self) -> Mapping[str, Any]: ...
    @property
    def strict_formats(self) -> bool: ...
    @property
    def ignored_formats(self) -> Collection[str]: ...
    @property
    def one_is_any(self) -> bool: ...


class PlainParts(Protocol):
    """What has rules of its own for ``value``; None where it would rather be translated."""

    def __call__(self, value: dict[str, Any], place: Place) -> Schema | None: ...


class _Malformed(SchemaError):
    """A keyword has a value that its metaschema does not allow."""


class _NeedsRegistry(Exception):
    pass


class _NeedsDynamicScopes(Exception):
    pass


def build(
    document: Document,
    options: SchemaOptions,
    report: Report,
    limits: Limits = DEFAULT_LIMITS,
) -> tuple[Algebra, Schema]:
    """The schema of ``document`` and the algebra that it belongs to.

    Raises :class:`SchemaError` for a schema that is malformed, that no value satisfies, or that has
    a keyword that cannot be enforced, unless ``report`` records it; :class:`LimitError` when the
    budget ``Limits.schema_steps`` is spent.
    """
    with_registry = is_dynamic = False
    while True:
        translator = Translator(document, options, report, limits, with_registry, is_dynamic)
        try:
            root = translator.translate()
        except _NeedsRegistry:
            with_registry = True
            continue
        except _NeedsDynamicScopes:
            with_registry = is_dynamic = True
            continue
        except _Malformed as error:
            raise _with_metaschema(document, translator.dialect, error) from None
        break
    report.warnings += misspelt(document, translator.dialect, translator.unknown)
    algebra = translator.algebra
    if algebra.is_empty(root):
        raise explain(algebra, root, translator.conflicts)
    return algebra, root


def misspelt(document: Document, dialect: Dialect, unknown: set[str]) -> list[str]:
    """Warnings for those of ``unknown`` that look like a keyword."""
    if not unknown:
        return []
    from llgx.json_schema.misspelt import warnings_of

    return warnings_of(document.contents, dialect, unknown)


class Translator:
    """One translation; ``algebra`` holds what it makes."""

    def __init__(
        self,
        document: Document,
        options: SchemaOptions,
        report: Report,
        limits: Limits,
        with_registry: bool,
        is_dynamic: bool,
    ) -> None:
        self.algebra = Algebra(limits)
        self.conflicts: list[tuple[Place, str, str]] = []
        self.patterns: dict[str, StringSet] = {}
        # Keywords that mean nothing, as far as they might be typing errors.
        self.unknown: set[str] = set()
        self._root = document.contents
        self._options = options
        self._report = report
        self._resources = {uri: load(found).contents for uri, found in options.resources.items()}
        self.dialect = dialect_for(self._root, DEFAULT, self._resources)
        self._references: References | None = None
        self._scope = Scope(self.dialect)
        if with_registry:
            self._references = References(self._root, self.dialect, self._resources)
            self._scope = self._references.scope(self.dialect)
        self._is_dynamic = is_dynamic
        self._level = 0
        self._later: list[tuple[Schema, Any, Place, Scope]] = []
        # What has been translated by what it came from; None while it is being translated.
        self._done: dict[object, Schema | None] = {}
        # How often something has been met that is not enforced, and the schemas that hold such.
        self._loose = 0
        self._loose_keys: set[object] = set()
        self._targets: dict[str, Target] = {}
        self._by_types: dict[tuple[str, ...], Schema] = {}
        # Makes rules of members and items, so that they need no formula unless they are looked at.
        self.plain_parts: PlainParts | None = None
        # References that stand for nothing yet.
        self.unbound = 0

    def translate(self) -> Schema:
        """The formula of the document."""
        return self._whole_of(self._root, None)

    def part(self, value: Any, place: Place) -> Schema | None:
        """The formula of a part of the document; None where that takes a registry."""
        try:
            return self._whole_of(value, place)
        except (_NeedsRegistry, _NeedsDynamicScopes):
            return None

    def _whole_of(self, value: Any, place: Place) -> Schema:
        root = self.schema(value, place, self._scope)
        while self._later:
            name, inner, at, scope = self._later.pop()
            made = self._object(inner, self._kinds(inner, scope.dialect), at, scope)
            name.parts = (made,)
            self.unbound -= 1
        return root

    def schema(self, value: Any, place: Place, scope: Scope) -> Schema:
        """The formula of the schema ``value`` at ``place``."""
        if type(value) is not dict:
            if value is True:
                return self.algebra.any
            if value is False:
                if place is None:
                    self.conflict(place, "", "false allows no value")
                return self.algebra.never
            if not isinstance(value, Mapping):
                self.malformed(place, "", "a schema has to be an object or a boolean")
        dialect = scope.dialect
        seen = self._kinds(value, dialect)
        if not seen & ~TYPE and dialect.id_keyword not in value:
            if not seen:
                return self.algebra.any
            return self._of_types(self._type_names(value["type"], place), place)
        key = self._key(value, scope)
        done = self._done
        if key in done:
            if key in self._loose_keys:
                self._loose += 1
            found = done[key]
            if found is None:
                found = done[key] = self.algebra.name(place)
                self.unbound += 1
            return found
        if self._level >= _DEEPEST:
            made = done[key] = self.algebra.name(place)
            self._later.append((made, value, place, scope))
            self.unbound += 1
            return made
        done[key] = None
        loose = self._loose
        self._level += 1
        made = self._object(value, seen, place, scope)
        self._level -= 1
        if self._loose > loose:
            self._loose_keys.add(key)
        name = done[key]
        if name is not None:
            name.parts = (made,)
            self.unbound -= 1
            # A schema that is nothing but itself stays a name.
            made = name if made is name else made
        done[key] = made
        return made

    def child(self, value: Any, place: Place, scope: Scope) -> Schema:
        """:meth:`schema` of a member or item, which may have rules of its own."""
        if self.plain_parts is not None and type(value) is dict and scope is self._scope:
            found = self.plain_parts(value, place)
            if found is not None:
                return found
        return self.schema(value, place, scope)

    def _key(self, value: object, scope: Scope) -> object:
        if self._references is None:
            return id(value)
        dynamic = scope.dynamic if self._is_dynamic else ()
        return (id(value), scope.base, scope.dialect.draft, dynamic)

    def _kinds(self, value: Mapping[str, Any], dialect: Dialect) -> int:
        """What the keywords of a schema object are about, all together."""
        known = dialect.keywords
        seen = 0
        for keyword in value:
            if keyword in known:
                seen |= known[keyword]
            elif keyword not in MEANINGLESS:
                self.unknown.add(keyword)
        return seen

    def _object(self, value: Mapping[str, Any], seen: int, place: Place, scope: Scope) -> Schema:
        if seen & REFERENCE and scope.dialect.draft <= 7 and "$ref" in value:
            return self._reference("$ref", value, place, scope)
        if place is not None and scope.dialect.id_keyword in value:
            inside = self.enter(value, scope)
            if inside.dialect is not scope.dialect:
                seen = self._kinds(value, inside.dialect)
            scope = inside
        return self.object_schema(value, place, scope, seen)

    def object_schema(
        self, value: Mapping[str, Any], place: Place, scope: Scope, seen: int | None = None
    ) -> Schema:
        """The formula of a schema object, ``scope`` being the one inside it."""
        known = scope.dialect.keywords
        if seen is None:
            seen = self._kinds(value, scope.dialect)
        if not seen & ~BASE:
            return self.base(value, seen, place, scope)
        if seen & UNEVALUATED:
            return unevaluated.schema(self, value, place, scope)
        parts: dict[str, Schema] = {}
        has_base = not seen & BASE
        # The members of `properties` stand where it stands, not where the first keyword does.
        has_properties = "properties" in value and "properties" in known
        for keyword in value:
            bits = known.get(keyword, 0)
            if bits & BASE:
                if not has_base and (keyword == "properties" or not has_properties):
                    has_base = True
                    parts[keyword] = self.base(value, seen, place, scope)
            elif bits:
                parts[keyword] = self.applicator(keyword, value, place, scope)
        made = self.algebra.both(*parts.values(), place=place)
        if made.kind == KIND_NEVER:
            self._notice(parts, place)
        return made

    def _notice(self, parts: Mapping[str, Schema], place: Place) -> None:
        """Remember which keywords of a schema object exclude each other."""
        if any(part.kind == KIND_NEVER for part in parts.values()):
            return
        for keyword, part in parts.items():
            for other, schema in parts.items():
                if other == keyword:
                    break
                if self.algebra.both(part, schema).kind == KIND_NEVER:
                    reason = f"{other!r} and {keyword!r} have no value in common"
                    self.conflict(place, keyword, reason)
                    return

    def enter(self, value: Mapping[str, Any], scope: Scope) -> Scope:
        """The scope inside of ``value``, which may have a URI and a dialect of its own."""
        name = value.get(scope.dialect.id_keyword)
        if not isinstance(name, str):
            return scope
        if self._references is not None:
            return self._references.enter(value, scope)
        if name.startswith("#"):
            return scope
        dialect = dialect_for(value, scope.dialect, self._resources)
        return dataclasses.replace(scope, dialect=dialect, moved=True)

    # Keywords that constrain one type

    def base(self, value: Mapping[str, Any], seen: int, place: Place, scope: Scope) -> Schema:
        """The leaf of all keywords but the applicators."""
        names = None
        if seen & TYPE and "type" in value:
            names = self._type_names(value["type"], place)
        if not seen & (NUMBER | STRING | ARRAY | OBJECT):
            return self._of_types(_TYPES if names is None else names, place)
        groups: list[Group] = []
        for name in _TYPES if names is None else names:
            group: Group | None
            if name == "string":
                if not seen & STRING:
                    group = self.algebra.any_groups[3]
                else:
                    strings = constraints.string_set(self, value, place, scope)
                    group = StringGroup(strings) if strings.values != frozenset() else None
            elif name == "object":
                group = self.algebra.any_groups[5]
                if seen & OBJECT:
                    group = constraints.object_group(self, value, place, scope)
            elif name == "array":
                group = self.algebra.any_groups[4]
                if seen & ARRAY:
                    group = constraints.array_group(self, value, place, scope)
            elif name in ("number", "integer"):
                numbers = NumberSet.INTEGERS if name == "integer" else NumberSet.ANY
                if seen & NUMBER:
                    numbers = numbers.meet(constraints.number_set(self, value, place, scope))
                group = None if numbers == NumberSet.NONE else NumberGroup(numbers)
            else:
                group = self.algebra.any_groups[0 if name == "null" else 1]
            if group is not None:
                groups.append(group)
        return self.algebra.leaf(groups, place)

    def _of_types(self, names: tuple[str, ...], place: Place) -> Schema:
        """All values of some types."""
        found = self._by_types.get(names)
        if found is None:
            groups = [self._whole(name) for name in names]
            found = self._by_types[names] = self.algebra.leaf(groups, place)
        return found

    def _whole(self, name: str) -> Group:
        if name == "integer":
            return NumberGroup(NumberSet.INTEGERS)
        return self.algebra.any_groups[_TYPES.index(name)]

    def _type_names(self, types: object, place: Place) -> tuple[str, ...]:
        if type(types) is str and types in _SINGLE_TYPES:
            return _SINGLE_TYPES[types]
        names = (types,) if isinstance(types, str) else types
        if not isinstance(names, (list, tuple)):
            self.malformed(place, "type", "has to be the name of a type or a list of names")
        for name in names:
            if not isinstance(name, str) or name not in _SINGLE_TYPES:
                self.malformed(place, "type", f"there is no type {name!r}")
        if "integer" in names and "number" in names:
            names = [name for name in names if name != "integer"]
        return tuple(names)

    # Applicators

    def applicator(
        self, keyword: str, value: Mapping[str, Any], place: Place, scope: Scope
    ) -> Schema:
        """The formula of one applicator of the schema object ``value``."""
        return _APPLICATORS[keyword](self, keyword, value, place, scope)

    def target(self, keyword: str, value: Mapping[str, Any], place: Place, scope: Scope) -> Target:
        """Where a reference leads."""
        ref = value[keyword]
        if not isinstance(ref, str):
            self.malformed(place, keyword, "has to be a URI reference as a string")
        if keyword != "$ref" and not self._is_dynamic:
            raise _NeedsDynamicScopes
        if self._references is not None:
            return self._references.find(ref, scope, keyword, place)
        if scope.moved:
            raise _NeedsRegistry
        if ref in ("#", ""):
            return Target(self._root, self._scope, None)
        if not ref.startswith("#/"):
            raise _NeedsRegistry
        known = self._targets.get(ref)
        if known is not None:
            return known
        try:
            found = find_local(self._root, ref, scope.dialect)
        except LookupError:
            raise SchemaError(
                f"the reference {ref!r} leads nowhere", pointer=pointer_of(place), keyword=keyword
            ) from None
        if found is None:
            raise _NeedsRegistry
        target = self._targets[ref] = Target(found[0], self._scope, found[1])
        return target

    def _reference(
        self, keyword: str, value: Mapping[str, Any], place: Place, scope: Scope
    ) -> Schema:
        target = self.target(keyword, value, place, scope)
        return self.schema(target.contents, target.place, target.scope)

    def schemas(self, value: Mapping[str, Any], keyword: str, place: Place) -> list[Any]:
        """The list of schemas that a keyword has as its value."""
        found = value[keyword]
        if not isinstance(found, (list, tuple)) or not found:
            self.malformed(place, keyword, "has to be a list of schemas")
        return list(found)

    def _each(
        self, keyword: str, value: Mapping[str, Any], place: Place, scope: Scope
    ) -> list[Schema]:
        inside = (place, keyword)
        return [
            self.schema(item, (inside, index), scope)
            for index, item in enumerate(self.schemas(value, keyword, place))
        ]

    def _all_of(self, keyword: str, value: Mapping[str, Any], place: Place, scope: Scope) -> Schema:
        schemas = self._each(keyword, value, place, scope)
        made = self.algebra.both(*schemas, place=place)
        if made.kind == KIND_NEVER:
            self._notice({f"allOf/{index}": part for index, part in enumerate(schemas)}, place)
        return made

    def _any_of(self, keyword: str, value: Mapping[str, Any], place: Place, scope: Scope) -> Schema:
        return self.algebra.either(*self._each(keyword, value, place, scope), place=place)

    def _one_of(self, keyword: str, value: Mapping[str, Any], place: Place, scope: Scope) -> Schema:
        loose = self._loose
        schemas = self._each(keyword, value, place, scope)
        if self._loose > loose:
            return self.algebra.either(*schemas, place=place)
        return self.one(schemas, place)

    def one(self, schemas: Iterable[Schema], place: Place) -> Schema:
        """Just one of ``schemas``, or any of them if the options say so."""
        if self._options.one_is_any:
            return self.algebra.either(*schemas, place=place)
        return self.algebra.one(*schemas, place=place)

    def _not(self, keyword: str, value: Mapping[str, Any], place: Place, scope: Scope) -> Schema:
        loose = self._loose
        schema = self.schema(value["not"], (place, "not"), scope)
        if self._loose > loose:
            return self.algebra.any  # what allows too much must not exclude
        made = self.algebra.negation(schema)
        if made.kind == KIND_NEVER:
            self.conflict(place, keyword, "'not' excludes every value")
        return made

    def _if(self, keyword: str, value: Mapping[str, Any], place: Place, scope: Scope) -> Schema:
        if "then" not in value and "else" not in value:
            return self.algebra.any
        algebra = self.algebra
        loose = self._loose
        condition = self.schema(value["if"], (place, "if"), scope)
        is_loose = self._loose > loose
        then = self.schema(value.get("then", True), (place, "then"), scope)
        otherwise = self.schema(value.get("else", True), (place, "else"), scope)
        if is_loose:
            return algebra.either(then, otherwise, place=place)
        # Both cases exclude each other, so that several conditions do not multiply.
        return algebra.either(
            algebra.both(condition, then),
            algebra.both(algebra.negation(condition), otherwise),
            place=place,
        )

    def _enum(self, keyword: str, value: Mapping[str, Any], place: Place, scope: Scope) -> Schema:
        values = value["enum"]
        if not isinstance(values, (list, tuple)):
            self.malformed(place, "enum", "has to be a list of values")
        return self._literals(values, keyword, place)

    def _const(self, keyword: str, value: Mapping[str, Any], place: Place, scope: Scope) -> Schema:
        return self._literals((value["const"],), keyword, place)

    def _literals(self, values: Iterable[Any], keyword: str, place: Place) -> Schema:
        try:
            made = literals(self.algebra, values, place)
        except ValueError as error:
            self.malformed(place, keyword, str(error))
        if made.kind == KIND_NEVER:
            self.conflict(place, keyword, "there is no value that it allows")
        return made

    def _property_names(
        self, keyword: str, value: Mapping[str, Any], place: Place, scope: Scope
    ) -> Schema:
        names = self.schema(value["propertyNames"], (place, "propertyNames"), scope)
        return self.algebra.names(names, place)

    # Dependencies

    def absent(self, name: str) -> Schema:
        """All values but the objects with a member ``name``."""
        others = Cell(StringSet.of((name,)).complement(), self.algebra.any)
        return self.algebra.leaf((*self.algebra.any_groups[:-1], ObjectGroup((), (others,))))

    def present(self, names: Iterable[str]) -> Schema:
        """All objects with members of these names."""
        algebra = self.algebra
        members = dict.fromkeys(names, algebra.any)
        others = Cell(StringSet.of(members).complement(), algebra.any)
        required = frozenset(members)
        group = make_object(algebra, members, (others,), required, unlisted=required)
        assert group is not None
        return algebra.leaf((group,))

    def _dependencies(
        self, keyword: str, value: Mapping[str, Any], place: Place, scope: Scope
    ) -> Schema:
        parts = []
        inside = (place, keyword)
        for name, needed in self.mapping(value, keyword, place).items():
            if isinstance(needed, (list, tuple)) and keyword != "dependentSchemas":
                names = self.names_of(needed, place, keyword)
                if not any(other != name for other in names):
                    continue
                then = self.present((name, *names))
            elif keyword == "dependencies" and isinstance(needed, str):
                then = self.present((name, needed))
            elif keyword == "dependentRequired":
                self.malformed(place, keyword, "has to hold lists of names")
            else:
                schema = self.schema(needed, (inside, name), scope)
                if schema is self.algebra.any:
                    continue
                then = self.algebra.both(self.present((name,)), schema)
            parts.append(self.algebra.either(self.absent(name), then, place=(inside, name)))
        return self.algebra.both(*parts, place=place)

    # Values of keywords

    def mapping(self, value: Mapping[str, Any], keyword: str, place: Place) -> Mapping[str, Any]:
        """A keyword whose value is an object."""
        found = value[keyword]
        if not isinstance(found, Mapping):
            self.malformed(place, keyword, "has to be an object")
        for name in found:
            if not isinstance(name, str):
                self.malformed(place, keyword, f"has a name that is no string: {name!r}")
        return found

    def names_of(self, names: object, place: Place, keyword: str) -> tuple[str, ...]:
        """A keyword whose value is a list of names."""
        if not isinstance(names, (list, tuple)):
            self.malformed(place, keyword, "has to be a list of names")
        for name in names:
            if not isinstance(name, str):
                self.malformed(place, keyword, "has to be a list of names")
        return tuple(dict.fromkeys(names))

    def flag(self, value: Mapping[str, Any], keyword: str, place: Place) -> bool:
        """A keyword whose value is a boolean, false by default."""
        found = value.get(keyword, False)
        if not isinstance(found, bool):
            self.malformed(place, keyword, "has to be true or false")
        return found

    def format_name(self, value: Mapping[str, Any], place: Place, scope: Scope) -> str:
        """The value of ``format``, "" where the options ignore it.

        What constrains nothing is noted; what is not known is refused if the options say so.
        """
        name = value["format"]
        if not isinstance(name, str):
            self.malformed(place, "format", "has to be a string")
        if name in self._options.ignored_formats:
            reason = f"the format {name!r} is ignored, as the option ignored_formats says"
            self._report.note(pointer_of(place), "format", reason)
            return ""
        if string_format(name, scope.dialect.name) is None and number_format(name) is None:
            reason = f"the format {name!r} is not known, so that it is an annotation"
            if self._options.strict_formats:
                raise SchemaError(reason, pointer=pointer_of(place), keyword="format")
            self._report.note(pointer_of(place), "format", reason)
        return name

    # Faults

    def malformed(self, place: Place, keyword: str, reason: str) -> NoReturn:
        """Raise the error for a keyword with a value of the wrong kind."""
        raise _Malformed(reason, pointer=pointer_of(place), keyword=keyword)

    def unenforced(self, place: Place, keyword: str, reason: str) -> None:
        """Report a keyword that cannot be enforced: what it is part of allows too much."""
        self._loose += 1
        self._report.unenforced(pointer_of(place), keyword, reason)

    def conflict(self, place: Place, keyword: str, reason: str) -> None:
        """Remember what may be why the whole schema turns out to have no value."""
        self.conflicts.append((place, keyword, reason))


_Handler = Callable[[Translator, str, Mapping[str, Any], Place, Scope], Schema]
_APPLICATORS: Final[Mapping[str, _Handler]] = {
    "$ref": Translator._reference,
    "$dynamicRef": Translator._reference,
    "$recursiveRef": Translator._reference,
    "allOf": Translator._all_of,
    "anyOf": Translator._any_of,
    "oneOf": Translator._one_of,
    "not": Translator._not,
    "if": Translator._if,
    "enum": Translator._enum,
    "const": Translator._const,
    "propertyNames": Translator._property_names,
    "dependencies": Translator._dependencies,
    "dependentRequired": Translator._dependencies,
    "dependentSchemas": Translator._dependencies,
}


def _with_metaschema(document: Document, dialect: Dialect, error: SchemaError) -> SchemaError:
    """``error`` in the words of the metaschema, where that finds a fault at the same place."""
    import jsonschema

    validators = {
        4: jsonschema.Draft4Validator,
        6: jsonschema.Draft6Validator,
        7: jsonschema.Draft7Validator,
        2019: jsonschema.Draft201909Validator,
        2020: jsonschema.Draft202012Validator,
    }
    validator = validators[dialect.draft]
    plain = SchemaError(error.message, pointer=error.pointer, keyword=error.keyword)
    try:
        # Where this front end is more lenient than the metaschema, other faults do not matter.
        faults = [
            fault
            for fault in validator(validator.META_SCHEMA).iter_errors(document.contents)
            if _path_of(fault).startswith(f"{error.pointer}/{error.keyword}".rstrip("/"))
        ]
        found = jsonschema.exceptions.best_match(faults)
    except (RecursionError, TypeError, AttributeError):
        return plain
    if found is None:
        return plain
    message = found.message
    if len(message) > _LONGEST_MESSAGE:
        message = f"{message[:_LONGEST_MESSAGE]} ..."
    return SchemaError(message, pointer=error.pointer, keyword=error.keyword)


def _path_of(fault: Any) -> str:
    place: Place = None
    for token in fault.absolute_path:
        place = (place, token)
    return pointer_of(place)
