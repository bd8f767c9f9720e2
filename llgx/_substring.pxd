# cython: language_level=3
"""Any run of the pieces of a text, as nodes; see ``_substring.pyx``."""

from llgx._regex cimport Regex, node_t

cdef node_t substring_lower(Regex* rx, tuple pieces) except? 0
