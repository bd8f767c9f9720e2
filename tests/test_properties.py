"""The engine against the reference twin on random grammars, vocabularies and walks.

The comparison itself is in ``tests/campaign.py``, which also runs it for as long as one likes. Here
it runs on fixed seeds, on seeds and grammars of hypothesis (new ones each time), and on
grammars that are hard on a shortcut. Also here: the two roads to one grammar, its description and
its Lark text, lead to the same masks.
"""

from __future__ import annotations

import dataclasses
import pathlib
import random
from collections.abc import Sequence

import hypothesis
import pytest
from hypothesis import strategies as st

import llgx
from llgx.ir import (
    ByteSet,
    Complement,
    Condition,
    GrammarIR,
    Literal,
    ParamExpr,
    Production,
    Regex,
    Repeat,
    Rule,
    RuleRef,
    Terminal,
    TerminalRef,
)
from tests import campaign, reference_matcher, strategies
from tests.campaign import ALL_CONFIGURATIONS, Configuration, Walk, compare_walk, walk_of_seed
from tests.reference import ReferenceGrammar, State, TooWideError
from tests.reference_matcher import ReferenceMatcher
from tests.strategies import (
    ANY_CHAR,
    IDENTIFIER,
    JSON_STRING,
    NO_NEWLINE,
    NUMBER,
    STRING_CHAR,
    NotPrintableError,
    TokenSet,
    both,
    byte_tokens,
    either,
    plus,
    sequence,
    star,
)


@pytest.mark.parametrize("seed", range(0, 120, 10))
def test_fixed_seeds(seed: int) -> None:
    states = 0
    for number in range(seed, seed + 10):
        try:
            states += _compare(walk_of_seed(number, steps=12))
        except TooWideError:
            continue
    assert states > 20


_settings = hypothesis.settings(
    max_examples=40,
    derandomize=True,  # what is new every time is the business of `tests.campaign`
    # Shrinking takes minutes here; `campaign.reduce_walk` is better at it.
    phases=[
        p for p in hypothesis.Phase if p not in (hypothesis.Phase.shrink, hypothesis.Phase.explain)
    ],
    suppress_health_check=list(hypothesis.HealthCheck),
)


def _compare(walk: Walk) -> int:
    """:func:`compare_walk`, with a way to see a failure again."""
    try:
        return compare_walk(walk)
    except campaign.Disagreement as error:
        smaller, message = campaign.reduce_walk(walk, ALL_CONFIGURATIONS, 10)
        pytest.fail(f"{error}\nreduced: {message}\n{campaign.dump(smaller)}")


@hypothesis.given(st.integers(0, 1 << 32))
@_settings
def test_seeds_of_hypothesis(seed: int) -> None:
    try:
        _compare(walk_of_seed(seed, steps=8))
    except TooWideError:
        hypothesis.reject()


@hypothesis.given(st.randoms(use_true_random=False), st.integers(0, 1000))
@_settings
def test_grammars_of_hypothesis(rng: random.Random, seed: int) -> None:
    try:
        ir = strategies.random_grammar(rng)
        tokens = strategies.random_tokens(rng, ReferenceGrammar(ir))
        _compare(Walk(seed, ir, tokens, steps=6))
    except TooWideError:
        hypothesis.reject()


# --------------------------------------------------------------------------------------------------
# Lexer states that loop on themselves, with a vocabulary of the kind that shortcuts are made for.


def _of(
    *bodies: Sequence[Regex], skip: Regex | None = None, lazy: Sequence[Regex] = ()
) -> GrammarIR:
    """A list of any length of these sequences of terminals."""
    regexes: list[Regex] = []
    productions = []
    for body in bodies:
        for regex in body:
            if regex not in regexes:
                regexes.append(regex)
        productions.append(Production(tuple(TerminalRef(regexes.index(r)) for r in body)))
    terminals = [Terminal(f"T{i}", r, lazy=r in lazy) for i, r in enumerate(regexes)]
    if skip is not None:
        terminals.append(Terminal("SKIP", skip))
    return GrammarIR(
        [
            Rule("start", [Production(()), Production((RuleRef(0), RuleRef(1)))]),
            Rule("item", productions),
        ],
        terminals,
        start=0,
        skip=[-1 if skip is None else len(terminals) - 1],
    )


def _bounded(low: int, high: int | None, item: Regex = STRING_CHAR) -> Regex:
    return sequence(b'"', Repeat(item, low, high), b'"')


_SPACE = plus(strategies.byte_set(b" \n"))
_COMMA = Literal(b",")
_JSON_CHAR = strategies.char_class(b'"\\' + bytes(range(0x20)))  # of a string, but for escapes
_ASCII = strategies.byte_set(bytes(b for b in range(0x20, 0x80) if b not in b'"\\'))
_LAZY = sequence(star(ANY_CHAR), b"</a>")
_WORD = plus(strategies.byte_set(b"abn"))
_LETTER = strategies.byte_set(b"abn")
_FEW_LETTERS = Repeat(_LETTER, 2, 3)
_ANY_BYTE = strategies.byte_set(bytes(range(256)))
_BEYOND = both(
    ANY_CHAR, Complement(strategies.byte_set(bytes(range(0x80))))
)  # every character that is not ASCII
# Some characters beyond ASCII: of most first bytes all or none, of few of them a part.
_PARTS_BEYOND = (
    _BEYOND,
    both(_BEYOND, Complement(either(b"\xe2\x80\xa8", b"\xe2\x80\xa9"))),
    both(
        _BEYOND, Complement(either(b"\xc2\xa0", b"\xe1\x9a\x80", b"\xe3\x80\x80", b"\xef\xbb\xbf"))
    ),
    sequence(strategies.byte_set(b"\xd0\xd1"), strategies.byte_set(bytes(range(0x80, 0xC0)))),
    sequence(b"\xe4", Repeat(strategies.byte_set(bytes(range(0x80, 0xC0))), 2, 2)),
    either(b"\xc3\xa9", b"\xe2\x80\x99", b"\xf0\x9f\x98\x80"),
)
_ESCAPED = star(either(strategies.byte_set(b"ab"), Literal(b"\\n"), Literal(b"\\u0000")))


def _limited(low: int, high: int | None, pattern: Regex, item: Regex = STRING_CHAR) -> Regex:
    return sequence(b'"', both(Repeat(item, low, high), pattern), b'"')


def _searched(low: int, high: int | None, *patterns: Regex) -> Regex:
    """A string whose characters are matched by all patterns."""
    return sequence(b'"', both(Repeat(_JSON_CHAR, low, high), *patterns), b'"')


def _found(text: bytes) -> Regex:
    """Any bytes with ``text`` among them."""
    return sequence(star(_JSON_CHAR), text, star(_ANY_BYTE))


def _without(*texts: bytes) -> Regex:
    """A string that is none of ``texts``."""
    return sequence(b'"', both(star(_JSON_CHAR), Complement(either(*texts))), b'"')


def _others(*names: Regex, item: Regex = _JSON_CHAR, high: int | None = None) -> Regex:
    """A string that is none of ``names``."""
    return sequence(b'"', both(Repeat(item, 0, high), *map(Complement, names)), b'"')


LOOPS = {
    "json strings": _of([JSON_STRING], [JSON_STRING, Literal(b":"), NUMBER], skip=_SPACE),
    "bounded strings": _of([_bounded(0, 3), _COMMA], [_bounded(2, 2), Literal(b";")]),
    "string of at least three": _of([_bounded(3, None)], [_COMMA]),
    "bounded bytes": _of([_bounded(1, 4, strategies.byte_set(b"abc"))], [_COMMA]),
    "any characters, bounded": _of([sequence(b"<", Repeat(ANY_CHAR, 2, 5), b">")]),
    "lines": _of([sequence(star(NO_NEWLINE), b"\n")]),
    "lazy text": _of([_LAZY], [IDENTIFIER, _COMMA], lazy=[_LAZY]),
    "keywords": _of(
        [Literal(b"in"), IDENTIFIER], [Literal(b"int"), IDENTIFIER], [IDENTIFIER], skip=_SPACE
    ),
    "identifier and comment": _of(
        [IDENTIFIER], [NUMBER], skip=either(_SPACE, sequence(b"//", star(NO_NEWLINE)))
    ),
    "strings of two kinds": _of([JSON_STRING, _COMMA], [_bounded(0, 4), Literal(b"]")]),
    "string without keys": _of(
        [sequence(b'"', both(star(STRING_CHAR), Complement(Literal(b"id"))), b'"')],
        [Literal(b'"id"'), _COMMA],
    ),
    "string without many keys": _of(
        [
            sequence(
                b'"',
                both(star(STRING_CHAR), Complement(either(b"id", b"ids", b"no", b"a\\"))),
                b'"',
            )
        ],
        [Literal(b'"id"'), _COMMA],
        [Literal(b'"ids"')],
        [sequence(b'"n', Literal(b"o"), b'"')],
    ),
    "words beside a length": _of(
        [_limited(0, 12, sequence(_WORD, star(sequence(b" ", _WORD)))), _COMMA]
    ),
    "some words beside a length": _of(
        [_limited(0, 200, sequence(Repeat(sequence(_WORD, b" "), 0, 5), _WORD)), _COMMA]
    ),
    "escapes beside a length": _of([_limited(0, 9, _ESCAPED)], [_COMMA]),
    "a long way out beside a length": _of([_limited(0, 7, sequence(_WORD, b"ababa"))], [_COMMA]),
    "a pattern with more than its length has": _of(
        [_limited(0, 9, star(strategies.byte_set(b"abc")), strategies.byte_set(b"ab"))], [_COMMA]
    ),
    "two lengths and a pattern": _of(
        [_limited(0, 30, both(Repeat(either(ANY_CHAR, b"\\n"), 0, 12), _WORD))], [_COMMA]
    ),
    "a least length and a pattern": _of([_limited(3, 40, plus(_WORD))], [_COMMA]),
    "search": _of([sequence(star(NO_NEWLINE), b"a", star(NO_NEWLINE)), Literal(b"\n")]),
    "search of a class in a bounded string": _of(
        [_searched(3, 64, either(_found(b"a"), _found(b"bb")))], [_COMMA]
    ),
    "words of a least length": _of(
        [_limited(5, 90, sequence(_WORD, b"@", _WORD)), _COMMA], [_limited(1, 200, _WORD)]
    ),
    "pairs of a least length": _of([_limited(3, 60, star(Literal(b"ab")))], [_COMMA]),
    "words and pairs of a least length": _of(
        [_limited(4, 70, plus(sequence(b" ", plus(Literal(b"ab")))))], [_COMMA]
    ),
    "names of another form than some": _of(
        [Literal(b'"ab"'), _COMMA],
        [_others(Repeat(_LETTER, 1, 60), Literal(b"ab"), Literal(b"n1"))],
        [_others(Literal(b"ab"), item=_LETTER, high=60), Literal(b":")],
    ),
    "names of no form": _of(
        [_others(sequence(b"/", Repeat(_LETTER, 0, 70)), sequence(b"a", star(_ASCII))), _COMMA]
    ),
    "names longer than some form": _of([_others(Repeat(_JSON_CHAR, 1, 60))], [_COMMA]),
    "short names but for some": _of(
        [_others(either(b"ab", b"abnab"), item=_LETTER, high=9), _COMMA],
        [_others(Repeat(_LETTER, 1, 3), Literal(b"nn"), item=_LETTER, high=7), Literal(b":")],
    ),
    "two lengths that have nothing in common": _of(
        [
            _searched(
                9,
                79,
                sequence(Repeat(_JSON_CHAR, 0, 5), b"@", Repeat(_JSON_CHAR, 0, 5)),
                plus(_ASCII),
            )
        ],
        [_COMMA],
    ),
    "lengths that a pattern leaves out": _of(
        [_limited(60, 90, either(star(Repeat(Literal(b"b"), 50, 50)), plus(Literal(b"n"))))],
        [_COMMA],
    ),
    "search in a string": _of([_searched(0, None, _found(b"abab"))], [_COMMA]),
    "search in a bounded string": _of([_searched(0, 20, _found(b"ab"))], [_COMMA]),
    "search beside a close bound": _of([_searched(0, 9, _found(b"ab"))], [_COMMA]),
    "search of a least length": _of([_searched(2, 20, _found(b"a"))], [Literal(b'"ab"x')]),
    "two searches": _of([_searched(0, None, _found(b"ab"), _found(b"ba"))], [_COMMA]),
    "search of what is in no string": _of(
        [_searched(0, None, either(_found(b'"'), _found(b"ab")))], [_COMMA]
    ),
    "what a pattern leaves beside a length": _of(
        [_searched(0, 9, sequence(b"a", star(Literal(b"b")), star(_ASCII)))], [_COMMA]
    ),
    "keys and a colon, after white space": _of(
        [sequence(b'"id"', star(Literal(b" ")), b":"), _COMMA],
        [sequence(b'"\xc3\xa9a"', star(Literal(b" ")), b":"), _COMMA],
        [_without(b"id", b"\xc3\xa9a", b"i"), Literal(b":")],
        skip=_SPACE,
    ),
    "keys without what begins alike": _of(
        [Literal(b'"ab"'), _COMMA],
        [_without(b"a", b"ab", b"abab", b""), Literal(b":")],
        [sequence(b'"', Repeat(STRING_CHAR, 2, 3), b'"'), _COMMA],
    ),
    "lines of a few characters": _of([Repeat(NO_NEWLINE, 1, 4), Literal(b"\n")]),
    "words of a few letters": _of(
        [sequence(_FEW_LETTERS, Repeat(sequence(b" ", _FEW_LETTERS), 0, 1)), Literal(b";")]
    ),
    "bounded words and words": _of([Repeat(_LETTER, 1, 3), Repeat(_LETTER, 2, 5), _COMMA]),
    "bounded words without end": _of([Repeat(_LETTER, 2, 3)], [Literal(b"-"), _WORD]),
    "bounded words and white space": _of(
        [Repeat(_LETTER, 1, 4)], [Repeat(STRING_CHAR, 3, 3), Literal(b";")], skip=_SPACE
    ),
    "bounded text with escapes": _of(
        [Repeat(either(STRING_CHAR, b"\\n", b"\\\xc3\xa9"), 1, 4), Literal(b'"')], [_COMMA]
    ),
    "bounded text of two kinds": _of(
        [Repeat(either(_LETTER, sequence(b"n", _LETTER)), 1, 4), Literal(b"\xc3\xa9")], [_COMMA]
    ),
    "bounded characters beyond ASCII": _of([Repeat(_BEYOND, 1, 3)], [Literal(b"a")]),
    "characters but line ends": _of(
        [sequence(b'"', star(_PARTS_BEYOND[1]), b'"')], [sequence(star(_PARTS_BEYOND[2]), b",")]
    ),
    "letters beyond ASCII": _of(
        [plus(_PARTS_BEYOND[3]), Literal(b"\xc3\xa9")], [Repeat(_PARTS_BEYOND[4], 1, 3)]
    ),
    "some characters beyond ASCII": _of([sequence(b"<", star(_PARTS_BEYOND[5]), b">")], [_COMMA]),
    "bounded bytes without end": _of([Repeat(strategies.byte_set(bytes(range(256))), 2, 3)]),
    "words that are letters": _of(
        [Literal(b"ab"), _COMMA],
        [both(plus(strategies.byte_set(b"abn")), Complement(either(b"ab", b"b")))],
        skip=_SPACE,
    ),
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops(name: str) -> None:
    ir = LOOPS[name]
    rng = random.Random(name)
    grammar = ReferenceGrammar(ir)
    for seed in range(3):
        _compare(Walk(seed, ir, strategies.random_tokens(rng, grammar), steps=12))
    _compare(Walk(3, ir, strategies.dense_tokens(rng, grammar), steps=12))


@pytest.mark.parametrize("name", LOOPS)
def test_loops_with_a_real_vocabulary(name: str, real: TokenSet) -> None:
    compare_walk(Walk(7, LOOPS[name], real, steps=4), _FEW)


# The extremes: the other configurations differ from them in parts.
_FEW = [c for c in ALL_CONFIGURATIONS if c.name in ("all shortcuts", "no shortcuts")]


@pytest.fixture(scope="session")
def real(vocabulary_dir: pathlib.Path) -> TokenSet:
    """The tokens of Llama 3."""
    return campaign.real_tokens(vocabulary_dir / "ggml-vocab-llama-bpe.gguf")


@pytest.mark.parametrize("seed", range(32))
def test_tables_of_classes_say_what_walks_say(seed: int, real: TokenSet) -> None:
    rng = random.Random(seed)
    vocabulary = _REAL.setdefault(id(real), llgx.Vocabulary.from_tokens(real.tokens, eog=real.eog))
    kept = bytes(b for b in range(0x80) if rng.random() < (0.9, 0.5)[seed % 2])
    member = strategies.byte_set(kept)
    if seed & 2:
        member = either(member, rng.choice(_PARTS_BEYOND))
    low = rng.choice((0, 0, 2))
    high = rng.choice((None, None, 3, 40))
    end = bytes(b for b in range(0x80) if b not in kept)[:2]
    # Many tokens begin with a space or an s: what follows it is a table of its own.
    first = (b"<", b" ", b"s")[seed % 3]
    item = sequence(first, Repeat(member, low, high), strategies.byte_set(end))
    grammar = llgx.Grammar.from_ir(_of([item]))
    text = first + "".join(rng.choices(kept.decode(), k=low + 1)).encode()
    matchers = [
        llgx.Matcher(grammar.compile(vocabulary, shortcuts=llgx.Shortcuts(difference_masks=on)))
        for on in (True, False)
    ]
    largest = 0
    for length in range(len(text) + 1):
        masks = [matcher.allowed_tokens() for matcher in matchers]
        assert masks[0] == masks[1], (text[:length], kept)
        largest = max(largest, len(masks[0]))
        if length < len(text):
            token = real.tokens.index(text[length : length + 1])
            for matcher in matchers:
                matcher.consume(token)
    assert largest > 10


@pytest.mark.parametrize("seed", range(24))
def test_bounded_text_says_what_walks_say(seed: int, real: TokenSet) -> None:
    """Nothing but a counter, or a byte of another kind, ends the first lexeme."""
    rng = random.Random(seed)
    vocabulary = _REAL.setdefault(id(real), llgx.Vocabulary.from_tokens(real.tokens, eog=real.eog))
    kept = bytes(b for b in range(0x20, 0x7F) if rng.random() < (0.9, 0.5, 0.1)[seed % 3])
    member = strategies.byte_set(kept)
    if seed & 1:
        member = either(member, rng.choice(_PARTS_BEYOND))
    if seed % 4 == 3:
        member = either(member, sequence(b"\n", strategies.byte_set(b"xy")))
    low = rng.choice((1, 2, 4))
    text = Repeat(member, low, low + rng.choice((0, 1, 3, 12, 40)))
    after = rng.sample(range(0x20, 0x7F), rng.choice((1, 3, 60)))
    bodies = [[text, Literal(b"\n")], [text, Repeat(strategies.byte_set(after), 1, 3)]]
    skip = _SPACE if seed % 5 == 0 else None
    grammar = llgx.Grammar.from_ir(_of(*rng.choice((bodies, bodies[:1], bodies[1:])), skip=skip))
    matchers = [
        llgx.Matcher(grammar.compile(vocabulary, shortcuts=shortcuts))
        for shortcuts in (
            llgx.Shortcuts(),
            llgx.Shortcuts(shared_plans=False, mask_memo=False, boundary_memo=False),
            llgx.Shortcuts(difference_masks=False),
        )
    ]
    for _ in range(10):
        masks = [matcher.allowed_tokens() for matcher in matchers]
        assert masks[0] == masks[2]
        assert masks[1] == masks[2]
        token = rng.choice(masks[0])
        for matcher in matchers:
            matcher.consume(token)
        if matchers[0].is_stopped():
            break


def _pattern_of(rng: random.Random) -> Regex:
    """Patterns of strings: searches, and shapes whose matches may or may not be one longer."""
    few = strategies.byte_set(rng.sample(range(0x61, 0x7B), 3))
    most = strategies.byte_set(bytes(b for b in range(0x21, 0x7F) if b not in b'"\\'))
    member = rng.choice((few, most, either(few, rng.choice(_PARTS_BEYOND)), _JSON_CHAR))
    word = Repeat(member, rng.choice((0, 1, 3)), rng.choice((None, None, 5)))
    return rng.choice(
        (
            _found(rng.choice((b"a", b"er", b"ing"))),
            sequence(star(_JSON_CHAR), plus(few), star(_ANY_BYTE)),
            either(_found(b"on"), _found(b"the")),
            sequence(word, b"@", word),
            sequence(Repeat(sequence(plus(member), plus(Literal(b" "))), 0, 49), word),
            sequence(Repeat(sequence(few, few), rng.choice((0, 1)), None), rng.choice((b"", b"x"))),
            either(plus(most), Literal(b"n/a"), sequence(plus(few), b" ")),
            plus(sequence(b" ", plus(member))),
        )
    )


@pytest.mark.parametrize("seed", range(48))
def test_patterns_beside_lengths_say_what_walks_say(seed: int, real: TokenSet) -> None:
    rng = random.Random(seed)
    vocabulary = _REAL.setdefault(id(real), llgx.Vocabulary.from_tokens(real.tokens, eog=real.eog))
    low = rng.choice((0, 1, 1, 2, 5, 9, 30))
    high = low + rng.choice((0, 3, 11, 24, 40, 70, 200, 500))
    text = _searched(low, high, *(_pattern_of(rng) for _ in range(rng.choice((1, 1, 1, 2)))))
    try:
        grammar = llgx.Grammar.from_ir(_of([text], [_COMMA]))
        matchers = [
            llgx.Matcher(grammar.compile(vocabulary, shortcuts=shortcuts))
            for shortcuts in (
                llgx.Shortcuts(),
                llgx.Shortcuts(saturated_intersections=False, shared_plans=False),
            )
        ]
    except llgx.GrammarError as error:
        pytest.fail(str(error))
    for _ in range(12):
        masks = [matcher.allowed_tokens() for matcher in matchers]
        assert masks[0] == masks[1]
        inside = [t for t in masks[0] if real.tokens[t].isalnum()]
        token = rng.choice(inside if inside and rng.random() < 0.8 else masks[0])
        for matcher in matchers:
            matcher.consume(token)
        if matchers[0].is_stopped():
            break


def _quick_and_slow(
    grammar: llgx.Grammar, vocabulary: llgx.Vocabulary
) -> tuple[llgx.Matcher, llgx.Matcher]:
    """A matcher with all shortcuts, and one without those that complements are asked about."""
    plain = llgx.Shortcuts(
        saturated_intersections=False, shared_plans=False, endless_states=False, twin_masks=False
    )
    return (
        llgx.Matcher(grammar.compile(vocabulary)),
        llgx.Matcher(grammar.compile(vocabulary, shortcuts=plain)),
    )


def _form_of(rng: random.Random) -> Regex:
    few = strategies.byte_set(rng.sample(range(0x61, 0x7B), 3))
    most = strategies.byte_set(bytes(b for b in range(0x21, 0x7F) if b not in b'"\\'))
    member = rng.choice((few, most, either(few, rng.choice(_PARTS_BEYOND)), _JSON_CHAR))
    counted = Repeat(member, rng.choice((0, 1, 2)), rng.choice((3, 30, 70, 255, None)))
    return rng.choice((counted, sequence(b"x-", counted), sequence(counted, b"_"), _found(b"er")))


@pytest.mark.parametrize("seed", range(32))
def test_names_but_for_some_say_what_walks_say(seed: int, real: TokenSet) -> None:
    rng = random.Random(seed)
    vocabulary = _REAL.setdefault(id(real), llgx.Vocabulary.from_tokens(real.tokens, eog=real.eog))
    names = rng.sample((b"id", b"ids", b"name", b"created_at", b"x-other", b"", b"er"), 3)
    forms = [_form_of(rng) for _ in range(rng.choice((0, 1, 1, 2)))]
    item = rng.choice((_JSON_CHAR, _ASCII, _JSON_CHAR))
    named = rng.sample((*map(Literal, names), *forms), 2 if rng.random() < 0.3 else len(forms) + 3)
    high = rng.choice((None, None, 4, 40, 80, 300))
    bodies = [[_others(*named, item=item, high=high), _COMMA]]
    bodies += [[sequence(b'"', name, b'"'), Literal(b":")] for name in names]
    bodies += [
        [sequence(b'"', both(form, star(_JSON_CHAR), Complement(either(*names))), b'"'), _COMMA]
        for form in forms
    ]
    made = llgx.Grammar.from_ir(_of(*bodies))
    quick, slow = _quick_and_slow(made, vocabulary)
    for _ in range(10):
        allowed = quick.allowed_tokens()
        assert allowed == slow.allowed_tokens()
        inside = [t for t in allowed if real.tokens[t].isalnum()]
        token = rng.choice(inside if inside and rng.random() < 0.7 else allowed)
        quick.consume(token)
        slow.consume(token)
        if quick.is_stopped():
            break


@pytest.mark.parametrize("seed", range(24))
def test_searches_that_exclude_one_another_say_what_walks_say(seed: int, real: TokenSet) -> None:
    rng = random.Random(seed)
    vocabulary = _REAL.setdefault(id(real), llgx.Vocabulary.from_tokens(real.tokens, eog=real.eog))
    words = rng.sample((b"er", b"the", b"customer", b"ing", b"a", b"tion", b"er n", b"tomers"), 3)
    kinds = [
        _found(word) if rng.random() < 0.8 else sequence(word, star(_ANY_BYTE)) for word in words
    ]
    kinds += [Literal(b"none")] * (rng.random() < 0.3)
    branches = [
        both(star(_JSON_CHAR), kind, *(Complement(other) for other in kinds if other != kind))
        for kind in kinds
    ]
    if rng.random() < 0.4:
        branches = [both(star(_JSON_CHAR), *map(Complement, kinds))]
    made = llgx.Grammar.from_ir(_of([sequence(b'"', either(*branches), b'"'), _COMMA]))
    quick, slow = _quick_and_slow(made, vocabulary)
    for token in real.tokens.index(b'"'), None, None, None, None, None, None, None:
        allowed = quick.allowed_tokens()
        assert allowed == slow.allowed_tokens()
        parts = [t for t in allowed if any(real.tokens[t] in word for word in words)]
        if token is None:
            token = rng.choice(parts if parts and rng.random() < 0.7 else allowed)
        quick.consume(token)
        slow.consume(token)
        if quick.is_stopped():
            break


_REAL: dict[int, llgx.Vocabulary] = {}


# --------------------------------------------------------------------------------------------------
# What once told the engine and the twin apart.

_B = Literal(b"b")


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize(
    "regex",
    [
        Repeat(inner, low, high)
        for inner in (plus(_B), Repeat(_B, 2, None), Repeat(_B, 1, 2), plus(Literal(b"bc")))
        for low, high in ((2, 2), (3, 3), (2, 6), (2, None), (0, 2), (1, None))
    ],
)
def test_repeats_of_repeats(regex: Regex, lazy: bool) -> None:
    terminals = [Terminal("T", regex, lazy=lazy), Terminal("END", Literal(b"."))]
    ir = GrammarIR([Rule("start", [Production((TerminalRef(0), TerminalRef(1)))])], terminals, 0)
    tokens = TokenSet((b"b", b"bb", b"c", b"bc", b"bcb", b".", b"b.", b"bc.", b"</s>"), eog=(8,))
    for seed in range(4):
        compare_walk(Walk(seed, ir, tokens, steps=8))


def test_guards_and_a_counted_loop_that_is_full(real: TokenSet) -> None:
    guarded = Production(
        (TerminalRef(0), RuleRef(1, ParamExpr("set_bit", 0))), Condition("bit_clear", 0)
    )
    ir = GrammarIR(
        [
            Rule("start", [Production((RuleRef(1, ParamExpr("const", 0)),))]),
            Rule("r", [guarded, Production((), Condition("bit_set", 5))], parametric=True),
        ],
        [Terminal("T", Repeat(_B, 1, 5))],
        start=0,
    )
    for seed in range(8):
        compare_walk(Walk(seed, ir, real, steps=5), _FEW)


def test_forced_text_that_no_tokens_spell() -> None:
    ir = GrammarIR(
        [Rule("start", [Production((TerminalRef(0),))])], [Terminal("T", Literal(b"ab"))], 0
    )
    compare_walk(Walk(0, ir, TokenSet((b"a", b"</s>"), eog=(1,))))


# --------------------------------------------------------------------------------------------------
# Lark text and description.


@pytest.mark.parametrize("seed", range(0, 200, 20))
def test_lark_text_means_its_description(seed: int) -> None:
    tokens = byte_tokens()
    vocabulary = llgx.Vocabulary.from_tokens(tokens.tokens, eog=tokens.eog)
    compared = 0
    for number in range(seed, seed + 20):
        rng = random.Random(number)
        ir = strategies.random_grammar(rng)
        try:
            text = strategies.lark_text(ir)
        except NotPrintableError:
            continue
        try:
            twin = ReferenceMatcher(ir, tokens.tokens, tokens.eog)
        except TooWideError:
            continue
        matcher = llgx.Matcher(llgx.Grammar.from_lark(text).compile(vocabulary))
        for _ in range(10):
            mask = twin.mask()
            assert campaign.allowed_tokens(matcher, len(vocabulary)) == mask, text
            compared += 1
            if twin.is_stopped() or not mask:
                break
            token = rng.choice(sorted(mask))
            twin.consume(token)
            matcher.consume(token)
    assert compared > 20


# --------------------------------------------------------------------------------------------------
# The comparison can fail.


class _WrongTwin(ReferenceGrammar):
    """Takes a zero for a one."""

    def step(self, state: State, byte: int) -> State | None:
        return super().step(state, ord("1") if byte == ord("0") else byte)


def test_a_wrong_mask_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    ir = _of([sequence(b"1"), _COMMA])
    walk = Walk(0, ir, byte_tokens(), steps=3)
    compare_walk(walk)
    monkeypatch.setattr(reference_matcher, "ReferenceGrammar", _WrongTwin)
    with pytest.raises(campaign.Disagreement, match="mask: missing"):
        compare_walk(walk)


def test_configurations_cover_every_switch() -> None:
    defaults = llgx.Shortcuts()
    names = {field.name for field in dataclasses.fields(llgx.Shortcuts)}
    for name in names:
        alone = dataclasses.replace(defaults, **{name: False})
        assert any(c.shortcuts == alone for c in ALL_CONFIGURATIONS), name
    off = llgx.Shortcuts(**dict.fromkeys(names, False))
    assert any(c.shortcuts == off for c in ALL_CONFIGURATIONS)
    assert isinstance(ALL_CONFIGURATIONS[0], Configuration)


def test_guards_that_refuse_all_that_could_follow_end_the_text() -> None:
    """Found by a walk: the lexer could go on, but no lexeme leads anywhere."""
    never = Condition("bit_count_eq", 0, 62, 2)
    letter = Terminal("LETTER", ByteSet(sum(1 << byte for byte in b"abc")))
    rules = [
        Rule(
            "start",
            [Production((TerminalRef(0), RuleRef(1, ParamExpr("const")))), Production(())],
        ),
        Rule("never", [Production((), never)], parametric=True),
    ]
    vocabulary = llgx.Vocabulary.from_tokens([b"a", b"b", b""], eog=[2])
    matcher = llgx.Matcher(llgx.Grammar.from_ir(GrammarIR(rules, [letter], 0)).compile(vocabulary))
    assert matcher.allowed_tokens() == [2]
    assert matcher.stop_reason == "complete"


def test_finite_names_that_a_class_leads_to_the_end_of() -> None:
    """What is left of a closed class beside siblings may be nothing, within one token."""
    assert compare_walk(walk_of_seed(800000764, steps=20)) == 20
