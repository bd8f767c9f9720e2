"""GBNF on its way to llama.cpp: an error where llama.cpp would crash or ignore it.

llama.cpp reports a grammar that it cannot read by NULL, which llama-cpp-python 0.3.36 takes for a
sampler. It reads nested groups and chains of rules recursively, so that deep ones overflow the C
stack. It takes an empty text for no grammar, and reads no further than a NUL character. A
repetition whose most is less than its least makes it fill the memory, and so does one of long
strings, which it writes out. Characters, ranges and tokens that there are none of it takes as they
are; where nothing else may come, it ends the process. Of some recursive rules it does not come back
(:mod:`llgx.llama.gbnf_recursion`).

Invariant: text that gets past :func:`check_gbnf` and for which llama.cpp then makes a sampler is
read by it as it always was; text that does not is refused by llama.cpp, or ends the process, or
takes gigabytes. Cost: linear in the text, some 10 MB/s for the first pass and what llgx takes to
read it for the second, which is done once for the texts used last.
"""

from __future__ import annotations

import functools
import re
import sys
from typing import Final

from llgx.doors import other_door
from llgx.errors import GrammarError, LimitError
from llgx.gbnf.parser import parse
from llgx.grammar import Grammar
from llgx.limits import DEFAULT_LIMITS
from llgx.llama.gbnf_probe import answers_null
from llgx.llama.gbnf_recursion import endless_rule, ways_to_begin

__all__ = ["check_gbnf", "refused_by_llama_cpp"]

# 5,000 groups in one another are read on a stack of 8 MB and 20,000 are not; of rules that begin
# with the next one, 20,000 and 100,000. Threads may have a smaller stack.
_NESTING: Final = 1_000
_RULES: Final = 5_000

# What it writes out of repetitions, in characters and references: a gigabyte takes five times this.
_ELEMENTS: Final = 10_000_000
# What it repeats more often than this is refused, or repeated without an end; early versions do it.
_TIMES: Final = 2000
# 65,536 stacks that differ are made in half a minute, and twice as many in four times that.
_WAYS: Final = 1_000_000

_REMEDY: Final = "LlamaGrammar.from_gbnf(text) runs it on llgx"

# What may hold parentheses and other marks that are none, and what counts. What is begun and not
# ended goes up to where the text ends: were it left to fail, it would be tried from each mark anew.
_MARKS: Final = re.compile(
    r"""
    (?P<quoted> "(?:[^"\\]|\\.)*"? )
    | (?P<characters> \[ (?:[^\]\\]|\\.)* \]? )
    | <\[ (?P<token>\d{1,20}) \]>
    | <[^>]*>?
    | \#[^\r\n]*
    | \{ _ (?P<least>[0-9]+) _ (?P<comma> , _ (?P<most>[0-9]+)? _ )? \}
    | (?P<times> [*+?] )
    | (?P<name> [A-Za-z0-9-]+ | \. )
    | (?P<mark> [()] | ::= )
    """.replace("_", r"(?:[ \t\r\n]|\#[^\r\n]*)*"),
    re.DOTALL | re.VERBOSE,
)
_CHARACTER: Final = r"(?:\\x[0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\U[0-9a-fA-F]{8}|\\.|[^\\])"
_RANGES: Final = re.compile(rf"({_CHARACTER})(?:-(?!\])({_CHARACTER}))?", re.DOTALL)
_LETTERS: Final = re.compile(_CHARACTER, re.DOTALL)
_POSTFIX: Final[dict[str, tuple[int, int | None]]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
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
    depth = rules = elements = 0
    length = 0  # of the item before, as llama.cpp writes it out
    for match in _MARKS.finditer(text):
        mark = match["mark"]
        if mark == "(":
            depth += 1
        elif mark == ")":
            depth -= 1
        elif mark == "::=":
            rules += 1
        elif match["quoted"]:
            length = len(_LETTERS.findall(match["quoted"])) - 2
            _check_escapes(text, match)
        elif match["characters"]:
            length = len(_LETTERS.findall(match["characters"])) - 2
            _check_escapes(text, match)
            _check_ranges(text, match)
        elif match["least"] or match["times"]:
            least, most = _times(text, match)
            written, length = _written(length, least, most)
            elements += written
            if elements > _ELEMENTS:
                raise GrammarError(
                    "this repetition is too long for llama.cpp, which writes it out: it would take "
                    f"gigabytes; {_REMEDY}",
                    text=text,
                    offset=match.start(),
                )
        if mark == ")" or match["name"] or match["token"]:
            length = 1
        if match["token"] and tokens is not None and int(match["token"]) >= tokens:
            raise GrammarError(
                f"the model has no token {match['token']}", text=text, offset=match.start()
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

    _check_rules(text, is_early=not answers_null())


def _times(text: str, match: re.Match[str]) -> tuple[int, int | None]:
    """How often at least, and how often at most, as llama.cpp takes it. Raises
    :class:`GrammarError` where that is less."""
    if match["times"]:
        return _POSTFIX[match["times"]]
    least = _number(match["least"])
    most = least if match["comma"] is None else None
    if match["most"]:
        most = _number(match["most"])
        if most < least and most <= _TIMES:
            raise GrammarError(
                f"no repetition is at least {least} and at most {most} times",
                text=text,
                offset=match.start(),
            )
    if not answers_null():
        return least, most  # early versions write out all of them
    # It refuses more, and takes more at most for no bound.
    return min(least, _TIMES), most if most is not None and most <= _TIMES else None


def _number(digits: str) -> int:
    """The number, or one that is too high as well."""
    return int(digits.lstrip("0")[:20] or "0")


def _written(length: int, least: int, most: int | None) -> tuple[int, int]:
    """How much llama.cpp writes out for a repetition of what takes ``length``, in all and in place
    of that."""
    more = 1 if most is None else max(0, most - least)
    after = length * least + (more > 0)
    return length * max(0, least - 1) + more * (length + 3), after


@functools.lru_cache(maxsize=64)
def _check_rules(text: str, *, is_early: bool) -> None:
    """Raise :class:`GrammarError` for what llgx cannot read, which llama.cpp cannot either, and for
    recursion that llama.cpp does not come back from."""
    try:
        source = parse(text, DEFAULT_LIMITS)
    except LimitError:
        return  # llama.cpp has other limits
    except GrammarError as error:
        error.hint(other_door(text, "gbnf"))
        raise
    endless = endless_rule(source, always=is_early)
    if endless is not None:
        rule = source.rules[endless]
        raise GrammarError(
            f"the rule '{rule.name[:40]}' is left-recursive: llama.cpp refuses it or never comes "
            f"back from it; {_REMEDY}",
            text=text,
            offset=rule.begin,
        )
    if ways_to_begin(source) > _WAYS:
        raise GrammarError(
            "the rules begin with each other in too many ways for llama.cpp, which tries out all; "
            + _REMEDY
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
