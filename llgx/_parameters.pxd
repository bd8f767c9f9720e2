# cython: language_level=3
"""Arguments and guards of parametric rules; see ``_parameters.pyx``."""

from libc.stdint cimport uint32_t, uint64_t

cdef enum ExprOp:
    EXPR_CONST = 0       # a
    EXPR_SELF = 1        # the parameter
    EXPR_SET_BIT = 2     # bit a
    EXPR_CLEAR_BIT = 3
    EXPR_AND = 4         # mask a
    EXPR_OR = 5
    EXPR_INCR = 6        # bits a .. b - 1, saturating
    EXPR_DECR = 7

cdef enum CondOp:
    COND_TRUE = 0
    COND_EQ = 1          # bits a .. b - 1 against value
    COND_NE = 2
    COND_LT = 3
    COND_LE = 4
    COND_GT = 5
    COND_GE = 6
    COND_COUNT_EQ = 7    # number of ones among bits a .. b - 1 against value
    COND_COUNT_NE = 8
    COND_COUNT_LT = 9
    COND_COUNT_LE = 10
    COND_COUNT_GT = 11
    COND_COUNT_GE = 12
    COND_BIT_SET = 13    # bit a
    COND_BIT_CLEAR = 14
    COND_ONES = 15       # all of bits a .. b - 1
    COND_ZEROS = 16
    COND_AND = 17        # ``first`` and the ``count`` - 1 conditions after it, as do the next two
    COND_OR = 18
    COND_NOT = 19

cdef struct Expr:
    uint32_t op
    uint64_t a
    uint64_t b

cdef struct Cond:
    uint32_t op
    uint32_t a
    uint32_t b
    uint32_t first
    uint32_t count
    uint64_t value

cdef uint64_t expr_value(const Expr* expr, uint64_t parameter) noexcept nogil
cdef bint cond_holds(const Cond* conds, uint32_t index, uint64_t parameter) noexcept nogil
