# cython: language_level=3
"""Layout of compiled grammars; see ``_compiled.pyx``."""

from libc.stdint cimport uint8_t, uint32_t

from cpython.pythread cimport PyThread_type_lock

from llgx._engine cimport Engine
from llgx._trie cimport TokenTrie

cdef class CompiledGrammar:
    cdef Engine engine
    cdef TokenTrie trie
    cdef PyThread_type_lock lock
    cdef uint32_t* eog
    cdef uint32_t eog_count
    cdef uint8_t* is_eog
    cdef readonly object vocabulary
    cdef readonly object limits
    cdef readonly object shortcuts
    cdef readonly tuple warnings
    cdef readonly bint forcing
    cdef tuple names             # of terminals
    cdef object __weakref__

    cdef int acquire(self) except -1
    cdef int release(self) except -1
    cdef int _set_limits(self) except -1
    cdef int _set_scopes(self, ir) except -1
    cdef int _load(self, ir) except -1
    cdef tuple _lower_terminals(self, ir, list order)
    cdef int _lay_out(self, ir, list rules, list reached) except -1
