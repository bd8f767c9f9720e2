"""Samplers of llama.cpp that follow a grammar, for sampler chains of any origin.

The work is done in C (``_sampler.pyx``); here is what Python needs around it: making a sampler for
a model, putting it into a chain, and the errors that it noted.

Invariant: a sampler moves with the tokens that its chain accepts and with nothing else; cloned
chains have clones of it. Cost per token: none in Python, but for one look at the state after each
token of a ``llama_cpp.LlamaSampler``.
"""

from __future__ import annotations

import ctypes
import itertools
import sys
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from llgx._compiled import CompiledGrammar
from llgx._core import Matcher
from llgx.errors import LlgxError, TokenRejected
from llgx.forks import guarded
from llgx.grammar import Grammar
from llgx.llama._gbnf import GbnfState
from llgx.llama._sampler import SamplerState
from llgx.llama.binding import (
    OnError,
    RaisingSample,
    check_on_error,
    compiled_for,
    vocabulary_with_end,
)

if TYPE_CHECKING:
    from llgx.llama.grammar import LlamaGrammar

__all__ = ["GbnfSampler", "Sampler", "sampler", "samplers_of"]


def sampler(
    llm: Any,
    grammar: str | Grammar | CompiledGrammar | LlamaGrammar,
    *,
    on_error: OnError = "raise",
) -> Sampler:
    """A sampler that follows ``grammar``, for a sampler chain of the caller's own::

        chain = llama_cpp._internals.LlamaSampler()
        llgx.sampler(llm, grammar).add_to(chain)
        chain.add_greedy()

    or, with the functions of ``llama.h``::

        constraint = llgx.sampler(llm, grammar)
        llama_cpp.llama_sampler_chain_add(chain, constraint.release())

    It goes before the samplers that narrow the candidates down or choose one. ``llm`` is a
    ``llama_cpp.Llama``, its ``LlamaModel``, the address of a ``llama_vocab`` or a
    :class:`llgx.Vocabulary`; ``grammar`` Lark text, a grammar, one compiled for that vocabulary, or
    a :class:`llgx.LlamaGrammar`, of which ``on_error`` does not count here.

    An error while generating (:attr:`Sampler.error`) leaves nothing to choose but an
    end-of-generation token, and is raised from ``LlamaSampler.sample`` where there is one. With
    ``on_error="continue"`` it is printed to stderr and the constraint is lifted.

    Raises what compiling raises, :class:`VocabularyError` for a grammar compiled for another
    vocabulary or a model that has no end-of-generation token, ``ValueError`` for another
    ``on_error``. Cost: compiling, and the first mask.
    """
    return Sampler(llm, grammar, on_error=on_error)


class _Constraint:
    """A sampler that notes what it runs into, to be raised or printed (:class:`RaisingSample`)."""

    __slots__ = ("__weakref__", "_error", "_is_reported", "_state")

    _state: Any

    def _set_state(self, state: Any) -> None:
        self._state = state
        self._error: tuple[object, Exception] | None = None
        self._is_reported = False

    @property
    def error(self) -> Exception | None:
        """What it ran into since it was made or reset, or None.

        :class:`TokenRejected` for an accepted token that the grammar does not allow,
        :class:`LlgxError` where that is because no allowed one could be chosen,
        :class:`VocabularyError` where the model has none, :class:`LimitError`, or ``MemoryError``.
        """
        failure = self._state.failure()
        if failure is None:
            self._error = None
            return None
        known = self._error
        if known is None or known[0] != failure:
            known = self._error = (failure, self._make_error(*failure))
        return known[1]

    @property
    def is_lifted(self) -> bool:
        """Whether the constraint is lifted, after an error."""
        return self._state.lifts and self._state.failure() is not None

    def raise_if_failed(self) -> None:
        """Raise the error, if there is one."""
        error = self.error
        if error is not None:
            raise error

    def report(self) -> None:
        """Raise the error, if there is one; print it instead, once, if the constraint is lifted."""
        if self._state.failure() is None:
            self._is_reported = False
        elif not self._state.lifts:
            self.raise_if_failed()
        elif not self._is_reported:
            self._is_reported = True
            print(f"llgx: {self.error}; generation continues unconstrained", file=sys.stderr)

    def _make_error(self, kind: str, *details: int) -> Exception:
        raise NotImplementedError


def _starved(count: int) -> LlgxError:
    return LlgxError(
        f"no token that the grammar allows after {count} tokens could be "
        "chosen: logits processors, logit_bias, samplers before the grammar or the model "
        "itself exclude them all"
    )


class Sampler(_Constraint):
    """A sampler of llama.cpp that follows a grammar; see :func:`sampler`.

    Its properties may be read by any thread while another one samples. A copy has accepted the
    same tokens, is in no chain and goes its own way.
    """

    __slots__ = ("_is_taken", "_lock")

    _state: SamplerState

    def __init__(
        self,
        llm: Any,
        grammar: str | Grammar | CompiledGrammar | LlamaGrammar,
        *,
        on_error: OnError = "raise",
    ) -> None:
        check_on_error(on_error)
        compiled = compiled_for(grammar, vocabulary_with_end(llm))
        init = ctypes.cast(_llama_cpp().llama_sampler_init, ctypes.c_void_p).value or 0
        self._set(SamplerState(compiled, init, lifts=on_error == "continue"), is_taken=False)

    def __repr__(self) -> str:
        failed = "" if self.error is None else f", failed: {self.error}"
        return f"<llgx.Sampler: {self.compiled!r}, {len(self.tokens)} tokens accepted{failed}>"

    def _set(self, state: SamplerState, *, is_taken: bool) -> None:
        self._set_state(state)
        self._is_taken = is_taken
        self._lock = guarded(threading.Lock())

    def __copy__(self) -> Sampler:
        made = type(self).__new__(type(self))
        made._set(self._state.copy(), is_taken=False)
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Sampler:
        return self.__copy__()

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a Sampler belongs to the process that made it and cannot be pickled")

    @classmethod
    def _of(cls, state: SamplerState) -> Sampler:
        """A view of a sampler that llama.cpp has already."""
        self = cls.__new__(cls)
        self._set(state, is_taken=True)
        return self

    # ------------------------------------------------------------------ putting it into a chain

    def add_to(self, chain: Any) -> None:
        """Append it to a ``llama_cpp.LlamaSampler``, or to a chain given by a pointer.

        A ``LlamaSampler`` then raises from ``sample`` what the sampler ran into, as do clones of
        it. Raises ``RuntimeError`` if it is in a chain already, ``TypeError`` for what is no chain.
        """
        llama = _llama_cpp()
        pointer = getattr(chain, "sampler", chain)
        if not isinstance(pointer, (int, llama.llama_sampler_p_ctypes)) or not pointer:
            raise TypeError(f"not a sampler chain: {chain!r}")
        if pointer is chain:
            llama.llama_sampler_chain_add(pointer, self.release())
            return
        self._take()
        llama.llama_sampler_chain_add(pointer, _pointer(self._state.release()))
        _watch(chain, self)

    def release(self) -> Any:
        """A pointer to the ``llama_sampler``, which has to be freed by llama.cpp.

        That is what ``llama_sampler_chain_add`` sees to. Raises ``RuntimeError`` when called again.
        """
        self._take()
        self._state.announce()
        return _pointer(self._state.release())

    def _take(self) -> None:
        with self._lock:
            if self._is_taken:
                raise RuntimeError("this sampler is in a chain already: llgx.sampler makes another")
            self._is_taken = True

    # ------------------------------------------------------------------ state

    @property
    def compiled(self) -> CompiledGrammar:
        """The grammar that it follows."""
        return self._state.compiled

    @property
    def tokens(self) -> list[int]:
        """The tokens accepted so far. Linear in their number."""
        return self._state.tokens

    def matcher(self) -> Matcher:
        """A matcher that has consumed the same tokens; independent from here on.

        Linear in their number: about 1 µs for each.
        """
        matcher = Matcher(self._state.compiled)
        matcher.try_consume(self._state.tokens)
        return matcher

    def _make_error(self, kind: str, *details: int) -> Exception:
        fault, token = details
        try:
            if kind == "starved":
                self.matcher()._raise_if_stuck()
                return _starved(len(self.tokens))
            if kind == "fault":
                self._state.raise_fault(fault)
            else:
                self.matcher().consume(token)
        except (LlgxError, MemoryError) as error:
            return error.with_traceback(None)
        return TokenRejected(f"token {token} is not allowed", token=token)


class GbnfSampler(_Constraint):
    """llama.cpp's own grammar sampler, held by one that keeps it from ending the process.

    ``pointer`` is what ``llama_sampler_init_grammar`` gave, and owned from here on; ``vocab`` the
    address of the model's vocabulary. See ``_gbnf.pyx``; errors are those of :class:`Sampler`.
    """

    __slots__ = ()

    _state: GbnfState

    def __init__(self, pointer: Any, vocab: Any, *, on_error: OnError = "raise") -> None:
        llama = _llama_cpp()
        names = ("init", "apply", "accept", "reset", "clone", "free")
        self._set_state(
            GbnfState(
                _address(pointer),
                [_address(getattr(llama, f"llama_sampler_{name}")) for name in names],
                vocabulary_size=llama.llama_vocab_n_tokens(vocab),
                end=_end_of(vocab),
                lifts=on_error == "continue",
            )
        )

    def add_to(self, chain: Any) -> None:
        """Append it to a ``llama_cpp.LlamaSampler``, which then raises its errors. Once."""
        _llama_cpp().llama_sampler_chain_add(chain.sampler, _pointer(self._state.release()))
        _watch(chain, self)

    @classmethod
    def _of(cls, state: GbnfState) -> GbnfSampler:
        self = cls.__new__(cls)
        self._set_state(state)
        return self

    def _make_error(self, kind: str, *details: int) -> Exception:
        token, count = details
        if kind == "starved":
            return _starved(count)
        if kind == "memory":
            return MemoryError()
        return TokenRejected(
            f"token {token} is not allowed after {count} tokens of the GBNF grammar", token=token
        )


def _end_of(vocab: Any) -> int:
    """An end-of-generation token of a vocabulary, its own one if it has one; -1 without any."""
    llama = _llama_cpp()
    size = llama.llama_vocab_n_tokens(vocab)
    usual = (llama.llama_vocab_eos(vocab), llama.llama_vocab_eot(vocab))
    ends = (
        token
        for token in itertools.chain(usual, range(size))
        if 0 <= token < size and llama.llama_vocab_is_eog(vocab, token)
    )
    return int(next(ends, -1))


class _CloningClone:
    """``sampler.clone`` of one ``LlamaSampler`` with samplers of llgx in it."""

    __slots__ = ("_chain",)

    def __init__(self, chain: Any) -> None:
        self._chain: Callable[[], Any] = weakref.ref(chain)

    def __call__(self) -> Any:
        chain = self._chain()
        clone = type(chain).clone(chain)
        for member in _constraints_of(clone):
            _watch(clone, member)
        return clone


def _watch(chain: Any, member: _Constraint) -> None:
    """Let a ``LlamaSampler`` raise the errors of one of its samplers."""
    RaisingSample.install(chain, member)
    if "clone" not in vars(chain) and hasattr(type(chain), "clone"):
        chain.clone = _CloningClone(chain)


def samplers_of(chain: Any) -> list[Sampler]:
    """The samplers of llgx in a ``llama_cpp.LlamaSampler``, in their order.

    Those that were added as objects are the same objects. Linear in the chain.
    """
    return [member for member in _constraints_of(chain) if isinstance(member, Sampler)]


def _constraints_of(chain: Any) -> list[_Constraint]:
    """:func:`samplers_of`, and those that hold one of llama.cpp's grammars."""
    present = RaisingSample.of(chain)
    known = [] if present is None else [s for s in present.sources if isinstance(s, _Constraint)]
    if known:
        return known
    llama = _llama_cpp()
    found: list[_Constraint] = []
    for i in range(llama.llama_sampler_chain_n(chain.sampler)):
        address = _address(llama.llama_sampler_chain_get(chain.sampler, i))
        state = SamplerState.of(address)
        held = GbnfState.of(address)
        if state is not None:
            found.append(Sampler._of(state))
        elif held is not None:
            found.append(GbnfSampler._of(held))
    return found


def _pointer(address: int) -> Any:
    return ctypes.cast(ctypes.c_void_p(address), _llama_cpp().llama_sampler_p_ctypes)


def _address(pointer: Any) -> int:
    return ctypes.cast(pointer, ctypes.c_void_p).value or 0


def _llama_cpp() -> Any:
    try:
        from llama_cpp import llama_cpp
    except ImportError as error:
        raise ImportError(
            "this needs llama-cpp-python 0.3.8 or later: pip install llama-cpp-python"
        ) from error
    if not hasattr(llama_cpp, "llama_sampler_init"):
        raise ImportError("native samplers need llama-cpp-python 0.3.8 or later")
    return llama_cpp
