"""``grammar=`` of llama-cpp-python: a hook on ``LlamaSampler.add_grammar``, one on ``generate``.

``Llama`` makes one sampler chain for each generation and has the grammar added to it by this
method, in completion and in chat. The hook adds a sampler of llgx for a :class:`LlamaGrammar` of
llgx and for any grammar whose text is one for llgx; other text is GBNF and goes to llama.cpp as
before, except that what it cannot read, or not follow, is an error and no crash. The hook on
``Llama.generate`` is for jump-forward (:mod:`llgx.llama.jump`); generations that do not want it
pass by.

Invariant: each generation begins with a fresh state. The hook is in place as long as one of those
who asked for it needs it; without it, nothing of llama-cpp-python is changed.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable
from typing import Any, Final

from llgx._compiled import CompiledGrammar
from llgx.errors import GrammarError, LlgxError
from llgx.forks import guarded
from llgx.grammar import Grammar
from llgx.llama.binding import OnError, compiled_for, schema_hint, vocabulary_with_end
from llgx.llama.gbnf_guard import check_gbnf, refused_by_llama_cpp
from llgx.llama.gbnf_probe import answers_null, is_followed
from llgx.llama.jump import jumping
from llgx.llama.patching import Patches
from llgx.llama.sampler import GbnfSampler, Sampler
from llgx.llama.schemas import schema_in

__all__ = ["add_hook", "is_llgx_text", "jump_by_default", "remove_hook", "sampler_for"]

_MARKERS: Final = ("%llguidance", "{")

_lock = guarded(threading.Lock())
_patches: Patches | None = None
_users: set[str] = set()
_jumps_by_default = False


def is_llgx_text(text: str) -> bool:
    """Whether grammar text is for llgx: Lark after ``%llguidance``, or several grammars as JSON."""
    return text.lstrip().startswith(_MARKERS)


def add_hook(user: str) -> None:
    """Put the hook in place, for ``user`` too. Cheap when it is.

    Raises :class:`LlgxError` if this version of llama-cpp-python has no such method, and changes
    nothing then.
    """
    global _patches
    if user in _users:
        return
    with _lock:
        if _patches is None:
            _patches = _make_patches()
        _patches.apply()
        _users.add(user)


def remove_hook(user: str | None = None) -> None:
    """Take the hook back, unless someone other than ``user`` needs it; without ``user`` always."""
    with _lock:
        if user is None:
            _users.clear()
        else:
            _users.discard(user)
        if not _users and _patches is not None:
            _patches.undo()


def unknown_internals() -> list[str]:
    """What the hook relies on and llama-cpp-python does not have; empty if all is there."""
    from llama_cpp import Llama, _internals, llama_cpp

    method = getattr(getattr(_internals, "LlamaSampler", None), "add_grammar", None)
    problems = []
    if method is None or list(inspect.signature(method).parameters) != ["self", "model", "grammar"]:
        problems.append("LlamaSampler.add_grammar(model, grammar)")
    parameters = inspect.signature(Llama.generate).parameters if hasattr(Llama, "generate") else {}
    if not {"tokens", "grammar", "logits_processor", "stopping_criteria"} <= set(parameters):
        problems.append("Llama.generate(tokens, grammar, logits_processor, stopping_criteria)")
    if not hasattr(Llama, "_init_sampler"):
        problems.append("Llama._init_sampler")
    for name in ("llama_sampler_init_grammar", "llama_sampler_chain_add", "llama_sampler_init"):
        if not hasattr(llama_cpp, name):
            problems.append(name)
    return problems


def refuse_unknown(problems: list[str]) -> None:
    """Raise :class:`LlgxError` if there are any ``problems``."""
    if problems:
        import llama_cpp

        raise LlgxError(
            f"llama-cpp-python {llama_cpp.__version__} is not known to this version of llgx: it "
            f"lacks {', '.join(problems)}. Nothing was changed. llgx.logits_processors and "
            "llgx.sampler do without."
        )


def jump_by_default(jumps: bool) -> bool:
    """Set whether generations jump forward whose grammar does not say; what it was before."""
    global _jumps_by_default
    before = _jumps_by_default
    _jumps_by_default = bool(jumps)
    return before


def _jumps(patches: Patches, llm: Any, grammar: Any) -> CompiledGrammar | None:
    """The grammar of a generation that jumps forward, None for the others."""
    wanted = getattr(grammar, "jump_forward", None)
    if not patches.is_active or not (_jumps_by_default if wanted is None else wanted):
        return None
    request = _request(grammar)
    return None if request is None else compiled_for(request[0], vocabulary_with_end(llm))


def _make_patches() -> Patches:
    from llama_cpp import Llama, _internals

    refuse_unknown(unknown_internals())
    patches = Patches()
    patches.plan(
        Llama, "generate", lambda original: jumping(original, functools.partial(_jumps, patches))
    )
    patches.plan(
        _internals.LlamaSampler, "add_grammar", lambda original: _add_grammar(patches, original)
    )
    if hasattr(_internals.LlamaSampler, "add_grammar_lazy_patterns"):
        patches.plan(
            _internals.LlamaSampler,
            "add_grammar_lazy_patterns",
            lambda original: _add_lazy(patches, original),
        )
    return patches


def _add_grammar(patches: Patches, original: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(original)
    def add_grammar(self: Any, model: Any, grammar: Any) -> None:
        if not patches.is_active and not _is_for_llgx(grammar):
            original(self, model, grammar)
            return
        # Also when the hook was taken back since this was looked up: llama.cpp would crash.
        constraint = sampler_for(model, grammar)
        if constraint is not None:
            constraint.add_to(self)
            return
        # The original adds what llama.cpp answers without looking at it.
        pointer = gbnf_sampler(model.vocab, grammar._grammar, grammar._root)
        on_error: OnError = getattr(grammar, "on_error", "raise")
        GbnfSampler(pointer, model.vocab, on_error=on_error).add_to(self)

    return add_grammar


def _add_lazy(patches: Patches, original: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(original)
    def add_grammar_lazy_patterns(
        self: Any, model: Any, grammar: Any, *arguments: Any, **options: Any
    ) -> None:
        if patches.is_active and _request(grammar) is not None:
            raise LlgxError(
                "patterns that start a grammar are for GBNF; with llgx the free text belongs to "
                "the grammar: Grammar.from_structural_tags"
            )
        if not patches.is_active:
            original(self, model, grammar, *arguments, **options)
            return
        from llama_cpp import llama_cpp

        check_gbnf(grammar._grammar, llama_cpp.llama_vocab_n_tokens(model.vocab))
        original(self, model, grammar, *arguments, **options)
        last = llama_cpp.llama_sampler_chain_n(self.sampler) - 1
        pointer = llama_cpp.llama_sampler_chain_remove(self.sampler, last)
        if not pointer:
            raise refused_by_llama_cpp(grammar._grammar)
        GbnfSampler(pointer, model.vocab).add_to(self)

    return add_grammar_lazy_patterns


def gbnf_sampler(vocab: Any, text: str, root: str) -> Any:
    """llama.cpp's own sampler for GBNF. Raises :class:`GrammarError` where it makes none."""
    from llama_cpp import llama_cpp

    check_gbnf(text, llama_cpp.llama_vocab_n_tokens(vocab))
    pointer = llama_cpp.llama_sampler_init_grammar(
        vocab, text.encode("utf-8"), root.encode("utf-8")
    )
    if not pointer:
        raise refused_by_llama_cpp(text)
    if not answers_null() and not is_followed(pointer, vocab, text):
        llama_cpp.llama_sampler_free(pointer)
        raise refused_by_llama_cpp(text)
    return pointer


def sampler_for(model: Any, grammar: Any) -> Sampler | None:
    """A sampler for a ``grammar=`` argument; None if it is GBNF for llama.cpp.

    ``model`` is a ``LlamaModel`` or the address of a vocabulary. Raises what compiling raises.
    """
    request = _request(grammar)
    if request is None:
        return None
    described, on_error = request
    return Sampler(model, described, on_error=on_error)


def _request(grammar: Any) -> tuple[Grammar | CompiledGrammar, OnError] | None:
    """The grammar in a ``grammar=`` argument, and what is to happen on errors."""
    described = grammar if isinstance(grammar, Grammar) else getattr(grammar, "grammar", None)
    on_error: OnError = getattr(grammar, "on_error", "raise")
    if isinstance(described, (Grammar, CompiledGrammar)):
        return described, on_error
    text = grammar if isinstance(grammar, str) else getattr(grammar, "_grammar", None)
    if not isinstance(text, str):
        raise GrammarError(
            "grammar= takes a llgx.LlamaGrammar, a llgx.Grammar or a llama_cpp.LlamaGrammar, not "
            f"{type(grammar).__name__}{schema_hint(grammar, 'LlamaGrammar')}"
        )
    return (grammar_of(text), on_error) if is_llgx_text(text) else None


def _is_for_llgx(grammar: Any) -> bool:
    try:
        return _request(grammar) is not None
    except LlgxError:
        return False  # no grammar of either


@functools.lru_cache(maxsize=64)
def grammar_of(text: str) -> Grammar:
    """The grammar of a text for llgx; read once for the texts used last."""
    schema = schema_in(text)
    # Directly, for the sake of errors with a JSON pointer.
    return Grammar.from_string(text) if schema is None else Grammar.from_json_schema(schema)
