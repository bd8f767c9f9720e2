# cython: language_level=3
"""Lexer states that no character of a string ends; see ``_endless.pyx``."""

from libc.stdint cimport uint32_t

from llgx._engine cimport Base, Engine
from llgx._lexer cimport LoopKey, state_t
from llgx._regex cimport Regex, node_t

cdef bint shape_leaves(
    const Regex* rx, node_t node, const LoopKey* key, uint32_t depth
) noexcept nogil
cdef bint endless_explore(
    Engine* engine, uint32_t where, state_t state, Base* base
) noexcept nogil
