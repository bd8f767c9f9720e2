"""GBNF, the grammar format of llama.cpp.

:func:`compile_gbnf` turns text into :mod:`llgx.ir`, with the meaning that GBNF has: a language
over characters, without a lexer. :func:`gbnf_to_lark` writes the same as a Lark grammar. ``parser``
reads the text into ``nodes``, ``recursion`` turns lists into repetitions, ``lexing`` decides by
``automata`` what can be a terminal, ``compiler`` and ``lark_text`` write the result.
"""

from __future__ import annotations

from llgx.gbnf.compiler import compile_gbnf
from llgx.gbnf.lark_text import gbnf_to_lark

__all__ = ["compile_gbnf", "gbnf_to_lark"]
