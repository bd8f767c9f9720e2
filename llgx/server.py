"""The server of llama-cpp-python with llgx in it: ``python -m llgx.server --model model.gguf``.

It takes the same options as ``python -m llama_cpp.server`` and serves the same API. What llgx adds:

* ``grammar`` may be ``%llguidance`` text; other text stays GBNF, on llama.cpp's own engine.
* ``response_format`` may be ``json_object``, with a ``schema`` or without, or OpenAI's
  ``json_schema``; ``tools`` are followed (:func:`llgx.install`).
* A grammar or schema that is malformed, not supported or too large is HTTP 400 with the reason, in
  OpenAI's form, also where the response is a stream: it is read before the response begins.
* Any other request that is malformed is HTTP 400 too, with the place in it and what belongs there.
* ``parallel_tool_calls=False`` allows one call at most.
* An error in the middle of a stream is its last event, ``{"error": …}``, which OpenAI's clients
  raise.

Jump-forward is on unless ``LLGX_JUMP_FORWARD=0`` is set in the environment.

:func:`create_app` is the application for other servers: ``uvicorn --factory
llgx.server:create_app``. Import this module before ``llama_cpp.server``, whose request types are
fixed when that is imported.

Cost: a grammar is read once more for each request, unless it is one of the last 64.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal, get_type_hints

from typing_extensions import NotRequired, TypedDict

from llgx.errors import GrammarError, LlgxError
from llgx.forks import guarded
from llgx.grammar import Grammar
from llgx.llama.gbnf_guard import check_gbnf, refused_by_llama_cpp
from llgx.llama.hooks import grammar_of, is_llgx_text
from llgx.llama.schemas import dump, schema_text
from llgx.llama.tools import check_tools, chosen_schema
from llgx.vocabulary import Vocabulary

__all__ = ["create_app", "main"]

_ENDPOINTS: Final = ("create_completion", "create_chat_completion")

_FAULTS_SHOWN: Final = 4

_lock = guarded(threading.Lock())


def main() -> None:
    """Serve, as ``python -m llama_cpp.server`` does, with its options and environment."""
    _prepare()
    from llama_cpp.server import __main__ as server

    server.main()  # type: ignore[no-untyped-call]


def create_app(*arguments: Any, **options: Any) -> Any:
    """``llama_cpp.server.app.create_app`` with llgx in it. Same arguments."""
    _prepare()
    from llama_cpp.server import app

    return app.create_app(*arguments, **options)


def _prepare() -> None:
    """Install llgx in llama-cpp-python and in its server. Once."""
    import llgx

    with _lock:
        llgx.install(jump_forward=os.environ.get("LLGX_JUMP_FORWARD", "1") != "0")
        _widen_requests()
        from llama_cpp.server import app as module

        app: Any = module
        if getattr(app, "_llgx", False):
            return
        for route in app.router.routes:
            endpoint: Any = getattr(route, "endpoint", None)
            if getattr(endpoint, "__name__", "") in _ENDPOINTS:
                route.endpoint = _checked(app, endpoint)
        app.get_event_publisher = _reporting(app.get_event_publisher)
        handler = app.RouteErrorHandler
        handler.error_message_wrapper = _explaining(handler.error_message_wrapper)
        app._llgx = True


class JSONSchemaOfResponse(TypedDict):
    """OpenAI's ``json_schema`` in a ``response_format``."""

    name: NotRequired[str]
    description: NotRequired[str | None]
    schema: NotRequired[dict[str, Any] | bool | None]
    strict: NotRequired[bool | None]


class ResponseFormat(TypedDict):
    """``response_format`` of a chat request: llama-cpp-python's, and OpenAI's ``json_schema``."""

    type: Literal["text", "json_object", "json_schema"]
    schema: NotRequired[dict[str, Any] | bool | None]
    json_schema: NotRequired[JSONSchemaOfResponse]


def _widen_requests() -> None:
    """Let requests hold ``{"type": "json_schema", …}`` and ``parallel_tool_calls``."""
    import llama_cpp
    import pydantic

    name = "ChatCompletionRequestResponseFormat"
    if getattr(llama_cpp, name) is ResponseFormat:
        return
    if "llama_cpp.server.types" in sys.modules:
        raise ImportError("import llgx.server before llama_cpp.server, whose types are made then")
    # The name that the annotation of the request type is looked up by.
    setattr(llama_cpp, name, ResponseFormat)
    from llama_cpp.server import types as module

    types: Any = module
    types.CreateChatCompletionRequest = pydantic.create_model(
        "CreateChatCompletionRequest",
        __base__=types.CreateChatCompletionRequest,
        parallel_tool_calls=(bool | None, None),
    )


# ------------------------------------------------------------------------------ before the response


def _checked(app: Any, endpoint: Callable[..., Any]) -> Callable[..., Any]:
    """``endpoint``, which answers with HTTP 400 where the request's constraint is faulty."""

    @functools.wraps(endpoint)
    async def checked(request: Any, body: Any) -> Any:
        from starlette.concurrency import run_in_threadpool
        from starlette.responses import JSONResponse

        refusal = await run_in_threadpool(_refusal, app, body)
        if refusal is not None:
            return JSONResponse({"error": refusal}, status_code=400)
        try:
            return await endpoint(request, body)
        except LlgxError as error:
            # What only the model's vocabulary could tell, of a model that was not loaded before.
            if isinstance(error, ValueError):
                return JSONResponse({"error": _error_of(error, None)}, status_code=400)
            raise

    # FastAPI reads the parameters off the signature and looks its names up in this module.
    hints = get_type_hints(endpoint)
    signature = inspect.signature(endpoint)
    checked.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[
            parameter.replace(annotation=hints.get(name, parameter.annotation))
            for name, parameter in signature.parameters.items()
        ],
        return_annotation=hints.get("return", signature.return_annotation),
    )
    del checked.__wrapped__
    return checked


def _refusal(app: Any, body: Any) -> dict[str, Any] | None:
    """What is wrong with the constraint in a request, as an error object of OpenAI's."""
    for parameter, read in _constraints(body):
        try:
            grammar = read()
            llm = _model(app)
            if isinstance(grammar, str):
                _check_gbnf(llm, grammar)
            elif grammar is not None and llm is not None:
                grammar.compile(Vocabulary.from_llama(llm))
        except (LlgxError, TypeError, ValueError) as error:
            return _error_of(error, parameter)
    return None


def _constraints(body: Any) -> Iterator[tuple[str, Callable[[], Grammar | str | None]]]:
    """The constraints in a request: the parameter, and how its grammar is read."""
    if body.grammar is not None:
        text = body.grammar
        yield "grammar", lambda: grammar_of(text) if is_llgx_text(text) else text
    wanted = getattr(body, "response_format", None) or {}
    schema: Any = None
    if wanted.get("type") == "json_object":
        schema = wanted.get("schema")
    elif wanted.get("type") == "json_schema":
        described = wanted.get("json_schema")
        yield "response_format", functools.partial(_check_described, described)
        schema = described.get("schema") if isinstance(described, Mapping) else None
    if schema is not None:
        yield "response_format", functools.partial(_schema, schema)
    tools = getattr(body, "tools", None)
    choice = getattr(body, "tool_choice", None)
    if isinstance(choice, Mapping):
        yield "tool_choice", functools.partial(_check_choice, tools, choice)
    elif tools and choice in (None, "auto", "required"):
        yield "tools", functools.partial(check_tools, tools)
    for name, parameters in _functions(body):
        if parameters is not None:
            yield f"tools ({name})", functools.partial(_schema, parameters)


def _functions(body: Any) -> Iterator[tuple[str, Any]]:
    for tool in getattr(body, "tools", None) or ():
        function = tool.get("function") or {}
        yield function.get("name", ""), function.get("parameters")
    for function in getattr(body, "functions", None) or ():
        yield function.get("name", ""), function.get("parameters")


def _check_choice(tools: Any, choice: Mapping[str, Any]) -> None:
    chosen_schema(tools or (), choice)


def _check_described(described: Any) -> None:
    if not isinstance(described, Mapping) or described.get("schema") is None:
        raise GrammarError('a response_format of type "json_schema" needs json_schema.schema')


def _schema(schema: Any) -> Grammar:
    # As the generation will look it up.
    return grammar_of(schema_text(dump(schema)))


def _model(app: Any) -> Any:
    """The model, if there is but one. Of several, another request may close the one at hand: their
    vocabularies are left for when it is this one's turn."""
    proxy = app._llama_proxy
    return proxy._current_model if proxy and len(proxy._model_settings_dict) == 1 else None


def _check_gbnf(llm: Any, text: str) -> None:
    """Raise :class:`GrammarError` where llama.cpp cannot read ``text``."""
    import llama_cpp

    check_gbnf(text, None if llm is None else llama_cpp.llama_vocab_n_tokens(llm._model.vocab))
    if llm is None:
        return
    sampler = llama_cpp.llama_sampler_init_grammar(llm._model.vocab, text.encode(), b"root")
    if not sampler:
        raise refused_by_llama_cpp(text)
    llama_cpp.llama_sampler_free(sampler)


def _error_of(error: Exception, parameter: str | None) -> dict[str, Any]:
    return {
        "message": str(error),
        "type": "invalid_request_error",
        "param": parameter,
        "code": "invalid_grammar",
    }


def _explaining(wrapper: Callable[..., Any]) -> Callable[..., Any]:
    """``error_message_wrapper``, for which a malformed request is the client's fault."""

    @functools.wraps(wrapper)
    def error_message_wrapper(self: Any, error: Exception, body: Any = None) -> Any:
        from fastapi.exceptions import RequestValidationError

        if not isinstance(error, RequestValidationError):
            return wrapper(self, error, body)
        faults = list(error.errors())
        places = [[str(step) for step in fault["loc"][1:]] for fault in faults]
        return 400, {
            "message": "; ".join(
                f"{'.'.join(place) or 'the request'}: {fault['msg']}"
                for place, fault in zip(places[:_FAULTS_SHOWN], faults, strict=False)
            ),
            "type": "invalid_request_error",
            "param": places[0][0] if places and places[0] else None,
            "code": None,
        }

    return error_message_wrapper


# ------------------------------------------------------------------------------ after its beginning


def _reporting(publisher: Callable[..., Any]) -> Callable[..., Any]:
    """``get_event_publisher``, whose streams end with an error event where generation fails."""

    @functools.wraps(publisher)
    async def reporting(*arguments: Any, llama_call: Callable[..., Any], **options: Any) -> None:
        await publisher(*arguments, llama_call=functools.partial(_events, llama_call), **options)

    return reporting


def _events(llama_call: Callable[..., Any], llm: Any, **options: Any) -> Iterator[Any]:
    try:
        yield from llama_call(llm, **options)
    except Exception as error:
        print(f"Exception in a stream: {error}", file=sys.stderr)
        is_faulty = isinstance(error, LlgxError) and isinstance(error, ValueError)
        yield {
            "error": {
                "message": str(error),
                "type": "invalid_request_error" if is_faulty else "internal_server_error",
                "param": None,
                "code": None,
            }
        }


if __name__ == "__main__":
    main()
