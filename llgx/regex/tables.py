"""Unicode properties by name, and simple case folding.

Everything comes from one table, of the version :data:`llgx.regex.tables.VERSION`, whatever the
version of Python. It is inflated on first use (about 1 ms); a property is decoded the first time
that it is asked for (below 1 ms).
"""

from __future__ import annotations

import base64
import functools
import zlib
from typing import Final

from llgx.regex import charset
from llgx.regex._unicode_tables import DATA, VERSION
from llgx.regex.charset import CharSet

__all__ = [
    "ASCII_CLASSES",
    "ASCII_DIGIT",
    "ASCII_SPACE",
    "ASCII_WORD",
    "VERSION",
    "digit",
    "ecma_property",
    "fold",
    "fold_ascii",
    "loose_property",
    "property_names",
    "space",
    "word",
]

ASCII_DIGIT: Final[CharSet] = ((0x30, 0x39),)
ASCII_WORD: Final[CharSet] = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
ASCII_SPACE: Final[CharSet] = ((0x09, 0x0D), (0x20, 0x20))

ASCII_CLASSES: Final[dict[str, CharSet]] = {
    "alnum": ((0x30, 0x39), (0x41, 0x5A), (0x61, 0x7A)),
    "alpha": ((0x41, 0x5A), (0x61, 0x7A)),
    "ascii": ((0x00, 0x7F),),
    "blank": ((0x09, 0x09), (0x20, 0x20)),
    "cntrl": ((0x00, 0x1F), (0x7F, 0x7F)),
    "digit": ASCII_DIGIT,
    "graph": ((0x21, 0x7E),),
    "lower": ((0x61, 0x7A),),
    "print": ((0x20, 0x7E),),
    "punct": ((0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E)),
    "space": ASCII_SPACE,
    "upper": ((0x41, 0x5A),),
    "word": ASCII_WORD,
    "xdigit": ((0x30, 0x39), (0x41, 0x46), (0x61, 0x66)),
}

_KINDS: Final = {
    "General_Category": "gc",
    "gc": "gc",
    "Script": "sc",
    "sc": "sc",
    "Script_Extensions": "scx",
    "scx": "scx",
}

# Properties of all characters of a kind that the table need not spell out.
_COMPUTED: Final[dict[str, CharSet]] = {"Any": charset.ALL, "ASCII": ((0x00, 0x7F),)}


@functools.cache
def _rows() -> dict[tuple[str, str], str]:
    """Encoded numbers by kind and by each exact name."""
    rows = {}
    for line in zlib.decompress(base64.b64decode(DATA)).decode().split("\n"):
        kind, names, numbers = line.split("|")
        for name in names.split(","):
            rows[kind, name] = numbers
    return rows


@functools.cache
def _loose_names() -> dict[tuple[str, str], str]:
    """Exact names by kind and loose name."""
    names = {(kind, _loosen(name)): name for kind, name in _rows()}
    names.update((("bin", _loosen(name)), name) for name in (*_COMPUTED, "Assigned"))
    return names


def _loosen(name: str) -> str:
    """``name`` as UAX44-LM3 compares it: no case, white space, ``_``, ``-`` or "is" in front."""
    plain = "".join(char for char in name.lower() if char not in "_- \t\n\r\f\v")
    # ISC is a property name of its own, not "is" and the category C.
    return plain if plain == "isc" else plain.removeprefix("is") or plain


@functools.cache
def _decode(numbers: str) -> CharSet:
    ranges = []
    begin = 0
    values = [int(number, 36) for number in numbers.split()]
    for gap, extra in zip(values[::2], values[1::2], strict=True):
        begin += gap
        ranges.append((begin, begin + extra))
        begin += extra + 1
    return tuple(ranges)


def _exact(kind: str, name: str) -> CharSet | None:
    if kind == "bin" and name in _COMPUTED:
        return _COMPUTED[name]
    if kind == "bin" and name == "Assigned":
        return charset.negate(_decode(_rows()["gc", "Cn"]))
    numbers = _rows().get((kind, name))
    return None if numbers is None else _decode(numbers)


def loose_property(name: str, value: str | None = None) -> CharSet | None:
    """The set that ``\\p{name}`` or ``\\p{name=value}`` denotes in Rust's dialect, or None.

    Names are compared loosely (UAX #44, LM3). A name alone is a general category, a script or a
    binary property.
    """
    names = _loose_names()
    if value is None:
        loose = _loosen(name)
        for kind in ("gc", "sc", "bin"):
            exact = names.get((kind, loose))
            if exact is not None and not exact.startswith("."):
                return _exact(kind, exact)
        return None
    kinds = {_loosen(key): kind for key, kind in _KINDS.items()}
    kind = kinds.get(_loosen(name), "")
    exact = names.get((kind, _loosen(value)))
    return None if exact is None else _exact(kind, exact)


def property_names() -> set[str]:
    """The names that properties and their values have, short and long ones."""
    names = {name for _, name in (*_rows(), *(("", name) for name in _COMPUTED))}
    return {name for name in names if not name.startswith(".")}.union(_KINDS)


def ecma_property(name: str, value: str | None = None) -> CharSet | None:
    """The set that ``\\p{name}`` or ``\\p{name=value}`` denotes in ECMA-262, or None.

    Names are exact. A name alone is a general category or a binary property.
    """
    if value is not None:
        return _exact(_KINDS.get(name, ""), value)
    if name.startswith("."):
        return None
    found = _exact("gc", name)
    return _exact("bin", name) if found is None else found


def word() -> CharSet:
    """Unicode ``\\w``: UTS #18, Annex C."""
    return _decode(_rows()["bin", ".word"])


def digit() -> CharSet:
    """Unicode ``\\d``: decimal digits."""
    return _decode(_rows()["gc", "Nd"])


def space() -> CharSet:
    """Unicode ``\\s``: White_Space."""
    return _decode(_rows()["bin", "White_Space"])


@functools.cache
def _fold_classes() -> tuple[dict[int, CharSet], CharSet]:
    """The class of each code point that folds with others, and the set of all those."""
    classes: dict[int, CharSet] = {}
    for item in _rows()["fold", ""].split():
        points = [int(number, 36) for number in item.split("-")]
        members = charset.make((point, point) for point in points)
        classes.update((point, members) for point in points)
    return classes, charset.make((point, point) for point in classes)


@functools.lru_cache(maxsize=1024)
def fold(members: CharSet) -> CharSet:
    """``members`` with everything that has the simple case folding of one of them.

    Status C and S of CaseFolding.txt, so one character for one, and not the Turkic i.
    """
    if members == charset.ALL:
        return members
    classes, cased = _fold_classes()
    extra: list[tuple[int, int]] = []
    for low, high in charset.intersect(members, cased):
        for point in range(low, high + 1):
            extra += classes[point]
    return charset.make([*members, *extra]) if extra else members


def fold_ascii(members: CharSet) -> CharSet:
    """``members`` with the other case of its ASCII letters."""
    lower = charset.intersect(members, ((0x61, 0x7A),))
    upper = charset.intersect(members, ((0x41, 0x5A),))
    return charset.union(members, _shift(lower, -0x20), _shift(upper, 0x20))


def _shift(members: CharSet, by: int) -> CharSet:
    return tuple((low + by, high + by) for low, high in members)
