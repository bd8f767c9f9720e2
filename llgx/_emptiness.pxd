# cython: language_level=3
"""Whether a regex matches anything; see ``_emptiness.pyx``."""

from llgx._regex cimport Regex, node_t

cdef bint regex_is_live(Regex* rx, node_t node) noexcept nogil
cdef bint regex_is_extendable(Regex* rx, node_t node) noexcept nogil
