# cython: language_level=3, boundscheck=False, wraparound=False
"""How deep JSON text nests and how long its numbers are, found before a parser is let loose on it.

Every schema given as text goes through here once, so this looks at characters in place: a
nanosecond each. Strings that do not end are text to the end, which no parser accepts either.
"""

cdef extern from "Python.h":
    int PyUnicode_KIND(object)
    void* PyUnicode_DATA(object)
    Py_UCS4 PyUnicode_READ(int, void*, Py_ssize_t) nogil


def survey(str text not None) -> tuple[int, int]:
    """The greatest number of brackets and braces of ``text`` that are open at one place, and of
    digits outside of strings that follow each other."""
    cdef int kind = PyUnicode_KIND(text)
    cdef void* data = PyUnicode_DATA(text)
    cdef const unsigned char* bytes_ = <const unsigned char*>data
    cdef Py_ssize_t at = 0, size = len(text)
    cdef Py_ssize_t opened = 0, deepest = 0, digits = 0, longest = 0
    cdef Py_UCS4 char
    with nogil:
        while at < size:
            char = PyUnicode_READ(kind, data, at)
            at += 1
            if c"0" <= char <= c"9":
                digits += 1
                if digits > longest:
                    longest = digits
                continue
            digits = 0
            if char == c'"':
                if kind == 1:
                    # Most of the text, a byte each.
                    while at < size and bytes_[at] != c'"' and bytes_[at] != c"\\":
                        at += 1
                while at < size:
                    char = PyUnicode_READ(kind, data, at)
                    at += 1
                    if char == c"\\":
                        at += 1
                    elif char == c'"':
                        break
            elif char == c"{" or char == c"[":
                opened += 1
                if opened > deepest:
                    deepest = opened
            elif char == c"}" or char == c"]":
                opened -= 1
    return deepest, longest
