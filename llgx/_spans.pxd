# cython: language_level=3
"""Tokens that may hold a whole lexeme; see ``_spans.pyx``."""

from libc.stdint cimport int64_t, uint8_t, uint32_t

from llgx._trie cimport Spans, TablePool

cdef enum:
    SPAN_FIRST = 1       # in Spans.kinds
    SPAN_LAST = 2
    LONG_SPANS = 2048    # tokens up to which they are listed

cdef const Spans* spans_of(
    TablePool* pool, const uint32_t* first, const uint32_t* last, bint single
) noexcept nogil
cdef void spans_free(Spans* spans) noexcept nogil


cdef inline const uint8_t* spans_text(
    const uint32_t* ends, uint32_t count, uint32_t place, uint32_t* length
) noexcept nogil:
    """The text at a place of a list of so many. It is kept with the list, since looking it up in
    the vocabulary would be a miss of the cache for each token."""
    cdef uint32_t begin = ends[place - 1] if place else 0
    length[0] = ends[place] - begin
    return <const uint8_t*>(ends + count) + begin


cdef inline int64_t spans_latest(
    const Spans* spans, const uint8_t* text, uint32_t length
) noexcept nogil:
    """Where the last whole lexeme of such a kind that may be in ``text`` begins; -1 if none may be
    in it. What begins in ``text`` up to there may hold one, what begins later may not."""
    cdef int64_t i = <int64_t>length - 1
    while i >= 0 and not spans.kinds[text[i]] & SPAN_LAST:
        i -= 1
    if not spans.single:
        i -= 1
    while i >= 0 and not spans.kinds[text[i]] & SPAN_FIRST:
        i -= 1
    return i if i >= 0 else -1
