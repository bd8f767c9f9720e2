"""Texts that end before the token budget does: the rest of the text is closed in time.

A :class:`Closing` is asked about each token that was sampled, and each run of tokens that is forced
(:class:`llgx.llama.jump.Arbiter`). It keeps a way from where the text stands to an end of it
(:class:`llgx._endings.Endings`). A token after which no way is found that fits into what is left of
the budget is not taken; the way before it is, to its end. So the model writes freely for as long as
the text can still be completed, and what it then lacks is as short as the grammar allows.

Invariant: the way at hand fits into the budget. Cost: some microseconds a token where the state was
met before, a search of the grammar's states where not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from llgx._compiled import CompiledGrammar
from llgx._core import Matcher
from llgx._endings import Endings
from llgx.errors import LimitError, LlgxError, VocabularyError

__all__ = ["Closing"]

_ENDINGS: Final = "endings"


class Closing:
    """Ends the text of one generation within ``budget`` tokens, end-of-generation tokens excluded.

    Raises :class:`LlgxError` where no text of the grammar is that short, as far as the search goes.
    """

    def __init__(self, compiled: CompiledGrammar, budget: int) -> None:
        self._endings = _endings_of(compiled)
        if self._endings.max_tokens is not None:
            budget = min(budget, self._endings.max_tokens)
        self._budget = budget
        way = self._way_from(Matcher(compiled), budget)
        if way is None:
            raise LlgxError("closing=True: no complete text of this grammar was found")
        if len(way) > budget:
            raise LlgxError(
                f"closing=True: the shortest text found for this grammar takes {len(way)} tokens, "
                f"and there is room for {budget}; raise max_tokens"
            )
        self._way = way
        self.is_closing = False  # whether a token of the model was refused

    def settle(self, matcher: Matcher, tokens: Sequence[int]) -> list[int] | None:
        """None if ``tokens`` may come where ``matcher`` stands; else all that comes instead."""
        left = self._budget - len(matcher) - len(tokens)
        after = matcher.copy()
        if after.try_consume(tokens) < len(tokens) or after.stop_reason == "eog":
            return None
        way = self._way_from(after, left)
        if way is not None and len(way) <= left:
            self._way = way
            return None
        self.is_closing = True
        return _canonical(matcher, self._way) or [matcher.compiled.vocabulary.eog[0]]

    def _way_from(self, matcher: Matcher, left: int) -> list[int] | None:
        """Tokens from ``matcher`` to an end of the text; the model's own if ``left`` asks for
        it. None if no way was found."""
        try:
            way = self._endings.way(matcher._place())
        except LimitError:
            return None
        if way is None or len(way) <= left:
            return way
        return _canonical(matcher, way)


def _canonical(matcher: Matcher, way: list[int]) -> list[int]:
    """``way`` in the tokens that the model's tokenizer would take, if those are fewer."""
    vocabulary = matcher.compiled.vocabulary
    if any(token in vocabulary.special for token in way):
        return way
    try:
        tokens = vocabulary.tokenize(b"".join(vocabulary.tokens[token] for token in way))
    except VocabularyError:
        return way
    if len(tokens) >= len(way):
        return way
    after = matcher.copy()
    if after.try_consume(tokens) == len(tokens) and after.is_accepting():
        return tokens
    return way


def _endings_of(compiled: CompiledGrammar) -> Endings:
    kept = compiled.vocabulary.kept_for(compiled)
    endings = kept.get(_ENDINGS)
    if endings is None:
        endings = kept[_ENDINGS] = Endings(compiled)
    return endings
