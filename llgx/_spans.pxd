# cython: language_level=3
"""Tokens that may hold a whole lexeme; see ``_spans.pyx``."""

from libc.stdint cimport uint32_t

from llgx._trie cimport Spans, TablePool

cdef const Spans* spans_of(
    TablePool* pool, const uint32_t* first, const uint32_t* last, bint single
) noexcept nogil
