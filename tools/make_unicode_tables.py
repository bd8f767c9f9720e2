"""Write ``llgx/regex/_unicode_tables.py`` from the Unicode data of two PyPI packages.

Usage: ``python tools/make_unicode_tables.py`` where ``regex`` and ``fonttools`` are installed, both
made for the same version of Unicode (checked). Takes about a minute. The output is a pure function
of the two packages.

The data are lines ``kind|names|numbers``, compressed, in base64. ``kind`` is ``gc`` (general
category), ``sc`` (script), ``scx`` (script extensions), ``bin`` (binary property) or ``fold``.
``names`` are the short and the long name, separated by a comma. Numbers are in base 36: for a set,
pairs of (gap since the end of the last range, length of the range less one); for ``fold``, the
classes of simple case folding, each one its code points joined by ``-``.
"""

from __future__ import annotations

import base64
import sys
import textwrap
import zlib
from collections.abc import Iterable
from pathlib import Path

import regex  # type: ignore[import-not-found, import-untyped, unused-ignore]
from fontTools import (  # type: ignore[import-not-found, import-untyped, unused-ignore]
    unicodedata as font_data,
)
from regex import _regex  # type: ignore[import-not-found, import-untyped, unused-ignore]

OUTPUT = Path(__file__).resolve().parent.parent / "llgx" / "regex" / "_unicode_tables.py"
CODE_POINTS = 0x110000
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def words(text: str) -> list[str]:
    """The words of ``text``, which white space separates."""
    return text.split()


CATEGORIES = words("""
Lu,Uppercase_Letter Ll,Lowercase_Letter Lt,Titlecase_Letter LC,Cased_Letter Lm,Modifier_Letter
Lo,Other_Letter L,Letter Mn,Nonspacing_Mark Mc,Spacing_Mark Me,Enclosing_Mark M,Mark,Combining_Mark
Nd,Decimal_Number,digit Nl,Letter_Number No,Other_Number N,Number Pc,Connector_Punctuation
Pd,Dash_Punctuation Ps,Open_Punctuation Pe,Close_Punctuation Pi,Initial_Punctuation
Pf,Final_Punctuation Po,Other_Punctuation P,Punctuation,punct Sm,Math_Symbol Sc,Currency_Symbol
Sk,Modifier_Symbol So,Other_Symbol S,Symbol Zs,Space_Separator Zl,Line_Separator
Zp,Paragraph_Separator Z,Separator Cc,Control,cntrl Cf,Format Cs,Surrogate Co,Private_Use
Cn,Unassigned C,Other
""")

BINARY = words("""
AHex,ASCII_Hex_Digit Alpha,Alphabetic Bidi_C,Bidi_Control Bidi_M,Bidi_Mirrored CI,Case_Ignorable
Cased CWCF,Changes_When_Casefolded CWCM,Changes_When_Casemapped CWL,Changes_When_Lowercased
CWT,Changes_When_Titlecased CWU,Changes_When_Uppercased Dash DI,Default_Ignorable_Code_Point
Dep,Deprecated Dia,Diacritic Emoji EComp,Emoji_Component EMod,Emoji_Modifier
EBase,Emoji_Modifier_Base EPres,Emoji_Presentation ExtPict,Extended_Pictographic
Ext,Extender Gr_Base,Grapheme_Base
Gr_Ext,Grapheme_Extend Hex,Hex_Digit IDSB,IDS_Binary_Operator IDST,IDS_Trinary_Operator
IDC,ID_Continue IDS,ID_Start Ideo,Ideographic Join_C,Join_Control LOE,Logical_Order_Exception
Lower,Lowercase Math NChar,Noncharacter_Code_Point Pat_Syn,Pattern_Syntax Pat_WS,Pattern_White_Space
PCM,Prepended_Concatenation_Mark QMark,Quotation_Mark Radical RI,Regional_Indicator
STerm,Sentence_Terminal SD,Soft_Dotted Term,Terminal_Punctuation UIdeo,Unified_Ideograph
Upper,Uppercase VS,Variation_Selector space,White_Space XIDC,XID_Continue XIDS,XID_Start
""")

# Characters that only Turkic folding (status T of CaseFolding.txt) relates to the Latin i.
TURKIC = frozenset((0x130, 0x131))


def base36(number: int) -> str:
    """``number`` in base 36."""
    text = ""
    while True:
        number, digit = divmod(number, 36)
        text = DIGITS[digit] + text
        if not number:
            return text


def encode(points: Iterable[int]) -> str:
    """A set of code points as gaps and lengths."""
    numbers: list[int] = []
    end = 0
    for point in sorted(points):
        if numbers and point == end:
            numbers[-1] += 1
        else:
            numbers += [point - end, 0]
        end = point + 1
    return " ".join(map(base36, numbers))


def members(expression: str) -> set[int]:
    """The code points that a pattern of the ``regex`` package matches."""
    everything = "".join(map(chr, range(CODE_POINTS)))
    return {match.start() for match in regex.finditer(expression, everything)}


def script_sets() -> tuple[dict[str, set[int]], dict[str, set[int]]]:
    """Script and script extensions: four-letter code to code points."""
    script: dict[str, set[int]] = {}
    extensions: dict[str, set[int]] = {}
    for point in range(CODE_POINTS):
        script.setdefault(font_data.script(chr(point)), set()).add(point)
        for code in font_data.script_extension(chr(point)):
            extensions.setdefault(code, set()).add(point)
    return script, extensions


def fold_classes() -> str:
    """Classes of more than one code point under simple case folding (status C and S)."""
    classes = set()
    for point in range(CODE_POINTS):
        found = frozenset(_regex.get_all_cases(0, point)) - TURKIC
        if point not in TURKIC and len(found) > 1:
            classes.add(tuple(sorted(found)))
    return " ".join("-".join(map(base36, item)) for item in sorted(classes))


def main() -> None:
    """Write the module."""
    version = next(
        line.split("-")[1].split(".txt")[0]
        for line in Path(font_data.Scripts.__file__).read_text(encoding="utf-8").splitlines()
        if line.startswith("# Scripts-")
    )
    lines = []
    for entry in CATEGORIES:
        points = members(r"\p{gc=" + entry.split(",")[0] + "}")
        lines.append(f"gc|{entry}|{encode(points)}")
    script, extensions = script_sets()
    for code in sorted(script):
        if members(r"\p{sc=" + code + "}") != script[code]:
            sys.exit(f"the two packages disagree about script {code}: other versions of Unicode?")
        name = font_data.script_name(code).replace(" ", "_")
        lines.append(f"sc|{code},{name}|{encode(script[code])}")
        lines.append(f"scx|{code},{name}|{encode(extensions.get(code, set()))}")
    for entry in BINARY:
        points = members(r"\p{" + entry.split(",")[-1] + "}")
        lines.append(f"bin|{entry}|{encode(points)}")
    # Annex C of UTS #18: what \w means.
    word = members(r"[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]")
    lines.append(f"bin|.word|{encode(word)}")
    lines.append(f"fold||{fold_classes()}")
    data = base64.b64encode(zlib.compress("\n".join(lines).encode(), 9)).decode()
    body = "\n".join(f'    "{line}"' for line in textwrap.wrap(data, 92))
    OUTPUT.write_text(
        '"""Unicode properties, scripts and simple case folding, compressed.\n\n'
        "Generated by tools/make_unicode_tables.py, which describes the format; do not edit.\n"
        '"""\n\n'
        "from __future__ import annotations\n\n"
        f'VERSION = "{version}"\n\nDATA = (\n{body}\n)\n',
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
