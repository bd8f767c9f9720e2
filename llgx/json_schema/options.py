"""What a caller may ask of a JSON Schema grammar, in one frozen object.

The defaults accept what llguidance accepts by default, and every option widens or narrows the
*texts* of a value, never the set of values: that is the schema's business. ``x-guidance`` at the
root of a schema sets options by llguidance's names; what the caller sets wins over it.

Options are hashable: what an emitter derives from them is kept between compilations.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any, Final

from llgx.errors import SchemaError
from llgx.json_schema.numbers import NumberSpelling
from llgx.json_schema.quoting import StringSpelling

__all__ = ["DEFAULT_OPTIONS", "Options", "options_of"]

_STRINGS: Final = StringSpelling()
_NUMBERS: Final = NumberSpelling()
_MOST_SPACE: Final = 1_000_000
_DEEPEST_INDENT: Final = 1_000
_PROPERTY_ORDERS: Final = ("schema", "named", "any")
_ON_UNSUPPORTED: Final = ("error", "record")


@dataclasses.dataclass(frozen=True, slots=True)
class Options:
    """How the texts of a grammar made from a JSON Schema look, and how strict compiling is.

    ``whitespace``      what may stand between the tokens of a text, never before the first or after
                        the last: "flexible", any JSON white space; "compact", none; an int, so many
                        bytes of it at the most; any other str, what this regex (in the syntax of
                        Lark grammars) and JSON white space both match.
    ``indent``          an int or a str: exactly the lines that ``json.dumps(indent=…)`` prints.
                        Excludes ``whitespace``.
    ``item_separator``  a regex for what separates items and members, "," by default.
    ``key_separator``   a regex for what separates a key from its value: ":" by default, ": " with
                        ``indent``.
    ``property_order``  "schema": in the order of the schema, then the others; "named": those that
                        the schema names in any order, then the others; "any": in any order.
    ``strings``         spellings of strings and keys (:class:`StringSpelling`).
    ``numbers``         spellings of numbers (:class:`NumberSpelling`).
    ``strict_formats``  an unknown ``format`` is an error, not an annotation.
    ``ignored_formats`` names of formats that are annotations and constrain nothing: a list, tuple
                        or set of str. They are listed in :attr:`llgx.CompiledGrammar.unenforced`.
    ``on_unsupported``  "error" refuses a schema with a keyword that cannot be enforced, "record"
                        lists it in :attr:`llgx.CompiledGrammar.unenforced`.
    ``coerce_one_of``   ``oneOf`` is read as ``anyOf``.
    ``lenient``         as ``on_unsupported="record"`` and ``coerce_one_of`` together.
    ``resources``       other documents that references may lead to, by URI.

    Raises ``TypeError`` or ``ValueError`` for a value that is none.
    """

    whitespace: str | int = "flexible"
    indent: int | str | None = None
    item_separator: str = ","
    key_separator: str | None = None
    property_order: str = "schema"
    strings: StringSpelling = _STRINGS
    numbers: NumberSpelling = _NUMBERS
    strict_formats: bool = False
    ignored_formats: Collection[str] = frozenset()
    on_unsupported: str = "error"
    coerce_one_of: bool = False
    lenient: bool = False
    resources: Mapping[str, Any] = dataclasses.field(
        default_factory=dict, hash=False, compare=False
    )

    def __post_init__(self) -> None:
        for name, types in _TYPES.items():
            value = getattr(self, name)
            if type(value) not in types:
                expected = " or ".join(kind.__name__ for kind in types if kind is not type(None))
                raise TypeError(f"option {name} is {expected}, not {type(value).__name__}")
        names = frozenset(self.ignored_formats)
        if not all(isinstance(name, str) for name in names):
            raise TypeError("option ignored_formats holds names of formats")
        object.__setattr__(self, "ignored_formats", names)
        _check_range("whitespace", self.whitespace, _MOST_SPACE)
        _check_range("indent", self.indent, _DEEPEST_INDENT)
        if isinstance(self.indent, str) and self.indent.strip(" \t\n\r"):
            raise ValueError(f"option indent is white space, not {self.indent!r}")
        if self.indent is not None and self.whitespace != "flexible":
            raise ValueError("options indent and whitespace exclude each other")
        if self.property_order not in _PROPERTY_ORDERS:
            raise ValueError(_choice("property_order", self.property_order, _PROPERTY_ORDERS))
        if self.on_unsupported not in _ON_UNSUPPORTED:
            raise ValueError(_choice("on_unsupported", self.on_unsupported, _ON_UNSUPPORTED))
        if not self.item_separator or self.key_separator == "":
            raise ValueError("a separator cannot be empty")
        if not isinstance(self.resources, Mapping):
            raise TypeError(
                f"option resources is a mapping of URIs, not {type(self.resources).__name__}"
            )

    @property
    def records(self) -> bool:
        """Whether what cannot be enforced is listed and no error."""
        return self.lenient or self.on_unsupported == "record"

    @property
    def one_is_any(self) -> bool:
        """Whether ``oneOf`` is read as ``anyOf``."""
        return self.lenient or self.coerce_one_of

    def over(self, guidance: object, pointer: str = "/x-guidance") -> Options:
        """These options, and where they say nothing those of ``guidance``, an ``x-guidance`` value.

        Raises :class:`SchemaError` for a name that llguidance does not have either, and for a value
        that is none.
        """
        if not isinstance(guidance, Mapping):
            raise SchemaError("has to be an object", pointer=pointer, keyword="x-guidance")
        changes: dict[str, Any] = {}
        for name, value in guidance.items():
            types = _GUIDANCE.get(name)
            if types is None:
                raise SchemaError(
                    f"no option {name!r}; there are {', '.join(sorted(_GUIDANCE))}",
                    pointer=f"{pointer}/{name}",
                    keyword="x-guidance",
                )
            if type(value) not in types:
                expected = {bool: "a boolean", str: "a string"}[types[0]]
                raise SchemaError(
                    f"has to be {expected}", pointer=f"{pointer}/{name}", keyword="x-guidance"
                )
            changes.update(_translated(name, value, guidance))
        if "json_allowed_escapes" in guidance or "json_allow_general_unicode_escapes" in guidance:
            changes["strings"] = _string_spelling(guidance, pointer)
        kept = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if getattr(self, field.name) != getattr(DEFAULT_OPTIONS, field.name)
        }
        if "indent" in kept:
            changes.pop("whitespace", None)
        try:
            return dataclasses.replace(self, **{**changes, **kept})
        except (TypeError, ValueError) as error:
            raise SchemaError(str(error), pointer=pointer, keyword="x-guidance") from None

    def guidance(self) -> dict[str, Any]:
        """What differs from the defaults, as an ``x-guidance`` value.

        Raises ``ValueError`` for an option that llguidance has no name for.
        """
        result: dict[str, Any] = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value == getattr(DEFAULT_OPTIONS, field.name):
                continue
            if field.name == "whitespace":
                if value in ("compact", 0):
                    result["whitespace_flexible"] = False
                elif isinstance(value, int):
                    result["whitespace_pattern"] = f"[ \\t\\n\\r]{{1,{value}}}"
                else:
                    result["whitespace_pattern"] = value
            elif field.name == "strings" and not self.strings.control_escapes:
                result["json_allowed_escapes"] = self.strings.escapes
                result["json_allow_general_unicode_escapes"] = self.strings.unicode_escapes
            elif field.name in _GUIDANCE:
                result[field.name] = value
            else:
                raise ValueError(f"option {field.name} cannot be said in the text of a grammar")
        return result


_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "whitespace": (str, int),
    "indent": (int, str, type(None)),
    "item_separator": (str,),
    "key_separator": (str, type(None)),
    "property_order": (str,),
    "strings": (StringSpelling,),
    "numbers": (NumberSpelling,),
    "strict_formats": (bool,),
    "ignored_formats": (frozenset, set, list, tuple),
    "on_unsupported": (str,),
    "coerce_one_of": (bool,),
    "lenient": (bool,),
}

_GUIDANCE: Final[dict[str, tuple[type, ...]]] = {
    "item_separator": (str,),
    "key_separator": (str,),
    "whitespace_flexible": (bool,),
    "whitespace_pattern": (str, type(None)),
    "coerce_one_of": (bool,),
    "lenient": (bool,),
    "json_allowed_escapes": (str, type(None)),
    "json_allow_general_unicode_escapes": (bool,),
}


def _translated(name: str, value: Any, guidance: Mapping[str, Any]) -> dict[str, Any]:
    """The options that one entry of ``x-guidance`` sets."""
    if name == "whitespace_flexible":
        return {} if value or guidance.get("whitespace_pattern") else {"whitespace": "compact"}
    if name == "whitespace_pattern":
        return {"whitespace": f"(?:{value})"} if value else {}
    if name.startswith("json_"):
        return {}
    return {name: value}


def _string_spelling(guidance: Mapping[str, Any], pointer: str) -> StringSpelling:
    escapes = guidance.get("json_allowed_escapes")
    general = bool(guidance.get("json_allow_general_unicode_escapes"))
    if escapes is None:
        return StringSpelling(unicode_escapes=general)
    try:
        return StringSpelling(escapes=escapes, unicode_escapes=general)
    except ValueError as error:
        place = f"{pointer}/json_allowed_escapes"
        raise SchemaError(str(error), pointer=place, keyword="x-guidance") from None


def _check_range(name: str, value: object, most: int) -> None:
    if isinstance(value, int) and not 0 <= value <= most:
        raise ValueError(f"option {name} is 0 to {most}, not {value}")


def _choice(name: str, value: str, choices: tuple[str, ...]) -> str:
    return f"option {name} is {' or '.join(map(repr, choices))}, not {value!r}"


DEFAULT_OPTIONS: Final = Options()


def options_of(names: Mapping[str, Any]) -> Options:
    """Options by name: the fields of :class:`Options`, or the names that ``x-guidance`` has.

    Raises ``TypeError`` for another name, ``TypeError`` or ``ValueError`` for a value that is none.
    """
    if not names:
        return DEFAULT_OPTIONS
    fields = {field.name for field in dataclasses.fields(Options)}
    own = {name: value for name, value in names.items() if name in fields}
    others = {name: value for name, value in names.items() if name not in fields}
    for name in others:
        if name not in _GUIDANCE:
            raise TypeError(f"no option {name!r}; there are {', '.join(sorted(fields))}")
    options = Options(**own)
    if others:
        try:
            options = options.over(others)
        except SchemaError as error:
            raise ValueError(f"option {error.pointer.rpartition('/')[2]} {error.message}") from None
    return options
