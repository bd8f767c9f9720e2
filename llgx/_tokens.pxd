# cython: language_level=3
"""Terminals that are model tokens; see ``_tokens.pyx``."""

from libc.stdint cimport uint32_t, uint64_t

from llgx._earley cimport Parser, row_t
from llgx._lexer cimport set_t

cdef struct TokenSets:
    uint32_t* at         # by terminal, and one more: where its intervals begin in ``ids``
    uint32_t* ids        # sorted pairs: a first id, and the one after a last

cdef uint32_t tokens_next(
    const TokenSets* sets, const Parser* ps, row_t row, uint32_t* cursor
) noexcept nogil
cdef set_t tokens_match(
    const TokenSets* sets, Parser* ps, row_t row, uint32_t token
) noexcept nogil
cdef bint tokens_some(const TokenSets* sets, Parser* ps, row_t row) noexcept nogil
cdef void tokens_allow(
    const TokenSets* sets, Parser* ps, row_t row, uint64_t* bits
) noexcept nogil
cdef void tokens_put(const TokenSets* sets, uint32_t terminal, uint64_t* bits) noexcept nogil
cdef uint32_t tokens_only(const TokenSets* sets, Parser* ps, row_t row) noexcept nogil
cdef void tokens_free(TokenSets* sets) noexcept nogil
