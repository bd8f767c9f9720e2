"""Captures: what rules with a name for it derived.

Random grammars are compared with the definition (``tests/reference_captures.py``) in
``tests/campaign.py``; here are the rules one by one, and long and hostile texts.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

import llgx
from llgx.ir import (
    EMPTY,
    Concat,
    GrammarIR,
    Literal,
    Production,
    Regex,
    Rule,
    RuleRef,
    Symbol,
    Terminal,
    TerminalRef,
    TokenSet,
)
from tests import campaign
from tests.reference_captures import CyclicError, captures
from tests.reference_matcher import ReferenceMatcher
from tests.strategies import ANY_CHAR, byte_set, byte_tokens, plus, star

EOS, MARK, AB = 256, 257, 258
VOCABULARY = llgx.Vocabulary.from_tokens(
    [*(bytes((b,)) for b in range(256)), b"<eos>", b"<mark>", b"ab"], eog=[EOS], special=[MARK]
)
WORD = plus(byte_set(b"abcdefxyz"))
SPACE = plus(Literal(b" "))


class Builder:
    """A grammar by names; what is not a rule is a terminal."""

    def __init__(self, **rules: Sequence[Sequence[str]]) -> None:
        self.terminals: dict[str, Terminal] = {}
        self.rules = rules
        self.captures: dict[str, str] = {}
        self.tail_captures: dict[str, str] = {}
        self.skip: Regex | None = None

    def ir(self) -> GrammarIR:
        names = list(self.rules)
        terminals = list(self.terminals.values())
        places = {terminal.name: at for at, terminal in enumerate(terminals)}

        def symbol(name: str) -> Symbol:
            if name in self.rules:
                return RuleRef(names.index(name))
            if name not in places:
                places[name] = len(terminals)
                terminals.append(Terminal(name, Literal(name.encode())))
            return TerminalRef(places[name])

        rules = [
            Rule(
                name,
                [Production(tuple(map(symbol, body))) for body in bodies],
                capture=self.captures.get(name),
                tail_capture=self.tail_captures.get(name),
            )
            for name, bodies in self.rules.items()
        ]
        skip = [-1]
        if self.skip is not None:
            skip = [len(terminals)]
            terminals.append(Terminal("SKIP", self.skip))
        return GrammarIR(rules, terminals, 0, skip=skip)

    def matcher(self) -> llgx.Matcher:
        return llgx.Matcher(llgx.Grammar.from_ir(self.ir()).compile(VOCABULARY))


def spans(matcher: llgx.Matcher) -> list[tuple[str, bytes, int, int]]:
    return [(c.name, c.data, c.start, c.end) for c in matcher.captures()]


def after(builder: Builder, text: bytes | Sequence[int]) -> list[tuple[str, bytes, int, int]]:
    matcher = builder.matcher()
    assert matcher.try_consume(list(text)) == len(text)
    found = spans(matcher)
    assert spans(matcher.copy()) == found
    return found


def pairs() -> Builder:
    """``key=value;`` any number of times."""
    g = Builder(
        start=[[], ["start", "pair"]], pair=[["key", "=", "value", ";"]], key=[["W"]], value=[["W"]]
    )
    g.terminals["W"] = Terminal("W", WORD)
    g.captures = {"pair": "p", "key": "k", "value": "v"}
    return g


def test_in_the_order_in_which_they_end_with_spans() -> None:
    assert after(pairs(), b"a=b;cd=e;") == [
        ("k", b"a", 0, 1),
        ("v", b"b", 2, 3),
        ("p", b"a=b;", 0, 4),
        ("k", b"cd", 4, 6),
        ("v", b"e", 7, 8),
        ("p", b"cd=e;", 4, 9),
    ]


def test_a_text_that_goes_on_gives_what_has_ended() -> None:
    assert after(pairs(), b"") == []
    assert after(pairs(), b"ab") == []
    assert after(pairs(), b"ab=") == [("k", b"ab", 0, 2)]
    assert after(pairs(), b"ab=c") == [("k", b"ab", 0, 2)]
    assert after(pairs(), b"ab=c;x") == [
        ("k", b"ab", 0, 2),
        ("v", b"c", 3, 4),
        ("p", b"ab=c;", 0, 5),
    ]


def test_a_lexeme_that_may_end_counts_where_the_text_may_end() -> None:
    g = Builder(start=[["word"]], word=[["W"]])
    g.terminals["W"] = Terminal("W", WORD)
    g.captures = {"word": "w"}
    assert after(g, b"abc") == [("w", b"abc", 0, 3)]
    assert after(g, [*b"abc", EOS]) == [("w", b"abc", 0, 3)]
    assert after(g, [*b"abc", EOS, EOS]) == [("w", b"abc", 0, 3)]


def test_right_after_rollback_and_independent_of_other_copies() -> None:
    m = pairs().matcher()
    m.try_consume(list(b"a=b;"))
    before = spans(m)
    other = m.copy()
    other.try_consume(list(b"c=d;"))
    assert len(spans(other)) == 6
    assert spans(m) == before
    other.rollback(4)
    assert spans(other) == before
    other.rollback(2)
    assert spans(other) == [("k", b"a", 0, 1)]
    other.reset()
    assert spans(other) == []


def test_captures_are_frozen_and_have_names() -> None:
    m = pairs().matcher()
    m.try_consume(list(b"a="))
    (capture,) = m.captures()
    assert isinstance(capture, llgx.Capture)
    assert capture == llgx.Capture("k", b"a", 0, 1)
    with pytest.raises(AttributeError):
        capture.name = "x"  # type: ignore[misc]


def test_without_a_name_nothing_is_captured() -> None:
    g = pairs()
    g.captures = {}
    assert after(g, b"a=b;") == []


def test_white_space_around_is_left_out_and_within_is_kept() -> None:
    g = pairs()
    g.skip = SPACE
    assert after(g, b"a = b ;  c")[:3] == [
        ("k", b"a", 0, 1),
        ("v", b"b", 4, 5),
        ("p", b"a = b ;", 0, 7),
    ]


def test_a_rule_that_derives_nothing() -> None:
    g = Builder(start=[["a", "maybe", "b", "maybe"]], maybe=[[], ["x"]])
    g.captures = {"maybe": "m"}
    assert after(g, b"ab") == [("m", b"", 1, 1), ("m", b"", 2, 2)]
    assert after(g, b"axb") == [("m", b"x", 1, 2), ("m", b"", 3, 3)]
    assert after(g, b"axbx") == [("m", b"x", 1, 2), ("m", b"x", 3, 4)]


def test_two_derivations_the_first_production_counts() -> None:
    g = Builder(
        start=[["first"], ["second"]], first=[["a", "b"]], second=[["a", "rest"]], rest=[["b"]]
    )
    g.captures = {"first": "1", "second": "2", "rest": "r"}
    assert after(g, b"ab") == [("1", b"ab", 0, 2)]
    g.rules["start"] = [["second"], ["first"]]  # type: ignore[index]
    assert after(g, b"ab") == [("r", b"b", 1, 2), ("2", b"ab", 0, 2)]


def test_two_derivations_the_first_symbol_takes_what_it_can() -> None:
    g = Builder(start=[["left", "right"]], left=[[], ["left", "x"]], right=[[], ["right", "x"]])
    g.captures = {"left": "l", "right": "r"}
    found = after(g, b"xxx")
    assert found[-2:] == [("l", b"xxx", 0, 3), ("r", b"", 3, 3)]


def test_of_two_beginnings_the_first_production_counts() -> None:
    g = Builder(start=[["one", "c"], ["two", "d"]], one=[["a"]], two=[["a"]])
    g.captures = {"one": "1", "two": "2"}
    assert after(g, b"a") == [("1", b"a", 0, 1)]
    assert after(g, b"ad") == [("2", b"a", 0, 1)]


def test_a_lexeme_in_progress_decides_what_is_derived() -> None:
    g = Builder(start=[["one", "xyz"], ["two", "xa"]], one=[["a"]], two=[["a"]])
    g.captures = {"one": "1", "two": "2"}
    assert after(g, b"axa")[0][0] == "2"
    assert after(g, b"axy")[0][0] == "1"


def test_cycles_are_cut() -> None:
    g = Builder(start=[["a_rule"]], a_rule=[["b_rule"], ["x"]], b_rule=[["a_rule"], ["y"]])
    g.captures = {"a_rule": "a", "b_rule": "b"}
    assert after(g, b"x") == [("a", b"x", 0, 1)]
    assert after(g, b"y") == [("b", b"y", 0, 1), ("a", b"y", 0, 1)]
    g = Builder(start=[["start"], ["start", "start"], [], ["x"]])
    g.captures = {"start": "s"}
    assert ("s", b"xx", 0, 2) in after(g, b"xx")


def test_tails() -> None:
    g = Builder(start=[["line", "rest"]], line=[["L"]], rest=[["W"]])
    end = Literal(b"\n")
    g.terminals["L"] = Terminal("L", Concat((star(ANY_CHAR), end)), lazy=True, tail=end)
    g.terminals["W"] = Terminal("W", WORD)
    g.captures = {"line": "l", "rest": "r"}
    g.tail_captures = {"line": "t"}
    assert after(g, b"one two\nab") == [
        ("t", b"\n", 7, 8),
        ("l", b"one two", 0, 7),
        ("r", b"ab", 8, 10),
    ]
    g.captures["start"] = "s"  # ends with another terminal
    assert after(g, b"\na")[-1] == ("s", b"\na", 0, 2)


def test_a_tail_is_as_short_as_it_can_be() -> None:
    tail = Concat((plus(byte_set(b"0123456789")), Literal(b";")))
    g = Builder(start=[["x", "!"]], x=[["T"]])
    g.terminals["T"] = Terminal("T", Concat((star(ANY_CHAR), tail)), lazy=True, tail=tail)
    g.captures = {"x": "x"}
    g.tail_captures = {"x": "t"}
    # As llguidance has it: the body is greedy.
    assert after(g, b"abc123;") == [("t", b"3;", 5, 7), ("x", b"abc12", 0, 5)]


def test_tokens_without_text_add_no_bytes() -> None:
    g = Builder(start=[["a", "pair", "b"]], pair=[["M", "x", "I"]])
    g.terminals["M"] = Terminal("M", EMPTY, tokens=TokenSet(names=("<mark>",)))
    g.terminals["I"] = Terminal("I", EMPTY, tokens=TokenSet(ranges=((AB, AB),)))
    g.captures = {"pair": "p"}
    assert after(g, [97, MARK, 120, AB, 98]) == [("p", b"xab", 1, 4)]


def test_right_recursion_and_deep_nesting() -> None:
    g = Builder(start=[["item", "start"], ["item"]], item=[["a"]])
    g.captures = {"item": "i"}
    assert len(after(g, b"a" * 300)) == 300
    g = Builder(start=[["(", "start", ")"], ["x"]])
    g.captures = {"start": "s"}
    depth = 3000
    found = after(g, b"(" * depth + b"x" + b")" * depth)
    assert found[0] == ("s", b"x", depth, depth + 1)
    assert len(found) == depth + 1
    assert found[-1][2:] == (0, 2 * depth + 1)


def test_long_texts() -> None:
    count = 5000
    found = after(pairs(), b"a=b;" * count)
    assert len(found) == 3 * count
    assert found[-1] == ("p", b"a=b;", 4 * count - 4, 4 * count)


def test_more_than_the_limit_is_an_error_and_changes_nothing() -> None:
    g = Builder(start=[["start", "start"], ["a"]])
    g.captures = {"start": "s"}
    limits = llgx.Limits(chart_items=10_000)
    m = llgx.Matcher(llgx.Grammar.from_ir(g.ir()).compile(VOCABULARY, limits=limits))
    m.try_consume(list(b"a" * 20))
    assert len(m.captures()) == 39
    m.try_consume(list(b"a" * 100))
    with pytest.raises(llgx.LimitError, match=r"chart_items"):
        m.captures()
    m.rollback(100)
    assert len(m.captures()) == 39


def test_the_definition_has_something_to_say() -> None:
    # Random grammars are compared in the campaign: not all may be without captures, or cyclic.
    tokens = byte_tokens()
    nonempty = cyclic = 0
    for seed in range(150):
        walk = campaign.walk_of_seed(seed, tokens=tokens)
        if walk.ir.exact:
            continue  # without captures
        rng = random.Random(seed)
        twin = ReferenceMatcher(walk.ir, tokens.tokens, tokens.eog)
        for _ in range(6):
            mask = sorted(twin.mask() - twin.vocabulary.eog)
            if not mask:
                break
            twin.consume(rng.choice(mask))
        if twin.grammar.limited and twin.was_cut():
            continue
        try:
            nonempty += bool(captures(twin))
        except CyclicError:
            cyclic += 1
    assert nonempty > 8
    assert cyclic < 50
