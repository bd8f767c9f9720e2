"""Unicode classes and case folding against ``unicodedata``, ``str`` and llguidance."""

from __future__ import annotations

import random
import sys
import unicodedata

import pytest
from ir_match import Oracle
from llguidance import LLMatcher, LLTokenizer

from llgx.errors import GrammarError
from llgx.regex import charset, literal, parse_ecma, parse_rust, tables
from llgx.regex.utf8 import set_regex

CATEGORIES = (
    "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co".split()
)
# Characters that this Python knows, some of every plane.
ASSIGNED = [
    point for point in range(sys.maxunicode + 1) if unicodedata.category(chr(point)) not in "Cs Cn"
]
SAMPLE = sorted({*range(0x250), *random.Random(7).sample(ASSIGNED, 600)} & {*ASSIGNED})
# Characters whose category has changed since the oldest Unicode that Python 3.10 to 3.14 carry.
RECLASSIFIED = {0x166D, 0x19DA, 0x1734, 0x180F, 0x1C89}


@pytest.mark.parametrize("name", CATEGORIES)
def test_general_categories(name: str) -> None:
    members = tables.ecma_property(name)
    assert members is not None
    for point in SAMPLE:
        if point not in RECLASSIFIED:
            inside = unicodedata.category(chr(point)) == name
            assert charset.contains(members, point) == inside, hex(point)


def test_categories_partition_everything() -> None:
    sets = [tables.ecma_property(name) for name in (*CATEGORIES, "Cs", "Cn")]
    assert all(sets)
    assert charset.union(*(members for members in sets if members)) == charset.ALL
    sizes = [high - low + 1 for members in sets if members for low, high in members]
    assert sum(sizes) == 0x110000
    for name, parts in {"L": "Lu Ll Lt Lm Lo", "LC": "Lu Ll Lt", "C": "Cc Cf Cs Co Cn"}.items():
        members = [tables.ecma_property(part) or () for part in parts.split()]
        assert tables.ecma_property(name) == charset.union(*members)


def test_scripts_partition_everything() -> None:
    names = [name for kind, name in tables._rows() if kind == "sc"]
    # Short and long names of a script give equal sets, two scripts never do.
    sets = {tables.ecma_property("Script", name) or () for name in names}
    assert len(sets) > 150
    assert charset.union(*sets) == charset.ALL
    assert sum(high - low + 1 for members in sets for low, high in members) == 0x110000
    assert charset.contains(tables.ecma_property("Script", "Unknown") or (), 0x378)


def accepts(matcher: LLMatcher, text: str) -> bool:
    """Whether ``matcher``, at its start, takes ``text`` as a whole."""
    fresh = matcher.deep_copy()
    data = list(text.encode())
    return bool(fresh.try_consume_tokens(data) == len(data) and fresh.is_accepting())


PATTERNS = [
    *(r"\w", r"\W", r"\d", r"\D", r"\s", r"\S", ".", r"[^\w\s]", r"[\pL--\p{Latin}]"),
    *(r"\p{Latin}", r"\p{Greek}", r"\p{Han}", r"\p{Common}", r"\p{Inherited}", r"\p{Cyrl}"),
    *(r"\p{scx=Hira}", r"\p{scx=Arab}", r"\p{sc=Arab}", r"\p{scx=Common}", r"\p{Hangul}"),
    *(r"\p{Alphabetic}", r"\p{White_Space}", r"\p{Uppercase}", r"\p{Lowercase}", r"\p{Emoji}"),
    *(r"\p{Cased}", r"\p{Dash}", r"\p{ID_Start}", r"\p{XID_Continue}", r"\p{Math}", r"\p{Hex}"),
    *(r"\p{Default_Ignorable_Code_Point}", r"\p{Ideographic}", r"\p{Diacritic}", r"\p{CI}"),
    *(r"\p{Grapheme_Base}", r"\p{Grapheme_Extend}", r"\p{Join_Control}", r"\p{Any}"),
    *(r"(?i)\p{Lu}", r"(?i)\P{Lu}", r"(?i)[^\p{Lu}]", r"(?i)\p{Greek}", r"(?i)[a-zµ-ÿ]"),
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_classes_agree_with_llguidance(pattern: str) -> None:
    matcher = LLMatcher(LLTokenizer("byte"), LLMatcher.grammar_from_regex(pattern), log_level=0)
    assert not matcher.is_error(), matcher.get_error()
    oracle = Oracle()
    node = oracle.add(parse_rust(pattern))
    differing = [
        hex(point)
        for point in SAMPLE
        if accepts(matcher, chr(point)) != oracle.matches(node, chr(point).encode())
    ]
    assert differing == []


def test_case_folding_agrees_with_llguidance() -> None:
    tokenizer = LLTokenizer("byte")
    known = set(ASSIGNED)
    checked = 0
    for point in SAMPLE:
        members = tables.fold(((point, point),))
        partners = [p for low, high in members for p in range(low, high + 1)]
        mapped = {ord(text) for text in (chr(point).upper(), chr(point).lower()) if len(text) == 1}
        if len(partners) == 1 and mapped == {point}:
            continue
        checked += 1
        grammar = LLMatcher.grammar_from_regex(f"(?i)\\x{{{point:x}}}")
        matcher = LLMatcher(tokenizer, grammar, log_level=0)
        for other in {*partners, *mapped} & known:
            assert accepts(matcher, chr(other)) == (other in partners), (hex(point), hex(other))
    assert checked > 200


def test_case_folding_is_an_equivalence() -> None:
    classes, cased = tables._fold_classes()
    for point, members in classes.items():
        assert charset.contains(members, point)
        assert tables.fold(members) == members
        # Full folding is the same or longer; members of a class always agree on it.
        folded = {
            chr(p).casefold()
            for low, high in members
            for p in range(low, high + 1)
            if unicodedata.category(chr(p)) != "Cn"
        }
        assert len({text for text in folded if len(text) == 1}) <= 1
    assert not charset.contains(cased, 0x130)
    assert not charset.contains(cased, 0x131)


def test_word_is_what_uts18_says() -> None:
    parts = ["Alphabetic", "M", "Nd", "Pc", "Join_Control"]
    assert tables.word() == charset.union(*(tables.ecma_property(name) or () for name in parts))


def test_property_names() -> None:
    loose = [r"\p{Script=Old Italic}", r"\p{script=old_italic}", r"\p{sc:Ital}", r"\p{olditalic}"]
    assert len({repr(parse_rust(pattern)) for pattern in loose}) == 1
    assert parse_rust(loose[0]) == set_regex(tables.ecma_property("Script", "Old_Italic") or ())
    for pattern in (r"\p{Old_Italic}", r"\p{Script=Old Italic}", r"\p{L=Lu}", r"\p{=L}"):
        with pytest.raises(GrammarError):
            parse_ecma(pattern)


def test_literal_folds_like_a_pattern() -> None:
    for text in ("Straße", "KELVIN \u212a", "ΣΑΣ"):
        assert literal(text, ignore_case=True) == parse_rust(text.replace(" ", r"\ "), flags="i")
