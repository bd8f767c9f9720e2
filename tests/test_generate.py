"""``llgx.generate`` and ``llgx.stream``, closing included, with a real model; and the traps of
llama-cpp-python that they go around, pinned as they are today."""

from __future__ import annotations

import copy
import dataclasses
import functools
import itertools
import json
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import llama_cpp
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llama_cpp.llama_chat_format import Jinja2ChatFormatter
from typing_extensions import TypedDict

import llgx
from llgx._endings import Endings
from llgx.llama.closing import Closing
from llgx.llama.generate import _as_type, _read_part


class Pet(pydantic.BaseModel):
    name: str
    kind: Literal["cat", "dog"]


class Person(pydantic.BaseModel):
    first_name: str
    age: int
    pets: list[Pet]
    nickname: str | None = None


class Strict(pydantic.BaseModel):
    word: str

    @pydantic.field_validator("word")
    @classmethod
    def never(cls, word: str) -> str:
        raise ValueError("no word will do")


@dataclasses.dataclass
class Point:
    x: int
    y: int


class Entry(TypedDict):
    word: str


PROMPT = "A person with two pets as JSON: "
LIST = {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 3}


@pytest.fixture(scope="module")
def llm(gemma_path: Path) -> Iterator[llama_cpp.Llama]:
    llm = llama_cpp.Llama(str(gemma_path), n_ctx=512, n_threads=1, n_threads_batch=1, verbose=False)
    yield llm
    llm.close()


BYTES = llgx.Vocabulary.from_tokens(
    [bytes([byte]) for byte in range(256)] + [b"<eos>", b"<mark>"], eog=[256], special=[256, 257]
)


# --- What comes back ------------------------------------------------------------------------------


def test_a_pydantic_model(llm: llama_cpp.Llama) -> None:
    result = llgx.generate(llm, PROMPT, Person, temperature=0, max_tokens=100)
    assert result.is_complete
    assert result.finish_reason == "stop"
    assert isinstance(result.value, Person)
    assert result.value == Person.model_validate_json(result.text)
    assert result.partial == result.value
    assert result.reasoning is None
    assert not result.is_closed


@pytest.mark.parametrize(
    ("output", "kind"),
    [
        (Point, Point),
        (Entry, dict),
        (list[int], list),
        (pydantic.TypeAdapter(dict[str, bool]), dict),
        ({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}, dict),
        ('{"type": "boolean"}', bool),
        (["yes", "no"], str),
        ("%llguidance {}\nstart: /[0-9]{3}/", str),
        ('root ::= "a" [b-d]', str),
        (llgx.Grammar.from_regex("[a-f]{4}"), str),
        (llgx.LlamaGrammar.from_lark("start: /[0-9]{3}/"), str),
        (llgx.LlamaGrammar.from_string('root ::= "a" [b-d]'), str),
        (llama_cpp.LlamaGrammar.from_string('root ::= "a" [b-d]'), str),
    ],
    ids=lambda value: re.sub(r" at 0x\w+", "", repr(value)),  # the same in each process
)
def test_kinds_of_output(llm: llama_cpp.Llama, output: Any, kind: type) -> None:
    result = llgx.generate(llm, "Data: ", output, temperature=0, max_tokens=40, closing=True)
    assert result.is_complete
    assert type(result.value) is kind
    if isinstance(output, list):
        assert result.value in output


def test_a_compiled_grammar(llm: llama_cpp.Llama) -> None:
    compiled = llgx.Grammar.from_choices(["left", "right"]).compile(llgx.Vocabulary.from_llama(llm))
    assert llgx.generate(llm, "Turn ", compiled).value in ("left", "right")


def test_chat_messages(llm: llama_cpp.Llama) -> None:
    messages = [{"role": "user", "content": "Is water wet?"}]
    result = llgx.generate(llm, messages, ["yes", "no"], temperature=0)
    assert result.value in ("yes", "no")
    assert len(result.tokens) >= 1


def test_tokens_as_prompt(llm: llama_cpp.Llama) -> None:
    tokens = llm.tokenize(PROMPT.encode())
    from_tokens = llgx.generate(llm, tokens, Point, temperature=0, max_tokens=40)
    from_text = llgx.generate(llm, PROMPT, Point, temperature=0, max_tokens=40)
    assert from_tokens.text == from_text.text


def test_what_a_validator_refuses_is_its_own_error(llm: llama_cpp.Llama) -> None:
    result = llgx.generate(llm, "A word: ", Strict, temperature=0, max_tokens=60, closing=True)
    assert result.is_complete
    with pytest.raises(pydantic.ValidationError, match="no word will do"):
        _ = result.value


def test_what_a_validator_refuses_is_in_the_result_of_a_stream(llm: llama_cpp.Llama) -> None:
    stream = llgx.stream(llm, "A word: ", Strict, temperature=0, max_tokens=60, closing=True)
    parts: list[Any] = []
    with pytest.raises(pydantic.ValidationError, match="no word will do"):
        parts.extend(iter(stream))
    assert stream.result is not None
    assert stream.result.is_complete
    assert parts[-1].word in stream.result.text
    assert list(stream) == []  # once
    with pytest.raises(TypeError, match="one way only"):
        copy.copy(stream)


def test_a_cut_text_has_no_value(llm: llama_cpp.Llama) -> None:
    result = llgx.generate(llm, PROMPT, Person, temperature=0, max_tokens=5)
    assert not result.is_complete
    assert result.finish_reason == "length"
    with pytest.raises(llgx.IncompleteError, match="closing=True") as raised:
        _ = result.value
    assert raised.value.generation is result
    assert isinstance(result.partial, Person)


def test_reprs_are_short(llm: llama_cpp.Llama) -> None:
    done = llgx.generate(llm, PROMPT, Point, temperature=0, max_tokens=60, closing=True)
    assert repr(done).startswith(f"<llgx.Generation value={done.value!r}, is_complete=True, ")
    assert repr(done).endswith(f" {len(done.tokens)} tokens>")
    cut = llgx.generate(llm, PROMPT, Person, temperature=0, max_tokens=5)
    assert f"text={cut.text!r}, is_complete=False, finish_reason='length'" in repr(cut)
    refused = llgx.generate(llm, "A word: ", Strict, temperature=0, max_tokens=60, closing=True)
    assert f"text={refused.text!r}, is_complete=True" in repr(refused)
    compiled = llgx.Grammar.from_lark('start: "a" B\nB: /b+/').compile(BYTES)
    assert repr(compiled) == f"<llgx.CompiledGrammar of 2 terminals for {BYTES!r}>"
    sampler = llgx.sampler(BYTES, compiled)
    assert repr(sampler) == f"<llgx.Sampler: {compiled!r}, 0 tokens accepted>"
    grammar = llgx.LlamaGrammar.from_string('root ::= a\na ::= "b"')
    assert repr(grammar) == ("<llgx.LlamaGrammar: GBNF for llama.cpp, 'root ::= a a ::= \"b\"'>")
    long = llgx.LlamaGrammar.from_string('root ::= "' + 1000 * "b" + '"')
    assert len(repr(long)) < 120


def test_a_text_that_is_complete_at_the_last_token(llm: llama_cpp.Llama) -> None:
    """llama-cpp-python calls that "length"; the text is whole all the same."""
    full = llgx.generate(llm, PROMPT, Person, temperature=0, max_tokens=60)
    tokens = [token for token in full.tokens if token not in (1, 106)]
    cut = llgx.generate(llm, PROMPT, Person, temperature=0, max_tokens=len(tokens))
    assert cut.finish_reason == "length"
    assert cut.is_complete
    assert cut.value == full.value


def test_jump_forward_can_be_switched_off(
    llm: llama_cpp.Llama, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    evaluate = llama_cpp.Llama.eval
    monkeypatch.setattr(
        llama_cpp.Llama, "eval", lambda llm, tokens: (calls.append(1), evaluate(llm, tokens))[1]
    )
    texts, counts = [], []
    for jumps in (True, False):
        calls.clear()
        result = llgx.generate(llm, PROMPT, Person, temperature=0, jump_forward=jumps)
        texts.append(result.is_complete)
        counts.append(len(calls))
    assert texts == [True, True]
    assert counts[0] < counts[1]


def test_nothing_is_left_on_the_model(llm: llama_cpp.Llama) -> None:
    before = set(vars(llm))
    llgx.generate(llm, PROMPT, ["a", "b"])
    with pytest.raises(llgx.LlgxError):
        llgx.generate(llm, PROMPT, Person, max_tokens=3, closing=True)
    stream = llgx.stream(llm, PROMPT, Person)
    next(stream)
    with pytest.raises(llgx.LlgxError, match="generating already"):
        llgx.generate(llm, PROMPT, ["a", "b"])
    stream.close()
    assert set(vars(llm)) == before


def test_with_everything_installed(llm: llama_cpp.Llama) -> None:
    with llgx.install(jump_forward=True):
        result = llgx.generate(
            llm, [{"role": "user", "content": "A point."}], Point, max_tokens=40, closing=True
        )
    assert isinstance(result.value, Point)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"output": 5}, TypeError, "output is a type"),
        ({"output": {"type": "nonsense"}}, llgx.SchemaError, "nonsense"),
        ({"output": "root ::= ("}, llgx.GrammarError, "root"),
        ({"prompt": 5}, TypeError, "a prompt is"),
        ({"prompt": b"x"}, TypeError, "a prompt is"),
        ({"prompt": [None]}, TypeError, "holds None"),
        ({"prompt": [1, {"role": "user"}]}, TypeError, "holds {'role"),
        ({"prompt": []}, ValueError, "neither tokens nor messages"),
        ({"max_tokens": "5"}, TypeError, "max_tokens is an integer"),
        ({"grammar": "x"}, TypeError, "grammar= is not an option"),
        ({"response_format": {}}, TypeError, "response_format= is not an option"),
        ({"reasoning": 5}, TypeError, "reasoning is"),
        ({"reasoning": True}, llgx.LlgxError, "no marker that is known"),
        ({"closing": True, "logit_bias": {1: 1.0}}, llgx.LlgxError, "logit_bias"),
        ({"output": [], "max_tokens": 3}, llgx.GrammarError, "nothing to choose"),
    ],
)
def test_faulty_requests(
    llm: llama_cpp.Llama, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    arguments = {"prompt": PROMPT, "output": Point, **options}
    with pytest.raises(error, match=message):
        llgx.generate(llm, arguments.pop("prompt"), arguments.pop("output"), **arguments)


# --- Streams --------------------------------------------------------------------------------------


def test_a_stream_grows_to_the_value(llm: llama_cpp.Llama) -> None:
    stream = llgx.stream(llm, PROMPT, Person, temperature=0, max_tokens=100, closing=True)
    assert stream.result is None
    parts = list(stream)
    assert stream.result is not None
    assert parts[-1] == stream.result.value
    assert len(parts) > 3
    for part in parts:
        assert isinstance(part, Person)
        assert part.nickname is None
    for before, after in itertools.pairwise(parts):
        assert before != after
        if before.first_name is not None:
            assert after.first_name.startswith(before.first_name)
    whole = llgx.generate(llm, PROMPT, Person, temperature=0, max_tokens=100, closing=True)
    assert whole.text == stream.result.text


def test_a_stream_of_text(llm: llama_cpp.Llama) -> None:
    stream = llgx.stream(llm, "Letters: ", "%llguidance {}\nstart: /[a-f ]{12}/", temperature=0)
    parts = list(stream)
    assert all(b.startswith(a) and a != b for a, b in itertools.pairwise(parts))
    assert stream.result is not None
    assert parts[-1] == stream.result.text


def test_a_stream_in_a_with_block_can_be_left(llm: llama_cpp.Llama) -> None:
    with llgx.stream(llm, PROMPT, LIST, max_tokens=200) as stream:
        for _ in stream:
            break
    assert stream.result is None
    assert list(stream) == []
    assert llgx.generate(llm, PROMPT, ["a"]).value == "a"


def test_the_model_of_a_stream_is_closed(gemma_path: Path) -> None:
    """llama-cpp-python went on with it, which was a segmentation fault."""
    llm = llama_cpp.Llama(str(gemma_path), n_ctx=96, n_threads=1, n_threads_batch=1, verbose=False)
    stream = llgx.stream(llm, PROMPT, LIST, max_tokens=60)
    next(stream)
    llm.close()
    with pytest.raises(llgx.VocabularyError, match="the model is closed"):
        list(stream)
    assert stream.result is None
    with pytest.raises(llgx.VocabularyError, match="the model is closed"):
        llgx.generate(llm, PROMPT, LIST)


def test_a_stream_that_is_cut_ends_with_what_there_is(llm: llama_cpp.Llama) -> None:
    stream = llgx.stream(llm, PROMPT, Person, temperature=0, max_tokens=8)
    parts: list[Any] = []
    with pytest.raises(llgx.IncompleteError, match=r"\(length\)") as raised:
        parts.extend(iter(stream))
    assert raised.value.generation is stream.result
    assert stream.result is not None
    assert not stream.result.is_complete
    assert list(stream) == []  # once
    assert parts[-1] == stream.result.partial


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)


def size(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + sum(map(size, value.values()))
    if isinstance(value, list):
        return 1 + sum(map(size, value))
    return 1 + (len(value) if isinstance(value, str) else 0)


@given(JSON.filter(lambda value: isinstance(value, (dict, list))))
@settings(max_examples=60)
def test_parts_of_json_only_grow(value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False)
    sizes = []
    for end in range(1, len(text) + 1):
        part = _read_part(text[:end])
        if isinstance(part, (dict, list)):
            sizes.append(size(part))
    assert sizes == sorted(sizes)
    assert _read_part(text) == value


@pytest.mark.parametrize(
    ("annotation", "value", "expected"),
    [
        (Person, {"first_name": "A"}, ("A", None, None)),
        (list[Person], [{"age": 3}], [(None, 3, None)]),
        (dict[str, Person], {"x": {}}, {"x": (None, None, None)}),
        (tuple[int, Person], [1, {"age": 2}], [1, (None, 2, None)]),
        (Person | None, {"age": 1}, (None, 1, None)),
        (Person | None, None, None),
        (Pet | Person, {"kind": "cat"}, {"name": None, "kind": "cat"}),
        (Pet | Person, {"other": 1}, {"other": 1}),
        (Person, {"pets": [{"name": "x"}]}, (None, None, [{"name": "x", "kind": None}])),
    ],
)
def test_parts_of_models(annotation: Any, value: Any, expected: Any) -> None:
    def plain(made: Any) -> Any:
        if isinstance(made, Person):
            assert made.nickname is None
            return made.first_name, made.age, plain(made.pets)
        if isinstance(made, Pet):
            return {"name": made.name, "kind": made.kind}
        if isinstance(made, list):
            return [plain(item) for item in made]
        if isinstance(made, dict):
            return {key: plain(item) for key, item in made.items()}
        return made

    assert plain(_as_type(annotation, value)) == expected


def test_another_call_on_a_model_whose_stream_is_open(llm: llama_cpp.Llama) -> None:
    """It would go on with the grammar of the stream, and the stream with its tokens."""
    stream = llgx.stream(llm, "Numbers: ", "%llguidance {}\nstart: /[0-9]{40}/", temperature=0)
    next(stream)
    with pytest.raises(llgx.LlgxError, match="generating already"):
        llm.create_completion("Once upon a time", max_tokens=4)
    assert list(stream)
    assert stream.result is not None
    assert stream.result.is_complete
    assert llm.create_completion("Once upon a time", max_tokens=4)


def test_a_wrapper_around_generate_is_called(
    llm: llama_cpp.Llama, monkeypatch: pytest.MonkeyPatch
) -> None:
    with llgx.install(jump_forward=True):
        calls = []
        inner = llama_cpp.Llama.generate

        @functools.wraps(inner)
        def generate(self: Any, *arguments: Any, **options: Any) -> Any:
            calls.append(arguments)
            return inner(self, *arguments, **options)

        with monkeypatch.context() as patch:
            patch.setattr(llama_cpp.Llama, "generate", generate)
            assert llgx.generate(llm, PROMPT, Person, max_tokens=60, closing=True).is_complete
    assert len(calls) == 1
    assert "_init_sampler" not in vars(llm)


@pytest.mark.parametrize("depth", [500, 100_000])
def test_schemas_that_nest_too_deep(depth: int) -> None:
    text = '{"items":' * depth + "{}" + "}" * depth
    with pytest.raises((llgx.SchemaError, llgx.LimitError)):
        llgx.generate(None, PROMPT, text)
    schema: dict[str, Any] = {}
    for _ in range(depth):
        schema = {"items": schema}
    with pytest.raises((llgx.SchemaError, llgx.LimitError)):
        llgx.generate(None, PROMPT, schema)


# --- Closing --------------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_no_budget_cuts_a_text(llm: llama_cpp.Llama, temperature: float) -> None:
    closed = 0
    for budget in (12, 16, 21, 33, 60):
        result = llgx.generate(
            llm,
            "A long list of short stories: ",
            LIST,
            temperature=temperature,
            seed=budget,
            max_tokens=budget,
            closing=True,
        )
        assert result.is_complete
        assert len([t for t in result.tokens if t not in (1, 106)]) <= budget
        assert len(result.value) >= 3
        closed += result.is_closed
    assert closed


def test_closing_of_nested_models(llm: llama_cpp.Llama) -> None:
    address = pydantic.create_model("Address", street=(str, ...), city=(str, ...))
    person = pydantic.create_model("Person", homes=(tuple[address, address], ...), name=(str, ...))  # type: ignore[valid-type]
    for budget in (60, 90):
        options: Any = {"temperature": 1.5, "seed": budget, "max_tokens": budget, "closing": True}
        assert isinstance(llgx.generate(llm, PROMPT, person, **options).value, person)


def test_the_budget_after_an_empty_prompt(llm: llama_cpp.Llama) -> None:
    """llama-cpp-python counts the token that it puts in place of the prompt."""
    for budget in (9, 14):
        result = llgx.generate(llm, "", LIST, temperature=1.5, max_tokens=budget, closing=True)
        assert result.is_complete
    result = llgx.generate(llm, "", "%llguidance {}\nstart: /a{2}/", max_tokens=3, closing=True)
    assert result.text == "aa"
    with pytest.raises(llgx.LlgxError, match="room for 0"):
        llgx.generate(llm, "", "%llguidance {}\nstart: /a{2}/", max_tokens=1, closing=True)


def test_closing_in_a_stream_of_a_chat(llm: llama_cpp.Llama) -> None:
    messages = [{"role": "user", "content": "Tell me about all your pets."}]
    stream = llgx.stream(llm, messages, Person, temperature=0, max_tokens=24, closing=True)
    parts = list(stream)
    assert stream.result is not None
    assert stream.result.is_complete
    assert parts[-1] == stream.result.value


def test_closing_with_logits_for_all_tokens(gemma_path: Path) -> None:
    llm = llama_cpp.Llama(
        str(gemma_path), n_ctx=96, n_threads=1, n_threads_batch=1, logits_all=True, verbose=False
    )
    try:
        result = llgx.generate(
            llm, "Stories: ", LIST, temperature=0, max_tokens=20, closing=True, logprobs=1
        )
        assert result.is_complete
        assert result.is_closed
        # The model is as sound as before.
        assert llgx.generate(llm, "Stories: ", ["a", "b"]).is_complete
    finally:
        llm.close()


def test_without_a_limit_the_context_is_the_budget(llm: llama_cpp.Llama) -> None:
    prompt = llm.tokenize(b"x " * 400)[:480]
    schema = {"type": "string", "minLength": 5}
    result = llgx.generate(llm, prompt, schema, temperature=2.0, seed=3, closing=True)
    assert result.is_complete


def test_a_budget_that_is_too_small_is_refused(llm: llama_cpp.Llama) -> None:
    with pytest.raises(llgx.LlgxError, match=r"takes \d+ tokens, and there is room for 4"):
        llgx.generate(llm, PROMPT, Person, max_tokens=4, closing=True)


def test_closing_is_for_plain_models(llm: llama_cpp.Llama, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llm, "draft_model", lambda tokens: tokens[:0])
    with pytest.raises(llgx.LlgxError, match="draft_model"):
        llgx.generate(llm, PROMPT, Person, max_tokens=40, closing=True)


GRAMMARS = [
    'start: "a"* "b"',
    'start: "(" start ")" | "x"',
    'start: /[a-c]{2,5}/ ("," /[0-9]+/)* ";"',
    'start: "if" body\nbody: "then" | "long long way" | "[" body "]"',
    "start: /(ab|cd)*e/ | /x.{3}y/",
    'start: word "!"\nword[max_tokens=4]: /[a-z]+/',
    "start: <|mark|> /[0-9]/ | /[a-z]{9}/",
    'start: %json {"type": "object", "required": ["aa"], "additionalProperties": {"type": "null"}}',
    'start: %json {"type": "array", "minItems": 3, "items": {"enum": ["q", 10]}}',
    'start: %json {"type": "array", "minItems":3, "uniqueItems": true, "items": {"type":"string"}}',
]

# Objects that may have other keys too, with any value: their shortest texts are long, and there are
# too many as long as they are.
OPEN = [
    'start: %json {"type": "object", "properties": {"address": {"type": "object", "properties":'
    ' {"street": {"type": "string"}, "city": {"type": "string"}}, "required": ["street", "city"]},'
    ' "name": {"type": "string"}}, "required": ["address", "name"]}',
    'start: %json {"type": "array", "minItems": 4, "items": {"type": "object", "required": ["id"],'
    ' "properties": {"id": {"type": "integer"}}}}',
    'start: thing{3} "."\nthing: "(" any* "!" ")"\nany: "(" any* ")" | /[a-z]/ | thing',
]


def compiled(lark: str) -> llgx.CompiledGrammar:
    return llgx.Grammar.from_lark(lark.replace("<|mark|>", "<[257]>")).compile(BYTES)


def shortest(matcher: llgx.Matcher) -> int:
    """Tokens to the nearest end, by trying all of them."""
    layer, seen = [matcher], set()
    for length in range(40):
        if any(at.is_accepting() for at in layer):
            return length
        after = []
        for at in layer:
            for token in at.allowed_tokens():
                if token != 256:
                    following = at.copy()
                    following.consume(token)
                    if following._place()[:3] not in seen:
                        seen.add(following._place()[:3])
                        after.append(following)
        layer = after
    raise AssertionError("no end")


def way_to_the_end(grammar: llgx.CompiledGrammar) -> list[int]:
    """The way that is found from the start, which has to lead to the end."""
    matcher = llgx.Matcher(grammar)
    way = Endings(grammar).way(matcher._place())
    assert way is not None
    assert matcher.try_consume(way) == len(way)
    assert matcher.is_accepting()
    return way


@pytest.mark.parametrize("lark", GRAMMARS)
def test_the_first_way_is_a_shortest_one(lark: str) -> None:
    grammar = compiled(lark)
    way = way_to_the_end(grammar)
    # Where items are to be distinct, trying everything takes too long.
    expected = 12 if "uniqueItems" in lark else shortest(llgx.Matcher(grammar))
    assert len(way) == expected


@pytest.mark.parametrize("lark", OPEN)
def test_ways_past_all_that_may_come(lark: str) -> None:
    way_to_the_end(compiled(lark))


@given(st.sampled_from(GRAMMARS + OPEN), st.data())
@settings(max_examples=150)
def test_ways_from_anywhere_lead_to_an_end(lark: str, data: st.DataObject) -> None:
    grammar = compiled(lark)
    endings = Endings(grammar)
    matcher = llgx.Matcher(grammar)
    for _ in range(data.draw(st.integers(0, 25))):
        allowed = [token for token in matcher.allowed_tokens() if token != 256]
        if not allowed:
            break
        matcher.consume(data.draw(st.sampled_from(allowed)))
        way = endings.way(matcher._place())
        assert way is not None
        after = matcher.copy()
        assert after.try_consume(way) == len(way)
        assert after.is_accepting()
        assert not way or not matcher.is_accepting()


@given(st.sampled_from(GRAMMARS + OPEN), st.integers(0, 30), st.data())
@settings(max_examples=150)
def test_closing_keeps_its_promise(lark: str, more: int, data: st.DataObject) -> None:
    grammar = compiled(lark)
    way = Endings(grammar).way(llgx.Matcher(grammar)._place())
    assert way is not None
    budget = len(way) + more
    closing = Closing(grammar, budget)
    matcher = llgx.Matcher(grammar)
    rest: list[int] | None = None
    while len(matcher) < budget and rest is None and matcher.stop_reason is None:
        token = data.draw(st.sampled_from(matcher.allowed_tokens()))
        rest = closing.settle(matcher, (token,))
        for taken in (token,) if rest is None else rest:
            matcher.consume(taken)
    assert matcher.is_accepting()
    assert closing.is_closing == (rest is not None)
    assert len([token for token in matcher.tokens if token != 256]) <= budget


def test_a_search_without_result_is_none() -> None:
    grammar = compiled("start: /[ab]{60}/")
    assert Endings(grammar, limit=10).way(llgx.Matcher(grammar)._place()) is None
    assert len(Endings(grammar).way(llgx.Matcher(grammar)._place()) or ()) == 60
    with pytest.raises(ValueError, match="between 1"):
        Endings(grammar, limit=0)
    with pytest.raises(TypeError):
        Endings(None)  # type: ignore[arg-type]


def test_what_is_known_does_not_keep_a_grammar_alive() -> None:
    grammar = compiled('start: "a"')
    endings = Endings(grammar)
    place = llgx.Matcher(grammar)._place()
    del grammar
    BYTES.kept_for  # noqa: B018 - the vocabulary lives on
    import gc

    gc.collect()
    with pytest.raises(ReferenceError):
        endings.way(place)


# --- Reasoning ------------------------------------------------------------------------------------


def test_reasoning_up_to_a_marker(llm: llama_cpp.Llama) -> None:
    result = llgx.generate(
        llm,
        "Think, then answer. <think>",
        Point,
        reasoning=llgx.Reasoning("</think>", max_tokens=12),
        temperature=0,
        max_tokens=60,
        closing=True,
    )
    assert result.reasoning is not None
    assert result.reasoning.endswith("</think>")
    assert "</think>" not in result.text
    assert isinstance(result.value, Point)


def test_reasoning_that_the_prompt_has_begun(llm: llama_cpp.Llama) -> None:
    reasoning = llgx.Reasoning("</think>", begin="<think>", max_tokens=8)
    for prompt, begun in (("Think: <think>\n", True), ("Think: ", False)):
        result = llgx.generate(
            llm, prompt, ["a", "b"], reasoning=reasoning, temperature=0, max_tokens=40
        )
        assert result.value in ("a", "b")
        assert result.reasoning is not None
        assert result.reasoning.startswith("<think>") is not begun


def test_a_special_token_as_marker(llm: llama_cpp.Llama) -> None:
    """Gemma has none for thinking; the start of a turn has to do."""
    result = llgx.generate(
        llm,
        "Well",
        ["a", "b"],
        reasoning=llgx.Reasoning("<start_of_turn>", max_tokens=6),
        temperature=0,
        max_tokens=40,
    )
    assert result.value in ("a", "b")
    assert result.reasoning is not None
    assert result.reasoning.endswith("<start_of_turn>")
    assert 105 in result.tokens


def test_streams_leave_the_reasoning_out(llm: llama_cpp.Llama) -> None:
    stream = llgx.stream(
        llm,
        "Think: ",
        Point,
        reasoning=llgx.Reasoning("</think>", max_tokens=8),
        temperature=0,
        max_tokens=60,
        closing=True,
    )
    for part in stream:
        assert isinstance(part, Point | dict)
    assert stream.result is not None
    assert isinstance(stream.result.value, Point)


def test_the_marker_of_a_chat_template(
    llm: llama_cpp.Llama, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(llm.metadata, "tokenizer.chat_template", "{{ '<think>' }}…</think>")
    result = llgx.generate(
        llm, "Think: ", ["a", "b"], reasoning=True, temperature=0, max_tokens=120, closing=True
    )
    assert result.reasoning is not None
    assert result.reasoning.startswith("<think>")
    assert result.reasoning.endswith("</think>")


# --- Traps of llama-cpp-python --------------------------------------------------------------------


def test_a_stop_string_inside_a_json_string_warns(llm: llama_cpp.Llama) -> None:
    schema = {"const": "hello world"}
    with pytest.warns(UserWarning, match=r"the stop string 'lo' ended the text"):
        result = llgx.generate(llm, PROMPT, schema, stop=["zzz", "lo"], temperature=0)
    assert not result.is_complete
    assert result.finish_reason == "stop"
    assert result.text == '"hel'
    # As it is without llgx.generate: cut without a word.
    response: Any = llm.create_completion(
        PROMPT,
        grammar=llgx.LlamaGrammar.from_json_schema(schema),
        stop=["lo"],
        max_tokens=40,
    )
    assert response["choices"][0]["text"] == '"hel'


def test_a_stop_string_after_a_complete_text_is_none_of_our_business(
    llm: llama_cpp.Llama,
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = llgx.generate(llm, PROMPT, "%llguidance {}\nstart: /[0-9]+/ /;.*/", stop=[";"])
        assert not result.is_complete or ";" not in result.text
        result = llgx.generate(llm, PROMPT, '%llguidance {}\nstart: "ab" "; c"?', stop=[";"])
    assert result.text == "ab"
    assert result.is_complete


def test_the_empty_stop_string_of_models_without_end_token(llm: llama_cpp.Llama) -> None:
    """llama-cpp-python puts the text of the end token into ``stop``, empty or not, and the empty
    string is found in any text: its chats are empty."""
    formatter = Jinja2ChatFormatter(
        template="{{ messages[0]['content'] }}", eos_token="", bos_token=""
    )
    llm.chat_handler = formatter.to_chat_handler()
    try:
        messages: Any = [{"role": "user", "content": "Yes or no? "}]
        empty: Any = llm.create_chat_completion(messages, max_tokens=4)
        assert empty["choices"][0]["message"]["content"] == ""
        assert llgx.generate(llm, messages, ["yes", "no"]).value in ("yes", "no")
    finally:
        llm.chat_handler = None


def test_tokens_of_more_than_32_bytes(llm: llama_cpp.Llama) -> None:
    """``detokenize`` loses them; results are made of the vocabulary's bytes."""
    vocabulary = llgx.Vocabulary.from_llama(llm)
    long = [
        token
        for token, text in enumerate(vocabulary.tokens)
        if len(text) > 32 and token not in vocabulary.special
    ]
    text = vocabulary.tokens[long[0]].decode()
    assert llm.detokenize([long[0]]) == b""
    grammar = llgx.Grammar.from_lark(f"start: <[{long[0]}]>")
    result = llgx.generate(llm, PROMPT, grammar, temperature=0)
    assert result.tokens[0] == long[0]
    assert result.text == text
