"""Python types as JSON Schemas: dataclasses, typed dicts, enums, and what annotations are made of.

Objects made of a dataclass or a ``TypedDict`` have no other members than its fields, since nothing
could hold these. A class is described once and referred to, so that it may refer to itself. Linear
in the types that are reached.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime
import decimal
import enum
import types
import typing
import uuid
from collections.abc import Callable
from typing import Any, Final

__all__ = ["ForeignType", "describe"]

_SIMPLE: Final[dict[object, dict[str, Any]]] = {
    Any: {},
    object: {},
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    None: {"type": "null"},
    type(None): {"type": "null"},
    decimal.Decimal: {"type": "number"},
    datetime.datetime: {"type": "string", "format": "date-time"},
    datetime.date: {"type": "string", "format": "date"},
    datetime.time: {"type": "string", "format": "time"},
    datetime.timedelta: {"type": "string", "format": "duration"},
    uuid.UUID: {"type": "string", "format": "uuid"},
    list: {"type": "array"},
    tuple: {"type": "array"},
    set: {"type": "array", "uniqueItems": True},
    frozenset: {"type": "array", "uniqueItems": True},
    dict: {"type": "object"},
}
_LISTS: Final = (
    list,
    collections.abc.Sequence,
    collections.abc.MutableSequence,
    collections.abc.Iterable,
    collections.abc.Collection,
)
_SETS: Final = (set, frozenset, collections.abc.Set, collections.abc.MutableSet)
_MAPPINGS: Final = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_WRAPPERS: Final = ("Required", "NotRequired", "ReadOnly", "Final", "ClassVar")


class ForeignType(TypeError):
    """A type of which nothing is known here."""


def describe(source: Any) -> dict[str, Any]:
    """The schema of the values that a type or annotation stands for.

    Raises :class:`ForeignType` where it is built of a type that is not known here, ``NameError``
    where an annotation in quotes cannot be resolved.
    """
    describer = _Describer()
    schema = describer.of(source)
    if describer.definitions:
        return {**schema, "$defs": describer.definitions}
    return schema


class _Describer:
    def __init__(self) -> None:
        self.definitions: dict[str, Any] = {}
        self._names: dict[object, str] = {}

    def of(self, source: Any) -> dict[str, Any]:
        try:
            simple = _SIMPLE.get(source)
        except TypeError:  # not hashable, such as Literal[[]]
            raise ForeignType(repr(source)) from None
        if simple is not None:
            return dict(simple)
        origin = typing.get_origin(source)
        if origin is not None:
            return self._of_generic(source, origin, typing.get_args(source))
        if isinstance(source, type):
            if dataclasses.is_dataclass(source):
                return self._refer(source, self._of_dataclass)
            if typing.is_typeddict(source) or hasattr(source, "__required_keys__"):
                return self._refer(source, self._of_typed_dict)
            if issubclass(source, enum.Enum):
                return {"enum": [member.value for member in source]}
            model = getattr(source, "model_json_schema", None) or getattr(source, "schema", None)
            if callable(model):
                return self._refer(source, lambda cls: {"$id": f"urn:llgx:{id(cls)}", **model()})
            raise ForeignType(source.__name__)
        supertype = getattr(source, "__supertype__", None)  # NewType
        if supertype is not None:
            return self.of(supertype)
        value = getattr(source, "__value__", None)  # type X = ...
        if value is not None:
            return self.of(value)
        raise ForeignType(repr(source))

    def _of_generic(self, source: Any, origin: Any, args: tuple[Any, ...]) -> dict[str, Any]:
        if origin is typing.Literal or getattr(origin, "_name", None) == "Literal":
            return {"enum": [arg.value if isinstance(arg, enum.Enum) else arg for arg in args]}
        if origin is typing.Union or origin is types.UnionType:
            return {"anyOf": [self.of(arg) for arg in args]}
        if origin is typing.Annotated:
            if len(args) > 1 and any(not isinstance(note, str) for note in args[1:]):
                raise ForeignType(repr(source))
            return self.of(args[0])
        if getattr(origin, "_name", None) in _WRAPPERS:
            return self.of(args[0])
        if origin in _LISTS:
            return {"type": "array", "items": self.of(args[0])}
        if origin in _SETS:
            return {"type": "array", "items": self.of(args[0]), "uniqueItems": True}
        if origin is tuple:
            if len(args) == 2 and args[1] is Ellipsis:
                return {"type": "array", "items": self.of(args[0])}
            items = [] if args == ((),) else [self.of(arg) for arg in args]
            return {
                "type": "array",
                "prefixItems": items,
                "items": False,
                "minItems": len(items),
            }
        if origin in _MAPPINGS:
            names = {} if args[0] in (str, Any) else {"propertyNames": self.of(args[0])}
            return {"type": "object", **names, "additionalProperties": self.of(args[1])}
        raise ForeignType(repr(source))

    def _refer(self, source: type, make: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        name = self._names.get(source)
        if name is None:
            name = source.__name__
            while name in self.definitions:
                name += "_"
            self._names[source] = name
            self.definitions[name] = {}
            self.definitions[name] = make(source)
        return {"$ref": f"#/$defs/{name}"}

    def _of_dataclass(self, source: Any) -> dict[str, Any]:
        hints = typing.get_type_hints(source, include_extras=True)
        fields = [field for field in dataclasses.fields(source) if field.init]
        missing = dataclasses.MISSING
        required = [
            field.name
            for field in fields
            if field.default is missing and field.default_factory is missing
        ]
        return self._object({field.name: hints[field.name] for field in fields}, required)

    def _of_typed_dict(self, source: Any) -> dict[str, Any]:
        hints = typing.get_type_hints(source, include_extras=True)
        optional = set(source.__optional_keys__)
        for name, hint in hints.items():  # what the class does not see in quoted annotations
            kind = getattr(typing.get_origin(hint), "_name", None)
            if kind == "NotRequired":
                optional.add(name)
            elif kind == "Required":
                optional.discard(name)
        return self._object(hints, [name for name in hints if name not in optional])

    def _object(self, hints: dict[str, Any], required: list[str]) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {name: self.of(hint) for name, hint in hints.items()},
            "required": required,
            "additionalProperties": False,
        }
