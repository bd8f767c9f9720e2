"""The Lark variant of llguidance: grammar text to :class:`llgx.ir.GrammarIR`."""

from __future__ import annotations

from llgx.lark.compiler import compile_grammars, compile_lark
from llgx.lark.library import Library
from llgx.lark.top_level import read_grammars

__all__ = ["Library", "compile_grammars", "compile_lark", "read_grammars"]
