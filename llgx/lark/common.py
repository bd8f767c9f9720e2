r"""The terminals that ``%import common.X`` brings in.

Names and languages are those of the ``common`` library of Lark, over ASCII. Each is one regex.
``C_COMMENT`` ends at the first ``*/`` although terminals match the longest text, so its regex
spells out that ``*/`` is not inside. ``ESCAPED_STRING`` may span lines, but a backslash does not
escape a line break.
"""

from __future__ import annotations

from typing import Final

__all__ = ["COMMON"]

_INT: Final = "[0-9]+"
_SIGN: Final = "[+-]?"
_DECIMAL: Final = rf"(?:{_INT}\.(?:{_INT})?|\.{_INT})"
_EXP: Final = f"[eE]{_SIGN}{_INT}"
_FLOAT: Final = f"(?:{_INT}{_EXP}|{_DECIMAL}(?:{_EXP})?)"
_NUMBER: Final = f"(?:{_FLOAT}|{_INT})"

COMMON: Final[dict[str, str]] = {
    "DIGIT": "[0-9]",
    "HEXDIGIT": "[0-9a-fA-F]",
    "INT": _INT,
    "SIGNED_INT": _SIGN + _INT,
    "DECIMAL": _DECIMAL,
    "_EXP": _EXP,
    "FLOAT": _FLOAT,
    "SIGNED_FLOAT": _SIGN + _FLOAT,
    "NUMBER": _NUMBER,
    "SIGNED_NUMBER": _SIGN + _NUMBER,
    "ESCAPED_STRING": r'"(?:[^"\\]|\\.)*"',
    "LCASE_LETTER": "[a-z]",
    "UCASE_LETTER": "[A-Z]",
    "LETTER": "[A-Za-z]",
    "WORD": "[A-Za-z]+",
    "CNAME": "[A-Za-z_][A-Za-z_0-9]*",
    "WS_INLINE": r"[ \t]+",
    "WS": r"[ \t\f\r\n]+",
    "CR": r"\r",
    "LF": r"\n",
    "NEWLINE": r"(?:\r?\n)+",
    "SH_COMMENT": r"#[^\n]*",
    "CPP_COMMENT": r"//[^\n]*",
    "C_COMMENT": r"/\*[^*]*\*+(?:[^*/][^*]*\*+)*/",
    "SQL_COMMENT": r"--[^\n]*",
}
