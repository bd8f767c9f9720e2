# cython: language_level=3
"""What a lexer state says before any row is asked; see ``_inside.pyx``."""

from libc.stdint cimport uint32_t, uint64_t

from llgx._engine cimport Engine
from llgx._lexer cimport LoopKey, state_t
from llgx._trie cimport Table, Trie

cdef uint32_t site_of(
    Engine* engine, Trie* trie, uint32_t root, uint32_t low, uint32_t high, Table* table,
    uint32_t depth
) noexcept nogil
cdef Table* table_of(
    Engine* engine, Table* parent, Trie* trie, uint32_t root, const LoopKey* key
) noexcept nogil
cdef const uint64_t* subtrees_of(
    Engine* engine, const Trie* trie, uint32_t node, const uint32_t* bytes
) noexcept nogil
cdef uint32_t inside_of(Engine* engine, uint32_t where, state_t state) noexcept nogil
