# cython: language_level=3
"""Lexer states that a class of characters leads among living ones; see ``_closed.pyx``."""

from libc.stdint cimport uint32_t

from llgx._engine cimport Base, Engine
from llgx._lexer cimport state_t

cdef bint closed_explore(
    Engine* engine, state_t state, const state_t* targets, uint32_t exits, Base* base
) noexcept nogil
