# cython: language_level=3
"""Counters that no token can count to their end; see ``_saturation.pyx``."""

from llgx._regex cimport Regex, node_t

cdef bint saturation_helps(const Regex* rx, node_t node) noexcept nogil
cdef node_t regex_saturate(Regex* rx, node_t node) noexcept nogil
