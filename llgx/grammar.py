"""Grammars: checked descriptions, independent of any vocabulary.

A :class:`Grammar` is made by a front end and compiled for a vocabulary. Compiled grammars are kept
with the vocabulary for as long as the grammar lives, so that compiling again is a look-up and a
grammar keeps no vocabulary, and no model, alive.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from llgx import ir_text
from llgx._compiled import CompiledGrammar
from llgx._core import Matcher
from llgx.arguments import check_flag, check_limits, check_maximum, check_text
from llgx.cache import SCHEMA_CACHE, fixed_size, schema_key
from llgx.choices import compile_choices, compile_regex
from llgx.doors import other_door
from llgx.errors import GrammarError, LimitError, LlgxError
from llgx.forks import guarded
from llgx.ir import GrammarIR
from llgx.lark import Library, compile_grammars, compile_lark, read_grammars
from llgx.limits import DEFAULT_LIMITS, DEFAULT_SHORTCUTS, Limits, Shortcuts
from llgx.log import logger
from llgx.structural_tag import (
    SpecialToken,
    StructuralTag,
    compile_reasoning,
    compile_structural_tags,
)
from llgx.tag_requests import read_tag_request

if TYPE_CHECKING:
    from llgx.vocabulary import Vocabulary

__all__ = ["Grammar"]

_MARKER = "%llguidance"
# Of what is kept of all grammars: held for a few look-ups only. A finalizer may come here while it
# is held by its own thread.
_lock: Final = guarded(threading.RLock())


@contextlib.contextmanager
def _hinting(text: object, door: str) -> Iterator[None]:
    """Where ``text`` cannot be read, say who could read it."""
    try:
        yield
    except GrammarError as error:
        if isinstance(text, str):
            error.hint(other_door(text, door))
        raise


class Grammar:
    """A grammar that has been read and checked. Immutable; safe to share between threads.

    Made by the class methods. ``warnings`` holds what the front end found worth saying.
    """

    __slots__ = ("__weakref__", "_compiled", "_ir", "_key", "source")

    def __init__(self, ir: GrammarIR, *, source: str = "") -> None:
        if not isinstance(ir, GrammarIR):
            raise TypeError(f"a grammar is made from a GrammarIR, not {type(ir).__name__}")
        check_text(source, "the source of a grammar")
        ir.check()
        self._ir = ir
        self._compiled: list[weakref.ref[CompiledGrammar]] = []
        self._key: object = None  # in the cache of schemas
        self.source = source

    @classmethod
    def from_ir(cls, ir: GrammarIR) -> Grammar:
        """A grammar from its description. Raises ``ValueError`` if that is inconsistent. Linear."""
        return cls(ir)

    @classmethod
    def from_lark(
        cls,
        text: str,
        *,
        imports: Mapping[str, str] | str | os.PathLike[str] | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> Grammar:
        """A grammar from text in the Lark variant of llguidance, as docs/grammar.md describes it.

        ``imports`` are the modules that ``%import`` may name: their texts by name, or a directory
        of ``.lark`` files. Raises :class:`GrammarError` with line and column for text that is
        malformed or uses what llgx does not do, :class:`LimitError` for text beyond a cap. Linear
        in the text.
        """
        check_text(text, "a grammar")
        check_limits(limits)
        library = Library(imports)
        with _hinting(text, "lark"):
            return cls(compile_lark(text, library=library, limits=limits), source=text)

    @classmethod
    def from_grammars(
        cls,
        grammars: str | Mapping[str, Any] | Iterable[Mapping[str, Any]],
        *,
        max_tokens: int | None = None,
        imports: Mapping[str, str] | str | os.PathLike[str] | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> Grammar:
        """A grammar made of several, which enter each other with ``@name``; the first begins.

        ``grammars`` is a list of mappings with ``lark_grammar`` or ``json_schema`` and, but for the
        first, a ``name``; or the object that llguidance takes, ``{"grammars": [...]}``, or its JSON
        text. ``max_tokens`` bounds the tokens of a whole text. Raises as :meth:`from_lark` does.
        """
        check_limits(limits)
        with _hinting(grammars, "grammars"):
            sources, bound = read_grammars(grammars)
        ir = compile_grammars(sources, library=Library(imports), limits=limits)
        check_maximum(max_tokens, "max_tokens")
        ir.max_tokens = bound if max_tokens is None else max_tokens
        return cls(ir, source=grammars if isinstance(grammars, str) else "")

    @classmethod
    def from_string(cls, text: str, *, limits: Limits = DEFAULT_LIMITS) -> Grammar:
        """A grammar from text that says what it is: Lark after ``%llguidance``, the JSON form of
        several grammars after ``{``, else GBNF.

        Raises as :meth:`from_lark` and :meth:`from_gbnf` do.
        """
        check_text(text, "a grammar")
        check_limits(limits)
        if text.lstrip().startswith(_MARKER):
            return cls.from_lark(text, limits=limits)
        if text.lstrip().startswith("{"):
            return cls.from_grammars(text, limits=limits)
        return cls.from_gbnf(text, limits=limits)

    @classmethod
    def from_gbnf(cls, text: str, *, limits: Limits = DEFAULT_LIMITS) -> Grammar:
        """A grammar from text in GBNF, the format of llama.cpp, with the language it has there.

        Raises :class:`GrammarError` with line and column for text that is malformed,
        :class:`LimitError` for text beyond a cap. Usually linear in the text; where lexemes could
        be confused (see :mod:`llgx.gbnf.lexing`) a few times as much.
        """
        check_text(text, "a grammar")
        check_limits(limits)
        from llgx.gbnf import compile_gbnf

        with _hinting(text, "gbnf"):
            return cls(compile_gbnf(text, limits=limits), source=text)

    @classmethod
    def from_choices(cls, choices: Iterable[str]) -> Grammar:
        """A grammar of exactly these texts. Some of them may be empty, equal, or begin others.

        Raises :class:`GrammarError` if there are none or one holds a lone surrogate. Linear: about
        3 µs a text, and 8 µs when compiled.
        """
        return cls(compile_choices(choices))

    @classmethod
    def from_regex(
        cls,
        pattern: str,
        *,
        syntax: Literal["rust", "ecma"] = "rust",
        limits: Limits = DEFAULT_LIMITS,
    ) -> Grammar:
        """A grammar of the texts that ``pattern`` matches from start to end.

        ``syntax`` is the dialect: that of Lark grammars, or that of JavaScript and of ``pattern``
        in JSON Schema (with Unicode mode on). Raises :class:`GrammarError` with the column for what
        is malformed or not supported, :class:`LimitError` beyond a cap. Linear in the pattern.
        """
        check_text(pattern, "a pattern")
        check_limits(limits)
        return cls(compile_regex(pattern, syntax=syntax, limits=limits), source=pattern)

    @classmethod
    def from_json_schema(
        cls, schema: object, *, limits: Limits = DEFAULT_LIMITS, **options: Any
    ) -> Grammar:
        """A grammar of the JSON texts that ``schema`` allows.

        ``schema`` is a dict, JSON text, a bool, a pydantic model or ``TypeAdapter``, a dataclass or
        a ``TypedDict``. ``options`` are the fields of :class:`llgx.json_schema.Options`; they win
        over ``x-guidance`` in the schema. What is accepted and not held to, under
        ``on_unsupported="record"``, is in :attr:`CompiledGrammar.unenforced`.

        Raises :class:`SchemaError` with a JSON pointer for a schema that is malformed, has no value
        or cannot be enforced, :class:`LimitError` for one that takes too much work, ``TypeError``
        or ``ValueError`` for an option that is none. Linear in most schemas; the work on the others
        is bounded by ``limits``. An equal schema with equal options gives the same grammar again,
        as long as :data:`llgx.schema_cache` keeps it.
        """
        check_limits(limits)
        front_end = _json_schema()
        chosen = front_end.options_of(options)
        key = None
        if cls is Grammar and (SCHEMA_CACHE.limit or SCHEMA_CACHE.directory is not None):
            key = schema_key(schema, chosen, limits)
            known = None if key is None else SCHEMA_CACHE.get(key)
            if known is not None:
                return known
        grammar = cls.__new__(cls)
        # Not checked: emission keeps the invariants, and compiling checks them again.
        if key is None:
            grammar._ir = front_end.compile_schema(schema, chosen, limits=limits)
        else:
            grammar._ir = SCHEMA_CACHE.make(
                key, front_end.compile_schema, schema, chosen, limits=limits
            )
        grammar._compiled = []
        grammar._key = key
        grammar.source = ""
        return grammar if key is None else SCHEMA_CACHE.add(key, grammar, fixed_size(key, grammar))

    @classmethod
    def from_structural_tags(
        cls,
        tags: Iterable[StructuralTag | Mapping[str, Any]] | Mapping[str, Any] | str,
        *,
        triggers: Iterable[str | SpecialToken] = (),
        at_least_one: bool = False,
        stop_after_first: bool = False,
        excludes: Iterable[str] = (),
        limits: Limits = DEFAULT_LIMITS,
    ) -> Grammar:
        """A grammar of free text with tags in it, each of which follows a grammar of its own.

        ``tags`` are :class:`StructuralTag` objects, or dictionaries with the same fields (or a
        ``regex``), or a whole ``structural_tag`` request as a dictionary or JSON text. Free text
        goes on until one of the ``triggers`` occurs in it, and then a tag that begins with it has
        to follow; without ``triggers``, those of the tags are taken. It holds no string of
        ``excludes``. ``at_least_one`` asks for a tag, ``stop_after_first`` ends the text with it.

        Raises :class:`GrammarError` for tags that contradict themselves or each other, and whatever
        the grammars and schemas in them raise. Linear in the tags.
        """
        check_limits(limits)
        request = read_tag_request(tags)
        options = {
            "at_least_one": at_least_one,
            "stop_after_first": stop_after_first,
            "excludes": excludes,
            **request.options,
        }
        for name in ("at_least_one", "stop_after_first"):
            check_flag(options[name], name)
        contents = {}
        for place, tag in enumerate(request.tags):
            try:
                contents[id(tag)] = cls._content(tag, request.patterns.get(place), limits)
            except LlgxError as error:
                raise error.within(f"tag {place + 1}") from None
        ir = compile_structural_tags(
            request.tags,
            lambda tag: contents[id(tag)],
            triggers=request.triggers or triggers,
            **options,
        )
        return cls(ir)

    @classmethod
    def _content(cls, tag: StructuralTag, pattern: str | None, limits: Limits) -> GrammarIR | None:
        """What stands in ``tag``; None for any text."""
        if pattern is not None:
            return cls.from_regex(pattern, limits=limits).ir
        if isinstance(tag.grammar, Grammar):
            return tag.grammar.ir
        if tag.grammar is not None:
            return cls.from_string(tag.grammar, limits=limits).ir
        if tag.schema is not None:
            return cls.from_json_schema(tag.schema, limits=limits).ir
        return None

    def with_reasoning(
        self,
        end: str | SpecialToken | Sequence[str | SpecialToken] = "</think>",
        *,
        begin: str | SpecialToken | Sequence[str | SpecialToken] = (),
        max_tokens: int | None = None,
    ) -> Grammar:
        """This grammar after any text up to ``end``: for models that think before they answer.

        ``begin`` is what the reasoning starts with, if the prompt does not hold it already. After
        ``max_tokens`` tokens of reasoning, ``end`` has to follow. Raises :class:`GrammarError` if
        ``end`` is empty. Linear in the grammar.
        """
        ir = compile_reasoning(self._ir, end=end, begin=begin, max_tokens=max_tokens)
        return type(self)(ir, source=self.source)

    def __copy__(self) -> Grammar:
        return self  # immutable

    def __deepcopy__(self, memo: dict[int, Any]) -> Grammar:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # The lock and what was compiled stay here. A flat text: a regex may nest deeper than pickle
        # can go.
        return _unpickled, (type(self), ir_text.dumps(self._ir), self.source)

    @property
    def ir(self) -> GrammarIR:
        """The description. Not to be changed."""
        return self._ir

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the front end found worth saying about the text."""
        return tuple(self._ir.warnings)

    @property
    def unenforced(self) -> tuple[tuple[str, str, str], ...]:
        """What the source asks for and the grammar does not hold to: (place, keyword, reason)."""
        return tuple(self._ir.unenforced)

    def compile(
        self,
        vocabulary: Vocabulary,
        *,
        limits: Limits = DEFAULT_LIMITS,
        shortcuts: Shortcuts = DEFAULT_SHORTCUTS,
    ) -> CompiledGrammar:
        """The grammar bound to ``vocabulary``; the same object when asked for again, until that is
        worn (:attr:`CompiledGrammar.is_worn`). Warnings go to the logger ``llgx``.

        Raises :class:`GrammarError` if the grammar matches no text at all, :class:`LimitError` if
        it passes a cap, :class:`VocabularyError` if no token can begin a text, which is looked at
        where there are bytes that are no tokens. Linear in the grammar; states, rows and masks are
        built when first needed.
        """
        if not hasattr(vocabulary, "kept_for"):
            raise TypeError(
                f"a grammar is compiled for a Vocabulary, not {type(vocabulary).__name__}: "
                "Vocabulary.from_llama(llm) makes one"
            )
        check_limits(limits, shortcuts)
        # By number: most have one of these, which is found sooner than two dozen fields are hashed.
        kept: dict[int, CompiledGrammar] = vocabulary.kept_for(self)
        known = None
        if kept:
            with _lock:
                _, known = _find(kept, limits, shortcuts)
                if known is not None and not known.is_worn:
                    return known
        try:
            compiled = CompiledGrammar(self._ir, vocabulary, limits, shortcuts)
        except GrammarError as error:
            raise self._placed(error) from None
        if not vocabulary._spells_all():
            with contextlib.suppress(LimitError):  # which a matcher meets as well
                Matcher(compiled)._raise_if_stuck()
        for warning in compiled.warnings:
            logger.warning("grammar: %s", warning)
        with _lock:
            place, latest = _find(kept, limits, shortcuts)
            if latest is not known:
                assert latest is not None
                return latest
            kept[place] = compiled
            if self._compiled:
                self._compiled = [found for found in self._compiled if found() is not None]
            self._compiled.append(weakref.ref(compiled))
        if self._key is not None:
            compiled._report_to(functools.partial(SCHEMA_CACHE.grown, self._key))
            SCHEMA_CACHE.grown(self._key, compiled=True)
        return compiled

    def _placed(self, error: GrammarError) -> GrammarError:
        """``error``, pointing at the definition of what it is about, where the text has one."""
        if self.source and not error.line:
            for name in error.names:
                definition = rf"^[ \t]*[?!]*({re.escape(name)})(?![\w-])[^\n:|/\"]*:"
                found = re.search(definition, self.source, re.MULTILINE)
                if found is not None:
                    place = found.start(1)
                    return GrammarError(error.message, text=self.source, offset=place)
        return error

    def compiled_memory(self) -> int:
        """Bytes that the compiled grammars of all vocabularies hold, about."""
        return sum(
            compiled.memory
            for compiled in [found() for found in self._compiled]
            if compiled is not None
        )

    def __repr__(self) -> str:
        return (
            f"<llgx.Grammar of {len(self._ir.rules)} rules and {len(self._ir.terminals)} terminals>"
        )


_front_end: Any = None


def _json_schema() -> Any:
    """:mod:`llgx.json_schema`, which is imported when it is first asked for."""
    global _front_end
    if _front_end is None:
        from llgx import json_schema

        _front_end = json_schema
    return _front_end


def _find(
    kept: Mapping[int, CompiledGrammar], limits: Limits, shortcuts: Shortcuts
) -> tuple[int, CompiledGrammar | None]:
    """The one of ``kept`` that was compiled like that, and where it is or will be."""
    for place, compiled in kept.items():
        if (compiled.limits is limits or compiled.limits == limits) and (
            compiled.shortcuts is shortcuts or compiled.shortcuts == shortcuts
        ):
            return place, compiled
    return len(kept), None


def _unpickled(kind: type[Grammar], data: bytes, source: str) -> Grammar:
    return kind(ir_text.loads(data), source=source)
