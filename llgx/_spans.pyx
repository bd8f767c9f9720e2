# cython: language_level=3, boundscheck=False, wraparound=False
# cython: initializedcheck=False, cdivision=True
"""Tokens that may hold a whole lexeme, by what such a lexeme begins and ends with.

For two sets of bytes the list of text tokens in which a byte of the first is followed by one of the
second, or is one of it too where a lexeme may have one byte. For JSON strings in Llama 3 that are a
few hundred of 128,256 tokens. A list depends on the vocabulary and the key alone and is kept with
the vocabulary, for all grammars.

Cost: one search through the text of all tokens, 0.2 ms for a quote and up to a millisecond, once
per vocabulary and key.
"""

from libc.stdint cimport uint32_t, uint64_t, uint8_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memchr, memcmp, memcpy, memset

from cpython.pythread cimport WAIT_LOCK, PyThread_acquire_lock, PyThread_release_lock

from llgx._memory cimport NONE, Words, words_free, words_push
from llgx._trie cimport Spans, TablePool


cdef enum:
    FEW_BYTES = 4        # up to which all text is searched for them


cdef uint64_t* _holders(const TablePool* pool, const uint32_t* bytes) noexcept nogil:
    """The tokens with some byte of a set, or more, as a bitset to be freed; NULL when memory is
    out.

    Most sets are a quote: one search through all text at once.
    """
    cdef uint64_t* bits = <uint64_t*>calloc(pool.words + 1, sizeof(uint64_t))
    cdef uint32_t byte, count = 0, token
    cdef uint64_t at
    cdef const uint8_t* text = pool.text
    cdef const uint8_t* end
    cdef const uint8_t* found
    if bits == NULL:
        return NULL
    for byte in range(256):
        count += (bytes[byte >> 5] >> (byte & 31)) & 1
    if count > FEW_BYTES:
        memset(bits, 0xFF, pool.words * sizeof(uint64_t))
        return bits
    end = text + pool.text_at[64 * <size_t>pool.words]
    for byte in range(256):
        if not (bytes[byte >> 5] >> (byte & 31)) & 1:
            continue
        found = text
        token = 0
        while found < end:
            found = <const uint8_t*>memchr(found, <int>byte, end - found)
            if found == NULL:
                break
            at = found - text
            while pool.text_at[token + 1] <= at:
                token += 1
            bits[token >> 6] |= <uint64_t>1 << (token & 63)
            found = text + pool.text_at[token + 1]
    return bits


cdef Spans* _build(
    const TablePool* pool, const uint32_t* first, const uint32_t* last, bint single
) noexcept nogil:
    cdef Spans* spans = <Spans*>calloc(1, sizeof(Spans))
    cdef uint64_t* bits = _holders(pool, last)
    cdef Words found
    cdef uint32_t i, token
    cdef uint64_t at, length, total = 0
    cdef bint complete = True
    memset(&found, 0, sizeof(Words))
    if spans == NULL or bits == NULL:
        free(spans)
        free(bits)
        return NULL
    for i in range(pool.trie.token_count):
        token = pool.trie.tokens[i]
        if not (bits[token >> 6] >> (token & 63)) & 1:
            continue
        at = pool.text_at[token]
        length = pool.text_at[token + 1] - at
        if spans_hold(first, last, single, pool.text + at, <uint32_t>length):
            complete = complete and words_push(&found, token) == 0
            total += length
    free(bits)
    memcpy(spans.first, first, sizeof(spans.first))
    memcpy(spans.last, last, sizeof(spans.last))
    spans.single = single
    spans.count = <uint32_t>found.size
    # One after the other: the tokens, where the text of each ends, all texts.
    spans.tokens = <uint32_t*>malloc(2 * found.size * sizeof(uint32_t) + total + 1)
    if not complete or total >= NONE or spans.tokens == NULL:
        words_free(&found)
        free(spans.tokens)
        free(spans)
        return NULL
    total = 0
    for i in range(spans.count):
        token = found.at[i]
        at = pool.text_at[token]
        length = pool.text_at[token + 1] - at
        spans.tokens[i] = token
        memcpy(<uint8_t*>(spans.tokens + 2 * <size_t>spans.count) + total, pool.text + at, length)
        total += length
        spans.tokens[spans.count + i] = <uint32_t>total
    words_free(&found)
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
