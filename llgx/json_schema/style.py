"""How the structure of JSON text is spelled under given options: terminals and what stands between.

A :class:`Style` makes each terminal once and keeps it for later compilations: keys, the commas
before them, brackets, plain strings and numbers. White space stands in the gaps between lexemes as
a skip terminal, except where literals of structure are merged into one lexeme (``"key" :``, and
where nothing else can follow a value, ``, "key" :``): fewer lexemes are fewer rows. With an indent
there is no skip terminal, and the gaps are symbols whose lines depend on the depth.

Making a style costs about 50 µs; styles are kept by their options.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Sequence
from typing import Final

from llgx import ir
from llgx._language import Language
from llgx.errors import GrammarError
from llgx.json_schema.numbers import UNIQUE_NUMBERS, NumberSet, NumberSpelling
from llgx.json_schema.options import DEFAULT_OPTIONS, Options
from llgx.json_schema.quoting import StringSpelling
from llgx.json_schema.strings import StringSet
from llgx.regex import parse_rust
from llgx.regex.build import alternate, concat, intersect, repeat

__all__ = ["KEPT_KEYS", "Style", "literal_name"]

_SPACE: Final = ir.ByteSet(sum(1 << byte for byte in b" \t\n\r"))
_SPACES: Final = ir.Repeat(_SPACE, 0, None)
_QUOTE: Final = ir.Literal(b'"')
KEPT_KEYS: Final = 8_192  # key terminals of one style, about 1 KB each
_KEPT_SCALARS: Final = 512  # in use, and as many from before
_NAME_LENGTH: Final = 60
_SHOWN: Final = 4


def literal_name(literals: list[str]) -> str:
    """How messages speak of a terminal that is one of ``literals``."""
    name = " | ".join(literals[:_SHOWN])
    if len(name) > _NAME_LENGTH:
        return name[:_NAME_LENGTH] + "…"
    return name if len(literals) <= _SHOWN else f"{name} | …"


class Style:
    """The terminals of structure and of frequent scalars for one set of options. Get it by
    :meth:`of`.

    ``skip`` is the terminal for white space, or None. ``unit`` is the text of one indent, or None
    for no lines. ``deep`` says whether the text of a gap depends on the depth.
    """

    def __init__(self, options: Options) -> None:
        self.strings: StringSpelling = options.strings
        self.numbers: NumberSpelling = options.numbers
        self.unit: bytes | None = None
        if options.indent is not None:
            unit = options.indent if isinstance(options.indent, str) else " " * options.indent
            self.unit = unit.encode()
        self.deep = bool(self.unit)
        space = None if self.unit is not None else _space(options)
        gap = ir.EPSILON if space is None else repeat(space, 0, 1)
        if space == ir.Repeat(_SPACE, 1, None):
            gap = _SPACES
        self.skip = None if space is None else ir.Terminal("white space", space)
        self.comma_regex = _separator("item_separator", options.item_separator, b",")
        colon = options.key_separator
        if colon is None:
            colon = ":" if self.unit is None else ": "
        self.colon_regex = _separator("key_separator", colon, b":")
        # After the quote of a key, and between a comma and the key, where they are one lexeme.
        self._after_key = _items(concat((gap, self.colon_regex)))
        self._before_key = _items(concat((self.comma_regex, gap)))
        # Whether a key never touches another literal, so that its parts are as flat as can be.
        self._has_gaps = not any(
            isinstance(part, ir.Literal) for part in (self._after_key[0], self._before_key[-1])
        )
        self.comma = ir.Terminal('","', self.comma_regex)
        self.colon = ir.Terminal('":"', self.colon_regex)
        self.open_object = _bracket("{", "open")
        self.close_object = _bracket("}", "close")
        self.open_array = _bracket("[", "open")
        self.open_unique_array = _bracket("[", "open", unique=True)
        self.close_array = _bracket("]", "close")
        self.close_unique_item = (
            _bracket("}", "close", unique=True),
            _bracket("]", "close", unique=True),
        )
        any_string = StringSet.ANY.quoted(self.strings)
        self.string = ir.Terminal("string", any_string)
        self.any_key = ir.Terminal("key", any_string, distinct=True)
        self.number = ir.Terminal("number", NumberSet.ANY.regex(self.numbers))
        self.integer = ir.Terminal("integer", NumberSet.INTEGERS.regex(self.numbers))
        self.boolean = ir.Terminal(
            "boolean", ir.Alternation((ir.Literal(b"true"), ir.Literal(b"false")))
        )
        self.null = ir.Terminal('"null"', ir.Literal(b"null"))
        self.boolean_or_null = ir.Terminal(
            "null | false | true",
            ir.Alternation((ir.Literal(b"null"), ir.Literal(b"false"), ir.Literal(b"true"))),
        )
        # What nearly every grammar of this style holds.
        self.common: tuple[ir.Regex, ...] = (
            *(part for part in (*self._before_key, *self._after_key)),
            *(
                terminal.regex
                for terminal in (
                    *(() if self.skip is None else (self.skip,)),
                    self.comma,
                    self.colon,
                    self.open_object,
                    self.close_object,
                    self.open_array,
                    self.close_array,
                    self.string,
                    self.number,
                    self.integer,
                    self.boolean,
                    self.null,
                    self.boolean_or_null,
                )
            ),
        )
        self._options = options
        self._plain = self.strings == DEFAULT_OPTIONS.strings
        # What stands between the quotes, where every character has one spelling.
        self.string_body: ir.Regex | None = None
        if self._plain and isinstance(any_string, ir.Concat) and len(any_string.items) == 3:
            self.string_body = any_string.items[1]
        # What stands before a key with a comma and after one with a colon, each in parts. None
        # where names take more than one spelling, or the parts do not stay what they are.
        self.key_parts: tuple[tuple[ir.Regex, ...], tuple[ir.Regex, ...]] | None = None
        if self._plain and self._has_gaps:
            self.key_parts = (self._before_key, self._after_key)
        # Keys by name, and whether a comma is before them and a colon after them.
        self.keys: dict[tuple[str, bool, bool], ir.Terminal] = {}
        # Constrained scalars by the set, and by the values of their keywords. Of the sets the last
        # ones used are kept: some formats take milliseconds to spell.
        self._scalars: dict[StringSet | NumberSet, ir.Terminal] = {}
        self._older_scalars: dict[StringSet | NumberSet, ir.Terminal] = {}
        self.bounds: dict[tuple[object, ...], ir.Terminal] = {}
        # What each plain schema begins with, to be found in one place.
        self.plain = (
            self.keys,
            self.bounds,
            self.string_body,
            self.key_parts,
            self.comma,
            self.open_object,
            self.close_object,
            self.open_array,
            self.close_array,
        )

    @staticmethod
    def of(options: Options) -> Style:
        """The style of ``options``; raises ``ValueError`` for a regex among them that is none."""
        # The defaults need no hashing field by field.
        return _default_style() if options is DEFAULT_OPTIONS else _style(options)

    @property
    def unique(self) -> Style:
        """The same, but with one text only for each number and string."""
        return _style(
            dataclasses.replace(self._options, numbers=UNIQUE_NUMBERS, strings=StringSpelling())
        )

    def quoted(self, name: str) -> ir.Regex:
        """The texts of the string ``name``, quotes included."""
        # The frequent case by hand: printable ASCII has one spelling.
        if self._plain and name.isascii() and name.isprintable() and not _needs_escape(name):
            return ir.Literal(b'"%b"' % name.encode())
        return StringSet.of((name,)).quoted(self.strings)

    def key(self, name: str, comma: bool, colon: bool) -> ir.Terminal:
        """The key ``name``, with what separates it from the member before and from its value."""
        at = (name, comma, colon)
        found = self.keys.get(at)
        if found is not None:
            return found
        text = self.quoted(name)
        # By hand, since this makes most of the terminals of most grammars.
        parts = [text]
        if comma:
            parts = [*self._before_key, text]
        if colon:
            parts += self._after_key
        if len(parts) > 1:
            regex = ir.Concat(tuple(parts)) if self._has_gaps else concat(parts)
        else:
            regex = text
        shown = f'"{name}"' if isinstance(text, ir.Literal) else json.dumps(name)
        found = ir.Terminal(literal_name([shown]), regex)
        if len(self.keys) >= KEPT_KEYS:
            self.keys.clear()
        self.keys[at] = found
        return found

    def distinct_key(self, names: StringSet) -> ir.Terminal:
        """A key out of ``names``, of which an object has each once at the most."""
        if names.is_any:
            return self.any_key
        excluded = names.excluded
        if excluded is None or self.string_body is None:
            return ir.Terminal("key", names.quoted(self.strings), distinct=True)
        return self.other_key(sorted(excluded))

    def other_key(self, excluded: Sequence[str]) -> ir.Terminal:
        """Every key but ``excluded``, which are sorted, and each once at the most.

        This is what nearly every object allows, so it is put together by hand.
        """
        if self.string_body is None:
            names = StringSet.of(excluded).complement()
            return ir.Terminal("key", names.quoted(self.strings), distinct=True)
        words: list[ir.Regex] = []
        for name in excluded:
            word = self.quoted(name)
            assert isinstance(word, ir.Literal)
            words.append(ir.Literal(word.data[1:-1]))
        left_out = words[0] if len(words) == 1 else ir.Alternation(tuple(words))
        rest = ir.Intersection((self.string_body, ir.Complement(left_out)))
        return ir.Terminal("key", ir.Concat((_QUOTE, rest, _QUOTE)), distinct=True)

    def choice(self, values: Sequence[str]) -> ir.Terminal:
        """One of the strings ``values``, which are sorted."""
        shown = [json.dumps(value, ensure_ascii=False) for value in values[: _SHOWN + 1]]
        return ir.Terminal(literal_name(shown), alternate([self.quoted(value) for value in values]))

    def string_of(self, strings: StringSet) -> ir.Terminal:
        """A string out of ``strings``."""
        if strings.is_any:
            return self.string
        found = self._kept(strings)
        if found is None:
            found = self._keep(strings, ir.Terminal("string", strings.quoted(self.strings)))
        return found

    def number_of(self, numbers: NumberSet) -> ir.Terminal:
        """A number out of ``numbers``."""
        if numbers.is_any:
            return self.number
        found = self._kept(numbers)
        if found is None:
            if numbers == NumberSet.INTEGERS:
                return self.integer
            found = self._keep(numbers, ir.Terminal("number", numbers.regex(self.numbers)))
        return found

    def _kept(self, key: StringSet | NumberSet) -> ir.Terminal | None:
        found = self._scalars.get(key)
        if found is None:
            found = self._older_scalars.get(key)
            if found is not None:
                self._keep(key, found)
        return found

    def _keep(self, key: StringSet | NumberSet, terminal: ir.Terminal) -> ir.Terminal:
        if len(self._scalars) >= _KEPT_SCALARS:
            # What is not asked for until the next time is gone then.
            self._older_scalars, self._scalars = self._scalars, {}
        self._scalars[key] = terminal
        return terminal


@functools.cache
def _default_style() -> Style:
    return _style(DEFAULT_OPTIONS)


@functools.lru_cache(maxsize=64)
def _style(options: Options) -> Style:
    return Style(options)


def _items(regex: ir.Regex) -> tuple[ir.Regex, ...]:
    return regex.items if isinstance(regex, ir.Concat) else (regex,)


def _bracket(sign: str, scope: str, unique: bool = False) -> ir.Terminal:
    return ir.Terminal(f'"{sign}"', ir.Literal(sign.encode()), scope=scope, unique=unique)


def _needs_escape(name: str) -> bool:
    return '"' in name or "\\" in name


def _space(options: Options) -> ir.Regex | None:
    """What may stand in a gap, at least one byte of it; None for nothing."""
    whitespace = options.whitespace
    if whitespace == "flexible":
        return ir.Repeat(_SPACE, 1, None)
    if whitespace in ("compact", "", 0):
        return None
    if isinstance(whitespace, int):
        return ir.Repeat(_SPACE, 1, whitespace)
    space = intersect((_regex("whitespace", whitespace), _SPACES))
    if not isinstance(space, ir.Repeat) and Language((space,)).is_empty((0,)):
        raise ValueError(f"option whitespace: {whitespace!r} matches no JSON white space")
    return intersect((space, ir.Repeat(_SPACE, 1, None)))


def _separator(name: str, text: str, sign: bytes) -> ir.Regex:
    """The separator ``text``, a regex, as far as it is ``sign`` with white space around it.

    The rest of what it matches would not be JSON, and could run into keys and strings.
    """
    if text.encode() == sign:
        return ir.Literal(sign)
    regex = _regex(name, text)
    if isinstance(regex, ir.Literal) and regex.data.strip(b" \t\n\r") == sign:
        return regex
    regex = intersect((regex, concat((_SPACES, ir.Literal(sign), _SPACES))))
    if Language((regex,)).is_empty((0,)):
        raise ValueError(f"option {name}: {text!r} does not match {sign.decode()!r}")
    return regex


def _regex(name: str, text: str) -> ir.Regex:
    try:
        return parse_rust(text)
    except GrammarError as error:
        raise ValueError(f"option {name}: {error}") from None
