"""Terminals that are tokens of the model, matched by id; and skipping by class.

The random comparison with the twin is in ``tests/campaign.py``; here are the single rules, each
with what it must not do.
"""

from __future__ import annotations

import random
import re

import pytest

import llgx
from llgx.ir import (
    EMPTY,
    Condition,
    GrammarIR,
    Literal,
    ParamExpr,
    Production,
    Regex,
    Repeat,
    Rule,
    RuleRef,
    Symbol,
    Terminal,
    TerminalRef,
    TokenSet,
)
from tests import strategies
from tests.campaign import ALL_CONFIGURATIONS, Walk, compare_walk
from tests.strategies import ANY_CHAR, byte_set, plus, star

EOS, THINK, DONE, AB, EMPTY_TOKEN, END2 = range(256, 262)
TOKENS = (
    *(bytes((b,)) for b in range(256)),
    b"<eos>",
    b"<think>",
    b"</think>",
    b"ab",
    b"",
    b"<end>",
)
VOCABULARY = llgx.Vocabulary.from_tokens(TOKENS, eog=(EOS, END2), special=(THINK, DONE))
TEXTS = strategies.TokenSet(TOKENS, (EOS, END2), (THINK, DONE))
WORD = plus(byte_set(b"abc"))


def named(*names: str) -> TokenSet:
    return TokenSet(names=names)


def ids(*ranges: tuple[int, int], negated: bool = False) -> TokenSet:
    return TokenSet(ranges=ranges, negated=negated)


def grammar(*bodies: tuple[Regex | TokenSet, ...], skip: Regex | None = None) -> GrammarIR:
    """One rule; every body is a sequence of terminals."""
    parts = list(dict.fromkeys(part for body in bodies for part in body))
    terminals = [
        Terminal(f"T{i}", EMPTY, tokens=part)
        if isinstance(part, TokenSet)
        else Terminal(f"T{i}", part)
        for i, part in enumerate(parts)
    ]
    productions = [Production(tuple(TerminalRef(parts.index(p)) for p in b)) for b in bodies]
    skips = [-1]
    if skip is not None:
        skips = [len(terminals)]
        terminals.append(Terminal("SKIP", skip))
    return GrammarIR([Rule("start", productions)], terminals, 0, skip=skips)


def matcher(ir: GrammarIR) -> llgx.Matcher:
    return llgx.Matcher(llgx.Grammar.from_ir(ir).compile(VOCABULARY))


def agree(ir: GrammarIR, steps: int = 8) -> None:
    for seed in range(4):
        compare_walk(Walk(seed, ir, TEXTS, steps))


def test_a_special_token_is_matched_by_name_and_never_as_text() -> None:
    ir = grammar((named("<think>"), star(ANY_CHAR), named("</think>")))
    m = matcher(ir)
    assert m.allowed_tokens() == [THINK]
    assert m.expected() == ("T0",)
    assert m.match_bytes(b"<think>") == (0, False)
    m.consume(THINK)
    assert DONE in m.allowed_tokens()
    assert THINK not in m.allowed_tokens()
    for byte in b"</think>":
        m.consume(byte)
    assert not m.is_accepting()
    m.consume(DONE)
    assert m.stop_reason == "complete"
    assert m.allowed_tokens() == [EOS, END2]
    agree(ir)


def test_a_text_without_special_tokens_allows_none() -> None:
    m = matcher(grammar((star(ANY_CHAR),)))
    assert not {THINK, DONE} & set(m.allowed_tokens())
    with pytest.raises(llgx.TokenRejected, match="special token"):
        m.consume(THINK)


def test_a_token_ends_a_lexeme_that_matches_and_no_other() -> None:
    ir = grammar((plus(Literal(b"ab")), named("<think>"), Literal(b"c")))
    m = matcher(ir)
    assert m.try_consume([97, THINK]) == 1
    assert m.try_consume([98, THINK, 99]) == 3
    assert m.is_stopped()
    agree(ir)


def test_the_id_wins_over_the_text_of_the_same_token() -> None:
    # As an id, AB ends the word; as text it would go on.
    ir = grammar((WORD, ids((AB, AB)), Literal(b"!")))
    m = matcher(ir)
    m.consume(97)
    m.consume(AB)
    assert m.allowed_tokens() == [ord("!")]
    m.rollback(1)
    assert m.try_consume([97, 98, AB, AB]) == 3
    agree(ir)


def test_all_terminals_that_a_token_is_go_on() -> None:
    ir = grammar(
        (ids((97, 99)), Literal(b"x")), (ids((99, 120)), Literal(b"y")), (named("<think>"),)
    )
    m = matcher(ir)
    assert m.allowed_tokens() == [*range(97, 121), THINK]
    m.consume(99)
    assert m.allowed_tokens() == [ord("x"), ord("y")]
    m.rollback(1)
    m.consume(98)
    assert m.allowed_tokens() == [ord("x")]
    agree(ir)


def test_any_token_is_every_token_but_those_that_end() -> None:
    assert matcher(grammar((TokenSet(negated=True),))).allowed_tokens() == [
        t for t in range(len(TOKENS)) if t not in (EOS, END2)
    ]
    allowed = matcher(grammar((ids((0, 255), negated=True),))).allowed_tokens()
    assert allowed == [THINK, DONE, AB, EMPTY_TOKEN]


def test_end_tokens_that_the_grammar_names() -> None:
    ir = grammar((Literal(b"a"), named("<eos>"), Literal(b"b")))
    m = matcher(ir)
    assert m.try_consume([97, END2]) == 1
    assert m.allowed_tokens() == [EOS]
    m.consume(EOS)
    assert m.stop_reason is None
    assert m.forced_bytes() == b"b"
    m.consume(98)
    assert m.stop_reason == "complete"
    m.consume(EOS)  # the text is complete: it ends it
    assert m.stop_reason == "eog"
    m.rollback(2)
    assert m.allowed_tokens() == [98]
    agree(ir)


def test_where_the_text_may_end_an_end_token_ends_it() -> None:
    m = matcher(grammar((Literal(b"a"),), (Literal(b"a"), named("<eos>"), Literal(b"b"))))
    assert m.try_consume([97, EOS]) == 2
    assert m.stop_reason == "eog"
    assert not m.allows(98)


def test_white_space_before_a_token() -> None:
    ir = grammar((WORD, named("<think>"), WORD), skip=plus(Literal(b" ")))
    m = matcher(ir)
    assert m.try_consume([97, 32, 32, THINK, 32, 98]) == 6
    assert m.is_accepting()
    agree(ir)


def test_forced_tokens_hold_those_that_are_named() -> None:
    ir = grammar((named("<think>"), Literal(b"ab"), named("</think>"), WORD))
    m = matcher(ir)
    assert m.forced_bytes() == b""
    assert m.forced_tokens() == [THINK, AB, DONE]
    m.consume(THINK)
    assert m.forced_bytes() == b"ab"
    assert m.forced_tokens() == [AB, DONE]
    assert matcher(grammar((named("<think>", "</think>"),))).forced_tokens() == []
    assert matcher(grammar((named("<think>"),), ())).forced_tokens() == []  # it may end, too
    agree(ir)


def test_text_that_could_be_a_token_is_not_forced() -> None:
    ir = grammar((Literal(b"abc"),), (named("<think>"),))
    m = matcher(ir)
    assert m.forced_bytes() == b""
    m.consume(97)
    assert m.forced_bytes() == b"bc"
    agree(ir)


def test_guards_that_leave_nothing_after_a_token() -> None:
    # r(bits): a token sets bit 0, and then nothing is left to do.
    step = RuleRef(1, ParamExpr("set_bit", 0))
    symbols: tuple[Symbol, ...] = (TerminalRef(0), step)
    ir = GrammarIR(
        [
            Rule("start", [Production((RuleRef(1, ParamExpr("const", 0)),))]),
            Rule(
                "r",
                [
                    Production(symbols, Condition("bit_clear", 0)),
                    Production((TerminalRef(1),), Condition("bit_clear", 0)),
                ],
                parametric=True,
            ),
        ],
        [
            Terminal("T", EMPTY, tokens=ids((97, 97))),
            Terminal("E", EMPTY, tokens=named("<think>")),
        ],
        0,
    )
    assert matcher(ir).allowed_tokens() == [THINK]
    agree(ir)


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (named("<thinking>"), "spelled '<thinking>': near ones are <think>, </think>"),
        (named("abx"), "no special token is spelled 'abx'"),
        (ids((0, 262)), "token range 0-262 in T0 reaches beyond the vocabulary of 262 tokens"),
        (ids((1 << 80, 1 << 80)), "beyond the vocabulary"),
    ],
)
def test_tokens_that_are_not_there(tokens: TokenSet, message: str) -> None:
    with pytest.raises(llgx.GrammarError, match=message):
        matcher(grammar((tokens,)))


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ('%llguidance {}\nstart: "a"\n  | <thnk> | <thnk>', 3, 5, "<thnk>"),
        ("%llguidance {}\n%declare THNK\nstart: THNK", 2, 10, "<thnk>"),
        ("%llguidance {}\nstart: T\nT: <[2-700]>", 3, 4, "beyond the vocabulary"),
        ("%llguidance {}\nstart: x\nx: %lark {\n start: <thnk> }", 4, 9, "<thnk>"),
        ('root ::= "a" |\n  <thnk>', 2, 3, "<thnk>"),
        ('root ::= "a" !<[700]>', 1, 14, "beyond the vocabulary"),
    ],
)
def test_tokens_that_are_not_there_are_pointed_at(
    text: str, line: int, column: int, message: str
) -> None:
    compiled = llgx.Grammar.from_string(text)
    with pytest.raises(llgx.GrammarError, match=re.escape(message)) as caught:
        compiled.compile(VOCABULARY)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert caught.value.excerpt.splitlines()[1] == " " * (column - 1) + "^"


def test_tokens_that_are_not_there_say_in_which_grammar() -> None:
    named_grammar = {"name": "x", "lark_grammar": "start:\n | <thnk>"}
    entered = llgx.Grammar.from_grammars([{"lark_grammar": "start: @x"}, named_grammar])
    with pytest.raises(llgx.GrammarError, match=r"line 2, column 4: .*\(in the grammar @x\)"):
        entered.compile(VOCABULARY)


def test_a_name_that_only_an_ordinary_token_has() -> None:
    ir = grammar((named("ab"), Literal(b"!")))
    m = matcher(ir)
    assert m.allowed_tokens() == [AB]
    agree(ir)
    assert matcher(grammar((named("<think>"),))).allowed_tokens() == [THINK]


def test_a_name_that_may_be_missing() -> None:
    optional = TokenSet(names=("<nope>", "<think>"), optional=True)
    ir = grammar((optional,), (Literal(b"a"),))
    assert matcher(ir).allowed_tokens() == [97, THINK]
    agree(ir)
    ir = grammar((TokenSet(names=("<nope>", "ab"), optional=True),), (Literal(b"a"),))
    assert matcher(ir).allowed_tokens() == [97]
    agree(ir)


def test_no_special_tokens_at_all() -> None:
    plain = llgx.Vocabulary.from_tokens([b"a", b"b"])
    ir = grammar((named("<think>"),))
    with pytest.raises(llgx.GrammarError, match="has no special tokens"):
        llgx.Grammar.from_ir(ir).compile(plain)


def test_a_set_without_tokens_matches_nothing() -> None:
    everything = ids((0, len(TOKENS) - 1), negated=True)
    with pytest.raises(llgx.GrammarError, match="T0 matches nothing"):
        matcher(grammar((everything,)))
    assert matcher(grammar((everything,), (Literal(b"a"),))).allowed_tokens() == [97]


@pytest.mark.parametrize(
    "terminal",
    [
        Terminal("T", Literal(b"a"), tokens=ids((0, 1))),
        Terminal("T", EMPTY, tokens=ids((2, 1))),
        Terminal("T", EMPTY, tokens=ids((-1, 1))),
        Terminal("T", EMPTY, tokens=TokenSet(names=(b"x",))),  # type: ignore[arg-type]
    ],
)
def test_descriptions_that_are_inconsistent(terminal: Terminal) -> None:
    ir = GrammarIR([Rule("start", [Production((TerminalRef(0),))])], [terminal], 0)
    with pytest.raises(ValueError, match="T"):
        llgx.Grammar.from_ir(ir)


def test_objects_of_a_description_are_what_they_say() -> None:
    with pytest.raises(TypeError, match="TokenSet"):
        Terminal("T", EMPTY, tokens="<think>")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="bytes"):
        Literal("a")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="tuple"):
        Production([TerminalRef(0)])  # type: ignore[arg-type]


def test_skipping_a_token_makes_no_sense() -> None:
    ir = grammar((WORD,))
    ir.terminals.append(Terminal("S", EMPTY, tokens=named("<think>")))
    ir.skip = [1]
    with pytest.raises(ValueError, match="skip terminal S is a model token"):
        llgx.Grammar.from_ir(ir)


def test_many_token_terminals_in_one_row() -> None:
    rng = random.Random(5)
    bodies = [(ids((i, i + rng.randint(0, 3))), Literal(b"%d" % i)) for i in range(250)]
    compare_walk(Walk(1, grammar(*bodies), TEXTS, 6), ALL_CONFIGURATIONS[:2])


# --------------------------------------------------------------------------------------------------
# Skip classes.

_SPACES = plus(Literal(b" "))
_BLANK = plus(byte_set(b" \n"))


def _two_classes(**options: object) -> GrammarIR:
    """Inner ``a`` (class 1) any number of times, then outer ``z`` (class 0)."""
    return GrammarIR(
        [
            Rule("start", [Production((RuleRef(1), TerminalRef(1)))]),
            Rule("inner", [Production(()), Production((RuleRef(1), TerminalRef(0)))]),
        ],
        [
            Terminal("a", Literal(b"a"), skip_class=1),
            Terminal("z", Literal(b"z"), skip_class=0),
            Terminal("OUTER", _SPACES),
            Terminal("INNER", _BLANK),
        ],
        0,
        skip=[2, 3],
        **options,  # type: ignore[arg-type]
    )


def _fits(ir: GrammarIR, text: bytes) -> bool:
    return matcher(ir).match_bytes(text) == (len(text), True)


def test_white_space_of_a_class_stands_before_its_terminals_only() -> None:
    ir = _two_classes()
    assert _fits(ir, b"a a\na z")
    assert not _fits(ir, b"a\nz")
    ir.skip[0] = -1
    assert _fits(ir, b"a a\naz")
    assert not _fits(ir, b"a z")
    agree(ir)


def test_once_in_one_class_and_any_number_of_times_in_the_other() -> None:
    ir = _two_classes(skip_once=True, skip_once_classes=frozenset((1,)))
    ir.terminals[2] = Terminal("OUTER", Literal(b" "))
    ir.terminals[3] = Terminal("INNER", byte_set(b" \n"))
    assert _fits(ir, b"a aa\na   z")
    assert not _fits(ir, b"a  a")
    assert matcher(ir).match_bytes(b"a  az") == (3, False)
    agree(ir, 12)
    ir.skip_once_classes = frozenset((0,))
    assert _fits(ir, b"a \n a z")
    assert not _fits(ir, b"a  z")
    agree(ir, 12)
    ir.skip_once_classes = None
    assert not _fits(ir, b"a  az")
    assert not _fits(ir, b"a  z")
    agree(ir, 12)


def test_bounded_white_space_stays_bounded() -> None:
    ir = grammar((WORD, WORD), skip=Repeat(Literal(b" "), 1, 3))
    ir.skip_once = True
    assert _fits(ir, b"a   b")
    assert not _fits(ir, b"a    b")
    ir.skip_once_classes = frozenset()
    assert _fits(ir, b"a    b")
