"""Structural tags in the forms that servers take in requests.

Three are read: the ``structural_tag`` response format of vLLM and SGLang (``structures`` and
``triggers``), the later one of XGrammar whose ``format`` is ``triggered_tags``, and a plain list of
tags. Whatever else such a request asks for is an error that names it. Linear.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from llgx.errors import GrammarError, suggestion
from llgx.structural_tag import Part, StructuralTag

__all__ = ["TagRequest", "read_tag_request"]

_PLAIN_KEYS: Final = frozenset(("begin", "end", "schema", "grammar", "regex", "trigger"))
_OPTIONS: Final = frozenset(("at_least_one", "stop_after_first", "excludes"))


@dataclasses.dataclass(frozen=True)
class TagRequest:
    """What a request asks for; the names are those of ``Grammar.from_structural_tags``.

    ``patterns`` are regexes by the place of their tag.
    """

    tags: list[StructuralTag]
    triggers: Sequence[Part]
    options: dict[str, Any]
    patterns: dict[int, str]


def read_tag_request(request: Any) -> TagRequest:
    """Read tags, or a request, or its JSON text. Raises :class:`GrammarError` for what is wrong."""
    if isinstance(request, str):
        try:
            request = json.loads(request)
        except (ValueError, RecursionError) as error:
            raise GrammarError(f"structural tags are no JSON: {error}") from None
    if not isinstance(request, Mapping):
        return _read_tags(request, (), {})
    options: dict[str, Any] = {}
    if "format" in request:
        _only(request, {"type", "format"}, "a structural tag")
        form = request["format"]
        if not isinstance(form, Mapping) or form.get("type") != "triggered_tags":
            kind = form.get("type") if isinstance(form, Mapping) else form
            raise GrammarError(f"the format {kind!r} is not supported: only 'triggered_tags'")
        _only(form, {"type", "triggers", "tags"} | _OPTIONS, "triggered_tags")
        options = {key: form[key] for key in form if key in _OPTIONS}
        return _read_tags(form.get("tags", ()), form.get("triggers", ()), options)
    _only(request, {"type", "structures", "triggers"} | _OPTIONS, "a structural tag")
    options = {key: request[key] for key in request if key in _OPTIONS}
    return _read_tags(request.get("structures", ()), request.get("triggers", ()), options)


def _read_tags(tags: Any, triggers: Any, options: dict[str, Any]) -> TagRequest:
    if not isinstance(tags, Iterable):
        raise TypeError(f"structural tags are a list, not {type(tags).__name__}")
    if isinstance(triggers, str) or not isinstance(triggers, Iterable):
        raise TypeError("triggers are a list")
    result: list[StructuralTag] = []
    patterns: dict[int, str] = {}
    for number, tag in enumerate(tags, start=1):
        if isinstance(tag, StructuralTag):
            result.append(tag)
            continue
        if not isinstance(tag, Mapping):
            raise TypeError(f"a structural tag is a StructuralTag or a dict, not {tag!r:.80}")
        try:
            fields, pattern = _read_tag(tag)
            result.append(StructuralTag(**fields))
        except GrammarError as error:
            raise error.within(f"tag {number}") from None
        if pattern is not None:
            patterns[len(result) - 1] = pattern
    return TagRequest(result, list(triggers), options, patterns)


def _read_tag(tag: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
    """The fields of a tag, and the regex that it has instead of a grammar."""
    fields = _with_content(tag)
    for key in ("begin", "end"):
        if key not in fields:
            raise GrammarError(f"a structural tag has no {key!r}")
    pattern = fields.pop("regex", None)
    if pattern is not None and (
        fields.get("grammar") is not None or fields.get("schema") is not None
    ):
        raise GrammarError("a structural tag has a grammar, a schema or a regex")
    return fields, pattern


def _with_content(tag: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a tag, with those of XGrammar's ``content`` among them."""
    fields = dict(tag)
    if fields.pop("type", "tag") != "tag":
        raise GrammarError(f"{tag['type']!r} is no tag")
    content = fields.pop("content", None)
    _only(fields, _PLAIN_KEYS, "a structural tag")
    if content is None:
        return fields
    if not isinstance(content, Mapping):
        raise GrammarError("the content of a tag is an object with a type")
    kind = content.get("type")
    names = {
        "json_schema": ("json_schema", "schema"),
        "grammar": ("grammar", "grammar"),
        "regex": ("pattern", "regex"),
        "any_text": (None, None),
    }
    if kind not in names:
        raise GrammarError(f"the content {kind!r} of a tag is not supported")
    source, target = names[kind]
    _only(content, {"type", source}, f"the content {kind!r}")
    if source is not None and target is not None:
        if source not in content:
            raise GrammarError(f"the content {kind!r} has no {source!r}")
        fields[target] = content[source]
    return fields


def _only(given: Iterable[str], known: Iterable[str | None], what: str) -> None:
    unknown = sorted(set(given) - set(known))
    if unknown:
        near = suggestion(unknown[0], [name for name in known if name is not None])
        raise GrammarError(f"{what} has no {unknown[0]!r}{near}")
