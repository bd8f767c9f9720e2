"""A cursor over the tokens of a Lark grammar, and what every part of the parser needs of it.

Two tokens of look-ahead, errors that point at a token, the values of strings and numbers. Each call
costs what the token is long.
"""

from __future__ import annotations

import re
from typing import Final

from llgx.errors import GrammarError, LimitError
from llgx.lark import ast
from llgx.lark.lexer import Token, describe, tokenize
from llgx.lark.source import Sources
from llgx.limits import Limits

__all__ = ["NUMBER_DIGITS", "WHOLE_NUMBER", "Cursor", "mixed_case"]

NUMBER_DIGITS: Final = 25
WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]+")
_WORD: Final = re.compile(r"[A-Za-z0-9_]+")
_ESCAPE: Final = re.compile(
    r"""\\ (?:
      u (?P<high> [dD][89abAB][0-9a-fA-F]{2} ) \\u (?P<low> [dD][c-fC-F][0-9a-fA-F]{2} )
    | u (?P<unit> [0-9a-fA-F]{4} )
    | x (?P<byte> [0-9a-fA-F]{2} )
    | (?P<other> . )
    )""",
    re.VERBOSE | re.DOTALL,
)
_SIMPLE_ESCAPES: Final = {
    '"': '"',
    "\\": "\\",
    "/": "/",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
}


def mixed_case(sources: Sources, name: Token | ast.Name) -> str:
    """What is wrong with ``name`` when it is a piece of a word like ``fooBar``, or ``""``."""
    text, place, _ = sources.locate(name.begin)
    begin = place
    while begin > max(0, place - 40) and _WORD.match(text, begin - 1):
        begin -= 1
    match = _WORD.match(text, begin, begin + 80)
    word = match.group() if match else ""
    if word in (word.lower(), word.upper()):
        return ""
    return f"'{word}' mixes cases: a name is all lower or all upper case"


class Cursor:
    """The tokens of the text at ``base`` of ``sources``, one after the other."""

    def __init__(self, sources: Sources, base: int, limits: Limits) -> None:
        self.sources = sources
        self.limits = limits
        self._tokens = tokenize(sources, base, limits)
        self._current = next(self._tokens)
        self._following: Token | None = None  # the token after the current one, once looked at
        self.end = base  # where the last token passed ends

    def peek(self) -> Token:
        """The current token."""
        return self._current

    def advance(self) -> Token:
        """Go past the current token and return it."""
        token = self._current
        self.end = token.end
        self._current = self._following or next(self._tokens, token)
        self._following = None
        return token

    def next_kind(self) -> str:
        """The kind of the token after the current one."""
        if self._following is None:
            self._following = next(self._tokens, self._current)
        return self._following.kind

    def take(self, kind: str) -> bool:
        """Whether the current token is of ``kind``; if so, go past it."""
        if self._current.kind != kind:
            return False
        self.advance()
        return True

    def expect(self, kind: str, what: str = "") -> Token:
        """Go past a token of ``kind``, which errors call ``what``."""
        token = self._current
        if token.kind != kind:
            wanted = what or f"'{kind}'"
            raise self.error(f"expected {wanted}, found {describe(token)}", token)
        return self.advance()

    # Errors

    def error(self, message: str, token: Token) -> GrammarError:
        """The error that points at ``token``."""
        return self.sources.error(message, token.begin)

    def limit_error(self, message: str, token: Token, limit: str) -> LimitError:
        """The same for a cap."""
        return self.sources.limit_error(message, token.begin, limit)

    def check_depth(self, depth: int, token: Token) -> None:
        """Fail where ``depth`` brackets around ``token`` are too many."""
        if depth >= self.limits.nesting:
            raise self.limit_error("parentheses nest too deep", token, "nesting")

    # Values

    def unsigned(self, greatest: int) -> int:
        """A number from 0 to ``greatest``, decimal or hexadecimal."""
        token = self._current
        if token.kind not in ("number", "hex"):
            raise self.error(f"expected a number, found {describe(token)}", token)
        self.advance()
        if token.kind == "number" and not WHOLE_NUMBER.fullmatch(token.text):
            raise self.error(f"'{token.text[:40]}' is not a whole number", token)
        value = greatest + 1
        if len(token.text) <= NUMBER_DIGITS:
            value = int(token.text, 16 if token.kind == "hex" else 10)
        if not 0 <= value <= greatest:
            shown = token.text if len(token.text) <= 40 else "the number"
            raise self.error(f"{shown} is not between 0 and {greatest}", token)
        return value

    def string(self, token: Token) -> str:
        """The value of a string token, escapes resolved."""
        quote = token.text[0]
        body = token.text[1 : token.text.rindex(quote)]
        if "\\" not in body:
            return body
        pieces: list[str] = []
        position = 0
        for match in _ESCAPE.finditer(body):
            pieces.append(body[position : match.start()])
            pieces.append(self._escaped(match, quote, token.begin + 1 + match.start()))
            position = match.end()
        pieces.append(body[position:])
        return "".join(pieces)

    def _escaped(self, match: re.Match[str], quote: str, offset: int) -> str:
        """The character that one escape stands for."""
        high, low, unit, byte, other = match.group("high", "low", "unit", "byte", "other")
        if high is not None:
            return chr(0x10000 + ((int(high, 16) - 0xD800) << 10) + int(low, 16) - 0xDC00)
        if unit is not None:
            code = int(unit, 16)
            if 0xD800 <= code <= 0xDFFF:
                raise self.sources.error(f"the surrogate \\u{unit} has no partner", offset)
            return chr(code)
        if byte is not None:
            return chr(int(byte, 16))
        if other == quote:
            return quote
        if other not in _SIMPLE_ESCAPES:
            message = f"unknown escape '\\{other}' in a string"
            if other in "ux":
                message = f"'\\{other}' takes {4 if other == 'u' else 2} hexadecimal digits"
            raise self.sources.error(message, offset)
        return _SIMPLE_ESCAPES[other]
