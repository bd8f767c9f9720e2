"""Right recursion in linear time and with rows that do not grow: origins are forwarded."""

from __future__ import annotations

import time

import pytest

import llgx
from llgx.ir import (
    Condition,
    GrammarIR,
    Literal,
    ParamExpr,
    Production,
    Rule,
    RuleRef,
    Terminal,
    TerminalRef,
)
from tests.campaign import Walk, compare_walk
from tests.strategies import TokenSet

SECOND = 5.0  # a second, on a machine that others use too

# Grammar, a text that is repeated, and an end.
RIGHT_RECURSIVE = {
    "list": ('start: "a" start | "b"', b"a", b"b"),
    "list that may be empty": ('start: "a" start | ""', b"a", b""),
    "separated": ('start: item "," start | item\nitem: /[a-z]+/', b"abc,", b"xyz"),
    "two rules": ('start: "a" other | "."\nother: "b" start', b"ab", b"."),
    "three rules, two ways": (
        'start: "a" x | "b" y | "."\nx: "c" start\ny: "d" x | "e" start',
        b"acbdcbe",
        b".",
    ),
    "units on the way": (
        'start: list\nlist: item list | item\nitem: pair\npair: "a" "b"',
        b"ab",
        b"",
    ),
    "within brackets": ('start: "(" list ")"\nlist: "a" list | ""', b"a", b")"),
    "powers": (
        'start: power\npower: atom "^" power | atom\natom: "x" | "(" start ")"',
        b"x^",
        b"x",
    ),
    "conditionals": (
        'start: c\nc: "if" c | "x" rest\nrest: "else" c | ""',
        b"ifxelse",
        b"x",
    ),
}


@pytest.fixture(scope="module")
def vocabulary() -> llgx.Vocabulary:
    return llgx.Vocabulary.from_tokens([*(bytes((b,)) for b in range(256)), b"</s>"], eog=256)


def rows_after(text: bytes, grammar: str, vocabulary: llgx.Vocabulary) -> tuple[int, llgx.Matcher]:
    matcher = llgx.Matcher(llgx.Grammar.from_lark(grammar).compile(vocabulary))
    assert matcher.try_consume(text) == len(text)
    return matcher.compiled.stats()["rows"], matcher


@pytest.mark.parametrize("name", RIGHT_RECURSIVE)
def test_rows_do_not_grow(name: str, vocabulary: llgx.Vocabulary) -> None:
    grammar, part, end = RIGHT_RECURSIVE[name]
    begin = b"(" if "brackets" in name else b""
    few, _ = rows_after(begin + part * 8, grammar, vocabulary)
    many, matcher = rows_after(begin + part * 400, grammar, vocabulary)
    assert few == many
    assert matcher.match_bytes(end) == (len(end), True)
    matcher.rollback(395 * len(part))
    assert matcher.match_bytes(part + end) == (len(part + end), True)


@pytest.mark.parametrize("count", [10_000, 100_000])
def test_long_lists(count: int, vocabulary: llgx.Vocabulary) -> None:
    begin = time.process_time()
    for name in ("list", "list that may be empty", "two rules"):
        grammar, part, end = RIGHT_RECURSIVE[name]
        _, matcher = rows_after(part * count + end, grammar, vocabulary)
        assert matcher.is_accepting()
    assert time.process_time() - begin < SECOND


def test_depth_is_still_told_apart(vocabulary: llgx.Vocabulary) -> None:
    _, matcher = rows_after(b"a" * 300 + b"b" * 299, 'start: "a" start "b" | ""', vocabulary)
    assert not matcher.is_accepting()
    assert matcher.match_bytes(b"b") == (1, True)
    assert matcher.match_bytes(b"bb") == (1, False)


_A, _B, _C = Literal(b"a"), Literal(b"b"), Literal(b"c")
_TERMINALS = [Terminal("A", _A), Terminal("B", _B), Terminal("C", _C)]
_a, _b, _c = TerminalRef(0), TerminalRef(1), TerminalRef(2)


def _grammar(*rules: list[tuple[TerminalRef | RuleRef, ...]]) -> GrammarIR:
    return GrammarIR(
        [Rule(f"r{i}", [Production(p) for p in bodies]) for i, bodies in enumerate(rules)],
        _TERMINALS,
        start=0,
    )


_R = [RuleRef(i) for i in range(4)]

AMBIGUOUS = {
    "two items wait": _grammar([(_a, _R[0]), (_a, _R[0], _b), (_c,)]),
    "one ends, one goes on": _grammar([(_a, _R[1]), (_a, _R[1], _b)], [(_a, _R[1]), (_c,)]),
    "the end is shared": _grammar([(_R[1], _b), (_R[1],)], [(_a, _R[1]), (_a, _R[2])], [(_b,), ()]),
    "left and right": _grammar([(_R[0], _a), (_b, _R[0]), (_c,)]),
    "a cycle": _grammar([(_R[1],), (_a,)], [(_R[0],), (_b, _R[0])]),
    "through nothing": _grammar([(_a, _R[1], _R[0]), (_c,)], [(), (_b,)]),
    "ends in nothing": _grammar([(_a, _R[0], _R[1]), (_c,)], [(), (_b,)]),
    "several ways down": _grammar(
        [(_a, _R[1]), (_a, _R[2])], [(_b, _R[0]), (_c,)], [(_b, _R[0]), (_c, _R[1]), (_c,)]
    ),
    "in the middle": _grammar([(_a, _R[1], _c)], [(_b, _R[1]), (_b, _R[0], _R[1]), ()]),
    "guarded": GrammarIR(
        [
            Rule("start", [Production((RuleRef(1, ParamExpr("const", 0)),))]),
            Rule(
                "r",
                [
                    Production((_a, RuleRef(1, ParamExpr("incr", 0, 2)))),
                    Production((_b, RuleRef(1, ParamExpr("self")))),
                    Production((_c,), Condition("ge", 0, 2, 2)),
                ],
                parametric=True,
            ),
        ],
        _TERMINALS,
        start=0,
    ),
}


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_against_the_twin(name: str) -> None:
    texts = (b"a", b"b", b"c", b"ab", b"aa", b"ac", b"bb", b"ba", b"cb", b"aab", b"aac", b"bc")
    tokens = TokenSet((*texts, b"</s>"), eog=(len(texts),))
    for seed in range(12):
        compare_walk(Walk(seed, AMBIGUOUS[name], tokens, steps=24))
