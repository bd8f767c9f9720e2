"""Formats against tables of texts taken from their RFCs, and against the JSON Schema Test Suite."""

from __future__ import annotations

import base64
import datetime
import gzip
import ipaddress
import json
import os
import random
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

import llgx
from llgx import ir
from llgx._language import Language
from llgx.json_schema.formats import NUMBER_FORMATS, STRING_FORMATS, number_format, string_format
from llgx.json_schema.numbers import NumberSet
from llgx.json_schema.strings import StringSet
from llgx.regex import parse_ecma

SHARED = Path(os.environ.get("LLGX_SHARED", Path(__file__).parents[2] / "shared" / "data"))


def format_set(name: str) -> StringSet:
    found = string_format(name)
    assert found is not None
    return found


VALID: dict[str, list[str]] = {
    "date-time": [
        "1963-06-19T08:30:06.283185Z",
        "1963-06-19T08:30:06Z",
        "1937-01-01T12:00:27.87+00:20",
        "1990-12-31T15:59:50.123-08:00",
        "1998-12-31T23:59:60Z",
        "1963-06-19t08:30:06.283185z",
    ],
    "date": ["1963-06-19", "2020-01-31", "2020-02-29", "2000-02-29", "2021-02-28", "0000-02-29"],
    "time": ["08:30:06Z", "23:59:60Z", "23:59:60.5+00:00", "08:30:06.283185Z", "08:30:06-08:00"],
    "duration": [
        "P4DT12H30M5S",
        "P4Y",
        "PT0S",
        "P0D",
        "P1M",
        "PT1M",
        "PT36H",
        "P1DT12H",
        "P2W",
        "P1Y2M",
    ],
    "email": [
        "joe.bloggs@example.com",
        "te~st@example.com",
        "~test@example.com",
        "test~@example.com",
        '"joe bloggs"@example.com',
        '"joe..bloggs"@example.com',
        '"joe@bloggs"@example.com',
        '"a\\"b"@example.com',
        "joe.bloggs@[127.0.0.1]",
        "joe.bloggs@[IPv6:::1]",
        "te.s.t@example.com",
        "riedgar+guidance@example.com",
        "a@localhost",
        "x@[tag:content]",
    ],
    "idn-email": [
        "실례@실례.테스트",
        "joe.bloggs@example.com",
        "\u03b4\u03bf\u03ba\u03b9\u03bc\u03ae@\u03c0\u03b1\u03c1\u03ac\u03b4\u03b5\u03b9\u03b3\u03bc\u03b1.gr",
        '"é x"@b.c',
    ],
    "hostname": ["www.example.com", "xn--4gbwdl.xn--wgbh1c", "a", "1host", "a--b.com", "A-1.b"],
    "idn-hostname": [
        "실례.테스트",
        "example.com",
        "\u00df\u03c2\u0f0b\u3007",
        "l·l",
        "\u03b1\u0375\u03b2",
        "\u05d0\u05f3\u05d1",
        "א״ב",
        "あ・",
        "・カ",
        "一・",
        "\u0628\u0660\u0628",
        "\u0628\u06f0\u0628",
        "क्‍ष",
        "क्‌ष",
        "a。b",
        "münchen.de",
    ],
    "ipv4": ["192.168.0.1", "0.0.0.0", "255.255.255.255", "8.8.8.8"],
    "ipv6": [
        "::1",
        "::",
        "::abef",
        "::42:ff:1",
        "d6::",
        "1:d6::42",
        "1::d6:192.168.0.1",
        "1:2::192.168.0.1",
        "::ffff:192.168.0.1",
        "1:2:3:4:5:6:7:8",
        "1000:1000:1000:1000:1000:1000:255.255.255.255",
        "1:2:3:4:5:6:7::",
        "::2:3:4:5:6:7:8",
        "1::3:4:5:6:7:8",
        "1:2:3:4:5::1.2.3.4",
    ],
    "uri": [
        "http://foo.bar/?baz=qux#quux",
        "http://foo.com/blah_(wikipedia)_blah#cite-1",
        "http://foo.bar/?q=Test%20URL-encoded%20stuff",
        "http://-.~_!$&'()*+,;=:%40:80%2f::::::@example.com",
        "ldap://[2001:db8::7]/c=GB?objectClass?one",
        "mailto:John.Doe@example.com",
        "tel:+1-816-555-1212",
        "urn:oasis:names:specification:docbook:dtd:xml:4.1.2",
        "http://[v7.a:b]/",
        "a:",
        "file:///etc",
        "http://[::1.2.3.4]:80/",
    ],
    "uri-reference": [
        "http://foo.bar/",
        "//foo.bar/?baz",
        "/abc",
        "abc",
        "#fragment",
        "",
        "?q",
        "a/b:c",
    ],
    "iri": ["http://ƒøø.ßår/?∂éœ=πîx#πîüx", "http://ƒøø.com/blah_(wîkïpédiå)_blah#ßité-1", "a:b"],
    "iri-reference": [
        "http://ƒøø.ßår/?∂éœ=πîx#πîüx",
        "//ƒøø.ßår/?∂éœ",
        "/âππ",
        "âππ",
        "#ƒrägmênt",
        "",
    ],
    "uri-template": [
        "http://example.com/dictionary/{term:1}/{term}",
        "http://example.com/dictionary",
        "dictionary/{term:1}/{term}",
        "{+path}/here",
        "{?x,y*}",
        "{a.b}%20",
        "",
    ],
    "uuid": ["2EB8AA08-AA98-11EA-B4AA-73B441D16380", "00000000-0000-0000-0000-000000000000"],
    "json-pointer": ["", "/", "/foo/bar~0/baz~1/%a", "/foo//bar", '/é\n/"', "/~01", "/m~0n"],
    "relative-json-pointer": ["1", "0/foo/bar", "2/0/baz/1/zip", "0#", "120/foo/bar"],
    "regex": [
        "",
        "^a|b$",
        "([abc])+\\s+$",
        "a{2,5}?b{3}c{0,}",
        "(?:x|(y)(?=z))*",
        "(?<!a)b\\b",
        "[^\\w-]",
        "[a-z0-9_]",
        "\\u00e9\\x41\\cA",
        "[^]",
        "[]",
        "é.",
        "a{12,345}",
        "\\(\\{\\}",
    ],
    "byte": ["", "TQ==", "TWE=", "TWFu", "TWFuTQ=="],
}

INVALID: dict[str, list[str]] = {
    "date-time": [
        "1990-02-31T15:59:59.123-08:00",
        "1990-12-31T15:59:59-24:00",
        "1998-12-31T23:59:61Z",
        "1998-12-31T23:58:60Z",
        "1998-12-31T22:59:60Z",
        "1963-06-19T08:30:06.28123+01:00Z",
        "06/19/1963 08:30:06 PST",
        "2013-350T01:01:01",
        "1963-6-19T08:30:06.283185Z",
        "1963-06-1T08:30:06Z",
        "1963-06-1\u09eaT00:00:00Z",
        "+11963-06-19T08:30:06Z",
        "1963-06-19 08:30:06Z",
        "1963-06-19T08:30:06",
        "1963-06-19T08:30:06.Z",
    ],
    "date": [
        "2021-02-29",
        "1900-02-29",
        "2020-02-30",
        "2020-04-31",
        "2020-13-01",
        "2020-00-10",
        "2020-01-00",
        "06/19/1963",
        "2013-350",
        "1998-1-20",
        "1998-01-1",
        "20230328",
        "1963-06-1\u09ea",
        "2020-11-28T23:55:45Z",
    ],
    "time": [
        "008:030:006Z",
        "8:3:6Z",
        "24:00:00Z",
        "00:60:00Z",
        "00:00:61Z",
        "22:59:60Z",
        "23:58:60Z",
        "23:59:60+01:00",
        "01:02:03+24:00",
        "01:02:03+00:60",
        "01:02:03Z+00:30",
        "08:30:06 PST",
        "01:01:01,1111",
        "12:00:00",
        "12:00:00.52",
        "1২:00:00Z",
        "08:30:06#00:20",
        "ab:cd:ef",
    ],
    "duration": [
        "PT1D",
        "P",
        "P1YT",
        "PT",
        "P2D1Y",
        "P1D2H",
        "P2S",
        "P1Y2W",
        "P2৩Y",
        "4DT12H30M5S",
        "PT1Y",
        "P1YT1S2M",
        "p1d",
        "PT0.5S",
    ],
    "email": [
        "2962",
        ".test@example.com",
        "test.@example.com",
        "te..st@example.com",
        "joe.bloggs@[127.0.0.300]",
        "joe.bloggs@invalid=domain.com",
        "a@b@c",
        "@b",
        "a@",
        "a@-b.c",
        "a@b-.c",
        "a@b..c",
        "é@b.c",
        "joe.bloggs@[IPv6:1.2.3.4]",
        'a"b"@c',
        "a@b\n",
    ],
    "idn-email": ["2962", "é@", "é@é..é", "é@-é", "a b@é"],
    "hostname": [
        "",
        ".",
        "-a",
        "a-",
        "_a",
        "a..b",
        "a.",
        "a_b",
        "a" * 64,
        ".".join(["a" * 63] * 3 + ["b" * 62]),
        "é.de",
        "a b",
    ],
    "idn-hostname": [
        "",
        ".",
        "〮한국",
        "실〮례.테스트",
        "-> $1.00 --",
        "-é",
        "é-",
        "éé--é",
        "\u0903hello",
        "\u0300hello",
        "ـߺ",
        "〱〲",
        "a·l",
        "·l",
        "l·a",
        "l·",
        "\u03b1\u0375S",
        "\u03b1\u0375",
        "A\u05f3\u05d1",
        "\u05f3\u05d1",
        "A״ב",
        "def・abc",
        "・",
        "\u0660\u06f0",
        "क‍ष",
        "‍ष",
        "a。",
        "Ⅷ",
    ],
    "ipv4": ["256.256.256.256", "127.0.0.0.1", "0x7f000001", "087.10.0.1", "1২7.0.0.1", "1.2.3"],
    "ipv6": [
        "12345::",
        "::abcef",
        "1:1:1:1:1:1:1:1:1",
        "::laptop",
        ":2:3:4:5:6:7:8",
        "1:2:3:4:5:6:7:",
        ":2:3:4::8",
        "1::d6::42",
        "1::2:192.168.256.1",
        "1:2:3:4:5:::8",
        "1:2:3:4:5:6:7",
        "1",
        "127.0.0.1",
        "1:2:3:4:1.2.3",
        "  ::1",
        "fe80::/64",
        "fe80::a%eth1",
        "1:2:3:4:5:6:7:8::",
        "100:100:100:100:100:100:255.255.255.255.255",
        "::ffff:192.168.0.01",
    ],
    "uri": [
        "//foo.bar/",
        "/abc",
        "abc",
        "\\\\WINDOWS\\fileshare",
        "http:// shouldfail.com",
        ":// should fail",
        "bar,baz:foo",
        "https://[@example.org/test.txt",
        "https://example.org/foobar\\.txt",
        "https://example.org/foobar<>.txt",
        "https://example.org/foobar{}.txt",
        "https://example.org/foobar^.txt",
        "https://example.org/foobar`.txt",
        "https://example.org/foo bar.txt",
        "http://example.com:abc/path",
        "http://a/%zz",
        "http://a/%4",
        "http://[::ffff:01.2.3.4]",
        "http://é/",
        "a:[",
        "1a:b",
        "",
    ],
    "uri-reference": ["\\\\WINDOWS\\fileshare", "#frag\\ment", "a b", "1:2", "é", "%"],
    "iri": ["http://2001:0db8:85a3:0000:0000:8a2e:0370:7334", "/abc", "âππ", ":// ƒail", "a:\x80"],
    "iri-reference": ["\\\\WINDOWS\\filëßåré", "#ƒräg\\mênt", "\ue000"],
    "uri-template": [
        "http://example.com/dictionary/{term:1}/{term",
        "{}",
        "{a:0}",
        "{a:10000}",
        "a'b",
        "%",
    ],
    "uuid": [
        "2eb8aa08-aa98-11ea-b4aa-73b441d1638",
        "2eb8aa08-aa98-11ea-73b441d16380",
        "2eb8aa08-aa98-11ea-b4ga-73b441d16380",
        "2eb8aa08aa9811eab4aa73b441d16380",
    ],
    "json-pointer": ["/foo/bar~", "/~2", "#/", "a", "/~0~", "0"],
    "relative-json-pointer": ["/foo/bar", "-1/foo/bar", "0##", "01/a", "01#", "", "abc", "1a"],
    "regex": [
        "^(abc]",
        "(",
        ")",
        "a)",
        "*a",
        "a**",
        "[z-a]",
        "a{2,1}",
        "a{10,9}",
        "\\a",
        "\\",
        "[",
        "(?a)",
        "(?=a)*",
        "\\u12",
        "^*",
        "\\1",
        "\\ud800",
        "{1}",
    ],
    "byte": ["T", "TQ", "TQ=", "TR==", "TWF=", "====", "T Q=", "TQ==TQ=="],
}


@pytest.mark.parametrize("name", sorted(VALID))
def test_valid_texts(name: str) -> None:
    made = format_set(name)
    language = Language((made.quoted(),))
    for text in VALID[name]:
        assert made.contains(text), text
        assert language.matches(0, json.dumps(text, ensure_ascii=False).encode()), text


@pytest.mark.parametrize("name", sorted(INVALID))
def test_invalid_texts(name: str) -> None:
    made = format_set(name)
    assert [text for text in INVALID[name] if made.contains(text)] == []


def test_every_format_is_tested() -> None:
    assert set(VALID) == set(INVALID)
    assert set(VALID) | {"base64"} == STRING_FORMATS
    assert string_format("topic") is None
    assert string_format("date") is string_format("date")
    assert format_set("base64").tree == format_set("byte").tree


# --- Against other implementations -------------------------------------------------------------


def test_dates_are_those_of_the_calendar() -> None:
    date = format_set("date")
    for year in (1900, 1999, 2000, 2004, 2023, 2024, 2100, 2400):
        for month in range(14):
            for day in range(33):
                try:
                    expected = datetime.date(year, month, day) is not None
                except ValueError:
                    expected = False
                assert date.contains(f"{year:04d}-{month:02d}-{day:02d}") == expected


def test_addresses_are_those_of_ipaddress() -> None:
    rng = random.Random(1)
    four, six = format_set("ipv4"), format_set("ipv6")
    for _ in range(3000):
        groups = [
            f"{rng.randrange(1 << rng.choice([4, 8, 16])):x}" for _ in range(rng.randrange(9))
        ]
        if rng.random() < 0.3:
            groups.append(".".join(str(rng.randrange(300)) for _ in range(rng.choice([3, 4, 4]))))
        for _ in range(rng.choice([0, 1, 1, 2])):
            groups.insert(rng.randrange(len(groups) + 1), "")
        text = ":".join(groups)
        if rng.random() < 0.3:
            text = rng.choice([":" + text, text + ":"])
        for made, kind in ((four, ipaddress.IPv4Address), (six, ipaddress.IPv6Address)):
            try:
                expected = bool(text) and kind(text) is not None
            except ValueError:
                expected = False
            assert made.contains(text) == expected, text


def test_data_is_that_of_base64() -> None:
    rng = random.Random(2)
    byte = format_set("byte")
    for _ in range(500):
        data = rng.randbytes(rng.randrange(12))
        text = base64.b64encode(data).decode()
        assert byte.contains(text)
        assert not byte.contains(text + "=")
        assert not byte.contains(text[:-1]) or not text
        assert format_set("uuid").contains(str(uuid.UUID(int=rng.getrandbits(128))))


def test_generated_regexes_are_regexes() -> None:
    """What the format allows, the parser of the dialect reads."""
    made = format_set("regex")
    rng = random.Random(3)
    pieces = [
        "a",
        "(",
        ")",
        "(?:",
        "(?=",
        "*",
        "+?",
        "{2,3}",
        "{1,",
        "[",
        "]",
        "-",
        "a-z",
        "|",
        "\\d",
    ]
    pieces += ["^", "$", "\\b", ".", "9", "{", "}", "\\(", "é", "(?<!", "\\u0041", ",", "[^", "\\"]
    accepted = 0
    for _ in range(6000):
        text = "".join(rng.choices(pieces, k=rng.randrange(1, 7)))
        if made.contains(text):
            accepted += 1
            parse_ecma(text)
    assert accepted > 300


@pytest.mark.parametrize("name", sorted(STRING_FORMATS))
def test_generated_texts_are_of_the_format(name: str) -> None:
    """Random walks along the masks run into no dead end and no limit."""
    made = format_set(name)
    vocabulary = llgx.Vocabulary.from_tokens([bytes((b,)) for b in range(256)], eog=())
    terminal = ir.Terminal("TEXT", made.quoted())
    rule = ir.Rule("start", [ir.Production((ir.TerminalRef(0),))])
    compiled = llgx.Grammar.from_ir(ir.GrammarIR([rule], [terminal], 0)).compile(vocabulary)
    rng = random.Random(4)
    finished = 0
    for _ in range(12):
        matcher = llgx.Matcher(compiled)
        for _ in range(80):
            if matcher.is_stopped():
                finished += 1
                text = json.loads(bytes(matcher.tokens))
                assert made.contains(text), text
                break
            allowed = matcher.allowed_tokens()
            assert allowed
            quotes = [token for token in allowed if token == 0x22]
            matcher.consume((quotes or allowed)[0] if rng.random() < 0.2 else rng.choice(allowed))
    assert finished or name not in ("date", "ipv4", "uuid", "hostname")


# --- The JSON Schema Test Suite ----------------------------------------------------------------


def suite() -> list[dict[str, Any]]:
    path = SHARED / "json-schema-suite.jsonl.gz"
    if not path.exists():
        pytest.skip(f"no {path}")
    with gzip.open(path) as lines:
        return [json.loads(line) for line in lines]


def test_suite() -> None:
    """All tests of the optional formats: none wrong."""
    wrong = []
    count = 0
    for group in suite():
        schema = group["schema"]
        if not group["file"].startswith("optional/format/") or "format" not in schema:
            continue
        made = string_format(schema["format"])
        for test in group["tests"]:
            if made is not None and isinstance(test["data"], str):
                count += 1
                if made.contains(test["data"]) != test["valid"]:
                    wrong.append((group["file"], test["data"], test["valid"]))
    assert count > 500
    assert wrong == []


# --- Cost --------------------------------------------------------------------------------------


def test_import_builds_nothing() -> None:
    code = (
        "import llgx.json_schema.formats, llgx.json_schema.strings as s;"
        "print([leaf.key for leaf in s._LEAVES.values()])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("name", "states"),
    [("date-time", 70), ("email", 300), ("uri", 300), ("iri", 400), ("ipv6", 250), ("uuid", 40)],
)
def test_automata_stay_small(name: str, states: int) -> None:
    assert Language((format_set(name).tree,)).count_states(0, states) is not None


def test_formats_are_inhabited_and_combine() -> None:
    for name in sorted(STRING_FORMATS):
        assert not format_set(name).is_empty(), name
    assert format_set("ipv4").is_disjoint(format_set("ipv6"))
    assert format_set("uuid").meet(StringSet.length(0, 35)).is_empty()
    assert not format_set("date").complement().contains("2020-01-01")
    short = format_set("time").meet(StringSet.length(0, 9))
    assert short.contains("08:30:06Z")
    assert not short.contains("08:30:06.5Z")


# --- Numbers -----------------------------------------------------------------------------------


def test_number_formats() -> None:
    assert {"int32", "int64", "float", "double"} <= NUMBER_FORMATS
    assert all(number_format(name) is not None for name in NUMBER_FORMATS)
    int32 = number_format("int32")
    assert int32 is not None
    assert [int32.contains(n) for n in (2**31 - 1, 2**31, -(2**31), -(2**31) - 1)] == [
        True,
        False,
        True,
        False,
    ]
    uint64 = number_format("uint64")
    assert uint64 is not None
    language = Language((uint64.regex(),))
    assert language.matches(0, str(2**64 - 1).encode())
    assert not language.matches(0, str(2**64).encode())
    assert not language.matches(0, b"-1")
    assert number_format("double") is NumberSet.ANY
    assert number_format("money") is None
