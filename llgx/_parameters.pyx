# cython: language_level=3, boundscheck=False, wraparound=False
# cython: initializedcheck=False, cdivision=True
"""Arguments and guards of parametric rules: 64-bit arithmetic on slices of bits.

Invariant: operands are as ``ir.GrammarIR.check`` wants them; counters saturate. Cost: a few
instructions for each operation of an expression or condition.
"""

from libc.stdint cimport uint32_t, uint64_t


cdef inline uint64_t _slice_mask(uint64_t a, uint64_t b) noexcept nogil:
    """Ones in bits a to b - 1."""
    cdef uint64_t width = b - a
    return (<uint64_t>-1 if width >= 64 else (<uint64_t>1 << width) - 1) << a if a < 64 else 0


cdef uint64_t expr_value(const Expr* expr, uint64_t value) noexcept nogil:
    """The argument that an expression gives where the parameter is ``value``."""
    cdef uint64_t mask, part
    if expr.op == EXPR_CONST:
        return expr.a
    if expr.op == EXPR_SET_BIT:
        return value | (<uint64_t>1 << expr.a)
    if expr.op == EXPR_CLEAR_BIT:
        return value & ~(<uint64_t>1 << expr.a)
    if expr.op == EXPR_AND:
        return value & expr.a
    if expr.op == EXPR_OR:
        return value | expr.a
    if expr.op == EXPR_INCR or expr.op == EXPR_DECR:
        mask = _slice_mask(expr.a, expr.b)
        part = value & mask
        if expr.op == EXPR_INCR:
            return value if part == mask else value + (<uint64_t>1 << expr.a)
        return value if part == 0 else value - (<uint64_t>1 << expr.a)
    return value


cdef uint32_t _ones(uint64_t bits) noexcept nogil:
    cdef uint32_t count = 0
    while bits:
        bits &= bits - 1
        count += 1
    return count


cdef bint cond_holds(const Cond* conds, uint32_t index, uint64_t value) noexcept nogil:
    """Whether the condition at ``index`` of ``conds`` holds where the parameter is ``value``."""
    cdef const Cond* cond = &conds[index]
    cdef uint64_t mask, part
    cdef uint32_t i, op = cond.op
    if op == COND_TRUE:
        return True
    if op == COND_AND:
        for i in range(cond.count):
            if not cond_holds(conds, cond.first + i, value):
                return False
        return True
    if op == COND_OR:
        for i in range(cond.count):
            if cond_holds(conds, cond.first + i, value):
                return True
        return False
    if op == COND_NOT:
        return not cond_holds(conds, cond.first, value)
    if op == COND_BIT_SET:
        return (value >> cond.a) & 1
    if op == COND_BIT_CLEAR:
        return not (value >> cond.a) & 1
    mask = _slice_mask(cond.a, cond.b)
    if op == COND_ONES:
        return value & mask == mask
    if op == COND_ZEROS:
        return value & mask == 0
    part = (value & mask) >> cond.a
    if op >= COND_COUNT_EQ:
        part = _ones(part)
        op -= COND_COUNT_EQ - COND_EQ
    if op == COND_EQ:
        return part == cond.value
    if op == COND_NE:
        return part != cond.value
    if op == COND_LT:
        return part < cond.value
    if op == COND_LE:
        return part <= cond.value
    if op == COND_GT:
        return part > cond.value
    return part >= cond.value
