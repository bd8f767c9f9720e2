# cython: language_level=3
"""What a mask is before any row is asked, put together; see ``_plan.pyx``."""

from libc.stdint cimport uint32_t

from llgx._engine cimport Engine
from llgx._lexer cimport state_t

cdef uint32_t plan_of(Engine* engine, uint32_t where, state_t state) noexcept nogil
cdef state_t plan_state(Engine* engine, state_t state) noexcept nogil
cdef void plans_forget(Engine* engine) noexcept nogil
cdef void plans_free(Engine* engine) noexcept nogil
