"""One call from a prompt to a Python object: :func:`generate` and :func:`stream`.

Both go through ``create_completion`` or ``create_chat_completion`` of a ``llama_cpp.Llama``, so
chat templates, multimodal handlers and sampling options are those of llama-cpp-python. During the
call two methods of that one model are replaced (:class:`_Call`): ``create_completion``, to take
out what would cut every answer, and ``generate``, to add jump-forward and closing and to note the
tokens. No class is changed, and nothing needs :func:`llgx.install`.

Invariants. The text of a result is made of the bytes of its tokens, not of llama-cpp-python's text,
which loses tokens of more than 32 bytes. A result that says it is complete holds a whole text of
the grammar, whatever ended the generation.

Cost: that of the completion; a stream reads the text anew for each partial object, which pydantic
does at some 100 MB/s.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar, overload

from llgx._compiled import CompiledGrammar
from llgx._core import Matcher
from llgx.arguments import check_flag, check_integer
from llgx.errors import LlgxError
from llgx.grammar import Grammar
from llgx.llama.binding import compiled_for, grammar_in
from llgx.llama.closing import Closing
from llgx.llama.jump import generate_with_jumps
from llgx.llama.schemas import WHITESPACE, dump
from llgx.vocabulary import Vocabulary

if TYPE_CHECKING:
    from typing_extensions import Self

    from llgx.structural_tag import SpecialToken

    Marker: TypeAlias = str | SpecialToken | Sequence[str | SpecialToken]

__all__ = ["Generation", "IncompleteError", "Reasoning", "Stream", "generate", "stream"]

T = TypeVar("T")
Prompt: TypeAlias = str | Sequence[int] | Sequence[Mapping[str, Any]]

_KEPT_GRAMMARS: Final = 64
_BUSY: Final = (
    "this model is generating already; one Llama serves one call at a time. A stream is over when "
    "its last object was taken, and when it is closed"
)

# What thinking models put around their thoughts, as it stands in their chat templates.
_MARKERS: Final = (
    ("<think>", "</think>"),
    ("[THINK]", "[/THINK]"),
    ("<thinking>", "</thinking>"),
    ("<reasoning>", "</reasoning>"),
    ("<seed:think>", "</seed:think>"),
)


class IncompleteError(LlgxError):
    """The value of a text that was cut was asked for; ``generation`` has what there is."""

    def __init__(self, generation: Generation[Any]) -> None:
        self.generation = generation
        super().__init__(
            f"the text ended ({generation.finish_reason}) before it was complete, after "
            f"{len(generation.tokens)} tokens: {generation.text[-80:]!r}; allow more max_tokens, "
            "or pass closing=True"
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Reasoning:
    """Free text before the answer, for models that think.

    ``end`` is the marker after it: text, a :class:`llgx.SpecialToken`, or a sequence of these;
    ``begin`` what it starts with, if the prompt does not end with it already; ``max_tokens`` its
    budget, from the first token on and at least one, after which ``end`` is written. Text that is a
    special token of the model stands for that token.
    """

    end: Marker = "</think>"
    begin: Marker = ()
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        if not _parts(self.end):
            raise ValueError("the end of the reasoning is empty")
        if self.max_tokens is not None and check_integer(self.max_tokens, "max_tokens") < 1:
            raise ValueError("a budget for reasoning is at least one token")


@dataclasses.dataclass(slots=True, repr=False)
class Generation(Generic[T]):
    """What a model has written under a grammar.

    ``text``           the answer, without reasoning.
    ``reasoning``      what came before it, markers included; None where none was asked for.
    ``tokens``         all tokens, an end-of-generation token included if there was one.
    ``is_complete``    whether ``text`` is a whole text of the grammar.
    ``is_closed``      whether its end was taken from the model to fit the budget (``closing``).
    ``finish_reason``  of llama-cpp-python: ``"stop"`` or ``"length"``.
    """

    text: str
    tokens: list[int]
    is_complete: bool
    finish_reason: str | None
    reasoning: str | None = None
    is_closed: bool = False
    _read: Callable[[str], T] = dataclasses.field(default=str)  # type: ignore[assignment]
    _read_part: Callable[[str], Any] = dataclasses.field(default=str)

    def __repr__(self) -> str:
        what = f"text={self.text!r}"
        if self.is_complete:
            # What a validator refuses is shown as it is written.
            with contextlib.suppress(Exception):
                what = f"value={self._read(self.text)!r}"
        return (
            f"<llgx.Generation {what}, is_complete={self.is_complete}, "
            f"finish_reason={self.finish_reason!r}, {len(self.tokens)} tokens>"
        )

    @property
    def value(self) -> T:
        """The object that ``text`` stands for: JSON read, or validated by the type that was given.

        Raises :class:`IncompleteError` for a text that was cut, and ``pydantic.ValidationError``
        where a validator of the type refuses what its schema allows. Read anew each time.
        """
        if not self.is_complete:
            raise IncompleteError(self)
        return self._read(self.text)

    @property
    def partial(self) -> Any:
        """What can be read of ``text`` as it is, as :func:`stream` yields it. Needs pydantic where
        ``text`` is JSON."""
        return self._read_part(self.text)


class Stream(Generic[T]):
    """Growing objects of a text in the making; see :func:`stream`.

    ``result``  the :class:`Generation`, once the generation is over; None before.

    The end of a text that was cut is an :class:`IncompleteError`, once; what can be read of it has
    been delivered then. So is what a validator of the type refuses, before its ``ValidationError``.
    Closing a stream, or leaving its ``with`` block, ends the generation.
    """

    def __init__(self, objects: Generator[Any, None, tuple[Generation[T], Any]]) -> None:
        self._objects = objects
        self.result: Generation[T] | None = None

    def __copy__(self) -> Self:
        raise TypeError("a generation goes one way only: a Stream cannot be copied")

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        try:
            return next(self._objects)
        except StopIteration as end:
            if end.value is None:
                raise StopIteration from None
            self.result, last = end.value
        if not self.result.is_complete:
            raise IncompleteError(self.result)
        value = self.result.value
        if type(value) is type(last) and value == last:
            raise StopIteration
        return value

    def close(self) -> None:
        """End the generation. ``result`` stays None if it was not over."""
        self._objects.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()


@overload
def generate(llm: Any, prompt: Prompt, output: type[T], **options: Any) -> Generation[T]: ...
@overload
def generate(llm: Any, prompt: Prompt, output: Any, **options: Any) -> Generation[Any]: ...
def generate(
    llm: Any,
    prompt: Prompt,
    output: Any,
    *,
    max_tokens: int | None = None,
    closing: bool = False,
    reasoning: bool | str | Reasoning | None = None,
    jump_forward: bool = True,
    **sampling: Any,
) -> Generation[Any]:
    """Let ``llm`` answer ``prompt`` in the form of ``output``.

    ``llm`` is a ``llama_cpp.Llama``. ``prompt`` is a text or its tokens, to be completed, or a list
    of chat messages. ``output`` says what the answer is:

    * a type (a pydantic model, a dataclass, a ``TypedDict``, ``list[int]``, …) or ``TypeAdapter``:
      the value is validated by it;
    * a JSON Schema as dict, bool or JSON text: the value is what ``json.loads`` gives;
    * a list of strings: the value is one of them;
    * grammar text (``%llguidance`` or GBNF), a grammar, a compiled grammar or a
      :class:`llgx.LlamaGrammar` (on llgx, GBNF too): the value is text.

    ``max_tokens`` of None leaves it to the context window. With ``closing`` the text is brought to
    an end before the budget is over (:mod:`llgx.llama.closing`), so that it is always complete.
    ``reasoning`` lets the model think first: a :class:`Reasoning`, an end marker, or True for the
    marker in the model's chat template. ``sampling`` goes to ``create_completion`` or
    ``create_chat_completion``.

    Raises what reading and compiling the grammar raise; :class:`LlgxError` for ``closing`` where it
    is not possible and for ``reasoning`` where there is no marker; and errors of the generation.
    ``ValueError`` for a prompt without tokens or messages. Warns where a stop string cut the
    answer.
    """
    call = _Call(llm, prompt, output, max_tokens, closing, reasoning, jump_forward, sampling)
    with call:
        response = call.respond(stream=False)
    choice = response["choices"][0]
    return call.generation(choice["finish_reason"])


@overload
def stream(llm: Any, prompt: Prompt, output: type[T], **options: Any) -> Stream[T]: ...
@overload
def stream(llm: Any, prompt: Prompt, output: Any, **options: Any) -> Stream[Any]: ...
def stream(
    llm: Any,
    prompt: Prompt,
    output: Any,
    *,
    max_tokens: int | None = None,
    closing: bool = False,
    reasoning: bool | str | Reasoning | None = None,
    jump_forward: bool = True,
    **sampling: Any,
) -> Stream[Any]:
    """As :func:`generate`, but an iterator over the answer as it grows.

    Each object is what can be read of the text so far, and differs from the one before: JSON with
    the strings and containers that are open closed; for a pydantic model, an instance in which
    what is not there yet is its default or None, unvalidated; for grammars, the text. The last one
    is the value; where the text was cut, :class:`IncompleteError` is raised after it instead.
    Nothing is generated before the first is asked for, but the grammar is read. JSON needs
    pydantic.
    """
    call = _Call(llm, prompt, output, max_tokens, closing, reasoning, jump_forward, sampling)
    return Stream(_objects(call))


def _objects(call: _Call) -> Generator[Any, None, tuple[Generation[Any], Any]]:
    """The parts; the generation and the last part."""
    last: Any = _NOTHING
    reason: str | None = None
    with call:
        for chunk in call.respond(stream=True):
            reason = chunk["choices"][0]["finish_reason"] or reason
            text = call.answer_so_far()
            part = call.output.read_part(text) if text else _NOTHING
            if part is not _NOTHING and (last is _NOTHING or part != last):
                last = part
                yield part
    return call.generation(reason), last


class _Nothing:
    """No object yet."""


_NOTHING: Final = _Nothing()


# ------------------------------------------------------------------------------ what is asked for


@dataclasses.dataclass(frozen=True, slots=True)
class _Output:
    """What an answer is: its grammar, and how a text of it is read, whole or in part."""

    grammar: Grammar | CompiledGrammar
    read: Callable[[str], Any]
    read_part: Callable[[str], Any]

    @classmethod
    def of(cls, output: Any) -> _Output:
        grammar = grammar_in(output)
        if grammar is not None:
            return cls(grammar, str, str)
        if isinstance(output, str):
            if _is_schema(output):
                return cls(_from_schema(output), json.loads, _read_part)
            return cls(_from_text(output), str, str)
        if isinstance(output, (dict, bool)):
            return cls(_from_schema(dump(output)), json.loads, _read_part)
        if isinstance(output, (list, tuple)):
            return cls(Grammar.from_choices(output), str, str)
        return cls._of_type(output)

    @classmethod
    def _of_type(cls, output: Any) -> _Output:
        pydantic = _pydantic()
        adapter = output
        if not isinstance(output, pydantic.TypeAdapter):
            try:
                adapter = pydantic.TypeAdapter(output)
            except pydantic.PydanticSchemaGenerationError:
                raise TypeError(
                    "output is a type that pydantic knows, a JSON Schema, a list of strings, "
                    f"grammar text or a grammar, not {output!r}"
                ) from None
        try:
            grammar = _from_type(output)
        except TypeError:  # not hashable
            grammar = _from_adapter(adapter)
        model = output if isinstance(output, type) else None
        return cls(grammar, adapter.validate_json, functools.partial(_read_model_part, model))


def _is_schema(text: str) -> bool:
    """Whether ``text`` is a JSON Schema, and not a grammar in text or JSON form."""
    if not text.lstrip().startswith("{"):
        return False
    try:
        return "grammars" not in json.loads(text)
    except (ValueError, RecursionError):
        return True  # the reader of schemas says what is wrong with it


@functools.lru_cache(maxsize=_KEPT_GRAMMARS)
def _from_text(text: str) -> Grammar:
    return Grammar.from_string(text)


@functools.lru_cache(maxsize=_KEPT_GRAMMARS)
def _from_schema(schema: str) -> Grammar:
    # What it says about white space itself counts.
    if '"x-guidance"' in schema:
        return Grammar.from_json_schema(schema)
    return Grammar.from_json_schema(schema, whitespace=WHITESPACE)


@functools.lru_cache(maxsize=_KEPT_GRAMMARS)
def _from_type(output: Any) -> Grammar:
    return _from_adapter(
        output if isinstance(output, _pydantic().TypeAdapter) else _pydantic().TypeAdapter(output)
    )


def _from_adapter(adapter: Any) -> Grammar:
    return Grammar.from_json_schema(adapter, whitespace=WHITESPACE)


def _pydantic() -> Any:
    try:
        import pydantic
    except ImportError as error:
        raise ImportError(
            "types, and JSON that is not complete, are read by pydantic 2: pip install pydantic"
        ) from error
    return pydantic


def _read_part(text: str) -> Any:
    """What can be read of the beginning of a JSON text; :data:`_NOTHING` if nothing can."""
    _pydantic()
    from pydantic_core import from_json

    try:
        return from_json(text, allow_partial="trailing-strings", cache_strings="none")
    except ValueError:  # a number or a literal in the making
        return _NOTHING


def _read_model_part(model: type | None, text: str) -> Any:
    part = _read_part(text)
    return part if part is _NOTHING else _as_type(model, part)


def _as_type(annotation: Any, value: Any) -> Any:
    """``value`` with its objects made instances of the pydantic models in ``annotation``."""
    import typing

    pydantic = _pydantic()
    origin = typing.get_origin(annotation)
    arguments = typing.get_args(annotation)
    if origin is typing.Annotated:
        return _as_type(arguments[0], value)
    if isinstance(annotation, type) and issubclass(annotation, pydantic.BaseModel):
        return _as_model(annotation, value) if isinstance(value, dict) else value
    if origin in (list, set, frozenset, Sequence) and isinstance(value, list) and arguments:
        return [_as_type(arguments[0], item) for item in value]
    if origin is tuple and isinstance(value, list):
        items = arguments
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            items = arguments[:1] * len(value)
        return [
            _as_type(items[at] if at < len(items) else Any, item) for at, item in enumerate(value)
        ]
    if origin in (dict, Mapping) and isinstance(value, dict) and len(arguments) == 2:
        return {key: _as_type(arguments[1], item) for key, item in value.items()}
    if origin is not None and isinstance(value, dict):
        # A union: the one model whose fields hold what is there.
        fitting = [
            argument
            for argument in arguments
            if isinstance(argument, type)
            and issubclass(argument, pydantic.BaseModel)
            and value.keys() <= set(_fields_by_key(argument))
        ]
        return _as_model(fitting[0], value) if len(fitting) == 1 else value
    return value


def _fields_by_key(model: Any) -> dict[str, str]:
    """Names of the fields of ``model`` by their keys in JSON."""
    return {
        field.validation_alias if isinstance(field.validation_alias, str) else name: name
        for name, field in model.model_fields.items()
    }


def _as_model(model: Any, value: dict[str, Any]) -> Any:
    names = _fields_by_key(model)
    fields: dict[str, Any] = {
        name: None for name, field in model.model_fields.items() if field.is_required()
    }
    for key, item in value.items():
        name = names.get(key, key)
        field = model.model_fields.get(name)
        fields[name] = item if field is None else _as_type(field.annotation, item)
    present = {names.get(key, key) for key in value}
    made = model.model_construct(**fields)
    made.__pydantic_fields_set__ = present
    return made


# ------------------------------------------------------------------------------ one call


class _Call:
    """One generation. As a context manager it holds the methods of the model that it replaces."""

    def __init__(
        self,
        llm: Any,
        prompt: Prompt,
        output: Any,
        max_tokens: int | None,
        closing: bool,
        reasoning: bool | str | Reasoning | None,
        jump_forward: bool,
        sampling: dict[str, Any],
    ) -> None:
        for name in ("grammar", "response_format", "stream", "tools", "functions"):
            if name in sampling:
                raise TypeError(f"{name}= is not an option of generate: output says what is wanted")
        check_flag(closing, "closing")
        check_flag(jump_forward, "jump_forward")
        self.llm = llm
        self.prompt = _checked_prompt(prompt)
        self.output = _Output.of(output)
        self.vocabulary = Vocabulary.from_llama(llm)
        self.max_tokens = None if max_tokens is None else check_integer(max_tokens, "max_tokens")
        self.sampling = sampling
        self.tokens: list[int] = []
        self._stops: list[str] = []
        self._reasoning = _reasoning_of(llm, reasoning)
        self._is_thought = False
        self._wants_closing = closing
        self._closing: Closing | None = None
        self._jump_forward = jump_forward
        self._compiled: CompiledGrammar | None = None
        self._is_entered = False
        self._is_generating = False
        self._spent = 0  # tokens of the budget that are no tokens of the answer
        limited = self._reasoning is not None and self._reasoning.max_tokens is not None
        if closing or limited:
            what = "closing=True" if closing else "a budget for reasoning"
            if sampling.get("logits_processor") or sampling.get("logit_bias"):
                raise LlgxError(
                    f"{what} cannot be combined with logits processors or logit_bias, which are "
                    "not asked about tokens that are not sampled"
                )
            if getattr(llm, "draft_model", None) is not None:
                raise LlgxError(f"{what} cannot be combined with a draft_model")
        if self._reasoning is None:
            self._compiled = self._compile(self.output.grammar)

    # -------------------------------------------------------------- the model's methods

    def __enter__(self) -> Self:
        present = vars(self.llm)
        if "generate" in present or "create_completion" in present:
            raise LlgxError(_BUSY)
        self.llm.generate = self._generate
        self.llm.create_completion = self._create_completion
        self._is_entered = True
        return self

    def __exit__(self, *details: object) -> None:
        if self._is_entered:
            self._is_entered = False
            del self.llm.generate
            del self.llm.create_completion

    def respond(self, *, stream: bool) -> Any:
        """The response of llama-cpp-python."""
        options = {**self.sampling, "max_tokens": self.max_tokens, "stream": stream}
        if _is_chat(self.prompt):
            return self.llm.create_chat_completion(list(self.prompt), **options)
        prompt = self.prompt if isinstance(self.prompt, str) else list(self.prompt)
        return self.llm.create_completion(prompt, **options)

    def _create_completion(self, *arguments: Any, **options: Any) -> Any:
        from llgx.llama.grammar import LlamaGrammar

        stop = options.get("stop")
        if stop is not None:
            # A model without an end-of-generation text makes its chat template stop at "", which is
            # found in every text.
            self._stops = [s for s in ([stop] if isinstance(stop, str) else stop) if s]
            options["stop"] = self._stops
        prompt = arguments[0] if arguments else options.get("prompt")
        # llama-cpp-python begins a completion of nothing with the token at the beginning of texts.
        self._spent = 0 if prompt else 1
        if self._compiled is None:
            self._compiled = self._compile(self._with_reasoning(prompt))
        options["grammar"] = grammar = LlamaGrammar.from_grammar(self._compiled)
        # Not by what may be installed for the class: this has its own.
        grammar.jump_forward = False
        return type(self.llm).create_completion(self.llm, *arguments, **options)

    @property
    def _has_a_say(self) -> bool:
        """Whether anything but the sampler decides on tokens."""
        return self._jump_forward or self._closing is not None or self._reasoning is not None

    def _generate(self, tokens: Sequence[int], *arguments: Any, **options: Any) -> Iterator[int]:
        compiled = self._compiled
        assert compiled is not None
        if self._is_generating:
            raise LlgxError(_BUSY)
        inner = type(self.llm).generate(self.llm, tokens, *arguments, **options)
        if self._wants_closing:
            room = self.llm.n_ctx() - len(tokens)
            budget = self.max_tokens if self.max_tokens and self.max_tokens > 0 else room
            self._closing = Closing(compiled, min(budget, room) - self._spent)
        follows = getattr(self.llm, "draft_model", None) is None
        if follows and not options.get("logits_processor") and self._has_a_say:
            inner = generate_with_jumps(
                self.llm,
                inner,
                compiled,
                jump_forward=self._jump_forward,
                arbiter=self._closing,
                insert=None if self._reasoning is None else self._end_of_reasoning,
                stopping_criteria=options.get("stopping_criteria"),
            )
        self._is_generating = True
        try:
            with contextlib.closing(inner):
                for token in inner:
                    self.tokens.append(token)
                    yield token
                    # llama.cpp would crash on a model that was closed meanwhile.
                    Vocabulary.from_llama(self.llm)
        finally:
            self._is_generating = False

    # -------------------------------------------------------------- reasoning

    def _compile(self, grammar: Grammar | CompiledGrammar) -> CompiledGrammar:
        return compiled_for(grammar, self.vocabulary)

    def _with_reasoning(self, prompt: Any) -> Grammar:
        reasoning = self._reasoning
        grammar = self.output.grammar
        assert reasoning is not None
        if isinstance(grammar, CompiledGrammar):
            raise TypeError("reasoning= is for grammars that are not compiled yet")
        begin = _parts(reasoning.begin)
        if begin and self._text_of(prompt).rstrip().endswith("".join(map(str, begin))):
            begin = []
        return grammar.with_reasoning(
            self._as_tokens(_parts(reasoning.end)),
            begin=self._as_tokens(begin),
        )

    def _end_of_reasoning(self, matcher: Matcher) -> list[int]:
        """The end marker, or what of it is not there yet, once the budget is used up."""
        reasoning = self._reasoning
        if reasoning is None or reasoning.max_tokens is None or self._is_thought:
            return []
        if len(matcher) < reasoning.max_tokens:
            return []
        self._is_thought = True
        written, _, is_over = self._split(matcher.tokens)
        if is_over:
            return []
        marker: list[int] = []
        for place, part in enumerate(self._as_tokens(_parts(reasoning.end))):
            if not isinstance(part, str):
                marker.append(min(self._ids(part)))
                continue
            text = part.encode()
            overlap = range(len(text) - 1, 0, -1) if place == 0 else ()
            known = next((size for size in overlap if written.endswith(text[:size])), 0)
            marker += self.vocabulary.tokenize(text[known:])
        return marker if matcher.validate(marker) == len(marker) else []

    def _text_of(self, prompt: Any) -> str:
        if isinstance(prompt, str):
            return prompt
        tail = list(prompt or ())[-32:]
        return b"".join(self.vocabulary.tokens[token] for token in tail).decode("utf-8", "replace")

    def _as_tokens(self, parts: list[str | SpecialToken]) -> list[str | SpecialToken]:
        """``parts`` with special tokens of the model in place of their texts."""
        from llgx.structural_tag import SpecialToken

        special = {self.vocabulary.tokens[token]: token for token in self.vocabulary.special}
        return [
            SpecialToken(part) if isinstance(part, str) and part.encode() in special else part
            for part in parts
        ]

    # -------------------------------------------------------------- the result

    def answer_so_far(self) -> str:
        """The text of the answer, up to its last whole character."""
        return self._split(self.tokens)[1].decode("utf-8", "ignore")

    def generation(self, finish_reason: str | None) -> Generation[Any]:
        """The result, once the generation is over."""
        reasoning, answer, _ = self._split(self.tokens)
        assert self._compiled is not None
        matcher = Matcher(self._compiled)
        complete = matcher.try_consume(self.tokens) == len(self.tokens) and matcher.is_accepting()
        if finish_reason == "stop" and matcher.stop_reason != "eog":
            answer, complete = self._stopped(reasoning, answer)
        return Generation(
            answer.decode("utf-8", "ignore"),
            self.tokens,
            complete,
            finish_reason,
            None if self._reasoning is None else reasoning.decode("utf-8", "ignore"),
            self._closing is not None and self._closing.is_closing,
            self.output.read,
            self.output.read_part,
        )

    def _stopped(self, reasoning: bytes, answer: bytes) -> tuple[bytes, bool]:
        """The answer before the stop string that ended it, and whether that is complete."""
        found = [stop for stop in map(str.encode, self._stops) if stop in reasoning + answer]
        if found:
            end = (reasoning + answer).index(found[0])
            answer = answer[: max(0, end - len(reasoning))]
        assert self._compiled is not None
        _, complete = Matcher(self._compiled).match_bytes(reasoning + answer)
        if not complete:
            what = f"the stop string {found[0].decode()!r}" if found else "a stopping criterion"
            warnings.warn(
                f"{what} ended the text before it was complete, after {answer[-40:]!r}. Stop "
                "strings are looked for everywhere, also inside the strings of an answer",
                UserWarning,
                stacklevel=4,
            )
        return answer, complete

    def _split(self, tokens: Sequence[int]) -> tuple[bytes, bytes, bool]:
        """The text of the reasoning with its end marker, what came after, and whether it is over:
        until then, all is reasoning."""
        excluded = self.vocabulary.special.union(self.vocabulary.eog)
        pieces = [b"" if token in excluded else self._bytes(token) for token in tokens]
        if self._reasoning is None:
            return b"", b"".join(pieces), True
        parts = self._as_tokens(_parts(self._reasoning.end))
        begin = 0
        if not isinstance(parts[0], str):
            # The token itself, not text that looks like it.
            wanted = self._ids(parts[0])
            begin = next((at + 1 for at, token in enumerate(tokens) if token in wanted), 0)
            if not begin:
                return b"".join(map(self._bytes, tokens)), b"", False
            parts = parts[1:]
        before = b"".join(map(self._bytes, tokens[:begin]))
        after = b"".join(pieces[begin:])
        marker = "".join(map(str, parts)).encode()
        end = after.find(marker)
        if end < 0:
            return before + after, b"", False
        end += len(marker)
        return before + after[:end], after[end:], True

    def _bytes(self, token: int) -> bytes:
        return self.vocabulary.tokens[token]

    def _ids(self, part: SpecialToken) -> set[int]:
        if isinstance(part.token, int):
            return {part.token}
        text = part.token.encode()
        return {token for token in self.vocabulary.special if self._bytes(token) == text}


def _checked_prompt(prompt: Prompt) -> Prompt:
    """``prompt``. Raises ``TypeError`` for what is none, ``ValueError`` for one of no tokens."""
    if isinstance(prompt, str):
        return prompt
    if not isinstance(prompt, Sequence) or isinstance(prompt, (bytes, bytearray)):
        raise TypeError(f"a prompt is a str, tokens or messages, not {type(prompt).__name__}")
    if not prompt:
        raise ValueError('the prompt has neither tokens nor messages; "" begins a text of nothing')
    kind = Mapping if isinstance(prompt[0], Mapping) else int
    for item in prompt:
        if not isinstance(item, kind) and not (kind is int and hasattr(item, "__index__")):
            raise TypeError(
                f"a prompt is a str, tokens or messages, and this one holds {item!r:.40}"
            )
    return prompt


def _is_chat(prompt: Prompt) -> bool:
    return not isinstance(prompt, str) and isinstance(prompt[0], Mapping)


def _parts(marker: Marker) -> list[str | SpecialToken]:
    from llgx.structural_tag import SpecialToken

    return [marker] if isinstance(marker, (str, SpecialToken)) else list(marker)


def _reasoning_of(llm: Any, reasoning: bool | str | Reasoning | None) -> Reasoning | None:
    if reasoning is None or reasoning is False:
        return None
    if isinstance(reasoning, Reasoning):
        return reasoning
    if isinstance(reasoning, str):
        return Reasoning(reasoning)
    if reasoning is not True:
        raise TypeError(
            f"reasoning is a Reasoning, an end marker or a bool, not {type(reasoning).__name__}"
        )
    template = llm.metadata.get("tokenizer.chat_template", "")
    for begin, end in _MARKERS:
        if end in template:
            return Reasoning(end, begin=begin)
    raise LlgxError(
        "reasoning=True: the chat template of this model has no marker that is known; name it, as "
        'in reasoning="</think>"'
    )
