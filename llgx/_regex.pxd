# cython: language_level=3
"""Layout of the regex pool; see ``_regex.pyx``."""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from llgx._memory cimport NONE, Arena, Fault, Interner, Map, Words

ctypedef uint32_t node_t

cdef enum Kind:
    EMPTY_KIND = 0       # no string at all                  [kind]
    EPSILON_KIND = 1     # the empty string                  [kind]
    BYTES_KIND = 2       # one byte of a set                 [kind, 8 words of bits]
    LITERAL_KIND = 3     # two bytes or more                 [kind, offset, length]
    CONCAT_KIND = 4      # one after the other               [kind, head, tail]
    ALT_KIND = 5         # any                               [kind, sorted nodes...]
    AND_KIND = 6         # all                               [kind, sorted nodes...]
    NOT_KIND = 7         # none of                           [kind, node]
    REPEAT_KIND = 8      # low to high times, NONE: no bound [kind, node, low, high]
    REMAINDER_KIND = 9   # digits of a multiple of a modulus, see ``ir.Remainder``
                         # [kind, modulus, its high word, residue, its high word, low, high,
                         #  places, Part and Spelling]

cdef enum NodeFlag:
    NULLABLE = 1         # matches the empty string
    HARD = 2             # holds AND or NOT: may be empty without looking so
    LIVE_KNOWN = 4
    LIVE = 8             # matches some string
    EXTENDABLE_KNOWN = 16
    EXTENDABLE = 32      # matches some string that is not empty
    COUNTED = 64         # holds a counter that a token cannot count to its end
    COUNTED_FAR = 128    # or that none but the longest tokens can

cdef enum Part:          # where in a number a remainder is
    PART_INTEGER = 0     # before the point
    PART_POINT = 1       # after the point, where the number cannot end
    PART_FRACTION = 2    # after the point, where it can
    PART_MASK = 3

cdef enum Spelling:      # what may follow the integer digits
    SPELL_INTEGER = 4    # nothing
    SPELL_ZEROS = 8      # a fraction that may end in zeros
    SPELL_SHORTEST = 12  # a fraction that may not
    SPELL_MASK = 12

cdef enum:
    LEVELS = 6           # of lengths at which the longest tokens are set apart
    LONGEST_LEAST = 0x3FFFFFFF

cdef enum:
    EMPTY = 0            # node ids of the constants
    EPSILON = 1
    ANY = 2              # one byte of any value
    ALL = 3              # every byte string

cdef struct NodeInfo:
    uint8_t kind
    uint8_t flags
    uint16_t depth       # levels of recursion that a derivative takes
    uint32_t shared      # id of its content in the vocabulary's pool; UNKNOWN: not asked
    uint32_t least       # no match is shorter; at most LONGEST_LEAST
    uint32_t digest      # hash of its content, the same in every grammar; 0: not asked
    const uint64_t* first  # 4 words, bit c: a match may begin with byte class c; NULL: not asked

cdef struct Regex:
    Interner nodes       # contents as shown in Kind
    NodeInfo* info       # by node id
    uint32_t info_room
    uint8_t* bytes       # text of all literals
    uint32_t bytes_size
    uint32_t bytes_room
    Map derivatives      # (node, byte class) -> node
    Arena sets           # what ``NodeInfo.first`` points to
    Map saturated        # (bytes of tokens, node) -> what ``regex_saturate`` made of it
    Map lengths          # (what is asked, node) -> its answer, see ``_saturation.pyx``
    Map alike            # (node, byte class) -> where ``alikes`` has what ``regex_alike`` says
    Words alikes         # 8 words each
    Map nonempty         # node -> what ``regex_nonempty`` made of it, where that took work
    Words stack          # scratch of the constructors
    uint8_t classes[256] # byte -> class; bytes of one class behave alike in every node
    uint8_t sample[256]  # class -> one of its bytes
    uint32_t class_count
    uint32_t classed       # nodes whose bytes the classes tell apart: those with a lesser id
    uint32_t node_limit
    uint32_t depth_limit
    uint32_t step_limit  # of one emptiness check
    uint32_t live_steps  # of the check under way, and how deep it asks for others
    uint32_t live_depth
    uint32_t saturation  # bytes that no token is longer than; set before nodes are made
    uint32_t levels[LEVELS]  # bytes that few tokens are longer than, rising; set likewise
    uint32_t level_count
    bint through_and     # counters beside an intersection's other parts are saturated too
    const uint8_t* text  # bytes of all tokens, one after the other; NULL: not known
    const uint64_t* text_at  # by token, and one more
    const uint32_t* long_tokens  # those longer than any other token, falling
    uint32_t long_count
    uint32_t long_rest   # bytes that no other token is longer than
    Fault* fault         # where trouble is reported; not owned

cdef int regex_init(Regex* rx, Fault* fault) noexcept nogil
cdef void regex_clear(Regex* rx) noexcept nogil
cdef void regex_free(Regex* rx) noexcept nogil
cdef node_t regex_bytes(Regex* rx, const uint32_t* bits) noexcept nogil
cdef node_t regex_literal(Regex* rx, const uint8_t* data, uint32_t length) noexcept nogil
cdef node_t regex_concat(Regex* rx, node_t head, node_t tail) noexcept nogil
cdef node_t regex_alt(Regex* rx, size_t base) noexcept nogil
cdef node_t regex_and(Regex* rx, size_t base) noexcept nogil
cdef node_t regex_not(Regex* rx, node_t node) noexcept nogil
cdef node_t regex_repeat(Regex* rx, node_t node, uint32_t low, uint32_t high) noexcept nogil
cdef node_t regex_remainder(
    Regex* rx, uint64_t modulus, uint64_t residue, uint32_t low, uint32_t high, uint32_t places,
    uint32_t shape
) noexcept nogil
cdef node_t regex_nonempty(Regex* rx, node_t node) noexcept nogil
cdef const uint64_t* regex_first(Regex* rx, node_t node) noexcept nogil
cdef node_t regex_derive(Regex* rx, node_t node, uint32_t byte_class) noexcept nogil


cdef inline bint class_is_in(const uint64_t* classes, uint32_t place) noexcept nogil:
    """Whether a set of byte classes, 4 words of bits, has this one."""
    return (classes[place >> 6] >> (place & 63)) & 1


cdef inline bint regex_nullable(const Regex* rx, node_t node) noexcept nogil:
    return rx.info[node].flags & NULLABLE


cdef inline const uint32_t* regex_words(const Regex* rx, node_t node) noexcept nogil:
    return rx.nodes.entries[node].words


cdef inline bint counts_beyond(
    const Regex* rx, node_t body, uint32_t count, uint32_t most
) noexcept nogil:
    """Whether ``count`` times ``body`` is longer than ``most`` bytes, for certain."""
    cdef uint32_t least = rx.info[body].least
    return count != NONE and <uint64_t>count * (least if least else 1) > most


cdef inline bint regex_is_beyond(
    const Regex* rx, const uint32_t* words, uint32_t most
) noexcept nogil:
    """Whether a bound of a repeat (its ``words``) is out of reach within ``most`` bytes."""
    return counts_beyond(rx, words[1], words[2], most) \
        or counts_beyond(rx, words[1], words[3], most)
