# cython: language_level=3
"""What is left of a regex, compared with finite sets; see ``_residuals.pyx``."""

from libc.stdint cimport uint32_t

from llgx._regex cimport Regex, node_t
from llgx._texts cimport TextCursor, Texts

cdef bint residual_is_endless(const Regex* rx, node_t node) noexcept nogil
cdef bint residual_is_finite(const Regex* rx, node_t node) noexcept nogil
cdef bint residual_is_within(
    Regex* rx, node_t node, const Texts* texts, TextCursor cursor
) noexcept nogil
cdef void residual_first(Regex* rx, node_t node, uint32_t* bits) noexcept nogil
cdef void residual_last(const Regex* rx, node_t node, uint32_t* bits, uint32_t depth) noexcept nogil
