"""What a text that a front end cannot read looks like: the hint for who took the wrong door.

Asked only once reading has failed, so it costs nothing otherwise. Linear.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["other_door"]

_JSON: Final = re.compile(r"\s*\{\s*[\"}]")
_GRAMMARS: Final = re.compile(r"\s*\{\s*\"(?:grammars|max_tokens)\"")
_GBNF: Final = re.compile(r"^[ \t]*[A-Za-z_][\w-]*[ \t]*::=", re.MULTILINE)
_LARK: Final = re.compile(
    r"^[ \t]*(?:%(?:llguidance|import|ignore)\b"
    r"|[?!]{0,2}[A-Za-z_][\w-]*(?:\[[^\]\n]*\])?[ \t]*:(?!:))",
    re.MULTILINE,
)


def other_door(text: str, door: str) -> str:
    """``" (...)"`` that names the reader for ``text``, ``""`` if it is ``door`` or none is known.

    ``door`` is "lark", "gbnf", "grammars" or "json_schema".
    """
    if _JSON.match(text):
        kind = "grammars" if _GRAMMARS.match(text) else "json_schema"
    elif _GBNF.search(text):
        kind = "gbnf"
    elif _LARK.search(text):
        kind = "lark"
    else:
        return ""
    if kind == door:
        return ""
    what = {
        "lark": "a grammar in Lark",
        "gbnf": "a grammar in GBNF",
        "grammars": "the JSON form of several grammars",
        "json_schema": "a JSON Schema",
    }
    return f" (this looks like {what[kind]}, which Grammar.from_{kind} reads)"
