# cython: language_level=3
"""See ``_byte_classes.pyx``."""

from libc.stdint cimport uint32_t, uint64_t

from llgx._regex cimport Regex, node_t

cdef void regex_freeze_classes(Regex* rx) noexcept nogil
cdef void regex_alike(
    Regex* rx, node_t node, uint32_t byte_class, uint64_t* alike
) noexcept nogil
