"""``python -m llgx.server``: the real server on loopback, a real model, and OpenAI's client."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

openai = pytest.importorskip("openai")
pytest.importorskip("fastapi")
SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 12},
        "population": {"type": "integer", "minimum": 0, "maximum": 99999999},
        "capital": {"type": "boolean"},
    },
    "required": ["city", "population", "capital"],
    "additionalProperties": False,
}
BAD_SCHEMA = {"type": "object", "properties": {"x": {"type": "strin"}}}
LARK = '%llguidance {}\nstart: /[0-9]{3}/ "-" /[a-z]{2}/\n'
MESSAGES: Any = [{"role": "user", "content": "Tell me about Paris."}]
TOOL: Any = {
    "type": "function",
    "function": {"name": "look_up", "description": "Look a city up.", "parameters": SCHEMA},
}


def json_schema(schema: Any, **more: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "city", "schema": schema, **more}}


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture(scope="module")
def address(gemma_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server at work; its output is shown where it does not start."""
    port = free_port()
    log = tmp_path_factory.mktemp("server") / "log.txt"
    root = str(Path(__file__).parents[1])
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    with log.open("wb") as output:
        server = subprocess.Popen(
            [
                *(sys.executable, "-m", "llgx.server", "--model", str(gemma_path)),
                *("--host", "127.0.0.1", "--port", str(port), "--n_ctx", "512"),
                *("--n_threads", "1", "--n_threads_batch", "1", "--verbose", "False"),
            ],
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": path},
        )
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            if server.poll() is not None:
                pytest.fail(f"the server ended:\n{log.read_text()}", pytrace=False)
            try:
                urllib.request.urlopen(f"{url}/v1/models", timeout=5).close()
                break
            except OSError:
                time.sleep(0.2)
        else:
            pytest.fail(f"the server does not answer:\n{log.read_text()}", pytrace=False)
        yield url
        assert server.poll() is None, log.read_text()
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


@pytest.fixture(scope="module")
def client(address: str) -> Iterator[Any]:
    with openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0, timeout=120) as it:
        yield it


def chat(client: Any, **options: Any) -> Any:
    options = {"temperature": 0, "max_tokens": 80, "messages": MESSAGES, **options}
    return client.chat.completions.create(model="gemma", **options)


def streamed(chunks: Any) -> str:
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks)


# --- What is followed -----------------------------------------------------------------------------


def test_a_lark_grammar_in_a_completion(client: Any) -> None:
    done = client.completions.create(
        model="gemma", prompt="Code: ", max_tokens=20, temperature=0, extra_body={"grammar": LARK}
    )
    assert re.fullmatch(r"[0-9]{3}-[a-z]{2}", done.choices[0].text)
    assert done.choices[0].finish_reason == "stop"


def test_a_lark_grammar_in_a_streamed_completion(client: Any) -> None:
    chunks = client.completions.create(
        model="gemma",
        prompt="Code: ",
        max_tokens=20,
        temperature=0,
        stream=True,
        extra_body={"grammar": LARK},
    )
    text = "".join(chunk.choices[0].text for chunk in chunks)
    assert re.fullmatch(r"[0-9]{3}-[a-z]{2}", text)


def test_gbnf_stays_gbnf(client: Any) -> None:
    done = chat(client, extra_body={"grammar": 'root ::= "ab" [c-e]{3}'})
    assert re.fullmatch("ab[c-e]{3}", done.choices[0].message.content)


@pytest.mark.parametrize("stream", [False, True])
def test_json_schema(client: Any, stream: bool) -> None:
    for extra in ({}, {"strict": True, "description": "a city"}):
        done = chat(client, response_format=json_schema(SCHEMA, **extra), stream=stream)
        text = streamed(done) if stream else done.choices[0].message.content
        jsonschema.validate(json.loads(text), SCHEMA)


@pytest.mark.parametrize("stream", [False, True])
def test_json_object(client: Any, stream: bool) -> None:
    wanted = {"type": "json_object", "schema": SCHEMA}
    done = chat(client, extra_body={"response_format": wanted}, stream=stream)
    text = streamed(done) if stream else done.choices[0].message.content
    jsonschema.validate(json.loads(text), SCHEMA)


def test_json_object_without_a_schema(client: Any) -> None:
    done = chat(client, response_format={"type": "json_object"}, max_tokens=200)
    content = done.choices[0].message.content
    assert content.startswith("{")
    if done.choices[0].finish_reason == "stop":
        assert isinstance(json.loads(content), dict)


def test_text_leaves_a_grammar_alone(client: Any) -> None:
    done = chat(client, response_format={"type": "text"}, extra_body={"grammar": LARK})
    assert re.fullmatch(r"[0-9]{3}-[a-z]{2}", done.choices[0].message.content)


def test_the_parse_helper_of_the_client(client: Any) -> None:
    pydantic = pytest.importorskip("pydantic")
    City = pydantic.create_model(
        "City", city=(str, pydantic.Field(max_length=12)), capital=(bool, ...)
    )
    done = client.chat.completions.parse(
        model="gemma", messages=MESSAGES, response_format=City, temperature=0, max_tokens=60
    )
    assert isinstance(done.choices[0].message.parsed, City)


@pytest.mark.parametrize(
    "choice", ["required", {"type": "function", "function": {"name": "look_up"}}]
)
def test_tools(client: Any, choice: Any) -> None:
    done = chat(client, tools=[TOOL], tool_choice=choice, max_tokens=300)
    assert done.choices[0].message.tool_calls
    for call in done.choices[0].message.tool_calls:
        assert call.function.name == "look_up"
        jsonschema.validate(json.loads(call.function.arguments), SCHEMA)


# --- What is refused ------------------------------------------------------------------------------

FAULTY: Any = [
    ({"extra_body": {"grammar": "%llguidance {}\nstart: (\n"}}, "grammar", "line 2"),
    ({"extra_body": {"grammar": "%llguidance {}\nstart: nowhere\n"}}, "grammar", "nowhere"),
    ({"extra_body": {"grammar": 'root ::= "a'}}, "grammar", "line 1"),
    ({"extra_body": {"grammar": 'root ::= root "a" | "b"'}}, "grammar", "recursive"),
    ({"response_format": json_schema(BAD_SCHEMA)}, "response_format", "/properties/x"),
    ({"response_format": json_schema({"enum": []})}, "response_format", "enum"),
    ({"response_format": {"type": "json_schema"}}, "response_format", "json_schema.schema"),
    (
        {"extra_body": {"response_format": {"type": "json_object", "schema": BAD_SCHEMA}}},
        "response_format",
        "strin",
    ),
    (
        {
            "tools": [{"type": "function", "function": {"name": "f", "parameters": BAD_SCHEMA}}],
            "tool_choice": "required",
        },
        "tools (f)",
        "strin",
    ),
    (
        {"tools": 2 * [{"type": "function", "function": {"name": "f", "parameters": {}}}]},
        "tools",
        "two tools",
    ),
    (
        {
            "tools": [
                {"type": "function", "function": {"name": "f", "parameters": {"type": "string"}}}
            ]
        },
        "tools",
        "arguments are an object",
    ),
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("options", "parameter", "message"), FAULTY)
def test_faulty_constraints_are_400(
    client: Any, options: dict[str, Any], parameter: str, message: str, stream: bool
) -> None:
    with pytest.raises(openai.BadRequestError, match=re.escape(message)) as raised:
        chat(client, stream=stream, **options)
    assert raised.value.status_code == 400
    assert raised.value.param == parameter
    assert raised.value.type == "invalid_request_error"
    assert raised.value.code == "invalid_grammar"


@pytest.mark.parametrize("stream", [False, True])
def test_faulty_grammars_of_completions_are_400(client: Any, stream: bool) -> None:
    with pytest.raises(openai.BadRequestError, match="line 2"):
        client.completions.create(
            model="gemma",
            prompt="x",
            stream=stream,
            extra_body={"grammar": "%llguidance {}\nstart: )\n"},
        )


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("options", "parameter", "message"),
    [
        (
            {"response_format": {"type": "grammar"}},
            "response_format",
            "response_format.type: Input",
        ),
        ({"extra_body": {"grammar": 5}}, "grammar", "grammar: Input should be a valid string"),
        ({"tools": [TOOL], "tool_choice": "any"}, "tool_choice", "'auto' or 'required'"),
        (
            {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "x"}}},
            "tool_choice",
            "names 'x', and the tools are 'look_up'",
        ),
        ({"parallel_tool_calls": "never"}, "parallel_tool_calls", "valid boolean"),
        ({"messages": 5}, "messages", "messages: Input should be a valid list"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_malformed_requests_are_400(
    client: Any, options: dict[str, Any], parameter: str, message: str, stream: bool
) -> None:
    with pytest.raises(openai.BadRequestError, match=re.escape(message)) as raised:
        chat(client, stream=stream, **options)
    assert raised.value.param == parameter
    assert raised.value.type == "invalid_request_error"
    assert "site-packages" not in raised.value.message


def test_one_call_at_most(client: Any) -> None:
    done = chat(
        client, tools=[TOOL], tool_choice="required", parallel_tool_calls=False, max_tokens=300
    )
    assert done.choices[0].finish_reason == "tool_calls"
    assert len(done.choices[0].message.tool_calls) == 1


def test_a_bad_request_leaves_a_sound_server(client: Any) -> None:
    for options, _, _ in FAULTY[:3]:
        with pytest.raises(openai.BadRequestError):
            chat(client, **options)
    test_json_schema(client, False)


def test_other_faults_stay_what_they_were(client: Any) -> None:
    with pytest.raises(openai.BadRequestError, match="maximum context length"):
        chat(client, messages=[{"role": "user", "content": "x " * 600}])


def test_an_error_in_a_stream_is_its_last_event(client: Any) -> None:
    """The prompt is longer than the context, which is found out after the response has begun."""
    chunks = chat(client, messages=[{"role": "user", "content": "x " * 600}], stream=True)
    with pytest.raises(openai.APIError, match="exceed context window"):
        list(chunks)


def test_requests_side_by_side(client: Any) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def one(number: int) -> str:
        grammar = f"%llguidance {{}}\nstart: /{number}[a-z]{{2}}/\n"
        done = chat(client, extra_body={"grammar": grammar}, max_tokens=12)
        return str(done.choices[0].message.content)

    with ThreadPoolExecutor(4) as pool:
        for number, text in enumerate(pool.map(one, range(6))):
            assert re.fullmatch(f"{number}[a-z]{{2}}", text)


def test_import_after_the_server_is_refused() -> None:
    code = (
        "import llama_cpp.server.app, llgx.server\n"
        "try:\n    llgx.server.create_app()\nexcept ImportError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        cwd=Path(__file__).parents[1],
    )
    assert "import llgx.server before llama_cpp.server" in done.stdout
