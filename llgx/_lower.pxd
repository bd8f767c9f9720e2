# cython: language_level=3
"""From regex trees to nodes, from faults to exceptions; see ``_lower.pyx``."""

from llgx._memory cimport Fault
from llgx._regex cimport Regex, node_t

cdef int raise_fault(Fault* fault, object limits) except -1
cdef node_t regex_lower(Regex* rx, object tree, dict memo, dict common, int depth) except? 0
