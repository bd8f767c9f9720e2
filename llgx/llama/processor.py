"""A grammar as a logits processor of llama-cpp-python.

llama-cpp-python calls a logits processor once for each token that it is about to sample, with all
tokens so far and a view of llama.cpp's own candidates. There is no call for an accepted token and
none for the start or end of a completion, and an exception in the call is printed and swallowed,
after which generation goes on unconstrained. :class:`LogitsProcessor` makes up for all of that:

* It follows the sampled token from call to call (:class:`_Follower`) and notices by itself that a
  new completion has begun.
* It never raises in the call. An error ends the completion with an end-of-generation token and is
  then raised from the call that samples, ``create_completion`` and the like, through the sampler of
  that one completion (:class:`llgx.llama.binding.RaisingSample`), or where its text is made.

Invariant: after a call at least one token has a finite logit, and as long as there was no error,
each such token is one that the grammar allows. Cost per token: the matcher's mask, and one pass
over the logits without the GIL (about 0.3 ms for 262,144 tokens).

``grammar=`` (:mod:`llgx.llama.grammar`) does without a call of Python per token, and also follows
speculative decoding; a logits processor combines with others.
"""

from __future__ import annotations

import copy
import enum
import logging
import sys
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from llgx._compiled import CompiledGrammar
from llgx._core import Matcher
from llgx.bitmask import allocate_token_bitmask
from llgx.errors import LlgxError
from llgx.grammar import Grammar
from llgx.llama import _native
from llgx.llama.binding import (
    OnError,
    RaisingEnd,
    RaisingSample,
    check_on_error,
    compiled_for,
    vocabulary_with_end,
)

if TYPE_CHECKING:
    from typing_extensions import Self

    from llgx.llama.grammar import LlamaGrammar

__all__ = ["LogitsProcessor", "LogitsProcessorList", "logits_processors"]

Scores: TypeAlias = NDArray[Any]
Processor: TypeAlias = Callable[[NDArray[Any], Scores], Scores]

_logger: Final = logging.getLogger("llgx.llama")

_DRAFTS: Final = (
    "a logits processor cannot follow speculative decoding or generator.send(): it is shown tokens "
    "that are not accepted yet. Make the model without draft_model. (Callers other than a Llama: "
    "call reset() before another completion whose prompt begins with the last one.)"
)


def logits_processors(
    llm: Any,
    grammar: str | Grammar | CompiledGrammar | LlamaGrammar,
    *,
    on_error: OnError = "raise",
) -> LogitsProcessorList:
    """What to pass as ``logits_processor=`` for a completion that follows ``grammar``.

    ``llm`` is a ``llama_cpp.Llama`` (or a :class:`llgx.Vocabulary`, for other callers), ``grammar``
    Lark text, a grammar, one compiled for the vocabulary of ``llm``, or a
    :class:`llgx.LlamaGrammar`, of which ``on_error`` does not count here. One result serves one
    completion at a time, and any number of them one after the other: each begins anew, unless its
    prompt is exactly what the last one had got to, which goes on there.

    An error during generation ends it with an end-of-generation token. With ``on_error="raise"`` it
    is then raised from the call that generates. Where that cannot be (``generate`` itself, in its
    very first token, or a caller that is not a ``Llama``) it is logged, kept in ``error``, and
    raised by :meth:`LogitsProcessorList.raise_if_failed` and at the end of a ``with`` block::

        with llgx.logits_processors(llm, grammar) as processors:
            llm.create_completion(prompt, logits_processor=processors)

    With ``on_error="continue"`` it is printed to stderr and the rest of that completion is
    unconstrained.

    Raises what compiling raises, :class:`VocabularyError` for a grammar compiled for another
    vocabulary or a model that has no end-of-generation token, and :class:`LlgxError` for a model
    with a draft model. Cost: compiling, and the first mask.
    """
    return LogitsProcessorList([LogitsProcessor(llm, grammar, on_error=on_error)])


class LogitsProcessorList(list[Any]):
    """A list of logits processors, in place of ``llama_cpp.LogitsProcessorList``.

    It differs in that :meth:`extend` returns the list: ``create_completion`` with ``logit_bias``
    goes on with what ``extend`` returns, which drops every processor when that is None.
    """

    def __call__(self, input_ids: NDArray[Any], scores: Scores) -> Scores:
        for processor in self:
            scores = processor(input_ids, scores)
        return scores

    def extend(self, processors: Iterable[Processor]) -> Self:  # type: ignore[override]
        """Append ``processors`` and return the list.

        The bias of ``create_completion(logit_bias=...)`` is for that call only, so the result is
        then a new list and this one stays as it is. The bias goes first there: added to the logit
        of a forbidden token, an infinite one would give NaN.
        """
        added = list(processors)
        if added and all(map(_is_logit_bias, added)):
            return type(self)([*added, *self])
        super().extend(added)
        return self

    @property
    def error(self) -> BaseException | None:
        """The first error of the last completion among the grammars in the list, or None."""
        return next((p.error for p in self._grammars() if p.error is not None), None)

    def raise_if_failed(self) -> None:
        """Raise the error that ended the last completion, if one did."""
        for processor in self._grammars():
            processor.raise_if_failed()

    def reset(self) -> None:
        """Make the next call begin a new completion, whatever its prompt."""
        for processor in self._grammars():
            processor.reset()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            for processor in self._grammars():
                if not processor.is_reported and not processor.is_lifted:
                    processor.raise_if_failed()

    def _grammars(self) -> list[LogitsProcessor]:
        return [processor for processor in self if isinstance(processor, LogitsProcessor)]


def _is_logit_bias(processor: Processor) -> bool:
    # A closure in Llama._create_completion. Should its name change, the list grows by one bias
    # with each call, as that of llama-cpp-python does.
    return getattr(processor, "__qualname__", "").endswith(".logit_bias_processor")


class LogitsProcessor:
    """Masks the logits of one sequence at a time; see :func:`logits_processors`.

    ``matcher``        where the completion has got to.
    ``error``          what ended the last completion, or None.
    ``is_reported``    whether ``error`` has been raised.
    ``is_lifted``      whether the rest of the completion is unconstrained, after an error.
    ``mask_seconds``   time spent in calls, of all completions together.

    Iterating over it gives itself: llama-cpp-python wants a list of processors, and would go on
    without any, printing tracebacks, if it were handed one alone that cannot be iterated.

    Not to be shared by threads. A copy stands where this one does and goes its own way.
    """

    def __copy__(self) -> LogitsProcessor:
        return copy.deepcopy(self)

    def __iter__(self) -> Iterator[LogitsProcessor]:
        return iter((self,))

    def __init__(
        self,
        llm: Any,
        grammar: str | Grammar | CompiledGrammar | LlamaGrammar,
        *,
        on_error: OnError = "raise",
    ) -> None:
        check_on_error(on_error)
        vocabulary = vocabulary_with_end(llm)
        # Weakly: the model holds its last sampler, and that this processor.
        self._llm: Callable[[], Any] = weakref.ref(llm)
        self._vocabulary = vocabulary
        self._on_error = on_error
        self._mask = allocate_token_bitmask(1, len(vocabulary))
        self._follower = _Follower()
        self._first_of: Any = None  # the chain, in the first call that it makes
        self._raising_end: RaisingEnd | None = None
        self.matcher = Matcher(compiled_for(grammar, vocabulary))
        self.error: BaseException | None = None
        self.is_reported = False
        self.is_lifted = False
        self.mask_seconds = 0.0
        self._check_drafts()
        # What is wrong with the first mask is raised here, where it reaches the caller.
        self.matcher.fill_bitmask(self._mask, 0)

    def __call__(self, input_ids: NDArray[Any], scores: Scores) -> Scores:
        """Mask ``scores`` in place (or in a copy, if they are no row of float32) and return them.

        Never raises.
        """
        begin = time.perf_counter()
        try:
            self._follow(input_ids)
            if self.error is None:
                scores = self._constrained(scores)
        # Interrupts too: swallowed here, they would leave this token unconstrained and be lost.
        except BaseException as error:
            if self.error is None or not isinstance(error, Exception):
                self._fail(error)
        if self.error is not None and not self.is_lifted:
            scores = self._ended(scores)
            self._raise_at_end()
        self._first_of = None  # or it would be kept alive
        self.mask_seconds += time.perf_counter() - begin
        return scores

    @property
    def tokens(self) -> list[int]:
        """The tokens of this completion so far, but for the one sampled last."""
        return self.matcher.tokens

    def reset(self) -> None:
        """Make the next call begin a new completion, whatever its prompt."""
        self._follower = _Follower()
        self._begin()

    def raise_if_failed(self) -> None:
        """Raise the error that ended the last completion, if one did."""
        if self.error is not None:
            self.is_reported = True
            raise self.error

    def report(self) -> None:
        """Raise the error that ended the completion, unless it lifted the constraint."""
        if not self.is_lifted:
            self.raise_if_failed()

    # ------------------------------------------------------------------ following the completion

    def _follow(self, input_ids: NDArray[Any]) -> None:
        """Bring the matcher to where ``input_ids`` end."""
        sampler = _sampler_at_work(self._llm(), input_ids)
        is_first = sampler is not None and RaisingSample.of(sampler) is None
        self._first_of = sampler if is_first else None
        if sampler is not None:
            RaisingSample.install(sampler, self)
        event = self._follower.observe(input_ids, sampler)
        if event is _Event.RESUME:
            added = self._follower.added
            # What ended in an error cannot go on, and a prompt may only happen to begin with the
            # last completion.
            if self.error is not None or self.matcher.try_consume(added) < len(added):
                event = _Event.BEGIN
        if event is _Event.BEGIN:
            self._follower.begin()
            self._begin()
            self._check_drafts()
        elif event is _Event.STEP and self.error is None:
            self.matcher.consume(self._follower.added[0])

    def _raise_at_end(self) -> None:
        """Have an error raised that came before :class:`RaisingSample` was in place."""
        sampler, llm = self._first_of, self._llm()
        if sampler is not None and hasattr(llm, "detokenize"):
            self._raising_end = RaisingEnd(llm, sampler, self)

    def _begin(self) -> None:
        if self._raising_end is not None:
            self._raising_end.remove()
            self._raising_end = None
        self.matcher.reset()
        self.error = None
        self.is_reported = False
        self.is_lifted = False

    def _check_drafts(self) -> None:
        if getattr(self._llm(), "draft_model", None) is not None:
            raise LlgxError(_DRAFTS)

    # ------------------------------------------------------------------ writing logits

    def _constrained(self, scores: Scores) -> Scores:
        self.matcher.fill_bitmask(self._mask, 0)
        row = _float_row(scores)
        if not _native.constrain(row, self._mask[0], len(self._vocabulary)):
            self.matcher._raise_if_stuck()
            raise LlgxError(
                "no token that the grammar allows here has a finite logit: another logits "
                "processor or the model itself excludes them all"
            )
        return row

    def _fail(self, error: BaseException) -> None:
        self.error = error
        # An interrupt is no fault of the grammar: it ends the completion in any case.
        self.is_lifted = self._on_error == "continue" and isinstance(error, Exception)
        if self.is_lifted:
            print(f"llgx: {error}; generation continues unconstrained", file=sys.stderr)
        else:
            _logger.error("constrained generation ends early: %s", error)

    def _ended(self, scores: Scores) -> Scores:
        """``scores`` with nothing to sample but an end-of-generation token."""
        try:
            row = _float_row(scores)
            _native.force(row, self._vocabulary.eog[0])
        except Exception as error:
            # No row of logits of this vocabulary: nothing that is written there would end it.
            _logger.error("constrained generation cannot be ended: %s", error)
            return scores
        return row


def _float_row(scores: Scores) -> Scores:
    """``scores`` itself where the kernels can write to it, else a copy in float32."""
    if not isinstance(scores, np.ndarray):
        raise TypeError(f"logits are a NumPy array, not {type(scores).__name__}")
    if scores.dtype == np.float32 and scores.flags.writeable:
        return scores
    return np.array(scores, dtype=np.float32)


class _Event(enum.Enum):
    """What happened since the last call of a logits processor."""

    BEGIN = enum.auto()  # a completion began
    STEP = enum.auto()  # one token was sampled
    REPEAT = enum.auto()  # nothing: the same token is to be sampled again
    RESUME = enum.auto()  # by another chain, but the text is the same or one token longer


class _Follower:
    """Tells from the tokens that a logits processor is shown what happened since the last call.

    ``generate`` makes one sampler chain for each completion, so the same chain means the same
    completion, and then only one more token is to be expected. Where the chain is another or not
    known (callers may sample each token with a chain of its own, or not be a ``Llama``), the tokens
    themselves tell: a completion goes on where its text is that of the last call and one token.

    ``added`` are the tokens added since the last call, for STEP and RESUME.

    Cost: a comparison of the tokens where the chain is not the same, else constant.
    """

    __slots__ = ("_begin", "_ids", "_length", "_sampler", "added")

    def __init__(self) -> None:
        self._ids: NDArray[np.int64] = np.empty(1024, dtype=np.int64)
        self._length = -1  # of the text at the last call; below 0 before the first
        self._begin = -1  # of the text when the completion began
        self._sampler: Callable[[], Any] = _no_sampler
        self.added: list[int] = []

    def observe(self, input_ids: NDArray[Any], sampler: Any) -> _Event:
        """Compare ``input_ids`` with those of the last call, and keep them.

        Raises :class:`LlgxError` where more than one token was added, or some taken away, within
        one completion.
        """
        before = self._length
        added = len(input_ids) - before
        is_same = sampler is not None and self._sampler() is sampler
        if not is_same:
            self._sampler = _no_sampler if sampler is None else weakref.ref(sampler)
        continues = before >= 0 and (
            is_same
            # From where the last completion began, one begins.
            or (len(input_ids) > self._begin and added >= 0 and self._begins_with(input_ids))
        )
        self._keep(input_ids, before if continues and added > 0 else 0)
        self.added = list(map(int, input_ids[before:])) if continues and 0 <= added <= 1 else []
        if not continues:
            return _Event.BEGIN
        if added not in (0, 1):
            if sampler is None or is_same:
                raise LlgxError(_DRAFTS)
            return _Event.BEGIN
        if sampler is not None and not is_same:
            return _Event.RESUME
        return _Event.STEP if added else _Event.REPEAT

    def begin(self) -> None:
        """The text of the last call is a prompt."""
        self._begin = self._length

    def _begins_with(self, input_ids: NDArray[Any]) -> bool:
        begin = np.asarray(input_ids[: self._length])
        return np.array_equal(self._ids[: self._length], begin)

    def _keep(self, input_ids: NDArray[Any], start: int) -> None:
        self._length = len(input_ids)
        if self._length > len(self._ids):
            grown = np.empty(2 * self._length, dtype=np.int64)
            grown[:start] = self._ids[:start]
            self._ids = grown
        self._ids[start : self._length] = input_ids[start:]


def _no_sampler() -> None:
    """In place of a reference to a sampler."""


def _sampler_at_work(llm: Any, input_ids: NDArray[Any]) -> Any:
    """The sampler chain of the completion that ``input_ids`` belong to; None if it is unknown.

    A ``Llama`` keeps the chain of its last completion. The processor may by now be used with
    another one, whose tokens are then elsewhere.
    """
    buffer = getattr(llm, "input_ids", None)
    if isinstance(buffer, np.ndarray) and np.may_share_memory(buffer, input_ids):
        return getattr(llm, "_sampler", None)
    return None
