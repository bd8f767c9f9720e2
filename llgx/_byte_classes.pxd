# cython: language_level=3
"""See ``_byte_classes.pyx``."""

from llgx._regex cimport Regex

cdef void regex_freeze_classes(Regex* rx) noexcept nogil
