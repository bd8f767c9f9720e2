"""Stop conditions: lexemes that an end-of-generation token ends, and hidden tails.

The random comparison with the twin is in ``tests/campaign.py``; here are the single rules.
"""

from __future__ import annotations

import pytest

import llgx
from llgx.ir import (
    Alternation,
    Concat,
    GrammarIR,
    Literal,
    Production,
    Regex,
    Repeat,
    Rule,
    RuleRef,
    Terminal,
    TerminalRef,
    TokenSet,
)
from llgx.stops import texts_of
from tests import strategies
from tests.campaign import Walk, compare_walk
from tests.strategies import ANY_CHAR, byte_set, plus, star

EOS, END2, MARK = 256, 257, 258
TOKENS = (
    *(bytes((b,)) for b in range(256)),
    b"<eos>",
    b"<end>",
    b"<mark>",
    b"!x",
    b"a!",
    b"a!!x",
    b"!!",
    b"b!x?",
)
VOCABULARY = llgx.Vocabulary.from_tokens(TOKENS, eog=(EOS, END2), special=(MARK,))
TEXTS = strategies.TokenSet(TOKENS, (EOS, END2), (MARK,))
WORD = plus(byte_set(b"abc"))
TEXT = star(ANY_CHAR)


def stop(name: str, body: Regex, tail: Regex, *, hidden: bool = True) -> Terminal:
    return Terminal(name, Concat((body, tail)), lazy=True, tail=tail, hidden_tail=hidden)


def grammar(terminals: list[Terminal], *bodies: tuple[int, ...]) -> GrammarIR:
    """``start`` has a rule for each terminal, with captures; a body is a sequence of terminals."""
    rules = [Rule("start", [Production(tuple(RuleRef(1 + t) for t in body)) for body in bodies])]
    rules += [
        Rule(
            terminal.name,
            [Production((TerminalRef(index),))],
            capture=terminal.name,
            tail_capture=None if terminal.tail is None else f"{terminal.name} tail",
        )
        for index, terminal in enumerate(terminals)
    ]
    return GrammarIR(rules, terminals, 0)


def matcher(ir: GrammarIR) -> llgx.Matcher:
    return llgx.Matcher(llgx.Grammar.from_ir(ir).compile(VOCABULARY))


def captured(m: llgx.Matcher) -> list[tuple[str, bytes]]:
    return [(c.name, c.data) for c in m.captures()]


def agree(ir: GrammarIR, steps: int = 8) -> None:
    for seed in range(4):
        compare_walk(Walk(seed, ir, TEXTS, steps))


# --------------------------------------------------------------------------------------------------
# Ended by an end-of-generation token.


def eog_ended(regex: Regex, *more: Terminal) -> GrammarIR:
    terminals = [Terminal("t", regex, ends_with_eog=True), *more]
    return grammar(terminals, tuple(range(len(terminals))))


def test_an_end_token_ends_the_lexeme_and_the_text_goes_on() -> None:
    ir = eog_ended(WORD, Terminal("x", Literal(b"x")))
    m = matcher(ir)
    assert EOS not in m.allowed_tokens()
    m.consume(97)
    assert {EOS, END2} <= set(m.allowed_tokens())
    m.consume(EOS)
    assert m.stop_reason is None
    assert m.allowed_tokens() == [ord("x")]
    assert m.tokens == [97, EOS]
    m.consume(ord("x"))
    assert m.stop_reason == "complete"
    assert captured(m) == [("t", b"a"), ("x", b"x")]
    m.rollback(2)
    assert EOS in m.allowed_tokens()
    other = m.copy()
    other.consume(ord("x"))
    assert captured(other) == [("t", b"a"), ("x", b"x")]
    agree(ir)


def test_the_longest_match_goes_on_until_then() -> None:
    ir = eog_ended(Concat((Literal(b"a"), Repeat(Literal(b"ba"), 0, None))), Terminal("x", WORD))
    m = matcher(ir)
    assert m.try_consume([*b"ab", EOS]) == 2
    assert m.try_consume([*b"a", EOS, *b"b"]) == 3
    agree(ir)


def test_the_lexeme_takes_it_where_the_text_may_end_too() -> None:
    ir = eog_ended(WORD)
    ir.rules[0].productions.append(Production((RuleRef(1), RuleRef(1))))
    m = matcher(ir)
    assert m.try_consume([97, EOS]) == 2
    assert m.stop_reason is None
    assert m.is_accepting()
    assert m.try_consume([98, EOS]) == 2
    assert m.stop_reason == "complete"
    m.consume(EOS)
    assert m.stop_reason == "eog"
    agree(ir)


def test_nothing_is_forced_where_an_end_token_may_come() -> None:
    ir = eog_ended(Repeat(Literal(b"ab"), 1, 3), Terminal("x", Literal(b"x")))
    m = matcher(ir)
    assert m.forced_bytes() == b"ab"
    m.try_consume(list(b"ab"))
    assert m.forced_bytes() == b""
    m.consume(EOS)
    assert m.forced_bytes() == b"x"
    agree(ir)


def test_it_must_match_and_have_bytes() -> None:
    ir = eog_ended(star(Literal(b"ab")), Terminal("x", Literal(b"x")))
    m = matcher(ir)
    assert EOS not in m.allowed_tokens()  # as in llguidance: nothing is no lexeme
    m.consume(97)
    assert EOS not in m.allowed_tokens()
    agree(ir)


def test_white_space_is_not_ended_by_it() -> None:
    ir = eog_ended(WORD, Terminal("x", Literal(b"x")))
    ir.skip = [len(ir.terminals)]
    ir.terminals.append(Terminal("SKIP", plus(Literal(b" "))))
    m = matcher(ir)
    assert m.try_consume([97, 32, EOS]) == 2
    assert m.try_consume(list(b"x")) == 1
    agree(ir)


# --------------------------------------------------------------------------------------------------
# Hidden tails.


def test_what_follows_reads_the_tail_again() -> None:
    ir = grammar([stop("t", TEXT, Literal(b"!")), Terminal("end", Literal(b"!x"))], (0, 1))
    m = matcher(ir)
    m.try_consume(list(b"ab!"))
    assert m.forced_bytes() == b"x"
    assert captured(m) == [("t tail", b"!"), ("t", b"ab")]
    m.consume(ord("x"))
    assert m.stop_reason == "complete"
    assert captured(m) == [("t tail", b"!"), ("t", b"ab"), ("end", b"!x")]
    assert [c.start for c in m.captures()] == [2, 0, 2]
    m.rollback(2)
    assert m.allowed_tokens() != [ord("x")]
    agree(ir)


def test_what_cannot_read_it_begins_after_it() -> None:
    ir = grammar([stop("t", TEXT, Literal(b"!")), Terminal("end", Literal(b"x"))], (0, 1))
    m = matcher(ir)
    m.try_consume(list(b"ab!"))
    assert m.forced_bytes() == b"x"
    m.consume(ord("x"))
    assert captured(m) == [("t tail", b"!"), ("t", b"ab"), ("end", b"x")]
    assert m.captures()[-1].start == 3
    agree(ir)


def test_one_of_several_that_can_read_it_does() -> None:
    # llguidance reads it again only where nothing else could come.
    ir = grammar(
        [
            stop("t", TEXT, Literal(b"!x")),
            Terminal("one", Literal(b"!x?")),
            Terminal("two", Literal(b"!y")),
        ],
        (0, 1),
        (0, 2),
    )
    m = matcher(ir)
    m.try_consume(list(b"ab!x"))
    assert m.allowed_tokens() == [ord("?")]
    agree(ir)


def test_a_tail_over_several_tokens_and_a_token_over_all_of_it() -> None:
    ir = grammar([stop("t", TEXT, Literal(b"!!")), Terminal("end", Literal(b"!!x"))], (0, 1))
    m = matcher(ir)
    assert m.try_consume([TOKENS.index(b"a!"), ord("!")]) == 2
    assert m.forced_bytes() == b"x"
    m.reset()
    m.consume(TOKENS.index(b"a!!x"))
    assert m.stop_reason == "complete"
    assert captured(m) == [("t tail", b"!!"), ("t", b"a"), ("end", b"!!x")]
    agree(ir)


def test_tails_that_are_one_of_a_few_texts() -> None:
    tail = Alternation((Literal(b"!"), Literal(b"?")))
    ir = grammar([stop("t", TEXT, tail), Terminal("end", Literal(b"?x"))], (0, 1))
    m = matcher(ir)
    assert m.try_consume(list(b"a?x")) == 3
    m.reset()
    assert m.try_consume(list(b"a!?x")) == 4
    assert captured(m) == [("t tail", b"!"), ("t", b"a"), ("end", b"?x")]
    agree(ir)


def test_tails_that_can_be_anything_are_not_read_again() -> None:
    tail = Concat((plus(Literal(b"!")), Literal(b"x")))
    ir = grammar([stop("t", WORD, tail), Terminal("end", Literal(b"?"))], (0, 1))
    compiled = llgx.Grammar.from_ir(ir).compile(VOCABULARY)
    assert any("stop condition of t" in warning for warning in compiled.warnings)
    m = llgx.Matcher(compiled)
    assert m.try_consume(list(b"ab!!x?")) == 6
    assert captured(m) == [("t tail", b"!!x"), ("t", b"ab"), ("end", b"?")]
    agree(ir)


def test_stops_in_a_row_do_not_read_one_tail_for_ever() -> None:
    t = stop("t", star(byte_set(b"ab")), Literal(b"!"))
    ir = grammar([t], (0,), (0, 0), (0, 0, 0))
    m = matcher(ir)
    assert m.try_consume(list(b"a!b!!")) == 5
    assert captured(m) == [
        ("t tail", b"!"), ("t", b"a"), ("t tail", b"!"), ("t", b"b"), ("t tail", b"!"), ("t", b""),
    ]  # fmt: skip
    agree(ir, 12)


def test_a_tail_within_a_tail() -> None:
    first = stop("a", TEXT, Literal(b"!x?"))
    second = stop("b", byte_set(b"!"), Literal(b"x"))
    ir = grammar([first, second, Terminal("end", Literal(b"x?"))], (0, 1, 2))
    m = matcher(ir)
    m.try_consume(list(b"ab!x?"))
    assert m.stop_reason == "complete"
    assert captured(m) == [
        ("a tail", b"!x?"), ("a", b"ab"), ("b tail", b"x"), ("b", b"!"), ("end", b"x?"),
    ]  # fmt: skip
    agree(ir)


def test_of_two_stops_the_shorter_tail_counts() -> None:
    ir = grammar(
        [
            stop("t", WORD, Alternation((Literal(b"c!"), Literal(b"!")))),
            Terminal("x", Literal(b"!")),
            Terminal("y", Literal(b"c")),
        ],
        (0, 1),
        (0, 2),
    )
    m = matcher(ir)
    m.try_consume(list(b"ac!"))
    assert captured(m)[:2] == [("t tail", b"!"), ("t", b"ac")]
    agree(ir)


@pytest.mark.parametrize(
    "terminal",
    [
        Terminal("T", WORD, hidden_tail=True, lazy=True),
        Terminal("T", WORD, tail=WORD, hidden_tail=True),
        Terminal("T", WORD, lazy=True, ends_with_eog=True),
        Terminal("T", Alternation(()), tokens=TokenSet(negated=True), ends_with_eog=True),
    ],
)
def test_descriptions_that_are_inconsistent(terminal: Terminal) -> None:
    with pytest.raises(ValueError, match="terminal T"):
        matcher(grammar([terminal], (0,)))


def test_the_texts_of_a_tail() -> None:
    assert texts_of(Literal(b"ab")) == [b"ab"]
    assert texts_of(Alternation(())) == []
    assert texts_of(Repeat(byte_set(b"ab"), 0, 2)) == [b"", b"a", b"aa", b"ab", b"b", b"ba", b"bb"]
    assert texts_of(Concat((byte_set(b"ab"), Literal(b"x")))) == [b"ax", b"bx"]
    assert texts_of(star(Literal(b"a"))) is None
    assert texts_of(Repeat(byte_set(b"ab"), 0, 1 << 60)) is None
    assert texts_of(byte_set(range(256))) is None
    deep: Regex = Literal(b"a")
    for _ in range(3000):
        deep = Concat((deep,))
    assert texts_of(deep) is None
