"""The Lark variant of llguidance: grammar text to :class:`llgx.ir.GrammarIR`."""

from __future__ import annotations

from llgx.lark.compiler import compile_lark

__all__ = ["compile_lark"]
