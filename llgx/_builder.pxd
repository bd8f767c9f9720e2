# cython: language_level=3
"""Masks in the making; see ``_builder.pyx``."""

from libc.stdint cimport uint32_t, uint64_t

from llgx._engine cimport LIST_LIMIT, Builder, Engine, Mask
from llgx._memory cimport FAULT_MEMORY, fault_set, words_push
from llgx._trie cimport Trie

cdef Builder* builder_open(Engine* engine) noexcept nogil
cdef int builder_densify(Engine* engine, Builder* builder) noexcept nogil
cdef const uint64_t* builder_bitset(
    Engine* engine, const uint64_t* bits, uint32_t* index
) noexcept nogil
cdef void builder_put_bits(Engine* engine, uint32_t level, const uint64_t* bits) noexcept nogil
cdef void builder_put_mask(Engine* engine, uint32_t level, const Mask* mask) noexcept nogil
cdef void builder_put_builder(Engine* engine, uint32_t level, uint32_t source) noexcept nogil
cdef void builder_remove_bits(Engine* engine, uint32_t level, const uint64_t* bits) noexcept nogil
cdef void builder_remove_places(
    Engine* engine, uint32_t level, const Trie* trie, uint32_t begin, uint32_t end
) noexcept nogil
cdef void builder_remove_tokens(
    Engine* engine, uint32_t level, const uint32_t* tokens, uint32_t count
) noexcept nogil
cdef bint builder_differs(
    Engine* engine, const uint64_t* bits, const uint64_t* base, uint32_t limit
) noexcept nogil
cdef int builder_finish(Engine* engine, uint32_t level, uint64_t place, Mask* mask) noexcept nogil


cdef inline bint builder_is_empty(const Builder* builder) noexcept nogil:
    return not builder.dense and builder.base == NULL and builder.list.size == 0


cdef inline void builder_put(Engine* engine, uint32_t level, uint32_t token) noexcept nogil:
    cdef Builder* builder = &engine.builders[level]
    if not builder.dense:
        if builder.list.size < LIST_LIMIT:
            if words_push(&builder.list, token) < 0:
                fault_set(&engine.fault, FAULT_MEMORY)
            return
        if builder_densify(engine, builder) < 0:
            return
    builder.bits[token >> 6] |= <uint64_t>1 << (token & 63)
