# cython: language_level=3, boundscheck=False, wraparound=False
# cython: initializedcheck=False, cdivision=True
"""Sets of byte strings that never change: a set with one more string is a new set.

A set is a node of a hash-consed trie, so equal sets are one id, whatever the order in which their
strings came. A node is a *tail*, the rest of the only string below it, or a *branch*. Adding a
string copies the branches on its way and no more: a set of n keys that all differ in their first
bytes costs a few hundred bytes more than the one before it.

Invariant: a branch holds two strings or more, or the empty one; a tail is not empty.

Cost: looking a string up is linear in it; adding one is linear in what it shares with others, times
the branches there.
"""

from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcpy, memset

from llgx._memory cimport (
    NONE, interner_free, interner_put, words_free, words_push, words_reserve,
)

# A node is [TAIL, length, bytes, four a word...] or
# [BRANCH, whether it holds the empty string, (byte, node) sorted by byte...].
cdef enum:
    BRANCH = 0
    TAIL = 1


cdef int texts_init(Texts* self) noexcept nogil:
    """No sets but ``NO_TEXTS``; -1 when memory is out."""
    cdef uint32_t words[2]
    memset(self, 0, sizeof(Texts))
    words[0] = BRANCH
    words[1] = 0
    return 0 if interner_put(&self.nodes, words, 2) == NO_TEXTS else -1


cdef void texts_free(Texts* self) noexcept nogil:
    interner_free(&self.nodes)
    words_free(&self.path)
    words_free(&self.made)


cdef texts_t _tail(Texts* self, const uint8_t* data, uint32_t length) noexcept nogil:
    """The set of this one string; NONE when memory is out."""
    cdef size_t words = (<size_t>length + 3) // 4
    self.made.size = 0
    if words_reserve(&self.made, words + 2) < 0:
        return NONE
    if length == 0:
        self.made.at[0] = BRANCH
        self.made.at[1] = 1
        return interner_put(&self.nodes, self.made.at, 2)
    self.made.at[0] = TAIL
    self.made.at[1] = length
    self.made.at[1 + words] = 0  # the last bytes may not fill their word
    memcpy(self.made.at + 2, data, length)
    return interner_put(&self.nodes, self.made.at, <uint32_t>(words + 2))


cdef texts_t _branch(
    Texts* self, texts_t source, bint empty, uint32_t byte, texts_t child
) noexcept nogil:
    """``source``, a branch or NONE, with one child set, and the empty string if ``empty``."""
    cdef const uint32_t* words = NULL
    cdef uint32_t length = 2, i
    cdef bint put = byte == NONE
    self.made.size = 0
    if source != NONE:
        words = self.nodes.entries[source].words
        length = self.nodes.entries[source].length
        empty = empty or words[1]
    if words_reserve(&self.made, length + 2) < 0:
        return NONE
    words_push(&self.made, BRANCH)
    words_push(&self.made, empty)
    for i in range(2, length, 2):
        if not put and words[i] >= byte:
            words_push(&self.made, byte)
            words_push(&self.made, child)
            put = True
            if words[i] == byte:
                continue
        words_push(&self.made, words[i])
        words_push(&self.made, words[i + 1])
    if not put:
        words_push(&self.made, byte)
        words_push(&self.made, child)
    return interner_put(&self.nodes, self.made.at, <uint32_t>self.made.size)


cdef texts_t _child(const Texts* self, texts_t node, uint32_t byte) noexcept nogil:
    """The child of a branch for ``byte``, or NONE."""
    cdef const uint32_t* words = self.nodes.entries[node].words
    cdef uint32_t low = 0, high = (self.nodes.entries[node].length - 2) // 2, middle
    cdef uint32_t count = high
    while low < high:
        middle = (low + high) >> 1
        if words[2 + 2 * middle] < byte:
            low = middle + 1
        else:
            high = middle
    return words[3 + 2 * low] if low < count and words[2 + 2 * low] == byte else NONE


cdef texts_t texts_insert(
    Texts* self, texts_t texts, const uint8_t* data, uint32_t length
) noexcept nogil:
    """``texts`` with one string more (or as it is, if that is in it); NONE when memory is out."""
    cdef texts_t node = texts, child, made
    cdef uint32_t at = 0, common, rest
    cdef const uint32_t* words
    cdef const uint8_t* text
    if texts == NO_TEXTS:
        return _tail(self, data, length)
    self.path.size = 0
    while True:
        words = self.nodes.entries[node].words
        if words[0] == TAIL:
            text = <const uint8_t*>(words + 2)
            rest = words[1]
            common = 0
            while common < rest and at + common < length and text[common] == data[at + common]:
                common += 1
            if common == rest and at + common == length:
                return texts
            # A branch where they part, and single branches down to it.
            made = _branch(self, NONE, common == rest or at + common == length, NONE, NONE)
            if made != NONE and common < rest:
                child = _tail(self, text + common + 1, rest - common - 1)
                made = _branch(self, made, False, text[common], child) if child != NONE else NONE
            if made != NONE and at + common < length:
                child = _tail(self, data + at + common + 1, length - at - common - 1)
                if child != NONE:
                    made = _branch(self, made, False, data[at + common], child)
                else:
                    made = NONE
            while made != NONE and common > 0:
                common -= 1
                made = _branch(self, NONE, False, text[common], made)
            break
        if at == length:
            if words[1]:
                return texts
            made = _branch(self, node, True, NONE, NONE)
            break
        child = _child(self, node, data[at])
        if child == NONE:
            child = _tail(self, data + at + 1, length - at - 1)
            made = _branch(self, node, False, data[at], child) if child != NONE else NONE
            break
        if words_push(&self.path, node) < 0:
            return NONE
        node = child
        at += 1
    while made != NONE and self.path.size > 0:
        self.path.size -= 1
        made = _branch(
            self, self.path.at[self.path.size], False, data[self.path.size], made
        )
    return made


cdef bint texts_step(const Texts* self, TextCursor* cursor, uint8_t byte) noexcept nogil:
    """Read one byte; whether any string of the set begins so."""
    cdef const uint32_t* words
    if cursor.node == NONE:
        return False
    words = self.nodes.entries[cursor.node].words
    if words[0] == BRANCH:
        cursor.node = _child(self, cursor.node, byte)
    elif cursor.offset < words[1] and (<const uint8_t*>(words + 2))[cursor.offset] == byte:
        cursor.offset += 1
    else:
        cursor.node = NONE
    return cursor.node != NONE


cdef bint texts_final(const Texts* self, const TextCursor* cursor) noexcept nogil:
    """Whether what was read is a string of the set."""
    cdef const uint32_t* words
    if cursor.node == NONE:
        return False
    words = self.nodes.entries[cursor.node].words
    return words[1] != 0 if words[0] == BRANCH else cursor.offset == words[1]


cdef uint32_t texts_branches(
    const Texts* self, const TextCursor* cursor, uint8_t* bytes
) noexcept nogil:
    """The bytes (up to 256, rising) that some string goes on with, and how many there are."""
    cdef const uint32_t* words
    cdef uint32_t i, count = 0
    if cursor.node == NONE:
        return 0
    words = self.nodes.entries[cursor.node].words
    if words[0] == TAIL:
        if cursor.offset == words[1]:
            return 0
        bytes[0] = (<const uint8_t*>(words + 2))[cursor.offset]
        return 1
    for i in range(2, self.nodes.entries[cursor.node].length, 2):
        bytes[count] = <uint8_t>words[i]
        count += 1
    return count


cdef int texts_meet(Texts* self, texts_t one, texts_t other) noexcept nogil:
    """1 if some string is in both sets, 0 if none is, -1 when memory is out.

    Linear in the bytes that strings of both begin with.
    """
    cdef TextCursor left, right, left_after, right_after
    cdef uint8_t bytes[256]
    cdef uint32_t i, count
    if one == NO_TEXTS or other == NO_TEXTS:
        return 0
    self.path.size = 0
    left = texts_begin(one)
    right = texts_begin(other)
    while True:
        if texts_final(self, &left) and texts_final(self, &right):
            return 1
        count = texts_branches(self, &left, bytes)
        for i in range(count):
            right_after = right
            if not texts_step(self, &right_after, bytes[i]):
                continue
            left_after = left
            texts_step(self, &left_after, bytes[i])
            if words_push(&self.path, left_after.node) < 0 \
                    or words_push(&self.path, left_after.offset) < 0 \
                    or words_push(&self.path, right_after.node) < 0 \
                    or words_push(&self.path, right_after.offset) < 0:
                return -1
        if self.path.size == 0:
            return 0
        self.path.size -= 4
        left.node = self.path.at[self.path.size]
        left.offset = self.path.at[self.path.size + 1]
        right.node = self.path.at[self.path.size + 2]
        right.offset = self.path.at[self.path.size + 3]
