# cython: language_level=3
"""Masks of exact lexing; see ``_exact_mask.pyx``."""

from libc.stdint cimport uint32_t, uint64_t

from llgx._engine cimport Engine

cdef void exact_forget(Engine* engine) noexcept nogil
cdef int exact_fill(Engine* engine, uint32_t config, uint64_t* bits) noexcept nogil
