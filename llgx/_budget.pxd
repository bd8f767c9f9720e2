# cython: language_level=3
"""Derivations with a limit on their tokens; see ``_budget.pyx``."""

from libc.stdint cimport uint8_t, uint32_t

from llgx._earley cimport row_t
from llgx._engine cimport Engine
from llgx._lexer cimport state_t

cdef bint budget_step(
    Engine* engine, row_t* row, state_t* state, bint* fresh, uint32_t* begin, uint32_t now,
    uint8_t byte
) noexcept nogil
cdef row_t budget_plain(Engine* engine, row_t row) noexcept nogil
cdef uint32_t budget_deadline(
    Engine* engine, row_t row, bint fresh, uint32_t begin
) noexcept nogil
cdef bint budget_is_open(
    Engine* engine, row_t row, state_t state, bint fresh
) noexcept nogil
cdef bint budget_expire(
    Engine* engine, row_t* row, state_t* state, bint* fresh, uint32_t* context, uint32_t begin,
    uint32_t now
) noexcept nogil
