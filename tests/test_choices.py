"""Lists of texts, and regexes, as whole grammars."""

from __future__ import annotations

import pathlib
import random
import re
from collections.abc import Iterable
from typing import Final

import pytest

import llgx
from tests.campaign import ALL_CONFIGURATIONS, Configuration, allowed_tokens
from tests.strategies import byte_tokens

BYTES: Final = byte_tokens()
VOCABULARY: Final = llgx.Vocabulary.from_tokens(BYTES.tokens, eog=BYTES.eog)
SIZE: Final = len(VOCABULARY)


def _accepts(compiled: llgx.CompiledGrammar, text: str) -> bool:
    matcher = llgx.Matcher(compiled)
    data = text.encode()
    return matcher.try_consume(data) == len(data) and bool(matcher.is_accepting())


def _check_states(compiled: llgx.CompiledGrammar, choices: Iterable[str]) -> None:
    """At every beginning of every choice the mask holds exactly the bytes that go on."""
    texts = {choice.encode() for choice in choices}
    beginnings = {text[:end] for text in texts for end in range(len(text) + 1)} | {b""}
    for beginning in beginnings:
        matcher = llgx.Matcher(compiled)
        assert matcher.try_consume(beginning) == len(beginning)
        following = {
            text[len(beginning)]
            for text in texts
            if text.startswith(beginning) and len(text) > len(beginning)
        }
        ends = set(VOCABULARY.eog) if beginning in texts else set()
        assert allowed_tokens(matcher, SIZE) == following | ends, beginning
        assert matcher.is_accepting() == (beginning in texts)


@pytest.mark.parametrize("configuration", ALL_CONFIGURATIONS, ids=lambda c: c.name)
@pytest.mark.parametrize(
    "choices",
    [
        ["yes"],
        ["yes", "no", "maybe"],
        ["a", "ab", "abc", "b"],
        ["", "a"],
        [""],
        ["é", "è", "€", "é€", "😀"],
        ["x", "x", "x"],
        [f"item {i}" for i in range(40)],
        ["a" * i for i in range(30)],
        ["\x00", "\n", '"', "\\"],
    ],
    ids=lambda choices: repr(choices)[:20],
)
def test_choices(choices: list[str], configuration: Configuration) -> None:
    grammar = llgx.Grammar.from_choices(choices)
    compiled = grammar.compile(
        VOCABULARY, limits=configuration.limits, shortcuts=configuration.shortcuts
    )
    _check_states(compiled, choices)


def test_random_choices() -> None:
    for seed in range(40):
        rng = random.Random(seed)
        choices = [
            "".join(rng.choices("abé", k=rng.randint(0, 5))) for _ in range(rng.randint(1, 60))
        ]
        _check_states(llgx.Grammar.from_choices(choices).compile(VOCABULARY), choices)


def test_texts_that_begin_each_other_do_not_nest() -> None:
    """A chain of 3,000 beginnings is no deep regex."""
    choices = ["a" * i for i in range(1, 3_000)]
    compiled = llgx.Grammar.from_choices(choices).compile(VOCABULARY)
    assert _accepts(compiled, "a" * 2_999)
    assert not _accepts(compiled, "a" * 3_000)


def test_fifty_thousand_choices(vocabulary_dir: pathlib.Path) -> None:
    """Every choice is accepted as the model would spell it, and the work stays in proportion."""
    vocabulary = llgx.Vocabulary.from_gguf(vocabulary_dir / "ggml-vocab-llama-bpe.gguf")
    rng = random.Random(1)
    letters = "abcdefghijklmnopqrstuvwxyz"
    choices = ["".join(rng.choices(letters, k=rng.randint(3, 14))) for _ in range(50_000)]
    compiled = llgx.Grammar.from_choices(choices).compile(vocabulary)
    matcher = llgx.Matcher(compiled)
    mask = llgx.allocate_token_bitmask(1, len(vocabulary))
    for choice in rng.sample(choices, 40):
        matcher.reset()
        tokens = vocabulary.tokenize(choice.encode())
        assert tokens is not None
        for token in tokens:
            matcher.fill_bitmask(mask, 0)
            assert int(mask[0, token // 32]) >> token % 32 & 1
            matcher.consume(token)
        assert matcher.is_accepting()
    # Residuals are nodes of the tree by prefix, not copies of it.
    assert compiled.stats()["lexer_states"] < 2 * len(choices)


def test_faulty_choices() -> None:
    with pytest.raises(llgx.GrammarError, match="nothing to choose"):
        llgx.Grammar.from_choices([])
    with pytest.raises(llgx.GrammarError, match="surrogate"):
        llgx.Grammar.from_choices(["a", "\ud800"])
    for choices in ("yes", [1], [b"a"], None):
        with pytest.raises(TypeError):
            llgx.Grammar.from_choices(choices)  # type: ignore[arg-type]


def test_choices_name_themselves() -> None:
    matcher = llgx.Matcher(llgx.Grammar.from_choices(["yes", "no"]).compile(VOCABULARY))
    assert matcher.expected() == ('"yes" | "no"',)
    many = llgx.Grammar.from_choices(map(str, range(1000))).compile(VOCABULARY)
    (name,) = llgx.Matcher(many).expected()
    assert name.startswith('"0" | "1" | ')
    assert name.endswith(" | ...")
    assert len(name) < 80


# Regexes


@pytest.mark.parametrize("syntax", ["rust", "ecma"])
@pytest.mark.parametrize("pattern", ["[a-c]+x?", "a|bc", "", "a{2,3}|é", r"\d\s", "^ab$", "(a)(b)"])
def test_regexes(pattern: str, syntax: str) -> None:
    """Both dialects match from start to end, as ``re.fullmatch`` does."""
    compiled = llgx.Grammar.from_regex(pattern, syntax=syntax).compile(VOCABULARY)  # type: ignore[arg-type]
    for text in ("", "a", "ab", "abx", "x", "bc", "abc", "aa", "aaa", "é", "1 ", " 1", "cx"):
        assert _accepts(compiled, text) == (re.fullmatch(pattern, text) is not None), text


def test_dialects_differ() -> None:
    ahead = llgx.Grammar.from_regex("(?=.*b)[ab]{3}", syntax="ecma").compile(VOCABULARY)
    assert _accepts(ahead, "aab")
    assert not _accepts(ahead, "aaa")
    flag = llgx.Grammar.from_regex("(?i)ab").compile(VOCABULARY)
    assert _accepts(flag, "aB")


@pytest.mark.parametrize(
    ("pattern", "syntax", "column"),
    [("a(b", "rust", 2), ("a)|(b", "ecma", 2), ("[b-a]", "rust", 2), ("a(b", "ecma", 2)],
)
def test_faulty_regexes(pattern: str, syntax: str, column: int) -> None:
    with pytest.raises(llgx.GrammarError) as caught:
        llgx.Grammar.from_regex(pattern, syntax=syntax)  # type: ignore[arg-type]
    assert caught.value.column == column
    assert caught.value.excerpt.startswith(pattern)


def test_no_regex() -> None:
    with pytest.raises(TypeError):
        llgx.Grammar.from_regex(b"a")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="syntax"):
        llgx.Grammar.from_regex("a", syntax="perl")  # type: ignore[arg-type]
    with pytest.raises(llgx.LimitError):
        llgx.Grammar.from_regex("a" * 10, limits=llgx.Limits(grammar_bytes=5))


@pytest.mark.parametrize("pattern", ['".*?"', "(?=a)a.*", r"\bcat\b"])
def test_what_the_other_syntax_reads_is_said(pattern: str) -> None:
    with pytest.raises(llgx.GrammarError, match='; syntax="ecma" reads this pattern'):
        llgx.Grammar.from_regex(pattern)
    assert llgx.Grammar.from_regex(pattern, syntax="ecma").compile(VOCABULARY)
    with pytest.raises(llgx.GrammarError) as caught:
        llgx.Grammar.from_regex("a(")
    assert "ecma" not in caught.value.message
