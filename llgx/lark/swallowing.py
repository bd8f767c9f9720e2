"""Finds terminals that take in whatever must follow them."""

from __future__ import annotations

from llgx import ir

__all__ = ["swallowing"]


def swallowing(grammar: ir.GrammarIR) -> list[str]:
    return []
