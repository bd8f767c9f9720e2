"""GBNF on its way to llama.cpp: an error where llama.cpp would crash or ignore it.

llama.cpp reports a grammar that it cannot read by NULL, which llama-cpp-python 0.3.36 takes for a
sampler. It reads nested groups and chains of rules recursively, so that deep ones overflow the C
stack. It takes an empty text for no grammar, and reads no further than a NUL character. A
repetition whose most is less than its least makes it fill the memory. Characters, ranges and tokens
that there are none of it takes as they are; where nothing else may come, it ends the process.

Invariant: text that gets past :func:`check_gbnf` and for which llama.cpp then makes a sampler is
read by it as it always was. Cost: one pass over the text.
"""

from __future__ import annotations

import re
import sys
from typing import Final

from llgx.errors import GrammarError, LimitError
from llgx.grammar import Grammar

__all__ = ["check_gbnf", "refused_by_llama_cpp"]

# 5,000 groups in one another are read on a stack of 8 MB and 20,000 are not; of rules that begin
# with the next one, 20,000 and 100,000. Threads may have a smaller stack.
_NESTING: Final = 1_000
_RULES: Final = 5_000

_REMEDY: Final = "LlamaGrammar.from_gbnf(text) runs it on llgx"

# What may hold parentheses and other marks that are none, and what counts. What is begun and not
# ended goes up to where the text ends: were it left to fail, it would be tried from each mark anew.
_MARKS: Final = re.compile(
    r"""
    (?P<quoted> "(?:[^"\\]|\\.)*"? )
    | (?P<characters> \[ (?:[^\]\\]|\\.)* \]? )
    | <\[ (?P<token>\d{1,20}) \]>
    | <[^>\s]*>?
    | \#[^\n]*
    | \{ \s* (?P<least>\d{1,20}) \s* , \s* (?P<most>\d{1,20}) \s* \}
    | (?P<mark> [()] | ::= )
    """,
    re.DOTALL | re.VERBOSE,
)
_CHARACTER: Final = r"(?:\\x[0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\U[0-9a-fA-F]{8}|\\.|[^\\])"
_RANGES: Final = re.compile(rf"({_CHARACTER})(?:-(?!\])({_CHARACTER}))?", re.DOTALL)
_ESCAPES: Final = re.compile(r"\\(?:U(?P<code>[0-9a-fA-F]{8})|.)", re.DOTALL)
_NAMED: Final = {"n": "\n", "r": "\r", "t": "\t"}


def check_gbnf(text: str, tokens: int | None = None) -> None:
    """Raise :class:`GrammarError` for text that llama.cpp would crash on or not follow.

    ``tokens`` is the number of tokens of the model, if that is known.
    """
    if not text.strip():
        raise GrammarError("the grammar is empty: llama.cpp would generate without any")
    if "\0" in text:
        raise GrammarError(
            "llama.cpp reads a grammar up to a NUL character only",
            text=text,
            offset=text.find("\0"),
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise GrammarError(
            "a lone surrogate in the grammar", text=text, offset=error.start
        ) from None
    depth = rules = 0
    for match in _MARKS.finditer(text):
        mark = match["mark"]
        if mark == "(":
            depth += 1
        elif mark == ")":
            depth -= 1
        elif mark == "::=":
            rules += 1
        elif match["quoted"]:
            _check_escapes(text, match)
        elif match["characters"]:
            _check_escapes(text, match)
            _check_ranges(text, match)
        elif match["token"] and tokens is not None and int(match["token"]) >= tokens:
            raise GrammarError(
                f"the model has no token {match['token']}", text=text, offset=match.start()
            )
        elif match["least"] and int(match["most"]) < int(match["least"]):
            raise GrammarError(
                f"no repetition is at least {match['least']} and at most {match['most']} times",
                text=text,
                offset=match.start(),
            )
        if depth > _NESTING:
            raise GrammarError(
                f"more than {_NESTING} groups in one another, which overflow llama.cpp's stack",
                text=text,
                offset=match.start(),
            )
        if rules > _RULES:
            raise GrammarError(
                f"more than {_RULES} rules, which may overflow llama.cpp's stack; {_REMEDY}",
                text=text,
                offset=match.start(),
            )


def _check_escapes(text: str, literal: re.Match[str]) -> None:
    """Raise :class:`GrammarError` for the number of a character that there is not."""
    for escape in _ESCAPES.finditer(text, *literal.span()):
        if escape["code"] and int(escape["code"], 16) > sys.maxunicode:
            raise GrammarError(f"{escape[0]} is no character", text=text, offset=escape.start())


def _check_ranges(text: str, characters: re.Match[str]) -> None:
    """Raise :class:`GrammarError` for a range of characters that ends before it begins."""
    inside = characters["characters"].removeprefix("[").removeprefix("^").removesuffix("]")
    begin = characters.start() + characters["characters"].find(inside)
    for pair in _RANGES.finditer(inside):
        if pair[2] and _code(pair[2]) < _code(pair[1]):
            raise GrammarError(
                f"the range {pair[0]} ends before it begins", text=text, offset=begin + pair.start()
            )


def _code(character: str) -> int:
    """The code point that a character in brackets stands for."""
    if len(character) > 2:
        return int(character[2:], 16)
    return ord(_NAMED.get(character[-1], character[-1]) if len(character) == 2 else character)


def refused_by_llama_cpp(text: str) -> GrammarError:
    """The error for GBNF that llama.cpp made no sampler of; with the position if llgx sees it."""
    try:
        Grammar.from_gbnf(text)
    except GrammarError as error:
        return error
    except LimitError as error:
        return GrammarError(f"llama.cpp cannot read this GBNF: {error.message}")
    return GrammarError(f"llama.cpp cannot read this GBNF, or it is left-recursive; {_REMEDY}")
