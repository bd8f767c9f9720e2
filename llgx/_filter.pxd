# cython: language_level=3
"""What scopes take out of a mask; see ``_filter.pyx``."""

from libc.stdint cimport uint32_t, uint64_t

from llgx._earley cimport row_t
from llgx._engine cimport Engine, Scopes
from llgx._lexer cimport state_t

cdef bint scopes_are_idle(
    Engine* engine, row_t row, state_t state, bint fresh, uint32_t context
) noexcept nogil
cdef int scopes_filter(
    Engine* engine, row_t row, state_t state, bint fresh, uint32_t context, uint64_t* bits
) noexcept nogil
cdef void scopes_forget(Scopes* scopes) noexcept nogil
