"""``llgx.install()``: llgx wherever llama-cpp-python constrains its output.

What is replaced, and what goes through it:

=========================================  =======================================================
``LlamaSampler.add_grammar``               ``grammar=`` (see :mod:`llgx.llama.hooks`)
``llama_cpp.llama_sampler_init_grammar``   ``%llguidance`` in sampler chains made by hand
``llama_grammar.json_schema_to_gbnf``      ``LlamaGrammar.from_json_schema``, ``response_format``,
                                           ``tool_choice`` of a function, functionary, multimodal
``llama_grammar.JSON_GBNF``                JSON without a schema
``LlamaGrammar.__init__``                  grammars that outlive the installation
``Llama.generate``                         jump-forward (see :mod:`llgx.llama.jump`)
``Llama.create_chat_completion``           ``response_format`` of type ``json_schema``, tools with
                                           "auto" and "required" (see :mod:`llgx.llama.tools`)
=========================================  =======================================================

The conversion of a schema cannot fail: it gives the text of a grammar for llgx with the schema in
it, which is compiled where no handler of llama-cpp-python swallows errors and goes on with "any
JSON": before the chat begins, and when the sampler chain is made.

llama.cpp crashes on text that is for llgx. Where a grammar of llama-cpp-python is made with such
text, the hook on ``grammar=`` therefore stays in place, as it does for those of llgx: a stream that
was begun in a ``with`` block makes its sampler chain when it is first asked for a piece.

Invariant: either all of it is in place or nothing. GBNF goes to llama.cpp as before.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from llgx.arguments import check_flag
from llgx.errors import GrammarError
from llgx.forks import guarded
from llgx.llama import tools
from llgx.llama.binding import compiled_for, vocabulary_with_end
from llgx.llama.hooks import (
    add_hook,
    grammar_of,
    is_llgx_text,
    jump_by_default,
    refuse_unknown,
    remove_hook,
    sampler_for,
    unknown_internals,
)
from llgx.llama.jump import refuse_unknown_host
from llgx.llama.patching import Patches
from llgx.llama.schemas import JSON_OBJECT, described_schema, dump, schema_text

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Installation", "install", "uninstall"]

_USER: Final = "install"
_GRAMMARS: Final = "LlamaGrammar"
_CHAT_PARAMETERS: Final = {
    "messages", "functions", "function_call", "tools", "tool_choice", "response_format", "grammar",
    "stream",
}  # fmt: skip

_lock = guarded(threading.RLock())
_patches: Patches | None = None
_blocks = 0  # ``with`` blocks that have not ended
_ends_with_blocks = False  # whether one of them began the installation


def install(*, jump_forward: bool = False) -> Installation:
    """Let llgx do all constraining of llama-cpp-python in this process.

    Grammars of llgx then work in every ``grammar=``, JSON schemas in ``response_format`` and
    ``tools`` are enforced in full, and errors in them are raised. As a context manager the result
    takes it back at the end of the block, unless it had been in place before::

        with llgx.install():
            llm.create_chat_completion(messages, response_format={"type": "json_schema", ...})

    Where blocks of several threads overlap, that is the end of the last one.

    With ``jump_forward`` text that a grammar forces is evaluated at once (:mod:`llgx.llama.jump`),
    for all grammars of llgx that do not say otherwise.

    Idempotent and safe to call from several threads; the last call says whether to jump. Raises
    ``ImportError`` without llama-cpp-python 0.3.8 or later, and :class:`LlgxError` for a version
    that has changed where llgx takes hold; nothing is changed then.
    """
    global _patches
    check_flag(jump_forward, "jump_forward")
    if jump_forward:
        refuse_unknown_host()
    with _lock:
        if _patches is None:
            _patches = _make_patches()
        was_active = _patches.is_active
        add_hook(_USER)
        try:
            _patches.apply()
        except BaseException:
            remove_hook(_USER)
            raise
        jumped = jump_by_default(jump_forward)
        return Installation(is_first=not was_active, jumps=jump_forward, jumped=jumped)


def uninstall() -> None:
    """Take back what :func:`install` did. Grammars that were made keep working.

    For them the hook on ``grammar=`` stays in place: for a :class:`LlamaGrammar` of llgx, and for
    one of llama-cpp-python whose text is for llgx, as ``response_format`` makes them.
    """
    global _ends_with_blocks
    with _lock:
        _ends_with_blocks = False
        if _patches is not None:
            _patches.undo()
        jump_by_default(False)
        remove_hook(_USER)


class Installation:
    """What :func:`install` returns; a context manager that takes the installation back."""

    __slots__ = ("_entered", "_is_first", "_jumped", "_jumps")

    def __init__(self, *, is_first: bool, jumps: bool, jumped: bool) -> None:
        self._is_first = is_first
        self._jumps = jumps
        self._jumped = jumped  # before
        self._entered = 0

    def __enter__(self) -> Self:
        global _blocks, _ends_with_blocks
        with _lock:
            self._entered += 1
            _blocks += 1
            # Another thread's block may have ended, and taken all back, since it was made.
            if _patches is not None and not _patches.is_active:
                add_hook(_USER)
                _patches.apply()
                jump_by_default(self._jumps)
                _ends_with_blocks = True
            elif self._is_first:
                _ends_with_blocks = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        global _blocks, _ends_with_blocks
        with _lock:
            if self._entered:
                self._entered -= 1
                _blocks -= 1
            elif self._is_first:  # ExitStack.push does not enter
                _ends_with_blocks = True
            if _blocks == 0 and _ends_with_blocks:
                uninstall()
            # Where uninstall() was called in the block there is nothing to go back to.
            elif not self._is_first and _patches is not None and _patches.is_active:
                jump_by_default(self._jumped)


def _make_patches() -> Patches:
    try:
        import llama_cpp
        from llama_cpp import Llama, llama_grammar
        from llama_cpp import llama_cpp as low_level
    except ImportError as error:
        raise ImportError(
            "llgx.install needs llama-cpp-python 0.3.8 or later: pip install llama-cpp-python"
        ) from error

    problems = unknown_internals()
    convert = getattr(llama_grammar, "json_schema_to_gbnf", None)
    if convert is None or next(iter(inspect.signature(convert).parameters), "") != "schema":
        problems.append("llama_grammar.json_schema_to_gbnf(schema)")
    if not isinstance(getattr(llama_grammar, "JSON_GBNF", None), str):
        problems.append("llama_grammar.JSON_GBNF")
    chat = getattr(Llama, "create_chat_completion", None)
    missing = _CHAT_PARAMETERS - set(inspect.signature(chat).parameters) if chat else {"itself"}
    if missing:
        problems.append(f"Llama.create_chat_completion ({', '.join(sorted(missing))})")
    refuse_unknown(problems)

    patches = Patches()
    for module in (low_level, llama_cpp):
        patches.plan(module, "llama_sampler_init_grammar", functools.partial(_init, patches))
    patches.plan(llama_grammar, "json_schema_to_gbnf", _convert)
    patches.plan(llama_grammar, "JSON_GBNF", lambda original: JSON_OBJECT)
    patches.plan(llama_grammar.LlamaGrammar, "__init__", _keeping)
    patches.plan(Llama, "create_chat_completion", functools.partial(_chat, patches))
    return patches


# --------------------------------------------------------------------------- replacements


def _init(patches: Patches, original: Callable[..., Any]) -> Callable[..., Any]:
    def llama_sampler_init_grammar(vocab: Any, grammar_str: Any, grammar_root: Any, /) -> Any:
        text = grammar_str.decode("utf-8") if isinstance(grammar_str, bytes) else ""
        if not patches.is_active or not is_llgx_text(text):
            return original(vocab, grammar_str, grammar_root)
        constraint = sampler_for(vocab, text)
        assert constraint is not None
        return constraint.release()

    return llama_sampler_init_grammar


def _convert(original: Callable[..., str]) -> Callable[..., str]:
    @functools.wraps(original)
    def json_schema_to_gbnf(schema: str, prop_order: list[str] | None = None) -> str:
        return original(schema, prop_order) if prop_order else schema_text(schema)

    return json_schema_to_gbnf


def _keeping(original: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(original)
    def __init__(self: Any, *arguments: Any, **options: Any) -> None:
        original(self, *arguments, **options)
        text = getattr(self, "_grammar", None)
        if isinstance(text, str) and is_llgx_text(text):
            add_hook(_GRAMMARS)

    return __init__


def _chat(patches: Patches, original: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def create_chat_completion(*arguments: Any, **options: Any) -> Any:
        if not patches.is_active:
            return original(*arguments, **options)
        # Of OpenAI's API, and unknown to llama-cpp-python.
        parallel = options.pop("parallel_tool_calls", None)
        if parallel is not None and not isinstance(parallel, bool):
            raise GrammarError(f"parallel_tool_calls is a bool, not {parallel!r}")
        call = signature.bind(*arguments, **options)
        request = call.arguments
        llm = request["self"]
        _check_response_format(llm, request)
        choice = request.get("tool_choice")
        wanted = request.get("tools")
        if not wanted or choice == "none":
            return original(*call.args, **call.kwargs)
        request["tools"] = wanted = tools.described_tools(wanted)
        if isinstance(choice, Mapping):
            request["tools"] = tools.with_parameters(wanted)
            tools.check_chosen(llm, request["tools"], choice)
            return tools.marked_where_cut(original(*call.args, **call.kwargs))
        if choice not in (None, "auto", "required"):
            raise GrammarError(
                f'tool_choice is "none", "auto", "required" or a function, not {choice!r}'
            )
        constrained = request.get("grammar") is not None or _wants_json(request)
        if constrained and choice is None:
            return original(*call.args, **call.kwargs)
        if tools.has_own_tools(llm):
            if choice == "required" and llm.chat_format == "chatml-function-calling":
                raise GrammarError(
                    "the chat format chatml-function-calling knows tool_choice as a function or "
                    '"auto", not "required"'
                )
            return tools.marked_where_cut(original(*call.args, **call.kwargs))
        if constrained and choice == "auto":
            raise GrammarError(
                'tool_choice="auto" allows text or calls, and grammar= or response_format asks for '
                "a text of another form: give one of them"
            )
        plan = tools.plan_calls(
            llm, wanted, is_required=choice == "required", is_single=parallel is False
        )
        request["grammar"] = plan.grammar
        request["messages"] = plan.described(request["messages"])
        request.pop("response_format", None)
        return plan.converted(original(*call.args, **call.kwargs))

    return create_chat_completion


def _wants_json(request: Mapping[str, Any]) -> bool:
    response_format = request.get("response_format")
    return response_format is not None and response_format["type"] != "text"


def _wrapped(given: object) -> str:
    """How a type is wanted, where ``given`` is one; else ""."""
    if not isinstance(given, type):
        return ""
    return f': {{"type": "json_object", "schema": {given.__name__}}} asks for one'


def _check_response_format(llm: Any, request: dict[str, Any]) -> None:
    """Bring ``response_format`` into the form that handlers know, and compile what is in it."""
    response_format = request.get("response_format")
    if response_format is None:
        return
    kind = response_format.get("type") if isinstance(response_format, Mapping) else None
    if kind == "text":
        return
    if kind == "json_schema":
        described = response_format.get("json_schema")
        if not isinstance(described, Mapping) or "schema" not in described:
            raise GrammarError('response_format: "json_schema" has to hold a "schema"')
        response_format = {"type": "json_object", "schema": described["schema"]}
        request["response_format"] = response_format
    elif kind != "json_object":
        raise GrammarError(
            'response_format has the type "text", "json_object" or "json_schema", not '
            f"{kind if kind is not None else response_format!r}{_wrapped(response_format)}"
        )
    schema = response_format.get("schema")
    if schema is None:
        request["response_format"] = {"type": "json_object"}
        text = JSON_OBJECT
    else:
        request["response_format"] = {"type": "json_object", "schema": described_schema(schema)}
        text = schema_text(dump(request["response_format"]["schema"]))
    compiled_for(grammar_of(text), vocabulary_with_end(llm))
