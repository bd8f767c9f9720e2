"""Puts the rules of a JSON Schema into a grammar under construction, for ``%json {...}``."""

from __future__ import annotations

from llgx.errors import GrammarError
from llgx.lark.builder import Builder
from llgx.limits import Limits

__all__ = ["embed_json_schema"]


def embed_json_schema(text: str, builder: Builder, limits: Limits) -> int:
    """Add what the JSON Schema ``text`` describes to ``builder``; returns its start rule.

    Raises :class:`GrammarError` without a position: the caller knows it.
    """
    raise GrammarError("%json is not supported yet: there is no JSON Schema front end")
