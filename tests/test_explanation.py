"""What ``Matcher.explain`` answers, and how it reads."""

from __future__ import annotations

import pytest

import llgx

GRAMMAR = 'start: "ab" DIGITS ("é" | ";")\nDIGITS: /[0-9]+/\n'


@pytest.fixture
def matcher() -> llgx.Matcher:
    vocabulary = llgx.Vocabulary.from_tokens([*(bytes((b,)) for b in range(256)), b""], eog=(256,))
    return llgx.Matcher(llgx.Grammar.from_lark(GRAMMAR).compile(vocabulary))


@pytest.mark.parametrize(
    ("text", "offset", "fits", "complete", "expected"),
    [
        ("", 0, True, False, ('"ab"',)),
        ("a", 1, True, False, ('"ab"',)),
        ("b", 0, False, False, ('"ab"',)),
        ("ac", 1, False, False, ('"ab"',)),
        ("ab12", 4, True, False, ("DIGITS", '"é"', '";"')),
        ("ab12x", 4, False, False, ("DIGITS", '"é"', '";"')),
        ("ab12é", 6, True, True, ()),
        ("ab12;", 5, True, True, ()),
        ("ab12;;", 5, False, False, ()),
    ],
)
def test_answer(
    matcher: llgx.Matcher,
    text: str,
    offset: int,
    fits: bool,
    complete: bool,
    expected: tuple[str, ...],
) -> None:
    for spelling in (text, text.encode()):
        answer = matcher.explain(spelling)
        assert (answer.text, answer.offset) == (text.encode(), offset)
        assert (answer.fits, answer.complete) == (fits, complete)
        assert sorted(answer.expected) == sorted(expected)
    assert matcher.tokens == []


def test_answer_goes_on_from_the_tokens_consumed(matcher: llgx.Matcher) -> None:
    assert matcher.try_consume(b"ab1") == 3
    answer = matcher.explain("2;")
    assert (answer.offset, answer.complete) == (2, True)
    assert matcher.tokens == list(b"ab1")


def test_part_of_a_character_is_text_too(matcher: llgx.Matcher) -> None:
    answer = matcher.explain(b"ab1\xc3")
    assert answer.fits
    assert not answer.complete
    assert answer.expected == ('"é"',)
    assert str(answer) == 'the text fits so far; expected "é"'


def test_reads_well(matcher: llgx.Matcher) -> None:
    assert str(matcher.explain("ab1;")) == "the text fits and is complete"
    assert str(matcher.explain("a")) == 'the text fits so far; expected "ab"'
    message = str(matcher.explain("ab1é!"))
    assert message.startswith("byte 5 does not fit: nothing can follow\n")
    shown, caret = message.splitlines()[-2:]
    assert shown[caret.index("^")] == "!"  # bytes before it are two, characters one


@pytest.mark.parametrize(("count", "end"), [(12, "11"), (13, "11 and 1 more")])
def test_long_lists_of_names_are_cut(count: int, end: str) -> None:
    names = tuple(str(number) for number in range(count))
    answer = llgx.Explanation(b"", 0, False, names)
    assert str(answer) == f"the text fits so far; expected {', '.join(names[:11])}, {end}"


@pytest.mark.parametrize("text", [None, 1, ["a"], bytearray(b"ab")])
def test_other_types_are_refused(matcher: llgx.Matcher, text: object) -> None:
    with pytest.raises(TypeError, match="str or bytes"):
        matcher.explain(text)  # type: ignore[arg-type]


def test_the_rules_under_way() -> None:
    grammar = llgx.Grammar.from_lark(
        'start: "{" pair ("," pair)* "}"\npair: key ":" value\nkey: /[a-z]+/\n'
        "value: start | number\nnumber: /[0-9]+/\n"
    )
    vocabulary = llgx.Vocabulary.from_tokens([bytes((b,)) for b in range(256)] + [b""], eog=256)
    matcher = llgx.Matcher(grammar.compile(vocabulary))
    assert matcher.explain("{a:x").rules == ("start", "pair")
    assert matcher.explain("{a:1x").rules == ("start", "pair", "value", "number")
    assert matcher.explain("{a:{b:{c").rules[:5] == ("start", "pair", "value", "start", "pair")
    assert "in start > pair > value > number: " in str(matcher.explain("{a:1x"))
    assert matcher.explain("{a:1}").rules == ()
    deep = matcher.explain("{a:" * 500 + "?")
    assert len(deep.rules) == 3 * 500 - 1
    assert " > ... > " in str(deep)
