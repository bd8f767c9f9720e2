"""Jump-forward: text that a grammar forces is evaluated in one batch, not token by token.

``Llama.generate`` is a generator that takes tokens by ``send``: it evaluates them together with the
token it has just yielded and then samples at each of their places, the last one excepted, to find
out whether the model agrees. :func:`jumping` wraps it. After each token it asks a matcher which
tokens are forced, sends them, and for as long as their places are sampled lets the sampler chain
*accept* them instead (:class:`_Substitute`): their logits, which there are none of, are not looked
at. The generator yields the forced tokens one by one, as if they had been sampled, so everything
around it (``max_tokens``, ``stop``, streaming, stopping criteria, log-probabilities) is as before.
Where the text can only end after the forced tokens, nothing is left to be sampled and nothing is
evaluated: they and an end-of-generation token are yielded as they are.

Invariants. The chain accepts exactly the tokens that are yielded, in that order, and no others.
``Llama.input_ids[:n_tokens]`` are what is in the model's memory at any time, also when the consumer
stops in the middle of a run. What has been evaluated is never rolled back, so recurrent models,
which cannot, are served too. With ``draft_model`` or a logits processor nothing is jumped over: the
one brings runs of its own, the other has a right to see each token.

At temperature 0 the text is the one that is written without, where the model would spell forced
text as its tokenizer does and no choice is closer than rounding: quantised models round differently
in batches, by a logit or two. (Under a mask small models often spell forced text in odd tokens,
because each beginning of it is allowed, and go on worse than after the usual ones.) At other
temperatures forced tokens draw no random number, so a seed gives another text.

Cost: ``forced_tokens`` for each token, some microseconds where nothing is forced. A run of k tokens
takes one evaluation in place of k + 1.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import weakref
from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import Any, Final, Protocol, TypeAlias

from llgx._compiled import CompiledGrammar
from llgx._core import Matcher
from llgx.errors import LimitError, LlgxError

__all__ = ["Arbiter", "generate_with_jumps", "jumping", "refuse_unknown_host"]

Tokens: TypeAlias = Generator[int, "Sequence[int] | None", None]
GenerateMethod: TypeAlias = Callable[..., Tokens]

_SENT: Final = (
    "tokens were sent to Llama.generate in the middle of text that the grammar forces; "
    "switch jump_forward off to use send()"
)


def refuse_unknown_host() -> None:
    """Raise :class:`LlgxError` if this llama-cpp-python lacks what jumping forward relies on."""
    import llama_cpp
    from llama_cpp import Llama, _internals

    lacking = []
    if not hasattr(_internals.LlamaSampler, "accept"):
        lacking.append("LlamaSampler.accept")
    if "_logits_all" not in Llama.__init__.__code__.co_names:
        lacking.append("Llama._logits_all")
    if lacking:
        raise LlgxError(
            f"llama-cpp-python {llama_cpp.__version__} lacks {', '.join(lacking)}, without which "
            "llgx can neither jump forward nor bring a text to its end: a later version has them; "
            "jump_forward=False does without"
        )


class Arbiter(Protocol):
    """Has the last word on what is sampled or forced; see ``llgx/llama/closing.py``."""

    def settle(self, matcher: Matcher, tokens: Sequence[int]) -> list[int] | None:
        """What is to come in place of ``tokens``, where ``matcher`` stands: None for the tokens
        themselves, or the whole rest of the text, of at least one token."""


def jumping(
    generate: GenerateMethod,
    compiled_for: Callable[[Any, Any], CompiledGrammar | None],
) -> GenerateMethod:
    """``Llama.generate`` with jump-forward, in place of ``generate``.

    ``compiled_for(llm, grammar)`` says which grammar a generation follows, None to leave it as it
    is. It is asked when the generator is first advanced, which is where its errors are raised.
    """
    signature = inspect.signature(generate)

    @functools.wraps(generate)
    def generate_jumping(self: Any, *arguments: Any, **options: Any) -> Tokens:
        given = signature.bind(self, *arguments, **options).arguments
        inner = generate(self, *arguments, **options)
        if given.get("grammar") is None or not _can_jump(self, given.get("logits_processor")):
            return inner
        return _lazily(self, inner, given, compiled_for)

    return generate_jumping


def _can_jump(llm: Any, logits_processor: Any) -> bool:
    return getattr(llm, "draft_model", None) is None and not logits_processor


def _lazily(
    llm: Any,
    inner: Tokens,
    given: dict[str, Any],
    compiled_for: Callable[[Any, Any], CompiledGrammar | None],
) -> Tokens:
    compiled = compiled_for(llm, given["grammar"])
    if compiled is None:
        yield from inner
    else:
        yield from generate_with_jumps(
            llm, inner, compiled, stopping_criteria=given.get("stopping_criteria")
        )


def generate_with_jumps(
    llm: Any,
    inner: Tokens,
    compiled: CompiledGrammar,
    *,
    jump_forward: bool = True,
    arbiter: Arbiter | None = None,
    insert: Callable[[Matcher], list[int]] | None = None,
    stopping_criteria: Any = None,
) -> Tokens:
    """The tokens of ``inner``, a generator that ``Llama.generate`` has just made for ``llm``.

    ``compiled`` is the grammar of that generation; a matcher of its own follows along. ``insert``
    says after each token what has to come next, though the grammar would allow something else: it
    is treated like forced text. Ends after an end-of-generation token that was not sampled. Raises
    what ``inner`` raises, and :class:`LlgxError` where tokens are sent in the middle of forced
    text.
    """
    refuse_unknown_host()
    substitute = _Substitute(Matcher(compiled), arbiter, insert)
    try:
        token = substitute.begin(llm, inner)
        while substitute.follow(token):
            ahead, ends = substitute.look_ahead(jump_forward)
            if ends and not (llm._logits_all and substitute.rest is None):
                yield from _tail(llm, inner, substitute, token, ahead, stopping_criteria)
                return
            sent = yield token
            if substitute.rest is not None:
                return  # after the end; the chain was told of another token
            if sent is None:
                # As much as there is room for behind the token itself.
                room = llm._n_ctx - llm.n_tokens - 1
                substitute.planned.extend(ahead[: max(0, room)])
                # Stopping criteria are shown a row of scores for each token of a batch.
                rows = None if stopping_criteria is None else len(llm.scores)
                token = inner.send(substitute.next_batch(rows))
            elif substitute.planned:
                raise LlgxError(_SENT)
            else:
                token = inner.send(sent)
                break
        # Somebody else brings tokens, or the constraint was lifted after an error.
        while True:
            token = inner.send((yield token))
    except StopIteration:
        return
    finally:
        inner.close()
        substitute.remove()


def _tail(
    llm: Any,
    inner: Tokens,
    substitute: _Substitute,
    token: int,
    ahead: list[int],
    stopping_criteria: Any,
) -> Tokens:
    """``token``, which was sampled, the last tokens of the text, and an end-of-generation token."""
    if not ahead or ahead[-1] not in substitute.matcher.compiled.vocabulary.eog:
        ahead = [*ahead, substitute.end_of(llm)]
    if llm._logits_all and len(ahead) > 1:
        # Log-probabilities are read from what was evaluated. The chain has seen another token.
        yield token
        substitute.planned.extend(ahead[:-1])
        token = inner.send(ahead[:-1])
        for _ in ahead[2:]:
            yield token
            token = inner.send(None)
        yield token
        yield ahead[-1]
        return
    yield token
    at = llm.n_tokens
    for following in ahead:
        # Where the tokens go when they are evaluated; n_tokens stays what has been.
        if at < llm._n_ctx:
            llm.input_ids[at] = token
            at += 1
        if stopping_criteria is not None and stopping_criteria(
            llm.input_ids[:at], llm._scores[-1, :]
        ):
            return
        yield following
        token = following


class _Substitute:
    """``sampler.sample`` of one generation: planned tokens are accepted, others sampled.

    It is set on the sampler chain that ``generate`` makes for that generation, and taken off at its
    end; no class is changed.
    """

    __slots__ = (
        "_arbiter", "_evaluated", "_insert", "_previous", "_sampler", "matcher", "planned", "rest",
    )  # fmt: skip

    def __init__(
        self,
        matcher: Matcher,
        arbiter: Arbiter | None,
        insert: Callable[[Matcher], list[int]] | None,
    ) -> None:
        self.matcher = matcher  # past all tokens that were yielded
        self.planned: deque[int] = deque()  # to be accepted at the next places
        self._evaluated = 0  # how many of these are
        self.rest: list[int] | None = None  # what the arbiter wants after the token it set
        self._arbiter = arbiter
        self._insert = insert
        # Weakly: the chain, and with it a hold on the model, would last until the next garbage
        # collection otherwise.
        self._sampler: Callable[[], Any] = _nothing
        self._previous: Callable[..., int] | None = None

    def begin(self, llm: Any, inner: Tokens) -> int:
        """The first token of ``inner``, which makes its chain on the way."""

        def init_sampler(*arguments: Any, **options: Any) -> Any:
            sampler = type(llm)._init_sampler(llm, *arguments, **options)
            self._sampler = weakref.ref(sampler)
            self._previous = vars(sampler).get("sample")
            sampler.sample = self
            return sampler

        llm._init_sampler = init_sampler
        try:
            return next(inner)
        finally:
            del llm._init_sampler

    def remove(self) -> None:
        """Leave the chain as it would be without."""
        sampler = self._sampler()
        if sampler is not None and vars(sampler).get("sample") is self:
            del sampler.sample
            if self._previous is not None:
                sampler.sample = self._previous

    def __call__(self, *arguments: Any, **options: Any) -> int:
        sampler = self._sampler()
        if self.planned:
            token = self.planned.popleft()
            self._evaluated = max(0, self._evaluated - 1)
            if self.rest is None:
                sampler.accept(token)
            return token
        if self._previous is not None:
            token = self._previous(*arguments, **options)
        else:
            token = type(sampler).sample(sampler, *arguments, **options)
        if self._arbiter is not None and not self.matcher.is_stopped():
            settled = self._arbiter.settle(self.matcher, (token,))
            if settled is not None:
                token = settled[0]
                self.rest = settled[1:]
        return token

    def next_batch(self, most: int | None) -> list[int] | None:
        """What of the planned tokens is to be evaluated now, no more than ``most``; None where
        those that were are not used up, or nothing is planned."""
        if self._evaluated or not self.planned:
            return None
        batch = list(itertools.islice(self.planned, most))
        self._evaluated = len(batch)
        return batch

    def follow(self, token: int) -> bool:
        """Move past ``token``; False where the grammar does not allow it or a limit is passed,
        which is for the sampler of the chain to report."""
        try:
            return self.matcher.try_consume((token,)) == 1
        except LimitError:
            return False

    def look_ahead(self, jump_forward: bool) -> tuple[list[int], bool]:
        """The tokens that come next in any case, and whether the text ends after them."""
        try:
            return self._look_ahead(jump_forward)
        except LimitError:
            return [], False

    def _look_ahead(self, jump_forward: bool) -> tuple[list[int], bool]:
        if self.planned or self.matcher.stop_reason == "eog":
            return [], False
        if self.rest is not None:
            return self.rest, True
        ahead = [] if self._insert is None else self._insert(self.matcher)
        if not ahead and jump_forward:
            ahead = self.matcher.forced_tokens()
        if not ahead:
            return [], jump_forward and self.matcher.is_stopped()
        if self._arbiter is not None:
            settled = self._arbiter.settle(self.matcher, ahead)
            if settled is not None:
                self.rest = settled
                return settled, True
        after = self.matcher.copy()
        return ahead, after.try_consume(ahead) == len(ahead) and after.is_stopped()

    def end_of(self, llm: Any) -> int:
        """An end-of-generation token, the model's own one if it has one."""
        eog = self.matcher.compiled.vocabulary.eog
        eos: int = llm.token_eos()
        return eos if eos in eog else eog[0]


def _nothing() -> None:
    """In place of a reference to a sampler."""
