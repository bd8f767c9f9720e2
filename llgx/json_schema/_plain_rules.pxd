# cython: language_level=3
"""Layout of rules and terminals of plain schemas; see ``_plain_rules.pyx``."""

from llgx._ir cimport RuleRef


cdef class PlainRules:
    cdef object style
    cdef readonly list rules, terminals
    cdef list originals          # the terminals as they came
    cdef dict refs               # terminals by identity, as Emitter._refs
    cdef dict keys, next_keys    # symbols of keys, by name
    cdef dict kept_keys          # of the style, as its string_body and key_parts
    cdef dict kept_bounds        # terminals of constrained scalars by their keywords, of the style
    cdef object string_body
    cdef tuple key_parts
    cdef dict choices            # symbols of lists of strings
    cdef dict other_keys         # symbols of all keys but some
    cdef object comma_, colon, open_object, close_object, open_array, close_array, any_
    cdef object emitter          # of what is not plain; None until there is such
    cdef bint merged

    cdef int begin(self, style, bint merged) except -1
    cdef object finished(self, object start, list warnings, list unenforced)
    cdef object ref_of(self, terminal)
    cdef RuleRef new_rule(self)
    cdef int add(self, RuleRef reference, tuple symbols) except -1
    cdef object repeated_of(self, list first, tuple step)
    cdef tuple member(self, str name, object value)
    cdef object key(self, str name)
    cdef object next_key(self, str name)
    cdef object new_key(self, str name, bint comma)
    cdef object new_other_key(self, tuple excluded)
    cdef object any_value(self)
    cdef object keep(self, tuple key, terminal)
    cdef object choice(self, tuple values)
    cdef int array_productions(self, made, tuple array) except -1
    cdef int object_productions(self, made, tuple members) except -1


cdef object number_of(symbol)
cdef set reached_rules(list rules, object start)
cdef bint are_productive(list rules, dict parts) except -1
cdef bint has_cycle(list needs)
