# cython: language_level=3
"""Tokens that may hold a whole lexeme; see ``_spans.pyx``."""

from libc.stdint cimport uint8_t, uint32_t

from llgx._trie cimport Spans, TablePool

cdef const Spans* spans_of(
    TablePool* pool, const uint32_t* first, const uint32_t* last, bint single
) noexcept nogil


cdef inline const uint8_t* spans_text(
    const Spans* spans, uint32_t place, uint32_t* length
) noexcept nogil:
    """The text of the token at a place of the list. It is kept with the list, since looking it up
    in the vocabulary would be a miss of the cache for each token."""
    cdef const uint32_t* ends = spans.tokens + spans.count
    cdef uint32_t begin = ends[place - 1] if place else 0
    length[0] = ends[place] - begin
    return <const uint8_t*>(ends + spans.count) + begin


cdef inline bint spans_hold(
    const uint32_t* first, const uint32_t* last, bint single, const uint8_t* text, uint32_t length
) noexcept nogil:
    """Whether a whole lexeme of such a kind may be in ``text``."""
    cdef uint32_t i
    cdef uint8_t byte
    cdef bint begun = False
    for i in range(length):
        byte = text[i]
        if single and (first[byte >> 5] >> (byte & 31)) & 1:
            begun = True
        if begun and (last[byte >> 5] >> (byte & 31)) & 1:
            return True
        if (first[byte >> 5] >> (byte & 31)) & 1:
            begun = True
    return False
