# cython: language_level=3
"""Tokens by the bytes and characters in them; see ``_classes.pyx``."""

from libc.stdint cimport uint32_t, uint64_t

from llgx._lexer cimport LoopKey
from llgx._memory cimport Words
from llgx._trie cimport Table, TablePool

cdef extern from *:
    """
    #if defined(_MSC_VER)
    #include <intrin.h>
    static inline uint32_t llgx_ones(uint64_t bits) { return (uint32_t)__popcnt64(bits); }
    #else
    static inline uint32_t llgx_ones(uint64_t bits) {
        return (uint32_t)__builtin_popcountll(bits);
    }
    #endif
    """
    # How many bits of ``bits`` are one.
    uint32_t ones "llgx_ones"(uint64_t bits) noexcept nogil

cdef int classes_table(TablePool* pool, Table* table, const LoopKey* key) noexcept nogil
cdef int classes_within(TablePool* pool, const LoopKey* key, uint64_t* bits) noexcept nogil
cdef int classes_longer(TablePool* pool, uint32_t characters, uint64_t* bits) noexcept nogil
cdef uint32_t classes_nodes(const TablePool* pool, const uint64_t* bytes) noexcept nogil
cdef bint classes_are_few(const TablePool* pool, const uint64_t* bytes) noexcept nogil
cdef bint classes_places(
    TablePool* pool, const Table* table, const uint64_t* bytes, uint32_t characters, size_t most,
    Words* places
) noexcept nogil
cdef int classes_window(
    TablePool* pool, const Table* table, uint32_t high, uint64_t* bits
) noexcept nogil
cdef const uint32_t* classes_exits(
    TablePool* pool, uint32_t* count, const uint32_t** up
) noexcept nogil
cdef void classes_free(TablePool* pool) noexcept nogil
