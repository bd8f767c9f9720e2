"""Tools with ``tool_choice`` "auto" and "required" in any chat format of llama-cpp-python.

llama-cpp-python gives the tools to the chat template and otherwise ignores these two choices. Here
the text is constrained to the way in which the model writes calls, and read back into the
``tool_calls`` of a message or of the chunks of a stream.

Two ways of writing are known, told apart by the chat template: calls between ``<tool_call>`` marks
(Hermes, Qwen and many more; also used where the template knows no tools), any number of them and
free text around, and one JSON object in place of the text (Llama 3). Where the template knows no
tools, a system message describes them.

Invariant: a call that was read has a name from ``tools`` and arguments that its schema allows. One
that was cut off is text in a message; in a stream, whose pieces are out by then, and in a message
too, the finish reason says that something is missing. Cost: reading is linear in the text.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from llgx.errors import GrammarError, LimitError, SchemaError
from llgx.grammar import Grammar
from llgx.llama.binding import compiled_for, vocabulary_with_end
from llgx.llama.hooks import grammar_of
from llgx.llama.schemas import WHITESPACE, described_schema, dump, schema_text
from llgx.structural_tag import StructuralTag
from llgx.token_sets import special_names
from llgx.vocabulary import Vocabulary

__all__ = [
    "Plan",
    "check_chosen",
    "check_tools",
    "chosen_schema",
    "described_tools",
    "has_own_tools",
    "marked_where_cut",
    "plan_calls",
    "with_parameters",
]

# Their handlers know "auto" and "required" themselves.
_OWN_TOOLS: Final = frozenset(
    {"functionary", "functionary-v1", "functionary-v2", "chatml-function-calling"}
)

_NO_PARAMETERS: Final = {"type": "object", "properties": {}, "additionalProperties": False}


@dataclasses.dataclass(frozen=True)
class Format:
    """How a model writes calls: ``begin`` (with the name in place of NAME), arguments, ``end``."""

    mark: str
    begin: str
    end: str
    is_whole: bool
    example: str


_MARKED: Final = Format(
    mark="<tool_call>",
    begin='<tool_call>\n{"name": NAME, "arguments": ',
    end="}\n</tool_call>",
    is_whole=False,
    example='<tool_call>\n{"name": <name>, "arguments": <JSON object>}\n</tool_call>',
)
_WHOLE: Final = Format(
    mark="",
    begin='{"name": NAME, "parameters": ',
    end="}",
    is_whole=True,
    example='{"name": <name>, "parameters": <JSON object>}',
)


def check_chosen(llm: Any, tools: Sequence[Any], choice: Mapping[str, Any]) -> None:
    """Compile the schema of the function that ``tool_choice`` names.

    Raises :class:`GrammarError` if that is none of ``tools``.
    """
    schema = chosen_schema(tools, choice)
    compiled_for(grammar_of(schema_text(dump(schema))), vocabulary_with_end(llm))


def chosen_schema(tools: Sequence[Any], choice: Mapping[str, Any]) -> Any:
    """The schema of the arguments of the function that ``tool_choice`` names.

    Raises :class:`GrammarError` if that is none of ``tools``.
    """
    function = choice.get("function")
    chosen = function.get("name") if isinstance(function, Mapping) else None
    functions = dict(_functions(tools))
    if chosen not in functions:
        known = ", ".join(map(repr, functions))
        raise GrammarError(f"tool_choice names {chosen!r}, and the tools are {known:.200}")
    return functions[chosen]


def check_tools(tools: Sequence[Any]) -> None:
    """Raise :class:`GrammarError` or :class:`SchemaError` for what are no tools, two of one name
    included. Schemas are not compiled."""
    _functions(tools)


def with_parameters(tools: Sequence[Any]) -> list[Any]:
    """``tools`` with no parameters where they say nothing of any, which handlers do not expect."""
    result = []
    for tool in tools:
        function = tool.get("function") if isinstance(tool, Mapping) else None
        if isinstance(function, Mapping) and function.get("parameters") is None:
            tool = {**tool, "function": {**function, "parameters": _NO_PARAMETERS}}
        result.append(tool)
    return result


def described_tools(tools: Sequence[Any]) -> list[Any]:
    """``tools`` with the schemas of types where parameters are given as those."""
    result = []
    for tool in tools:
        function = tool.get("function") if isinstance(tool, Mapping) else None
        if isinstance(function, Mapping) and "parameters" in function:
            schema = described_schema(function["parameters"])
            tool = {**tool, "function": {**function, "parameters": schema}}
        result.append(tool)
    return result


def has_own_tools(llm: Any) -> bool:
    """Whether the chat format of ``llm`` knows "auto" and "required" itself."""
    return llm.chat_handler is None and llm.chat_format in _OWN_TOOLS


def marked_where_cut(response: Any) -> Any:
    """A chat completion of a handler that calls functions its own way, or its stream.

    Calls that were cut off do not pass for finished there: their text is content, and the finish
    reason "length".
    """
    if not isinstance(response, Mapping):
        return _marked_stream(iter(response))
    choices = []
    for choice in response["choices"]:
        message = dict(choice["message"])
        calls = message.get("tool_calls") or []
        cut = [call for call in calls if not _is_whole(call["function"]["arguments"])]
        if cut:
            message.pop("function_call", None)
            message["tool_calls"] = [call for call in calls if call not in cut]
            if not message["tool_calls"]:
                del message["tool_calls"]
            texts = [message.get("content") or "", *(c["function"]["arguments"] for c in cut)]
            message["content"] = "".join(texts)
            choice = {**choice, "message": message, "finish_reason": "length"}
        choices.append(choice)
    return {**response, "choices": choices}


def _marked_stream(chunks: Iterator[Any]) -> Iterator[Any]:
    arguments: dict[tuple[int, int], str] = {}
    for chunk in chunks:
        choices = []
        for choice in chunk["choices"]:
            for call in choice["delta"].get("tool_calls") or ():
                key = choice["index"], call["index"]
                part = (call.get("function") or {}).get("arguments") or ""
                arguments[key] = arguments.get(key, "") + part
            if choice["finish_reason"] in ("tool_calls", "function_call") and not all(
                _is_whole(text)
                for (index, _), text in arguments.items()
                if index == choice["index"]
            ):
                choice = {**choice, "finish_reason": "length"}
            choices.append(choice)
        yield {**chunk, "choices": choices}


def _is_whole(arguments: str) -> bool:
    try:
        json.loads(arguments)
    except ValueError:
        return False
    except RecursionError:
        return True
    return True


def plan_calls(
    llm: Any, tools: Sequence[Any], *, is_required: bool, is_single: bool = False
) -> Plan:
    """How calls of ``tools`` are asked for, constrained and read; one at most, if ``is_single``.

    Raises :class:`SchemaError` naming the function whose parameters cannot be enforced.
    """
    template = _template(llm)
    form = _MARKED
    if _MARKED.mark not in template and ("python_tag" in template or "llama-3" in template):
        form = _WHOLE
    vocabulary = vocabulary_with_end(llm)
    functions = _functions(tools)
    for name, schema in functions:
        try:
            Grammar.from_json_schema(schema)
        except SchemaError as error:
            raise SchemaError(
                f"function {name}: {error.message}", pointer=error.pointer, keyword=error.keyword
            ) from None
        except LimitError as error:
            raise LimitError(f"function {name}: {error.message}", limit=error.limit) from None
    grammar = _grammar(form, functions, vocabulary, is_required, is_single)
    compiled_for(grammar, vocabulary)
    note = "" if "tools" in template else _description(form, tools, is_required)
    return Plan(form, [name for name, _ in functions], grammar, note, is_required)


def _functions(tools: Sequence[Any]) -> list[tuple[str, Any]]:
    """Names of the functions and the schemas of their parameters."""
    found: dict[str, Any] = {}
    for tool in tools:
        function = tool.get("function") if isinstance(tool, Mapping) else None
        name = function.get("name") if isinstance(function, Mapping) else None
        if not isinstance(name, str) or not name:
            raise GrammarError(f"a tool has a function with a name: {tool!r}")
        if name in found:
            raise GrammarError(f"two tools have the name {name!r}")
        assert isinstance(function, Mapping)
        found[name] = _parameters(name, function.get("parameters"))
    return list(found.items())


def _parameters(name: str, schema: Any) -> dict[str, Any]:
    """The schema of the arguments, which are an object whether it says so or not."""
    if schema is None:
        schema = _NO_PARAMETERS
    elif schema is True:
        schema = {}
    if not isinstance(schema, Mapping):
        raise SchemaError(f"function {name}: its parameters are no schema of an object")
    kinds = schema.get("type", "object")
    if "object" not in ([kinds] if isinstance(kinds, str) else kinds):
        raise SchemaError(f"function {name}: arguments are an object", keyword="type")
    guidance = {"x-guidance": {"whitespace_pattern": WHITESPACE}}
    return {**guidance, **schema, "type": "object"}


def _template(llm: Any) -> str:
    """The chat template in use, or the name of the chat format."""
    metadata = getattr(llm, "metadata", None) or {}
    name = llm.chat_format or ""
    if llm.chat_handler is not None or not name.startswith("chat_template."):
        return name
    key = "tokenizer.chat_template"
    kind = name.removeprefix("chat_template.")
    return str(metadata.get(key if kind == "default" else f"{key}.{kind}", name))


def _grammar(
    form: Format,
    functions: list[tuple[str, Any]],
    vocabulary: Vocabulary,
    is_required: bool,
    is_single: bool,
) -> Grammar:
    begins = {name: _begin(form, name) for name, _ in functions}
    if not form.is_whole and not is_required:
        return Grammar.from_structural_tags(
            [
                StructuralTag(begin=begins[name], end=form.end, schema=schema)
                for name, schema in functions
            ],
            triggers=[form.mark],
            stop_after_first=is_single,
        )
    names = special_names(vocabulary)
    rules = [
        f"call_{place}: {_marked(form, begins[name], names)} %json {dump(schema)} "
        f"{_marked(form, form.end, names)}"
        for place, (name, schema) in enumerate(functions)
    ]
    call = " | ".join(f"call_{place}" for place in range(len(functions)))
    if is_required and (form.is_whole or is_single):
        start = "start: call"
    elif not form.is_whole:
        start = 'start: call ("\\n"? call)*'
    else:
        start = "start: call | TEXT\nTEXT: /(?s:[^{].*)?/"
    return Grammar.from_lark("\n".join([start, f"call: {call}", *rules]))


def _begin(form: Format, name: str) -> str:
    return form.begin.replace("NAME", json.dumps(name))


def _marked(form: Format, text: str, names: Mapping[bytes, Sequence[int]]) -> str:
    """``text`` in Lark; marks in it may be a token of the model that looks like them."""
    parts = []
    for mark in (form.mark, form.mark.replace("<", "</")):
        if mark and mark.encode() in names and mark in text:
            # Only the one that the format itself has: a name may hold one too.
            before, _, after = text.partition(mark)
            parts = [_quoted(before) if before else "", f"({_quoted(mark)} | {mark})"]
            parts.append(_quoted(after) if after else "")
            return " ".join(filter(None, parts))
    return _quoted(text)


def _quoted(text: str) -> str:
    return json.dumps(text)


def _description(form: Format, tools: Sequence[Any], is_required: bool) -> str:
    listed = "\n".join(dump(tool["function"]) for tool in tools)
    when = "Answer with calls of functions" if is_required else "You may call functions"
    return f"{when}. A call is written as\n{form.example}\nThese are the functions:\n{listed}"


@dataclasses.dataclass
class Plan:
    """How calls are asked for (``note``), constrained (``grammar``) and read."""

    form: Format
    names: list[str]
    grammar: Grammar
    note: str
    is_required: bool

    def described(self, messages: Sequence[Any]) -> list[Any]:
        """``messages`` with the tools in a system message, if the template does not see to it."""
        given = list(messages)
        if not self.note:
            return given
        if given and given[0].get("role") == "system" and isinstance(given[0].get("content"), str):
            return [{**given[0], "content": f"{given[0]['content']}\n\n{self.note}"}, *given[1:]]
        return [{"role": "system", "content": self.note}, *given]

    def converted(self, response: Any) -> Any:
        """A chat completion, or its stream, with the calls in its text as ``tool_calls``."""
        if not isinstance(response, Mapping):
            return self._converted_stream(iter(response))
        choices = []
        for choice in response["choices"]:
            reader = self._reader(response["id"])
            deltas = [*reader.feed(choice["message"].get("content") or ""), *reader.close()]
            text = "".join(delta.get("content", "") for delta in deltas) + reader.cut_text
            message = {**choice["message"], "content": text}
            if reader.calls:
                message["content"] = text or None
            if reader.finished:
                message["tool_calls"] = reader.finished
            choices.append(
                {
                    **choice,
                    "message": message,
                    "finish_reason": reader.finish_reason(choice["finish_reason"]),
                }
            )
        return {**response, "choices": choices}

    def _reader(self, completion_id: str) -> CallReader:
        return CallReader(self.form, self.names, completion_id, keeps_text=not self.is_required)

    def _converted_stream(self, chunks: Iterator[Any]) -> Iterator[Any]:
        readers: dict[int, CallReader] = {}
        for chunk in chunks:
            for choice in chunk["choices"]:
                reader = readers.setdefault(choice["index"], self._reader(chunk["id"]))
                delta = dict(choice["delta"])
                text = delta.pop("content", None)
                deltas = reader.feed(text) if text else []
                reason = choice["finish_reason"]
                if reason is not None:
                    deltas += reader.close()
                    reason = reader.finish_reason(reason)
                if delta or (not text and reason is None):
                    # The role, or something that this does not know.
                    deltas.insert(0, dict(choice["delta"]) if text is None else delta)
                for each in deltas:
                    yield _chunk(chunk, choice, each, None)
                if reason is not None:
                    yield _chunk(chunk, choice, {}, reason)


def _chunk(chunk: Any, choice: Any, delta: Any, reason: str | None) -> Any:
    return {**chunk, "choices": [{**choice, "delta": delta, "finish_reason": reason}]}


class CallReader:
    """Reads calls from text that comes in pieces; gives the deltas of a stream.

    ``calls`` are those read so far, as in a message, the last of which may be cut off. Without
    ``keeps_text`` what stands between calls, and the beginning of one that was cut off, is no
    content.
    """

    def __init__(
        self,
        form: Format,
        names: Sequence[str],
        completion_id: str,
        *,
        keeps_text: bool = True,
    ) -> None:
        self._form = form
        self._keeps_text = keeps_text
        self._begins = {_begin(form, name): name for name in names}
        if form.mark:
            # llama-cpp-python prints nothing for a mark that is a control token.
            for begin in list(self._begins):
                self._begins[begin.removeprefix(form.mark)] = self._begins[begin]
        self._id = completion_id
        self._held = ""  # text that may turn out to be the beginning of a call, or its end
        self._blank = ""  # white space, which is content only if more content follows
        self._has_text = False
        self._depth = 0  # of the arguments being read; 0: none are
        self._in_string = False
        self._escaped = False
        self._ending = ""  # what is left of ``end`` after the arguments
        self.calls: list[dict[str, Any]] = []

    def finish_reason(self, reason: str | None) -> str | None:
        """What ended a message with these calls, given what ended its text: "length" for a stop
        string in a call, so that nobody calls what is not there."""
        if not self.calls or reason != "stop":
            return reason
        return "length" if self.is_cut else "tool_calls"

    @property
    def is_cut(self) -> bool:
        """Whether the text so far ends within the arguments of a call."""
        return self._depth > 0 or (bool(self.calls) and self._is_open())

    @property
    def finished(self) -> list[dict[str, Any]]:
        """The calls that are whole."""
        return self.calls[:-1] if self.is_cut else self.calls

    @property
    def cut_text(self) -> str:
        """How the call is written that is cut off; empty if none is."""
        if not self.is_cut:
            return ""
        function = self.calls[-1]["function"]
        return _begin(self._form, function["name"]) + str(function["arguments"])

    def feed(self, text: str) -> list[dict[str, Any]]:
        """Deltas for the next piece of text."""
        deltas: list[dict[str, Any]] = []
        while text:
            if self._ending:
                text = self._read_end(text)
            elif self._depth or (self.calls and self._is_open()):
                text = self._read_arguments(text, deltas)
            else:
                text = self._read_text(text, deltas)
        return deltas

    def close(self) -> list[dict[str, Any]]:
        """Deltas for what was held back, at the end of the text."""
        deltas: list[dict[str, Any]] = []
        if self._held:
            self._add_text(self._held, deltas)
            self._held = ""
        if self._blank and not self.calls:
            deltas.append({"content": self._blank})
        self._blank = ""
        return deltas

    def _is_open(self) -> bool:
        """Whether the last call waits for the first character of its arguments."""
        arguments: str = self.calls[-1]["function"]["arguments"]
        return not arguments

    def _read_text(self, text: str, deltas: list[dict[str, Any]]) -> str:
        """Read up to the arguments of a call; what is left of ``text``."""
        text = self._held + text
        self._held = ""
        if self._form.is_whole and (self._has_text or self.calls):
            self._add_text(text, deltas)
            return ""
        at, begin = min(
            ((text.find(begin), begin) for begin in self._begins if begin in text),
            default=(-1, ""),
            key=lambda found: (found[0], -len(found[1])),
        )
        if at >= 0 and not (self._form.is_whole and at):
            self._add_text(text[:at], deltas)
            self._blank = ""
            self._open(self._begins[begin], deltas)
            return text[at + len(begin) :]
        held = self._held_back(text)
        self._add_text(text[: len(text) - held], deltas)
        self._held = text[len(text) - held :]
        return ""

    def _held_back(self, text: str) -> int:
        """How many characters at the end of ``text`` may begin a call."""
        longest = min(len(text), max(map(len, self._begins)) - 1)
        for size in range(longest, 0, -1):
            if self._form.is_whole and size != len(text):
                continue
            tail = text[len(text) - size :]
            if any(begin.startswith(tail) for begin in self._begins):
                return size
        return 0

    def _add_text(self, text: str, deltas: list[dict[str, Any]]) -> None:
        if not self._keeps_text:
            return
        text = self._blank + text
        kept = text.rstrip()
        self._blank = text[len(kept) :]
        if kept:
            self._has_text = True
            deltas.append({"content": kept})

    def _open(self, name: str, deltas: list[dict[str, Any]]) -> None:
        index = len(self.calls)
        call_id = f"call_{index}_{name}_{self._id}"
        function = {"name": name, "arguments": ""}
        self.calls.append({"id": call_id, "type": "function", "function": function})
        opened = {"index": index, "id": call_id, "type": "function", "function": {**function}}
        deltas.append({"tool_calls": [opened]})

    def _read_end(self, text: str) -> str:
        """Leave out what follows the arguments of a call, as far as it does; what is left."""
        for place, character in enumerate(text):
            if not self._ending.startswith(character):
                self._ending = ""
                return text[place:]
            self._ending = self._ending[1:]
        return ""

    def _read_arguments(self, text: str, deltas: list[dict[str, Any]]) -> str:
        """Read up to the end of the arguments; what is left of ``text``."""
        end = len(text)
        for place, character in enumerate(text):
            if self._escaped:
                self._escaped = False
            elif self._in_string:
                self._escaped = character == "\\"
                self._in_string = character != '"'
            elif character == '"':
                self._in_string = True
            elif character in "{[":
                self._depth += 1
            elif character in "}]":
                self._depth -= 1
                if self._depth == 0:
                    end = place + 1
                    self._ending = self._form.end
                    break
        part = text[:end]
        self.calls[-1]["function"]["arguments"] += part
        deltas.append(
            {"tool_calls": [{"index": len(self.calls) - 1, "function": {"arguments": part}}]}
        )
        return text[end:]
