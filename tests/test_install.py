"""``llgx.install()`` with a real model: what goes through it, what it changes and gives back."""

from __future__ import annotations

import contextlib
import ctypes
import inspect
import itertools
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import llama_cpp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_cpp import _internals, llama_grammar
from llama_cpp import llama_cpp as low_level

import llgx
from llgx.llama import hooks, install, tools
from llgx.llama.schemas import schema_in, schema_text

SCHEMA = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}, "n": {"enum": [1, 2]}},
    "required": ["ok", "n"],
    "additionalProperties": False,
}
# llama-cpp-python turns it into GBNF that it cannot read.
HARD = {
    "type": "object",
    "properties": {"id": {"type": "string", "pattern": r"^\d{3}$"}, 'a"b': {"const": "\\"}},
    "required": ["id", 'a"b'],
    "additionalProperties": False,
}
BROKEN = {"type": "string", "pattern": "("}
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"enum": ["Paris", "Rome"]}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}
NOW = {"type": "function", "function": {"name": "now", "description": "The time"}}
TOOLS: Any = [WEATHER, NOW]
MESSAGES: Any = [{"role": "user", "content": "The city of Rome is"}]


@pytest.fixture(scope="module")
def llm(gemma_path: Path) -> Iterator[llama_cpp.Llama]:
    model = llama_cpp.Llama(
        str(gemma_path), n_ctx=1024, n_threads=1, n_threads_batch=1, verbose=False
    )
    yield model
    model.close()


@pytest.fixture
def installed() -> Iterator[None]:
    with llgx.install():
        yield


def chat(llm: llama_cpp.Llama, **options: Any) -> Any:
    options = {"messages": MESSAGES, "max_tokens": 60, "temperature": 0, **options}
    done: Any = llm.create_chat_completion(**options)
    return done["choices"][0]


def content(llm: llama_cpp.Llama, **options: Any) -> Any:
    choice = chat(llm, **options)
    assert choice["finish_reason"] == "stop"
    return json.loads(choice["message"]["content"])


# ------------------------------------------------------------------------------- formats


@pytest.mark.parametrize("schema", [SCHEMA, HARD], ids=["plain", "hard"])
@pytest.mark.usefixtures("installed")
def test_response_formats_with_a_schema(llm: llama_cpp.Llama, schema: Any) -> None:
    for response_format in (
        {"type": "json_object", "schema": schema},
        {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}},
        {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": schema}},
    ):
        jsonschema.validate(content(llm, response_format=response_format), schema)


@pytest.mark.usefixtures("installed")
def test_schemas_of_types(llm: llama_cpp.Llama) -> None:
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("Answer", __config__={"extra": "forbid"}, yes=(bool, ...))
    for response_format in (
        {"type": "json_object", "schema": model},
        {"type": "json_schema", "json_schema": {"name": "x", "schema": model}},
        {
            "type": "json_schema",
            "json_schema": {"name": "x", "schema": pydantic.TypeAdapter(model)},
        },
    ):
        model.model_validate(content(llm, response_format=response_format))
    with pytest.raises(llgx.SchemaError, match="no schema can be made"):
        content(llm, response_format={"type": "json_object", "schema": model(yes=True)})
    tool = {"type": "function", "function": {"name": "f", "parameters": model}}
    for choice in ("required", {"type": "function", "function": {"name": "f"}}):
        (call, *_) = chat(llm, tools=[tool], tool_choice=choice)["message"]["tool_calls"]
        model.model_validate_json(call["function"]["arguments"])


@pytest.mark.usefixtures("installed")
def test_response_formats_without_a_schema(llm: llama_cpp.Llama) -> None:
    value = content(llm, response_format={"type": "json_object"}, max_tokens=None)
    assert isinstance(value, dict)
    choice = chat(llm, response_format={"type": "text"}, max_tokens=8)
    assert choice["message"]["content"]
    # Text leaves grammar= as it is.
    grammar = llgx.LlamaGrammar.from_lark("start: /[0-9]{3}/")
    assert chat(llm, response_format={"type": "text"}, grammar=grammar)["message"][
        "content"
    ].isdigit()


@pytest.mark.usefixtures("installed")
def test_streamed_response_format(llm: llama_cpp.Llama) -> None:
    chunks: Any = llm.create_chat_completion(
        MESSAGES, response_format={"type": "json_object", "schema": SCHEMA}, stream=True
    )
    text = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks)
    jsonschema.validate(json.loads(text), SCHEMA)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("stream", [False, True])
def test_errors_in_schemas_reach_the_caller(llm: llama_cpp.Llama, stream: bool) -> None:
    """llama-cpp-python would go on with any JSON. Streams do not even begin."""
    tool: Any = {"type": "function", "function": {"name": "f", "parameters": BROKEN}}
    chosen: Any = {"type": "function", "function": {"name": "f"}}
    requests: list[dict[str, Any]] = [
        {"response_format": {"type": "json_object", "schema": BROKEN}},
        {"response_format": {"type": "json_schema", "json_schema": {"schema": BROKEN}}},
        {"tools": [tool], "tool_choice": chosen},
        {"tools": [tool], "tool_choice": "required"},
        {"tools": [tool], "tool_choice": "auto"},
        {"response_format": {"type": "json_object", "schema": {"x": object()}}},
        {"response_format": {"type": "json_object", "schema": False}},
    ]
    for request in requests:
        with pytest.raises((llgx.SchemaError, llgx.GrammarError)):
            llm.create_chat_completion(MESSAGES, stream=stream, **request)
    with pytest.raises(llgx.SchemaError, match="pattern"):
        llm.create_chat_completion(MESSAGES, stream=stream, **requests[0])


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    "wrong",
    [
        {"type": "json_schema"},
        {"type": "json_schema", "json_schema": {"name": "x"}},
        {"type": "grammar"},
        {},
        "json_object",
        7,
    ],
    ids=str,
)
def test_wrong_response_formats(llm: llama_cpp.Llama, wrong: Any) -> None:
    with pytest.raises(llgx.GrammarError, match="response_format"):
        llm.create_chat_completion(MESSAGES, response_format=wrong)
    with pytest.raises(llgx.GrammarError, match='"schema": dict} asks for one'):
        llm.create_chat_completion(MESSAGES, response_format=dict)  # type: ignore[arg-type]


# ------------------------------------------------------------------------------- tools


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("chat_format", [None, "functionary", "chatml-function-calling", "chatml"])
def test_a_chosen_function(
    llm: llama_cpp.Llama, chat_format: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if chat_format is not None:
        monkeypatch.setattr(llm, "chat_format", chat_format)
    chosen = {"type": "function", "function": {"name": "get_weather"}}
    # functionary goes by the older arguments too.
    message = chat(llm, tools=[WEATHER], tool_choice=chosen)["message"]
    (call,) = message["tool_calls"]
    assert call["function"]["name"] == "get_weather"
    arguments = json.loads(call["function"]["arguments"])
    jsonschema.validate(arguments, WEATHER["function"]["parameters"])  # type: ignore[index]


@pytest.mark.usefixtures("installed")
def test_a_chosen_function_without_parameters(llm: llama_cpp.Llama) -> None:
    chosen = {"type": "function", "function": {"name": "now"}}
    (call,) = chat(llm, tools=TOOLS, tool_choice=chosen)["message"]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {}
    assert "parameters" not in NOW["function"]  # the caller's tools are as they were


@pytest.mark.usefixtures("installed")
def test_required_calls(llm: llama_cpp.Llama) -> None:
    choice = chat(llm, tools=TOOLS, tool_choice="required", max_tokens=40)
    assert choice["message"]["content"] is None
    first = choice["message"]["tool_calls"][0]
    assert first["function"]["name"] in ("get_weather", "now")
    assert first["id"].startswith("call_0_")
    arguments = json.loads(first["function"]["arguments"])
    if first["function"]["name"] == "get_weather":
        jsonschema.validate(arguments, WEATHER["function"]["parameters"])  # type: ignore[index]
    else:
        assert arguments == {}


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("chat_format", [None, "chatml-function-calling"])
@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "say"}}])
@pytest.mark.parametrize("limit", [{"max_tokens": 24}, {"stop": "aa"}], ids=str)
def test_a_cut_call_is_no_finished_one(
    llm: llama_cpp.Llama,
    choice: Any,
    limit: Any,
    chat_format: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if chat_format is not None:
        monkeypatch.setattr(llm, "chat_format", chat_format)
    parameters = {
        "type": "object",
        "properties": {"text": {"type": "string", "pattern": "^a{200}$"}},
        "required": ["text"],
        "additionalProperties": False,
    }
    say: Any = {"type": "function", "function": {"name": "say", "parameters": parameters}}
    options: Any = {"tools": [say], "tool_choice": choice, "temperature": 0, **limit}
    if chat_format is not None and choice == "required":
        with pytest.raises(llgx.GrammarError, match="chatml-function-calling knows"):
            llm.create_chat_completion(MESSAGES, **options)
        return
    done: Any = llm.create_chat_completion(MESSAGES, **options)
    (choice_made,) = done["choices"]
    assert choice_made["finish_reason"] == "length"
    assert not choice_made["message"].get("tool_calls")
    assert not choice_made["message"].get("function_call")
    assert '"text"' in choice_made["message"]["content"]
    chunks: Any = llm.create_chat_completion(MESSAGES, stream=True, **options)
    reasons = [chunk["choices"][0]["finish_reason"] for chunk in chunks]
    assert [reason for reason in reasons if reason] == ["length"]


@pytest.mark.usefixtures("installed")
def test_one_call_at_most(llm: llama_cpp.Llama) -> None:
    options: Any = {"tools": [NOW], "temperature": 0, "max_tokens": 120}
    for choice in ("required", "auto"):
        several = chat(llm, tool_choice=choice, parallel_tool_calls=True, **options)
        one = chat(llm, tool_choice=choice, parallel_tool_calls=False, **options)
        if choice == "required":
            assert len(several["message"]["tool_calls"]) >= 1
            assert len(one["message"]["tool_calls"]) == 1
            assert one["finish_reason"] == "tool_calls"
        assert len(one["message"].get("tool_calls", ())) <= 1
    vocabulary = llgx.Vocabulary.from_llama(llm)
    call = b'<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
    for required in (True, False):
        for single in (True, False):
            plan = tools.plan_calls(llm, [NOW], is_required=required, is_single=single)
            matcher = llgx.Matcher(plan.grammar.compile(vocabulary))
            count, complete = matcher.match_bytes(call + call)
            assert (count == 2 * len(call) and complete) is not single
    with pytest.raises(llgx.GrammarError, match="parallel_tool_calls"):
        chat(llm, tool_choice="required", parallel_tool_calls="no", **options)


@pytest.mark.usefixtures("installed")
def test_streamed_calls_are_the_same(llm: llama_cpp.Llama) -> None:
    whole = chat(llm, tools=TOOLS, tool_choice="required", max_tokens=40)
    chunks: Any = llm.create_chat_completion(
        MESSAGES, tools=TOOLS, tool_choice="required", max_tokens=40, temperature=0, stream=True
    )
    choices = [chunk["choices"][0] for chunk in chunks]
    assert choices[0]["delta"] == {"role": "assistant"}
    assert choices[-1]["finish_reason"] == whole["finish_reason"]
    assert all(choice["finish_reason"] is None for choice in choices[:-1])
    assert _calls(choice["delta"] for choice in choices) == [
        (call["function"]["name"], call["function"]["arguments"])
        for call in whole["message"]["tool_calls"]
    ]


def _calls(deltas: Any) -> list[tuple[str, str]]:
    """What a client puts together from the deltas of a stream."""
    calls: list[list[str]] = []
    for delta in deltas:
        for part in delta.get("tool_calls", ()):
            if part["index"] == len(calls):
                assert part["type"] == "function"
                assert part["id"]
                calls.append([part["function"]["name"], ""])
            calls[part["index"]][1] += part["function"].get("arguments", "")
    return [(name, arguments) for name, arguments in calls]


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("choice", [None, "auto"])
def test_automatic_calls_are_text_or_calls(llm: llama_cpp.Llama, choice: Any) -> None:
    """The model goes on with what the last message begins, so both can be had from it."""
    answer = chat(llm, tools=TOOLS, tool_choice=choice, max_tokens=10)
    assert answer["message"]["content"]
    assert "tool_calls" not in answer["message"]
    plan = tools.plan_calls(llm, TOOLS, is_required=False)
    matcher = llgx.Matcher(plan.grammar.compile(llgx.Vocabulary.from_llama(llm)))
    call = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
    for text, fits in (
        ("", True),
        ("Hello {", True),
        (call, True),
        (f"Let me see. {call}{call} Done.", True),
        (call.replace("now", "new"), False),
        (call.replace("{}", '{"a": 1}'), False),
        (call.removesuffix("</tool_call>"), False),
    ):
        assert matcher.match_bytes(text.encode())[1] == fits, text


@pytest.mark.usefixtures("installed")
def test_whole_calls(llm: llama_cpp.Llama, monkeypatch: pytest.MonkeyPatch) -> None:
    """Formats where the call takes the place of the text."""
    monkeypatch.setattr(llm, "chat_format", "llama-3")
    choice = chat(llm, tools=TOOLS, tool_choice="required")
    assert choice["finish_reason"] == "tool_calls"
    assert len(choice["message"]["tool_calls"]) == 1
    plan = tools.plan_calls(llm, TOOLS, is_required=False)
    matcher = llgx.Matcher(plan.grammar.compile(llgx.Vocabulary.from_llama(llm)))
    for text, fits in (
        ("", True),
        ("Hello", True),
        ('{"name": "now", "parameters": {}}', True),
        ('{"name": "new", "parameters": {}}', False),
    ):
        assert matcher.match_bytes(text.encode())[1] == fits, text


@pytest.mark.usefixtures("installed")
def test_no_calls_are_wanted(llm: llama_cpp.Llama) -> None:
    unwanted: list[Any] = [{"tools": TOOLS, "tool_choice": "none"}, {"tools": []}, {}]
    for options in unwanted:
        assert "tool_calls" not in chat(llm, max_tokens=4, **options)["message"]
    # A grammar of the caller's own wins where no choice was made.
    grammar = llgx.LlamaGrammar.from_lark("start: /[0-9]{3}/")
    assert chat(llm, tools=TOOLS, grammar=grammar)["message"]["content"].isdigit()


def test_a_name_may_hold_the_mark_of_calls() -> None:
    tokens = [bytes([byte]) for byte in range(256)] + [b"<eos>", b"<tool_call>", b"</tool_call>"]
    vocabulary = llgx.Vocabulary.from_tokens(tokens, eog=[256], special=[256, 257, 258])
    name = 'a"<tool_call>\\'
    schema = {"const": {}}
    grammar = tools._grammar(
        tools._MARKED, [(name, schema)], vocabulary, is_required=True, is_single=False
    )
    matcher = llgx.Matcher(grammar.compile(vocabulary))
    assert matcher.try_consume([257]) == 1
    text = f'\n{{"name": {json.dumps(name)}, "arguments": {{}}}}\n'.encode()
    assert matcher.try_consume(text) == len(text)
    assert matcher.try_consume([258]) == 1
    assert matcher.is_accepting()


@pytest.mark.usefixtures("installed")
def test_wrong_tools(llm: llama_cpp.Llama) -> None:
    wrong: list[Any] = [
        [{"type": "function"}],
        [{"type": "function", "function": {}}],
        [{"type": "function", "function": {"name": ""}}],
        ["get_weather"],
        [NOW, NOW],
        [{"type": "function", "function": {"name": "f", "parameters": 7}}],
        [{"type": "function", "function": {"name": "f", "parameters": {"type": "string"}}}],
    ]
    for each in wrong:
        with pytest.raises((llgx.GrammarError, llgx.SchemaError)):
            llm.create_chat_completion(MESSAGES, tools=each, tool_choice="required")
    with pytest.raises(llgx.GrammarError, match="tool_choice"):
        llm.create_chat_completion(MESSAGES, tools=TOOLS, tool_choice="any")  # type: ignore[arg-type]
    other: Any = {"type": "function", "function": {"name": "other"}}
    with pytest.raises(llgx.GrammarError, match="names 'other', and the tools are 'get_weather', "):
        llm.create_chat_completion(MESSAGES, tools=TOOLS, tool_choice=other)
    with pytest.raises(llgx.GrammarError, match="give one of them"):
        llm.create_chat_completion(
            MESSAGES, tools=TOOLS, tool_choice="auto", response_format={"type": "json_object"}
        )


NAMES = ["now", "no", "get_weather"]


@st.composite
def written(draw: st.DrawFn) -> tuple[str, str, list[tuple[str, str]]]:
    """A text with calls in it, its content, and the calls."""
    free = st.text(alphabet='ab<>{}"\\/ \n', max_size=8)
    value = st.recursive(
        st.text(alphabet='a"\\{}<>', max_size=4) | st.integers(), lambda inner: st.lists(inner)
    )
    arguments = st.dictionaries(st.text(alphabet='a"}', max_size=2), value, max_size=3)
    text = before = draw(free)
    calls = []
    kept = before.rstrip()
    blank = before[len(kept) :]
    for _ in range(draw(st.integers(0, 3))):
        name = draw(st.sampled_from(NAMES))
        inner = json.dumps(draw(arguments))
        after = draw(free)
        text += f'<tool_call>\n{{"name": "{name}", "arguments": {inner}}}\n</tool_call>{after}'
        calls.append((name, inner))
        blank = ""
        for character in after:
            blank += character
            if not character.isspace():
                kept += blank
                blank = ""
    return text, kept if calls else before, calls


@given(written(), st.lists(st.integers(0, 200)), st.data())
def test_calls_are_read_from_any_pieces(
    case: tuple[str, str, list[tuple[str, str]]], cuts: list[int], data: st.DataObject
) -> None:
    text, expected, calls = case
    reader = tools.CallReader(tools._MARKED, NAMES, "id")
    deltas = []
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    for begin, end in itertools.pairwise(places):
        deltas += reader.feed(text[begin:end])
    deltas += reader.close()
    assert _calls(deltas) == calls
    assert [(c["function"]["name"], c["function"]["arguments"]) for c in reader.calls] == calls
    assert "".join(delta.get("content", "") for delta in deltas) == expected
    assert reader.finish_reason("stop") == ("tool_calls" if calls else "stop")
    assert reader.finish_reason("length") == "length"


def test_calls_whose_marks_are_not_printed() -> None:
    """Control tokens have no text in llama-cpp-python."""
    reader = tools.CallReader(tools._MARKED, NAMES, "id")
    call = '\n{"name": "now", "arguments": {"a": 1}}\n'
    deltas = [*reader.feed(f"Well.{call}{call}Done."), *reader.close()]
    assert _calls(deltas) == [("now", '{"a": 1}')] * 2
    assert "".join(delta.get("content", "") for delta in deltas) == "Well.Done."


def test_a_call_that_is_cut_off() -> None:
    reader = tools.CallReader(tools._WHOLE, NAMES, "id")
    deltas = [*reader.feed('{"name": "now", "parameters": {"a": "}'), *reader.close()]
    assert _calls(deltas) == [("now", '{"a": "}')]
    assert reader.finished == []
    assert reader.cut_text == '{"name": "now", "parameters": {"a": "}'
    assert reader.finish_reason("stop") == "length"
    reader = tools.CallReader(tools._WHOLE, NAMES, "id")
    assert [*reader.feed('{"name": "no'), *reader.close()] == [{"content": '{"name": "no'}]


# ------------------------------------------------------------------------------- other ways in


@pytest.mark.usefixtures("installed")
def test_grammars_of_llama_cpp_python(llm: llama_cpp.Llama) -> None:
    plain = llama_cpp.LlamaGrammar
    for grammar, fits in (
        (plain.from_string("%llguidance {}\nstart: /[0-9]{3}/"), str.isdigit),
        (plain.from_string('root ::= "abc"'), "abc".__eq__),
        (llgx.Grammar.from_choices(["xyz"]), "xyz".__eq__),
    ):
        done: Any = llm.create_completion("1", grammar=grammar, max_tokens=8)  # type: ignore[arg-type]
        assert fits(done["choices"][0]["text"])
    done = llm.create_completion(
        "1", grammar=plain.from_json_schema(json.dumps(HARD)), max_tokens=60, temperature=0
    )
    jsonschema.validate(json.loads(done["choices"][0]["text"]), HARD)
    with pytest.raises(llgx.SchemaError, match="pattern"):
        llm.create_completion("1", grammar=plain.from_json_schema(json.dumps(BROKEN)))
    ordered = llama_grammar.json_schema_to_gbnf(json.dumps(SCHEMA), ["n", "ok"])
    assert "::=" in ordered  # what only llama-cpp-python's own conversion does is left to it


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("module", [low_level, llama_cpp], ids=["llama_cpp.llama_cpp", "llama_cpp"])
def test_low_level_samplers(llm: llama_cpp.Llama, module: Any) -> None:
    vocab = llm._model.vocab
    pointer = module.llama_sampler_init_grammar(vocab, b"%llguidance {}\nstart: /[0-9]/", b"root")
    assert low_level.llama_sampler_name(pointer) == b"llgx"
    vocabulary = llgx.Vocabulary.from_llama(llm)
    data = (low_level.llama_token_data * len(vocabulary))(
        *(low_level.llama_token_data(token, 0.0, 0.0) for token in range(len(vocabulary)))
    )
    array = low_level.llama_token_data_array(data, len(vocabulary), -1, False)
    low_level.llama_sampler_apply(pointer, ctypes.byref(array))
    assert {vocabulary.tokens[data[i].id] for i in range(array.size)} == {
        b"%d" % digit for digit in range(10)
    }
    low_level.llama_sampler_free(pointer)
    gbnf = module.llama_sampler_init_grammar(vocab, b'root ::= "a"', b"root")
    assert low_level.llama_sampler_name(gbnf) == b"grammar"
    low_level.llama_sampler_free(gbnf)
    # Callers of this function look at the result.
    assert not module.llama_sampler_init_grammar(vocab, b'root ::= "a', b"root")
    with pytest.raises(llgx.GrammarError, match="line 2"):
        module.llama_sampler_init_grammar(vocab, b"%llguidance {}\nstart: (", b"root")


def test_schemas_survive_their_way_as_text() -> None:
    for schema in (SCHEMA, HARD, {}, {"const": '"x-guidance"'}, {"$ref": "#/$defs/a", "$defs": {}}):
        text = schema_text(json.dumps(schema))
        inner = json.loads(schema_in(text) or "null")
        inner.pop("x-guidance", None)
        assert inner == schema
    own = json.dumps({"x-guidance": {"whitespace_flexible": False}, "type": "object"})
    assert json.loads(schema_in(schema_text(own)) or "") == json.loads(own)
    assert schema_in("%llguidance {}\nstart: %json {} | other\nother: /a/") is None
    assert schema_in('root ::= "a"') is None


# ------------------------------------------------------------------------------- coming and going

TOUCHED = [
    (_internals.LlamaSampler, "add_grammar"),
    (_internals.LlamaSampler, "add_grammar_lazy_patterns"),
    (low_level, "llama_sampler_init_grammar"),
    (llama_cpp, "llama_sampler_init_grammar"),
    (llama_grammar, "json_schema_to_gbnf"),
    (llama_grammar, "JSON_GBNF"),
    (llama_grammar.LlamaGrammar, "__init__"),
    (llama_cpp.Llama, "create_chat_completion"),
]


def state() -> list[Any]:
    return [inspect.getattr_static(owner, name) for owner, name in TOUCHED]


@pytest.fixture
def clean() -> Iterator[list[Any]]:
    """The state without llgx, to which each test has to come back."""
    hooks.remove_hook()
    before = state()
    yield before
    assert state() == before


def test_everything_is_given_back(clean: list[Any]) -> None:
    with llgx.install() as installation:
        inside = state()
        assert all(a is not b for a, b in zip(clean, inside, strict=True))
        with llgx.install():  # changes nothing, and takes nothing back
            assert state() == inside
        assert state() == inside
    assert state() == clean
    assert isinstance(installation, install.Installation)
    llgx.install()
    llgx.install()
    assert state() != clean
    llgx.uninstall()
    assert state() == clean
    llgx.uninstall()


def test_given_back_after_an_error(clean: list[Any]) -> None:
    with pytest.raises(ZeroDivisionError), llgx.install():
        raise ZeroDivisionError
    assert state() == clean


def test_grammars_of_llgx_keep_the_hook(llm: llama_cpp.Llama, clean: list[Any]) -> None:
    with llgx.install():
        grammar = llgx.LlamaGrammar.from_lark("start: /[0-9]{3}/")
    done: Any = llm.create_completion("1", grammar=grammar, max_tokens=8)
    assert done["choices"][0]["text"].isdigit()
    assert state()[2:] == clean[2:]
    hooks.remove_hook()


def test_grammars_of_llama_cpp_python_outlive_the_installation(
    llm: llama_cpp.Llama, clean: list[Any]
) -> None:
    """llama.cpp would take the text of such a grammar for GBNF, and crash."""
    with llgx.install():
        grammar = llama_cpp.LlamaGrammar.from_json_schema('{"type": "integer", "maximum": 99}')
        chunks: Any = llm.create_chat_completion(
            MESSAGES, response_format={"type": "json_object"}, max_tokens=8, stream=True
        )
    assert state()[2:] == clean[2:]
    text = "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks)
    assert text.startswith("{")
    done: Any = llm.create_completion("1", grammar=grammar, max_tokens=8)
    assert int(done["choices"][0]["text"]) <= 99
    hooks.remove_hook()


def test_a_hook_that_was_taken_back_meanwhile_serves_llgx(llm: llama_cpp.Llama) -> None:
    hooks.add_hook("test")
    ours = _internals.LlamaSampler.add_grammar
    hooks.remove_hook()
    chain = _internals.LlamaSampler()
    ours(chain, llm._model, llama_cpp.LlamaGrammar.from_string("%llguidance {}\nstart: /a/"))
    assert low_level.llama_sampler_chain_n(chain.sampler) == 1


def test_overlapping_blocks_of_threads_end_with_the_last(clean: list[Any]) -> None:
    first, second = llgx.install(), llgx.install(jump_forward=True)
    first.__enter__()
    second.__enter__()
    inside = state()
    first.__exit__(None, None, None)
    assert state() == inside
    second.__exit__(None, None, None)
    assert state() == clean


def test_a_block_that_begins_when_another_has_just_ended(clean: list[Any]) -> None:
    first, second = llgx.install(), llgx.install(jump_forward=True)
    with first:
        pass
    assert state() == clean
    with second:
        assert state() != clean
        assert hooks.jump_by_default(True)
    assert state() == clean


def test_blocks_in_which_it_was_uninstalled_bring_nothing_back(clean: list[Any]) -> None:
    """The inner one set that grammars jump forward, as they had in the outer one."""
    with llgx.install(jump_forward=True), llgx.install(), llgx.install(jump_forward=True):
        llgx.uninstall()
        assert state() == clean
    assert state() == clean
    assert not hooks.jump_by_default(False)


def test_an_installation_that_is_not_entered_is_given_back(clean: list[Any]) -> None:
    with contextlib.ExitStack() as stack:
        stack.push(llgx.install())
        assert state() != clean
    assert state() == clean


def test_threads_install_at_once(clean: list[Any]) -> None:
    threads = [threading.Thread(target=llgx.install) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert state() != clean
    llgx.uninstall()


@pytest.mark.parametrize(
    ("owner", "name", "changed"),
    [
        (llama_grammar, "JSON_GBNF", None),
        (llama_grammar, "json_schema_to_gbnf", lambda text: text),
        (llama_cpp.Llama, "create_chat_completion", lambda self, messages: None),
        (_internals.LlamaSampler, "add_grammar", lambda self, grammar: None),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_unknown_version_is_refused(
    clean: list[Any], owner: Any, name: str, changed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, changed)
        patch.setattr(install, "_patches", None)
        patch.setattr(hooks, "_patches", None)
        before = state()
        with pytest.raises(llgx.LlgxError, match=rf"not known.*{name}.*Nothing was changed"):
            llgx.install()
        assert state() == before


def test_a_version_that_cannot_jump_forward_says_so(
    llm: llama_cpp.Llama, clean: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As llama-cpp-python 0.3.8, whose sampler chains take no token."""
    monkeypatch.delattr(_internals.LlamaSampler, "accept")
    with pytest.raises(llgx.LlgxError, match=r"LlamaSampler\.accept.*jump_forward=False"):
        llgx.install(jump_forward=True)
    assert state() == clean
    with pytest.raises(llgx.LlgxError, match=r"LlamaSampler\.accept"):
        llgx.generate(llm, "x", ["yes", "no"])
    assert llgx.generate(llm, "x", ["yes", "no"], jump_forward=False).value in ("yes", "no")
    with llgx.install():
        pass
    hooks.remove_hook()  # of the grammar that generate() made


def test_what_fails_halfway_is_undone(clean: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    class Frozen(type):
        def __setattr__(cls, name: str, value: Any) -> None:
            raise RuntimeError("frozen")

    class Llama(llama_cpp.Llama, metaclass=Frozen):
        pass

    with monkeypatch.context() as patch:
        patch.setattr(install, "_patches", None)
        patch.setattr(llama_cpp, "Llama", Llama)
        with pytest.raises(RuntimeError, match="frozen"):
            llgx.install()
    assert state() == clean
