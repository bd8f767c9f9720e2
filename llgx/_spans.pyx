# Only for other extension modules, which cimport it (_spans.pxd): no names for Python.
# cython: language_level=3, boundscheck=False, wraparound=False
# cython: initializedcheck=False, cdivision=True
"""Tokens that may hold a whole lexeme, by what such a lexeme begins and ends with.

For two sets of bytes the list of text tokens in which a byte of the first is followed by one of the
second, or is one of it too where a lexeme may have one byte. For JSON strings in Llama 3 that are a
few hundred of 128,256 tokens. A list depends on the vocabulary and the key alone and is kept with
the vocabulary, for all grammars.

The lexemes that the tokens of a list of at most ``LONG_SPANS`` may hold are known too, as a set of
texts: a few dozen, since tokens with two quotes are punctuation. A sibling that is none of them is
in no token as a whole. Then a token can only repeat what ends in it itself, and such tokens are
lists as well (``repeats``).

Cost: a union of bitsets of the vocabulary (``_classes``), and a search through the tokens in it
where the two sets differ: 0.2 ms for a quote, up to 0.8 ms for letters, once per vocabulary and
key.
"""

from libc.stdint cimport uint32_t, uint64_t, uint8_t
from libc.stdlib cimport calloc, free, malloc, qsort
from libc.string cimport memcmp, memcpy, memset

from cpython.pythread cimport WAIT_LOCK, PyThread_acquire_lock, PyThread_release_lock

from llgx._memory cimport NONE, Words, lowest_bit, words_free, words_push
from llgx._texts cimport NO_TEXTS, texts_free, texts_init, texts_insert
from llgx._trie cimport Spans, TablePool, tokens_with

cdef enum:
    MOST_HELD = 4096     # lexemes in the tokens of a list up to which they are listed


cdef inline bint _has(const uint32_t* bytes, uint32_t byte) noexcept nogil:
    return (bytes[byte >> 5] >> (byte & 31)) & 1


cdef uint64_t* _holders(const TablePool* pool, const uint32_t* bytes) noexcept nogil:
    """The text tokens with some byte of a set, or more, as a bitset to be freed; NULL when memory
    is out."""
    cdef uint64_t* bits = <uint64_t*>calloc(pool.words + 1, sizeof(uint64_t))
    cdef const uint64_t* holding
    cdef uint32_t byte, i, token
    if bits == NULL:
        return NULL
    if pool.classes == NULL or bytes[4] | bytes[5] | bytes[6] | bytes[7]:
        for i in range(pool.trie.token_count):
            token = pool.trie.tokens[i]
            bits[token >> 6] |= <uint64_t>1 << (token & 63)
        if pool.classes == NULL:
            return bits
        for i in range(pool.words):
            bits[i] &= ~pool.classes.ascii[i]
    for byte in range(128):
        if _has(bytes, byte):
            holding = tokens_with(pool.classes, <uint8_t>byte)
            for i in range(pool.words):
                bits[i] |= holding[i]
    return bits


cdef bint _find(const TablePool* pool, Spans* spans) noexcept nogil:
    """Find out which tokens may hold a lexeme. False when memory is out."""
    cdef uint64_t* bits = _holders(pool, spans.last)
    cdef uint64_t* begun = _holders(pool, spans.first)
    cdef uint64_t* sure = NULL
    cdef uint32_t both[8]
    cdef uint32_t i, token
    cdef uint64_t at, left
    for i in range(8):
        both[i] = spans.first[i] & spans.last[i] if i < 4 and spans.single else 0
    if pool.classes != NULL:
        sure = _holders(pool, both)  # a byte of ASCII that is in both sets is enough
    if bits == NULL or begun == NULL or (sure == NULL and pool.classes != NULL):
        free(bits)
        free(begun)
        free(sure)
        return False
    # In the order of their texts in memory.
    for i in range(pool.words):
        bits[i] &= begun[i]
        left = bits[i] if sure == NULL else bits[i] & ~sure[i]
        while left:
            token = 64 * i + lowest_bit(left)
            left &= left - 1
            at = pool.text_at[token]
            if spans_latest(spans, pool.text + at, <uint32_t>(pool.text_at[token + 1] - at)) < 0:
                bits[i] &= ~(<uint64_t>1 << (token & 63))
    free(begun)
    free(sure)
    spans.bits = bits
    return True


cdef bint _list_tokens(const TablePool* pool, Spans* spans) noexcept nogil:
    """List the tokens if they are few, in the order of the trie. False when memory is out."""
    cdef Words found
    cdef uint32_t i, token
    cdef uint64_t left
    cdef bint complete = True
    for i in range(pool.words):
        left = spans.bits[i]
        while left and spans.count <= LONG_SPANS:
            left &= left - 1
            spans.count += 1
    if spans.count > LONG_SPANS:
        return True
    memset(&found, 0, sizeof(Words))
    for i in range(pool.trie.token_count):
        token = pool.trie.tokens[i]
        if (spans.bits[token >> 6] >> (token & 63)) & 1 and words_push(&found, token) < 0:
            complete = False
    complete = complete and found.size == spans.count \
        and _keep(pool, found.at, found.size, &spans.tokens)
    words_free(&found)
    return complete


cdef struct Tail:
    const uint8_t* at
    uint32_t length


cdef int _compare_tails(const void* left, const void* right) noexcept nogil:
    cdef const Tail* one = <const Tail*>left
    cdef const Tail* other = <const Tail*>right
    cdef uint32_t shorter = one.length if one.length < other.length else other.length
    cdef int order = memcmp(one.at, other.at, shorter)
    if order:
        return order
    return (one.length > other.length) - (one.length < other.length)


cdef bint _list_tails(const TablePool* pool, Spans* spans) noexcept nogil:
    """List what comes after a byte of ``last`` in a list of tokens. False when memory is out."""
    cdef Tail* tails
    cdef uint32_t i, j, length, pass_, count = 0
    cdef uint64_t total = 0
    cdef const uint8_t* text
    tails = NULL
    for pass_ in range(2):
        count = 0
        for i in range(spans.count):
            text = spans_text(spans.tokens + spans.count, spans.count, i, &length)
            for j in range(length):
                if not spans.kinds[text[j]] & SPAN_LAST or j + 1 == length:
                    continue
                if pass_:
                    tails[count].at = text + j + 1
                    tails[count].length = length - j - 1
                count += 1
        if pass_ == 0:
            if count > MOST_HELD:
                return True  # more than are looked at
            tails = <Tail*>malloc((count + 1) * sizeof(Tail))
            if tails == NULL:
                return False
    qsort(tails, count, sizeof(Tail), &_compare_tails)
    j = 0
    for i in range(count):
        if i == 0 or _compare_tails(&tails[j - 1], &tails[i]):
            tails[j] = tails[i]
            total += tails[j].length
            j += 1
    spans.tails = <uint32_t*>malloc(j * sizeof(uint32_t) + total + 1)
    if spans.tails != NULL:
        spans.tail_count = j
        total = 0
        for i in range(j):
            memcpy(<uint8_t*>(spans.tails + j) + total, tails[i].at, tails[i].length)
            total += tails[i].length
            spans.tails[i] = <uint32_t>total
    free(tails)
    return spans.tails != NULL


cdef bint _keep(
    const TablePool* pool, const uint32_t* tokens, size_t count, uint32_t** kept
) noexcept nogil:
    """Keep a list: the tokens, where the text of each ends, all texts. False when memory is out."""
    cdef uint64_t at, length, total = 0
    cdef size_t i
    for i in range(count):
        total += pool.text_at[tokens[i] + 1] - pool.text_at[tokens[i]]
    if total >= NONE:
        return False
    kept[0] = <uint32_t*>malloc(2 * count * sizeof(uint32_t) + total + 1)
    if kept[0] == NULL:
        return False
    total = 0
    for i in range(count):
        at = pool.text_at[tokens[i]]
        length = pool.text_at[tokens[i] + 1] - at
        kept[0][i] = tokens[i]
        memcpy(<uint8_t*>(kept[0] + 2 * count) + total, pool.text + at, length)
        total += length
        kept[0][count + i] = <uint32_t>total
    return True


cdef bint _repeats(
    const uint8_t* text, uint32_t length, const uint8_t* part, uint32_t size
) noexcept nogil:
    """Whether ``part`` is in ``text``."""
    cdef uint32_t i
    for i in range(length):
        if i + size <= length and memcmp(text + i, part, size) == 0:
            return True
    return False


cdef bint _note_held(
    Spans* spans, uint32_t token, const uint8_t* text, uint32_t length, Words* alone, Words* after
) noexcept nogil:
    """Add the lexemes that a token may hold to ``held``, and the token to ``alone`` if two of them
    are equal, to ``after`` if it may hold one behind the end of another. False when memory is out
    or they are too many."""
    cdef uint32_t i, j, count = 0
    cdef bint twice = False, behind = False
    for i in range(length):
        if spans.kinds[text[i]] & SPAN_LAST and not behind:
            behind = spans_latest(spans, text + i + 1, length - i - 1) >= 0
        if not spans.kinds[text[i]] & SPAN_FIRST:
            continue
        for j in range(i if spans.single else i + 1, length):
            if not spans.kinds[text[j]] & SPAN_LAST:
                continue
            count += 1
            spans.held_texts = texts_insert(
                &spans.held, spans.held_texts, text + i, j + 1 - i
            )
            if spans.held_texts == NONE or count > MOST_HELD:
                return False
            twice = twice or _repeats(text + j + 1, length - j - 1, text + i, j + 1 - i)
    return (not twice or words_push(alone, token) == 0) \
        and (not behind or words_push(after, token) == 0)


cdef bint _list_held(const TablePool* pool, Spans* spans) noexcept nogil:
    """Find out which lexemes the tokens of a list may hold. False when memory is out, or if that is
    not to be known."""
    cdef Words found[2]
    cdef uint32_t i, token, total = 0
    cdef uint64_t at
    cdef bint complete = texts_init(&spans.held) == 0
    memset(found, 0, sizeof(found))
    spans.held_texts = NO_TEXTS
    for i in range(spans.count):
        token = spans.tokens[i]
        at = pool.text_at[token]
        complete = complete and spans.held.nodes.count <= MOST_HELD and _note_held(
            spans, token, pool.text + at, <uint32_t>(pool.text_at[token + 1] - at), &found[0],
            &found[1]
        )
    for i in range(2):
        complete = complete and _keep(pool, found[i].at, found[i].size, &spans.repeats[i])
        spans.repeat_counts[i] = <uint32_t>found[i].size
        words_free(&found[i])
    return complete


cdef void spans_free(Spans* spans) noexcept nogil:
    """Free one list."""
    if spans == NULL:
        return
    free(spans.bits)
    free(spans.tokens)
    free(spans.tails)
    free(spans.repeats[0])
    free(spans.repeats[1])
    texts_free(&spans.held)
    free(spans)


cdef Spans* _build(
    const TablePool* pool, const uint32_t* first, const uint32_t* last, bint single
) noexcept nogil:
    cdef Spans* spans = <Spans*>calloc(1, sizeof(Spans))
    cdef uint32_t i
    if spans == NULL:
        return NULL
    memcpy(spans.first, first, sizeof(spans.first))
    memcpy(spans.last, last, sizeof(spans.last))
    for i in range(256):
        spans.kinds[i] = (SPAN_FIRST if _has(first, i) else 0) | (SPAN_LAST if _has(last, i) else 0)
    spans.single = single
    if not _find(pool, spans) or not _list_tokens(pool, spans):
        spans_free(spans)
        return NULL
    if spans.count <= LONG_SPANS:
        spans.knows = _list_held(pool, spans)
        if single and not _list_tails(pool, spans):
            spans_free(spans)
            return NULL
    return spans


cdef const Spans* spans_of(
    TablePool* pool, const uint32_t* first, const uint32_t* last, bint single
) noexcept nogil:
    """The tokens that may hold a lexeme whose first and last byte are in these sets (of 8 words);
    ``single`` if it may be one byte. NULL when memory is out."""
    cdef Spans* spans
    cdef Spans** link = &pool.spans
    PyThread_acquire_lock(pool.lock, WAIT_LOCK)
    while link[0] != NULL:
        spans = link[0]
        if spans.single == single and memcmp(spans.first, first, sizeof(spans.first)) == 0 \
                and memcmp(spans.last, last, sizeof(spans.last)) == 0:
            break
        link = &spans.next
    spans = link[0]
    if spans != NULL:
        # To the front: nearly all grammars ask for the same few.
        link[0] = spans.next
        spans.next = pool.spans
        pool.spans = spans
    else:
        spans = _build(pool, first, last, single)
        if spans != NULL:
            spans.next = pool.spans
            pool.spans = spans
    PyThread_release_lock(pool.lock)
    return spans
