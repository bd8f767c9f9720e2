"""GBNF, the grammar format of llama.cpp.

:func:`compile_gbnf` turns text into :mod:`llgx.ir`, with the meaning that GBNF has: a language over
characters, without a lexer. ``parser`` reads the text into ``nodes``, ``recursion`` turns lists
into repetitions, ``lexing`` decides by ``automata`` what can be a terminal, ``compiler`` writes the
result.
"""

from __future__ import annotations

from llgx.gbnf.compiler import compile_gbnf

__all__ = ["compile_gbnf"]
