# cython: language_level=3
"""Plans that all grammars of a vocabulary share; see ``_shared.pyx``."""

from libc.stdint cimport uint32_t

from llgx._engine cimport Engine, Plan
from llgx._lexer cimport state_t

cdef void shared_begin(Engine* engine) noexcept nogil
cdef bint shared_adopt(Engine* engine, uint32_t where, state_t state, Plan* plan) noexcept nogil
cdef void shared_offer(
    Engine* engine, uint32_t where, state_t state, const Plan* plan
) noexcept nogil
cdef void shared_release(Engine* engine) noexcept nogil
