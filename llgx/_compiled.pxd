# cython: language_level=3
"""Layout of compiled grammars; see ``_compiled.pyx``."""

from libc.stdint cimport uint8_t, uint32_t

from cpython.pythread cimport PyThread_type_lock

from llgx._engine cimport Engine
from llgx._flat cimport Flat
from llgx._ir cimport GrammarFields
from llgx._sequence cimport Program
from llgx._trie cimport TokenTrie

cdef class _EndTokens:
    """The end-of-generation tokens of a vocabulary, for all its grammars."""

    cdef object ids
    cdef uint32_t* at
    cdef uint32_t count
    cdef uint8_t* is_end         # by token

cdef class CompiledGrammar:
    cdef Engine engine
    cdef Program program         # of its parts, for callers without the GIL
    cdef TokenTrie trie
    cdef PyThread_type_lock lock
    cdef _EndTokens ends          # which has what follows
    cdef uint32_t* eog
    cdef uint32_t eog_count
    cdef uint8_t* is_eog
    cdef readonly object vocabulary
    cdef readonly object limits
    cdef readonly object shortcuts
    cdef readonly tuple warnings
    cdef readonly tuple unenforced
    cdef readonly bint forcing
    cdef tuple names             # of terminals
    cdef list rule_names         # by rule of the parser
    cdef double* temperatures    # by rule of the parser, below 0 without one; NULL: none has any
    cdef bint has_single         # some rule is limited to one token
    cdef uint32_t max_tokens     # of the whole text, or NONE
    cdef list capture_names      # by rule of the parser: (capture, tail_capture); None: no captures
    cdef uint8_t* wanted         # by rule of the parser: 1 if it has a capture, 2 if one below has
    cdef uint8_t* ends_with_eog  # by terminal; NULL: none
    cdef uint8_t* roles          # of terminals in scopes
    cdef bint is_scoped          # some terminal is distinct or unique
    cdef bint has_special        # some terminal is a model token or has a stop condition
    cdef uint32_t* tails         # by terminal: regexes of what is before its tail, and of that
    cdef object report           # called when a matcher goes and the memory has grown, or None
    cdef size_t reported         # the memory when it was last called
    cdef object __weakref__

    cdef int acquire(self) except -1
    cdef int release(self) except -1
    cdef size_t _memory(self) noexcept
    cdef int matcher_goes(self) except -1
    cdef int _set_program(self) except -1
    cdef int _set_limits(self) except -1
    cdef int _read_terminals(self, GrammarFields ir) except -1
    cdef int _set_scopes(self) except -1
    cdef int _load(self, GrammarFields ir, Flat flat) except -1
    cdef int _load_marked(
        self, GrammarFields ir, Flat flat, list terminals, list reached, uint8_t* is_used,
        uint8_t* is_empty, uint8_t* is_nullable, uint8_t* is_lowered
    ) except -1
    cdef dict _resolve_tokens(self, GrammarFields ir, set terminals)
    cdef dict _common_trees(self, GrammarFields ir)
    cdef int _lower_terminals(
        self, GrammarFields ir, list terminals, list order, uint8_t* is_empty, uint8_t* is_nullable,
        uint8_t* is_lowered
    ) except -1
    cdef int _lower_tails(self, GrammarFields ir, list order, dict memo, dict common) except -1
    cdef int _lay_out_hidden(self, GrammarFields ir, list order) except -1
    cdef int _lay_out_rules(self, GrammarFields ir, Flat flat, list reached) except -1
    cdef int _lay_out_captures(self, GrammarFields ir, Flat flat, list reached) except -1
    cdef int _lay_out(self, GrammarFields ir, Flat flat, list reached) except -1
    cdef int _lay_out_productions(self, Flat flat, list reached, uint32_t* number) except -1
