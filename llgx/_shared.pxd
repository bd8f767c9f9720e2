# cython: language_level=3
"""Plans that all grammars of a vocabulary share; see ``_shared.pyx``."""

from libc.stdint cimport uint32_t

from llgx._engine cimport Engine, Plan
from llgx._lexer cimport state_t

cdef enum:
    MOST_TERMINALS = 64  # of a state that takes part

cdef struct SharedKey:   # a (site, lexer state) by content
    uint32_t place       # ids in the pool; NONE: it takes no part, or not yet
    uint32_t state
    uint32_t count       # terminals of the state
    uint32_t order[MOST_TERMINALS]  # the terminals, in canonical order

cdef void shared_begin(Engine* engine) noexcept nogil
cdef bint shared_adopt(
    Engine* engine, uint32_t where, state_t state, Plan* plan, SharedKey* key
) noexcept nogil
cdef void shared_offer(Engine* engine, const SharedKey* key, const Plan* plan) noexcept nogil
cdef void shared_release(Engine* engine) noexcept nogil
