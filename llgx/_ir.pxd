# cython: language_level=3
"""Layout of the objects of ``llgx.ir``; see ``_ir.pyx``."""

cimport cython

@cython.final
cdef class Literal:
    cdef readonly bytes data

@cython.final
cdef class ByteSet:
    cdef readonly object mask

@cython.final
cdef class Concat:
    cdef readonly tuple items

@cython.final
cdef class Alternation:
    cdef readonly tuple items

@cython.final
cdef class Intersection:
    cdef readonly tuple items

@cython.final
cdef class Complement:
    cdef readonly object item

@cython.final
cdef class Repeat:
    cdef readonly object item
    cdef readonly object low
    cdef readonly object high

@cython.final
cdef class Remainder:
    cdef readonly object modulus
    cdef readonly object residue
    cdef readonly object low
    cdef readonly object high
    cdef readonly object places
    cdef readonly str fraction
    cdef readonly str part

@cython.final
cdef class Substring:
    cdef readonly tuple pieces

@cython.final
cdef class ParamExpr:
    cdef readonly str op
    cdef readonly object a
    cdef readonly object b

@cython.final
cdef class Condition:
    cdef readonly str op
    cdef readonly object a
    cdef readonly object b
    cdef readonly object value
    cdef readonly tuple items

@cython.final
cdef class TokenSet:
    cdef readonly tuple names
    cdef readonly tuple ranges
    cdef readonly bint negated
    cdef readonly bint optional
    cdef readonly tuple place

@cython.final
cdef class TerminalRef:
    cdef readonly Py_ssize_t index

@cython.final
cdef class RuleRef:
    cdef readonly Py_ssize_t index
    cdef readonly ParamExpr argument

@cython.final
cdef class Production:
    cdef readonly tuple symbols
    cdef readonly Condition condition

@cython.final
cdef class Rule:
    cdef public str name
    cdef public list productions
    cdef public bint parametric
    cdef public object capture
    cdef public object tail_capture
    cdef public object max_tokens
    cdef public object temperature

@cython.final
cdef class Terminal:
    cdef readonly str name
    cdef readonly object regex
    cdef readonly bint lazy
    cdef readonly Py_ssize_t skip_class
    cdef readonly TokenSet tokens
    cdef readonly object tail
    cdef readonly bint hidden_tail
    cdef readonly bint ends_with_eog
    cdef readonly str scope
    cdef readonly bint distinct
    cdef readonly bint unique

cdef class GrammarFields:
    cdef public object rules
    cdef public object terminals
    cdef public object start
    cdef public object skip
    cdef public object initial_skip
    cdef public object skip_once
    cdef public object forcing
    cdef public object warnings
    cdef public object skip_once_classes
    cdef public object exact
    cdef public object max_tokens
    cdef public object unenforced
    cdef public object literals
    cdef public object common

# --------------------------------------------------------------------------- made quickly

# For front ends in Cython: without the constructors, which look at each argument.

cdef inline Production production_of(tuple symbols):
    cdef Production made = Production.__new__(Production)
    made.symbols = symbols
    return made


cdef inline Rule empty_rule():
    cdef Rule made = Rule.__new__(Rule)
    made.name = ""
    made.productions = []
    return made


cdef inline Literal literal_of(bytes data):
    cdef Literal made = Literal.__new__(Literal)
    made.data = data
    return made


cdef inline Concat concat_of(tuple items):
    cdef Concat made = Concat.__new__(Concat)
    made.items = items
    return made


cdef inline Terminal terminal_of(str name, object regex, bint distinct):
    cdef Terminal made = Terminal.__new__(Terminal)
    made.name = name
    made.regex = regex
    made.scope = ""
    made.distinct = distinct
    return made


cdef TerminalRef terminal_ref(Py_ssize_t index)
cdef RuleRef rule_ref(Py_ssize_t index)
cdef GrammarFields grammar_of(
    object kind, list rules, list terminals, Py_ssize_t start, Py_ssize_t skip, list warnings,
    list unenforced, tuple common
)
