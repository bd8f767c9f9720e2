# cython: language_level=3
"""Masks of (row, lexer state); see ``_mask.pyx``."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from llgx._earley cimport row_t
from llgx._engine cimport Engine
from llgx._lexer cimport state_t
from llgx._trie cimport TablePool

cdef int engine_init(Engine* engine, TablePool* pool, uint32_t terminals) noexcept nogil
cdef int engine_begin(Engine* engine) noexcept nogil
cdef void engine_free(Engine* engine) noexcept nogil
cdef bint engine_step(
    Engine* engine, row_t* row, state_t* state, bint* fresh, uint8_t byte
) noexcept nogil
cdef bint engine_accepts(Engine* engine, row_t row, state_t state, bint fresh) noexcept nogil
cdef int engine_fill(
    Engine* engine, row_t row, state_t state, uint64_t* bits
) noexcept nogil
