# cython: language_level=3, boundscheck=False, wraparound=False
# cython: initializedcheck=False, cdivision=True
"""Byte classes: which bytes all regexes of a pool treat alike.

Invariant: two bytes of one class are in the same sets of bytes and in no literal, of all nodes
below ``Regex.classed``. Derivatives add no finer set, so classes are told apart once, when all
regexes are there. Where they are told apart further, a class keeps its number for the bytes that
stay in it: what is memoised by class remains right.

Cost: the nodes, and for each set of bytes as many steps as it has bytes.

One regex tells fewer bytes apart than all together do; :func:`regex_alike` says which ones it
treats alike.
"""

from libc.stdint cimport uint16_t, uint32_t, uint64_t, uint8_t
from libc.string cimport memcpy, memset

from llgx._memory cimport NONE, map_get, map_put, words_reserve
from llgx._regex cimport (
    ALT_KIND, ANY, BYTES_KIND, CONCAT_KIND, EPSILON_KIND, LITERAL_KIND, REMAINDER_KIND,
    REPEAT_KIND, Regex, class_is_in, node_t, regex_first, regex_nullable, regex_words,
)

cdef enum:
    MOST_LOOKS = 64      # at nodes that tell which classes a regex treats alike


cdef inline bint _has(const uint32_t* bits, uint32_t byte) noexcept nogil:
    return (bits[byte >> 5] >> (byte & 31)) & 1


cdef inline bint _is_single(const uint32_t* bits) noexcept nogil:
    """Whether a set has at most one byte."""
    cdef uint32_t i
    cdef bint found = False
    for i in range(8):
        if bits[i]:
            if found or bits[i] & (bits[i] - 1):
                return False
            found = True
    return True


cdef inline void _split(Regex* rx, uint16_t* sizes, const uint32_t* bits) noexcept nogil:
    """Give the bytes of a set classes of their own, where others share their class."""
    cdef uint16_t inside[256]
    cdef uint16_t fresh[256]  # by old class: the new one, 0 before there is one
    cdef uint32_t byte, old
    memset(inside, 0, sizeof(inside))
    memset(fresh, 0, sizeof(fresh))
    for byte in range(256):
        if _has(bits, byte):
            inside[rx.classes[byte]] += 1
    for byte in range(256):
        if not _has(bits, byte):
            continue
        old = rx.classes[byte]
        if fresh[old] == 0:
            if inside[old] == sizes[old]:
                continue
            fresh[old] = <uint16_t>rx.class_count
            sizes[old] -= inside[old]
            sizes[rx.class_count] = inside[old]
            rx.class_count += 1
        rx.classes[byte] = <uint8_t>fresh[old]


cdef void regex_freeze_classes(Regex* rx) noexcept nogil:
    """Partition the bytes by the sets and literals built so far, further than before."""
    cdef uint32_t i, byte, left
    cdef node_t node
    cdef const uint32_t* words
    cdef uint16_t sizes[257]
    cdef uint32_t alone[8]
    memset(sizes, 0, sizeof(sizes))
    memset(alone, 0, sizeof(alone))
    if rx.class_count == 0:
        memset(rx.classes, 0, 256)
        rx.class_count = 1
    for byte in range(256):
        sizes[rx.classes[byte]] += 1
    for node in range(rx.classed, rx.nodes.count):
        words = regex_words(rx, node)
        if words[0] == LITERAL_KIND:
            for i in range(words[2]):
                byte = rx.bytes[words[1] + i]
                alone[byte >> 5] |= <uint32_t>1 << (byte & 31)
        elif words[0] == REMAINDER_KIND:
            alone[1] |= <uint32_t>0x3FF4000  # the digits and the point: 0x30 to 0x39 and 0x2E
        elif words[0] == BYTES_KIND and node != ANY:
            if _is_single(words + 1):
                for i in range(8):
                    alone[i] |= words[1 + i]
            else:
                _split(rx, sizes, words + 1)
    for i in range(8):
        left = alone[i]
        byte = 32 * i
        while left:
            if left & 1 and sizes[rx.classes[byte]] > 1:
                sizes[rx.classes[byte]] -= 1
                rx.classes[byte] = <uint8_t>rx.class_count
                sizes[rx.class_count] = 1
                rx.class_count += 1
            left >>= 1
            byte += 1
    rx.classed = rx.nodes.count
    for byte in range(256):
        rx.sample[rx.classes[byte]] = <uint8_t>byte


cdef bint _narrow(
    Regex* rx, node_t node, uint32_t byte_class, uint64_t* alike, uint32_t* looks
) noexcept nogil:
    """Take the classes out of ``alike`` by which ``node`` may derive otherwise; False where that
    cannot be told, took too many looks, or left none."""
    cdef const uint32_t* words = regex_words(rx, node)
    cdef uint32_t kind = words[0], i, length = rx.nodes.entries[node].length
    cdef const uint64_t* first
    cdef uint64_t without
    cdef uint32_t others = 0
    looks[0] += 1
    if looks[0] > MOST_LOOKS or kind == REMAINDER_KIND:
        return False
    if kind <= EPSILON_KIND:
        return True
    if kind == BYTES_KIND or kind == LITERAL_KIND:
        first = regex_first(rx, node)
        if first == NULL:
            return False
        without = <uint64_t>class_is_in(first, byte_class) - 1
        for i in range(4):
            alike[i] &= first[i] ^ without
            others += alike[i] != 0
            others += (alike[i] & (alike[i] - 1)) != 0
        return others > 1
    if kind == REPEAT_KIND and rx.info[words[1]].kind == ALT_KIND:
        return _narrow_body(rx, words[1], byte_class, alike)
    if kind == REPEAT_KIND or (kind == CONCAT_KIND and not regex_nullable(rx, words[1])):
        length = 2
    for i in range(1, length):
        if not _narrow(rx, words[i], byte_class, alike, looks):
            return False
    return True


cdef bint _narrow_body(
    Regex* rx, node_t node, uint32_t byte_class, uint64_t* alike
) noexcept nogil:
    """``_narrow`` by what is repeated, kept: the characters of strings, which nearly all states
    have in them, begin in ten ways."""
    cdef uint32_t known = map_get(&rx.alike, node, byte_class)
    cdef uint32_t i, looks = 0, others = 0
    cdef uint64_t own[4]
    if known == NONE:
        memset(own, 0xFF, sizeof(own))
        if not _narrow(rx, node, byte_class, own, &looks):
            memset(own, 0, sizeof(own))
            own[byte_class >> 6] = <uint64_t>1 << (byte_class & 63)
        known = <uint32_t>rx.alikes.size
        if words_reserve(&rx.alikes, 8) < 0:
            return False
        memcpy(rx.alikes.at + known, own, sizeof(own))
        rx.alikes.size += 8
        if map_put(&rx.alike, node, byte_class, known) < 0:
            return False
    memcpy(own, rx.alikes.at + known, sizeof(own))
    for i in range(4):
        alike[i] &= own[i]
        others += alike[i] != 0
        others += (alike[i] & (alike[i] - 1)) != 0
    return others > 1


cdef void regex_alike(
    Regex* rx, node_t node, uint32_t byte_class, uint64_t* alike
) noexcept nogil:
    """Leave those byte classes in ``alike`` (4 words, ``byte_class`` among them) by which ``node``
    has the derivative that it has by this one.

    What letters of some other name tell apart is one class here: these are the classes of Owens,
    Reppy and Turon, "Regular-expression derivatives re-examined" (2009), section 4.2, asked for one
    byte. Where a regex begins in very many ways, the class is left alone.
    """
    cdef uint32_t i, looks = 0
    if not _narrow(rx, node, byte_class, alike, &looks):
        for i in range(4):
            alike[i] = 0
        alike[byte_class >> 6] = <uint64_t>1 << (byte_class & 63)
