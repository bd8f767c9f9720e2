"""llgx and llguidance behind one interface, each used as its documentation advises.

An engine is set up once for a vocabulary, compiles grammars and JSON Schemas, and opens sessions on
what it compiled. Invariant: to compile is the whole work each time, whatever the engine would
rather have kept. A session of llgx is a new ``Matcher``. llguidance keeps its compiled grammar
inside a matcher, so a session there is a ``deep_copy`` of a matcher that never moved: it shares the
lexer states that earlier sessions have built, which makes it the cheapest way to serve a second
request.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
from harness import Session
from numpy.typing import NDArray

import llgx

if TYPE_CHECKING:
    import llguidance

__all__ = ["ENGINE_NAMES", "Compiled", "Engine", "make_engine"]

ENGINE_NAMES: Final = ("llgx", "llguidance")

Compiled = Callable[[], Session]


class Engine(Protocol):
    """What a bench needs of an engine; ``mask`` is where its sessions write, shape (1, words)."""

    name: str
    mask: NDArray[np.int32]

    def compile(self, grammar: str) -> Compiled:
        """Compile ``grammar`` (Lark) afresh; the result opens sessions at its start.

        ``ValueError`` or ``LlgxError`` where the engine refuses the grammar.
        """

    def compile_schema(
        self, schema: str, options: Mapping[str, Any], *, forcing: bool = True
    ) -> Compiled:
        """Compile a JSON Schema, given as JSON text, afresh. ``options`` are for llgx alone.

        With ``forcing`` an engine may answer a forced position with one token instead of the set
        that the schema allows, as llguidance does. Errors as in :meth:`compile`.
        """

    def stats(self) -> dict[str, int]:
        """Counts and bytes of what the last compiled grammar has built so far; {} if unknown."""


def make_engine(
    name: str, vocabulary: llgx.Vocabulary, shortcuts: llgx.Shortcuts | None = None
) -> Engine:
    """Build the engine called ``name`` and all that depends on the vocabulary alone, anew.

    ``shortcuts`` are llgx's, default: all. ``ImportError`` where the engine is not installed.
    """
    if name == "llgx":
        return _Llgx(vocabulary, shortcuts or llgx.Shortcuts())
    return _LLGuidance(vocabulary)


class _Llgx:
    """llgx; a first mask is computed here because the trie and the pool are built on demand."""

    name = "llgx"

    def __init__(self, vocabulary: llgx.Vocabulary, shortcuts: llgx.Shortcuts) -> None:
        self._shortcuts = shortcuts
        self._vocabulary = llgx.Vocabulary.from_tokens(
            vocabulary.tokens,
            eog=vocabulary.eog,
            special=vocabulary.special,
            name=vocabulary.name,
        )
        # Not kept alive: to take it down is no part of the next compilation.
        self._last: Callable[[], llgx.CompiledGrammar | None] = lambda: None
        self.mask = llgx.allocate_token_bitmask(1, len(vocabulary))
        session = self.compile('start: "a"')()
        session.fill(*session.target)

    def compile(self, grammar: str) -> Compiled:
        return self._compile(llgx.Grammar.from_lark(grammar))

    def compile_schema(
        self, schema: str, options: Mapping[str, Any], *, forcing: bool = True
    ) -> Compiled:
        # Compiled anew each time: a grammar that has been seen is not to be found again
        kept, llgx.schema_cache.limit = llgx.schema_cache.limit, 0
        try:
            return self._compile(llgx.Grammar.from_json_schema(schema, **options))
        finally:
            llgx.schema_cache.limit = kept

    def stats(self) -> dict[str, int]:
        last = self._last()
        return {} if last is None else last.stats()

    def _compile(self, grammar: llgx.Grammar) -> Compiled:
        compiled = grammar.compile(self._vocabulary, shortcuts=self._shortcuts)
        self._last = weakref.ref(compiled)
        return lambda: self._session(compiled)

    def _session(self, compiled: llgx.CompiledGrammar) -> Session:
        matcher = llgx.Matcher(compiled)
        # consume() raises where it does not accept, so there is no failure to ask for afterwards
        return Session(
            matcher.fill_bitmask,
            (self.mask, 0),
            matcher.consume,
            lambda: "",
            lambda text: matcher.match_bytes(text) == (len(text), True),
        )


class _LLGuidance:
    """llguidance, with its default slices and the same end-of-generation tokens as llgx."""

    name = "llguidance"

    def __init__(self, vocabulary: llgx.Vocabulary) -> None:
        import llguidance

        self._json = llguidance.LLMatcher.grammar_from_json_schema
        self._vocabulary = vocabulary
        self._new_matcher = llguidance.LLMatcher
        self._tokenizer = llguidance.LLTokenizer(
            llguidance.TokenizerWrapper(_Tokens(vocabulary)), eos_token=list(vocabulary.eog)
        )
        self.mask = llgx.allocate_token_bitmask(1, len(vocabulary))

    def compile_schema(
        self, schema: str, options: Mapping[str, Any], *, forcing: bool = True
    ) -> Compiled:
        if not forcing:
            return self.compile(f'%llguidance {{"no_forcing": true}}\nstart: %json {schema}')
        return self.compile(self._json(schema))

    def stats(self) -> dict[str, int]:
        return {}

    def compile(self, grammar: str) -> Compiled:
        matcher = self._new_matcher(self._tokenizer, grammar, log_level=0)
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        return lambda: self._session(matcher.deep_copy())

    def _session(self, matcher: llguidance.LLMatcher) -> Session:
        # The raw pointer, not llguidance.numpy: ndarray.ctypes would add a microsecond to each mask
        target = (self.mask.ctypes.data, self.mask.nbytes)
        return Session(
            matcher.unsafe_compute_mask_ptr,
            target,
            matcher.consume_token,
            matcher.get_error,
            lambda text: self._accepts(matcher, text),
        )

    def _accepts(self, matcher: llguidance.LLMatcher, text: bytes) -> bool:
        tokens = self._vocabulary.tokenize(text)
        if matcher.try_consume_tokens(tokens) < len(tokens):
            return False
        return matcher.is_accepting()


class _Tokens:
    """The attributes that ``llguidance.TokenizerWrapper`` reads."""

    def __init__(self, vocabulary: llgx.Vocabulary) -> None:
        self.eos_token_id = vocabulary.eog[0]
        self.bos_token_id = None
        self.tokens = vocabulary.tokens
        self.special_token_ids = sorted({*vocabulary.special, *vocabulary.eog})
        self._tokenize = vocabulary.tokenize

    def __call__(self, text: bytes) -> list[int]:
        return self._tokenize(text)
