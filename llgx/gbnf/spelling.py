"""Writes nodes down again: in GBNF for messages, and the pieces of Lark that need escapes.

Linear in what is written; a spelling that is cut short stops there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from llgx.gbnf.nodes import Chars, Choice, Loop, Node, Reference, Series, Text, Token
from llgx.ir import TokenSet
from llgx.regex import charset
from llgx.regex.charset import CharSet

__all__ = ["gbnf_spelling", "loop_suffix", "set_spelling", "text_spelling", "token_spelling"]

_NAMED: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_POSTFIX: Final[dict[tuple[int, int | None], str]] = {(0, None): "*", (1, None): "+", (0, 1): "?"}


def text_spelling(text: str) -> str:
    """A string in double quotes, in GBNF and in Lark alike."""
    written = []
    for char in text:
        if char in '"\\':
            written.append(f"\\{char}")
        elif char.isprintable():
            written.append(char)
        else:
            written.append(_NAMED.get(char) or _escape_utf16(char))
    return f'"{"".join(written)}"'


def _escape_utf16(char: str) -> str:
    data = char.encode("utf-16-be")
    return "".join(f"\\u{data[i : i + 2].hex().upper()}" for i in range(0, len(data), 2))


def set_spelling(members: CharSet, lark: bool = False) -> str:
    """A character class in brackets, or ``.``; with ``lark`` as the regex of a Lark grammar."""
    if members == charset.ALL:
        return "(?s:.)" if lark else "."
    others = charset.negate(members)
    negated = bool(members) and members[-1][1] == charset.MAX_CODE_POINT and bool(others)
    ranges = others if negated else members
    written = []
    for low, high in ranges:
        written.append(_point_spelling(low, lark))
        if high > low:
            written.append(("-" if high > low + 1 else "") + _point_spelling(high, lark))
    return f"[{'^' if negated else ''}{''.join(written)}]"


def _point_spelling(point: int, lark: bool) -> str:
    char = chr(point)
    if char in ("\\", "]", "[", "-") or (lark and char in "^/&~"):
        return f"\\{char}"
    if char == "^":
        return "\\x5E"
    if char in _NAMED:
        return _NAMED[char]
    if char.isprintable():
        return char
    if point < 0x80:
        return f"\\x{point:02X}"
    if lark:
        return f"\\u{{{point:X}}}"
    return f"\\u{point:04X}" if point < 0x10000 else f"\\U{point:08X}"


def token_spelling(tokens: TokenSet) -> str:
    """A token as GBNF writes it."""
    spelled = tokens.names[0] if tokens.names else f"<[{tokens.ranges[0][0]}]>"
    return f"{'!' if tokens.negated else ''}{spelled}"


def loop_suffix(low: int, high: int | None) -> str:
    """How a repetition is written after what it repeats."""
    short = _POSTFIX.get((low, high))
    if short is not None:
        return short
    if low == high:
        return f"{{{low}}}"
    return f"{{{low},{'' if high is None else high}}}"


def gbnf_spelling(node: Node, names: Sequence[str] = (), limit: int = 200) -> str:
    """``node`` in GBNF, with ``...`` for what goes beyond about ``limit`` characters."""
    written: list[str] = []
    length = 0
    stack: list[Node | str] = [node]
    while stack:
        part = stack.pop()
        if isinstance(part, str):
            piece = part
        elif isinstance(part, Series):
            stack.extend(_between(part.items, " "))
            continue
        elif isinstance(part, Choice):
            pieces = _between(part.items, " | ")
            stack.extend(pieces if part is node else [")", *pieces, "("])
            continue
        elif isinstance(part, Loop):
            stack.append(loop_suffix(part.low, part.high))
            is_group = isinstance(part.item, (Series, Loop))
            stack.extend([")", part.item, "("] if is_group else [part.item])
            continue
        elif isinstance(part, Text):
            piece = text_spelling(part.value[: limit + 1])
        elif isinstance(part, Chars):
            piece = set_spelling(part.members)
        elif isinstance(part, Token):
            piece = token_spelling(part.tokens)
        else:
            assert isinstance(part, Reference)
            piece = names[part.rule]
        written.append(piece)
        length += len(piece)
        if length > limit:
            return "".join(written)[:limit] + "..."
    return "".join(written)


def _between(items: Sequence[Node], mark: str) -> list[Node | str]:
    """``items`` with ``mark`` between them, last first."""
    result: list[Node | str] = []
    for item in reversed(items):
        if result:
            result.append(mark)
        result.append(item)
    return result
