"""Grammars of one terminal: a list of texts, or a regex.

With one terminal there is nothing to confuse it with, so the language is exactly what the terminal
matches. The engine keeps a list of literals as a tree by prefix: a mask looks at the branch of the
text so far, whatever the number of choices.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

from llgx import ir
from llgx.arguments import check_list
from llgx.errors import GrammarError, LimitError, LlgxError
from llgx.limits import DEFAULT_LIMITS, Limits
from llgx.regex import parse_ecma, parse_rust

__all__ = ["compile_choices", "compile_regex"]

_NAME_MAX: Final = 60


def compile_choices(choices: Iterable[str]) -> ir.GrammarIR:
    """The grammar of exactly ``choices``; see :meth:`llgx.Grammar.from_choices`."""
    check_list(choices, "choices", "texts")
    encoded: dict[bytes, None] = {}
    for choice in choices:
        if not isinstance(choice, str):
            raise TypeError(f"a choice is a str, not {type(choice).__name__}")
        try:
            data = choice.encode()
        except UnicodeEncodeError:
            message = "a choice holds a lone surrogate, which is no character"
            raise GrammarError(message, text=choice, offset=0) from None
        encoded[data] = None
    if not encoded:
        raise GrammarError("there is nothing to choose from")
    literals = [ir.Literal(data) for data in encoded]
    regex = literals[0] if len(literals) == 1 else ir.Alternation(tuple(literals))
    return _one_terminal(_name(encoded), regex)


def compile_regex(
    pattern: str,
    *,
    syntax: Literal["rust", "ecma"] = "rust",
    limits: Limits = DEFAULT_LIMITS,
) -> ir.GrammarIR:
    """The grammar of what ``pattern`` matches; see :meth:`llgx.Grammar.from_regex`."""
    if len(pattern) > limits.grammar_bytes:
        raise LimitError(f"a pattern of {len(pattern)} characters", limit="grammar_bytes")
    if syntax == "rust":
        try:
            regex = parse_rust(pattern, limits=limits)
        except GrammarError as error:
            if _is_ecma(pattern, limits):
                error.hint('; syntax="ecma" reads this pattern')
            raise
    elif syntax == "ecma":
        # JavaScript searches: the pattern is read once by itself, so that a stray parenthesis in it
        # is found, and once more with anchors around it.
        parse_ecma(pattern, limits=limits)
        begin = "^(?:"
        regex = parse_ecma(f"{begin}{pattern})$", text=pattern, offset=-len(begin), limits=limits)
    else:
        raise ValueError(f"syntax is 'rust' or 'ecma', not {syntax!r}")
    shown = pattern if len(pattern) <= _NAME_MAX else f"{pattern[:_NAME_MAX]}..."
    return _one_terminal(f"/{shown}/", regex)


def _is_ecma(pattern: str, limits: Limits) -> bool:
    try:
        parse_ecma(pattern, limits=limits)
    except LlgxError:
        return False
    return True


def _name(choices: Iterable[bytes]) -> str:
    """The first choices, as written."""
    names: list[str] = []
    length = 0
    for data in choices:
        text = data.decode()
        length += len(text) + 5
        if length > _NAME_MAX and names:
            return f"{' | '.join(names)} | ..."
        names.append(f'"{text[:_NAME_MAX]}..."' if len(text) > _NAME_MAX else f'"{text}"')
    return " | ".join(names)


def _one_terminal(name: str, regex: ir.Regex) -> ir.GrammarIR:
    start = ir.Rule("start", [ir.Production((ir.TerminalRef(0),))])
    return ir.GrammarIR([start], [ir.Terminal(name, regex)], 0)
