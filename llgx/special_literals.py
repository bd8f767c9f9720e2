"""Finds literals of a grammar that spell a special token of a vocabulary.

Text is text: ``"<think>"`` matches the characters, as other tokens spell them, and never the token
``<think>``. A model that has been trained with that token will want to write it, so the grammar
deserves a warning. Cost: about a microsecond a literal, once for each compilation.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from llgx.vocabulary import Vocabulary

__all__ = ["special_literals"]

_MOST: Final = 20
# Shorter texts of special tokens, if there are any, are too common to be meant.
_SHORTEST: Final = 3


class _Maker:
    """What vocabularies keep the texts of their special tokens for."""


_MAKER: Final = _Maker()


def special_literals(literals: Iterable[str], vocabulary: Vocabulary) -> list[str]:
    """A warning for each special token of ``vocabulary`` that is written as text in a literal."""
    found: dict[str, str] = {}
    kept: dict[str, Any] | None = None
    for literal in literals:
        if len(literal) < _SHORTEST:
            continue
        if kept is None:
            kept = _texts(vocabulary)
        texts, lengths, first = kept["texts"], kept["lengths"], kept["first"]
        for begin in range(len(literal) - _SHORTEST + 1):
            if literal[begin] not in first:
                continue
            for length in lengths:
                text = literal[begin : begin + length]
                if text in texts:
                    found.setdefault(text, literal)
        if len(found) >= _MOST:
            break
    return [_warning(text, literal) for text, literal in sorted(found.items())]


def _texts(vocabulary: Vocabulary) -> dict[str, Any]:
    kept = vocabulary.kept_for(_MAKER)
    if not kept:
        texts = set()
        for token in {*vocabulary.special, *vocabulary.eog}:
            text = vocabulary.tokens[token].decode("utf-8", "replace")
            if len(text) >= _SHORTEST:
                texts.add(text)
        kept["lengths"] = sorted({len(text) for text in texts})
        kept["first"] = {text[0] for text in texts}
        kept["texts"] = texts
    return kept


def _warning(text: str, literal: str) -> str:
    shown = literal if len(literal) <= 60 else literal[:57] + "..."
    where = "" if literal == text else f" (in {shown!r})"
    token = text if text.startswith("<") and text.endswith(">") else "<[id]>"
    return (
        f"the literal {text!r}{where} is also a special token of this vocabulary: it matches the "
        f"text as other tokens spell it; {token} without quotes matches the token"
    )
