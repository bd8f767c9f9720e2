"""Matchers of the reference twin: tokens, masks, stops and forced bytes, byte by byte.

A matcher feeds each token to :class:`tests.reference.ReferenceGrammar`; nothing is kept but the
states on the way.
"""

from __future__ import annotations

import bisect
from collections.abc import Collection, Iterable, Sequence

from llgx.ir import (
    GrammarIR,
    TokenSet,
)
from tests.reference import ReferenceGrammar, State, Ways

__all__ = ["ReferenceMatcher", "ReferenceVocabulary", "RejectedError"]


class RejectedError(ValueError):
    """A token that the grammar does not allow here."""


# --------------------------------------------------------------------------------------------------
# Tokens.


class ReferenceVocabulary:
    """Token texts in order, so that common beginnings are fed once."""

    def __init__(
        self, tokens: Sequence[bytes], eog: Collection[int], special: Collection[int] = ()
    ) -> None:
        """``tokens`` by id. Empty, special and end-of-generation tokens are no text."""
        self.tokens = list(tokens)
        self.eog = frozenset(eog)
        self.special = frozenset(special)
        no_text = self.eog | self.special
        pairs = sorted(
            (text, token) for token, text in enumerate(tokens) if text and token not in no_text
        )
        self._texts = [text for text, _ in pairs]
        self._ids = [token for _, token in pairs]
        # How many bytes each has in common with the one before it.
        self._common = [0] * len(pairs)
        for i in range(1, len(pairs)):
            before, text = self._texts[i - 1], self._texts[i]
            length = min(len(before), len(text))
            self._common[i] = next((k for k in range(length) if before[k] != text[k]), length)

    def ids(self, tokens: TokenSet) -> frozenset[int]:
        """The ids that ``tokens`` stands for; the tokens that end a generation only by name."""
        named: set[int] = set()
        for name in map(str.encode, tokens.names):
            marked = {t for t in self.eog | self.special if name and self.tokens[t] == name}
            if not marked and not tokens.optional:
                marked = {t for t, text in enumerate(self.tokens) if text == name}
            named |= marked
        for first, last in tokens.ranges:
            named.update(range(first, last + 1))
        everything = range(len(self.tokens))
        return frozenset(set(everything) - named - self.eog if tokens.negated else named)

    def text_of(self, token: int) -> bytes | None:
        """The text that consuming ``token`` adds; None for a token that is no text."""
        if not 0 <= token < len(self.tokens) or token in self.eog or token in self.special:
            return None
        return self.tokens[token] or None

    def allowed(self, grammar: ReferenceGrammar, state: State | Ways) -> set[int]:
        """The text tokens all of whose bytes ``grammar`` allows after ``state``."""
        found: set[int] = set()
        path: list[State | Ways] = [state]  # path[k] is the state after k bytes of the text before
        index = 0
        while index < len(self._texts):
            text, common = self._texts[index], self._common[index]
            del path[common + 1 :]
            for byte in text[common:]:
                after = grammar.step(path[-1], byte)
                if after is None:
                    # No text with this beginning is allowed. The next one that differs from it
                    # has as much in common with it as with the last of them.
                    index = self._first_without(text[: len(path)], index)
                    break
                path.append(after)
            else:
                found.add(self._ids[index])
                index += 1
        return found

    def _first_without(self, beginning: bytes, index: int) -> int:
        """The place of the first text from ``index`` on that does not begin like that."""
        last = beginning.rstrip(b"\xff")
        if not last:
            return len(self._texts)
        beyond = last[:-1] + bytes((last[-1] + 1,))
        return bisect.bisect_left(self._texts, beyond, index)


class ReferenceMatcher:
    """The interface of ``llgx.Matcher`` as far as tests compare it."""

    def __init__(
        self,
        ir: GrammarIR | ReferenceGrammar,
        tokens: Sequence[bytes] | ReferenceVocabulary,
        eog: Collection[int] = (),
        special: Collection[int] = (),
    ) -> None:
        """A matcher at the beginning; prepared grammars and vocabularies may be shared."""
        self.vocabulary = (
            tokens
            if isinstance(tokens, ReferenceVocabulary)
            else ReferenceVocabulary(tokens, eog, special)
        )
        self.grammar = (
            ir if isinstance(ir, ReferenceGrammar) else ReferenceGrammar(ir, self.vocabulary)
        )
        self.tokens: list[int] = []
        self._kept: tuple[list[int], set[int]] | None = None  # the last mask, and after what
        # One more than tokens; None once a token has ended the text.
        self._states: list[State | Ways | None] = [self.grammar.start]

    @property
    def state(self) -> State | Ways | None:
        """The state after the tokens so far, None after the end."""
        return self._states[-1]

    @property
    def stop_reason(self) -> str | None:
        """Why the matcher is stopped, None if it is not."""
        if self.state is None:
            return "eog"
        if (
            self.is_accepting()
            and not self.grammar.followers(self.state)
            and not self.grammar.takes(self.state)
        ):
            return "complete"
        return "max_tokens" if self._is_spent() else None

    def _is_spent(self) -> bool:
        most = self.grammar.ir.max_tokens
        return most is not None and len(self.tokens) >= most

    def is_stopped(self) -> bool:
        """Whether nothing but an end-of-generation token can come."""
        return self.stop_reason is not None

    def is_accepting(self) -> bool:
        """Whether the text so far is complete."""
        if self.state is None:
            last = next(state for state in reversed(self._states) if state is not None)
            return self.grammar.is_complete(last)
        return self.grammar.is_complete(self.state)

    def mask(self) -> set[int]:
        """The ids of all tokens that may come next."""
        if self.state is None or self._is_spent():
            return set(self.vocabulary.eog)
        self.grammar.now = len(self.tokens)
        found = self.vocabulary.allowed(self.grammar, self.state) | self.grammar.takes(self.state)
        if self.is_accepting() or self.grammar.eat(self.state)[1] is not None:
            found |= self.vocabulary.eog
        if not self.grammar.limited:
            return found
        # Where some tokens cut no derivation off, only these.
        if self._kept is None or self._kept[0] != self.tokens:
            kept = {token for token in found if not self._move(token)[2]} or found
            self._kept = list(self.tokens), kept
        return set(self._kept[1])

    def _move(self, token: int) -> tuple[bool, State | Ways | None, bool]:
        """Whether ``token`` leads on, the state after it, and whether that cuts a derivation."""
        if self.state is None or self._is_spent():
            return token in self.vocabulary.eog, None, False
        self.grammar.now = len(self.tokens)
        after: State | Ways | None = None
        if token in self.vocabulary.eog:
            after = self.grammar.eat(self.state)[1]
            if after is None and self.is_accepting():
                return True, None, False
        if after is None:
            after = self.grammar.take(self.state, token)
        if after is None:
            text = self.vocabulary.text_of(token)
            after = None if text is None else self.grammar.run(text, self.state)
        if after is None:
            return False, None, False
        return True, *self.grammar.expire(after, len(self.tokens) + 1)

    def was_cut(self) -> bool:
        """Whether one of the tokens has cut a derivation off."""
        probe = ReferenceMatcher(self.grammar, self.vocabulary)
        for token in self.tokens:
            if probe._move(token)[2]:
                return True
            probe.consume(token)
        return False

    def _after(self, token: int) -> tuple[bool, State | Ways | None]:
        """Whether ``token`` may come, and the state after it."""
        fits, after, cut = self._move(token)
        return fits and (not cut or token in self.mask()), after

    def allows(self, token: int) -> bool:
        """Whether ``token`` may come next."""
        return self._after(token)[0]

    def consume(self, token: int) -> None:
        """Take ``token``, or raise :class:`RejectedError` and leave everything as it was."""
        fits, after = self._after(token)
        if not fits:
            raise RejectedError(f"token {token} is not allowed")
        self.tokens.append(token)
        self._states.append(after)

    def try_consume(self, tokens: Iterable[int]) -> int:
        """Take tokens up to the first that is not allowed; how many were taken."""
        taken = 0
        for token in tokens:
            if not self.allows(token):
                break
            self.consume(token)
            taken += 1
        return taken

    def validate(self, tokens: Iterable[int]) -> int:
        """How many tokens :meth:`try_consume` would take."""
        return self.copy().try_consume(tokens)

    def rollback(self, count: int) -> None:
        """Undo the last ``count`` tokens."""
        if not 0 <= count <= len(self.tokens):
            raise ValueError(f"cannot undo {count} of {len(self.tokens)} tokens")
        keep = len(self.tokens) - count
        del self.tokens[keep:]
        del self._states[keep + 1 :]

    def reset(self) -> None:
        """Undo all tokens."""
        self.rollback(len(self.tokens))

    def copy(self) -> ReferenceMatcher:
        """An independent matcher in the same state."""
        other = ReferenceMatcher(self.grammar, self.vocabulary)
        other.tokens = list(self.tokens)
        other._states = list(self._states)
        return other

    def forced_bytes(self, limit: int = 256) -> bytes:
        """The bytes that must come next, as long as there is no choice: at most ``limit``."""
        forced = bytearray()
        state: State | Ways | None = self.state
        self.grammar.now = len(self.tokens)
        if not self.grammar.ir.forcing or self._is_spent():
            return b""
        while state is not None and len(forced) < limit and not self.grammar.is_complete(state):
            if self.grammar.takes(state) or self.grammar.eat(state)[1] is not None:
                break
            if self.grammar.is_open(state):
                break
            followers = self.grammar.followers(state)
            if len(followers) != 1:
                break
            forced.extend(followers)
            state = self.grammar.step(state, forced[-1])
        return bytes(forced)
