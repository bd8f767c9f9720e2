"""Cuts a Lark grammar into tokens.

Every token knows its place in the text, so that each later complaint can point at it. Runs of line
breaks, with the blank lines and comments between them, become one ``newline`` token. A JSON value
that follows ``%json``, ``%regex`` or ``%llguidance`` belongs to the token of its keyword, whatever
braces and quotes it holds.

Three readings are kinder than maximal munch would be: ``2..5`` is a range of two numbers and not
``2.`` followed by ``.5``, the hyphen of ``->`` never belongs to the name before it, and ids of
tokens may have blanks between them (``<[1, 2]>``).

One pass, linear in the text, one token at a time: a parser that gives up early has not paid for the
rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from llgx.errors import LimitError, suggestion
from llgx.lark.source import Sources
from llgx.limits import DEFAULT_LIMITS, Limits

__all__ = ["Token", "describe", "tokenize"]


class Token(NamedTuple):
    """``text[begin:end]`` of the grammar.

    ``kind`` is ``rule``, ``terminal``, ``string``, ``regex``, ``number``, ``hex``, ``special``,
    ``reference``, ``newline``, ``end``, or, for operators and keywords, the operator or keyword
    itself. ``text`` is the source, for keywords with a JSON value the source of that value.
    """

    kind: str
    text: str
    begin: int
    end: int


_BLANK: Final = re.compile(r"(?: [ \t]+ | (?:\#|//)[^\n]* )*", re.VERBOSE)
_TOKEN: Final = re.compile(
    r"""
    (?:
      (?P<newline> \r?\n (?: [ \t]+ | \r?\n | (?:\#|//)[^\n]* )* )
    | (?P<rule> _?[a-z] (?: [_a-z0-9] | -(?!>) )* )
    | (?P<terminal> _?[A-Z] (?: [_A-Z0-9] | -(?!>) )* )
    | (?P<string>
        (?: " [^"\\\x00-\x1f\x7f]* (?: \\[^\x00-\x1f\x7f] [^"\\\x00-\x1f\x7f]* )* "
          | ' [^'\\\x00-\x1f\x7f]* (?: \\[^\x00-\x1f\x7f] [^'\\\x00-\x1f\x7f]* )* ' ) i? )
    | (?P<hex> 0[xX][0-9a-fA-F]+ )
    | (?P<number> [+-]?[0-9]+ (?: \.(?!\.)[0-9]* )? (?: [eE][+-]?[0-9]+ )? )
    | (?P<operator> -> | :: | \.\. | [:|&~*+?()\[\]{},=._!] )
    | (?P<regex> / (?!/) [^/\\]* (?: \\. [^/\\]* )* / [imslux]* )
    | (?P<keyword> %[a-z_]+ )
    | (?P<special> < (?: \[ [^\[\]<>\n]* \] | [^<>\s]+ ) > )
    | (?P<reference> @ [a-zA-Z0-9_-]+ )
    )
    (?: [ \t]+ | (?:\#|//)[^\n]* )*
    """,
    re.VERBOSE | re.DOTALL,
)
_STRING_BODY: Final = {
    quote: re.compile(rf"{quote}(?:[^{quote}\\\x00-\x1f\x7f]|\\[^\x00-\x1f\x7f])*")
    for quote in "\"'"
}
_NAME_CHARACTER: Final = re.compile(r"[A-Za-z0-9_]")

_KEYWORDS: Final = frozenset({"%ignore", "%import", "%declare", "%override", "%if", "%lark"})
_JSON_KEYWORDS: Final = frozenset({"%json", "%regex", "%llguidance"})

_JSON_BLANK: Final = re.compile(r"[ \t\r\n]*")
_JSON_SCALAR: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[-+.0-9A-Za-z]+', re.DOTALL)
_JSON_BRACKET: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}"]', re.DOTALL)


def tokenize(sources: Sources, base: int, limits: Limits = DEFAULT_LIMITS) -> Iterator[Token]:
    """The tokens of the text at ``base`` of ``sources``; the last one is of kind ``end``.

    Raises, when it gets there, :class:`GrammarError` where no token starts and :class:`LimitError`
    when the text is longer than ``grammar_bytes`` or a JSON value in it nests too deep.
    """
    text = sources.locate(base)[0]
    if len(text) > limits.grammar_bytes:
        raise LimitError(f"grammar of {len(text)} characters", limit="grammar_bytes")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        message = f"lone surrogate U+{ord(text[error.start]):04X} in the grammar"
        raise sources.error(message, base + error.start) from None
    position = _skip(_BLANK, text, 0)
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            message, place = _lexical_fault(text, position)
            raise sources.error(message, base + place)
        kind = match.lastgroup or ""
        begin, end = match.span(kind)
        source = match.group(kind)
        position = match.end()
        if kind == "operator":
            kind = source
        elif kind == "keyword":
            kind = source
            if kind in _JSON_KEYWORDS:
                begin_value, end = _json_value(sources, base, end, kind, limits)
                source = text[begin_value:end]
                position = _skip(_BLANK, text, end)
            elif kind not in _KEYWORDS:
                hint = suggestion(kind, (*_KEYWORDS, *_JSON_KEYWORDS))
                raise sources.error(f"unknown keyword {kind[:40]}{hint}", base + begin)
        elif kind == "regex" and _NAME_CHARACTER.match(text, end):
            message = f"unknown regex flag {text[end]!r}; the flags are i, m, s, u and x"
            raise sources.error(message, base + end)
        yield Token(kind, source, base + begin, base + end)
    yield Token("end", "", base + len(text), base + len(text))


def describe(token: Token) -> str:
    """How a message speaks of ``token``."""
    if token.kind == "newline":
        return "the end of the line"
    if token.kind == "end":
        return "the end of the grammar"
    if token.kind.startswith("%"):
        return token.kind
    source = token.text if len(token.text) <= 40 else token.text[:37] + "..."
    return source if source[:1] in ('"', "'") else f"'{source}'"


def _skip(blank: re.Pattern[str], text: str, position: int) -> int:
    """Where the text that ``blank`` matches at ``position`` ends."""
    match = blank.match(text, position)
    return match.end() if match else position


def _lexical_fault(text: str, begin: int) -> tuple[str, int]:
    """Why no token starts at ``begin``, and where to point."""
    character = text[begin]
    if character in _STRING_BODY:
        body = _STRING_BODY[character].match(text, begin)
        end = body.end() if body else begin
        if end < len(text) and text[end] not in f"\\\r\n{character}":
            code = f"U+{ord(text[end]):04X}"
            return f"control character {code} in a string; write it as an escape", end
        return "string without closing quote", begin
    if character == "/":
        return "regex without closing '/'", begin
    shown = repr(character) if character.isprintable() else f"U+{ord(character):04X}"
    return f"unexpected character {shown}", begin


def _json_value(
    sources: Sources, base: int, position: int, keyword: str, limits: Limits
) -> tuple[int, int]:
    """Where the JSON value after ``keyword`` begins and ends; brackets are balanced, no more.

    Whoever reads the value checks the rest. The depth is counted here as the reader may recurse.
    """
    text = sources.locate(base)[0]
    begin = _skip(_JSON_BLANK, text, position)
    if text[begin : begin + 1] not in ("{", "["):
        scalar = _JSON_SCALAR.match(text, begin)
        if scalar is None:
            raise sources.error(f"expected a JSON value after {keyword}", base + begin)
        return begin, scalar.end()
    depth = 0
    for match in _JSON_BRACKET.finditer(text, begin):
        bracket = match.group()
        if bracket in ("{", "["):
            depth += 1
            if depth > limits.nesting:
                raise LimitError(f"the JSON value after {keyword} nests too deep", limit="nesting")
        elif bracket in ("}", "]"):
            depth -= 1
            if not depth:
                return begin, match.end()
        elif bracket == '"':
            break
    raise sources.error(f"the JSON value after {keyword} does not end", base + begin)
