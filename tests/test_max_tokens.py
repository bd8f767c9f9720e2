"""Limits on tokens: of a whole text, and of a derivation. Also the temperature of a rule.

The random comparison with the twin is in ``tests/campaign.py``; here are the single rules.
"""

from __future__ import annotations

import re
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
from tests.strategies import ANY_CHAR, byte_set, plus, sequence, star

EOS, MARK = 256, 257
TOKENS = (
    *(bytes((b,)) for b in range(256)),
    b"<eos>",
    b"<mark>",
    b"ab",
    b"abc",
    b"b!",
    b"a!a",
    b'a"',
    b"\xc3\xa9",
)
VOCABULARY = llgx.Vocabulary.from_tokens(TOKENS, eog=EOS, special=[MARK])
TEXTS = strategies.TokenSet(TOKENS, (EOS,), (MARK,))
WORD = plus(byte_set(b"abc"))
TEXT = star(ANY_CHAR)


def ids(text: str) -> list[int]:
    """Tokens by their texts, separated by spaces."""
    return [TOKENS.index(part.encode()) for part in text.split()]


class Builder:
    """A grammar by names; what is not a rule is a terminal."""

    def __init__(self, **rules: Sequence[Sequence[str]]) -> None:
        self.rules = rules
        self.terminals: dict[str, Terminal] = {}
        self.most: dict[str, int] = {}
        self.temperatures: dict[str, float] = {}
        self.skip: Regex | None = None
        self.max_tokens: int | None = None

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
                capture=name,
                max_tokens=self.most.get(name),
                temperature=self.temperatures.get(name),
            )
            for name, bodies in self.rules.items()
        ]
        skip = [-1]
        if self.skip is not None:
            skip = [len(terminals)]
            terminals.append(Terminal("SKIP", self.skip))
        return GrammarIR(rules, terminals, 0, skip=skip, max_tokens=self.max_tokens)

    def matcher(self) -> llgx.Matcher:
        return llgx.Matcher(llgx.Grammar.from_ir(self.ir()).compile(VOCABULARY))

    def agree(self, steps: int = 10) -> None:
        ir = self.ir()
        for seed in range(3):
            compare_walk(Walk(seed, ir, TEXTS, steps), ALL_CONFIGURATIONS[:2])


def one(regex: Regex, most: int) -> Builder:
    """A limited word and an end."""
    g = Builder(start=[["word", "!"]], word=[["W"]])
    g.terminals["W"] = Terminal("W", regex)
    g.most["word"] = most
    return g


def texts(matcher: llgx.Matcher) -> set[bytes]:
    return {TOKENS[token] for token in matcher.allowed_tokens()}


# --------------------------------------------------------------------------------------------------
# Of a whole text.


def test_a_text_ends_where_its_tokens_are_spent() -> None:
    g = Builder(start=[["W"]])
    g.terminals["W"] = Terminal("W", WORD)
    g.max_tokens = 2
    m = g.matcher()
    assert m.try_consume(ids("a b c")) == 2
    assert m.stop_reason == "max_tokens"
    assert m.is_stopped()
    assert m.allowed_tokens() == [EOS]
    assert m.forced_bytes() == b""
    with pytest.raises(llgx.TokenRejected, match="max_tokens=2"):
        m.consume(ids("c")[0])
    m.consume(EOS)
    assert m.stop_reason == "eog"
    assert m.is_accepting()
    m.rollback(2)
    assert m.stop_reason is None
    assert m.try_consume(ids("ab")) == 1
    g.agree()


def test_a_text_that_is_cut_is_not_complete() -> None:
    g = Builder(start=[["ab", "!"]])
    g.max_tokens = 1
    m = g.matcher()
    m.consume(ids("a")[0])
    assert m.stop_reason == "max_tokens"
    assert m.allowed_tokens() == [EOS]
    m.try_consume([EOS, EOS])
    assert m.stop_reason == "eog"
    assert not m.is_accepting()
    assert m.validate(ids("b")) == 0
    g.agree()


def test_no_tokens_at_all() -> None:
    g = Builder(start=[["a"]])
    g.max_tokens = 0
    m = g.matcher()
    assert m.stop_reason == "max_tokens"
    assert m.allowed_tokens() == [EOS]
    g.agree()


# --------------------------------------------------------------------------------------------------
# Of a lexeme.


def test_a_lexeme_ends_with_its_last_token() -> None:
    g = one(WORD, 2)
    m = g.matcher()
    assert m.try_consume(ids("a b c")) == 2
    assert m.allowed_tokens() == ids("!")
    assert m.forced_bytes() == b"!"
    m.consume(ids("!")[0])
    assert m.stop_reason == "complete"
    assert [(c.name, c.data) for c in m.captures()] == [("word", b"ab"), ("start", b"ab!")]
    g.agree()


def test_what_counts_are_tokens_and_not_bytes() -> None:
    m = one(WORD, 2).matcher()
    assert m.try_consume(ids("abc abc a")) == 2
    m.reset()
    assert m.try_consume(ids("ab b!")) == 2  # the second one ends it
    assert m.stop_reason == "complete"


def test_rollback_and_copy_give_the_tokens_back() -> None:
    m = one(WORD, 3).matcher()
    m.try_consume(ids("a b"))
    other = m.copy()
    assert other.try_consume(ids("c a")) == 1
    m.rollback(1)
    assert m.try_consume(ids("a a a")) == 2
    other.rollback(2)
    assert other.try_consume(ids("a a a")) == 2


def test_with_one_token_left_only_what_ends_well() -> None:
    quoted = sequence(b'"', star(byte_set(b"ab")), b'"')
    g = one(quoted, 3)
    m = g.matcher()
    m.try_consume(ids('" a'))
    assert texts(m) == {b'"', b'a"'}
    with pytest.raises(llgx.TokenRejected):
        m.consume(ids("a")[0])
    assert m.validate(ids("b")) == 0
    assert m.try_consume(ids('a" !')) == 2
    g.agree()


def test_where_nothing_ends_well_the_lexeme_is_cut() -> None:
    g = one(Repeat(Literal(b"a"), 6, 6), 2)
    m = g.matcher()
    m.consume(ids("a")[0])
    assert texts(m) == {b"a"}
    m.consume(ids("a")[0])
    assert m.allowed_tokens() == ids("!")
    m.consume(ids("!")[0])
    assert m.stop_reason == "complete"
    m.captures()  # whatever it says, it says it
    g.agree()


def test_a_character_is_not_cut_in_two() -> None:
    g = one(TEXT, 2)
    m = g.matcher()
    m.consume(ids("a")[0])
    assert b"\xc3" not in texts(m)
    assert "\u00e9".encode() in texts(m)


def test_no_more_than_one_token() -> None:
    g = one(WORD, 1)
    m = g.matcher()
    assert {b"a", b"ab", b"abc", b"b!"} <= texts(m)
    m.consume(ids("abc")[0])
    assert m.allowed_tokens() == ids("!")
    g.agree()


def test_no_token_means_no_text() -> None:
    g = one(WORD, 0)
    assert g.matcher().forced_bytes() == b"!"
    g.agree()


def test_white_space_before_a_lexeme_is_not_part_of_it() -> None:
    g = one(WORD, 2)
    g.rules["start"] = [["!", "word", "!"]]  # type: ignore[index]
    g.skip = plus(Literal(b" "))
    m = g.matcher()
    space = 32
    assert m.try_consume([*ids("!"), space, space, space, *ids("a b c")]) == 6
    assert texts(m) == {b" ", b"!"}
    g.agree()


# --------------------------------------------------------------------------------------------------
# Of more than a lexeme.


def nested(most: int) -> Builder:
    g = Builder(
        start=[["(", "list", ")", "!"]], list=[["item"], ["list", ",", "item"]], item=[["W"]]
    )
    g.terminals["W"] = Terminal("W", WORD)
    g.most["list"] = most
    return g


def test_a_rule_is_over_with_its_last_token() -> None:
    g = nested(3)
    m = g.matcher()
    assert m.try_consume(ids("( a , b")) == 4
    assert texts(m) == {b")"}
    m.rollback(1)
    assert texts(m) == {b"a", b"b", b"c", b"ab", b"abc"}
    g.agree()


def test_a_rule_that_cannot_end_in_time_is_cut() -> None:
    g = nested(2)
    m = g.matcher()
    m.try_consume(ids("( a"))
    # One token is left, and a comma does not end a list; another letter does.
    assert b"," not in texts(m)
    assert b")" in texts(m)
    g.rules["list"] = [["item", ",", "item"]]  # type: ignore[index]
    m = g.matcher()
    assert m.try_consume(ids("( a ,")) == 3
    assert texts(m) == {b")"}
    assert m.try_consume(ids(") !")) == 2
    g.agree()


def test_limits_within_limits() -> None:
    g = nested(5)
    g.most["item"] = 2
    m = g.matcher()
    assert m.try_consume(ids("( a b")) == 3
    assert texts(m) == {b",", b")"}
    assert m.try_consume(ids(", a b")) == 3
    assert texts(m) == {b")"}
    g.agree(14)


def test_another_reading_of_the_text_goes_on() -> None:
    g = Builder(start=[["short", "!"], ["long", "?"]], short=[["S"]], long=[["L"]])
    g.terminals["S"] = Terminal("S", WORD)
    g.terminals["L"] = Terminal("L", plus(byte_set(b"abcd")))
    g.most["short"] = 2
    m = g.matcher()
    assert m.try_consume(ids("a b")) == 2
    assert b"c" in texts(m)
    assert b"!" not in texts(m)
    assert m.try_consume(ids("c d ?")) == 3
    g.agree()


def test_nothing_is_forced_within_a_limit() -> None:
    g = Builder(start=[["two", "!"]], two=[["ab", "abc"]])
    g.most["two"] = 5
    m = g.matcher()
    assert m.forced_bytes() == b"a"
    m.consume(ids("a")[0])
    assert m.forced_bytes() == b""
    g.agree()


def test_a_stop_within_a_limit_is_read_again() -> None:
    end = Literal(b"!")
    g = Builder(start=[["think", "end"]], think=[["T"]], end=[["!", "a"]])
    g.terminals["T"] = Terminal("T", Concat((TEXT, end)), lazy=True, tail=end, hidden_tail=True)
    g.most["think"] = 3
    m = g.matcher()
    assert m.try_consume(ids("a b! a")) == 3
    assert m.stop_reason == "complete"
    m.reset()
    m.try_consume(ids("a b"))
    assert b"b!" in texts(m)
    assert b"b" not in texts(m)
    g.agree()


def test_tokens_of_the_grammar_count_too() -> None:
    g = Builder(start=[["marks", "!"]], marks=[["M"], ["marks", "M"]])
    g.terminals["M"] = Terminal("M", EMPTY, tokens=TokenSet(names=("<mark>",)))
    g.most["marks"] = 2
    m = g.matcher()
    assert m.try_consume([MARK, MARK, MARK]) == 2
    assert m.allowed_tokens() == ids("!")
    g.agree()


def test_large_limits_and_long_texts() -> None:
    g = one(TEXT, 1 << 70)
    m = g.matcher()
    assert m.try_consume(ids("a") * 3000) == 3000
    g = one(TEXT, 2000)
    m = g.matcher()
    assert m.try_consume(ids("a") * 3000) == 2000
    assert m.allowed_tokens() == ids("!")


def test_deep_nesting_within_a_limit() -> None:
    g = Builder(start=[["nest", "!"]], nest=[["(", "nest", ")"], ["a"]])
    g.most["nest"] = 4000
    m = g.matcher()
    depth = 3999
    assert m.try_consume(ids("(") * depth) == depth
    assert m.forced_bytes() == b""
    m.consume(ids("a")[0])
    assert b"!" in texts(m)


# --------------------------------------------------------------------------------------------------
# Of what begins with a rule.


def lark(text: str) -> llgx.Matcher:
    return llgx.Matcher(llgx.Grammar.from_lark(text).compile(VOCABULARY))


@pytest.mark.parametrize(
    ("rules", "pattern"),
    [
        ('x[max_tokens=2]: y\ny: ("a" | "b")+', "[ab]+"),
        ('x[max_tokens=3]: y\ny: ("a" | "b" | "c")+', "[abc]+"),
        ('x[max_tokens=3]: n y\nn: "c"?\ny: "a" | y "b"', "c?ab*"),
        ('x[max_tokens=2]: "a" | y "b"\ny: "a" | x "b"', "ab*"),
        ('x[max_tokens=3]: y z\ny: "a"\nz: | "b" z', "ab*"),
        ('x[max_tokens=4]: y\ny[max_tokens=2]: z\nz: "a" | z "b"', "ab*"),
        ("x[max_tokens=3]: %lark {\nstart: y\ny: w+\nw: /[ab]/ /c?/\n}\n", "([ab]c?)+"),
    ],
)
def test_limits_on_what_begins_with_a_rule_are_held_to(rules: str, pattern: str) -> None:
    """Against all sequences of tokens, where every beginning of the text could end."""
    m = lark(f'start: x "!" x "!"\n{rules}')
    most = min(int(n) for n in re.findall(r"max_tokens=(\d)", rules))
    tokens = [token for token in range(256, len(TOKENS)) if token not in (EOS, MARK)]
    tokens += b"abc!"
    complete: set[tuple[int, ...]] = set()

    def visit(sequence: tuple[int, ...]) -> None:
        if m.stop_reason == "complete":
            complete.add(sequence)
        elif len(sequence) < 5:
            for token in tokens:
                if m.allows(token):
                    m.consume(token)
                    visit((*sequence, token))
                    m.rollback(1)

    def fits(sequence: tuple[int, ...]) -> bool:
        """Whether both words are words, and each has a byte in no more than ``most`` tokens."""
        text = b"".join(TOKENS[token] for token in sequence).decode("latin-1")
        if not re.fullmatch(f"(?:{pattern})!(?:{pattern})!", text):
            return False
        owner = [at for at, token in enumerate(sequence) for _ in TOKENS[token]]
        first = text.index("!")
        return all(len(set(part)) <= most for part in (owner[:first], owner[first + 1 : -1]))

    visit(())
    expected: set[tuple[int, ...]] = set()
    todo: list[tuple[int, ...]] = [()]
    beginning = re.compile("[abc]*!?[abc]*!?")
    while todo:
        sequence = todo.pop()
        if fits(sequence):
            expected.add(sequence)
        for token in tokens if len(sequence) < 5 else []:
            text = b"".join(TOKENS[t] for t in (*sequence, token)).decode("latin-1")
            if beginning.fullmatch(text):
                todo.append((*sequence, token))
    assert complete
    assert complete == expected


def test_json_is_cut_with_its_last_token() -> None:
    schema = '%json {"type": "array", "items": {"type": "integer"}}'
    m = lark(f'start: "a" x "!"\nx[max_tokens=3]: {schema}')
    m.try_consume(ids("a [ 1"))
    # One token is left: a bracket ends it.
    assert texts(m) == {b"]"}
    assert m.try_consume(ids("] !")) == 2
    m = lark(f'start: "a" x "!"\nx[max_tokens=3]: {schema}')
    assert m.forced_bytes() == b"a["
    assert m.try_consume(ids("a [")) == 2
    assert m.try_consume([32, 32]) == 1
    assert texts(m) == {b"]"}
    # What cannot end in time is cut, and the text goes on after it.
    m = lark(f'start: "a" x "!"\nx[max_tokens=2]: {schema}'.replace("integer", "null"))
    m.try_consume(ids("a ["))
    assert texts(m) == {b"]"}
    m = lark('start: "a" x "!"\nx[max_tokens=2]: %json {"const": [1, 2]}')
    assert m.try_consume(ids("a [ 1 !")) == 4
    assert m.stop_reason == "complete"


def test_a_limit_on_a_reference() -> None:
    grammar = llgx.Grammar.from_grammars(
        [
            {"lark_grammar": 'start: x "!" x\nx[max_tokens=2]: @word'},
            {"name": "word", "lark_grammar": 'start: letter+\nletter: "a" | "b" "c"?'},
        ]
    )
    m = llgx.Matcher(grammar.compile(VOCABULARY))
    assert m.try_consume(ids("abc a")) == 2
    assert m.allowed_tokens() == ids("!")
    assert m.try_consume(ids("! a")) == 2
    assert texts(m) == {b"a", b"ab", b"abc", b"b", b"<eos>"}
    assert m.try_consume(ids("b")) == 1
    assert m.stop_reason == "complete"


def test_forcing_goes_on_once_the_limited_rule_is_over() -> None:
    m = lark('start: x "!" "?" \nx[max_tokens=9]: y "b"\ny: "a" | "c"')
    m.try_consume(ids("a"))
    assert m.forced_bytes() == b""
    m.try_consume(ids("b"))
    assert m.forced_bytes() == b"!?"


@pytest.mark.parametrize("most", [-1, 1.5, "3", True])
def test_limits_are_counts(most: object) -> None:
    g = one(WORD, most)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="max_tokens"):
        g.matcher()


# --------------------------------------------------------------------------------------------------
# Beside distinct lexemes.


def unique(most: int, rule: str = "list") -> Builder:
    """Lists in parentheses of different words, and of lists in brackets of different words."""
    g = Builder(
        start=[["list", "!"]],
        list=[["(", "items", ")"]],
        items=[["item"], ["items", ",", "item"]],
        item=[["W"], ["inner"]],
        inner=[["[", "words", "]"]],
        words=[["W"], ["words", ",", "W"]],
    )
    g.terminals["W"] = Terminal("W", WORD, distinct=True)
    g.terminals["("] = Terminal("(", Literal(b"("), scope="open", unique=True)
    g.terminals[")"] = Terminal(")", Literal(b")"), scope="close")
    g.terminals["["] = Terminal("[", Literal(b"["), scope="open")
    g.terminals["]"] = Terminal("]", Literal(b"]"), scope="close")
    g.most[rule] = most
    return g


def test_distinct_lexemes_within_a_limit() -> None:
    g = unique(6)
    m = g.matcher()
    assert m.try_consume(ids("( a , a")) == 4
    assert b")" not in texts(m)  # "a" is there already
    assert m.try_consume(ids("b a")) == 1
    # One token is left.
    assert texts(m) == {b")"}
    assert m.try_consume(ids(") !")) == 2
    assert m.stop_reason == "complete"
    g.agree()


def test_a_lexeme_that_must_differ_does_not_end_early() -> None:
    """It is cut instead, and the text does not hold it twice."""
    g = Builder(start=[["(", "word", ",", "word", ")"]], word=[["W"]])
    g.terminals["("] = Terminal("(", Literal(b"("), scope="open")
    g.terminals[")"] = Terminal(")", Literal(b")"), scope="close")
    g.terminals["W"] = Terminal("W", WORD, distinct=True)
    g.most["word"] = 2
    m = g.matcher()
    m.try_consume(ids("( a , a"))
    assert b"," not in texts(m)
    assert texts(m) == {b"a", b"b", b"c", b"ab", b"abc"}
    assert m.try_consume(ids("b )")) == 2
    g.agree()


def test_a_cut_leaves_the_scopes_that_were_opened_in_it() -> None:
    g = unique(2, "inner")
    m = g.matcher()
    assert m.try_consume(ids("( a , [ a")) == 5
    # The inner list is cut; what comes next is in the outer one again, which has an "a".
    assert texts(m) == {b",", b")"}
    assert m.try_consume(ids(", a")) == 2
    assert b")" not in texts(m)
    assert m.try_consume(ids("a ) !")) == 3
    assert m.stop_reason == "complete"
    g.agree(14)


def test_unique_items_of_a_schema_within_a_limit() -> None:
    schema = '%json {"type": "array", "items": {"enum": ["a", "b"]}, "uniqueItems": true}'
    m = lark(f'start: x "!" x "!"\nx[max_tokens=4]: {schema}')
    quote = ids('"')
    assert m.try_consume([*ids("["), *quote, *ids('a" ] !')]) == 5
    assert m.try_consume([*ids("["), *quote]) == 2
    assert texts(m) == {b"a", b'a"', b"b"}
    m.try_consume(ids('a"'))
    assert texts(m) == {b"]"}


# --------------------------------------------------------------------------------------------------
# Temperatures.


def test_temperature_of_the_innermost_rules() -> None:
    g = nested(100)
    g.temperatures = {"start": 0.1, "item": 0.9}
    m = g.matcher()
    assert m.temperature == 0.1
    m.try_consume(ids("("))
    assert m.temperature == 0.9
    m.try_consume(ids("a"))
    assert m.temperature == 0.9
    m.try_consume(ids(", a )"))
    assert m.temperature == 0.1
    m.try_consume([*ids("!"), EOS])
    assert m.temperature is None
    assert nested(3).matcher().temperature is None


def test_the_highest_of_several_temperatures() -> None:
    g = Builder(start=[["one", "!"], ["two", "?"]], one=[["W"]], two=[["V"]])
    g.terminals["W"] = Terminal("W", WORD)
    g.terminals["V"] = Terminal("V", plus(byte_set(b"a1")))
    g.temperatures = {"one": 0.0, "two": 1.5}
    m = g.matcher()
    assert m.temperature == 1.5
    m.try_consume(ids("a b"))
    assert m.temperature == 0.0


@pytest.mark.parametrize("temperature", [-0.1, float("inf"), float("nan")])
def test_temperatures_make_sense(temperature: float) -> None:
    g = one(WORD, 1)
    g.temperatures["word"] = temperature
    with pytest.raises(ValueError, match="temperature"):
        g.matcher()
