"""Reads the JSON form of several grammars, ``{"grammars": [...], "max_tokens": n}``."""

from __future__ import annotations

import decimal
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from llgx.errors import GrammarError, suggestion
from llgx.lark.compiler import Source

__all__ = ["read_grammars"]

_NAME: Final = re.compile(r"[a-zA-Z0-9_-]+")
_KEYS: Final = ("name", "lark_grammar", "json_schema")
_TOP_KEYS: Final = ("grammars", "max_tokens")


def read_grammars(
    source: str | Mapping[str, Any] | Iterable[Mapping[str, Any]],
) -> tuple[list[tuple[str, Source]], int | None]:
    """The grammars in order, each with its name or "", and the bound on tokens.

    ``source`` is the JSON text of an object with ``grammars``, such an object, or the list alone.
    Raises :class:`GrammarError` for what is none of that, ``TypeError`` for another type. Linear.
    """
    if isinstance(source, str):
        try:
            source = json.loads(source, parse_float=decimal.Decimal)
        except (ValueError, RecursionError) as error:
            reason = str(error) if isinstance(error, ValueError) else "nests too deep"
            raise GrammarError(f"the JSON form of a grammar: {reason}") from None
    max_tokens: int | None = None
    if isinstance(source, Mapping):
        _check_keys(source, _TOP_KEYS, "the JSON form of a grammar")
        max_tokens = source.get("max_tokens")
        if max_tokens is not None and (type(max_tokens) is not int or max_tokens < 0):
            raise GrammarError("'max_tokens' is a number from 0 on")
        if "grammars" not in source:
            raise GrammarError("the JSON form of a grammar has a key 'grammars'")
        source = source["grammars"]
    if isinstance(source, str | bytes) or not isinstance(source, Iterable):
        raise GrammarError("'grammars' is a list of objects")
    grammars = [_grammar(item, index) for index, item in enumerate(source)]
    if not grammars:
        raise GrammarError("there is no grammar in the list")
    seen: set[str] = set()
    for name, _ in grammars:
        if name and name in seen:
            raise GrammarError(f"two grammars are called @{name}")
        seen.add(name)
    return grammars, max_tokens


def _grammar(item: object, index: int) -> tuple[str, Source]:
    where = f"grammar {index}"
    if not isinstance(item, Mapping):
        raise GrammarError(f"{where} of the list is no object")
    _check_keys(item, _KEYS, where)
    name = item.get("name")
    if name is None:
        name = ""
    elif not isinstance(name, str) or not _NAME.fullmatch(name):
        raise GrammarError(f"the name of {where} is made of letters, digits, '_' and '-'")
    text, schema = item.get("lark_grammar"), item.get("json_schema")
    if (text is None) == (schema is None):
        raise GrammarError(f"{where} has either 'lark_grammar' or 'json_schema'")
    if text is None:
        return name, Source(None, schema)
    if not isinstance(text, str):
        raise GrammarError(f"'lark_grammar' of {where} is a string")
    return name, Source(text)


def _check_keys(value: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for key in value:
        if key not in known:
            raise GrammarError(f"unknown key {str(key)[:40]!r} of {where}{suggestion(key, known)}")
