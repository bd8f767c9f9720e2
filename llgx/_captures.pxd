# cython: language_level=3
"""Layout of the chart that captures are read from; see ``_captures.pyx``."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from llgx._compiled cimport CompiledGrammar
from llgx._earley cimport Parser
from llgx._engine cimport Engine
from llgx._lexer cimport set_t
from llgx._memory cimport Map, Words

cdef struct Lexeme:
    uint32_t begin       # where its bytes begin in the text
    uint32_t end         # and end, a hidden tail left out
    uint32_t full        # and in full
    uint32_t terminals   # place of its terminals in ``Text.sets``: how many, and which

cdef struct Text:        # what the tokens so far come down to
    uint8_t* bytes
    size_t size
    size_t room
    Lexeme* lexemes      # skipped ones left out
    uint32_t count
    uint32_t lexemes_room
    Words sets
    Map set_index        # set -> place in ``sets``
    bint failed          # memory is out

cdef int text_reserve(Text* text, size_t count) noexcept nogil
cdef void text_lexeme(
    Text* text, Engine* engine, set_t emitted, size_t begin, size_t end
) noexcept nogil
cdef void text_free(Text* text) noexcept nogil
cdef list captures_of(CompiledGrammar grammar, Text* text, const Words* pending, bint complete)
