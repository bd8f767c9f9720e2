# cython: language_level=3
"""Where a lexer state and its twin part on a trie; see ``_difference.pyx``."""

from libc.stdint cimport uint32_t

from llgx._engine cimport Engine
from llgx._lexer cimport state_t

cdef bint difference_is_asked(Engine* engine, uint32_t where, state_t state) noexcept nogil
cdef void difference_walk(
    Engine* engine, uint32_t where, state_t state, state_t twin
) noexcept nogil
