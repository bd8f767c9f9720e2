# cython: language_level=3
"""Layout of compiled grammars; see ``_compiled.pyx``."""

from libc.stdint cimport uint8_t, uint32_t

from cpython.pythread cimport PyThread_type_lock

from llgx._engine cimport Engine
from llgx._sequence cimport Program
from llgx._trie cimport TokenTrie

cdef class CompiledGrammar:
    cdef Engine engine
    cdef Program program         # of its parts, for callers without the GIL
    cdef TokenTrie trie
    cdef PyThread_type_lock lock
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
    cdef uint32_t* tails         # by terminal: regexes of what is before its tail, and of that
    cdef object __weakref__

    cdef int acquire(self) except -1
    cdef int release(self) except -1
    cdef int _set_program(self) except -1
    cdef int _set_limits(self) except -1
    cdef int _set_scopes(self, ir) except -1
    cdef int _load(self, ir) except -1
    cdef dict _resolve_tokens(self, ir, set terminals)
    cdef tuple _lower_terminals(self, ir, list order)
    cdef int _lower_tails(self, ir, list order, dict memo) except -1
    cdef int _lay_out_hidden(self, ir, list order) except -1
    cdef int _lay_out_rules(self, ir, list reached) except -1
    cdef int _lay_out_captures(self, ir, list rules, list reached) except -1
    cdef int _lay_out(self, ir, list rules, list reached) except -1
