"""Input and use that broke the engine once: now typed errors, and nothing changed."""

from __future__ import annotations

import ctypes
import difflib
import gc
import json
import random
import subprocess
import sys
import time
from types import FrameType
from typing import Any

import numpy as np
import pytest

import llgx
from llgx.errors import suggestion
from llgx.ir import (
    Alternation,
    ByteSet,
    Condition,
    GrammarIR,
    Literal,
    ParamExpr,
    Production,
    Repeat,
    Rule,
    RuleRef,
    Terminal,
    TerminalRef,
)
from llgx.limits import Limits

EOG = 256
DEEP = 'start: "(" start ")" | "x"'
SECOND = 5.0  # a second, on a machine that others use too


@pytest.fixture(scope="module")
def vocabulary() -> llgx.Vocabulary:
    return llgx.Vocabulary.from_tokens([*(bytes((b,)) for b in range(256)), b"</s>"], eog=EOG)


def matcher_of(text: str, vocabulary: llgx.Vocabulary, **limits: int) -> llgx.Matcher:
    compiled = llgx.Grammar.from_lark(text).compile(vocabulary, limits=Limits(**limits))
    return llgx.Matcher(compiled)


def one_terminal(regex: Any) -> GrammarIR:
    return GrammarIR([Rule("start", [Production((TerminalRef(0),))])], [Terminal("T", regex)], 0)


# ------------------------------------------------------------------ limits


@pytest.mark.parametrize("states", range(1, 8))
def test_a_state_that_passed_the_limit_is_not_kept_half_made(
    vocabulary: llgx.Vocabulary, states: int
) -> None:
    text = 'start: A "1"*\nA: /[a-z]+/ & ~/.*foo.*/'
    whole = matcher_of(text, vocabulary).match_bytes(b"hello1")
    assert whole == (6, True)
    answers: set[object] = set()
    for _ in range(4):
        try:
            matcher = matcher_of(text, vocabulary, lexer_states=states)
            answers.add(matcher.match_bytes(b"hello1"))
            answers.add(matcher.match_bytes(b"hello1"))
        except llgx.LimitError as error:
            answers.add(error.limit)
    assert answers in ({whole}, {"lexer_states"})


@pytest.mark.parametrize("field", ["rows", "lexer_states"])
def test_asking_again_does_not_get_past_a_limit(vocabulary: llgx.Vocabulary, field: str) -> None:
    text = f'start: "{"(" * 40}"' if field == "lexer_states" else DEEP
    matcher = matcher_of(text, vocabulary, **{field: 8})
    refusals = 0
    for _ in range(20):
        try:
            matcher.consume(ord("("))
        except llgx.LimitError:
            refusals += 1
        assert matcher.compiled.stats()[field] <= 8
    assert refusals > 10


def test_a_matcher_goes_on_within_the_limit(vocabulary: llgx.Vocabulary) -> None:
    matcher = matcher_of('start: "(" start ")" | "x"', vocabulary, rows=12)
    taken = 0
    refused = False
    while not refused and taken < 50:
        try:
            matcher.consume(ord("("))
        except llgx.LimitError:
            refused = True
        else:
            taken += 1
    assert refused
    assert matcher.tokens == [ord("(")] * taken
    matcher.rollback(1)
    assert matcher.expected() == ('"("', '"x"')


def test_a_worn_grammar_is_compiled_anew(vocabulary: llgx.Vocabulary) -> None:
    grammar = llgx.Grammar.from_lark('start: "(" start ")" | "x"')
    limits = Limits(rows=40)
    first = grammar.compile(vocabulary, limits=limits)
    assert grammar.compile(vocabulary, limits=limits) is first
    matcher = llgx.Matcher(first)
    while not first.is_worn:
        matcher.consume(ord("("))
    second = grammar.compile(vocabulary, limits=limits)
    assert second is not first
    assert not second.is_worn
    assert matcher.allows(ord("x"))
    assert llgx.Matcher(second).allows(ord("("))


@pytest.mark.parametrize("value", [-1, 1.5, None, "3", True])
def test_limits_are_whole_numbers(value: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"Limits\.rows"):
        Limits(rows=value)


# ------------------------------------------------------------------ time


@pytest.mark.parametrize(
    "text",
    [
        'start: ("a"?){200}',
        'start: ("a"{0,1000}){0,1000}',
        'start: "a" start | ""',
        'start: "a" start | "b"',
        'start: s\ns: s s | "a"',
        "start: /(a{0,1000000}){0,1000000}b/",
        "start: /" + "(" * 30 + "a" + "{1,2})" * 30 + "/",
        "start: X0\n"
        + "".join(f'X{i}: (X{i + 1} "b" X{i + 1})*\n' for i in range(30))
        + "X30: /a{1,5000}b/",
        "start: T0\n" + "".join(f"T{i}: T{i + 1} T{i + 1}\n" for i in range(60)) + 'T60: "a"',
    ],
    ids=range(9),
)
def test_a_token_takes_bounded_time(vocabulary: llgx.Vocabulary, text: str) -> None:
    begin = time.process_time()
    try:
        matcher = matcher_of(text, vocabulary)
        matcher.try_consume([ord("a")] * 100)
        matcher.allowed_tokens()
    except llgx.LimitError:
        pass
    assert time.process_time() - begin < SECOND


@pytest.mark.parametrize(
    "text",
    [
        's: s s | "a"',
        's: s s s | s s | "a" | ""',
        's: s "a" s | s s | "a"',
        's: ("a"{0,1000}){0,1000}',
        's: (("a" | "aa"){0,90} "b"?){0,90}',
        "s: /((aa|aaa){3,1000}b?){2,900}/",
    ],
    ids=range(6),
)
def test_ambiguity_without_end(vocabulary: llgx.Vocabulary, text: str) -> None:
    begin = time.process_time()
    matcher = matcher_of(f"start: s\n{text}", vocabulary)
    limits = set()
    for _ in range(500):
        try:
            matcher.consume(ord("a"))
        except llgx.LimitError as error:
            limits.add(error.limit)
            break
    assert limits <= {"row_items"}
    assert len(matcher) > 50
    assert time.process_time() - begin < SECOND


@pytest.mark.parametrize(
    "regex",
    [
        Alternation(tuple(Literal(b"a" * i + b"b") for i in range(3000))),
        Alternation(tuple(Literal(b"a" * i) for i in range(3000))),
    ],
    ids=["with an end", "prefixes"],
)
def test_literals_that_are_prefixes_of_one_another(
    vocabulary: llgx.Vocabulary, regex: Alternation
) -> None:
    begin = time.process_time()
    matcher = llgx.Matcher(llgx.Grammar.from_ir(one_terminal(regex)).compile(vocabulary))
    assert matcher.match_bytes(b"a" * 2999)[0] == 2999
    assert matcher.match_bytes(b"a" * 3000)[0] == 2999
    assert time.process_time() - begin < SECOND


def test_repeats_of_repeats_count_right(vocabulary: llgx.Vocabulary) -> None:
    for low, high, least, most in [(2, 3, 2, 4), (3, 4, 2, 2), (1, 2, 0, 3), (0, 2, 3, 5)]:
        regex = Repeat(Repeat(ByteSet(1 << ord("a")), low, high), least, most)
        counts = {
            total
            for times in range(least, most + 1)
            for total in range(times * low, times * high + 1)
        }
        matcher = llgx.Matcher(llgx.Grammar.from_ir(one_terminal(regex)).compile(vocabulary))
        for count in range(25):
            accepted = matcher.match_bytes(b"a" * count) == (count, True)
            assert accepted == (count in counts), (low, high, least, most, count)


# ------------------------------------------------------------------ arrays


def test_masks_without_strides(vocabulary: llgx.Vocabulary) -> None:
    matcher = matcher_of('start: "ab"', vocabulary)
    words = (len(vocabulary) + 31) // 32
    array = ((ctypes.c_int32 * words) * 2)()
    matcher.fill_bitmask(array, 1)  # type: ignore[arg-type]
    expected = np.zeros(words, np.int32)
    expected[ord("a") // 32] = 1 << (ord("a") % 32)
    assert list(array[1]) == expected.tolist()
    assert list(array[0]) == [0] * words


@pytest.mark.parametrize("kind", ["array", "view", "spread", "class", "unaligned", "buffer"])
def test_whatever_holds_a_mask_is_written_alike(vocabulary: llgx.Vocabulary, kind: str) -> None:
    matcher = matcher_of('start: "ab" | "c"', vocabulary)
    words = (len(vocabulary) + 31) // 32
    whole: Any = np.zeros((3, words), np.int32)
    given: Any = {
        "array": whole,
        "view": whole[:2],
        "spread": np.zeros((5, words + 3), np.int32)[::2, 1:-2],
        "class": np.zeros((3, words), np.int32).view(np.matrix),
        "unaligned": np.zeros(12 * words + 1, np.uint8)[1:].view(np.int32).reshape(3, words),
        "buffer": memoryview(whole),
    }[kind]
    matcher.fill_bitmask(given, 1)
    expected = np.zeros(words, np.int32)
    expected[ord("a") // 32] = 1 << ord("a") % 32 | 1 << ord("c") % 32
    assert np.asarray(given)[1].tolist() == expected.tolist()
    assert not np.asarray(given)[0].any()


def test_a_mask_is_looked_at_anew_each_time(vocabulary: llgx.Vocabulary) -> None:
    matcher = matcher_of('start: "ab"', vocabulary)
    mask = llgx.allocate_token_bitmask(4, len(vocabulary))
    matcher.fill_bitmask(mask, 3)
    mask.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        matcher.fill_bitmask(mask, 3)
    mask.flags.writeable = True
    mask.resize((1, mask.shape[1]), refcheck=False)
    with pytest.raises(IndexError):
        matcher.fill_bitmask(mask, 3)


@pytest.mark.parametrize(
    "wrong",
    [
        np.zeros((1, 9), np.float32),
        np.zeros((1, 9), np.uint32),
        np.zeros((1, 9), np.int64),
        np.zeros((1, 8), np.int32),
        np.zeros((1, 10), np.int32),
        np.zeros(9, np.int32),
        np.zeros((1, 1, 9), np.int32),
        np.zeros((9, 1), np.int32).T,
        np.zeros((1, 18), np.int32)[:, ::2],
        np.zeros((2, 9), np.int32)[::-1],
        np.zeros((1, 9), ">i4"),
        [[0] * 9],
        None,
        b"",
    ],
    ids=range(14),
)
def test_masks_of_the_wrong_kind(vocabulary: llgx.Vocabulary, wrong: Any) -> None:
    matcher = matcher_of('start: "ab"', vocabulary)
    if (
        isinstance(wrong, np.ndarray)
        and wrong.shape == (1, 9)
        and wrong.flags.c_contiguous
        and wrong.dtype == np.int32
    ):
        matcher.fill_bitmask(wrong)  # a transposed single column is a row like any other
        return
    with pytest.raises((TypeError, ValueError)):
        matcher.fill_bitmask(wrong)
    assert matcher.tokens == []


# ------------------------------------------------------------------ calls


@pytest.mark.parametrize("token", [-1, -7, 257, 2**31, 2**40, 2**64 + 97, -(2**70)])
def test_tokens_out_of_range(vocabulary: llgx.Vocabulary, token: int) -> None:
    matcher = matcher_of('start: "ab"', vocabulary)
    with pytest.raises(llgx.TokenRejected) as caught:
        matcher.consume(token)
    assert caught.value.token == token
    assert str(token) in str(caught.value)
    assert not matcher.allows(token)
    assert matcher.validate([97, token]) == 1
    assert matcher.try_consume([97, token, 98]) == 1
    assert matcher.tokens == [97]


@pytest.mark.parametrize("count", [1, -1, 2**70, -(2**70)])
def test_rollback_beyond_the_start(vocabulary: llgx.Vocabulary, count: int) -> None:
    matcher = matcher_of('start: "ab"', vocabulary)
    with pytest.raises(ValueError, match="roll back"):
        matcher.rollback(count)


def test_finalizers_may_use_the_grammar_they_interrupt() -> None:
    """In a process of its own, since the fault was to wait for ever."""
    program = """
import gc, llgx
vocabulary = llgx.Vocabulary.from_tokens([bytes((b,)) for b in range(256)])
compiled = llgx.Grammar.from_lark("start: /a+/").compile(vocabulary)
class Finalizer:
    def __del__(self):
        llgx.Matcher(compiled).is_accepting()
for threshold in range(1, 12):
    for _ in range(20):
        it = Finalizer(); it.me = it; del it
        gc.set_threshold(threshold)
        matcher = llgx.Matcher(compiled)
        matcher.try_consume([97] * 9); matcher.expected(); matcher.forced_bytes()
        matcher.explain("aab"); compiled.stats(); matcher.validate([97] * 9)
        gc.set_threshold(700)
print("done")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout == "done\n"
    gc.collect()


# ------------------------------------------------------------------ descriptions


@pytest.mark.parametrize(
    "condition",
    [
        Condition("not"),
        Condition("and"),
        Condition("zzz"),
        Condition("true", items=(Condition("true"),)),
        Condition("bit_set", a=64),
        Condition("bit_clear", a=-1),
        Condition("eq", a=5, b=3),
        Condition("eq", a=0, b=65),
        Condition("eq", value=2**70),
        Condition("not", items=(5,)),  # type: ignore[arg-type]
    ],
    ids=range(10),
)
def test_guards_are_checked(condition: Condition) -> None:
    ir = one_terminal(Literal(b"a"))
    ir.rules[0].productions[0] = Production((TerminalRef(0),), condition)
    with pytest.raises(ValueError, match=r"condition|bit|fit"):
        llgx.Grammar.from_ir(ir)


def test_guards_without_end_are_refused() -> None:
    deep = Condition("true")
    for _ in range(1_000):
        deep = Condition("not", items=(deep,))
    wide = Condition("true")
    for _ in range(40):
        wide = Condition("and", items=(wide, wide))
    for condition in (deep, wide):
        ir = one_terminal(Literal(b"a"))
        ir.rules[0].productions[0] = Production((TerminalRef(0),), condition)
        with pytest.raises(ValueError, match="a guard of more than"):
            llgx.Grammar.from_ir(ir)


@pytest.mark.parametrize(
    "argument",
    [
        ParamExpr("zzz"),
        ParamExpr("set_bit", 64),
        ParamExpr("incr", 64, 200),
        ParamExpr("const", -1),
    ],
    ids=range(4),
)
def test_arguments_are_checked(argument: ParamExpr) -> None:
    ir = GrammarIR(
        [
            Rule("start", [Production((RuleRef(1, argument),))]),
            Rule("r", [Production((TerminalRef(0),))], parametric=True),
        ],
        [Terminal("T", Literal(b"a"))],
        0,
    )
    with pytest.raises(ValueError, match=r"operation|bit"):
        llgx.Grammar.from_ir(ir)


def test_guards_that_leave_no_beginning(vocabulary: llgx.Vocabulary) -> None:
    grammar = llgx.Grammar.from_lark('start: x::0\nx::_: "a" %if eq(_, 1)')
    with pytest.raises(llgx.GrammarError, match="no text"):
        grammar.compile(vocabulary)


def test_a_long_text_of_substrings_is_measured_part_by_part() -> None:
    """Shared parts were looked at once for each level that they stand on."""
    rng = random.Random(5)
    words = " ".join("".join(rng.choices("abcdefgh", k=rng.randint(2, 9))) for _ in range(4000))
    text = f"start: %regex {json.dumps({'substring_words': words})}"
    steps = 0

    def count(frame: FrameType, event: str, argument: object) -> object:
        nonlocal steps
        steps += 1
        return None

    sys.setprofile(count)
    try:
        llgx.Grammar.from_lark(text)
    finally:
        sys.setprofile(None)
    assert steps < 300 * len(words)


@pytest.mark.parametrize(
    "pattern",
    [
        "((aa|aaa){3,1000}b?){2,900}",
        "((a{2,3}){2,500}b?){3,700}c",
        "(((aa|aaa){1,50}b?){1,50}c?){4,80}",
    ],
)
def test_counters_in_counters_leave_few_alternatives(pattern: str) -> None:
    """There was one for each number of turns that the outer one may have made."""
    tokens = [bytes((b,)) for b in range(256)]
    vocabulary = llgx.Vocabulary.from_tokens([*tokens, b"<eos>"], eog=256)
    compiled = llgx.Grammar.from_regex(pattern).compile(vocabulary)
    matcher = llgx.Matcher(compiled)
    assert matcher.try_consume(b"a" * 2000) == 2000
    assert compiled.stats()["regex_nodes"] < 40_000


def test_the_nearest_name_is_found_among_many_without_comparing_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = [f"rule_number_{i}" for i in range(20_000)]
    assert suggestion("rule_numbr_12345", known) == " (did you mean 'rule_number_12345'?)"
    compared = 0

    class Counted(difflib.SequenceMatcher[str]):
        def ratio(self) -> float:
            nonlocal compared
            compared += 1
            return super().ratio()

    monkeypatch.setattr(difflib, "SequenceMatcher", Counted)
    suggestion("x" * 100, ["x" * 97 + f"{i:03}" for i in range(20_000)])
    assert 0 < compared < 50


def test_a_way_out_is_found_before_a_long_loop_is_counted(vocabulary: llgx.Vocabulary) -> None:
    """The search for a match goes to the end of a lexeme, not along its loop."""
    grammar = llgx.Grammar.from_lark("start: T\nT: /[ -}]{0,60000}~~/ & ~/.*!!.*/\n")
    compiled = grammar.compile(vocabulary, limits=Limits(emptiness_steps=2000))
    matcher = llgx.Matcher(compiled)
    assert matcher.match_bytes(b"ab!d~~") == (6, True)


def test_many_searches_for_a_match_go_where_more_of_them_are_done(
    vocabulary: llgx.Vocabulary,
) -> None:
    """By the least length alone each letter is as good as another, whatever has been found."""
    words = ("ab1", "b12", "bc1", "c12", "ca1", "a12", "1.*2", "[a|b]", "[b|c]", "ac", "a2", "a1")
    schema = {
        "type": "string",
        "allOf": [{"pattern": r"^\w{60}$"}, *({"pattern": word} for word in words)],
    }
    grammar = llgx.Grammar.from_json_schema(schema)
    compiled = grammar.compile(vocabulary, limits=Limits(emptiness_steps=5_000))
    text = json.dumps("ab12bc12ca12aca2" + "x" * 44).encode()
    assert llgx.Matcher(compiled).match_bytes(text) == (len(text), True)
    text = json.dumps("ab12bc12ca12a2" + "x" * 46).encode()
    assert not llgx.Matcher(compiled).match_bytes(text)[1]


@pytest.mark.parametrize(
    "ir",
    [
        GrammarIR([None], [], 0),  # type: ignore[list-item]
        GrammarIR(["x"], [], 0),  # type: ignore[list-item]
        GrammarIR([Rule("s", [None])], [], 0),  # type: ignore[list-item]
        GrammarIR([Rule("s", [Production(())])], [None], 0),  # type: ignore[list-item]
        GrammarIR(None, [], 0),  # type: ignore[arg-type]
    ],
    ids=range(5),
)
def test_descriptions_of_other_things_are_refused(ir: GrammarIR) -> None:
    with pytest.raises(ValueError, match=r"is no|are a list"):
        llgx.Grammar.from_ir(ir)


@pytest.mark.parametrize("bound", [2**32, 2**63 - 1, 10**400], ids=["32", "63", "long"])
def test_bounds_beyond_any_text_are_none(vocabulary: llgx.Vocabulary, bound: int) -> None:
    """A schema made from a type of 64 bits says so, and means that there is no bound."""
    schema = {"type": "string", "maxLength": bound, "pattern": "^a"}
    matcher = llgx.Matcher(llgx.Grammar.from_json_schema(schema).compile(vocabulary))
    assert matcher.match_bytes(b'"' + b"a" * 500 + b'"') == (502, True)
    with pytest.raises(llgx.GrammarError, match="4 billion times"):
        llgx.Grammar.from_json_schema({"type": "string", "minLength": bound}).compile(vocabulary)


def test_limits_have_a_limit() -> None:
    with pytest.raises(ValueError, match="mask_cache_bytes"):
        llgx.Limits(mask_cache_bytes=2**64)


@pytest.mark.parametrize(
    "regex", ["a{2000000000}", "(" * 600 + "a" + ")" * 600], ids=["count", "deep"]
)
def test_limits_of_regexes_are_placed(regex: str) -> None:
    with pytest.raises(llgx.LimitError, match="line 2, column 4: "):
        llgx.Grammar.from_lark(f"start: A\nA: /{regex}/")
