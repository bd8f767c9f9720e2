# cython: language_level=3
"""Layout of the lexer; see ``_lexer.pyx``."""

from libc.stdint cimport int8_t, int16_t, uint8_t, uint32_t, uint64_t

from llgx._memory cimport NONE, UNKNOWN, Arena, Fault, Interner, Map, Words
from llgx._regex cimport Regex, node_t

ctypedef uint32_t terminal_t
ctypedef uint32_t state_t
ctypedef uint32_t set_t

cdef enum:
    DEAD = 0             # the state without terminals
    NO_SET = 0           # the emitted set without terminals
    NO_LOOP = 0xFFFFFFFE

cdef enum:
    FIRST_LEAD = 0xC2    # of the bytes that a character beyond ASCII may begin with
    LEAD_COUNT = 51

cdef struct LoopKey:
    uint64_t ascii[2]    # bit b: byte b leads from the state back to it
    uint64_t leads       # bit b: so do all characters that begin with byte FIRST_LEAD + b
    bint bytes           # every byte from 0x80 on does; then ``leads`` is 0

cdef struct Loop:
    LoopKey key
    state_t after        # where a byte that the loop does not take is read: the state itself, or
                         # for a counted loop what follows the repeat
    uint64_t splits[4]   # the bytes that are read neither as the loop's nor ``after`` it: where
                         # they are depends on the number of characters, see ``lexer_loop_at``
    bint split           # there are such bytes
    uint32_t low         # characters, the one that led here included, before the loop may be left
    uint32_t high        # characters, the one that led here included, that fit; NONE: no bound
    bint open_end        # after ``high`` characters the lexeme is complete, so that the grammar's
                         # next terminal may go on with a character of the loop

cdef struct State:
    state_t* row         # next state by byte class, UNKNOWN where not asked for yet; or NULL
    set_t eager          # set to emit on arrival, or NO_SET
    set_t accept         # set to emit when no byte goes on, or NO_SET
    state_t saturated    # the state that says the same of any one token; UNKNOWN: not asked for
    state_t brief        # of any token but those longer than a level; likewise
    uint32_t level       # the highest of which that is so
    state_t twin         # a simpler state that steps as this one does, but for the byte classes of
                         # ``apart``; NONE: there is none, UNKNOWN: not asked for
    const uint64_t* apart  # 4 words
    uint32_t loop        # index into loops, NONE: no loop, UNKNOWN: not asked for yet
    bint excluding       # the twin leaves complements out
    int16_t forced       # the one byte that can follow where that is plain to see, else -1

cdef enum:
    UTF8_STATES = 8      # see ``utf8_next``

cdef struct Characters:  # byte classes, by inner state of a character
    bint known
    uint64_t within[UTF8_STATES][4]   # those of some byte that may follow
    uint64_t beside[UTF8_STATES][4]   # those of some byte that may not

cdef struct Lexer:
    Regex rx
    Interner vectors     # state -> (terminal, node) pairs, sorted
    State* states
    uint32_t states_room
    uint32_t state_limit
    Interner sets        # set -> sorted terminals
    int8_t* set_is_skip  # by set: it holds a skip terminal and counts as nothing else
    uint32_t sets_room
    Arena rows
    node_t* initial      # by terminal: its regex, without the empty string
    uint8_t* lazy        # by terminal
    uint8_t* skip        # by terminal
    uint32_t* tails      # by terminal: where its hidden tail begins in ``tail_bytes``, and how
                         # long it is, NONE for any; NULL in grammars without hidden tails
    uint8_t* tail_bytes
    uint32_t terminal_count
    Loop* loops
    uint32_t loop_count
    uint32_t loop_room
    Map node_loops       # (lazy, regex node) -> loop of a state of that terminal alone, or NO_LOOP
    Characters characters
    bint twins           # states take steps from their twins
    Words scratch
    Fault* fault

cdef int lexer_init(Lexer* lx, uint32_t terminal_count, Fault* fault) noexcept nogil
cdef void lexer_free(Lexer* lx) noexcept nogil
cdef set_t lexer_set(Lexer* lx, const uint32_t* terminals, uint32_t count) noexcept nogil
cdef state_t lexer_start(Lexer* lx, const uint32_t* terminals, uint32_t count) noexcept nogil
cdef state_t lexer_keep(Lexer* lx, state_t state, state_t allowed) noexcept nogil
cdef bint lexer_first(Lexer* lx, state_t state, uint64_t* bytes) noexcept nogil
cdef state_t lexer_twin(Lexer* lx, state_t state) noexcept nogil
cdef bint lexer_body(Lexer* lx, node_t body, LoopKey* key) noexcept nogil
cdef state_t lexer_fill(Lexer* lx, state_t state, uint32_t byte_class) noexcept nogil
cdef uint32_t lexer_loop(Lexer* lx, state_t state, bint counted) noexcept nogil
cdef state_t lexer_loop_at(Lexer* lx, state_t state, uint32_t count) noexcept nogil
cdef state_t lexer_saturate(Lexer* lx, state_t state) noexcept nogil
cdef state_t lexer_brief(Lexer* lx, state_t state, uint32_t* level) noexcept nogil
cdef state_t lexer_loop_lead(Lexer* lx, state_t state, uint8_t byte) noexcept nogil
cdef uint32_t utf8_lead(uint8_t byte) noexcept nogil
cdef uint32_t utf8_next(uint32_t inner, uint8_t byte) noexcept nogil
cdef uint32_t utf8_after(uint32_t inner) noexcept nogil
cdef const Characters* lexer_characters(Lexer* lx) noexcept nogil


cdef inline state_t lexer_step(Lexer* lx, state_t state, uint8_t byte) noexcept nogil:
    """The state after one more byte; DEAD when no terminal can go on (or with a fault set)."""
    cdef uint32_t byte_class = lx.rx.classes[byte]
    cdef state_t target
    if lx.states[state].row != NULL:
        target = lx.states[state].row[byte_class]
        if target != UNKNOWN:
            return target
    return lexer_fill(lx, state, byte_class)


cdef inline uint32_t lexer_tail(
    const Lexer* lx, set_t emitted, const uint8_t** bytes
) noexcept nogil:
    """The hidden tail that a lexeme with these terminals ends with, and its length; 0: none that
    could be read again."""
    cdef const uint32_t* tail
    if lx.tails == NULL or lx.sets.entries[emitted].length == 0:
        return 0
    tail = lx.tails + 2 * lx.sets.entries[emitted].words[0]
    bytes[0] = lx.tail_bytes + tail[0]
    return tail[1] if tail[1] != NONE else 0


cdef inline bint key_may_take(const LoopKey* key, uint8_t byte) noexcept nogil:
    """Whether the loop may take this byte; right for bytes of well-formed characters."""
    if byte >= FIRST_LEAD:
        return key_takes(key, byte)
    if byte >= 0x80:
        return key.bytes or key.leads != 0
    return (key.ascii[byte >> 6] >> (byte & 63)) & 1


cdef inline bint key_takes(const LoopKey* key, uint8_t byte) noexcept nogil:
    """Whether a character of the loop may begin with this byte."""
    if byte < 0x80:
        return (key.ascii[byte >> 6] >> (byte & 63)) & 1
    if key.bytes:
        return True
    return byte >= FIRST_LEAD and byte < FIRST_LEAD + LEAD_COUNT \
        and (key.leads >> (byte - FIRST_LEAD)) & 1


cdef inline bint key_equals(const LoopKey* one, const LoopKey* other) noexcept nogil:
    return one.ascii[0] == other.ascii[0] and one.ascii[1] == other.ascii[1] \
        and one.leads == other.leads and one.bytes == other.bytes
