"""GBNF on its way to llama.cpp: an error where llama.cpp would crash or ignore it.

llama.cpp reports a grammar that it cannot read by NULL, which llama-cpp-python 0.3.36 takes for a
sampler. It reads nested groups and chains of rules recursively, so that deep ones overflow the C
stack. It takes an empty text for no grammar, and reads no further than a NUL character.

Invariant: text that gets past :func:`check_gbnf` and for which llama.cpp then makes a sampler is
read by it as it always was. Cost: one pass over the text.
"""

from __future__ import annotations

import re
from typing import Final

from llgx.errors import GrammarError, LimitError
from llgx.grammar import Grammar

__all__ = ["check_gbnf", "refused_by_llama_cpp"]

# 5,000 groups in one another are read on a stack of 8 MB and 20,000 are not; of rules that begin
# with the next one, 20,000 and 100,000. Threads may have a smaller stack.
_NESTING: Final = 1_000
_RULES: Final = 5_000

_REMEDY: Final = "LlamaGrammar.from_gbnf(text) runs it on llgx"

# What may hold parentheses and other marks that are none, and what counts.
_MARKS: Final = re.compile(
    r'"(?:[^"\\]|\\.)*"|\[(?:[^\]\\]|\\.)*\]|<[^>\s]*>|#[^\n]*|(?P<mark>[()]|::=)', re.DOTALL
)


def check_gbnf(text: str) -> None:
    """Raise :class:`GrammarError` for text that llama.cpp would crash on or not follow."""
    if not text.strip():
        raise GrammarError("the grammar is empty: llama.cpp would generate without any")
    if "\0" in text:
        raise GrammarError(
            "llama.cpp reads a grammar up to a NUL character only",
            text=text,
            offset=text.find("\0"),
        )
    depth = rules = 0
    for match in _MARKS.finditer(text):
        mark = match["mark"]
        if mark == "(":
            depth += 1
        elif mark == ")":
            depth -= 1
        elif mark == "::=":
            rules += 1
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


def refused_by_llama_cpp(text: str) -> GrammarError:
    """The error for GBNF that llama.cpp made no sampler of; with the position if llgx sees it."""
    try:
        Grammar.from_gbnf(text)
    except GrammarError as error:
        return error
    except LimitError as error:
        return GrammarError(f"llama.cpp cannot read this GBNF: {error.message}")
    return GrammarError(f"llama.cpp cannot read this GBNF, or it is left-recursive; {_REMEDY}")
