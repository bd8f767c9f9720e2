"""Grammars and schemas out of bug reports of users: what they wanted accepted and refused."""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest

import llgx
from tests.shared_data import data_file

CASES: list[dict[str, Any]] = json.loads(data_file("user-cases.json").read_text(encoding="utf-8"))


@functools.cache
def vocabulary() -> llgx.Vocabulary:
    tokens = [bytes([byte]) for byte in range(256)]
    return llgx.Vocabulary.from_tokens([*tokens, b"<|end|>"], eog=256)


def _grammars(case: dict[str, Any]) -> dict[str, llgx.Grammar]:
    """The case in each notation that it is written in."""
    if case["kind"] == "json_schema":
        schema = case["schema"]
        return {
            "dict": llgx.Grammar.from_json_schema(schema),
            "text": llgx.Grammar.from_json_schema(json.dumps(schema)),
        }
    grammars = {"lark": llgx.Grammar.from_lark(case["lark"])}
    if case["gbnf"] is not None and hasattr(llgx.Grammar, "from_gbnf"):
        grammars["gbnf"] = llgx.Grammar.from_gbnf(case["gbnf"])
    return grammars


def test_all_cases_are_there() -> None:
    assert len(CASES) == 32
    assert all(case["accept"] and case["reject"] for case in CASES)


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_user_case(case: dict[str, Any]) -> None:
    for notation, grammar in _grammars(case).items():
        compiled = grammar.compile(vocabulary())
        for text in case["accept"]:
            data = text.encode()
            found = llgx.Matcher(compiled).match_bytes(data)
            assert found == (len(data), True), (notation, text)
        for text in case["reject"]:
            data = text.encode()
            found = llgx.Matcher(compiled).match_bytes(data)
            assert found != (len(data), True), (notation, text)
