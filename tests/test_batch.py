"""``fill_bitmasks``: the masks of many matchers, in one thread and in several."""

from __future__ import annotations

import os
import threading
from typing import Any

import numpy as np
import pytest

import llgx
from llgx.limits import Limits

TOKENS = [bytes([byte]) for byte in range(256)]
TOKENS += [text.encode() for text in ("ab", "abc", "12", "123", '{"', '":', ", ", "é", "日本")]
VOCABULARY = llgx.Vocabulary.from_tokens([*TOKENS, b""], eog=[len(TOKENS)])
WIDTH = (len(VOCABULARY) + 31) // 32
SMALL = llgx.Vocabulary.from_tokens([b"a", b"b", b""], eog=[2])
GRAMMARS = [
    llgx.Grammar.from_regex("[a-z]{1,9}"),
    llgx.Grammar.from_choices(["abc", "abd", "日本"]),
    llgx.Grammar.from_lark('start: "(" start ")" | /[0-9]+/'),
    llgx.Grammar.from_json_schema({"type": "array", "items": {"type": "integer"}}),
    llgx.Grammar.from_lark('%llguidance {"lexer": "exact"}\nstart: /a+/ "ab" | "1" start'),
    llgx.Grammar.from_lark('start: a "c"\na[max_tokens=2]: /[ab]+/'),
]


def matchers_of(seed: int, count: int) -> list[llgx.Matcher | None]:
    """Some of each grammar, each after a walk of its own; some are missing."""
    random = np.random.default_rng(seed)
    compiled = [grammar.compile(VOCABULARY) for grammar in GRAMMARS]
    result: list[llgx.Matcher | None] = []
    for _ in range(count):
        if random.random() < 0.1:
            result.append(None)
            continue
        matcher = llgx.Matcher(compiled[random.integers(len(compiled))])
        for _ in range(random.integers(6)):
            allowed = matcher.allowed_tokens()
            if matcher.is_stopped() or not allowed:
                break
            matcher.consume(int(random.choice(allowed)))
        result.append(matcher)
    return result


@pytest.mark.parametrize("threads", [1, 2, 3, 1000])
@pytest.mark.parametrize("seed", range(4))
def test_rows_are_those_of_each_matcher(seed: int, threads: int) -> None:
    matchers = matchers_of(seed, 80)
    mask = np.full((90, WIDTH), 0x5A5A5A5A, np.int32)
    expected = mask.copy()
    for row, matcher in enumerate(matchers):
        if matcher is not None:
            llgx.Matcher.fill_bitmask(matcher, expected, row)
    llgx.fill_bitmasks(matchers, mask, threads=threads)
    assert (mask == expected).all()
    assert len({bytes(row) for row in mask}) > 10


def test_a_matcher_may_occur_twice_and_rows_may_be_apart() -> None:
    matcher = llgx.Matcher(GRAMMARS[0].compile(VOCABULARY))
    whole = np.zeros((8, WIDTH), np.int32)
    llgx.fill_bitmasks([matcher, matcher], whole[1::3], threads=2)
    assert (whole[1] == whole[4]).all()
    assert whole[1].any()
    assert not whole[[0, 2, 3, 5, 6, 7]].any()


def refusing() -> llgx.Matcher:
    """A matcher whose mask meets a limit: the smallest cap under which it can be made at all."""
    grammar = llgx.Grammar.from_lark("start: /[a-z]{2,9}[0-9]{3}x/")
    for cap in range(1, 50):
        matcher = None
        try:
            matcher = llgx.Matcher(grammar.compile(VOCABULARY, limits=Limits(lexer_states=cap)))
            matcher.allowed_tokens()
        except llgx.LimitError:
            if matcher is not None:
                return matcher
    raise AssertionError("no limit is met")


@pytest.mark.parametrize("threads", [1, 2])
def test_a_limit_leaves_one_row(threads: int) -> None:
    """The row of a mask that meets a limit is as it was, the others are written, and nothing
    sticks."""
    bad = refusing()
    good = [llgx.Matcher(grammar.compile(VOCABULARY)) for grammar in GRAMMARS]
    matchers = [*good[:3], bad, *good[3:]]
    mask = np.full((len(matchers), WIDTH), -1, np.int32)
    expected = mask.copy()
    for row, matcher in enumerate(matchers):
        if matcher is not bad:
            matcher.fill_bitmask(expected, row)
    with pytest.raises(llgx.LimitError, match="lexer has too many states"):
        llgx.fill_bitmasks(matchers, mask, threads=threads)
    assert (mask == expected).all()
    assert (mask[3] == -1).all()
    llgx.fill_bitmasks(good, mask, threads=threads)


@pytest.mark.parametrize(
    ("matchers", "mask", "threads", "error", "message"),
    [
        ([None, "x"], None, 1, TypeError, "not a Matcher: str"),
        ([None], None, 0, ValueError, "threads is a number from 1 on, not 0"),
        ([None], None, True, TypeError, "threads is an int, not bool"),
        ([None], None, 1.5, TypeError, "threads is an int, not float"),
        ([None] * 9, None, 1, ValueError, "9 matchers for a mask of 8 rows"),
        ([None], np.zeros(3, np.int32), 1, ValueError, "the mask must have shape"),
        ([None], np.zeros((1, 9), np.int64), 1, TypeError, "dtype int32"),
        ([None], "mask", 1, TypeError, "a mask is an int32 array, not str"),
        ([None], b"mask", 1, ValueError, "cannot be written to"),
        (3, None, 1, TypeError, "matchers are a list of Matcher objects, not int"),
    ],
)
def test_wrong_calls(
    matchers: Any, mask: Any, threads: Any, error: type[Exception], message: str
) -> None:
    if mask is None:
        mask = llgx.allocate_token_bitmask(8, len(VOCABULARY))
    with pytest.raises(error, match=message):
        llgx.fill_bitmasks(matchers, mask, threads=threads)


def test_vocabularies_of_two_sizes() -> None:
    two = [llgx.Matcher(GRAMMARS[0].compile(vocabulary)) for vocabulary in (VOCABULARY, SMALL)]
    mask = np.zeros((2, WIDTH), np.int32)
    with pytest.raises(ValueError, match="several sizes"):
        llgx.fill_bitmasks(two, mask)
    assert not mask.any()


def test_nothing_to_fill() -> None:
    mask = np.zeros((2, WIDTH), np.int32)
    llgx.fill_bitmasks([], mask, threads=4)
    llgx.fill_bitmasks([None, None], mask, threads=4)
    assert not mask.any()


def test_batches_in_several_threads_at_a_time() -> None:
    """Batches of the same grammars, filled at once: the locks are those of the grammars."""
    batches = [matchers_of(seed, 30) for seed in range(4)]
    masks = [np.zeros((30, WIDTH), np.int32) for _ in batches]

    def fill(number: int) -> None:
        for _ in range(20):
            llgx.fill_bitmasks(batches[number], masks[number], threads=2)

    threads = [threading.Thread(target=fill, args=(number,)) for number in range(len(batches))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for batch, mask in zip(batches, masks, strict=True):
        expected = np.zeros_like(mask)
        for row, matcher in enumerate(batch):
            if matcher is not None:
                matcher.fill_bitmask(expected, row)
        assert (mask == expected).all()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_has_threads_of_its_own() -> None:
    matchers = matchers_of(1, 30)
    mask = np.zeros((30, WIDTH), np.int32)
    llgx.fill_bitmasks(matchers, mask, threads=2)
    child = os.fork()
    if child == 0:
        again = np.zeros_like(mask)
        llgx.fill_bitmasks(matchers, again, threads=2)
        os._exit(0 if (again == mask).all() else 1)
    assert os.waitpid(child, 0)[1] == 0
