# cython: language_level=3
"""Rules as arrays; see ``_flat.pyx``."""

from libc.stdint cimport uint8_t, uint32_t

from llgx._ir cimport GrammarFields
from llgx._memory cimport Words

cdef class Flat:
    cdef uint32_t rules          # how many
    cdef Words rule_at           # by rule: its first production; one more at the end
    cdef Words place_at          # by production: its first symbol; one more at the end
    cdef Words symbols           # by place: 2 * terminal + 1 or 2 * rule
    cdef Words arguments         # by place: index into ``exprs``, or NONE
    cdef Words guards            # by production: index into ``conditions``, or NONE
    cdef list exprs
    cdef list conditions
    cdef uint32_t parameters     # rules from the description that say whether they take one
    cdef uint8_t* parametric     # by rule of the description
    cdef uint8_t* dropped        # by production: it derives nothing
    cdef bint has_limits         # some rule has ``max_tokens``
    cdef bint has_extras         # some rule has a capture or a temperature

    cdef int add_optional(self, uint32_t terminal, bint is_empty) except -1
    cdef list reachable(self, uint32_t start)
    cdef int drop_unproductive(self, uint8_t* is_empty, uint8_t* productive) except -1
    cdef int nullable(self, uint8_t* status) except -1
    cdef int tail_recursive(self, uint8_t* found) except -1

cdef Flat flat_read(GrammarFields ir)
