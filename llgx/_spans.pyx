# cython: language_level=3, boundscheck=False, wraparound=False
# cython: initializedcheck=False, cdivision=True
"""Tokens that may hold a whole lexeme, by what such a lexeme begins and ends with.

For two sets of bytes the list of text tokens in which a byte of the first is followed by one of the
second, or is one of it too where a lexeme may have one byte. For JSON strings in Llama 3 that are a
few hundred of 128,256 tokens. A list depends on the vocabulary and the key alone and is kept with
the vocabulary, for all grammars.

Cost: one pass over the text of all tokens, about a millisecond, once per vocabulary and key.
"""

from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy, memset

from cpython.pythread cimport WAIT_LOCK, PyThread_acquire_lock, PyThread_release_lock

from llgx._memory cimport Words, words_free, words_push
from llgx._trie cimport Spans, TablePool


cdef Spans* _build(
    const TablePool* pool, const uint32_t* first, const uint32_t* last, bint single
) noexcept nogil:
    cdef Spans* spans = <Spans*>calloc(1, sizeof(Spans))
    cdef Words found
    cdef uint32_t i, token
    cdef uint64_t at
    if spans == NULL:
        return NULL
    memset(&found, 0, sizeof(Words))
    for i in range(pool.trie.token_count):
        token = pool.trie.tokens[i]
        at = pool.text_at[token]
        if spans_hold(
            first, last, single, pool.text + at, <uint32_t>(pool.text_at[token + 1] - at)
        ) and words_push(&found, token) < 0:
            words_free(&found)
            free(spans)
            return NULL
    memcpy(spans.first, first, sizeof(spans.first))
    memcpy(spans.last, last, sizeof(spans.last))
    spans.single = single
    spans.tokens = found.at
    spans.count = <uint32_t>found.size
    return spans


cdef const Spans* spans_of(
    TablePool* pool, const uint32_t* first, const uint32_t* last, bint single
) noexcept nogil:
    """The tokens that may hold a lexeme whose first and last byte are in these sets (of 8 words);
    ``single`` if it may be one byte. NULL when memory is out."""
    cdef Spans* spans
    PyThread_acquire_lock(pool.lock, WAIT_LOCK)
    spans = pool.spans
    while spans != NULL:
        if spans.single == single and memcmp(spans.first, first, sizeof(spans.first)) == 0 \
                and memcmp(spans.last, last, sizeof(spans.last)) == 0:
            break
        spans = spans.next
    if spans == NULL:
        spans = _build(pool, first, last, single)
        if spans != NULL:
            spans.next = pool.spans
            pool.spans = spans
    PyThread_release_lock(pool.lock)
    return spans
