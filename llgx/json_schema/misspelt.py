"""Keywords that are unknown, but look like one that constrains: a typing error, most likely.

An unknown keyword is an annotation, as the standard says, and constrains nothing. Where it is a
letter or two away from a keyword, or a keyword of another draft, compiling says so in a warning.
Invariant: this never changes what a schema means. Cost: nothing for schemas without such words;
else a walk over the document, and a comparison with some forty keywords, remembered by word.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable
from typing import Any, Final

from llgx.json_schema.dialects import DEFAULT, Dialect
from llgx.json_schema.lint import schemas_of
from llgx.json_schema.normal import pointer_of

__all__ = ["likely_keyword", "warnings_of"]

_ALIKE: Final = 0.86  # as difflib counts: one letter of seven, or two of fourteen
_SHORTEST: Final = 4
_MOST_WARNINGS: Final = 20
# Of all drafts, and those that stand beside another one.
_KEYWORDS: Final = (*DEFAULT.keywords, "$recursiveRef", "then", "else")


@functools.lru_cache(maxsize=1024)
def likely_keyword(word: str) -> str | None:
    """The keyword that ``word`` is, or was meant to be; None if it looks like none."""
    if word in _KEYWORDS:
        return word
    if len(word) < _SHORTEST or not word.isascii():
        return None
    if not word[0].isalpha() or word.startswith(("x-", "X-", "x_")):
        return None  # "_format" is how one puts a keyword out of action, "x-" begins extensions
    import difflib

    by_case = {keyword.lower(): keyword for keyword in _KEYWORDS}
    plain = word.lower().replace("-", "").replace("_", "")
    found = difflib.get_close_matches(plain, by_case, n=1, cutoff=_ALIKE)
    return by_case[found[0]] if found else None


def warnings_of(contents: Any, dialect: Dialect, words: Iterable[str]) -> list[str]:
    """A warning for each place of those among ``words`` that look like a keyword."""
    likely = {word: keyword for word in words if (keyword := likely_keyword(word)) is not None}
    return list(_warnings(contents, dialect, likely)) if likely else []


def _warnings(contents: Any, dialect: Dialect, likely: dict[str, str]) -> Collection[str]:
    found: dict[str, None] = {}
    for place, schema, _ in schemas_of(contents, dialect):
        for word in likely.keys() & schema.keys():
            reason = f"unknown to {dialect.name}, so that it constrains nothing"
            if likely[word] != word:
                reason += f"; is it meant to be {likely[word]!r}?"
            found[f"{pointer_of((place, word))}: {reason}"] = None
            if len(found) == _MOST_WARNINGS:
                return found
    return found
