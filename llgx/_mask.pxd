# cython: language_level=3
"""Masks of (row, lexer state); see ``_mask.pyx``."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from llgx._earley cimport row_t
from llgx._engine cimport Engine
from llgx._lexer cimport set_t, state_t
from llgx._trie cimport TablePool

cdef int engine_init(Engine* engine, TablePool* pool, uint32_t terminals) noexcept nogil
cdef int engine_begin(Engine* engine) noexcept nogil
cdef void engine_free(Engine* engine) noexcept nogil
cdef bint engine_step(
    Engine* engine, row_t* row, state_t* state, bint* fresh, uint8_t byte
) noexcept nogil
cdef bint engine_reread(
    Engine* engine, row_t* row, state_t* state, bint* fresh, const uint8_t* data, uint32_t length,
    uint32_t* begin
) noexcept nogil
cdef bint engine_follow(
    Engine* engine, row_t* row, set_t emitted, state_t* state, bint* fresh
) noexcept nogil
cdef bint engine_ends(Engine* engine, row_t row, state_t state, bint fresh) noexcept nogil
cdef bint engine_accepts(Engine* engine, row_t row, state_t state, bint fresh) noexcept nogil
cdef void engine_copy(
    Engine* engine, uint32_t index, bint again, uint64_t* bits
) noexcept nogil
cdef int engine_fill(
    Engine* engine, row_t row, state_t state, uint64_t* bits
) noexcept nogil
