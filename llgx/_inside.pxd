# cython: language_level=3
"""What a lexer state says before any row is asked; see ``_inside.pyx``."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from llgx._engine cimport Engine
from llgx._lexer cimport LoopKey, set_t, state_t
from llgx._trie cimport Table, Trie

cdef uint32_t site_of(
    Engine* engine, Trie* trie, uint32_t root, uint32_t low, uint32_t high, Table* table,
    uint32_t depth
) noexcept nogil
cdef uint32_t lazy_site(
    Engine* engine, Table* table, uint32_t low, uint32_t high, uint32_t depth
) noexcept nogil
cdef uint32_t lazy_suffixes(
    Engine* engine, uint32_t where, state_t state, bint over
) noexcept nogil
cdef Table* table_of(
    Engine* engine, Table* parent, Trie* trie, uint32_t root, const LoopKey* key
) noexcept nogil
cdef const uint64_t* subtrees_of(
    Engine* engine, const Trie* trie, uint32_t node, const uint32_t* bytes
) noexcept nogil
cdef void inside_bound(
    Engine* engine, uint32_t mode, set_t emitted, uint32_t node, uint32_t state
) noexcept nogil
cdef bint inside_visit(Engine* engine, uint32_t where, uint32_t node, state_t state) noexcept nogil
cdef void inside_walk(Engine* engine, uint32_t where, uint32_t node, state_t state) noexcept nogil
cdef void inside_remove(
    Engine* engine, const Trie* trie, uint32_t begin, uint32_t end
) noexcept nogil
cdef const uint64_t* inside_apart(
    const Engine* engine, state_t one, state_t other
) noexcept nogil
cdef uint32_t inside_by_twin(
    Engine* engine, uint32_t where, state_t state, state_t twin
) noexcept nogil
cdef uint32_t inside_of(Engine* engine, uint32_t where, state_t state) noexcept nogil


cdef inline bint inside_may_part(
    const Engine* engine, const uint64_t* apart, uint8_t byte
) noexcept nogil:
    """Whether two states may go different ways by a byte, given what ``inside_apart`` said."""
    cdef uint32_t place = engine.lexer.rx.classes[byte]
    return apart == NULL or (apart[place >> 6] >> (place & 63)) & 1
