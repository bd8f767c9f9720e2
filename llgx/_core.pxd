# cython: language_level=3
"""Layout of matchers; see ``_core.pyx``."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from llgx._captures cimport Text
from llgx._compiled cimport CompiledGrammar
from llgx._memory cimport Words
from llgx._open cimport Climb
from llgx._sequence cimport Program, Step

cdef class Matcher:
    cdef CompiledGrammar grammar
    cdef const Program* program  # of it
    cdef Step* steps             # [0] is the state before the first token
    cdef uint32_t count          # tokens consumed
    cdef uint32_t room
    cdef uint64_t* scratch       # one mask, for rows that cannot be written as 64-bit words
    cdef object __weakref__

    cdef int _reserve(self, uint32_t extra) except -1
    cdef int _advance(self, Step* step, int64_t token)
    cdef object _rejection(self, given, int64_t token, int fitting)
    cdef tuple _expected(self, Step* step)
    cdef void _begin_climb(self, Climb* climb, Step* step)
    cdef tuple _expected_exact(self, Step* step)
    cdef int _write(self, int32_t* out) except -1
    cdef uint32_t _forced(self, Step* step, uint8_t* out)
    cdef bint _take_forced(self, bytes forced, list result) except -1
    cdef uint32_t _forced_token(self) except? 0xFFFFFFF0
    cdef list _tokenize_after(self, bytes forced)
    cdef bint _reaches_beyond(self, bytes rest) except -1
    cdef object _try(self, bytes text)
    cdef tuple _rule_path(self, Step* step)
    cdef void _replay(self, Text* text, Words* pending, bint* complete)
    cdef void _append(self, Text* text, uint32_t token)
    cdef void _replay_text(self, Text* text, Step* step, size_t at, size_t* begin)
    cdef void _replay_scoped(self, Text* text, Step* step, size_t at, size_t* begin)
