"""The Lark front end: meaning, errors with their positions, and hostile text.

The cases in ``data/lark*.json`` are written from the description of the language. Each is checked
with the reference twin, with the engine, and with llguidance where it is installed; ``differs``
says what llguidance does otherwise where the two are known to disagree.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import random
import re
import sys
import time
from collections.abc import Callable
from typing import Any, Final

import hypothesis
import pytest
from hypothesis import strategies as st

import llgx
from llgx import ir
from llgx.errors import GrammarError, LimitError
from llgx.lark import compile_lark, compiler
from llgx.lark.common import COMMON
from llgx.limits import Limits
from tests import strategies
from tests.campaign import allowed_tokens
from tests.ir_match import find_difference, matches
from tests.reference import ReferenceGrammar
from tests.test_engine_cases import grammar_of

_CASES: Final = [
    case
    for name in ("lark.json", "lark_variant.json")
    for case in json.loads((pathlib.Path(__file__).parent / "data" / name).read_text())
]
BYTES: Final = llgx.Vocabulary.from_tokens([*(bytes([b]) for b in range(256)), b"</s>"], eog=256)
_CASE_IDS: Final = [case["name"] for case in _CASES]


def _terminal(body: str, *more: str) -> ir.Regex:
    """The regex of a terminal with this body."""
    compiled = compile_lark("\n".join(["start: T", f"T: {body}", *more]))
    assert [terminal.name for terminal in compiled.terminals] == ["T"]
    return compiled.terminals[0].regex


# --------------------------------------------------------------------------------------------------
# Meaning


@pytest.mark.parametrize("case", _CASES, ids=_CASE_IDS)
def test_case(case: dict[str, Any]) -> None:
    grammar = ReferenceGrammar(grammar_of(case).ir)
    accepted = [text for text in case["accept"] + case["reject"] if grammar.accepts(text.encode())]
    assert accepted == case["accept"]


@pytest.mark.parametrize("case", _CASES, ids=_CASE_IDS)
def test_case_with_the_engine(case: dict[str, Any]) -> None:
    vocabulary = llgx.Vocabulary.from_tokens([*(bytes([b]) for b in range(256)), b"</s>"], eog=256)
    compiled = grammar_of(case).compile(vocabulary)

    def accepts(text: str) -> bool:
        matcher = llgx.Matcher(compiled)
        tokens = list(text.encode())
        consumed = matcher.try_consume(tokens)
        return bool(consumed == len(tokens) and matcher.is_accepting())

    assert [text for text in case["accept"] + case["reject"] if accepts(text)] == case["accept"]


@pytest.mark.parametrize("case", _CASES, ids=_CASE_IDS)
def test_case_with_llguidance(case: dict[str, Any]) -> None:
    llguidance = pytest.importorskip("llguidance")
    tokenizer = llguidance.LLTokenizer("byte")
    grammars = [{"lark_grammar": case["grammar"]}, *case.get("grammars", ())]
    grammar = json.dumps({"grammars": grammars})

    def accepts(text: str) -> bool:
        matcher = llguidance.LLMatcher(tokenizer, grammar, log_level=0)
        for byte in text.encode():
            if matcher.is_stopped() or matcher.try_consume_tokens([byte]) != 1:
                return False
        return not matcher.is_error() and (matcher.is_accepting() or matcher.is_stopped())

    accepted = [text for text in case["accept"] + case["reject"] if accepts(text)]
    assert (accepted == case["accept"]) != ("differs" in case)


@pytest.mark.parametrize("low", [0, 1, 2, 7, 8, 9, 13])
@pytest.mark.parametrize("more", [0, 1, 2, 3, 4, 5, 9, 16, 31, None])
def test_repetition_over_a_rule_counts(low: int, more: int | None) -> None:
    high = None if more is None else low + more
    bounds = f"{low},{'' if high is None else high}"
    grammar = ReferenceGrammar(compile_lark(f'start: x{{{bounds}}} "."\nx: "a" | "b"'))
    last = low + 5 if high is None else high + 2
    for count in range(last + 1):
        expected = low <= count and (high is None or count <= high)
        assert grammar.accepts(b"ab" * (count // 2) + b"a" * (count % 2) + b".") == expected, count


@pytest.mark.parametrize("high", [10, 1_000, 999_999, 1_000_000])
def test_repetition_over_a_rule_is_logarithmic(high: int) -> None:
    for low in (0, 1, high // 2, high):
        compiled = compile_lark(f'start: x{{{low},{high}}}\nx: "a" | "b"')
        assert len(compiled.rules) < 6 * high.bit_length()
        assert max(len(p.symbols) for rule in compiled.rules for p in rule.productions) < 20


def test_repetition_without_bound_is_left_recursive() -> None:
    for operator in "*+":
        compiled = compile_lark(f'start: x{operator}\nx: "a"')
        (production,) = compiled.rules[compiled.start].productions
        (reference,) = production.symbols
        assert isinstance(reference, ir.RuleRef)
        recursive = [p.symbols for p in compiled.rules[reference.index].productions if p.symbols]
        assert any(symbols[0] == reference for symbols in recursive)
        assert all(reference not in symbols[1:] for symbols in recursive)


def test_equal_repetitions_share_their_rules() -> None:
    once = compile_lark('start: x{3,90} x*\nx: "a" | "b"')
    twice = compile_lark('start: x{3,90} x* "," x{3,90} x*\nx: "a" | "b"')
    assert len(once.rules) == len(twice.rules)


def test_equal_literals_share_a_terminal() -> None:
    compiled = compile_lark(
        'start: "a" "a"i "\\u0061" /a/ /a/ /a/i ~"a" ~"a" "a".."c" "a" .. "c" A A\nA: "a"'
    )
    assert [terminal.name for terminal in compiled.terminals] == [
        '"a"',
        '"a"i',
        "/a/",
        "/a/i",
        '~"a"',
        '"a".."c"',
        "A",
    ]


def test_shared_terminals_are_one_object() -> None:
    regex = _terminal("B B", "B: C | C C", 'C: "x"')
    assert isinstance(regex, ir.Concat)
    assert regex.items[0] is regex.items[1]


def test_options() -> None:
    plain = compile_lark('start: "a"')
    assert (plain.forcing, plain.initial_skip, plain.skip_once, plain.skip) == (
        True,
        False,
        False,
        [-1],
    )
    options = '{"no_forcing": true, "allow_initial_skip": true, "ignore_once": true}'
    compiled = compile_lark(f'start: "a"\n%ignore " "\n%ignore "_"\n%llguidance {options}')
    assert (compiled.forcing, compiled.initial_skip, compiled.skip_once) == (False, True, True)
    (skip,) = compiled.skip
    assert [matches(compiled.terminals[skip].regex, text) for text in (b" ", b"_", b"a")] == [
        True,
        True,
        False,
    ]
    assert all(terminal.skip_class == 0 for terminal in compiled.terminals)


@pytest.mark.parametrize(
    ("body", "text", "without", "with_option"),
    [
        ("/[^a]/", b"\xff", False, True),
        ("/[^a]/", "é".encode(), True, False),
        ("/./i", b"\x80", False, True),
        ("/./i", b"\n", False, False),
        ("/./u", "é".encode(), True, True),
        ("/./u", b"\xff", False, False),
        ("/é/", "é".encode(), True, True),
        (r"/\w/", "é".encode(), True, False),
        ("ESCAPED_STRING", b'"\xff"', False, True),
    ],
)
def test_invalid_utf8_is_an_option(
    body: str, text: bytes, without: bool, with_option: bool
) -> None:
    for option, expected in (("false", without), ("true", with_option)):
        compiled = compile_lark(
            f"start: {body}\n%import common.ESCAPED_STRING\n"
            f'%llguidance {{"allow_invalid_utf8": {option}}}'
        )
        assert matches(compiled.terminals[0].regex, text) == expected


def test_lazy_terminals() -> None:
    compiled = compile_lark('start: a b c\na[lazy]: /x+/\nb[suffix="end"]: /y*/\nc: /z/')
    assert [(t.name, t.lazy) for t in compiled.terminals] == [
        ("a", True),
        ("b", True),
        ("/z/", False),
    ]
    suffixed = compiled.terminals[1].regex
    assert find_difference(suffixed, _terminal('/y*/ "end"'), [b"y", b"e", b"n", b"d"]) is None


_COMMON_LETTERS: Final = "09afFgzZ_+-.eE\"\\/*#'\n\r\t\f\v é"


@pytest.mark.parametrize("name", sorted(COMMON))
def test_common(name: str) -> None:
    """Against definitions put together from those of Lark's library, with :mod:`re`."""
    regex = compile_lark(f"start: {name}\n%import common.{name}").terminals[0].regex
    integer, exponent = "[0-9]+", "[eE][+-]?[0-9]+"
    decimal = rf"(?:{integer}\.(?:{integer})?|\.{integer})"
    floating = f"(?:{integer}{exponent}|{decimal}(?:{exponent})?)"
    expected = {
        "DIGIT": "[0-9]",
        "HEXDIGIT": "[a-fA-F0-9]",
        "INT": integer,
        "SIGNED_INT": f"[+-]?{integer}",
        "DECIMAL": decimal,
        "_EXP": exponent,
        "FLOAT": floating,
        "SIGNED_FLOAT": f"[+-]?{floating}",
        "NUMBER": f"{floating}|{integer}",
        "SIGNED_NUMBER": f"[+-]?(?:{floating}|{integer})",
        "ESCAPED_STRING": r'"([^"\\]|\\.)*"',
        "LCASE_LETTER": "[a-z]",
        "UCASE_LETTER": "[A-Z]",
        "LETTER": "[a-zA-Z]",
        "WORD": "[a-zA-Z]+",
        "CNAME": "[a-zA-Z_][a-zA-Z_0-9]*",
        "WS_INLINE": "[ \t]+",
        "WS": "[ \t\f\r\n]+",
        "CR": "\r",
        "LF": "\n",
        "NEWLINE": "(\r?\n)+",
        "SH_COMMENT": r"#[^\n]*",
        "CPP_COMMENT": r"//[^\n]*",
        "C_COMMENT": r"/\*((?!\*/)(.|\n))*\*/",
        "SQL_COMMENT": r"--[^\n]*",
    }[name]
    rng = random.Random(name)
    samples = [
        "",
        "/**/",
        "/*/",
        "/***/",
        "/* a */ b */",
        '"\\""',
        '"a\nb"',
        "1.5e-3",
        ".e1",
        "--x",
    ]
    samples += ["".join(rng.choices(_COMMON_LETTERS, k=rng.randint(1, 5))) for _ in range(400)]
    samples += ["".join(rng.choices("/*a", k=rng.randint(4, 9))) for _ in range(200)]
    for sample in samples:
        matched = re.fullmatch(expected, sample) is not None
        assert matches(regex, sample.encode()) == matched, sample


@hypothesis.given(randoms=st.randoms(use_true_random=False))
@hypothesis.settings(max_examples=60)
def test_printed_regexes_mean_the_same(randoms: random.Random) -> None:
    regex = strategies.random_regex(randoms)
    rules = [ir.Rule("", [ir.Production((ir.TerminalRef(0),))])]
    try:
        text = strategies.lark_text(ir.GrammarIR(rules, [ir.Terminal("", regex)], 0))
    except strategies.NotPrintableError:
        hypothesis.reject()
    compiled = compile_lark(text)
    letters = [bytes([byte]) for byte in range(128)]
    assert find_difference(compiled.terminals[0].regex, regex, letters) is None


def _value(condition: ir.Condition | None) -> bool | None:
    """What a condition without parameters says; None for one that depends on a parameter."""
    if condition is None or condition.op == "true":
        return True
    values = [_value(item) for item in condition.items]
    if condition.op == "not":
        return None if values[0] is None else not values[0]
    if condition.op in ("and", "or"):
        decisive = condition.op == "or"
        if decisive in values:
            return decisive
        return None if None in values else not decisive
    return None


def _parameters_are_used(grammar: ir.GrammarIR) -> bool:
    def reads(production: ir.Production) -> bool:
        value = _value(production.condition)
        arguments = [s.argument for s in production.symbols if isinstance(s, ir.RuleRef)]
        return value is None or (value and any(a and a.op != "const" for a in arguments))

    return all(any(map(reads, r.productions)) for r in grammar.rules if r.parametric)


@hypothesis.given(randoms=st.randoms(use_true_random=False))
@hypothesis.settings(max_examples=60)
def test_printed_grammars_mean_the_same(randoms: random.Random) -> None:
    grammar = strategies.random_grammar(randoms)
    hypothesis.assume(_parameters_are_used(grammar))
    try:
        compiled = compile_lark(strategies.lark_text(grammar))
    except strategies.NotPrintableError:
        hypothesis.reject()
    original, printed = ReferenceGrammar(grammar), ReferenceGrammar(compiled)
    for source in (original, printed):
        for _ in range(4):
            text = strategies.random_text(randoms, source, 12)
            for end in range(len(text) + 1):
                assert original.accepts(text[:end]) == printed.accepts(text[:end]), text[:end]


# --------------------------------------------------------------------------------------------------
# Errors

_ERRORS: Final[list[tuple[str, int, int, str]]] = [
    # text
    ("start: $", 1, 8, "unexpected character '$'"),
    ("start: 'a", 1, 8, "without closing quote"),
    ("start: 'a\tb'", 1, 10, "U+0009"),
    ("start: 'a\\q'", 1, 10, r"'\q'"),
    ('start: "a', 1, 8, "without closing quote"),
    ('start: "a\n"', 1, 8, "without closing quote"),
    ('start: "a\tb"', 1, 10, "U+0009"),
    ('start: "a\x7f"', 1, 10, "U+007F"),
    ("start: /a", 1, 8, "without closing '/'"),
    ("start: /a/g", 1, 11, "flag 'g'"),
    ("start: /a/l", 1, 9, "flag"),
    ("start: /ab(/", 1, 11, ""),
    ('start: "a"\n  | /[z-a]/', 2, 7, ""),
    ('start: "ab\\q"', 1, 11, r"'\q'"),
    ('start: "\\u12"', 1, 9, "4 hexadecimal digits"),
    ('start: "\\x4"', 1, 9, "2 hexadecimal digits"),
    ('start: "a\\ud800"', 1, 10, "no partner"),
    ('start: "\\ude00\\ud83d"', 1, 9, "no partner"),
    ('start: "\ud800"', 1, 9, "lone surrogate"),
    ("%frobnicate", 1, 1, "unknown keyword %frobnicate"),
    ('start: "a"\n%ignor " "', 2, 1, "unknown keyword %ignor (did you mean '%ignore'?)"),
    # structure
    ('"a"', 1, 1, "expected a rule"),
    ('start:\n  "a"', 2, 3, "goes on at the next line only after '|'"),
    ("start", 1, 6, "expected ':'"),
    ("start: (", 1, 9, "expected ')'"),
    ('start: "a" ("b"\nfoo: "c"', 2, 4, "the '(' at line 1, column 12 is open"),
    ("start: )", 1, 8, "unexpected ')'"),
    ("start: (a]", 1, 10, "expected ')', found ']'"),
    ('? start: "a"', 1, 1, "directly before"),
    ("start: ~", 1, 9, "after '~'"),
    ('start: ("a" | ~)', 1, 16, "after '~'"),
    ('start: "a" -> b "c"', 1, 17, "after ->"),
    ('start: "a" -> b -> c', 1, 17, "'->' after ->"),
    ('start: "a" ->', 1, 14, "expected a name"),
    ('start: "a" | "b"..', 1, 19, "last character of the range"),
    ('start: "ab".."c"', 1, 8, "one character"),
    ('start: "a".."bc"', 1, 13, "one character"),
    ('start: "b".."a"', 1, 8, "wrong order"),
    ('start: "a"i.."b"', 1, 8, "no flag"),
    # repetitions
    ('start: "a"{}', 1, 12, "expected a number"),
    ('start: "a"{3,2}', 1, 11, "wrong order"),
    ('start: "a"~3..2', 1, 11, "wrong order"),
    ('start: "a"~-1', 1, 12, "negative"),
    ('start: "a"{1.5}', 1, 12, "whole number"),
    ('start: "a"{0x2}', 1, 12, "expected a number"),
    ('start: "a"+*', 1, 12, "one repetition"),
    ('start: "a"{2}{3}', 1, 14, "one repetition"),
    # names
    ('foo: "a"', 0, 0, "no rule 'start'"),
    ('strat: "a"', 0, 0, "no rule 'start' (did you mean 'strat'?)"),
    ('START: "a"', 0, 0, "no rule 'start' (did you mean 'START'?)"),
    ("", 0, 0, "no rule 'start'"),
    ('start: "a"\nfoo: "b"\nstart: "c"', 3, 1, "defined twice"),
    ('start: "a"\nB: "b"\nB: "c"', 3, 1, "defined twice"),
    ('INT: "b"\n%import common.INT', 2, 16, "defined twice"),
    ('start: "a" valeu\nvalue: "b"', 1, 12, "did you mean 'value'?"),
    ('start: "a"\n  | NUMBR\nNUMBER: "1"', 2, 5, "did you mean 'NUMBER'?"),
    ("start: qqqq", 1, 8, "unknown name 'qqqq'"),
    ('start: fooBar\nfoo: "a"', 1, 11, "mixes cases"),
    ('fooBar: "a"', 1, 1, "mixes cases"),
    ("start: A\nA: B\nB: C\nC: A", 4, 4, "contains itself"),
    ('start: "a"\n%ignore A\nA: "b" A', 3, 8, "contains itself"),
    ('start: A\nA: x\nx: "a"', 2, 4, "is a rule"),
    ('start: "a"\n%ignore x\nx: "b"', 2, 9, "is a rule"),
    ('start: "a" & x\nx: "b" x | "c"', 2, 8, "'x' contains itself"),
    ('start: "a" & x\nx: y\ny[lazy]: "c"', 2, 4, "'y' has attributes"),
    ('start: "a" & x\nx: <c>', 2, 4, "the special token <c> cannot stand in a terminal"),
    ('start: "a" & x::0\nx::_: "c" %if eq(_, 0)', 1, 14, "argument"),
    ('start: A\nA: "a" & x\nx: "b"', 2, 10, "is a rule"),
    ('start: x & A\nA: y\nx: y\ny: "b"', 2, 4, "is a rule"),
    # attributes
    ('start[lazi]: "a"', 1, 7, "did you mean 'lazy'?"),
    ('start[lazy=1]: "a"', 1, 11, "expected ',' or ']'"),
    ('start[lazy, suffix="b"]: "a"', 1, 13, "one way"),
    ('start[suffix="b", suffix="c"]: "a"', 1, 19, "twice"),
    ('start[suffix]: "a"', 1, 13, "expected '='"),
    ('start[suffix=("b")]: "a"', 1, 14, "expected a string"),
    ('start[suffix=E]: "a"\nE: ""', 1, 14, "always empty"),
    ('start[stop="a", lazy]: "a"', 1, 17, "one way"),
    ('start[stop_capture="a"]: "a"', 1, 6, "goes with suffix= or stop="),
    ('start[stop_capture="a", lazy]: "a"', 1, 6, "goes with suffix= or stop="),
    ('start[capture=x]: "a"', 1, 15, "expected a string"),
    ('start[capture=""]: "a"', 1, 15, "has a name"),
    ('start[max_tokens="3"]: "a"', 1, 18, "expected a number"),
    ('start[max_tokens=-1]: "a"', 1, 18, "between 0 and"),
    ('start[max_tokens=1.5]: "a"', 1, 18, "whole number"),
    ('start[max_tokens=99999999999]: "a"', 1, 18, "between 0 and"),
    ('start[temperature=-1]: "a"', 1, 19, "between 0 and"),
    ('start[temperature=1e400]: "a"', 1, 19, "between 0 and"),
    ('start[suffix=<x>]: "a"', 1, 14, "<x> cannot stand in a terminal"),
    ('start[suffix="b"]: "a" x\nx: "c"', 1, 24, "is a rule"),
    ('start[stop="b"]: @x', 1, 18, "@x cannot stand in a terminal"),
    ('start[lazy]: x\nx: "a"', 1, 14, "is a rule"),
    ('A[lazy]: "a"', 1, 2, "attributes stand on rules"),
    # imports
    ("%import foo.BAR", 1, 1, "no module 'foo'"),
    ("%import .common.INT", 1, 1, "no module 'common'"),
    ("%import common", 1, 1, "no module before the name"),
    ("%import common.NUMBR", 1, 16, "did you mean 'NUMBER'?"),
    ("%import common (INT, FLOTA)", 1, 22, "did you mean 'FLOAT'?"),
    ("%import common (INT", 1, 20, "expected ')'"),
    # options
    ("%llguidance", 1, 12, "JSON value"),
    ('%llguidance {"a": [}', 1, 13, "does not end"),
    ("%llguidance [1]", 1, 1, "JSON object"),
    ("%llguidance {1}", 1, 1, "JSON object"),
    ('%llguidance {"no_forcing": 1}', 1, 1, "true or false"),
    ('%llguidance {"ignore_once": null}', 1, 1, "true or false"),
    ('%llguidance {"ignore_onc": true}', 1, 1, "did you mean 'ignore_once'?"),
    # parameters
    ('start::_: "a"', 1, 1, "'start' cannot take a parameter"),
    ('start: a\na::_: "x" %if eq(_, 0)', 1, 8, "takes a parameter"),
    ('start: a::0\na: "x"', 1, 8, "takes no parameter"),
    ('start: A::0\nA: "x"', 1, 8, "takes no parameter"),
    ("start: a::0", 1, 8, "unknown name"),
    ('start: a::0\na::_: "x"', 2, 1, "does not use it"),
    ('start: a::_\na::_: "x" %if eq(_, 0)', 1, 8, "enclosing rule"),
    ('start: "a" %if eq(_, 0)', 1, 8, "the rule has none"),
    ('start: A\nA: "a" %if bit_set(0)', 2, 4, "%if"),
    ('start: A\nA: x::0\nx::_: "a" %if eq(_, 0)', 2, 4, "cannot stand in a terminal"),
    ('A::_: "a"', 1, 2, "takes no parameter"),
    ('a::_[lazy]: "a"\nstart: a::0', 1, 1, "cannot take a parameter"),
    ("start: a::foo(1)", 1, 11, "found 'foo'"),
    ("start: a::set_bit(64)", 1, 19, "between 0 and 63"),
    ("start: a::-1", 1, 11, "between 0 and 18446744073709551615"),
    ("start: a::18446744073709551616", 1, 11, "between 0 and 18446744073709551615"),
    ("start: a::1.5", 1, 11, "whole number"),
    ("start: a::incr(1)", 1, 16, "[begin:end]"),
    ("start: a::incr([3:3])", 1, 16, "are none"),
    ("start: a::decr([0:65])", 1, 19, "between 0 and 64"),
    ('start: "a" %if eqq(_, 1)', 1, 16, "did you mean 'eq'?"),
    ('start: "a" %if and(true)', 1, 24, "expected ','"),
    ('start: "a" %if or(true, true, true)', 1, 29, "expected ')'"),
    ('start: "a" %if true "b"', 1, 21, "after %if"),
    # tokens
    ("start: <>", 1, 8, "unexpected character '<'"),
    ("start: <[]>", 1, 8, "no token ids"),
    ("start: <[^]>", 1, 8, "no token ids"),
    ("start: <[^*]>", 1, 8, "stands alone"),
    ("start: <[1,*]>", 1, 8, "stands alone"),
    ("start: <[3-1]>", 1, 8, "wrong way round"),
    ("start: <[1,,2]>", 1, 8, "no token id"),
    ("start: <[a]>", 1, 8, "'a' is no token id"),
    ("start: <[12345678901]>", 1, 8, "no token id"),
    ("start: A\nA: <[1-3]> <[4]>", 2, 4, "<[1-3]> cannot stand in a terminal"),
    ('start: A\nA: "a" <think>', 2, 8, "<think> cannot stand in a terminal"),
    ('start: A\nA: "a" B\nB: <think>', 3, 4, "<think> cannot stand in a terminal"),
    ("start: ~<think>", 1, 9, "<think> cannot stand in a terminal"),
    # %declare
    ("%declare", 1, 9, "the name of a terminal"),
    ("%declare a", 1, 10, "the name of a terminal"),
    ('%declare A\nA: "x"', 2, 1, "twice"),
    ('%declare A -> "x"', 1, 15, "a special token"),
    ('start: B\nB: A "x"\n%declare A', 3, 10, "<a> cannot stand in a terminal"),
    # %json, %regex, %lark, references
    ('start: A\nA: %json {"a": "}"}', 2, 4, "%json cannot stand in a terminal"),
    ("start: %json", 1, 13, "JSON value"),
    ("start: %regex {1}", 1, 8, "JSON object"),
    ("start: %regex []", 1, 8, "JSON object"),
    ("start: %regex {}", 1, 8, "one substring key"),
    ('start: %regex {"substring_wrds": "a"}', 1, 8, "did you mean 'substring_words'?"),
    ('start: %regex {"substring_words": 1}', 1, 8, "is a string"),
    ('start: %regex {"substring_chunks": "a"}', 1, 8, "list of strings"),
    ('start: %regex {"substring_chunks": [1]}', 1, 8, "list of strings"),
    ('start: %regex {"substring_words": "a", "substring_chars": "b"}', 1, 8, "one substring key"),
    ('start: %regex {"substring_chars": "\\ud800"}', 1, 8, "lone surrogate"),
    ('start: "a" %lark', 1, 17, "expected '{'"),
    ('start: "a" %lark { start: "b"', 1, 18, "'{' without '}'"),
    ('start: "a" %lark { x: "b" }', 1, 12, "no rule 'start'"),
    ('start: "a" %lark { start: y }\ny: "a"', 1, 27, "unknown name 'y'"),
    ('start: "a" %lark { start: ("y" }', 1, 32, "expected ')'"),
    ('start: "a" }', 1, 12, "unexpected '}'"),
    ("start: A\nA: %lark {start: A}", 2, 4, "%lark cannot stand in a terminal"),
    ("start: @other", 1, 8, "unknown grammar '@other'"),
    ("start: @12", 1, 8, "referred to by name"),
    # templates
    ('start: pair{A, "b"}\nA: "a"', 1, 8, "unknown template 'pair'"),
    ('start: x{"a"}\nx: "a"', 1, 8, "no template 'x'"),
    ('start: paar{"a"}\npair{a}: a', 1, 8, "did you mean 'pair'?"),
    ('start: pair{"a"}\npair{a, b}: a b', 1, 8, "takes 2 arguments, not 1"),
    ("start: pair\npair{a, b}: a b", 1, 8, "takes 2 arguments, not 0"),
    ('start: P\nP{a}: a "x"', 1, 8, "takes 1 argument, not 0"),
    ('start: Q\nQ: P\nP{a}: a "x"', 2, 4, "takes 1 argument, not 0"),
    ('start: pair{"a",}\npair{a, b}: a b', 1, 17, "expected an argument"),
    ('start: pair{"a", "b"\npair{a, b}: a b', 2, 11, "expected '}'"),
    ('start: pair{"a" "b")\npair{a}: a', 1, 20, "expected '}'"),
    ("pair{}: a b", 1, 6, "the name of a parameter"),
    ("pair{a, a}: a b", 1, 9, "given twice"),
    ("pair{a b}: a b", 1, 8, "expected ',' or '}'"),
    ("start{a}: a", 1, 1, "'start' cannot take a parameter"),
    ("pair{a}::_: a", 1, 1, "takes no parameter '_'"),
    ('start: p{"a"}\np{x}: x::1', 2, 7, "takes no argument"),
    ('start: P{x}\nx: "a"\nP{A}: A', 1, 10, "is a rule"),
    # priorities
    ('A.1.5: "a"', 1, 3, "no whole number"),
    # GBNF
    ('root ::= "a"', 1, 6, "looks like GBNF"),
    ('ROOT ::= "a"', 1, 6, "looks like GBNF"),
    # what is not there
    ('%override start: "a"', 1, 1, "%override is not supported"),
]


@pytest.mark.parametrize(("text", "line", "column", "message"), _ERRORS)
def test_error(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(GrammarError) as caught:
        compile_lark(text)
    error = caught.value
    assert (error.line, error.column) == (line, column), error
    assert message in error.message
    assert error.excerpt.endswith("^") == bool(line)


def test_faults_out_of_reach_are_warnings() -> None:
    compiled = compile_lark(
        'start: "a"\nx: nowhere\ny: "x" <[]>\nA: A\nB: /(/\nz: x{2000000}\n'
        'p: q\nq::_: "1" %if eq(_, 0)\nfine: B2\nB2: "b" "c"'
    )
    assert len(compiled.rules) == 1
    assert [terminal.name for terminal in compiled.terminals] == ['"a"']
    for place in (
        "line 2, column 4",
        "line 3, column 8",
        "line 4, column 4",
        "line 5, column 5",
        "line 6",
    ):
        assert sum(place in warning for warning in compiled.warnings) >= 1, place
    assert not any("fine" in warning or "B2" in warning for warning in compiled.warnings)
    assert compile_lark('start: x A\nx: "a"\nA: "b"').warnings == []


def test_warnings_are_bounded() -> None:
    text = 'start: "a"\n' + "\n".join(f"r{i}: nowhere{i}" for i in range(2000))
    assert 1 <= len(compile_lark(text).warnings) <= 100


# --------------------------------------------------------------------------------------------------
# Limits and hostile text


@pytest.mark.parametrize(
    ("text", "limits", "limit"),
    [
        (" " * 101, Limits(grammar_bytes=100), "grammar_bytes"),
        ("start: " + "(" * 11 + '"a"' + ")" * 11, Limits(nesting=10), "nesting"),
        ('start: "a"{11}', Limits(rule_repeat=10), "rule_repeat"),
        ('start: A\nA: "a"{11,}', Limits(repeat=10), "repeat"),
        ('start: p{"a"}\np{x}: p{x "a"}', Limits(nesting=50), "nesting"),
        ('start: P{"a"}\nP{X}: P{(X | "a")}', Limits(nesting=50), "nesting"),
        ('start: "a"{' + "9" * 5000 + "}", Limits(), "repeat"),
        ('start: "a" "a" "a"', Limits(symbols=3), "symbols"),
        ('start: A\nA: "(" B\nB: "(" C\nC: "(" "x"', Limits(regex_depth=3), "regex_depth"),
    ],
)
def test_limit(text: str, limits: Limits, limit: str) -> None:
    with pytest.raises(LimitError) as caught:
        compile_lark(text, limits=limits)
    assert caught.value.limit == limit


def test_values_at_the_limit_are_allowed() -> None:
    compile_lark('start: "a"', limits=Limits(grammar_bytes=10))
    compile_lark("start: " + "(" * 10 + '"a"' + ")" * 10, limits=Limits(nesting=10))
    compile_lark('start: "a"{10}', limits=Limits(rule_repeat=10))
    compile_lark('start: A\nA: "a"{10}', limits=Limits(repeat=10))


_MANY: Final = 100_000
_HOSTILE: Final[dict[str, tuple[Callable[[], str], type[Exception] | None]]] = {
    "open parentheses": (lambda: "start: " + "(" * _MANY, LimitError),
    "parentheses": (lambda: "start: " + "(" * _MANY + ")" * _MANY, LimitError),
    "brackets": (lambda: "start: " + "[" * _MANY, LimitError),
    "closing parentheses": (lambda: "start: " + ")" * _MANY, GrammarError),
    "conditions": (lambda: 'start: "a" %if ' + "not(" * _MANY, LimitError),
    "JSON": (lambda: "%llguidance " + "[" * _MANY, LimitError),
    "JSON of a schema": (lambda: "start: %json " + '{"a":' * _MANY, LimitError),
    "braces": (lambda: "start: %lark " + "{" * _MANY, GrammarError),
    "tildes": (lambda: "start: " + "~" * (_MANY + 1) + '"a"', None),
    "chain of terminals": (
        lambda: (
            "start: T0\n"
            + "\n".join(f'T{i}: "x" T{i + 1}' for i in range(10_000))
            + '\nT10000: "y"'
        ),
        LimitError,
    ),
    "chain of names": (
        lambda: (
            "start: T0\n" + "\n".join(f"T{i}: T{i + 1}" for i in range(10_000)) + '\nT10000: ""'
        ),
        None,
    ),
    "ring of terminals": (
        lambda: "start: T0\n" + "\n".join(f"T{i}: T{(i + 1) % 10_000}" for i in range(10_000)),
        GrammarError,
    ),
    "doubling terminals": (
        lambda: (
            "start: T0\n"
            + "\n".join(f"T{i}: T{i + 1} T{i + 1}" for i in range(200))
            + '\nT200: "y"'
        ),
        None,
    ),
    "powers of repetitions": (
        lambda: "start: " + "(" * 400 + '"a"' + "){1000}" * 400,
        None,
    ),
    "chain of rules": (
        lambda: 'start: r0\nr10000: "x"\n' + "\n".join(f"r{i}: r{i + 1}" for i in range(10_000)),
        None,
    ),
    "string without end": (lambda: 'start: "' + "\\n" * _MANY, GrammarError),
    "regex without end": (lambda: "start: /" + "a" * _MANY, GrammarError),
    "long name": (lambda: "start: " + "a" * _MANY, GrammarError),
    "long number": (lambda: "start: a::" + "9" * _MANY, GrammarError),
    "unknown names": (
        lambda: "start: r0\n" + "\n".join(f"r{i}: foo{i}" for i in range(10_000)),
        GrammarError,
    ),
    "blank lines": (lambda: "\n \t# comment\n" * _MANY, GrammarError),
    "null characters": (lambda: "\0" * _MANY, GrammarError),
}


@pytest.mark.parametrize("name", sorted(_HOSTILE))
def test_hostile(name: str) -> None:
    make, expected = _HOSTILE[name]
    text = make()
    begin = time.process_time()
    if expected is None:
        compile_lark(text)
    else:
        with pytest.raises(expected):
            compile_lark(text)
    assert time.process_time() - begin < 3


def test_nesting_at_the_limit_needs_no_recursion() -> None:
    group = "(" * 499 + '"a"' + ")*" * 499
    terminal = "[" * 499 + '"a"' + "]+" * 499
    condition = "and(bit_set(0), " * 499 + "bit_set(1)" + ")" * 499
    text = f'start: A p::3 {group}\nA: {terminal}\np::_: "p" %if {condition}'
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(_frames()) + 60)
    try:
        compile_lark(text)
    finally:
        sys.setrecursionlimit(limit)


def _frames() -> list[object]:
    frames: list[object] = []
    frame = sys._getframe()
    while frame.f_back is not None:
        frames.append(frame)
        frame = frame.f_back
    return frames


def test_a_megabyte_compiles_in_linear_time() -> None:
    def seconds(count: int) -> float:
        body = "\n  | ".join(
            f'"option number {i:06d} of the many" "alternatives"' for i in range(count)
        )
        begin = time.process_time()
        compiled = compile_lark(f"start: {body}\n")
        assert len(compiled.terminals) - 1 == len(compiled.rules[0].productions) == count
        return time.process_time() - begin

    small, large = seconds(2_500), seconds(20_000)
    assert large < 3
    assert large < 24 * small  # 8 times the text; quadratic would be 64 times the work


_CONTEXTS: Final = [
    'start: {} "!"',
    'start: ({} | NAME | "w1") ("." | " 2")\nNAME: /[a-z]+/',
    'start: ("<" | {} | "w2" "x")+',
    'start: "<" {} ">"\n%ignore " "',
    "start: {}{{1,2}} x\nx[lazy]: /[a-z0-9]+;/",
    '%llguidance {{"lexer": "exact"}}\nstart: {} {} | "w1" "w"',
]


@pytest.mark.parametrize("context", _CONTEXTS)
def test_many_texts_are_one_terminal_of_the_same_language(
    context: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [f"w{i}" for i in range(260)] + ["w", "w1 2", " ", "é", "w1w", "W"]
    others = ['""', "/w[0-9]{4}/", '"w7" "7"', '"w8"i']
    body = "(" + " | ".join([f'"{word}"' for word in words] + others) + ")"
    text = context.format(*[body] * 2)
    together = compile_lark(text)
    monkeypatch.setattr(compiler, "_MANY_TEXTS", 10**9)
    apart = compile_lark(text)
    assert len(together.terminals) < 20 < len(apart.terminals)
    size = len(BYTES)
    first, second = (llgx.Grammar.from_ir(item).compile(BYTES) for item in (together, apart))
    rng = random.Random(context)
    for _ in range(60):
        one, two = llgx.Matcher(first), llgx.Matcher(second)
        for _ in range(12):
            allowed = allowed_tokens(one, size)
            assert allowed == allowed_tokens(two, size), one.tokens
            choices = sorted(allowed - {256})
            if not choices:
                break
            token = rng.choice(choices)
            one.consume(token)
            two.consume(token)


def test_fifty_thousand_alternatives() -> None:
    words = [f"product {i} of {i % 97}" for i in range(50_000)]
    begin = time.process_time()
    grammar = llgx.Grammar.from_lark("start: " + " | ".join(f'"{word}"' for word in words))
    matcher = llgx.Matcher(grammar.compile(BYTES))
    for word in words[::5_000]:
        matcher.reset()
        assert matcher.match_bytes(word.encode()) == (len(word), True)
    assert not matcher.match_bytes(b"product 50000 of 0")[1]
    assert time.process_time() - begin < 3


_PIECES: Final = [
    *(
        "start",
        ":",
        "|",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "~",
        "&",
        "*",
        "+",
        "?",
        "..",
        "->",
        "::",
        "_",
    ),
    *(
        '"a"',
        '"b"i',
        '""',
        "/a+/",
        "/(/",
        "A",
        "B",
        "x",
        "2",
        "0x1",
        "{1,2}",
        "~2..3",
        "=",
        ",",
        ".",
    ),
    *(
        "%ignore",
        "%import",
        "common",
        ".INT",
        "%if",
        "true",
        "eq(_, 1)",
        "set_bit(1)",
        "%llguidance {}",
    ),
    *(
        "lazy",
        "suffix",
        '[suffix="x"]',
        "%json {}",
        "%lark",
        "@x",
        "<x>",
        "#",
        "//",
        "!",
        '"',
        "/",
        "\\",
    ),
    *("\n", "\n", "\nstart: ", "\nx: ", '\nA: "q"', "\nx::_: ", "\n| ", " ", "%declare"),
]


@hypothesis.given(pieces=st.lists(st.sampled_from(_PIECES), max_size=25))
@hypothesis.settings(max_examples=500)
def test_any_text_compiles_or_is_a_typed_error(pieces: list[str]) -> None:
    for text in ("".join(pieces), "start: " + " ".join(pieces)):
        try:
            compiled = compile_lark(text)
        except (GrammarError, LimitError):
            continue
        compiled.check()


@hypothesis.given(case=st.sampled_from(_CASES), data=st.data())
@hypothesis.settings(max_examples=300)
def test_damaged_grammars_compile_or_are_typed_errors(
    case: dict[str, Any], data: st.DataObject
) -> None:
    text = case["grammar"]
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        cut = data.draw(st.integers(0, 3))
        text = text[:at] + data.draw(st.sampled_from(["", *_PIECES])) + text[at + cut :]
    try:
        compiled = compile_lark(text)
    except (GrammarError, LimitError):
        return
    compiled.check()


def test_the_result_depends_on_the_text_only() -> None:
    for case in _CASES:
        first, second = grammar_of(case).ir, grammar_of(case).ir
        assert dataclasses.asdict(first) == dataclasses.asdict(second)


@pytest.mark.parametrize(
    ("read", "text", "place"),
    [
        (llgx.Grammar.from_lark, 'start: item\nitem: "a" item', (2, 1)),
        (llgx.Grammar.from_lark, 'start: "b" A\n  A: "a" & "b"', (2, 3)),
        (llgx.Grammar.from_lark, 'start: x\n!x[max_tokens=3]: "a" x', (2, 2)),
        (llgx.Grammar.from_gbnf, 'root ::= "b" a-b\na-b ::= "(" a-b ")"', (2, 1)),
    ],
    ids=["rule", "terminal", "attributes", "gbnf"],
)
def test_grammars_without_a_text_are_pointed_at(
    read: Any, text: str, place: tuple[int, int]
) -> None:
    vocabulary = llgx.Vocabulary.from_tokens([bytes((byte,)) for byte in range(256)])
    with pytest.raises(llgx.GrammarError, match="matches no text") as caught:
        read(text).compile(vocabulary)
    assert (caught.value.line, caught.value.column) == place
    assert caught.value.excerpt.splitlines()[1].startswith(" " * (place[1] - 1) + "^")


def test_limits_have_an_excerpt() -> None:
    for read, text in (
        (llgx.Grammar.from_lark, "start: A\nA: /a{2000000000}/"),
        (llgx.Grammar.from_gbnf, 'root ::= a\na ::= "a"{2000000000}'),
    ):
        with pytest.raises(llgx.LimitError) as caught:
            read(text)  # type: ignore[operator]
        assert caught.value.line == 2
        assert caught.value.excerpt.splitlines()[0] == text.splitlines()[1]
        assert str(caught.value).endswith(caught.value.excerpt)
