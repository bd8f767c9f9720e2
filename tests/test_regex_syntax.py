"""The two regex dialects: what each construct means, and where each error points."""

from __future__ import annotations

import contextlib
import dataclasses
import time

import pytest
from ir_match import Oracle, find_difference, matches

from llgx import ir
from llgx.errors import GrammarError, LimitError
from llgx.limits import DEFAULT_LIMITS
from llgx.regex import ANY_CHAR, ANY_TEXT, char_class, literal, parse_ecma, parse_rust

# Pattern, texts that it matches from start to end, texts that it does not. From the documentation
# of the Rust crate "regex", version 1.
RUST = [
    ("", [""], ["a"]),
    ("abc", ["abc"], ["", "ab", "abcd"]),
    ("a|bc|", ["a", "bc", ""], ["b", "abc"]),
    ("(a|b)c", ["ac", "bc"], ["a", "c", "abc"]),
    ("()", [""], ["a"]),
    ("(|a)", ["", "a"], ["aa"]),
    ("(?P<x_1.a>a)(?<yé>b)", ["ab"], []),
    ("x*", ["", "xxx"], ["y"]),
    ("x+", ["x", "xxx"], [""]),
    ("x?", ["", "x"], ["xx"]),
    ("x{3}", ["xxx"], ["xx", "xxxx"]),
    ("x{2,}", ["xx", "xxxxx"], ["x"]),
    ("x{1,2}", ["x", "xx"], ["", "xxx"]),
    ("x{ 1 , 2 }", ["x", "xx"], ["", "xxx"]),
    ("x{0}", [""], ["x"]),
    ("x**", ["", "xx"], ["y"]),
    ("x{3}{2}", ["xxxxxx"], ["xxx", "xxxxx"]),
    ("(x+){2}", ["xx", "xxx"], ["x"]),
    ("(x?){2}", ["", "x", "xx"], ["xxx"]),
    ("(x+)?", ["", "x", "xx"], []),
    (".", ["a", "é", "\U0001f600", "\r", "\u2028", "\x00"], ["\n", "", "ab"]),
    ("(?s).", ["\n", "a"], [""]),
    ("(?R).", ["a"], ["\r", "\n"]),
    ("}]", ["}]"], []),
    (r"\.\+\*\?\(\)\|\[\]\{\}\^\$\#\&\-\~\/\ \@\"\'\%", ["".join(".+*?()|[]{}^$#&-~/ @\"'%")], []),
    (r"\a\f\t\n\r\v", ["\a\f\t\n\r\v"], []),
    (r"\x41\x{1F600}\u0042\u{43}\U00000044\U{0045}", ["A\U0001f600BCDE"], []),
    (r"\d", ["7", "\u0663"], ["a", ""]),
    (r"\D", ["a", "\n"], ["7", "\u0663"]),
    (r"\s", [" ", "\x0b", "\x85", "\u3000"], ["\x1c", "\u200b", "a"]),
    (r"\S", ["a"], [" "]),
    (r"\w", ["a", "_", "é", "\u200d", "\u0663", "中"], ["-", " ", "€"]),
    (r"\W", ["-", "€"], ["a", "_"]),
    (r"(?-u)\w\d\s", ["a1 "], ["é1 ", "a\u0663 ", "a1\x85"]),
    (r"(?-u:\w)\w", ["aé"], ["éé"]),
    ("[abc]", ["a", "c"], ["d", "ab"]),
    ("[^abc]", ["d", "\n", "é"], ["a"]),
    ("[a-cx-z]", ["b", "y"], ["d", "-"]),
    ("[]a]", ["]", "a"], ["b"]),
    ("[^]a]", ["b"], ["]", "a"]),
    ("[]-a]", ["]", "-", "a"], ["^"]),
    ("[a-]", ["a", "-"], ["b"]),
    ("[-a]", ["a", "-"], ["b"]),
    ("[--a]", ["a", "-"], ["b"]),
    ("[^-a]", ["b"], ["a", "-"]),
    ("[a-]]", ["-]", "a]"], ["a", "]"]),
    ("[^^]", ["a"], ["^"]),
    ("[a-z-0]", ["-", "0", "q"], ["1"]),
    ("[a&b~c-]", ["a", "&", "~", "-"], []),
    ("[x[ab]y]", ["x", "a", "y"], ["["]),
    ("[x[^ab]]", ["x", "q"], ["a"]),
    ("[[:alpha:]]", ["a", "Z"], ["1", "é", ":"]),
    ("[[:^alpha:]]", ["1", "é"], ["a"]),
    ("[[:foo:]]", ["f", "o", ":"], ["["]),
    ("[:alpha:]", [":", "a", "l"], ["b"]),
    ("[a-z&&[^aeiou]]", ["b"], ["a", "B"]),
    ("[a&&b]", [], ["a", "b"]),
    ("[&&a]", [], ["a", "&"]),
    ("[^a&&b]", ["a", "b", "c"], []),
    ("[a-c&&b-d&&c]", ["c"], ["b"]),
    ("[0-9--4]", ["3"], ["4"]),
    (r"[\d--3]", ["2", "\u0663"], ["3"]),
    ("[ab--b--c]", ["a"], ["b", "c"]),
    ("[a-g~~b-h]", ["a", "h"], ["b", "g"]),
    (r"[\x41-\x{5A}]", ["Q"], ["q"]),
    (r"[\n-\r]", ["\n", "\x0c"], ["\t"]),
    (r"[^\x00-\u{10FFFF}]", [], ["a", ""]),
    (r"\pL", ["é"], ["1"]),
    (r"\PL", ["1"], ["é"]),
    (r"\p{Lu}", ["É"], ["é"]),
    (r"\p{Uppercase_Letter}\p{uppercase letter}", ["ÉÉ"], []),
    (r"\p{gc=Lu}\p{General_Category:Lu}", ["AB"], []),
    (r"\p{gc!=L}", ["1"], ["a"]),
    (r"\P{gc!=L}", ["a"], ["1"]),
    (r"\p{Greek}\p{sc=Greek}\p{Script=greek}\p{IsGreek}", ["αβγδ"], ["aaaa"]),
    (r"\p{scx=Deva}", ["\u0951", "अ"], ["a"]),
    (r"\p{sc=Deva}", ["अ"], ["\u0951"]),
    (r"\p{Alphabetic}\p{White_Space}\p{Emoji}", ["é \U0001f600"], []),
    (r"\p{Any}", ["\n", "é"], [""]),
    (r"\p{ASCII}", ["\x00"], ["é"]),
    (r"\p{Assigned}", ["a"], ["\u0378"]),
    (r"\p{cf}", ["\u200d"], ["a"]),
    (r"\p{sc}", ["$"], ["a"]),
    ("(?i)k", ["k", "K", "\u212a"], ["x"]),
    ("(?i)straße", ["STRAßE", "straẞe"], ["STRASSE"]),
    ("(?i)s", ["s", "S", "\u017f"], []),
    ("(?i)i", ["i", "I"], ["\u0130", "\u0131"]),
    ("(?i)µ", ["\u03bc", "\u039c", "\xb5"], ["m"]),
    ("(?i-u)k", ["k", "K"], ["\u212a"]),
    ("(?i-u)é", ["é"], ["É"]),
    ("(?i)[^k]", ["x"], ["k", "K", "\u212a"]),
    ("(?i)[a-z&&[^A-C]]", ["d", "D"], ["b", "B"]),
    (r"(?i)\p{Lu}", ["a", "A"], ["1"]),
    (r"(?i)\P{Lu}", ["1"], ["a", "A"]),
    ("(?i)[[:lower:]]", ["A"], ["1"]),
    ("a(?i)b|c", ["ab", "aB", "C"], ["A", "AB"]),
    ("(a(?i)b|c)d", ["aBd", "Cd"], ["CD"]),
    ("(?i:a)b", ["Ab"], ["AB"]),
    ("(?i)a(?-i)b", ["Ab"], ["AB"]),
    ("(?is-mx:A.)", ["a\n"], []),
    ("(?x) a b # c\n d", ["abd"], ["ab", "ab d"]),
    ("(?x)a # c", ["a"], []),
    ("(?x)a + {2}", ["aa"], ["a"]),
    (r"(?x)\ [ a # b" + "\n]", [" a"], [" #"]),
    ("(?x)( ?:a)", ["a"], []),
    ("(?x: a ) a", ["a a"], ["aa"]),
    ("^a$", ["a"], ["aa"]),
    (r"\Aa\z", ["a"], ["aa"]),
    ("(^a|b$)", ["a", "b"], ["ab"]),
    ("^*a", ["a"], []),
    ("(^)+a", ["a"], []),
    ("a^b", [], ["ab", "a^b", "a\nb"]),
    ("a$b", [], ["ab"]),
    ("a*^b", ["b"], ["ab"]),
    ("b$a*", ["b"], ["ba"]),
    ("(a|^)b", ["ab", "b"], []),
    ("(?m)a\n^b", ["a\nb"], []),
    ("(?m)^a$", ["a"], []),
    ("(?m)a$.^b", [], ["a\nb"]),
    ("(?ms)a$.^b", ["a\nb"], ["aab"]),
    (r"a\b-", ["a-"], []),
    (r"a\bb", [], ["ab"]),
    (r"a\Bb", ["ab"], []),
    (r"a\B-", [], ["a-"]),
    (r"é\b-", ["é-"], []),
    (r"(?-u)é\b-", [], ["é-"]),
    (r"\w*-\b\w+", ["ab-c", "-c"], ["ab-"]),
    (r"a(-\b|b)*c", ["a-bc", "abc", "abb-c", "ac"], ["a--c"]),
    (r"-\b{start}a\b{end}-", ["-a-"], []),
    (r"-\<a\>-", ["-a-"], []),
    (r"a\b{start}b", [], ["ab"]),
    (r"a\b{end-half}-\b{start-half}b", ["a-b"], []),
    ("a{0,1000000000}", ["", "aaa"], ["b"]),
    ("\\/\t", ["/\t"], []),
]


@pytest.mark.parametrize(("pattern", "yes", "no"), RUST, ids=[row[0] for row in RUST])
def test_rust_meaning(pattern: str, yes: list[str], no: list[str]) -> None:
    regex = parse_rust(pattern)
    assert [text for text in yes if not matches(regex, text.encode())] == []
    assert [text for text in no if matches(regex, text.encode())] == []


# Pattern, column of the error, part of the message. Columns are those where the construct begins.
RUST_ERRORS = [
    ("a)", 2, "unmatched"),
    ("(a", 1, "not closed"),
    ("a(b(?:c)", 2, "not closed"),
    ("(?:", 1, "not closed"),
    ("(?i", 1, "not closed"),
    ("[a", 1, "not closed"),
    ("x[[a]", 2, "not closed"),
    ("[]", 1, "not closed"),
    ("[^]", 1, "not closed"),
    ("*a", 1, "nothing to repeat"),
    ("(+)", 2, "nothing to repeat"),
    ("a|?", 3, "nothing to repeat"),
    ("{2}", 1, "nothing to repeat"),
    ("(?i)*", 5, "nothing to repeat"),
    ("(?)a", 2, "nothing to repeat"),
    ("a*?", 3, "lazy"),
    ("a+?", 3, "lazy"),
    ("a??", 3, "lazy"),
    ("a{2}?", 5, "lazy"),
    ("(?x)a* ?", 8, "lazy"),
    ("(?U)a*", 3, "'U'"),
    ("a{", 2, "not closed"),
    ("a{2", 2, "not closed"),
    ("a{2,", 2, "not closed"),
    ("a{,3}", 3, "number"),
    ("a{}", 3, "number"),
    ("a{b}", 3, "number"),
    ("a{2,x}", 5, "number"),
    ("a{2,1}", 2, "wrong way"),
    ("[z-a]", 2, "wrong way"),
    (r"[a-\d]", 4, "end with a set"),
    (r"[\d-a]", 2, "begin with a set"),
    (r"[a\b]", 3, "not a member"),
    (r"\1", 1, "back-reference"),
    (r"\0", 1, "back-reference"),
    (r"[\1]", 2, "back-reference"),
    (r"a\Z", 2, "unknown escape"),
    (r"\e", 1, "unknown escape"),
    (r"\é", 1, "unknown escape"),
    ("a\\", 2, "backslash"),
    (r"\x4", 1, "hexadecimal"),
    (r"\x{}", 1, "hexadecimal"),
    (r"\x{41", 1, "not closed"),
    (r"\u{110000}", 1, "code point"),
    (r"\U00110000", 1, "not the number"),
    (r"\uD800", 1, "not the number"),
    (r"[\uD800]", 2, "not the number"),
    (r"\p{Foo}", 1, "unknown Unicode property"),
    (r"\p{Greeek}", 1, r"'Greeek' (did you mean 'Greek'?)"),
    (r"\p{sc=Ltin}", 1, r"'sc=Ltin' (did you mean 'Latin'?)"),
    (r"a\p{gc=Foo}", 2, "unknown Unicode property"),
    (r"\p{^L}", 1, "unknown Unicode property"),
    (r"\p{}", 1, "unknown Unicode property"),
    (r"\p{Cs}", 1, "unknown Unicode property"),
    (r"\p{.word}", 1, "unknown Unicode property"),
    (r"\p{L", 1, "not closed"),
    (r"\p", 1, "missing"),
    ("(?=a)", 1, "look-around"),
    ("a(?!a)", 2, "look-around"),
    ("a(?<=a)", 2, "look-around"),
    ("a(?<!a)", 2, "look-around"),
    ("(?P=a)", 3, "unknown flag"),
    ("(?#c)", 3, "unknown flag"),
    ("(?iP:a)", 4, "unknown flag"),
    ("(?l)", 3, "unknown flag"),
    ("(?ii)a", 4, "repeated"),
    ("(?i-i)a", 5, "repeated"),
    ("(?-)a", 3, "no flag follows"),
    ("(?<>a)", 4, "empty"),
    ("(?<1>a)", 4, "cannot hold '1'"),
    ("(?P<a-b>a)", 6, "cannot hold '-'"),
    ("(?<a", 4, "not closed"),
    ("(?<a>b)(?<a>c)", 11, "taken"),
    ("a(?P<stop>b)", 6, "stop="),
    ("(?-u).", 6, "not UTF-8"),
    (r"(?-u)\W", 6, "not UTF-8"),
    (r"(?-u)[^a]", 6, "not UTF-8"),
    (r"(?-u)\xff", 6, "not UTF-8"),
    (r"(?-u)[é]", 7, "Unicode mode"),
    (r"(?-u)\pL", 6, "Unicode mode"),
    (r"\bfoo", 1, "edge"),
    (r"foo\b", 4, "edge"),
    (r"x*\by", 3, "edge"),
    (r"y(\b|x)", 3, "edge"),
    (r"x(?:a|\B)?", 7, "edge"),
    ("(?mR)^", 6, "together"),
]


@pytest.mark.parametrize(
    ("pattern", "column", "part"), RUST_ERRORS, ids=[row[0] for row in RUST_ERRORS]
)
def test_rust_errors(pattern: str, column: int, part: str) -> None:
    with pytest.raises(GrammarError) as caught:
        parse_rust(pattern)
    assert part in caught.value.message
    assert (caught.value.line, caught.value.column) == (1, column)


def test_errors_point_into_the_text_around_the_pattern() -> None:
    text = 'start: A\nA: /x\n  [b/ "y"'
    begin = text.index("x")
    with pytest.raises(GrammarError) as caught:
        parse_rust("x\n  [b", text=text, offset=begin)
    assert (caught.value.line, caught.value.column) == (3, 3)
    assert caught.value.excerpt == '  [b/ "y"\n  ^'
    with pytest.raises(GrammarError) as caught:
        parse_ecma("a(", text='{"pattern": "a("}', offset=13)
    assert caught.value.column == 15
    with pytest.raises(GrammarError) as caught:
        parse_rust(r"a\b", text=r"A: /a\b/", offset=4)
    assert caught.value.column == 6


def test_rust_flags_parameter() -> None:
    assert matches(parse_rust("a.", flags="is"), b"A\n")
    assert matches(parse_rust("a b", flags="x"), b"ab")
    assert not matches(parse_rust(r"\w", flags="-u"), "é".encode())
    with pytest.raises(GrammarError, match="unknown flag 'l'"):
        parse_rust("a", flags="l")
    with pytest.raises(GrammarError, match="'U'"):
        parse_rust("a", flags="U")


def test_invalid_utf8_on_request() -> None:
    regex = parse_rust(r"(?s-u:.)(?-u:\xff[\x80-\x90][^a])\xe9", invalid_utf8=True)
    assert matches(regex, b"\x80\xff\x85\xfe\xc3\xa9")
    assert not matches(regex, b"\x80\xff\x91\xfe\xc3\xa9")
    assert not matches(regex, b"\x80\xff\x85a\xc3\xa9")
    assert not matches(regex, b"\x80\xff\x85\xfe\xe9")
    assert matches(parse_rust(r"(?-u)^\xff*$", invalid_utf8=True), b"\xff\xff")
    assert parse_rust(r"(?-u:\xff)^a", invalid_utf8=True) == ir.EMPTY
    assert matches(parse_rust(r"^(?-u:\xff)$", invalid_utf8=True), b"\xff")
    assert matches(parse_rust(r"a?(^|b)(?-u:\xff)", invalid_utf8=True), b"ab\xff")
    assert not matches(parse_rust(r"a?(^|b)(?-u:\xff)", invalid_utf8=True), b"a\xff")
    for pattern in (r"a\b(?-u:\xff)a", r"(?m)a$(?-u:\xff)a"):
        with pytest.raises(GrammarError, match="not text") as caught:
            parse_rust(pattern, invalid_utf8=True)
        assert caught.value.column == pattern.replace("(?m)", "    ").find("a") + 2


# Pattern, texts with a match, texts without. From ECMA-262, §22.2.
ECMA = [
    ("", ["", "abc"], []),
    ("a", ["a", "xay"], ["", "b"]),
    ("^a", ["ab"], ["ba"]),
    ("a$", ["ba"], ["ab", "a\n"]),
    ("^a$", ["a"], ["aa", "a\n", "\na"]),
    ("^a|b$", ["ax", "xb"], ["xa", "bx"]),
    ("(^|x)a", ["a", "xa", "yxa"], ["ya"]),
    ("^$", [""], ["a", "\n"]),
    ("a^", [], ["a", "aa"]),
    ("$a", [], ["a"]),
    ("x*^a", ["ab"], ["xa"]),
    ("^.$", ["é", "\U0001f600", "\x85"], ["\n", "\r", "\u2028", "\u2029", ""]),
    ("^[^]$", ["\n", "a"], ["", "aa"]),
    ("[]", [], ["", "a"]),
    (r"^\d$", ["1"], ["\u0663"]),
    (r"^\w$", ["a", "_"], ["é"]),
    (r"^\W$", ["é", "-"], ["a"]),
    (r"^\s$", [" ", "\ufeff", "\xa0", "\u2028", "\u3000", "\v"], ["\x85", "\u180e", "\u200b"]),
    (r"^\S$", ["\x85"], ["\ufeff"]),
    (r"^\cJ\cj\0\t\n\v\f\r$", ["\n\n\0\t\n\v\f\r"], []),
    (r"^\x41\u0042\u{43}\u{1F600}\uD83D\uDE00$", ["ABC\U0001f600\U0001f600"], []),
    (r"^[\uD83D\uDE00-\uD83D\uDE02]$", ["\U0001f601"], ["\U0001f603"]),
    (r"\uD83D", [], ["\U0001f600"]),
    (r"^[^\uD800-\uDFFF]$", ["\U0001f600", "a"], []),
    (r"^\p{L}\p{Lu}\p{Letter}\p{gc=L}\P{L}$", ["aAaa1"], ["aaaa1"]),
    (r"^\p{Script=Greek}\p{sc=Grek}\p{scx=Greek}$", ["αβγ"], []),
    (r"^\p{Alphabetic}\p{White_Space}\p{ASCII}\p{Any}$", ["é a\n"], []),
    (r"^[\w-.]$", ["a", "-", "."], ["+"]),
    (r"^[.-\w]$", ["a", "-", "."], ["+"]),
    (r"^[\b]$", ["\b"], ["b"]),
    (r"^[\-\]\\^&&]$", ["-", "]", "\\", "^", "&"], ["a"]),
    (r"^[[]$", ["["], ["]"]),
    (r"^[a-c-e]$", ["b", "-", "e"], ["d"]),
    (r"^\-\/\_\@\'\"\ \é$", ["-/_@'\" é"], []),
    ("^a{$", ["a{"], []),
    ("^a{b}]}$", ["a{b}]}"], []),
    ("^a{2$", ["a{2"], ["aa"]),
    ("^a{,}$", ["a{,}"], []),
    ("^{$", ["{"], []),
    ("^a{2,3}b{2,}c{0}$", ["aabb", "aaabbb"], ["abb", "aab"]),
    ("^a*?b+?c??d{1,2}?$", ["bd", "aabbcdd"], ["a"]),
    ("^(?:a)(?<n>b)(c)$", ["abc"], []),
    (r"\bfoo\b", ["foo", "a foo b", "-foo-"], ["food", "afoo", "foo_"]),
    (r"\Boo\B", ["foox"], ["foo", "oox"]),
    (r"^\B$", [""], ["a"]),
    (r"\b", ["a"], ["", "-"]),
    (r"^é\b", ["éa"], ["é", "é "]),
    ("^(?=a)[ab]+$", ["ab"], ["ba"]),
    ("^(?!a)[ab]+$", ["ba", "b"], ["ab"]),
    ("^(?!foo$|bar$).*$", ["fo", "foob", ""], ["foo", "bar"]),
    (r"^(?=.*[A-Z])(?=.*\d).{4,}$", ["aA1a", "1aaZ"], ["aA1", "aaa1", "AAAA"]),
    ("a(?!b)", ["a", "ac", "abac"], ["ab", "abab"]),
    ("a(?=b(?!c))", ["ab", "abd"], ["abc", "a"]),
    ("(?<=a)b", ["ab", "xab"], ["b", "xb"]),
    ("(?<!a)b", ["b", "xb", "abb"], ["ab"]),
    ("(?<=ab)c", ["abc", "xabc"], ["bc", "xbc"]),
    ("(?<!ab)c", ["c", "bc", "abcc"], ["abc"]),
    (r"(?<=\bab)c", ["abc", "-abc"], ["xabc"]),
    ("(?<=a(?=bc)b)c", ["abc"], ["ac", "bc"]),
    (r"(?<=^a|b)c", ["ac", "xbc"], ["xac"]),
    ("^(?:(?!foo).)*$", ["", "fo", "ofo"], ["foo", "xfoox", "\n"]),
    ("^((?!mode)(?!Mode).)*$", ["mod", ""], ["amode", "Mode"]),
    ("^(?:a(?=b)|b(?=a))+.$", ["ab", "abab", "ba"], ["aab", "a"]),
    (r"^([\da-z](?:(?!.*--)[\da-z-]*[\da-z])?)$", ["a", "a-b", "a-b-c"], ["a--b", "-a", "a-"]),
    (r"^(\w+\b ?)+$", ["a b", "ab cd"], ["a  b", " a"]),
    (r"^(\w(?=\d)){12}", ["a" + "1" * 12], ["a" + "1" * 11]),
]


@pytest.mark.parametrize(("pattern", "yes", "no"), ECMA, ids=[row[0] for row in ECMA])
def test_ecma_meaning(pattern: str, yes: list[str], no: list[str]) -> None:
    regex = parse_ecma(pattern)
    assert [text for text in yes if not matches(regex, text.encode())] == []
    assert [text for text in no if matches(regex, text.encode())] == []
    # Whatever stands around a match is text.
    assert not matches(regex, b"\xff")
    assert not matches(regex, "a é".encode()[:-1])


ECMA_ERRORS = [
    ("(", 1, "not closed"),
    ("a)", 2, "unmatched"),
    ("[a", 1, "not closed"),
    ("a**", 3, "nothing to repeat"),
    ("*", 1, "nothing to repeat"),
    ("^*", 2, "nothing to repeat"),
    (r"\b+", 3, "nothing to repeat"),
    ("(?=a)*", 6, "nothing to repeat"),
    ("{2}", 1, "nothing to repeat"),
    ("a{,3}", 2, "write {0,n}"),
    ("a{3,2}", 2, "wrong way"),
    ("[b-a]", 2, "wrong way"),
    (r"(a)\1", 4, "back-reference"),
    (r"\k<a>", 1, "back-reference"),
    (r"\01", 1, "back-reference"),
    (r"\a", 1, "unknown escape"),
    (r"a\Z", 2, "unknown escape"),
    (r"[\B]", 2, "unknown escape"),
    (r"\c1", 1, "letter"),
    (r"\x4", 1, "hexadecimal"),
    (r"\u12", 1, "hexadecimal"),
    (r"\u{110000}", 1, "code point"),
    (r"\pL", 1, "braces"),
    (r"\p{greek}", 1, "unknown Unicode property"),
    (r"\p{letter}", 1, "unknown Unicode property"),
    (r"\p{Foo=Greek}", 1, "unknown Unicode property"),
    ("a\\", 2, "backslash"),
    ("(?i)a", 1, "unknown group (?i"),
    ("(?P<n>a)", 1, "unknown group (?P"),
    ("(?<n>a)(?<n>b)", 11, "taken"),
    ("(?<1>a)", 4, "not a group name"),
]


@pytest.mark.parametrize(
    ("pattern", "column", "part"), ECMA_ERRORS, ids=[row[0] for row in ECMA_ERRORS]
)
def test_ecma_errors(pattern: str, column: int, part: str) -> None:
    with pytest.raises(GrammarError) as caught:
        parse_ecma(pattern)
    assert part in caught.value.message
    assert (caught.value.line, caught.value.column) == (1, column)


def test_automaton_too_large_is_an_error_at_the_assertion() -> None:
    # The automaton has to remember which of the last twelve positions held an "a".
    with pytest.raises(GrammarError, match="automaton") as caught:
        parse_ecma("^(?:(?<!a.{12})[ab]|c)*$")
    assert caught.value.column == 5


def test_deep_assertion_is_an_error_at_the_assertion() -> None:
    with pytest.raises(GrammarError, match="nested too deeply") as caught:
        parse_ecma("(?:a" * 200 + "$" + ")" * 200)
    assert caught.value.column == 801
    parse_ecma("(?:a" * 40 + "$" + ")" * 40)


def test_shape_of_trees() -> None:
    letters = ir.ByteSet(0b111 << 0x61)
    assert parse_rust("abc") == ir.Literal(b"abc")
    assert parse_rust("(?:a(?:b))c") == ir.Literal(b"abc")
    assert parse_rust("é[a]") == ir.Literal("éa".encode())
    assert parse_rust("(?:a|b|c)") == letters
    assert parse_rust("a|(b|(?:c))") == letters
    assert parse_rust("[a-c]{1}") == letters
    assert parse_rust("[a-c]{0}") == ir.EPSILON
    assert parse_rust("[a-c]{3,70000}") == ir.Repeat(letters, 3, 70000)
    assert parse_rust(r"\w{3}") == ir.Repeat(parse_rust(r"\w"), 3, 3)
    assert parse_rust("[a-c]+x(yz)") == ir.Concat((ir.Repeat(letters, 1, None), ir.Literal(b"xyz")))
    assert parse_rust("^(foo|bar)$") == ir.Alternation((ir.Literal(b"foo"), ir.Literal(b"bar")))
    assert parse_rust("[^\\x00-\\u{10FFFF}]") == ir.EMPTY
    assert parse_ecma("^[a-c]{2,9}$") == ir.Repeat(letters, 2, 9)
    assert parse_ecma("foo") == ir.Concat((ANY_TEXT, ir.Literal(b"foo"), ANY_TEXT))
    assert parse_ecma("^foo") == ir.Concat((ir.Literal(b"foo"), ANY_TEXT))
    assert parse_ecma("^(?!foo$)[a-c]+$") == ir.Intersection(
        (ir.Repeat(letters, 1, None), ir.Complement(ir.Literal(b"foo")))
    )


def test_char_class_has_disjoint_first_bytes() -> None:
    def first_bytes(regex: ir.Regex) -> int:
        if isinstance(regex, ir.ByteSet):
            return regex.mask
        if isinstance(regex, ir.Literal):
            return 1 << regex.data[0]
        assert isinstance(regex, ir.Concat)
        return first_bytes(regex.items[0])

    def check(regex: ir.Regex) -> None:
        if isinstance(regex, ir.Alternation):
            masks = [first_bytes(item) for item in regex.items]
            assert sum(masks).bit_count() == sum(mask.bit_count() for mask in masks)
            assert [isinstance(item, ir.ByteSet) for item in regex.items].count(True) <= 1
            assert len(set(regex.items)) == len(regex.items)
        if isinstance(regex, ir.Alternation | ir.Concat):
            for item in regex.items:
                check(item)

    for pattern in (r"\w", r"\W", r"\p{L}", r"[^\p{Greek}]", r"\p{Emoji}", "."):
        check(parse_rust(pattern))


@pytest.mark.parametrize(
    "ranges",
    [
        [(0, 0x10FFFF)],
        [(0x7F, 0x80)],
        [(0x7FF, 0x800)],
        [(0xFFFF, 0x10000)],
        [(0xD7FF, 0xE000)],
        [(0xD800, 0xDFFF)],
        [(0x61, 0x7A), (0x100, 0x17F), (0x4E00, 0x9FFF), (0x20000, 0x2A6DF)],
        [(0x3F, 0x3F), (0xBF, 0xC0), (0xFFF, 0x1000), (0x3FFFF, 0x40000), (0x10FFFF, 0x10FFFF)],
        [(0x41, 0x5A), (0x50, 0x60)],
        [],
    ],
    ids=str,
)
def test_char_class_by_enumeration(ranges: list[tuple[int, int]]) -> None:
    oracle = Oracle()
    node = oracle.add(char_class(ranges))
    edges = {point + by for pair in ranges for point in pair for by in (-64, -1, 0, 1, 64)}
    sample = edges | set(range(0, 0x110000, 211)) | {0x7F, 0x80, 0x7FF, 0x800, 0xFFFF, 0x10000}
    for point in sorted(sample):
        if 0 <= point <= 0x10FFFF and not 0xD800 <= point <= 0xDFFF:
            inside = any(low <= point <= high for low, high in ranges)
            assert oracle.matches(node, chr(point).encode()) == inside, hex(point)
    # Overlong forms, surrogates and numbers that are too large are not UTF-8.
    for data in (b"\xc0\x80", b"\xe0\x80\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xff", b""):
        assert not oracle.matches(node, data)


def test_char_class_is_shared_and_checked() -> None:
    assert char_class([(0x62, 0x7A), (0x61, 0x61)]) is char_class([(0x61, 0x7A)])
    assert char_class([(0, 0x10FFFF)]) == ANY_CHAR
    assert char_class([]) == ir.EMPTY
    assert char_class([(0xE9, 0xE9)]) == ir.Literal(b"\xc3\xa9")
    for bad in ([(2, 1)], [(-1, 5)], [(0, 0x110000)]):
        with pytest.raises(ValueError, match="range"):
            char_class(bad)


def test_literal() -> None:
    assert literal("a.é") == ir.Literal("a.é".encode())
    folded = literal("aK-é", ignore_case=True)
    for text, wanted in (("Ak-É", True), ("a\u212a-é", True), ("aK-e", False), ("aK", False)):
        assert matches(folded, text.encode()) == wanted
    assert literal("12", ignore_case=True) == ir.Literal(b"12")
    assert literal("") == ir.EPSILON
    with pytest.raises(UnicodeEncodeError):
        literal("\ud800")


def test_lone_surrogates_in_patterns() -> None:
    with pytest.raises(GrammarError, match="surrogate"):
        parse_rust("a\ud800")
    with pytest.raises(GrammarError, match="surrogate"):
        parse_rust("[\ud800]")
    assert not matches(parse_ecma("\ud800"), b"a")


@pytest.mark.parametrize("parse", [parse_rust, parse_ecma])
@pytest.mark.parametrize(
    ("pattern", "limit"),
    [
        ("(" * 100_000, "nesting"),
        ("(?:" * 100_000 + ")" * 100_000, "nesting"),
        ("a" + "{2}" * 100_000, "nesting"),
        ("(a" * 400 + "{2})" * 400, "nesting"),
        ("a{1000000001}", "repeat"),
        ("a{0," + "9" * 100_000 + "}", "repeat"),
    ],
    ids=["open", "balanced", "quantifiers", "both", "repeat", "digits"],
)
def test_limits(parse: object, pattern: str, limit: str) -> None:
    assert callable(parse)
    if parse is parse_ecma and pattern.startswith("a{2}"):
        pattern = "(?:" * 600 + "a" + ")*" * 600
    begin = time.perf_counter()
    with pytest.raises(LimitError) as caught:
        parse(pattern)
    assert caught.value.limit == limit
    assert time.perf_counter() - begin < 1


def test_limits_are_those_given() -> None:
    limits = dataclasses.replace(DEFAULT_LIMITS, nesting=3, repeat=9)
    parse_rust("(((a)))", limits=limits)
    parse_rust("[[[a]]]", limits=limits)
    parse_rust("a{9}", limits=limits)
    for pattern in ("((((a))))", "[[[[a]]]]", "a{10}"):
        with pytest.raises(LimitError):
            parse_rust(pattern, limits=limits)
    with pytest.raises(LimitError):
        parse_ecma("(?=(?=(?=(?=a))))", limits=limits)


@pytest.mark.parametrize("parse", [parse_rust, parse_ecma])
@pytest.mark.parametrize(
    "pattern",
    [
        "a" * 100_000,
        "[a-c]" * 20_000,
        "a|" * 50_000,
        "(?:a|bc)" * 10_000,
        "(" * 490 + "[ab]" * 20_000 + ")x" * 490,
        "(x|" * 490 + "ab|" * 20_000 + ")" * 490,
        "[" + "a-b" * 30_000 + "]",
        r"\p{L}" * 5_000,
        "x{2}" * 20_000,
        "^" + "[ab]" * 20_000 + "$",
        "^" * 2_000 + "a" + "$" * 2_000,
    ],
    ids=range(11),
)
def test_time_is_linear(parse: object, pattern: str) -> None:
    assert callable(parse)
    begin = time.perf_counter()
    parse(pattern)
    assert time.perf_counter() - begin < 3


def test_many_assertions_end_in_time() -> None:
    begin = time.perf_counter()
    for pattern in (
        "(?:^a|b$|c)" * 200,
        "(?:(?:" * 20 + r"\b" + "a){0,8}){0,8}" * 20,
        "(?=a|b)" * 300,
        "(?:(?=a)|(?!b)|c)*" * 10,
        "(?:(?=ab)|(?!bc)|c)" * 200,
        "(?:(?=ab)|(?!bc)|c)" * 10,
        "(?:(?<=a.{5})b|c)*",
        "(?<=(?<=(?<=ab)c)d)e",
    ):
        with contextlib.suppress(GrammarError):
            parse_ecma(pattern)
    assert time.perf_counter() - begin < 6


def test_nested_look_around_agrees_with_its_flat_form() -> None:
    alphabet = [b"a", b"b", b"\n", "é".encode()]
    pairs = [
        ("^(?=(?=a)ab)a", "^ab"),
        ("^(?!(?!a))[ab]$", "^a$"),
        ("(?<=(?<=a)b)a", "aba"),
        (r"^(?:(?=a)a|(?=b)b)*$", "^[ab]*$"),
        (r"^(?:(?!ab)[^])*$", "^(?:b|a+(?:é|\n|$)|é|\n)*a*$"),
    ]
    for left, right in pairs:
        assert find_difference(parse_ecma(left), parse_ecma(right), alphabet) is None, left
