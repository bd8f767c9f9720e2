# cython: language_level=3
"""Suffix tries of loop tables; see ``_suffixes.pyx``."""

from libc.stdint cimport uint32_t, uint64_t

from llgx._trie cimport Splits, Table, TablePool, Trie

cdef Trie* table_suffixes(
    TablePool* pool, Table* table, const uint64_t* bytes, uint32_t characters
) noexcept nogil
cdef Trie* table_left(TablePool* pool, Table* table, const uint64_t* bytes) noexcept nogil
cdef Trie* table_splits(
    TablePool* pool, Table* table, const uint64_t* bytes, uint32_t* count
) noexcept nogil
cdef void splits_free(Splits* splits) noexcept nogil
