# cython: language_level=3
"""Lexer states that no character of a string ends; see ``_endless.pyx``."""

from libc.stdint cimport uint32_t

from llgx._engine cimport Base, Engine
from llgx._lexer cimport LoopKey, state_t
from llgx._regex cimport Regex, node_t

cdef enum:
    LONGEST_PATH = 512   # bytes of a token that are read

cdef struct Path:        # through the main trie, and the lexer states along it
    uint32_t nodes[LONGEST_PATH]     # from the one below the root on
    state_t states[LONGEST_PATH]     # after each of them
    uint32_t length

cdef state_t path_state(
    Engine* engine, const uint32_t* up, uint32_t node, state_t state, Path* path
) noexcept nogil
cdef bint shape_leaves(
    const Regex* rx, node_t node, const LoopKey* key, uint32_t depth
) noexcept nogil
cdef bint endless_explore(
    Engine* engine, uint32_t where, state_t state, Base* base
) noexcept nogil
