"""Exact lexing: the language of the context-free grammar, with no longest match."""

from __future__ import annotations

import dataclasses
import random
import time
from pathlib import Path

import pytest

import llgx
from llgx.ir import (
    EMPTY,
    GrammarIR,
    Literal,
    Production,
    Rule,
    RuleRef,
    Terminal,
    TerminalRef,
    TokenSet,
)
from llgx.limits import Limits, Shortcuts
from tests.campaign import Walk, compare_walk
from tests.reference import EmptyLanguageError, ReferenceGrammar, TooWideError
from tests.reference_regex import byte_classes, derivative, is_empty, normalise, nullable
from tests.strategies import byte_tokens, made_exact, random_grammar, random_tokens

SECOND = 5.0  # a second, on a machine that others use too
TOKENS = byte_tokens()


@pytest.fixture(scope="module")
def vocabulary() -> llgx.Vocabulary:
    return llgx.Vocabulary.from_tokens(TOKENS.tokens, eog=TOKENS.eog)


def matcher_of(
    text: str, vocabulary: llgx.Vocabulary, *, exact: bool = True, **limits: int
) -> llgx.Matcher:
    ir = dataclasses.replace(llgx.Grammar.from_lark(text).ir, exact=exact)
    return llgx.Matcher(llgx.Grammar.from_ir(ir).compile(vocabulary, limits=Limits(**limits)))


CASES = {
    "its own end": ('start: /a+/ "a"', ["aa", "aaa"], ["", "a", "aab"]),
    "list, listen": ('start: ("list" | "listen") "ed"', ["listed", "listened"], ["list", "listen"]),
    "three": ("start: (/aaa/ | /a+b+z/ | /b+x/)+", ["aaa", "aaabx", "aaabbx", "abz"], ["aab", "b"]),
    "text and its end": ('start: /.+/ "</t>"', ["x</t>", "</t></t>"], ["</t>", "x</t>y"]),
    "prefixes": (
        'start: ("a" | "a" "bq" | "c") ("bQ" | "")',
        ["a", "abq", "abqbQ", "abQ", "c", "cbQ"],
        ["ab", "bQ"],
    ),
    "keyword or name": (
        'start: "if" " " NAME | NAME " " NAME\nNAME: /[a-z]+/',
        ["if x", "iff x", "a b"],
        ["if", "if "],
    ),
    "lazy is like any other": ("start: x y\nx[lazy]: /a+/\ny: /a+b/", ["aab", "aaab"], ["ab", "a"]),
    "white space or text": (
        'start: A B\nA: /a ?/\nB: / ?b/\n%ignore " "',
        ["ab", "a b", "a  b", "a   b"],
        [" ab", "ab "],
    ),
    "white space ends no text": (
        'start: WORD? LETTER\nWORD: /[a-z0-9]+/\nLETTER: /[a-z]/\n%ignore " "',
        ["a", "ab", "a b", "1  a"],
        ["a ", "ab ", "a b ", " a", " "],
    ),
    "white space ends no text that may go on": (
        'start: "a" "b"?\n%ignore " "',
        ["a", "ab", "a b"],
        ["a ", "ab "],
    ),
    "white space once": (
        '%llguidance {"ignore_once": true}\nstart: "a" "b"\n%ignore " "',
        ["ab", "a b"],
        ["a  b"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_language(name: str, vocabulary: llgx.Vocabulary) -> None:
    grammar, accepted, rejected = CASES[name]
    matcher = matcher_of(grammar, vocabulary)
    for text in accepted:
        assert matcher.match_bytes(text.encode()) == (len(text), True), text
    for text in rejected:
        assert not matcher.match_bytes(text.encode())[1], text


def test_the_default_mode_commits(vocabulary: llgx.Vocabulary) -> None:
    for name in ("its own end", "list, listen", "text and its end"):
        grammar, accepted, _ = CASES[name]
        matcher = matcher_of(grammar, vocabulary, exact=False)
        assert not matcher.match_bytes(accepted[0].encode())[1]


def test_matcher(vocabulary: llgx.Vocabulary) -> None:
    matcher = matcher_of('start: /a+/ "ab" "c"?', vocabulary)
    assert matcher.expected() == ("/a+/",)
    assert matcher.forced_bytes() == b"aa"
    assert matcher.try_consume(b"aaab") == 4
    assert matcher.is_accepting()
    assert matcher.stop_reason is None
    matcher.consume(ord("c"))
    assert matcher.stop_reason == "complete"
    with pytest.raises(llgx.TokenRejected) as caught:
        matcher.consume(ord("c"))
    assert caught.value.position == 5
    matcher.rollback(3)
    assert matcher.allowed_tokens() == [ord("a"), ord("b")]
    other = matcher.copy()
    other.reset()
    assert other.validate(b"aabc") == 4
    answer = matcher.explain("bd")
    assert (answer.offset, answer.expected) == (1, ('"c"',))


# ------------------------------------------------------------------ against the twin


@pytest.mark.parametrize("seed", range(0, 80, 10))
def test_random_grammars(seed: int) -> None:
    states = 0
    for number in range(seed, seed + 10):
        rng = random.Random(number)
        ir = made_exact(random_grammar(rng))
        try:
            tokens = random_tokens(rng, ReferenceGrammar(ir))
            states += compare_walk(Walk(number, ir, tokens, steps=10))
        except (TooWideError, llgx.LimitError):
            continue
    assert states > 10


def _derive(rng: random.Random, ir: GrammarIR, rule: int, depth: int) -> bytes | None:
    """A text that ``rule`` derives, white space in places; None if that does not work out."""
    production = rng.choice(ir.rules[rule].productions)
    text = b""
    for symbol in production.symbols:
        part: bytes | None
        if isinstance(symbol, RuleRef):
            part = _derive(rng, ir, symbol.index, depth - 1) if depth else None
        else:
            part = _match(rng, ir, symbol.index)
            skip = ir.skip[ir.terminals[symbol.index].skip_class]
            if part and text and skip >= 0 and rng.random() < 0.3:
                part = (_match(rng, ir, skip) or b"") + part
        if part is None:
            return None
        text += part
    return text


def _match(rng: random.Random, ir: GrammarIR, terminal: int) -> bytes | None:
    regex = normalise(ir.terminals[terminal].regex)
    text = b""
    alphabet = sorted(set(byte_classes((regex,))))
    for _ in range(8):
        if nullable(regex) and rng.random() < 0.5:
            return text
        choices = [byte for byte in alphabet if not is_empty(derivative(regex, byte))]
        if not choices:
            break
        text += bytes((rng.choice(choices),))
        regex = derivative(regex, text[-1])
    return text if nullable(regex) else None


def test_every_derivation_is_accepted(vocabulary: llgx.Vocabulary) -> None:
    accepted = 0
    for number in range(150):
        rng = random.Random(number)
        ir = made_exact(random_grammar(rng))
        if any(rule.parametric for rule in ir.rules):
            continue
        try:
            ReferenceGrammar(ir)
        except EmptyLanguageError:
            continue  # it had tokens for terminals
        matcher = llgx.Matcher(llgx.Grammar.from_ir(ir).compile(vocabulary))
        for _ in range(20):
            text = _derive(rng, ir, ir.start, 4)
            if text is None:
                continue
            try:
                assert matcher.match_bytes(text) == (len(text), True), (number, text)
            except llgx.LimitError:
                break
            accepted += bool(text)
    assert accepted > 300


def test_what_exact_lexing_lacks_is_an_error(vocabulary: llgx.Vocabulary) -> None:
    terminal = Terminal("A", Literal(b"a"))
    for change in (
        {"distinct": True},
        {"tokens": TokenSet(negated=True), "regex": EMPTY},
        {"hidden_tail": True, "tail": Literal(b"a"), "lazy": True},
        {"ends_with_eog": True},
    ):
        ir = GrammarIR(
            [Rule("start", [Production((TerminalRef(0),))])],
            [dataclasses.replace(terminal, **change)],  # type: ignore[arg-type]
            start=0,
            exact=True,
        )
        with pytest.raises(llgx.GrammarError, match="exact lexing"):
            llgx.Grammar.from_ir(ir).compile(vocabulary)
    for name in ("capture", "temperature"):
        rule = Rule("start", [Production((TerminalRef(0),))])
        setattr(rule, name, "x" if name == "capture" else 1.0)
        ir = GrammarIR([rule], [terminal], start=0, exact=True)
        with pytest.raises(llgx.GrammarError, match="exact lexing"):
            llgx.Grammar.from_ir(ir).compile(vocabulary)


# ------------------------------------------------------------------ hostile


@pytest.mark.parametrize(
    "text",
    [
        'start: /a+/ start "b" | "c"',
        "start: s\ns: s s | /a+/",
        "start: (/a+/ | /a*b?a/ | /(aa)+/)+",
        'start: x\nx: /a+/ x /a+/ | "."',
        "start: " + " ".join(f"/a{{0,{n}}}/" for n in range(1, 30)),
    ],
    ids=range(5),
)
def test_many_ways_end_in_an_answer_or_an_error(vocabulary: llgx.Vocabulary, text: str) -> None:
    begin = time.process_time()
    try:
        matcher = matcher_of(text, vocabulary, exact_pairs=100)
        matcher.try_consume(b"a" * 400)
        matcher.allowed_tokens()
    except llgx.LimitError as error:
        assert error.limit in ("exact_pairs", "row_items", "rows")  # noqa: PT017
    assert time.process_time() - begin < SECOND


def test_asking_again_does_not_get_past_the_limit(vocabulary: llgx.Vocabulary) -> None:
    matcher = matcher_of('start: /a+/ start "b" | "c"', vocabulary, exact_pairs=10)
    refused = 0
    for _ in range(40):
        try:
            matcher.consume(ord("a"))
            matcher.allowed_tokens()
        except llgx.LimitError:
            refused += 1
    assert refused > 30
    assert matcher.tokens == [ord("a")] * len(matcher)
    assert 0 < len(matcher) < 10


# --------------------------------------------------------------------------------------------------
# Masks.

LOOPS = {
    "strings and blanks": (
        'start: "[" [word ("," word)*] "]"\nword: /"[^"\\x00-\\x1f]*"/\n%ignore / +/',
        '["a b", "x", "\u00e9t\u00e9 und so weiter" , ""]',
    ),
    "names and keywords": (
        'start: (name | "if" | "in" /[0-9]+/)+\nname: /[a-z][a-z0-9_]*/ ";"\n%ignore /[ \\n]+/',
        "in12 if abc; if; in_3; ifs0; x;in1",
    ),
    "free text and its end": (
        'start: text "</a>" /[0-9]{1,3}/\ntext: /(.|\\n)*/',
        "a <b> </a></a>12",
    ),
    "operators before names": (
        'start: sum\nsum: atom | sum ("+" | "-" | "->") atom\n'
        'atom: /[A-Za-z]+/ | /[0-9]+/ | "(" sum ")"',
        "Total-(rate+12)->abc",
    ),
    "bytes": (
        '%llguidance {"allow_invalid_utf8": true}\nstart: /[^;]*/ ";" /[^a]*/',
        "a\u20acb;c;d",
    ),
}


@pytest.fixture(scope="module")
def llama_3(vocabulary_dir: Path) -> llgx.Vocabulary:
    return llgx.Vocabulary.from_gguf(vocabulary_dir / "ggml-vocab-llama-bpe.gguf")


@pytest.mark.parametrize("name", LOOPS)
def test_masks_with_loops_are_those_of_plain_walks(name: str, llama_3: llgx.Vocabulary) -> None:
    text, example = LOOPS[name]
    ir = dataclasses.replace(llgx.Grammar.from_lark(text).ir, exact=True)
    grammar = llgx.Grammar.from_ir(ir)
    off = {field.name: False for field in dataclasses.fields(Shortcuts)}
    switches = [
        Shortcuts(),
        Shortcuts(**off),
        Shortcuts(mask_memo=False),
        Shortcuts(difference_masks=False),
    ]
    matchers = [
        llgx.Matcher(grammar.compile(llama_3, shortcuts=shortcuts)) for shortcuts in switches
    ]
    for token in llama_3.tokenize(example.encode()):
        masks = [set(matcher.allowed_tokens()) for matcher in matchers]
        assert masks[1:] == masks[:1] * 3
        assert token in masks[0]
        for matcher in matchers:
            matcher.consume(token)


def test_loops_of_exact_lexing_take_the_tables_of_the_vocabulary(
    llama_3: llgx.Vocabulary,
) -> None:
    text, example = LOOPS["strings and blanks"]
    ir = dataclasses.replace(llgx.Grammar.from_lark(text).ir, exact=True)
    compiled = llgx.Grammar.from_ir(ir).compile(llama_3)
    matcher = llgx.Matcher(compiled)
    for token in llama_3.tokenize(example.encode()):
        matcher.allowed_tokens()
        matcher.consume(token)
    assert compiled.stats()["tables"] > 0


def test_a_small_memo_of_masks_is_enough(llama_3: llgx.Vocabulary) -> None:
    text, example = LOOPS["names and keywords"]
    ir = dataclasses.replace(llgx.Grammar.from_lark(text).ir, exact=True)
    grammar = llgx.Grammar.from_ir(ir)
    small = llgx.Matcher(grammar.compile(llama_3, limits=Limits(mask_cache_bytes=1)))
    large = llgx.Matcher(grammar.compile(llama_3))
    for token in llama_3.tokenize(example.encode()):
        assert small.allowed_tokens() == large.allowed_tokens()
        small.consume(token)
        large.consume(token)
