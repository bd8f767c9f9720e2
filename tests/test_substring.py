"""Runs of the pieces of a text, `llgx.ir.Substring`, and the words that texts are cut into."""

from __future__ import annotations

import json
import random
import time
from typing import Final

import pytest

import llgx
from llgx.ir import Alternation, Complement, Concat, Intersection, Literal, Regex, Repeat, Substring
from llgx.regex.words import words
from tests.campaign import Walk, compare_walk
from tests.strategies import TokenSet, byte_set, byte_tokens
from tests.test_hostile import one_terminal

BYTES: Final = byte_tokens()
VOCABULARY: Final = llgx.Vocabulary.from_tokens(BYTES.tokens, eog=BYTES.eog)


def _matcher(regex: Regex) -> llgx.Matcher:
    return llgx.Matcher(llgx.Grammar.from_ir(one_terminal(regex)).compile(VOCABULARY))


def _accepts(matcher: llgx.Matcher, text: bytes) -> bool:
    matcher.reset()
    return matcher.try_consume(list(text)) == len(text) and bool(matcher.is_accepting())


def _pieces(rng: random.Random) -> tuple[bytes, ...]:
    texts = [b"a", b"b", b"ab", b"ba", b"c", "é".encode(), b"abc", b""]
    if rng.random() < 0.2:  # states of many transitions
        texts = [bytes(rng.choices(b"abc", k=rng.randint(1, 5))) for _ in range(30)]
    return tuple(rng.choices(texts, k=rng.choice([0, 1, 3, 8, 14, 40])))


def test_runs_and_nothing_else() -> None:
    rng = random.Random(1)
    for _ in range(80):
        pieces = _pieces(rng)
        matcher = _matcher(Substring(pieces))
        count = len(pieces)
        runs = {b"".join(pieces[i:j]) for i in range(count + 1) for j in range(i, count + 1)}
        assert all(_accepts(matcher, run) for run in runs)
        for _ in range(20):
            text = bytes(rng.choices(b"abc", k=rng.randint(0, 6)))
            assert _accepts(matcher, text) == (text in runs), (pieces, text)


@pytest.mark.parametrize("seed", range(40))
def test_masks_are_those_of_the_twin(seed: int) -> None:
    """Alone, within other regexes, and beside ``&`` and ``~``; tokens are runs and near ones."""
    rng = random.Random(seed)
    runs = Substring(_pieces(rng)[:14])
    regex = rng.choice(
        [
            runs,
            Concat((runs, Literal(b"!"))),
            Concat((Literal(b"a"), runs, runs)),
            Intersection((runs, Repeat(byte_set(b"abc"), 0, rng.randint(0, 5)))),
            Intersection((runs, Complement(Literal(b"ab")))),
            Intersection((runs, Substring(_pieces(rng)[:14]))),
            Intersection((Repeat(byte_set(b"abc"), 0, 4), Complement(runs))),
            Alternation((runs, Literal(b"cab"), Repeat(Literal(b"ab"), 1, None))),
            Repeat(runs, 0, 3),
        ]
    )
    texts = sorted({bytes(rng.choices(b"abc!", k=rng.randint(2, 6))) for _ in range(60)})
    tokens = TokenSet((*BYTES.tokens, *texts), BYTES.eog)
    assert compare_walk(Walk(seed, one_terminal(regex), tokens, 8)) > 0


@pytest.mark.parametrize("kind", ["few words", "many words", "one word", "letters", "two letters"])
def test_nodes_are_linear(kind: str) -> None:
    rng = random.Random(kind)

    def nodes(count: int) -> int:
        if kind == "one word":
            pieces = [b"word"] * count
        elif kind == "letters":
            pieces = [bytes([byte]) for byte in rng.choices(b"abcdefgh", k=count)]
        elif kind == "two letters":
            pieces = [b"a", b"b"] * (count // 2)
        else:
            names = 50 if kind == "few words" else 10 * count
            pieces = [b"w%d" % rng.randrange(names) for _ in range(count)]
        grammar = llgx.Grammar.from_ir(one_terminal(Substring(tuple(pieces))))
        return grammar.compile(VOCABULARY).stats()["regex_nodes"]

    small, large = nodes(500), nodes(4_000)
    assert large < 10 * small
    assert large < 8 * 4_000


def test_words() -> None:
    assert words("it's 3.5  x_y-É, नम") == [
        *("it", "'", "s", " ", "3", ".", "5", "  ", "x_y", "-", "É", ",", " ", "नम"),
    ]
    assert words("") == []


def test_a_substring_of_a_long_text() -> None:
    text = " ".join(f"word{i * 7919 % 5000}" for i in range(4_000))
    begin = time.process_time()
    grammar = llgx.Grammar.from_lark(f"start: %regex {json.dumps({'substring_words': text})}")
    matcher = llgx.Matcher(grammar.compile(VOCABULARY))
    assert time.process_time() - begin < 1
    for start in (0, 9_000, 20_000):
        run = text[text.index(" ", start) : start + 800].rsplit(" ", 1)[0].encode()
        matcher.reset()
        assert matcher.try_consume(list(run)) == len(run)
        assert matcher.is_accepting()
        assert not matcher.allows(ord("x"))


def test_a_long_text_of_characters() -> None:
    """A chain of nodes as long as the text, which is no deep regex."""
    rng = random.Random(4)
    text = "".join(rng.choices("abcdefgh  é", k=50_000))
    begin = time.process_time()
    grammar = llgx.Grammar.from_lark(f"start: %regex {json.dumps({'substring_chars': text})}")
    matcher = llgx.Matcher(grammar.compile(VOCABULARY))
    assert time.process_time() - begin < 1
    for start in (0, 20_000, 49_800):
        assert _accepts(matcher, text[start : start + 200].encode())
        assert not matcher.allows(ord("x"))
    assert _accepts(matcher, text.encode())


def test_too_long_a_text_is_refused() -> None:
    small = llgx.Limits(regex_nodes=1_000)
    grammar = llgx.Grammar.from_lark(f'start: %regex {{"substring_chars": "{"abcd" * 1_000}"}}')
    with pytest.raises(llgx.LimitError) as caught:
        grammar.compile(VOCABULARY, limits=small)
    assert caught.value.limit == "regex_nodes"
