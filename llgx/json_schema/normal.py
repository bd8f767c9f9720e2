"""The normal form of a JSON Schema: a disjunction of groups of one JSON type each.

A :class:`Schema` is a handle of a set of JSON values. Handles are interned by the
:class:`~llgx.json_schema.algebra.Algebra` they belong to and compare by identity; what they stand
for is worked out when :attr:`Schema.groups` is first read, one level at a time: the schemas of
items and members inside a group are handles again.

Invariants of the groups that :attr:`Schema.groups` returns: each one has a value; names that
neither ``members`` nor ``cells`` of an object cover are not allowed in it; an item or member that
no value fits is left out (an array ends before such a place); a child that is empty appears
only as the ``rest`` of an array, and there ``is_never`` is true. A value may belong to several
groups. The nodes are immutable and compare by content.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from llgx.json_schema.algebra import Algebra
    from llgx.json_schema.numbers import NumberSet
    from llgx.json_schema.strings import StringSet

__all__ = [
    "ArrayGroup",
    "BoolGroup",
    "Cell",
    "Counted",
    "Group",
    "Member",
    "NullGroup",
    "NumberGroup",
    "ObjectGroup",
    "Place",
    "PlainPart",
    "Schema",
    "Some",
    "StringGroup",
    "pointer_of",
]

# A place in a document: the place above it and the token below that; None is the root.
Place: TypeAlias = "tuple[Place | str | None, str | int] | str | None"


def pointer_of(place: Place) -> str:
    """The JSON pointer of ``place``: linear in its depth."""
    tokens: list[str] = []
    while isinstance(place, tuple):
        token = place[1]
        if isinstance(token, str):
            token = token.replace("~", "~0").replace("/", "~1")
        tokens.append(f"/{token}")
        place = place[0]
    if place:
        tokens.append(f"{place}#")
    return "".join(reversed(tokens))


@dataclasses.dataclass(frozen=True, slots=True)
class NullGroup:
    """``null``."""


@dataclasses.dataclass(frozen=True, slots=True)
class BoolGroup:
    """``true``, ``false`` or both."""

    values: frozenset[bool]


@dataclasses.dataclass(frozen=True, slots=True)
class NumberGroup:
    """The numbers of a set."""

    numbers: NumberSet


@dataclasses.dataclass(frozen=True, slots=True)
class StringGroup:
    """The strings of a set."""

    strings: StringSet


@dataclasses.dataclass(frozen=True, slots=True)
class Counted:
    """From place ``start`` on, ``low`` to ``high`` items belong to ``schema``."""

    schema: Schema
    low: int
    high: int | None
    start: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class ArrayGroup:
    """Arrays of ``low`` to ``high`` items, the first ones from ``prefix`` and then from ``rest``.

    ``prefix`` is never longer than ``high``. With ``unique`` no two items are equal, with
    ``duplicate`` at least two are.
    """

    prefix: tuple[Schema, ...]
    rest: Schema
    low: int = 0
    high: int | None = None
    counted: tuple[Counted, ...] = ()
    unique: bool = False
    duplicate: bool = False
    _hash: int = dataclasses.field(default=0, init=False, repr=False, compare=False)

    def __hash__(self) -> int:
        if not self._hash:
            parts = (self.prefix, self.rest, self.low, self.high, self.counted)
            object.__setattr__(self, "_hash", hash((*parts, self.unique, self.duplicate)) or 1)
        return self._hash


@dataclasses.dataclass(frozen=True, slots=True)
class Member:
    """The values that the member ``name`` may have, if it is there."""

    name: str
    schema: Schema


@dataclasses.dataclass(frozen=True, slots=True)
class Cell:
    """The values that each member with one of ``names`` may have."""

    names: StringSet
    schema: Schema


@dataclasses.dataclass(frozen=True, slots=True)
class Some:
    """At least one member has one of ``names`` and a value from ``schema``."""

    names: StringSet
    schema: Schema


@dataclasses.dataclass(frozen=True, slots=True)
class ObjectGroup:
    """Objects of ``low`` to ``high`` members.

    ``members`` stand in the order of the schema; those that are ``unlisted``, which no
    ``properties`` names, come after all others. The names of the cells are disjoint from one
    another and from the members. ``required`` names are all among the members.
    """

    members: tuple[Member, ...] = ()
    cells: tuple[Cell, ...] = ()
    required: frozenset[str] = frozenset()
    some: tuple[Some, ...] = ()
    low: int = 0
    high: int | None = None
    unlisted: frozenset[str] = frozenset()
    _hash: int = dataclasses.field(default=0, init=False, repr=False, compare=False)

    def __hash__(self) -> int:
        if not self._hash:
            # The order of members is part of the group.
            parts = (self.members, self.cells, self.required, self.some, self.low, self.high)
            object.__setattr__(self, "_hash", hash(parts) or 1)
        return self._hash


Group: TypeAlias = NullGroup | BoolGroup | NumberGroup | StringGroup | ArrayGroup | ObjectGroup

# The types of groups in the order in which a normal form lists them, and their bits.
TYPES: Final = (NullGroup, BoolGroup, NumberGroup, StringGroup, ArrayGroup, ObjectGroup)
TYPE_BITS: Final = {kind: 1 << index for index, kind in enumerate(TYPES)}
ALL_TYPES: Final = 63
STRUCTURES: Final = 48  # arrays and objects
OBJECTS: Final = 32

KIND_ANY: Final = 0
KIND_NEVER: Final = 1
KIND_LEAF: Final = 2  # parts: groups
KIND_AND: Final = 3  # parts: schemas
KIND_OR: Final = 4  # parts: schemas
KIND_NOT: Final = 5  # parts: (schema,)
KIND_ONE: Final = 6  # parts: schemas, of which exactly one holds
KIND_NAMES: Final = 7  # parts: (schema of the names of members,)
KIND_NAME: Final = 8  # parts: () and then (schema,): a reference into what is being translated


class Schema:
    """A set of JSON values: see the module. Made by an :class:`Algebra` only.

    ``place`` is where in the document it was first met, for messages.
    """

    __slots__ = ("algebra", "dual", "final", "inhabited", "kind", "parts", "place", "raw", "types")

    def __init__(
        self,
        algebra: Algebra,
        kind: int,
        parts: tuple[Any, ...],
        place: Place = None,
        types: int = ALL_TYPES,
    ) -> None:
        self.algebra = algebra
        self.kind = kind
        self.parts = parts
        self.place = place
        # What it may hold at the most, as bits in the order of the groups above.
        self.types = types
        self.raw: tuple[Group, ...] | None = None
        self.final: tuple[Group, ...] | None = None
        self.inhabited: bool | None = None
        self.dual: Schema | None = None

    @property
    def groups(self) -> tuple[Group, ...]:
        """The normal form; ``()`` when the schema has no value.

        Raises :class:`~llgx.errors.LimitError` when the budget of the algebra is spent.
        """
        if self.final is None:
            return self.algebra.groups_of(self)
        return self.final

    @property
    def is_any(self) -> bool:
        """Whether this is every JSON value, as far as the normal form shows."""
        return self.kind == KIND_ANY or self.groups == self.algebra.any.groups

    @property
    def is_never(self) -> bool:
        """Whether no value belongs to it (exact)."""
        return self.kind == KIND_NEVER or self.algebra.is_empty(self)

    @property
    def pointer(self) -> str:
        """JSON pointer of the place in the document that it comes from."""
        return pointer_of(self.place)

    def __repr__(self) -> str:
        names = ("any", "never", "leaf", "and", "or", "not", "one", "names", "name")
        return f"<Schema {names[self.kind]} at {self.pointer or '/'} ({id(self):#x})>"


class PlainPart(Schema):
    """A member or item that has its rules already, by the short way (:mod:`._plain`).

    It is a reference to what the part of the document at ``place`` is translated into, which
    happens when somebody looks: as long as nothing is met with it, nobody does. Equal parts are one
    handle. ``symbol(merged)`` derives its values, for either setting of ``Emitter.merged``.
    """

    __slots__ = ("_found", "_translate", "symbol")

    def __init__(
        self,
        algebra: Algebra,
        place: Place,
        symbol: Callable[[bool], Any],
        translate: Callable[[], Schema],
    ) -> None:
        self._found: tuple[Schema, ...] = ()
        super().__init__(algebra, KIND_NAME, (), place)
        self.symbol = symbol
        self._translate = translate
        self.inhabited = True

    @property
    def parts(self) -> tuple[Schema, ...]:
        """What it stands for, translated when it is first asked for."""
        if not self._found:
            self._found = (self._translate(),)
        return self._found

    @parts.setter
    def parts(self, parts: tuple[Schema, ...]) -> None:
        self._found = parts

    def let_go(self) -> None:
        """Forget who made it: nothing is asked of it any more."""
        del self.symbol, self._translate
