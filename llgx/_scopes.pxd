# cython: language_level=3
"""Matchers' places in grammars with distinct lexemes; see ``_scopes.pyx``."""

from libc.stdint cimport uint8_t, uint32_t

from llgx._earley cimport row_t
from llgx._engine cimport Engine, Place, Scopes
from llgx._lexer cimport set_t, state_t
from llgx._memory cimport Interner

cdef enum:
    NO_CONTEXT = 0       # no scope, nothing finished

cdef Scopes* scopes_new(uint32_t terminals) noexcept nogil
cdef void scopes_free(Scopes* scopes) noexcept nogil
cdef int scopes_begin(Engine* engine) noexcept nogil
cdef bint scopes_ask(Engine* engine) noexcept nogil
cdef uint32_t state_roles(Engine* engine, state_t state) noexcept nogil
cdef uint32_t set_roles(Engine* engine, set_t terminals) noexcept nogil
cdef void place_load(
    Engine* engine, Place* place, row_t row, state_t state, bint fresh, uint32_t context
) noexcept nogil
cdef uint32_t place_store(Engine* engine, Place* place) noexcept nogil
cdef void place_copy(Engine* engine, Place* place, const Place* source) noexcept nogil
cdef bint place_step(Engine* engine, Place* place, uint8_t byte) noexcept nogil
cdef bint place_accepts(Engine* engine, const Place* place) noexcept nogil
cdef bint place_tightens(Engine* engine, const Place* place) noexcept nogil
cdef bint place_is_tracked(Engine* engine, const Place* place) noexcept nogil
cdef void place_siblings(Engine* engine, const Place* place, uint32_t* bits) noexcept nogil
cdef uint32_t place_followers(
    Engine* engine, const Place* place, uint8_t* byte
) noexcept nogil
cdef size_t scopes_read(
    Engine* engine, row_t* row, state_t* state, bint* fresh, uint32_t* context,
    const uint8_t* data, size_t length, uint32_t* begin, uint32_t now
) noexcept nogil
cdef bint scopes_end(
    Engine* engine, row_t* row, state_t state, uint32_t* context, set_t emitted, uint32_t begin
) noexcept nogil
cdef bint scopes_hold(
    Engine* engine, row_t row, state_t state, bint fresh, uint32_t context
) noexcept nogil
cdef void scopes_cut(Engine* engine, uint32_t* context, uint32_t depth) noexcept nogil
cdef bint scopes_go_on(
    Engine* engine, row_t row, state_t state, uint32_t context
) noexcept nogil
cdef uint32_t scopes_forced(
    Engine* engine, row_t row, state_t state, bint fresh, uint32_t context, uint8_t* out,
    uint32_t limit
) noexcept nogil
cdef bint scopes_accept(
    Engine* engine, row_t row, state_t state, bint fresh, uint32_t context
) noexcept nogil
cdef bint scopes_are_complete(
    Engine* engine, row_t row, state_t state, bint fresh, uint32_t context
) noexcept nogil
cdef uint32_t scopes_count(const Scopes* scopes) noexcept nogil


cdef inline uint32_t scopes_depth(const Scopes* scopes, uint32_t context) noexcept nogil:
    """How many scopes are open."""
    return frame_words(scopes, scopes.contexts.entries[context].words[0])[4]


cdef inline const uint32_t* frame_words(const Scopes* scopes, uint32_t frame) noexcept nogil:
    """[parent, texts, flags, begin, frames around it]"""
    return scopes.frames.entries[frame].words
