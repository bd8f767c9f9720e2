r"""The formats of JSON Schema and OpenAPI, as sets of strings and of numbers.

Each format is the grammar of its RFC, complete where the grammar is regular. Where it is not, or
where being exact costs a state per character of the most frequent formats, the set errs on the side
that is said here:

======================= ============================================================================
date-time, time         RFC 3339, 5.6. A second 60 is accepted at 23:59 in UTC (``Z``, ``+00:00``,
                        ``-00:00``), not at the places that this is in other zones.
date                    RFC 3339, 29 February in leap years only.
duration                RFC 3339, appendix A.
email, idn-email        RFC 5321, 4.1.2, and RFC 6531: dot-strings and quoted strings, domains,
                        address literals. Longest lengths of the parts are not enforced.
hostname                RFC 1123, 2.1: letters, digits, hyphens, labels up to 63, 253 in all. That
                        a label ``xn--`` decodes is not checked.
idn-hostname            RFC 5890 to 5892: what IDNA 2008 allows in a label, with the rules of
                        context. Not checked: normalisation of sequences, the rule of RFC 5893 for
                        right-to-left labels, lengths (which are those of the Punycode).
ipv4, ipv6              RFC 2673, 3.2, and RFC 4291, 2.2.
uri, uri-reference      RFC 3986.
iri, iri-reference      RFC 3987. As ``uri``, with its characters beyond ASCII.
uri-template            RFC 6570.
uuid                    RFC 4122: hexadecimal digits of either case.
json-pointer            RFC 6901, and relative-json-pointer.
regex                   ECMA-262, of which a part: groups in at most six levels, no back-references
                        and names, ranges of a class within digits or letters of one case.
byte, base64            RFC 4648, 4, with padding.
int8 to uint64          Integers in the range that the name says; float and double are all numbers.
======================= ============================================================================

Formats are built when first used and kept; importing this module builds nothing.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Callable
from typing import Final

from llgx import ir
from llgx.json_schema.numbers import NumberSet
from llgx.json_schema.strings import StringSet
from llgx.regex import charset, parse_ecma, tables
from llgx.regex.build import ANYTHING, alternate, complement, concat, intersect, repeat
from llgx.regex.charset import CharSet
from llgx.regex.utf8 import set_regex

__all__ = ["NUMBER_FORMATS", "STRING_FORMATS", "number_format", "string_format"]


def string_format(name: str, dialect: str = "") -> StringSet | None:
    """The strings of the format ``name``; None for one that is not known or says nothing.

    Formats mean the same in all dialects that have them.
    """
    return _string_format(name) if name in _BUILDERS else None


@functools.cache
def _string_format(name: str) -> StringSet:
    # Kept: what has been found out about the set is of use for the next schema.
    return StringSet.lazily(name, _BUILDERS[name])


@functools.cache
def number_format(name: str) -> NumberSet | None:
    """The numbers of the format ``name`` of OpenAPI; None for one that is not known."""
    bounds = _INTEGERS.get(name)
    if bounds is not None:
        return NumberSet.INTEGERS.meet(NumberSet.between(*bounds))
    return NumberSet.ANY if name in ("float", "double") else None


_INTEGERS: Final = {
    **{f"int{bits}": (-(1 << bits - 1), (1 << bits - 1) - 1) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": (0, (1 << bits) - 1) for bits in (8, 16, 32, 64)},
    "double-int": (1 - (1 << 53), (1 << 53) - 1),
}


def _whole(pattern: str) -> ir.Regex:
    """The texts that ``pattern`` matches as a whole."""
    return parse_ecma(f"^(?:{pattern})$")


# --- Dates and times ---------------------------------------------------------------------------

_LEAP_YEAR: Final = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
_DATE: Final = (
    "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
    "|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    "|02-(?:0[1-9]|1[0-9]|2[0-8]))"
    f"|{_LEAP_YEAR}-02-29)"
)
_HOUR: Final = "(?:[01][0-9]|2[0-3])"
_FRACTION: Final = r"(?:\.[0-9]+)?"
_TIME: Final = (
    f"(?:{_HOUR}:[0-5][0-9]:[0-5][0-9]{_FRACTION}(?:[zZ]|[+-]{_HOUR}:[0-5][0-9])"
    f"|23:59:60{_FRACTION}(?:[zZ]|[+-]00:00))"
)
_CLOCK: Final = "(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"
_DAYS: Final = "(?:[0-9]+D|[0-9]+M(?:[0-9]+D)?|[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?)"
_DURATION: Final = f"P(?:{_DAYS}(?:T{_CLOCK})?|T{_CLOCK}|[0-9]+W)"

# --- Addresses ---------------------------------------------------------------------------------

_OCTET: Final = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4: Final = rf"(?:{_OCTET}(?:\.{_OCTET}){{3}})"


def _ipv6_pattern() -> str:
    """The nine forms of RFC 3986, 3.2.2: by the number of groups before the gap."""
    group = "[0-9A-Fa-f]{1,4}"
    last = f"(?:{group}:{group}|{_IPV4})"
    forms = [f"(?:{group}:){{6}}{last}", f"::(?:{group}:){{5}}{last}"]
    for before in range(1, 6):
        head = f"(?:{group}(?::{group}){{0,{before - 1}}})?"
        forms.append(f"{head}::(?:{group}:){{{5 - before}}}{last}")
    forms.append(f"(?:{group}(?::{group}){{0,5}})?::{group}")
    forms.append(f"(?:{group}(?::{group}){{0,6}})?::")
    return f"(?:{'|'.join(forms)})"


_LABEL: Final = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
# Without a bound on the length: two states a label.
_FREE_LABEL: Final = "[A-Za-z0-9]+(?:-+[A-Za-z0-9]+)*"
_HOSTNAME_LENGTH: Final = 253


def _hostname() -> ir.Regex:
    names = _whole(rf"{_LABEL}(?:\.{_LABEL})*")
    length = repeat(ir.ByteSet((1 << 0x80) - 1), 1, _HOSTNAME_LENGTH)
    return intersect((names, length))


def _address_literal() -> str:
    """An IPv4 address, a tagged IPv6 address, or text with another tag: RFC 5321, 4.1.3.

    Other tags are spelled out by length and letter. A complement would ask each state of an e-mail
    address whether it still matches anything.
    """
    inner, last = "[A-Za-z0-9-]", "[A-Za-z0-9]"
    four = (
        f"[A-HJ-Za-hj-z0-9-]{inner}{{2}}{last}|[Ii](?:[A-OQ-Za-oq-z0-9-]{inner}{last}"
        f"|[Pp](?:[A-UW-Za-uw-z0-9-]{last}|[Vv][A-Za-z0-57-9]))"
    )
    other = f"(?:{inner}{{0,2}}{last}|{four}|{inner}{{4,}}{last}):[!-Z^-~]+"
    return rf"\[(?:{_IPV4}|[Ii][Pp][Vv]6:{_ipv6_pattern()}|{other})\]"


_ATEXT: Final = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]"
_QUOTED: Final = r'"(?:[ !#-\[\]-~]|\\[ -~])*"'


def _email() -> ir.Regex:
    local = rf"(?:{_ATEXT}+(?:\.{_ATEXT}+)*|{_QUOTED})"
    domain = rf"(?:{_FREE_LABEL}(?:\.{_FREE_LABEL})*|{_address_literal()})"
    return _whole(f"{local}@{domain}")


def _idn_email() -> ir.Regex:
    beyond = set_regex(charset.negate(((0, 0x7F),)))
    atom = repeat(alternate((_whole(_ATEXT), beyond)), 1, None)
    atoms = concat((atom, repeat(concat((ir.Literal(b"."), atom)), 0, None)))
    inside = alternate((_whole(r"[ !#-\[\]-~]|\\[ -~]"), beyond))
    quoted = concat((ir.Literal(b'"'), repeat(inside, 0, None), ir.Literal(b'"')))
    label = alternate((_whole(_FREE_LABEL), _unicode_label()))
    domain = concat((label, repeat(concat((ir.Literal(b"."), label)), 0, None)))
    literal = _whole(_address_literal())
    return concat((alternate((atoms, quoted)), ir.Literal(b"@"), alternate((domain, literal))))


# --- Names beyond ASCII ------------------------------------------------------------------------


def _property(name: str) -> CharSet:
    members = tables.ecma_property(name)
    assert members is not None, name
    return members


def _script(name: str) -> CharSet:
    members = tables.ecma_property("Script", name)
    assert members is not None, name
    return members


def _points(*points: int) -> CharSet:
    return charset.make((point, point) for point in points)


@functools.cache
def _label_chars() -> CharSet:
    """The characters that IDNA 2008 allows in any place of a label (RFC 5892: PVALID)."""
    members = charset.union(*map(_property, ("Ll", "Lu", "Lo", "Lm", "Mn", "Mc", "Nd")))
    unstable = charset.union(
        _unstable(charset.difference(members, _PLAIN_LETTERS)),
        _property("Default_Ignorable_Code_Point"),
        _property("White_Space"),
        _property("Noncharacter_Code_Point"),
        # Old Hangul, and what section 2.6 excludes or leaves to context.
        ((0x1100, 0x11FF), (0xA960, 0xA97F), (0xD7B0, 0xD7FF)),
        _points(0x640, 0x7FA, 0x302E, 0x302F, 0x3031, 0x3032, 0x3033, 0x3034, 0x3035, 0x303B),
        _CONTEXT,
    )
    members = charset.difference(members, unstable)
    exceptions = _points(0xDF, 0x3C2, 0x6FD, 0x6FE, 0xF0B, 0x3007)
    return charset.union(members, exceptions, tables.ASCII_DIGIT, ((0x2D, 0x2D),))


# Unified ideographs and Hangul syllables, most of all letters, are what they are in every form.
_PLAIN_LETTERS: Final[CharSet] = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xAC00, 0xD7A3),
    (0x20000, 0x2F7FF),
    (0x2FA20, 0x3FFFF),
)


def _unstable(members: CharSet) -> CharSet:
    """Those of ``members`` that case folding or compatible composition changes. Some 10 ms."""
    changed = []
    for low, high in members:
        for point in range(low, high + 1):
            char = chr(point)
            folded = unicodedata.normalize("NFKC", char).casefold()
            if unicodedata.normalize("NFKC", folded) != char:
                changed.append((point, point))
    return charset.make(changed)


# MIDDLE DOT, KERAIA, GERESH, GERSHAYIM, KATAKANA MIDDLE DOT, two sets of digits, the joiners.
_CONTEXT: Final = charset.make(
    [
        *((point, point) for point in (0xB7, 0x375, 0x5F3, 0x5F4, 0x30FB)),
        (0x660, 0x669),
        (0x6F0, 0x6F9),
        (0x200C, 0x200D),
    ]
)


@functools.cache
def _unicode_label() -> ir.Regex:
    """A label with a character beyond ASCII."""
    chars = charset.union(_label_chars(), _CONTEXT)
    marks = charset.union(*map(_property, ("Mn", "Mc", "Me")))
    japanese = charset.union(_script("Hiragana"), _script("Katakana"), _script("Han"))
    rules = [
        _with(charset.negate(((0, 0x7F),))),
        complement(concat((set_regex(charset.union(marks, ((0x2D, 0x2D),))), ANYTHING))),
        complement(concat((ANYTHING, ir.Literal(b"-")))),
        complement(concat((repeat(set_regex(charset.ALL), 2, 2), ir.Literal(b"--"), ANYTHING))),
        *(complement(_misplaced(*rule)) for rule in _context_rules()),
        alternate(
            (complement(_with(_points(0x30FB))), _with(charset.difference(japanese, _CONTEXT)))
        ),
        complement(intersect((_with(((0x660, 0x669),)), _with(((0x6F0, 0x6F9),))))),
    ]
    return intersect((repeat(set_regex(chars), 1, None), *rules))


def _with(members: CharSet) -> ir.Regex:
    """Texts with one of ``members`` in them."""
    return concat((ANYTHING, set_regex(members), ANYTHING))


def _context_rules() -> list[tuple[CharSet, CharSet | None, CharSet | None]]:
    """Characters, what has to stand before each, and what after (RFC 5892, appendix A)."""
    letter_l = _points(0x6C)
    return [
        (_points(0xB7), letter_l, letter_l),
        (_points(0x375), None, _script("Greek")),
        (_points(0x5F3, 0x5F4), _script("Hebrew"), None),
        (_points(0x200C, 0x200D), _VIRAMAS, None),
    ]


# Canonical combining class 9 (DerivedCombiningClass.txt), the frequent scripts.
_VIRAMAS: Final = _points(
    0x94D, 0x9CD, 0xA4D, 0xACD, 0xB4D, 0xBCD, 0xC4D, 0xCCD, 0xD4D, 0xDCA, 0xE3A, 0xF84, 0x1039
)


def _misplaced(members: CharSet, before: CharSet | None, after: CharSet | None) -> ir.Regex:
    """Texts in which one of ``members`` does not stand where it has to."""
    char = set_regex(members)
    options: list[ir.Regex] = []
    if before is not None:
        other = set_regex(charset.negate(before))
        options += [concat((char, ANYTHING)), concat((ANYTHING, other, char, ANYTHING))]
    if after is not None:
        other = set_regex(charset.negate(after))
        options += [concat((ANYTHING, char)), concat((ANYTHING, char, other, ANYTHING))]
    return alternate(options)


def _idn_hostname() -> ir.Regex:
    label = alternate((_whole(_LABEL), _unicode_label()))
    dot = set_regex(_points(0x2E, 0x3002, 0xFF0E, 0xFF61))
    return concat((label, repeat(concat((dot, label)), 0, None)))


# --- Resource identifiers ----------------------------------------------------------------------

_UCSCHAR: Final[CharSet] = (
    (0xA0, 0xD7FF),
    (0xF900, 0xFDCF),
    (0xFDF0, 0xFFEF),
    *((plane << 16, (plane << 16) + 0xFFFD) for plane in range(1, 14)),
    (0xE1000, 0xEFFFD),
)
_IPRIVATE: Final[CharSet] = ((0xE000, 0xF8FF), (0xF0000, 0xFFFFD), (0x100000, 0x10FFFD))


def _set_text(members: CharSet) -> str:
    """``members`` as they stand in a class of a pattern."""
    return "".join(f"\\u{{{low:x}}}-\\u{{{high:x}}}" for low, high in members)


def _identifier(reference: bool, beyond: CharSet, private: CharSet) -> ir.Regex:
    """RFC 3986, appendix A; with characters ``beyond`` ASCII RFC 3987, 2.2."""
    unreserved = f"A-Za-z0-9._~{_set_text(beyond)}-"
    delims = "!$&'()*+,;="
    coded = "%[0-9A-Fa-f]{2}"
    pchar = f"(?:[{delims}:@{unreserved}]|{coded})"
    userinfo = f"(?:[{delims}:{unreserved}]|{coded})*@"
    future = rf"[vV][0-9A-Fa-f]+\.[{delims}:A-Za-z0-9._~-]+"
    host = rf"(?:\[(?:{_ipv6_pattern()}|{future})\]|(?:[{delims}{unreserved}]|{coded})*)"
    authority = f"(?:{userinfo})?{host}(?::[0-9]*)?"
    segments = f"(?:/{pchar}*)*"
    rooted = f"/(?:{pchar}+{segments})?"
    query = f"(?:[{delims}:@/?{unreserved}{_set_text(private)}]|{coded})*"
    fragment = f"(?:[{delims}:@/?{unreserved}]|{coded})*"
    end = rf"(?:\?{query})?(?:#{fragment})?"
    path = f"(?://{authority}{segments}|{rooted}|{pchar}+{segments})?"
    absolute = f"[A-Za-z][A-Za-z0-9+.-]*:{path}{end}"
    if not reference:
        return _whole(absolute)
    first = f"(?:[{delims}@{unreserved}]|{coded})+"
    relative = f"(?://{authority}{segments}|{rooted}|{first}{segments})?{end}"
    return _whole(f"{absolute}|{relative}")


def _uri_template() -> ir.Regex:
    coded = "%[0-9A-Fa-f]{2}"
    literal = f"[!#$&(-;=?-\\[\\]_a-z~{_set_text(_UCSCHAR)}{_set_text(_IPRIVATE)}]"
    char = f"(?:[A-Za-z0-9_]|{coded})"
    variable = rf"{char}+(?:\.{char}+)*(?:\*|:[1-9][0-9]{{0,3}})?"
    expression = rf"\{{[+#./;?&=,!@|]?{variable}(?:,{variable})*\}}"
    return _whole(f"(?:{literal}|{coded}|{expression})*")


# --- Pointers, regexes, data -------------------------------------------------------------------

_POINTER: Final = "(?:/(?:[^/~]|~[01])*)*"
_HEX: Final = "[0-9A-Fa-f]"
_BASE64: Final = "[A-Za-z0-9+/]"
_LEVELS: Final = 6


def _regex() -> ir.Regex:
    """Patterns that mean the same with and without the flag ``u``."""
    escape = (
        r"\\(?:[dDwWsSfnrtv]|[$^\\.*+?()\[\]{}|/]|c[A-Za-z]|x[0-9A-Fa-f]{2}"
        r"|u(?:[0-9A-CE-Fa-ce-f][0-9A-Fa-f]{3}|[dD][0-7][0-9A-Fa-f]{2}))"
    )
    member = rf"(?:[^\\\]\[-]|{escape}|\\b)"
    ranges = "|".join(
        f"{low}-[{low}-{last}]"
        for first, last in ("09", "az", "AZ")
        for low in map(chr, range(ord(first), ord(last) + 1))
    )
    klass = rf"\[\^?-?(?:{ranges}|{member})*-?\]"
    plain = r"[^$^\\.*+?()\[\]{}|]"
    quantifier = _whole(rf"(?:[*+?]|{_counts()})\??")
    simple = _whole(rf"{plain}|\.|{escape}|{klass}")
    anchor = _whole(r"[$^]|\\[bB]")
    open_group = _whole(r"\((?:\?:)?")
    open_look = _whole(r"\(\?(?:[=!]|<[=!])")
    close = ir.Literal(b")")
    optional = repeat(quantifier, 0, 1)
    # Atoms, assertions and bars in any order: each side of a bar may be empty.
    flat = [concat((simple, optional)), anchor, ir.Literal(b"|")]
    pattern = repeat(alternate(flat), 0, None)
    for _ in range(_LEVELS):
        group = concat((open_group, pattern, close, optional))
        look = concat((open_look, pattern, close))
        pattern = repeat(alternate((*flat, group, look)), 0, None)
    return pattern


def _counts() -> str:
    """Bounds of a repeat, the first not above the second: of up to two digits, or fewer digits."""
    pairs = [f"{low},[{low}-9]" for low in range(10)]
    for low in range(10, 100):
        tens, ones = divmod(low, 10)
        more = f"|[{tens + 1}-9][0-9]" if tens < 9 else ""
        pairs.append(f"{low},(?:{tens}[{ones}-9]{more})")
    pairs += ["[0-9],[1-9][0-9]{1,3}", "[1-9][0-9],[1-9][0-9]{2,3}", "[1-9][0-9]{2},[1-9][0-9]{3}"]
    return rf"\{{(?:(?:0|[1-9][0-9]{{0,3}}),?|{'|'.join(pairs)})\}}"


def _base64() -> ir.Regex:
    return _whole(f"(?:{_BASE64}{{4}})*(?:{_BASE64}[AQgw]==|{_BASE64}{{2}}[AEIMQUYcgkosw048]=)?")


_BUILDERS: Final[dict[str, Callable[[], ir.Regex]]] = {
    "date-time": lambda: _whole(f"{_DATE}[Tt]{_TIME}"),
    "date": lambda: _whole(_DATE),
    "time": lambda: _whole(_TIME),
    "duration": lambda: _whole(_DURATION),
    "email": _email,
    "idn-email": _idn_email,
    "hostname": _hostname,
    "idn-hostname": _idn_hostname,
    "ipv4": lambda: _whole(_IPV4),
    "ipv6": lambda: _whole(_ipv6_pattern()),
    "uri": lambda: _identifier(False, charset.NONE, charset.NONE),
    "uri-reference": lambda: _identifier(True, charset.NONE, charset.NONE),
    "iri": lambda: _identifier(False, _UCSCHAR, _IPRIVATE),
    "iri-reference": lambda: _identifier(True, _UCSCHAR, _IPRIVATE),
    "uri-template": _uri_template,
    "uuid": lambda: _whole(f"{_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}"),
    "json-pointer": lambda: _whole(_POINTER),
    "relative-json-pointer": lambda: _whole(f"(?:0|[1-9][0-9]*)(?:#|{_POINTER})"),
    "regex": _regex,
    "byte": _base64,
    "base64": _base64,
}

STRING_FORMATS: Final = frozenset(_BUILDERS)
NUMBER_FORMATS: Final = frozenset((*_INTEGERS, "float", "double"))
