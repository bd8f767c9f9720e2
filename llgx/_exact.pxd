# cython: language_level=3
"""Exact lexing; see ``_exact.pyx``."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from llgx._engine cimport Engine, Exact

cdef enum:
    FIRST_CONFIG = 0

cdef Exact* exact_new() noexcept nogil
cdef void exact_free(Exact* exact) noexcept nogil
cdef int exact_begin(Engine* engine) noexcept nogil
cdef uint32_t exact_step(Engine* engine, uint32_t config, uint8_t byte) noexcept nogil
cdef bint exact_accepts(Engine* engine, uint32_t config) noexcept nogil
cdef bint exact_ends(Engine* engine, uint32_t config) noexcept nogil
cdef uint32_t exact_terminals(
    Engine* engine, uint32_t config, uint8_t* found
) noexcept nogil
