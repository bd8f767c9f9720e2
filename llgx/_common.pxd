# cython: language_level=3
"""See ``_common.pyx``."""

from llgx._memory cimport Fault
from llgx._regex cimport Regex
from llgx._trie cimport TablePool, TokenTrie

cdef class CommonRegexes:
    cdef Regex rx
    cdef Fault fault
    cdef tuple trees         # keeps them, and with them their ids, alive
    cdef dict memo           # as :func:`regex_lower` keeps it

    cdef int lower(self) except -1
    cdef int copy_to(self, Regex* rx) except -1

cdef CommonRegexes common_regexes(TokenTrie trie, tuple trees, bint through_and)
cdef void regex_measure(Regex* rx, const TablePool* pool) noexcept nogil
