# cython: language_level=3
"""Layout of sets of byte strings; see ``_texts.pyx``."""

from libc.stdint cimport uint8_t, uint32_t

from llgx._memory cimport NONE, Interner, Words

ctypedef uint32_t texts_t

cdef enum:
    NO_TEXTS = 0         # the set without strings

cdef struct Texts:
    Interner nodes       # see ``_texts.pyx``
    Words path           # scratch of an insertion
    Words made

cdef struct TextCursor:  # where a set is after the first bytes of some of its strings
    texts_t node         # NONE: no string begins so
    uint32_t offset      # bytes read of a node that is a tail

cdef int texts_init(Texts* self) noexcept nogil
cdef void texts_free(Texts* self) noexcept nogil
cdef texts_t texts_insert(
    Texts* self, texts_t texts, const uint8_t* data, uint32_t length
) noexcept nogil
cdef int texts_meet(Texts* self, texts_t one, texts_t other) noexcept nogil
cdef bint texts_step(const Texts* self, TextCursor* cursor, uint8_t byte) noexcept nogil
cdef bint texts_final(const Texts* self, const TextCursor* cursor) noexcept nogil
cdef uint32_t texts_branches(
    const Texts* self, const TextCursor* cursor, uint8_t* bytes
) noexcept nogil


cdef inline TextCursor texts_begin(texts_t texts) noexcept nogil:
    cdef TextCursor cursor
    cursor.node = NONE if texts == NO_TEXTS else texts
    cursor.offset = 0
    return cursor


cdef inline TextCursor texts_after(
    const Texts* self, texts_t texts, const uint8_t* data, size_t length
) noexcept nogil:
    """The cursor after ``data``; linear in how much of it strings of the set begin with."""
    cdef TextCursor cursor = texts_begin(texts)
    cdef size_t i = 0
    while i < length and cursor.node != NONE:
        texts_step(self, &cursor, data[i])
        i += 1
    return cursor


cdef inline bint texts_contain(
    const Texts* self, texts_t texts, const uint8_t* data, size_t length
) noexcept nogil:
    cdef TextCursor cursor = texts_after(self, texts, data, length)
    return texts_final(self, &cursor)
