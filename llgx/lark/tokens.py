"""Reads ``<name>`` and ``<[ids]>``, the terminals that are tokens of the model."""

from __future__ import annotations

import re
from typing import Final

from llgx import ir

__all__ = ["token_set"]

_RANGE: Final = re.compile(r"\s*(?P<first>[0-9]{1,10})\s*(?:-\s*(?P<last>[0-9]{1,10})\s*)?")


def token_set(text: str) -> ir.TokenSet:
    """The tokens that ``text`` stands for, brackets included.

    ``<name>`` is the special token spelled like that. ``<[1, 5-9]>`` are ids and ranges of them,
    ends included, ``<[^1]>`` all others, ``<[*]>`` all tokens. Raises ``ValueError`` with the
    reason.

    >>> token_set("<[1,5-9]>").ranges
    ((1, 1), (5, 9))
    """
    if not text.startswith("<[") or not text.endswith("]>"):
        return ir.TokenSet(names=(text,))
    body = text[2:-2].strip()
    if body == "*":
        return ir.TokenSet(negated=True)
    negated = body.startswith("^")
    if negated:
        body = body[1:].strip()
    if not body:
        raise ValueError("there are no token ids between the brackets")
    if "*" in body:
        raise ValueError("'*' stands alone: <[*]> is any token")
    ranges = []
    for part in body.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise ValueError(f"'{part.strip()[:40]}' is no token id and no range of them")
        first = int(match["first"])
        last = int(match["last"] or first)
        if last < first:
            raise ValueError(f"the range {first}-{last} of token ids is the wrong way round")
        ranges.append((first, last))
    return ir.TokenSet(ranges=tuple(ranges), negated=negated)
