# cython: language_level=3
"""Counters that no token can count to their end; see ``_saturation.pyx``."""

from libc.stdint cimport uint32_t

from llgx._regex cimport Regex, node_t

cdef enum:
    FAR = 1 << 20        # bytes: more than any that are counted here

cdef uint32_t regex_furthest(Regex* rx, node_t node, uint32_t depth) noexcept nogil
cdef bint saturation_helps(const Regex* rx, node_t node, uint32_t most) noexcept nogil
cdef node_t regex_saturate(Regex* rx, node_t node, uint32_t most) noexcept nogil
