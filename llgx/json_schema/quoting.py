"""From the content of a string to its JSON text.

Each character has one or more spellings in a JSON string, and no text is spelled by two contents.
So quoting is a substitution: it goes through a regex character by character, keeps ``&`` as it is,
and turns ``~r`` into whatever is a spelling at all and not one of ``r``. Loops over a class of
characters stay loops over an alternative of single characters.

While only ASCII characters are ever escaped, characters and bytes come to the same. With
``unicode_escapes`` the bytes of a character have to be taken together first.

Invariant: the quoted regex matches exactly the allowed spellings of the content that the regex
matches, given that it matches valid UTF-8 only. Cost: linear in the tree.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Final, cast

from llgx import ir
from llgx.json_schema.content import fold
from llgx.regex import charset
from llgx.regex.build import ANYTHING, alternate, concat, intersect, repeat
from llgx.regex.charset import CharSet
from llgx.regex.utf8 import ANY_TEXT, set_regex

__all__ = ["StringSpelling", "quote", "quote_text"]

_SHORT: Final = {
    0x08: "b",
    0x09: "t",
    0x0A: "n",
    0x0C: "f",
    0x0D: "r",
    0x22: '"',
    0x2F: "/",
    0x5C: "\\",
}
# Characters that JSON does not allow as they are.
_FORBIDDEN: Final = (1 << 0x20) - 1 | 1 << 0x22 | 1 << 0x5C
_SPECIAL: Final = frozenset(chr(point) for point in range(128) if _FORBIDDEN >> point & 1)
_ALL_BYTES: Final = (1 << 256) - 1
_QUOTE: Final = ir.Literal(b'"')
_MOST_KEPT: Final = 1_000


@dataclasses.dataclass(frozen=True, slots=True)
class StringSpelling:
    r"""Which texts stand for a character of a string.

    ``escapes`` are the letters that may follow a backslash, ``u`` for control characters without a
    letter of their own that is allowed. With ``control_escapes`` every control character may be
    spelled with ``\u``, in digits of either case. With ``unicode_escapes`` every character may, by
    a pair of surrogates where one does not do. A character without a spelling stands in no string.
    """

    escapes: str = 'bfnrt"\\u'
    control_escapes: bool = False
    unicode_escapes: bool = False

    def __post_init__(self) -> None:
        unknown = set(self.escapes) - set('bfnrt"\\/u')
        if unknown:
            raise ValueError(f"JSON has no escape \\{min(unknown)}")


DEFAULT: Final = StringSpelling()


def quote(tree: ir.Regex, spelling: StringSpelling = DEFAULT) -> ir.Regex:
    """The JSON strings, quotes included, whose content ``tree`` matches."""
    if isinstance(tree, ir.Literal):
        return quote_text(tree.data.decode(), spelling)
    if isinstance(tree, ir.Alternation) and all(isinstance(i, ir.Literal) for i in tree.items):
        return alternate(quote(item, spelling) for item in tree.items)
    return concat((_QUOTE, _Quoter(spelling).body(tree), _QUOTE))


def quote_text(text: str, spelling: StringSpelling = DEFAULT) -> ir.Regex:
    """The JSON strings with the content ``text``."""
    return concat((_QUOTE, _text(text, spelling), _QUOTE))


def _text(text: str, spelling: StringSpelling) -> ir.Regex:
    escapes_slash = "/" in text and "/" in spelling.escapes
    if not spelling.unicode_escapes and not escapes_slash and _SPECIAL.isdisjoint(text):
        return ir.Literal(text.encode())
    return concat([_chars(((ord(char), ord(char)),), spelling) for char in text])


class _Quoter:
    def __init__(self, spelling: StringSpelling) -> None:
        self.spelling = spelling
        self.code = _code(spelling)
        self._kept: dict[int, tuple[ir.Regex, tuple[ir.Regex, bool]]] = {}

    def body(self, tree: ir.Regex) -> ir.Regex:
        """The spellings of what ``tree`` matches."""
        if self.spelling.unicode_escapes:
            regex, bounded = fold(_grouped(tree), self._visit)
        else:
            # The alternatives of characters are shared by all trees: see llgx.regex.utf8.
            self._kept = _kept(self.spelling)
            if len(self._kept) > _MOST_KEPT:
                self._kept.clear()
            regex, bounded = fold(tree, self._visit_bytes, self._kept)
        return regex if bounded else intersect((quoted_any_text(self.spelling), regex))

    def _visit_bytes(
        self, node: ir.Regex, parts: list[tuple[ir.Regex, bool]]
    ) -> tuple[ir.Regex, bool]:
        result = self._visit(node, parts)
        if node is ANY_TEXT or (
            type(node) is ir.Alternation and node.items and type(node.items[0]) is ir.ByteSet
        ):
            self._kept[id(node)] = (node, result)
        return result

    def _visit(self, node: ir.Regex, parts: list[tuple[ir.Regex, bool]]) -> tuple[ir.Regex, bool]:
        """The quoted node, and whether it matches spellings only.

        If not, it is right as far as spellings go. That is enough below ``&``, ``|`` and ``~``.
        """
        # Most are bytes.
        if isinstance(node, ir.Literal):
            try:
                return _text(node.data.decode(), self.spelling), True
            except UnicodeDecodeError:
                return concat([_byte_set(1 << b, self.spelling) for b in node.data]), True
        if isinstance(node, ir.ByteSet):
            return _byte_set(node.mask, self.spelling), True
        if isinstance(node, ir.Complement):
            return ir.Complement(parts[0][0]), False
        if isinstance(node, ir.Intersection):
            return intersect(regex for regex, _ in parts), any(safe for _, safe in parts)
        if isinstance(node, ir.Alternation):
            return alternate(regex for regex, _ in parts), all(safe for _, safe in parts)
        if node == ANYTHING:
            return ANYTHING, False
        items = [regex if safe else intersect((self.code, regex)) for regex, safe in parts]
        if isinstance(node, ir.Concat):
            if node.items and node.items[-1] == ANYTHING:
                # After whole spellings the rest of spelt text is spelt text.
                return concat((*items[:-1], ANYTHING)), False
            return concat(items), True
        if isinstance(node, ir.Repeat):
            return repeat(items[0], node.low, node.high), True
        assert isinstance(node, _Chars), node
        return _chars(node.members, self.spelling), True


@functools.lru_cache(maxsize=64)
def _kept(spelling: StringSpelling) -> dict[int, tuple[ir.Regex, tuple[ir.Regex, bool]]]:
    """Quoted alternatives of single characters by identity, beside what they were made from."""
    return {}


@functools.lru_cache(maxsize=64)
def _code(spelling: StringSpelling) -> ir.Regex:
    """All sequences of spellings, of bytes where the spelling goes by bytes."""
    if spelling.unicode_escapes:
        return quoted_any_text(spelling)
    return repeat(_byte_set(_ALL_BYTES, spelling), 0, None)


@functools.lru_cache(maxsize=64)
def quoted_any_text(spelling: StringSpelling = DEFAULT) -> ir.Regex:
    """The spellings of all texts, without quotes."""
    if spelling.unicode_escapes:
        return repeat(_chars(charset.ALL, spelling), 0, None)
    return fold(ANY_TEXT, _Quoter(spelling)._visit)[0]


# --- Single characters -------------------------------------------------------------------------


@functools.lru_cache(maxsize=4096)
def _byte_set(mask: int, spelling: StringSpelling) -> ir.Regex:
    """One byte of ``mask``, spelled; only ASCII has escapes."""
    options: list[ir.Regex] = []
    if plain := mask & ~_FORBIDDEN:
        options.append(ir.ByteSet(plain))
    letters = 0
    for point, letter in _SHORT.items():
        if mask >> point & 1 and letter in spelling.escapes:
            letters |= 1 << ord(letter)
    after: list[ir.Regex] = [ir.ByteSet(letters)] if letters else []
    if "u" in spelling.escapes and not spelling.unicode_escapes:
        coded = charset.make(
            (point, point)
            for point in range(0x20)
            if mask >> point & 1
            and (spelling.control_escapes or _SHORT.get(point, "none") not in spelling.escapes)
        )
        if coded:
            after.append(concat((ir.Literal(b"u"), _hex(coded, spelling.control_escapes))))
    if after:
        options.append(concat((ir.Literal(b"\\"), alternate(after))))
    return alternate(options)


@functools.lru_cache(maxsize=1024)
def _chars(members: CharSet, spelling: StringSpelling) -> ir.Regex:
    """One character of ``members``, spelled."""
    mask = 0
    for low, high in charset.clip(members, 0, 0x7F):
        mask |= (1 << high + 1) - (1 << low)
    ascii_part = _byte_set(mask, spelling) if mask else ir.EMPTY
    rest = set_regex(charset.clip(members, 0x80, charset.MAX_CODE_POINT))
    options = [ascii_part, *(rest.items if isinstance(rest, ir.Alternation) else (rest,))]
    if spelling.unicode_escapes:
        options.append(concat((ir.Literal(b"\\u"), _coded(members))))
    return alternate(option for option in options if option != ir.EMPTY)


def _coded(members: CharSet) -> ir.Regex:
    """What follows ``\\u`` for one character of ``members``."""
    plane = charset.clip(members, 0, 0xD7FF) + charset.clip(members, 0xE000, 0xFFFF)
    options = [_hex(plane, True)] if plane else []
    leads: dict[CharSet, list[tuple[int, int]]] = {}
    for low, high in charset.clip(members, 0x10000, charset.MAX_CODE_POINT):
        first, last = (low - 0x10000) >> 10, (high - 0x10000) >> 10
        bottom, top = 0xDC00 | low & 0x3FF, 0xDC00 | high & 0x3FF
        if first == last:
            spans = [(first, first, bottom, top)]
        else:
            spans = [(first, first, bottom, 0xDFFF), (last, last, 0xDC00, top)]
            if first + 1 < last:
                spans.append((first + 1, last - 1, 0xDC00, 0xDFFF))
        for begin, end, tail_low, tail_high in spans:
            leads.setdefault(((tail_low, tail_high),), []).append((0xD800 + begin, 0xD800 + end))
    for tail, heads in leads.items():
        head = _hex(charset.make(heads), True)
        options.append(concat((head, ir.Literal(b"\\u"), _hex(tail, True))))
    return alternate(options)


@functools.lru_cache(maxsize=1024)
def _hex(members: CharSet, either_case: bool, digits: int = 4) -> ir.Regex:
    """The code points of ``members`` in so many hexadecimal digits."""
    if not digits:
        return ir.EPSILON
    width = 16 ** (digits - 1)
    by_rest: dict[CharSet, int] = {}
    for digit in range(16):
        inside = charset.clip(members, digit * width, (digit + 1) * width - 1)
        if inside:
            rest = tuple((low - digit * width, high - digit * width) for low, high in inside)
            by_rest[rest] = by_rest.get(rest, 0) | _digit_mask(digit, either_case)
    return alternate(
        concat((_byte(mask), _hex(rest, either_case, digits - 1))) for rest, mask in by_rest.items()
    )


def _digit_mask(digit: int, either_case: bool) -> int:
    text = f"{digit:x}"
    return 1 << ord(text) | (1 << ord(text.upper()) if either_case else 0)


def _byte(mask: int) -> ir.Regex:
    if mask & (mask - 1):
        return ir.ByteSet(mask)
    return ir.Literal(bytes((mask.bit_length() - 1,)))


# --- Bytes to characters -----------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class _Chars:
    """A set of characters that stands for the bytes that encode them.

    It takes the place of a regex within trees that never leave this module.
    """

    members: CharSet


def _standing_for(members: CharSet) -> ir.Regex:
    return cast("ir.Regex", _Chars(members))


def _grouped(tree: ir.Regex) -> ir.Regex:
    """``tree`` with the bytes of each character beyond ASCII taken together."""
    return fold(tree, _group)


def _group(node: ir.Regex, parts: list[ir.Regex]) -> ir.Regex:
    if isinstance(node, ir.Concat):
        # The children as they were: what is grouped by itself cannot be grouped with others.
        return _group_items(node.items, parts)
    if isinstance(node, ir.Alternation):
        sets = [part.members for part in parts if isinstance(part, _Chars)]
        others = [part for part in parts if not isinstance(part, _Chars)]
        if sets:
            others.insert(0, _standing_for(charset.union(*sets)))
        return others[0] if len(others) == 1 else ir.Alternation(tuple(others))
    if isinstance(node, ir.Intersection):
        return ir.Intersection(tuple(parts))
    if isinstance(node, ir.Complement):
        return ir.Complement(parts[0])
    if isinstance(node, ir.Repeat):
        return node if node == ANYTHING else ir.Repeat(parts[0], node.low, node.high)
    if isinstance(node, ir.ByteSet) and node.mask == _ALL_BYTES:
        return _standing_for(charset.ALL)
    if isinstance(node, ir.ByteSet) and not node.mask >> 0x80:
        return _standing_for(charset.make((b, b) for b in range(0x80) if node.mask >> b & 1))
    return node


def _group_items(items: tuple[ir.Regex, ...], parts: list[ir.Regex]) -> ir.Regex:
    result: list[ir.Regex] = []
    at = 0
    while at < len(items):
        item = items[at]
        if isinstance(item, ir.ByteSet) and item.mask >> 0xC2 and not item.mask & (1 << 0xC2) - 1:
            members, at = _decode(items, at)
            result.append(_standing_for(members))
        else:
            result.append(parts[at])
            at += 1
    return result[0] if len(result) == 1 else ir.Concat(tuple(result))


def _decode(items: tuple[ir.Regex, ...], at: int) -> tuple[CharSet, int]:
    """The characters that begin with the lead bytes at ``at``, and where they end."""
    lead = items[at]
    assert isinstance(lead, ir.ByteSet)
    first = (lead.mask & -lead.mask).bit_length() - 1
    base, levels = (0xC0, 1) if first < 0xE0 else (0xE0, 2) if first < 0xF0 else (0xF0, 3)
    tail, at = _tail(items, at + 1, levels)
    return _shifted(lead.mask >> base, tail, levels), at


def _tail(items: tuple[ir.Regex, ...], at: int, levels: int) -> tuple[CharSet, int]:
    """The numbers that ``levels`` continuation bytes from ``at`` on stand for."""
    if not levels:
        return ((0, 0),), at
    item = items[at]
    if isinstance(item, ir.Alternation):
        ranges: list[tuple[int, int]] = []
        for option in item.items:
            inner = option.items if isinstance(option, ir.Concat) else (option,)
            ranges += _tail(inner, 0, levels)[0]
        return charset.make(ranges), at + 1
    if not isinstance(item, ir.ByteSet):
        raise ValueError("a regex that cuts through characters cannot be quoted")
    tail, end = _tail(items, at + 1, levels - 1)
    return _shifted(item.mask >> 0x80, tail, levels - 1), end


def _shifted(mask: int, tail: CharSet, levels: int) -> CharSet:
    """The numbers whose digit to base 64 before ``tail`` is in ``mask``."""
    width = 64**levels
    ranges = []
    digit = 0
    while mask >> digit:
        if mask >> digit & 1:
            ranges += [(digit * width + low, digit * width + high) for low, high in tail]
        digit += 1
    return charset.make(ranges)
