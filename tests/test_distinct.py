"""Distinct lexemes in scopes: unique keys, unique items, and what they leave to be said."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

import pytest

import llgx
from llgx.ir import (
    Alternation,
    GrammarIR,
    Literal,
    Production,
    Regex,
    Repeat,
    Rule,
    RuleRef,
    Terminal,
    TerminalRef,
)
from llgx.limits import Limits, Shortcuts
from tests import campaign, reference_matcher, strategies
from tests.campaign import Walk, compare_walk
from tests.reference import ReferenceGrammar, TooWideError
from tests.strategies import (
    INTEGER,
    JSON_STRING,
    TokenSet,
    byte_tokens,
    either,
    plus,
    random_scoped_grammar,
    random_tokens,
    sequence,
)

AB = strategies.byte_set(b"ab")
TOKENS = byte_tokens()
SECOND = 5.0  # a second, on a machine that others use too


@pytest.fixture(scope="module")
def vocabulary() -> llgx.Vocabulary:
    return llgx.Vocabulary.from_tokens(TOKENS.tokens, eog=TOKENS.eog)


def json_like(
    key: Regex = JSON_STRING,
    item: Regex = INTEGER,
    *,
    unique: bool = True,
    spaces: bool = False,
    pair: bool = False,
) -> GrammarIR:
    """Objects with distinct keys ``key``, arrays of distinct ``item`` and of further values.

    With ``pair`` an array is two items. Values in objects are items that are not distinct.
    """
    terminals = [
        Terminal('"{"', Literal(b"{"), scope="open"),
        Terminal('"}"', Literal(b"}"), scope="close", unique=unique),
        Terminal('"["', Literal(b"["), scope="open", unique=unique),
        Terminal('"]"', Literal(b"]"), scope="close", unique=unique),
        Terminal('","', Literal(b",")),
        Terminal('":"', Literal(b":")),
        Terminal("KEY", key, distinct=True),
        Terminal("ITEM", item, distinct=True),
        Terminal("VALUE", item),
    ]
    opening, closing, start, end, comma, colon, name, entry, plain = map(TerminalRef, range(9))
    if spaces:
        terminals.append(Terminal("SPACE", plus(Literal(b" "))))

    def rule(name: str, *bodies: Sequence[TerminalRef | RuleRef]) -> Rule:
        return Rule(name, [Production(tuple(body)) for body in bodies])

    item_rule, value, members, items = RuleRef(0), RuleRef(5), RuleRef(3), RuleRef(4)
    arrays: list[Sequence[TerminalRef | RuleRef]] = [[start, end], [start, items, end]]
    if pair:
        arrays = [[start, item_rule, comma, item_rule, end]]
    return GrammarIR(
        [
            rule("item", [entry], [RuleRef(1)], [RuleRef(2)]),
            rule("object", [opening, closing], [opening, members, closing]),
            rule("array", *arrays),
            rule("members", [name, colon, value], [members, comma, name, colon, value]),
            rule("items", [item_rule], [items, comma, item_rule]),
            rule("value", [plain], [RuleRef(1)], [RuleRef(2)]),
        ],
        terminals,
        start=0,
        skip=[9 if spaces else -1],
    )


def matcher_of(ir: GrammarIR, vocabulary: llgx.Vocabulary, **limits: int) -> llgx.Matcher:
    return llgx.Matcher(llgx.Grammar.from_ir(ir).compile(vocabulary, limits=Limits(**limits)))


def fits(matcher: llgx.Matcher, text: str) -> int:
    """How many bytes of ``text`` fit; -1 if all do and the text is complete."""
    count, complete = matcher.match_bytes(text.encode())
    return -1 if complete else count


# ------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a":1,"b":1}', -1),
        ('{"a":1,"a":1}', 9),
        ('{"a":1,"ab":1,"a":1}', 16),
        ('{"a":{"a":{"a":1}},"b":{"a":1}}', -1),
        ('{"a":{"b":1,"c":2},"b":3,"c":{}}', -1),
        ('{"a":{"b":1},"a"', 15),
        ('{"":1,"":2', 7),
        ("[1,2,3]", -1),
        ("[1,2,1]", 6),
        ("[1,2,10]", -1),
        ("[1,10,1,", 7),
        ("[[1],[2],[]]", -1),
        ("[[1],[1]]", 7),
        ("[[1],[1,2],[1]]", 13),
        ("[[1],[[1]],1]", -1),
        ("[[[1,2]],[[1,2]]]", 15),
        ('[{"a":1},{"a":12},{"a":1}]', 24),
        ('[{"a":1},{"b":1},{"a":1,"b":1}]', -1),
        ('[{"a":[1]},{"a":[2]},{"a":[2]}]', 29),
        ('{"a":[1,1]}', 9),
    ],
)
def test_what_fits(vocabulary: llgx.Vocabulary, text: str, expected: int) -> None:
    assert fits(matcher_of(json_like(), vocabulary), text) == expected


def test_white_space_is_no_part_of_an_item(vocabulary: llgx.Vocabulary) -> None:
    matcher = matcher_of(json_like(spaces=True), vocabulary)
    assert fits(matcher, "[[1, 2], [1,2 ]]") == 14
    assert fits(matcher, '[{"a" :1},{ "a": 1}]') == 18
    assert fits(matcher, '{"a": 1, "a" : 2}') == 11


def test_arrays_that_may_repeat(vocabulary: llgx.Vocabulary) -> None:
    # Scalar items are distinct by themselves; composite ones only in a unique scope.
    matcher = matcher_of(json_like(unique=False), vocabulary)
    assert fits(matcher, "[[1],[1]]") == -1
    assert fits(matcher, "[1,1]") == 4


# ------------------------------------------------------------------ no dead ends


def test_keys_that_are_used_up(vocabulary: llgx.Vocabulary) -> None:
    matcher = matcher_of(json_like(key=either(b"a", b"b", b"ab")), vocabulary)
    assert fits(matcher, "{a:1,ab:2,b:3}") == -1
    assert fits(matcher, "{a:1,ab:2,b:3,") == 13
    assert matcher.try_consume(b"{a:1,ab:2") == 9
    assert matcher.try_consume(b",") == 1
    assert matcher.forced_bytes() == b"b:"
    assert not matcher.allows(ord("a"))


@pytest.mark.parametrize("count", range(5))
def test_keys_of_bounded_length(vocabulary: llgx.Vocabulary, count: int) -> None:
    keys = ["a", "b", "aa", "ab", "ba", "bb"]
    random.Random(count).shuffle(keys)
    matcher = matcher_of(json_like(key=Repeat(AB, 1, 2)), vocabulary)
    text = "{" + ",".join(f"{key}:1" for key in keys)
    assert fits(matcher, text + "}") == -1
    assert fits(matcher, text + ",") == len(text)
    for left in range(1, 4):
        begun = "{" + "".join(f"{key}:1," for key in keys[:-left])
        rest = {key[0] for key in keys[-left:]}
        for letter in "ab":
            expected = len(begun) + (letter in rest)
            assert fits(matcher, begun + letter) == expected, (begun, letter)


def test_pairs_that_could_only_be_pairs_again(vocabulary: llgx.Vocabulary) -> None:
    # [x, y] with x and y of {0, 1}: once [0,0] and [0,1] are there, nothing can begin with [0.
    ir = json_like(item=either(b"0", b"1"), pair=True)
    ir.rules[0] = Rule("item", [Production((TerminalRef(8),))])  # may come twice in a pair
    ir.rules += [
        Rule("start", [Production((TerminalRef(2), RuleRef(7), TerminalRef(3)))]),
        Rule(
            "pairs",
            [Production((RuleRef(2),)), Production((RuleRef(7), TerminalRef(4), RuleRef(2)))],
        ),
    ]
    ir.start = 6
    matcher = matcher_of(ir, vocabulary)
    assert fits(matcher, "[[0,0],[0,1],[1,1],[1,0]]") == -1
    assert fits(matcher, "[[0,0],[0,1],[0") == 14
    assert fits(matcher, "[[0,0],[1,1],[0,0") == 16
    assert matcher.try_consume(b"[[0,0],[1,1],[0") == 15
    assert matcher.forced_bytes() == b",1]"


# ------------------------------------------------------------------ matchers


def test_white_space_in_an_item_is_one_place() -> None:
    """However much of it a token holds, and however often the mask is asked for."""
    texts = [bytes((letter,)) for letter in b'{}[],:ab"1']
    texts += [b" " * count for count in range(1, 60)]
    texts += [b" " * count + b'"' for count in range(1, 30)]
    vocabulary = llgx.Vocabulary.from_tokens([*texts, b""], eog=[len(texts)])
    compiled = llgx.Grammar.from_ir(json_like(spaces=True)).compile(vocabulary)
    matcher = llgx.Matcher(compiled)
    for byte in b'[{"a":1},{"a":':
        matcher.consume(texts.index(bytes((byte,))))
    scopes = compiled.stats()["scopes"]
    allowed = matcher.allowed_tokens()
    assert allowed == [token for token in range(len(texts)) if matcher.allows(token)]
    assert [texts[token] for token in allowed][:3] == [b"{", b"[", b"1"]
    assert len(allowed) == 3 + 59
    assert compiled.stats()["scopes"] <= scopes + 10
    assert matcher.allowed_tokens() == allowed


def test_white_space_leads_nowhere() -> None:
    """After the second ``"a"`` only ``}`` can follow, which makes the item one that there is. The
    search for another way used to lose itself in white space, and to give up."""
    terminals = [
        Terminal("LIST", Literal(b"["), scope="open", unique=True),
        Terminal("OPEN", Literal(b"{"), scope="open"),
        Terminal("CLOSE", Literal(b"}"), scope="close", unique=True),
        Terminal("END", Literal(b"]"), scope="close"),
        Terminal("COMMA", Literal(b",")),
        Terminal("WORD", sequence(b'"', Repeat(AB, 0, None), b'"')),
        Terminal("SPACE", plus(Literal(b" "))),
    ]
    item = Production((TerminalRef(1), TerminalRef(5), TerminalRef(2)))
    rules = [
        Rule("start", [Production((TerminalRef(0), RuleRef(2), TerminalRef(3)))]),
        Rule("item", [item]),
        Rule(
            "items",
            [Production((RuleRef(1),)), Production((RuleRef(2), TerminalRef(4), RuleRef(1)))],
        ),
    ]
    ir = GrammarIR(rules=rules, terminals=terminals, start=0, skip=[6])
    texts = [bytes((letter,)) for letter in b'[{}],"ab ']
    vocabulary = llgx.Vocabulary.from_tokens([*texts, b""], eog=[len(texts)])
    matcher = llgx.Matcher(llgx.Grammar.from_ir(ir).compile(vocabulary))
    for byte in b'[{"a"},{"a':
        matcher.consume(texts.index(bytes((byte,))))
    assert [texts[token] for token in matcher.allowed_tokens()] == [b"a", b"b"]
    matcher.consume(texts.index(b"b"))
    assert [texts[token] for token in matcher.allowed_tokens()] == [b'"', b"a", b"b"]


def test_steps_can_be_taken_back(vocabulary: llgx.Vocabulary) -> None:
    matcher = matcher_of(json_like(), vocabulary)
    assert matcher.try_consume(b'{"a":1,"a"') == 9
    before = matcher.allowed_tokens()
    other = matcher.copy()
    assert ord('"') not in before
    matcher.rollback(7)
    assert matcher.tokens == list(b'{"')
    assert matcher.try_consume(b'b":1,"a') == 7
    assert ord('"') in matcher.allowed_tokens()
    assert other.allowed_tokens() == before
    assert matcher.validate(b'":1,"b"') == 6
    matcher.reset()
    assert fits(matcher, '{"a":1,"b":1}') == -1


def test_explanation(vocabulary: llgx.Vocabulary) -> None:
    matcher = matcher_of(json_like(), vocabulary)
    answer = matcher.explain('{"a":1,"a":2}')
    assert answer.offset == 9
    assert answer.expected == ("KEY",)
    assert matcher.try_consume(b'{"a":1,"a') == 9
    with pytest.raises(llgx.TokenRejected):
        matcher.consume(ord('"'))
    assert len(matcher.tokens) == 9


def test_rows_do_not_know_of_siblings(vocabulary: llgx.Vocabulary) -> None:
    matcher = matcher_of(json_like(), vocabulary)
    sizes = []
    for number in range(30):
        text = f'{"," if number else "{"}"k{number}":1'.encode()
        assert matcher.try_consume(text) == len(text)
        matcher.allowed_tokens()
        sizes.append({k: matcher.compiled.stats()[k] for k in ("rows", "masks", "lexer_states")})
    assert sizes[4] == sizes[-1]


def test_grammars_without_distinct_lexemes_have_no_contexts(vocabulary: llgx.Vocabulary) -> None:
    matcher = llgx.Matcher(llgx.Grammar.from_lark('start: "{" "a"* "}"').compile(vocabulary))
    matcher.try_consume(b"{aaa}")
    assert matcher.compiled.stats()["scopes"] == 0


# ------------------------------------------------------------------ against the twin


@pytest.mark.parametrize("seed", range(0, 60, 6))
def test_random_grammars(seed: int) -> None:
    states = 0
    for number in range(seed, seed + 6):
        rng = random.Random(number)
        ir = random_scoped_grammar(rng)
        try:
            tokens = random_tokens(rng, ReferenceGrammar(ir))
            states += compare_walk(Walk(number, ir, tokens, steps=14))
        except TooWideError:
            continue
    assert states > 10


SMALL = {
    "few keys": json_like(key=either(b"a", b"b")),
    "short keys": json_like(key=Repeat(AB, 1, 2), spaces=True),
    "quoted keys": json_like(key=sequence(b'"', Repeat(AB, 0, 1), b'"')),
    "two items": json_like(item=either(b"a", b"b")),
    "items with ends in common": json_like(item=plus(AB)),
    "pairs": json_like(item=either(b"a", b"b"), pair=True),
    "items and spaces": json_like(item=INTEGER, spaces=True),
}


@pytest.mark.parametrize("name", SMALL)
def test_small_domains(name: str) -> None:
    """Tokens of structure, so that walks come far, and some that hold several lexemes."""
    ir = SMALL[name]
    rng = random.Random(name)
    letters = sorted(set(b'{}[],:ab"1 ') if "quoted" not in name else set(b'{}[],:a"1'))
    texts = [bytes((letter,)) for letter in letters]
    texts += [b",a", b"a:", b"[[", b"],[", b"a],[a]", b"{}", b"[],[]", b"a,b", b'"a":', b'"",""']
    texts += [b"{a:", b'{"":', b"1,1", b",1,", b"[1],[1]", b"}}", b"]]", b":{", b" ,", b", a"]
    texts += [bytes(rng.choices(letters, k=rng.randint(2, 5))) for _ in range(60)]
    tokens = TokenSet((*texts, b"</s>"), eog=(len(texts),))
    for seed in range(6):
        compare_walk(Walk(seed, ir, tokens, steps=30))


# No scope is unique and no domain is finite: what may be refused is known by the texts that tokens
# hold whole.
ENDLESS = json_like(unique=False, item=plus(AB))
ENDLESS_KEYS = json_like(unique=False)
ENDLESS_KEYS.terminals[7] = Terminal("ITEM", INTEGER)  # items may repeat


@pytest.mark.parametrize("name", ["keys and items", "keys"])
def test_tokens_that_hold_whole_keys(name: str) -> None:
    ir = ENDLESS if name == "keys and items" else ENDLESS_KEYS
    rng = random.Random(name)
    number = b"a" if name == "keys and items" else b"1"
    parts = [b'"a"', b'""', b'"b"', b'"', b"a", b":", b"{", b"}", b"[", b"]", b",", number]
    parts += [b":" + number + b","]
    texts = [bytes((letter,)) for letter in sorted(set(b'{}[],:ab"12'))]
    texts += [b"".join(rng.choices(parts, k=rng.randint(2, 6))) for _ in range(120)]
    texts = list(dict.fromkeys(texts))
    tokens = TokenSet((*texts, b"</s>"), eog=(len(texts),))
    assert sum(compare_walk(Walk(seed, ir, tokens, steps=25)) for seed in range(8)) > 80


@pytest.mark.parametrize("held_texts", [True, False])
@pytest.mark.parametrize(
    ("before", "token", "allowed"),
    [
        ('{"a":1,', '"a":', False),
        ('{"a":1,', '"b":', True),
        ('{"b":1,', '"b":1,"a":', False),
        ("{", '"a":1,"a":', False),
        ("{", '"a":1,"b":', True),
        ('{"', 'a":1,"a":', False),
        ('{"', 'a":1,"b":', True),
        ('{"x', 'a":1,"a":', True),
        ('{"x', '":{"a":1,"a":', False),
        ('{"a":{"c":1', '},"a":', False),
        ('{"a":{"c":1', '},"c":', True),
        ('{"c":{"a":{', '}},"a":', True),
        ('{"a":1,"c":{"d":{', '}},"a":', False),
        ("[a", ",b,ab,", True),
        ("[a", ",a,", False),
        ("[a", "b,ab,", False),
        ("[a", "b,a,", True),
        ("[", "a,b,a,", False),
        ("[", "a,b,a", True),
        ("[a,[", "],a,", False),
        ("[b,[", "],a,", True),
    ],
)
def test_what_a_token_holds_whole(held_texts: bool, before: str, token: str, allowed: bool) -> None:
    texts = [bytes((letter,)) for letter in sorted(set(b'{}[],:abcdx"1'))]
    texts += [token.encode(), b""]
    vocabulary = llgx.Vocabulary.from_tokens(texts, eog=[len(texts) - 1])
    shortcuts = Shortcuts(held_texts=held_texts)
    grammar = llgx.Grammar.from_ir(ENDLESS if before[0] == "[" else ENDLESS_KEYS)
    matcher = llgx.Matcher(grammar.compile(vocabulary, shortcuts=shortcuts))
    for byte in before.encode():
        matcher.consume(texts.index(bytes((byte,))))
        matcher.allowed_tokens()
    for _ in range(2):  # the second time from what is kept
        assert (len(texts) - 2 in matcher.allowed_tokens()) is allowed


@pytest.mark.parametrize("unique", [True, False])
@pytest.mark.parametrize(
    ("key", "before", "token", "allowed"),
    [
        # The scope around is used up: what closes the inner one may not ask for more.
        ("a|b", "{a:1,b:{a:1", "},", False),
        ("a|b", "{a:1,b:{a:1", "}}", True),
        ("a|b", "{a:1,b:{a:1", ",b:{}},", False),
        ("a|b", "{a:1,b:{a:1", ",b:{},", False),
        ("a|b", "{a:1,b:{a:1", ",b:{}}", True),
        ("a|b", "{a:1,b:{", "}}", True),
        ("a|b", "{a:1,b:{", "},", False),
        ("a|b", "{a:{b:{a:1,b:{", "}},", True),
        ("a|b", "{b:1,a:{b:{a:1,b:{", "}},", True),
        ("a|b", "{b:1,a:{b:{a:1,b:{", "}}},", False),
        # The key in progress is the last one that there is.
        ("quoted", '{"":1,"a":1,"b', '":1,', False),
        ("quoted", '{"":1,"a":1,"b', '":1}', True),
        ("quoted", '{"":1,"a":1,"', 'b":1,', False),
        ("quoted", '{"":1,"a":1,"', 'b":{"', True),
        ("quoted", '{"":1,"b', '":1,', True),
        ("quoted", '{"":1,"b', '":1,"b', False),
        ("quoted", '{"":1,"b', '":1,"a":1,', False),
        ("quoted", '{"":1,"b', '":1,"a', True),
    ],
)
def test_what_a_token_uses_up(
    key: str, before: str, token: str, allowed: bool, unique: bool
) -> None:
    regex = either(b"a", b"b") if key == "a|b" else sequence(b'"', Repeat(AB, 0, 1), b'"')
    grammar = llgx.Grammar.from_ir(json_like(key=regex, unique=unique))
    texts = [bytes((letter,)) for letter in sorted(set(b'{}[],:ab"1'))]
    texts += [token.encode(), b""]
    vocabulary = llgx.Vocabulary.from_tokens(texts, eog=[len(texts) - 1])
    matcher = llgx.Matcher(grammar.compile(vocabulary))
    for byte in before.encode():
        matcher.consume(texts.index(bytes((byte,))))
    for _ in range(2):  # the second time from what is kept
        assert (len(texts) - 2 in matcher.allowed_tokens()) is allowed


def test_a_role_that_is_left_out_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    walk = Walk(3, SMALL["few keys"], TOKENS, steps=30)
    compare_walk(walk)
    plain = SMALL["few keys"]
    wrong = GrammarIR(
        plain.rules,
        [Terminal(t.name, t.regex, scope=t.scope, unique=t.unique) for t in plain.terminals],
        plain.start,
    )

    class Twin(ReferenceGrammar):
        def __init__(self, _: GrammarIR, vocabulary: object = None) -> None:
            super().__init__(wrong)

    def all_walks() -> None:
        for seed in range(20):
            compare_walk(Walk(seed, plain, TOKENS, steps=30))

    monkeypatch.setattr(reference_matcher, "ReferenceGrammar", Twin)
    with pytest.raises(campaign.Disagreement):
        all_walks()


# ------------------------------------------------------------------ hostile


def test_many_keys(vocabulary: llgx.Vocabulary) -> None:
    begin = time.process_time()
    matcher = matcher_of(json_like(), vocabulary)
    text = "{" + ",".join(f'"key number {i}":{i}' for i in range(3000))
    assert matcher.try_consume(text.encode()) == len(text)
    assert fits(matcher, ',"key number 2999"') == 17
    assert fits(matcher, ',"key number 3000":1}') == -1
    matcher.allowed_tokens()
    assert time.process_time() - begin < SECOND


def test_many_items_that_begin_alike(vocabulary: llgx.Vocabulary) -> None:
    begin = time.process_time()
    matcher = matcher_of(json_like(), vocabulary)
    text = "[" + ",".join(f'{{"the same name":{i}}}' for i in range(150))
    assert matcher.try_consume(text.encode()) == len(text)
    assert fits(matcher, ',{"the same name":149}') == 21
    assert time.process_time() - begin < SECOND


def test_scopes_without_end(vocabulary: llgx.Vocabulary) -> None:
    matcher = matcher_of(json_like(), vocabulary)
    deep = b'{"a":' * 3000
    assert matcher.try_consume(deep) == len(deep)
    matcher.allowed_tokens()


@pytest.mark.parametrize("scopes", [5, 20, 40])
def test_asking_again_does_not_get_past_the_limit(vocabulary: llgx.Vocabulary, scopes: int) -> None:
    text = b'{"a":[1,2,3,{"a":1}],"b":[[1],[2]],"abcdefg":{"a":{"a":1,"c":{}}}}'
    matcher = matcher_of(json_like(), vocabulary, scopes=scopes)
    refused: list[str] = []
    for _ in range(20):
        try:
            for byte in text[len(matcher) :]:
                matcher.consume(byte)
                matcher.allowed_tokens()
        except llgx.LimitError as error:
            refused.append(error.limit)
    assert refused == ["scopes"] * 20
    assert matcher.tokens == list(text[: len(matcher)])
    assert matcher.compiled.stats()["scopes"] <= scopes + 20


def test_a_worn_grammar_is_compiled_anew(vocabulary: llgx.Vocabulary) -> None:
    grammar = llgx.Grammar.from_ir(json_like())
    limits = Limits(scopes=200)
    first = grammar.compile(vocabulary, limits=limits)
    matcher = llgx.Matcher(first)
    matcher.consume(ord("["))
    number = 0
    while not first.is_worn:
        assert matcher.try_consume(f"{',' if number else ''}{number}".encode()) > 0
        number += 1
    assert grammar.compile(vocabulary, limits=limits) is not first


def test_a_token_that_ends_one_item_and_holds_another() -> None:
    """``],[]`` after ``[[``: the item that was open before the token is among the finished ones."""
    terminals = [
        Terminal("LIST", Literal(b"["), scope="open", unique=True),
        Terminal("END", Literal(b"]"), scope="close", unique=True),
        Terminal("COMMA", Literal(b",")),
    ]
    array, items = RuleRef(1), RuleRef(2)
    rules = [
        Rule("start", [Production((array,))]),
        Rule(
            "array",
            [
                Production((TerminalRef(0), TerminalRef(1))),
                Production((TerminalRef(0), items, TerminalRef(1))),
            ],
        ),
        Rule("items", [Production((array,)), Production((items, TerminalRef(2), array))]),
    ]
    ir = GrammarIR(rules=rules, terminals=terminals, start=0, skip=[-1])
    texts = [b"[", b"]", b",", b"],[]", b"],[[]]", b"],[[]],[]", b"],[", b""]
    vocabulary = llgx.Vocabulary.from_tokens(texts, eog=[len(texts) - 1])
    matcher = llgx.Matcher(llgx.Grammar(ir).compile(vocabulary))
    matcher.try_consume([0, 0])
    allowed = matcher.allowed_tokens()
    assert [texts[token] for token in allowed] == [b"[", b"]", b"],[[]]", b"],["]
    assert allowed == [token for token in range(len(texts)) if matcher.allows(token)]


@pytest.mark.parametrize("order", ["ab a", "a ab"])
def test_a_text_that_begins_another_used_up_one(order: str) -> None:
    """Of a, b and ab two are used, in either order: what begins with a comes to nothing."""
    words = Alternation((Literal(b"a"), Literal(b"b"), Literal(b"ab")))
    terminals = [Terminal("ITEM", words, distinct=True), Terminal("COMMA", Literal(b","))]
    again = Production((RuleRef(0), TerminalRef(1), TerminalRef(0)))
    ir = GrammarIR(
        rules=[Rule("start", [again, Production(())])], terminals=terminals, start=0, skip=[-1]
    )
    texts = [b"a", b"b", b",", b"ab", b""]
    vocabulary = llgx.Vocabulary.from_tokens(texts, eog=[4])
    matcher = llgx.Matcher(llgx.Grammar(ir).compile(vocabulary))
    for word in order.split():
        matcher.try_consume([2, texts.index(word.encode())])
    matcher.consume(2)
    assert [texts[token] for token in matcher.allowed_tokens()] == [b"b"]
    matcher.consume(1)
    assert matcher.allowed_tokens() == [4]  # all three are used


@pytest.mark.parametrize("order", ["ab b a", "b ab a", "a b ab", "b a ab", "ab a b"])
def test_the_last_of_a_few_is_ended_by_nothing_that_asks_for_another(order: str) -> None:
    """What ends a lexeme need not hold one: all masks are what ``allows`` says."""
    words = Alternation((Literal(b"a"), Literal(b"b"), Literal(b"ab")))
    terminals = [Terminal("ITEM", words, distinct=True), Terminal("COMMA", Literal(b","))]
    again = Production((RuleRef(0), TerminalRef(1), TerminalRef(0)))
    ir = GrammarIR(
        rules=[Rule("start", [again, Production(())])], terminals=terminals, start=0, skip=[-1]
    )
    texts = [b"a", b"b", b",", b",a", b"b,", b"ab,", b",,", b",b,", b""]
    vocabulary = llgx.Vocabulary.from_tokens(texts, eog=[8])
    matcher = llgx.Matcher(llgx.Grammar(ir).compile(vocabulary))
    for byte in "".join(f",{word}" for word in order.split()).encode():
        for _ in range(2):  # the second time from what is kept
            allowed = matcher.allowed_tokens()
            assert allowed == [token for token in range(len(texts)) if matcher.allows(token)]
        matcher.consume(texts.index(bytes((byte,))))
    assert matcher.allowed_tokens() == [8]


def test_a_token_that_ends_an_item_and_begins_the_only_other() -> None:
    """Items are objects without members, of which there is one: ``}`` may come, ``}{`` may not,
    nor what begins as a whole item in a token does."""
    terminals = [
        Terminal("LIST", Literal(b"["), scope="open", unique=True),
        Terminal("OPEN", Literal(b"{"), scope="open"),
        Terminal("CLOSE", Literal(b"}"), scope="close", unique=True),
        Terminal("END", Literal(b"]"), scope="close"),
    ]
    item = RuleRef(1)
    rules = [
        Rule("start", [Production((TerminalRef(0), RuleRef(2), TerminalRef(3)))]),
        Rule("item", [Production((TerminalRef(1), TerminalRef(2)))]),
        Rule("items", [Production((item,)), Production((item, item))]),
    ]
    ir = GrammarIR(rules=rules, terminals=terminals, start=0, skip=[-1])
    texts = [b"[", b"{", b"}", b"]", b"}{", b"{}{", b"[{}{", b"{}", b"}]", b"[{", b""]
    vocabulary = llgx.Vocabulary.from_tokens(texts, eog=[len(texts) - 1])
    matcher = llgx.Matcher(llgx.Grammar(ir).compile(vocabulary))
    expected = [[b"[", b"[{"], [b"{", b"{}"], [b"}", b"}]"], [b"]"], [b""]]
    for token, allowed in zip([0, 1, 2, 3, None], expected, strict=True):
        assert [texts[token] for token in matcher.allowed_tokens()] == allowed
        if token is not None:
            matcher.consume(token)


def test_a_scalar_item_that_is_an_opening_too() -> None:
    """Where items may be told apart only by what follows the same first byte, tokens that hold one
    of each are looked at too."""
    terminals = [
        Terminal("LIST", Literal(b"["), scope="open", unique=True),
        Terminal("WORD", Literal(b"xy"), distinct=True),
        Terminal("OPEN", Literal(b"x"), scope="open"),
        Terminal("CLOSE", Literal(b"y"), scope="close", unique=True),
        Terminal("COMMA", Literal(b",")),
    ]
    rules = [
        Rule("start", [Production((TerminalRef(0), TerminalRef(1), TerminalRef(4), RuleRef(1)))]),
        Rule("item", [Production((TerminalRef(2), TerminalRef(3)))]),
    ]
    ir = GrammarIR(rules=rules, terminals=terminals, start=0, skip=[-1])
    texts = [b"[", b"xy", b"x", b"y", b",", b"y,", b"y,x", b"xy,x", b""]
    vocabulary = llgx.Vocabulary.from_tokens(texts, eog=[8])
    matcher = llgx.Matcher(llgx.Grammar(ir).compile(vocabulary))
    for token in [0, 2]:
        matcher.consume(token)
        assert matcher.allowed_tokens() == [
            token for token in range(len(texts)) if matcher.allows(token)
        ]
        assert not {6, 7} & set(matcher.allowed_tokens())


@pytest.mark.parametrize(
    "text",
    [
        '["a","b","c',  # of which no token may go on with a comma
        '["a","b","',
        '["a", "b",',
        '["a","b","c"',
        '["c","a',
        '["ab","a',
        '[["a"],["b"],["c"',
    ],
)
def test_few_items_on_a_real_vocabulary(text: str, llama3: llgx.Vocabulary) -> None:
    """Found by a chat: lists of tokens that the vocabulary has by the bytes in them."""
    items: dict[str, object] = {"enum": ["a", "b", "c", *(["ab"] if "ab" in text else [])]}
    if text.startswith("[["):
        items = {"type": "array", "items": items, "minItems": 1, "maxItems": 1}
    schema = {"type": "array", "items": items, "uniqueItems": True}
    matcher = llgx.Matcher(llgx.Grammar.from_json_schema(schema).compile(llama3))
    for token in llama3.tokenize(text.encode()):
        matcher.consume(token)
    allowed = matcher.allowed_tokens()
    fitting = [token for token in range(len(llama3)) if matcher.validate([token])]
    assert allowed == fitting
    assert 0 < len(allowed) < 1000
