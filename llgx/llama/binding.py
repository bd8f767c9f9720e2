"""What logits processors and samplers share: grammars of a model, errors out of ``sample``.

llama-cpp-python prints and swallows what is raised in a callback, and llama.cpp's callbacks cannot
raise at all. Both ways of constraining therefore note their errors, and :class:`RaisingSample`
raises them from ``LlamaSampler.sample``, which is called from ``Llama.generate`` and so from
``create_completion``, chat and streams.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeAlias

from llgx._compiled import CompiledGrammar
from llgx.errors import VocabularyError
from llgx.grammar import Grammar
from llgx.vocabulary import Vocabulary

__all__ = [
    "OnError",
    "RaisingEnd",
    "RaisingSample",
    "check_on_error",
    "compiled_for",
    "grammar_in",
    "schema_hint",
    "vocabulary_with_end",
]

OnError: TypeAlias = Literal["raise", "continue"]


class Source(Protocol):
    """Something that notes errors while a token is sampled."""

    def report(self) -> None:
        """Raise what went wrong, or print it if generation is to go on."""


class RaisingSample:
    """``sampler.sample`` of one sampler chain, which raises what its ``sources`` ran into.

    It is set on the ``LlamaSampler`` that ``generate`` made for one completion and goes with it; no
    class and no model is changed.
    """

    __slots__ = ("_sampler", "sources")

    def __init__(self, sampler: Any) -> None:
        # Weakly, or the chain, and with it a hold on the model, would last until the next garbage
        # collection.
        self._sampler: Callable[[], Any] = weakref.ref(sampler)
        self.sources: list[Source] = []

    @classmethod
    def install(cls, sampler: Any, source: Source) -> None:
        """Let ``sampler`` raise the errors of ``source``."""
        present = cls.of(sampler)
        if present is None:
            present = sampler.sample = cls(sampler)
        if source not in present.sources:
            present.sources.append(source)

    @classmethod
    def of(cls, sampler: Any) -> RaisingSample | None:
        """What is installed on ``sampler``."""
        present = vars(sampler).get("sample")
        return present if isinstance(present, cls) else None

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        sampler = self._sampler()
        token = type(sampler).sample(sampler, *arguments, **options)
        for source in self.sources:
            source.report()
        return token


class RaisingEnd:
    """``llm.detokenize`` of one model, up to its next call: raises what ended a completion at its
    first token.

    A logits processor sees the sampler chain only while the first token is sampled, too late for
    :class:`RaisingSample`. A completion that ends there is made into text, without any token, next.
    """

    __slots__ = ("_before", "_llm", "_sampler", "_source")

    def __init__(self, llm: Any, sampler: Any, source: Source) -> None:
        self._llm: Callable[[], Any] = weakref.ref(llm)
        self._sampler: Callable[[], Any] = weakref.ref(sampler)
        self._source: Callable[[], Source | None] = weakref.ref(source)
        self._before = vars(llm).get("detokenize")
        llm.detokenize = self

    def remove(self) -> None:
        """Leave the model as it was, unless something else has been put there since."""
        llm = self._llm()
        if llm is None or vars(llm).get("detokenize") is not self:
            return
        if self._before is None:
            del llm.detokenize
        else:
            llm.detokenize = self._before

    def __call__(self, tokens: Any, *arguments: Any, **options: Any) -> Any:
        llm, sampler, source = self._llm(), self._sampler(), self._source()
        self.remove()
        # Of another completion, if generate() was called without one.
        if sampler is not None and llm._sampler is sampler and not len(tokens) and source:
            source.report()
        return llm.detokenize(tokens, *arguments, **options)


def check_on_error(on_error: OnError) -> None:
    """Raise ``ValueError`` if ``on_error`` is none of its values."""
    if on_error not in ("raise", "continue"):
        raise ValueError(f'on_error is "raise" or "continue", not {on_error!r}')


def vocabulary_with_end(llm: Any) -> Vocabulary:
    """The vocabulary of ``llm``, which may be one itself.

    Raises :class:`VocabularyError` if it has no end-of-generation token.
    """
    vocabulary = llm if isinstance(llm, Vocabulary) else Vocabulary.from_llama(llm)
    if not vocabulary.eog:
        raise VocabularyError(
            f"{vocabulary!r} has no end-of-generation token, so that a completion could not end"
        )
    return vocabulary


def grammar_in(grammar: object) -> Grammar | CompiledGrammar | None:
    """The grammar in what ``grammar=`` of llama-cpp-python takes, or ``grammar`` if it is one; None
    for anything else, text included.

    GBNF that llama.cpp would follow is read by llgx. Raises :class:`GrammarError` if it cannot be.
    """
    if isinstance(grammar, (Grammar, CompiledGrammar)):
        return grammar
    text = getattr(grammar, "_grammar", None)
    if not isinstance(text, str):
        return None
    described = getattr(grammar, "grammar", None)
    return described if isinstance(described, (Grammar, CompiledGrammar)) else _read(text)


@functools.lru_cache(maxsize=64)
def _read(text: str) -> Grammar:
    return Grammar.from_string(text)


def schema_hint(given: object, maker: str) -> str:
    """Where ``given`` may be a schema or a type, how ``maker`` makes a grammar of it; else ""."""
    if isinstance(given, (dict, bool, type)):
        return f": llgx.{maker}.from_json_schema makes one of a schema or a type"
    return ""


def compiled_for(grammar: Any, vocabulary: Vocabulary) -> CompiledGrammar:
    """``grammar`` (Lark text, or what :func:`grammar_in` takes) compiled for ``vocabulary``.

    Raises what compiling raises, ``TypeError`` for what is no grammar, and
    :class:`VocabularyError` for one that is compiled for another vocabulary.
    """
    found = Grammar.from_lark(grammar) if isinstance(grammar, str) else grammar_in(grammar)
    if found is None:
        raise TypeError(
            "a grammar is Lark text, a Grammar, a CompiledGrammar or a LlamaGrammar, not "
            f"{type(grammar).__name__}{schema_hint(grammar, 'Grammar')}"
        )
    if isinstance(found, Grammar):
        return found.compile(vocabulary)
    other: Vocabulary = found.vocabulary
    if other is not vocabulary and other.fingerprint != vocabulary.fingerprint:
        raise VocabularyError(f"the grammar is compiled for {other!r}, not for {vocabulary!r}")
    return found
