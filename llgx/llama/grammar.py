"""``llgx.LlamaGrammar``: what ``grammar=`` of llama-cpp-python takes.

A grammar is read when it is made, so that its errors come from where it was written; it is compiled
for a model when a generation begins, which the model's vocabulary remembers. It holds no state: any
number of generations may use one, also at the same time.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llgx._compiled import CompiledGrammar
from llgx.errors import GrammarError
from llgx.grammar import Grammar
from llgx.llama.binding import OnError, check_on_error
from llgx.llama.gbnf_guard import check_gbnf
from llgx.llama.hooks import add_hook, is_llgx_text
from llgx.llama.schemas import WHITESPACE

if TYPE_CHECKING:
    from typing_extensions import Self

try:
    from llama_cpp.llama_grammar import LlamaGrammar as _LlamaGrammar
except ImportError as error:
    raise ImportError(
        "LlamaGrammar needs llama-cpp-python 0.3.8 or later: pip install llama-cpp-python"
    ) from error

__all__ = ["LlamaGrammar"]

_HEADER = "%llguidance {}\n"
_SHOWN = 60  # characters of GBNF, in a repr


class LlamaGrammar(_LlamaGrammar):
    """A grammar for ``grammar=`` of ``create_completion``, ``create_chat_completion`` and the like.

    Made by the class methods. ``grammar`` is the :class:`llgx.Grammar`, or None for GBNF that
    llama.cpp itself follows. The first one that is made puts the hook of :mod:`llgx.llama.hooks` in
    place.

    An error while generating ends the generation and is raised from the call that generates. With
    ``on_error="continue"`` it is printed to stderr and the rest is unconstrained. GBNF that
    llama.cpp follows knows one such error: a token is chosen that it does not allow.

    ``jump_forward`` says whether forced text is evaluated at once (:mod:`llgx.llama.jump`); None,
    which it is unless set, leaves that to :func:`llgx.install`.
    """

    def __init__(
        self,
        *,
        _grammar: str,
        grammar: Grammar | CompiledGrammar | None = None,
        on_error: OnError = "raise",
    ) -> None:
        check_on_error(on_error)
        add_hook("LlamaGrammar")
        super().__init__(_grammar=_grammar)
        self.grammar = grammar
        self.on_error: OnError = on_error
        self.jump_forward: bool | None = None

    def __repr__(self) -> str:
        if self.grammar is not None:
            return f"<llgx.LlamaGrammar: {self.grammar!r}>"
        text = " ".join(self._grammar.split())
        shown = text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
        return f"<llgx.LlamaGrammar: GBNF for llama.cpp, {shown!r}>"

    @classmethod
    def from_string(
        cls, grammar: str, verbose: bool = True, *, on_error: OnError = "raise"
    ) -> Self:
        """A grammar from text: for llgx if it starts with ``%llguidance`` (or is the JSON form of
        several grammars), else GBNF, which llama.cpp follows as ever.

        Raises :class:`GrammarError` for malformed text, GBNF included. What only llama.cpp finds
        wrong with GBNF, or only the model's vocabulary can tell, is raised when a generation
        begins. ``verbose`` changes nothing.
        """
        if not isinstance(grammar, str):
            raise TypeError(f"a grammar is a str, not {type(grammar).__name__}")
        if is_llgx_text(grammar):
            return cls(_grammar=grammar, grammar=Grammar.from_string(grammar), on_error=on_error)
        check_gbnf(grammar)
        return cls(_grammar=grammar, on_error=on_error)

    @classmethod
    def from_file(
        cls, file: str | os.PathLike[str], verbose: bool = True, *, on_error: OnError = "raise"
    ) -> Self:
        """:meth:`from_string` of a file in UTF-8, whatever the platform's encoding is.

        Raises ``OSError`` if it cannot be read, :class:`GrammarError` if it is not UTF-8.
        """
        try:
            text = Path(file).read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise GrammarError(f"{os.fspath(file)} is not UTF-8: {error}") from None
        return cls.from_string(text, verbose, on_error=on_error)

    @classmethod
    def from_json_schema(
        cls,
        json_schema: object,
        verbose: bool = True,
        *,
        on_error: OnError = "raise",
        **options: Any,
    ) -> Self:
        """A grammar of the JSON texts that a schema allows.

        ``json_schema`` is a dict, JSON text, a bool, a pydantic model or ``TypeAdapter``, a
        dataclass or a ``TypedDict``; ``options`` and what is raised are those of
        :meth:`llgx.Grammar.from_json_schema`. White space is bounded unless ``whitespace`` or
        ``indent`` says otherwise: one blank, or a line end and up to 20 blanks and tabs.
        """
        if not {"whitespace", "indent"} & options.keys():
            options["whitespace"] = WHITESPACE
        return cls.from_grammar(Grammar.from_json_schema(json_schema, **options), on_error=on_error)

    @classmethod
    def from_gbnf(cls, text: str, *, on_error: OnError = "raise") -> Self:
        """GBNF that llgx follows: fast, left recursion included. See :meth:`Grammar.from_gbnf`."""
        return cls.from_grammar(Grammar.from_gbnf(text), on_error=on_error)

    @classmethod
    def from_lark(cls, text: str, *, on_error: OnError = "raise") -> Self:
        """Lark text, with or without ``%llguidance``. See :meth:`llgx.Grammar.from_lark`."""
        return cls.from_grammar(Grammar.from_lark(text), on_error=on_error)

    @classmethod
    def from_grammar(
        cls, grammar: Grammar | CompiledGrammar, *, on_error: OnError = "raise"
    ) -> Self:
        """Any grammar of llgx: of a regex, of choices, with structural tags, with reasoning.

        One that is compiled serves models with its vocabulary.
        """
        if not isinstance(grammar, (Grammar, CompiledGrammar)):
            raise TypeError(f"not a llgx.Grammar: {type(grammar).__name__}")
        # The text is for callers that look for one, not for following it. None that llama.cpp could
        # take for GBNF of its own.
        source = grammar.source if isinstance(grammar, Grammar) else ""
        text = source if is_llgx_text(source) else _HEADER + source
        return cls(_grammar=text, grammar=grammar, on_error=on_error)
