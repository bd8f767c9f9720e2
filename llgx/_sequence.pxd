# cython: language_level=3
"""States of one sequence under a compiled grammar, for callers without the GIL; see
``_sequence.pyx``.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cpython.pythread cimport PyThread_type_lock

from llgx._earley cimport row_t
from llgx._engine cimport Engine
from llgx._lexer cimport set_t
from llgx._memory cimport Fault

cdef enum:
    FRESH = 0x80000000   # flag in Step.state: at the beginning of a lexeme
    STATE = 0x7FFFFFFF
    CUT = 1              # state after an end-of-generation token where the text is not complete

cdef struct Step:
    row_t row            # NONE after an end-of-generation token; of exact lexers the configuration
    uint32_t state       # lexer state, FRESH added at the beginning of a lexeme
    uint32_t token
    uint32_t context     # of scopes, NO_CONTEXT in grammars without any
    uint32_t count       # tokens consumed
    uint32_t begin       # the token that the lexeme in progress began in

cdef struct Program:     # what following a text needs of a compiled grammar, which owns all of it
    Engine* engine       # touched under the lock only
    PyThread_type_lock lock
    const uint8_t* text  # bytes of all tokens, one after the other
    const uint64_t* text_at  # by token, and one more
    const uint8_t* is_text   # by token: takes part in text at all
    int64_t vocabulary_size
    const uint32_t* eog
    uint32_t eog_count
    const uint8_t* is_eog    # by token
    const uint8_t* ends_with_eog  # by terminal; NULL: none
    uint32_t max_tokens  # of the whole text, or NONE
    bint has_single      # some rule is limited to one token

cdef void program_acquire(const Program* program) noexcept nogil
cdef Fault program_release(const Program* program) noexcept nogil
cdef void step_begin(const Program* program, Step* step) noexcept nogil
cdef int step_advance(
    const Program* program, Step* step, int64_t token, uint64_t* scratch
) noexcept nogil
cdef row_t step_plain(const Program* program, const Step* step) noexcept nogil
cdef bint step_end_lexeme(const Program* program, Step* step, set_t emitted) noexcept nogil
cdef set_t step_eat(const Program* program, Step* step, uint32_t token) noexcept nogil
cdef row_t step_token_row(const Program* program, const Step* step) noexcept nogil
cdef set_t step_take(const Program* program, Step* step, uint32_t token) noexcept nogil
cdef bint step_accepts(const Program* program, const Step* step) noexcept nogil
cdef bint step_copy(const Program* program, const Step* step, int32_t* out) noexcept nogil
cdef void step_mask(
    const Program* program, const Step* step, int32_t* out, uint64_t* scratch
) noexcept nogil
cdef int steps_reserve(Step** steps, uint32_t* room, uint32_t count) noexcept nogil


cdef inline size_t mask_words(const Program* program) noexcept nogil:
    """32-bit words of a mask."""
    return (<size_t>program.vocabulary_size + 31) // 32
