# cython: language_level=3
"""Which rules a row is in the middle of; see ``_open.pyx``."""

from libc.stdint cimport uint32_t

from llgx._earley cimport Parser, row_t
from llgx._memory cimport Map, Words

cdef struct Climb:       # from items of a row up to what waits for their rules
    Words places         # triples: row, rule, the place that led here or NONE
    Map seen             # (row, rule)
    bint failed

cdef void climb_begin(
    Climb* climb, const Parser* ps, row_t row, const uint32_t* terminals, uint32_t count,
    uint32_t stride
) noexcept nogil
cdef void climb_from(Climb* climb, const Parser* ps, uint32_t place) noexcept nogil
cdef void climb_free(Climb* climb) noexcept nogil
