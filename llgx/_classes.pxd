# cython: language_level=3
"""Tokens by the bytes and characters in them; see ``_classes.pyx``."""

from libc.stdint cimport uint32_t, uint64_t

from llgx._lexer cimport LoopKey
from llgx._memory cimport Words
from llgx._trie cimport Table, TablePool

cdef int classes_table(TablePool* pool, Table* table, const LoopKey* key) noexcept nogil
cdef bint classes_are_few(const TablePool* pool, const uint64_t* bytes) noexcept nogil
cdef bint classes_places(
    TablePool* pool, const Table* table, const uint64_t* bytes, uint32_t characters, Words* places
) noexcept nogil
cdef int classes_window(
    TablePool* pool, const Table* table, uint32_t high, uint64_t* bits
) noexcept nogil
cdef const uint32_t* classes_exits(
    TablePool* pool, uint32_t* count, const uint32_t** up
) noexcept nogil
cdef void classes_free(TablePool* pool) noexcept nogil
