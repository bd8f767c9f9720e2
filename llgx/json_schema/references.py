"""Where references of a JSON Schema lead.

Most schemas refer to their own parts by JSON pointers and name nothing: :func:`find_local` follows
these. Whatever is beyond it (``$id``, anchors, other documents) takes :class:`References`, a
registry of the ``referencing`` library with the document, the documents given by the caller and the
metaschemas. Nothing is ever fetched.

The dynamic scope of a place is the tuple of the URIs of the resources passed on the way to it,
outermost first and without repetition: nothing else of the way has an influence on where a
``$dynamicRef`` leads, and there are finitely many of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from llgx.errors import SchemaError
from llgx.json_schema.dialects import Dialect, dialect_of, with_vocabularies
from llgx.json_schema.normal import Place, pointer_of

__all__ = ["References", "Scope", "Target", "dialect_for", "find_local"]


@dataclasses.dataclass(frozen=True, slots=True)
class Scope:
    """What a schema inherits from where it stands.

    ``base`` is the URI of the resource around it; ``moved`` is true where a ``$id`` has been passed
    without a registry, so that references cannot be followed by pointer alone.
    """

    dialect: Dialect
    base: str = ""
    dynamic: tuple[str, ...] = ()
    moved: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """A schema that a reference leads to."""

    contents: Any
    scope: Scope
    place: Place


def find_local(root: object, ref: str, dialect: Dialect) -> tuple[object, Place] | None:
    """The part of ``root`` at the end of the pointer ``ref`` (``#/a/b``), and its place.

    None where the way passes a schema that has a URI of its own, which takes a registry. Raises
    ``LookupError`` where there is no such part.
    """
    current = root
    place: Place = None
    for token in ref[1:].split("/")[1:]:
        if place is not None and _identifies(current, dialect):
            return None
        token = unquote(token).replace("~1", "/").replace("~0", "~")
        if isinstance(current, (list, tuple)):
            if not token.isdigit() or (len(token) > 1 and token[0] == "0") or len(token) > 9:
                raise LookupError(ref)
            index = int(token)
            current = current[index]
            place = (place, index)
        elif isinstance(current, Mapping):
            current = current[token]
            place = (place, token)
        else:
            raise LookupError(ref)
    if place is not None and _identifies(current, dialect):
        return None
    return current, place


def _identifies(schema: object, dialect: Dialect) -> bool:
    if not isinstance(schema, Mapping):
        return False
    name = schema.get(dialect.id_keyword)
    return isinstance(name, str) and not name.startswith("#")


def dialect_for(contents: object, default: Dialect, resources: Mapping[str, Any]) -> Dialect:
    """The dialect that ``$schema`` of a resource asks for.

    A metaschema among ``resources`` counts with its own ``$schema`` and ``$vocabulary``; one that
    is not known counts as ``default``.
    """
    seen: set[str] = set()
    vocabularies = None
    name = None
    while type(contents) is dict or isinstance(contents, Mapping):
        uri = contents.get("$schema")
        if not isinstance(uri, str) or uri in seen:
            break
        seen.add(uri)
        known = dialect_of(uri)
        if known is not None:
            return known if name is None else with_vocabularies(known, name, vocabularies)
        contents = resources.get(uri, resources.get(uri.rstrip("#")))
        if name is None and isinstance(contents, Mapping):
            name, vocabularies = uri, contents.get("$vocabulary")
    return default


class References:
    """The registry of one compilation."""

    def __init__(self, contents: object, dialect: Dialect, resources: Mapping[str, Any]) -> None:
        # These take some milliseconds to import, and most schemas do without.
        import jsonschema_specifications
        import referencing
        import referencing.exceptions
        import referencing.jsonschema

        self._faults = (
            referencing.exceptions.Unresolvable,
            referencing.exceptions.NoSuchResource,
            referencing.exceptions.CannotDetermineSpecification,
            referencing.jsonschema.UnknownDialect,
            ValueError,
            LookupError,
        )
        self._dynamic_anchor = referencing.jsonschema.DynamicAnchor
        self._specifications = {
            draft: _guarded(specification, referencing.Specification)
            for draft, specification in (
                (4, referencing.jsonschema.DRAFT4),
                (6, referencing.jsonschema.DRAFT6),
                (7, referencing.jsonschema.DRAFT7),
                (2019, referencing.jsonschema.DRAFT201909),
                (2020, referencing.jsonschema.DRAFT202012),
            )
        }
        self._resources = resources
        root = self._resource(contents, dialect)
        try:
            self.root = root.id() or ""
            pairs = [
                (uri, self._resource(found, dialect_for(found, dialect, resources)))
                for uri, found in resources.items()
            ]
            pairs.append((self.root, root))
            self._registry = jsonschema_specifications.REGISTRY.with_resources(pairs).crawl()
        except self._faults as error:
            raise SchemaError(f"the URIs of the schema make no sense: {error}") from error
        self._uris: dict[int, str] = {}
        for uri in self._registry:
            found = self._registry[uri]
            name = found.id()
            if name is not None:
                # A document may be known by another URI than the one it gives itself.
                own = urljoin(uri, name)
                if own in self._registry and self._registry[own].contents is found.contents:
                    uri = own
            self._uris[id(found.contents)] = uri
        self._uris[id(contents)] = self.root

    def _resource(self, contents: object, dialect: Dialect) -> Any:
        return self._specifications[dialect.draft].create_resource(contents)

    def scope(self, dialect: Dialect) -> Scope:
        """The scope of the document itself."""
        return Scope(dialect, self.root, (self.root,))

    def enter(self, contents: Mapping[str, Any], scope: Scope) -> Scope:
        """The scope inside a subschema, which may have a URI of its own."""
        base = self._uris.get(id(contents))
        if base is None:  # not where schemas belong, so that the registry does not know of it
            name = self._resource(contents, scope.dialect).id()
            if name is None:
                return scope
            base = urljoin(scope.base, name)
        return self._moved(scope, base, contents)

    def _moved(self, scope: Scope, base: str, contents: object) -> Scope:
        if base == scope.base:
            return scope
        dialect = dialect_for(contents, scope.dialect, self._resources)
        dynamic = scope.dynamic if base in scope.dynamic else (*scope.dynamic, base)
        return Scope(dialect, base, dynamic)

    def find(self, ref: str, scope: Scope, keyword: str, place: Place) -> Target:
        """Follow the reference ``ref`` of the keyword ``$ref``, ``$dynamicRef`` or another.

        Raises :class:`SchemaError` where it leads nowhere.
        """
        try:
            if keyword == "$recursiveRef":
                return self._find_recursive(scope)
            if keyword == "$dynamicRef":
                found = self._find_dynamic(ref, scope)
                if found is not None:
                    return found
            return self._find_static(ref, scope)
        except self._faults:
            raise SchemaError(
                f"the reference {ref!r} leads nowhere",
                pointer=pointer_of(place),
                keyword=keyword,
                remedy="documents that a schema refers to are given as resources={uri: schema}",
            ) from None

    def _find_static(self, ref: str, scope: Scope) -> Target:
        # Without the dynamic scope, so that the anchor of a `$dynamicAnchor` is an anchor.
        resolved = self._registry.resolver(base_uri=scope.base).lookup(ref)
        around = resolved.resolver.lookup("#").contents
        base = self._uris.get(id(around))
        uri, fragment = urldefrag(ref)
        uri = urljoin(scope.base, uri) if uri else scope.base
        contents = resolved.contents
        inside = self._moved(scope, uri if base is None else base, around)
        place: Place = None if uri == self.root else uri
        if fragment.startswith("/"):
            for token in unquote(fragment).split("/")[1:]:
                place = (place, token.replace("~1", "/").replace("~0", "~"))
        return Target(contents, inside, place)

    def _find_dynamic(self, ref: str, scope: Scope) -> Target | None:
        uri, fragment = urldefrag(urljoin(scope.base, ref) if not ref.startswith("#") else ref)
        if not uri:
            uri = scope.base
        if not fragment or fragment.startswith("/"):
            return None
        if not isinstance(self._registry.anchor(uri, fragment).value, self._dynamic_anchor):
            return None
        for base in self._moved(scope, uri, self._registry[uri].contents).dynamic:
            try:
                anchor = self._registry.anchor(base, fragment).value
            except self._faults:
                continue
            if isinstance(anchor, self._dynamic_anchor):
                around = self._registry[base].contents
                contents = anchor.resource.contents
                return Target(contents, self._moved(scope, base, around), base)
        return None

    def _find_recursive(self, scope: Scope) -> Target:
        found = self._registry[scope.base].contents
        base = scope.base
        if isinstance(found, Mapping) and found.get("$recursiveAnchor") is True:
            for uri in scope.dynamic:
                outer = self._registry[uri].contents
                if isinstance(outer, Mapping) and outer.get("$recursiveAnchor") is True:
                    found, base = outer, uri
                    break
        return Target(found, self._moved(scope, base, found), None if base == self.root else base)


def _guarded(specification: Any, make: Callable[..., Any]) -> Any:
    """``specification`` for what need be no schema: not an object, or with an odd ``$id``."""
    keyword = "id" if specification.name == "draft-04" else "$id"

    def id_of(contents: Any) -> Any:
        if not isinstance(contents, Mapping) or not isinstance(contents.get(keyword), str):
            return None
        return specification.id_of(contents)

    def subresources_of(contents: Any) -> Any:
        if not isinstance(contents, Mapping):
            return ()
        try:
            return list(specification.subresources_of(contents))
        except (TypeError, AttributeError):  # malformed, as the translation will find
            return ()

    def anchors_in(_: Any, contents: Any) -> Any:
        if not isinstance(contents, Mapping):
            return ()
        try:
            return list(specification.anchors_in(contents))
        except (TypeError, AttributeError):
            return ()

    return make(
        name=specification.name,
        id_of=id_of,
        subresources_of=subresources_of,
        anchors_in=anchors_in,
        maybe_in_subresource=specification.maybe_in_subresource,
    )
