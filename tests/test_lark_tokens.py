"""Model tokens, captures, stop conditions, token limits and exact lexing, with the engine.

The cases in ``data/lark_tokens.json`` are texts of tokens: a string stands for its bytes, one token
each, ``{"t": text}`` for the token of that text. Each runs in every configuration of the engine.
"""

from __future__ import annotations

import json
import pathlib
from typing import Any, Final

import pytest

import llgx
from tests.campaign import ALL_CONFIGURATIONS, Configuration, allowed_tokens
from tests.test_engine_cases import grammar_of

_DATA: Final = json.loads((pathlib.Path(__file__).parent / "data/lark_tokens.json").read_text())
_CASES: Final = _DATA["cases"]
_TOKENS: Final = [*(bytes([byte]) for byte in range(256)), *map(str.encode, _DATA["tokens"])]
_SPECIAL: Final = [i for i, text in enumerate(_TOKENS) if len(text) > 1 and text.startswith(b"<")]
_EOG: Final = len(_TOKENS)
_VOCABULARY: Final = llgx.Vocabulary.from_tokens(
    [*_TOKENS, _DATA["eog"].encode()], eog=_EOG, special=_SPECIAL
)

_by_case = pytest.mark.parametrize("case", _CASES, ids=[case["name"] for case in _CASES])
_by_configuration = pytest.mark.parametrize(
    "configuration", ALL_CONFIGURATIONS, ids=[c.name for c in ALL_CONFIGURATIONS]
)


def _text(pieces: list[Any]) -> list[int]:
    tokens: list[int] = []
    for piece in pieces:
        if isinstance(piece, str):
            tokens += piece.encode()
        else:
            text = piece["t"].encode()
            tokens.append(_EOG if text == _DATA["eog"].encode() else _TOKENS.index(text, 256))
    return tokens


def _compile(case: dict[str, Any], configuration: Configuration) -> llgx.CompiledGrammar:
    return grammar_of(case).compile(
        _VOCABULARY, limits=configuration.limits, shortcuts=configuration.shortcuts
    )


def _accepts(matcher: llgx.Matcher, tokens: list[int]) -> bool:
    for token in tokens:
        allowed = token in allowed_tokens(matcher, len(_VOCABULARY))
        assert allowed == matcher.allows(token), (matcher.tokens, token)
        if not allowed:
            return False
        matcher.consume(token)
    return bool(matcher.is_accepting())


@_by_configuration
@_by_case
def test_case(case: dict[str, Any], configuration: Configuration) -> None:
    compiled = _compile(case, configuration)
    for kind in ("accept", "reject"):
        for pieces in case[kind]:
            accepted = _accepts(llgx.Matcher(compiled), _text(pieces))
            assert accepted == (kind == "accept"), pieces
    for fact in case.get("captures", ()):
        matcher = llgx.Matcher(compiled)
        assert _accepts(matcher, _text(fact["text"]))
        found = sorted((item.name, item.data) for item in matcher.captures())
        assert found == sorted((name, data.encode()) for name, data in fact["are"])


@_by_case
def test_rolled_back_texts_are_as_new(case: dict[str, Any]) -> None:
    compiled = _compile(case, ALL_CONFIGURATIONS[0])
    matcher = llgx.Matcher(compiled)
    size = len(_VOCABULARY)
    for pieces in case["accept"]:
        tokens = _text(pieces)
        masks = []
        for token in tokens:
            masks.append(allowed_tokens(matcher, size))
            matcher.consume(token)
        for mask in reversed(masks):
            matcher.rollback(1)
            assert allowed_tokens(matcher, size) == mask, matcher.tokens
