# cython: language_level=3, boundscheck=False, wraparound=False
# cython: initializedcheck=False, cdivision=True
"""What is left of a regex, compared with finite sets of strings.

A distinct lexeme has to differ from its finished siblings, of which there are finitely many. So the
question is whether what is left of its terminal has a string beyond them. Where everything that can
be left of a terminal is infinite until it is complete, as in a JSON string, the answer is yes
without asking (:c:func:`residual_is_endless`, decided by the shape, in doubt no); else it is
decided exactly (:c:func:`residual_is_within`), by derivatives along the siblings' texts.

Cost: the shape once per terminal, linear; the exact answer stops at the first derivative that no
sibling goes along with, and takes at most one per byte of the siblings.
"""

from libc.stdint cimport uint32_t, uint64_t, uint8_t
from libc.string cimport memset

from llgx._emptiness cimport regex_is_live
from llgx._memory cimport FAULT_MEMORY, NONE, Words, fault_set, lowest_bit, words_free, words_push
from llgx._regex cimport (
    ALT_KIND, AND_KIND, BYTES_KIND, CONCAT_KIND, EMPTY, EPSILON_KIND, HARD, LITERAL_KIND, NOT_KIND,
    REMAINDER_KIND, REPEAT_KIND, SPELL_INTEGER, SPELL_MASK, Regex, class_is_in, node_t,
    regex_derive, regex_first, regex_nullable, regex_words,
)
from llgx._texts cimport TextCursor, Texts, texts_branches, texts_final, texts_step

cdef enum:
    DEEPEST = 200        # levels that the shape is looked at


cdef node_t _plain_part(const Regex* rx, node_t node) noexcept nogil:
    """The one part of an intersection that is no complement of a finite set, or NONE."""
    cdef const uint32_t* words = regex_words(rx, node)
    cdef node_t found = NONE
    cdef uint32_t i
    for i in range(1, rx.nodes.entries[node].length):
        if rx.info[words[i]].kind == NOT_KIND \
                and _is_finite(rx, regex_words(rx, words[i])[1], 0):
            continue
        if found != NONE:
            return NONE
        found = words[i]
    return found


cdef bint _is_finite(const Regex* rx, node_t node, uint32_t depth) noexcept nogil:
    """Whether the shape shows that ``node`` matches finitely many strings."""
    cdef const uint32_t* words = regex_words(rx, node)
    cdef uint32_t i, kind = words[0]
    if depth > DEEPEST:
        return False
    if kind <= LITERAL_KIND:
        return True
    if kind == CONCAT_KIND:
        while words[0] == CONCAT_KIND:
            if not _is_finite(rx, words[1], depth + 1):
                return False
            node = words[2]
            words = regex_words(rx, node)
        return _is_finite(rx, node, depth + 1)
    if kind == ALT_KIND:
        for i in range(1, rx.nodes.entries[node].length):
            if not _is_finite(rx, words[i], depth + 1):
                return False
        return True
    return kind == REPEAT_KIND and words[3] != NONE and _is_finite(rx, words[1], depth + 1)


cdef inline bint _is_open_remainder(const uint32_t* words) noexcept nogil:
    """Whether a remainder is of integers without bound, so that digits can always follow."""
    return words[0] == REMAINDER_KIND and words[6] == NONE \
        and words[8] & SPELL_MASK == SPELL_INTEGER


cdef bint residual_is_finite(const Regex* rx, node_t node) noexcept nogil:
    """Whether the shape shows that ``node`` matches finitely many strings."""
    return _is_finite(rx, node, 0)


cdef bint _is_infinite(const Regex* rx, node_t node, uint32_t depth) noexcept nogil:
    """Whether the shape shows that ``node`` matches infinitely many strings."""
    cdef const uint32_t* words = regex_words(rx, node)
    cdef uint32_t i, kind = words[0]
    if depth > DEEPEST:
        return False
    if kind == REPEAT_KIND:
        if rx.info[node].flags & HARD:
            return False
        return words[3] == NONE or _is_infinite(rx, words[1], depth + 1)
    if kind == CONCAT_KIND:
        while words[0] == CONCAT_KIND:
            if _is_infinite(rx, words[1], depth + 1):
                return True
            node = words[2]
            words = regex_words(rx, node)
        return _is_infinite(rx, node, depth + 1)
    if kind == ALT_KIND:
        for i in range(1, rx.nodes.entries[node].length):
            if _is_infinite(rx, words[i], depth + 1):
                return True
        return False
    if kind == AND_KIND:
        node = _plain_part(rx, node)
        return node != NONE and _is_infinite(rx, node, depth + 1)
    return _is_open_remainder(words)


cdef bint _goes_on(const Regex* rx, node_t node, uint32_t depth) noexcept nogil:
    """Whether every match of ``node`` can be continued in infinitely many ways."""
    cdef const uint32_t* words = regex_words(rx, node)
    cdef uint32_t i
    if depth > DEEPEST:
        return False
    while words[0] == CONCAT_KIND:
        node = words[2]
        words = regex_words(rx, node)
    if words[0] == REPEAT_KIND:
        return words[3] == NONE and not rx.info[node].flags & HARD
    if words[0] == ALT_KIND:
        for i in range(1, rx.nodes.entries[node].length):
            if not _goes_on(rx, words[i], depth + 1):
                return False
        return True
    if words[0] == AND_KIND:
        node = _plain_part(rx, node)
        return node != NONE and _goes_on(rx, node, depth + 1)
    return _is_open_remainder(words)


cdef bint _is_endless(
    const Regex* rx, node_t node, bint then_infinite, uint32_t depth
) noexcept nogil:
    """Whether all that can be left inside ``node``, with what follows it, is infinite."""
    cdef const uint32_t* words = regex_words(rx, node)
    cdef uint32_t i, kind = words[0]
    cdef bint after
    if depth > DEEPEST:
        return False
    if kind <= EPSILON_KIND or kind == BYTES_KIND:
        return True
    if kind == LITERAL_KIND:
        return then_infinite
    if kind == CONCAT_KIND:
        while words[0] == CONCAT_KIND:
            after = then_infinite or _is_infinite(rx, words[2], depth + 1)
            if not (after or _goes_on(rx, words[1], depth + 1)) \
                    or not _is_endless(rx, words[1], after, depth + 1):
                return False
            node = words[2]
            words = regex_words(rx, node)
        return _is_endless(rx, node, then_infinite, depth + 1)
    if kind == ALT_KIND:
        for i in range(1, rx.nodes.entries[node].length):
            if not _is_endless(rx, words[i], then_infinite, depth + 1):
                return False
        return True
    if kind == REPEAT_KIND:
        if words[3] == NONE:
            return not rx.info[node].flags & HARD and _is_endless(rx, words[1], True, depth + 1)
        if words[3] == 1:
            return _is_endless(rx, words[1], then_infinite, depth + 1)
        return then_infinite and _is_endless(rx, words[1], True, depth + 1)
    if kind == AND_KIND:
        node = _plain_part(rx, node)
        return node != NONE and _is_endless(rx, node, then_infinite, depth + 1)
    return _is_open_remainder(words)


cdef bint residual_is_endless(const Regex* rx, node_t node) noexcept nogil:
    """Whether the shape of ``node`` shows that it is infinite, and so is all that can be left of it
    until no byte can follow."""
    return _is_infinite(rx, node, 0) and _is_endless(rx, node, False, 0)


cdef inline node_t _live_derivative(Regex* rx, node_t node, uint32_t place) noexcept nogil:
    """What is left after a byte of a class; EMPTY if that matches nothing."""
    cdef node_t target = regex_derive(rx, node, place)
    if target != EMPTY and rx.info[target].flags & HARD and not regex_is_live(rx, target):
        return EMPTY
    return target


cdef bint _goes_elsewhere(
    Regex* rx, node_t node, const uint64_t* first, const uint32_t* taken
) noexcept nogil:
    """Whether some match begins with a class of which the sample is no byte of ``taken``."""
    cdef uint64_t left
    cdef uint32_t i, place, byte
    for i in range(4):
        left = first[i]
        while left:
            place = 64 * i + lowest_bit(left)
            left &= left - 1
            byte = rx.sample[place]
            if not (taken[byte >> 5] >> (byte & 31)) & 1 \
                    and _live_derivative(rx, node, place) != EMPTY:
                return True
    return False


cdef bint residual_is_within(
    Regex* rx, node_t node, const Texts* texts, TextCursor cursor
) noexcept nogil:
    """Whether every string that ``node`` matches leads from ``cursor`` to a string of the set."""
    cdef Words todo
    cdef TextCursor after
    cdef uint32_t taken[8]
    cdef uint8_t bytes[256]
    cdef uint32_t i, count, place, members
    cdef int j
    cdef node_t target
    cdef const uint64_t* first
    cdef bint within = True
    memset(&todo, 0, sizeof(Words))
    while within and not rx.fault.code:
        if regex_nullable(rx, node) and not texts_final(texts, &cursor):
            within = False
            break
        first = regex_first(rx, node)
        if first == NULL:
            break
        count = texts_branches(texts, &cursor, bytes)
        memset(taken, 0, sizeof(taken))
        for i in range(count):
            taken[bytes[i] >> 5] |= <uint32_t>1 << (bytes[i] & 31)
        # Most often one derivative answers: that by the first byte no sibling goes along with.
        if _goes_elsewhere(rx, node, first, taken):
            within = False
            break
        # What matches may begin with are classes that siblings have a byte of: have they all?
        for i in range(count):
            place = rx.classes[bytes[i]]
            if not class_is_in(first, place):
                continue
            target = _live_derivative(rx, node, place)
            if target == EMPTY:
                continue
            members = 0
            for j in range(256):
                members += rx.classes[j] == place
            for j in range(<int>count):
                members -= rx.classes[bytes[j]] == place
            after = cursor
            texts_step(texts, &after, bytes[i])
            if members:
                within = False
                break
            if words_push(&todo, target) < 0 or words_push(&todo, after.node) < 0 \
                    or words_push(&todo, after.offset) < 0:
                fault_set(rx.fault, FAULT_MEMORY)
                break
        if todo.size == 0:
            break
        todo.size -= 3
        node = todo.at[todo.size]
        cursor.node = todo.at[todo.size + 1]
        cursor.offset = todo.at[todo.size + 2]
    words_free(&todo)
    return within


cdef void residual_first(Regex* rx, node_t node, uint32_t* bits) noexcept nogil:
    """Add the bytes that a match may begin with to a set of 8 words. May set a fault."""
    cdef const uint64_t* first = regex_first(rx, node)
    cdef uint8_t found[256]
    cdef uint64_t left
    cdef uint32_t i, j, word, place
    if first == NULL:
        return
    memset(found, 0, sizeof(found))
    for i in range(4):
        left = first[i]
        while left:
            place = 64 * i + lowest_bit(left)
            left &= left - 1
            found[place] = regex_derive(rx, node, place) != EMPTY
    for i in range(8):
        word = 0
        for j in range(32):
            word |= <uint32_t>found[rx.classes[32 * i + j]] << j
        bits[i] |= word


cdef void residual_last(
    const Regex* rx, node_t node, uint32_t* bits, uint32_t depth
) noexcept nogil:
    """Add the bytes that a match may end with, or more, to a set of 8 words."""
    cdef const uint32_t* words = regex_words(rx, node)
    cdef uint32_t kind = words[0]
    cdef uint32_t i, byte
    cdef uint32_t part[8]
    if kind <= EPSILON_KIND:
        return
    if kind == BYTES_KIND:
        for i in range(8):
            bits[i] |= words[1 + i]
    elif kind == LITERAL_KIND:
        byte = rx.bytes[words[1] + words[2] - 1]
        bits[byte >> 5] |= <uint32_t>1 << (byte & 31)
    elif depth > DEEPEST or kind == NOT_KIND:
        for i in range(8):
            bits[i] = 0xFFFFFFFFu
    elif kind == CONCAT_KIND:
        while words[0] == CONCAT_KIND:
            if regex_nullable(rx, words[2]):
                residual_last(rx, words[1], bits, depth + 1)
            node = words[2]
            words = regex_words(rx, node)
        residual_last(rx, node, bits, depth + 1)
    elif kind == ALT_KIND:
        for i in range(1, rx.nodes.entries[node].length):
            residual_last(rx, words[i], bits, depth + 1)
    elif kind == AND_KIND:
        memset(part, 0, sizeof(part))
        node = _plain_part(rx, node)
        residual_last(rx, node if node != NONE else words[1], part, depth + 1)
        for i in range(8):
            bits[i] |= part[i]
    elif kind == REPEAT_KIND:
        residual_last(rx, words[1], bits, depth + 1)
    else:
        for i in range(8):
            bits[i] = 0xFFFFFFFFu
