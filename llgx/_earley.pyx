# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The parser: Earley rows, interned by content, with memoised scans.

A row is a set of items (place of the dot, origin row, parameter) after some lexemes. Origins are ids of
interned rows, or SELF for an item that begins here, so equal ids mean equal futures: the parser is an
automaton that is built lazily and shared by all matchers of a grammar. Completed items have done their
work once a row is closed and are dropped, which is what lets a left-recursive list come back to the row
it was in.

:c:func:`parser_scan` is a pure function of (row, emitted set): memoised. Behind that, the kernel (the
items moved over the terminals) is interned, so rows reached on different ways are closed once.

Rules with a parameter carry 64 bits per item; guards are evaluated when a production is predicted.
Rules that surely derive the empty string are stepped over when predicted (Aycock and Horspool,
"Practical Earley Parsing", 2002); those that do so for some parameters only are completed where they
stand, and items that arrive later look them up.

An emitted set with a skip terminal moves nothing: the row stays, or becomes its twin without skip where
a gap may hold one skip only.

Cost: a known scan is a map lookup; a new row takes time linear in its items, but for sorting them.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, qsort, realloc
from libc.string cimport memcmp, memcpy, memset

from llgx._lexer cimport DEAD, Lexer, lexer_start, set_t, state_t
from llgx._memory cimport (
    FAULT_MEMORY, FAULT_ROW_ITEMS, FAULT_ROWS, NONE, UNKNOWN, Fault, Words, fault_set, interner_free,
    interner_put, map_free, map_get, map_put, words_free, words_hash, words_push, words_reserve,
)

cdef extern from *:
    """
    #define LLGX_SELF 0xFFFFFFFDu    /* origin of an item that begins in its own row */
    """
    const uint32_t SELF "LLGX_SELF"


cdef int parser_init(Parser* ps, Lexer* lexer, Fault* fault) noexcept nogil:
    """A parser without grammar. The caller fills the grammar's arrays, which the parser then owns."""
    memset(ps, 0, sizeof(Parser))
    ps.lexer = lexer
    ps.fault = fault
    ps.stride = 3
    ps.row_limit = 1000000
    ps.item_limit = 200000
    ps.seen_mask = 255
    ps.seen = <uint64_t*>calloc(256, sizeof(uint64_t))
    return 0 if ps.seen != NULL else -1


cdef void parser_free(Parser* ps) noexcept nogil:
    free(ps.symbols)
    free(ps.argument)
    free(ps.owner)
    free(ps.rules)
    free(ps.productions)
    free(ps.nullable)
    free(ps.exprs)
    free(ps.conds)
    free(ps.skip_of)
    free(ps.rows)
    free(ps.seen)
    free(ps.predicted)
    interner_free(&ps.contents)
    interner_free(&ps.kernels)
    words_free(&ps.kernel_row)
    words_free(&ps.items)
    words_free(&ps.empty)
    words_free(&ps.sorted)
    map_free(&ps.scans)


# --------------------------------------------------------------------------- parameters

cdef inline uint64_t _slice_mask(uint64_t a, uint64_t b) noexcept nogil:
    """Ones in bits a to b - 1."""
    cdef uint64_t width = b - a
    return (<uint64_t>-1 if width >= 64 else (<uint64_t>1 << width) - 1) << a if a < 64 else 0


cdef uint64_t _evaluate(const Expr* expr, uint64_t value) noexcept nogil:
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


cdef bint _holds(const Parser* ps, const Cond* cond, uint64_t value) noexcept nogil:
    cdef uint64_t mask, part
    cdef uint32_t i, op = cond.op
    if op == COND_TRUE:
        return True
    if op == COND_AND:
        for i in range(cond.count):
            if not _holds(ps, &ps.conds[cond.first + i], value):
                return False
        return True
    if op == COND_OR:
        for i in range(cond.count):
            if _holds(ps, &ps.conds[cond.first + i], value):
                return True
        return False
    if op == COND_NOT:
        return not _holds(ps, &ps.conds[cond.first], value)
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


# --------------------------------------------------------------------------- closing a row

cdef int _compare_items3(const void* left, const void* right) noexcept nogil:
    cdef const uint32_t* a = <const uint32_t*>left
    cdef const uint32_t* b = <const uint32_t*>right
    cdef int i
    for i in range(3):
        if a[i] != b[i]:
            return 1 if a[i] > b[i] else -1
    return 0


cdef int _compare_items5(const void* left, const void* right) noexcept nogil:
    cdef const uint32_t* a = <const uint32_t*>left
    cdef const uint32_t* b = <const uint32_t*>right
    cdef int i
    for i in range(5):
        if a[i] != b[i]:
            return 1 if a[i] > b[i] else -1
    return 0


cdef int _grow_seen(Parser* ps) noexcept nogil:
    cdef uint32_t size = (ps.seen_mask + 1) * 2
    cdef uint64_t* seen = <uint64_t*>calloc(size, sizeof(uint64_t))
    cdef uint32_t i, at
    if seen == NULL:
        return -1
    for i in range(<uint32_t>(ps.items.size // ps.stride)):
        at = words_hash(ps.items.at + i * ps.stride + 1, ps.stride - 1) & (size - 1)
        while seen[at] >> 32 == ps.generation:
            at = (at + 1) & (size - 1)
        seen[at] = (<uint64_t>ps.generation << 32) | i
    free(ps.seen)
    ps.seen = seen
    ps.seen_mask = size - 1
    return 0


cdef void _add(Parser* ps, uint32_t place, uint32_t origin, uint64_t parameter) noexcept nogil:
    """Add an item to the row being closed, unless it is there."""
    cdef uint32_t item[5]
    cdef uint32_t at, known, stride = ps.stride
    cdef uint32_t* items
    item[0] = ps.symbols[place]
    item[1] = place
    item[2] = origin
    item[3] = <uint32_t>parameter
    item[4] = <uint32_t>(parameter >> 32)
    at = words_hash(item + 1, stride - 1) & ps.seen_mask
    while ps.seen[at] >> 32 == ps.generation:
        known = <uint32_t>ps.seen[at]
        items = ps.items.at + known * stride
        if memcmp(items + 1, item + 1, (stride - 1) * sizeof(uint32_t)) == 0:
            return
        at = (at + 1) & ps.seen_mask
    known = <uint32_t>(ps.items.size // stride)
    if known >= ps.item_limit:
        fault_set(ps.fault, FAULT_ROW_ITEMS)
        return
    if words_reserve(&ps.items, stride) < 0:
        fault_set(ps.fault, FAULT_MEMORY)
        return
    memcpy(ps.items.at + ps.items.size, item, stride * sizeof(uint32_t))
    ps.items.size += stride
    ps.seen[at] = (<uint64_t>ps.generation << 32) | known
    if known * 2 >= ps.seen_mask and _grow_seen(ps) < 0:
        fault_set(ps.fault, FAULT_MEMORY)


cdef inline uint64_t _parameter(const Parser* ps, const uint32_t* item) noexcept nogil:
    return item[3] | (<uint64_t>item[4] << 32) if ps.stride == 5 else 0


cdef inline uint64_t _argument(
    const Parser* ps, uint32_t place, uint64_t parameter
) noexcept nogil:
    if ps.argument[place] == NONE:
        return 0
    return _evaluate(&ps.exprs[ps.argument[place]], parameter)


cdef const uint32_t* row_find(
    const Parser* ps, row_t row, uint32_t symbol, uint32_t* count
) noexcept nogil:
    """The items of a row whose dot stands before ``symbol``: first of them, and how many."""
    cdef const uint32_t* items = ps.rows[row].items
    cdef uint32_t stride = ps.stride
    cdef uint32_t low = 0, high = ps.rows[row].count, middle
    while low < high:
        middle = (low + high) >> 1
        if items[middle * stride] < symbol:
            low = middle + 1
        else:
            high = middle
    count[0] = 0
    middle = low
    while middle < ps.rows[row].count and items[middle * stride] == symbol:
        middle += 1
    count[0] = middle - low
    return items + low * stride


cdef void _complete(Parser* ps, uint32_t rule, uint32_t origin, uint64_t parameter) noexcept nogil:
    """``rule`` is finished: move the items that wait for it, in its origin or in this row."""
    cdef const uint32_t* item
    cdef uint32_t i, count, place
    cdef uint32_t stride = ps.stride
    cdef uint64_t value
    if origin != SELF:
        item = row_find(ps, origin, 2 * rule, &count)
        for i in range(count):
            value = _parameter(ps, item)
            if _argument(ps, item[1], value) == parameter:
                _add(ps, item[1] + 1, origin if item[2] == SELF else item[2], value)
            item += stride
        return
    if ps.nullable[rule] == 1:
        return  # stepped over when predicted
    if words_push(&ps.empty, rule) < 0 or words_push(&ps.empty, <uint32_t>parameter) < 0 \
            or words_push(&ps.empty, <uint32_t>(parameter >> 32)) < 0:
        fault_set(ps.fault, FAULT_MEMORY)
        return
    for i in range(<uint32_t>(ps.items.size // stride)):
        item = ps.items.at + i * stride
        if item[0] == 2 * rule:
            value = _parameter(ps, item)
            if _argument(ps, item[1], value) == parameter:
                place = item[1] + 1
                _add(ps, place, item[2], value)  # may move the items: ``item`` is stale after it


cdef bint _derived_empty(const Parser* ps, uint32_t rule, uint64_t parameter) noexcept nogil:
    cdef uint32_t i
    for i in range(0, <uint32_t>ps.empty.size, 3):
        if ps.empty.at[i] == rule and ps.empty.at[i + 1] == <uint32_t>parameter \
                and ps.empty.at[i + 2] == <uint32_t>(parameter >> 32):
            return True
    return False


cdef void _predict(Parser* ps, uint32_t rule, uint64_t parameter) noexcept nogil:
    cdef uint32_t i
    cdef const Production* production
    if ps.stride == 3:
        if ps.predicted[rule] == ps.generation:
            return
        ps.predicted[rule] = ps.generation
    for i in range(ps.rules[rule], ps.rules[rule + 1]):
        production = &ps.productions[i]
        if production.condition == NONE or \
                _holds(ps, &ps.conds[production.condition], parameter):
            _add(ps, production.place, SELF, parameter)


cdef row_t _row(Parser* ps, uint32_t flags, const uint32_t* items, uint32_t words) noexcept nogil:
    """Intern a row of sorted items; FIRST_ROW with a fault set when that fails."""
    cdef uint32_t before = ps.contents.count, room
    cdef Row* grown
    cdef row_t row
    cdef size_t base = ps.sorted.size
    if words_reserve(&ps.sorted, words + 1) < 0:
        fault_set(ps.fault, FAULT_MEMORY)
        return FIRST_ROW
    ps.sorted.at[base] = flags
    memcpy(ps.sorted.at + base + 1, items, words * sizeof(uint32_t))
    row = interner_put(&ps.contents, ps.sorted.at + base, words + 1)
    if row == NONE:
        fault_set(ps.fault, FAULT_MEMORY)
        return FIRST_ROW
    if ps.contents.count == before:
        return row
    if ps.contents.count > ps.rows_room:
        room = ps.rows_room * 2 if ps.rows_room else 64
        grown = <Row*>realloc(ps.rows, room * sizeof(Row))
        if grown == NULL:
            ps.contents.count = before
            fault_set(ps.fault, FAULT_MEMORY)
            return FIRST_ROW
        ps.rows = grown
        ps.rows_room = room
    ps.rows[row].items = ps.contents.entries[row].words + 1
    ps.rows[row].count = words // ps.stride
    ps.rows[row].flags = flags
    ps.rows[row].start = UNKNOWN
    if ps.contents.count > ps.row_limit:
        fault_set(ps.fault, FAULT_ROWS)
    return row


cdef void _open(Parser* ps) noexcept nogil:
    """Begin a new closure with no items."""
    ps.items.size = 0
    ps.empty.size = 0
    ps.generation += 1
    if ps.generation == 0:  # wrapped: old stamps could look new
        memset(ps.seen, 0, (<size_t>ps.seen_mask + 1) * sizeof(uint64_t))
        memset(ps.predicted, 0, ps.rule_count * sizeof(uint32_t))
        ps.generation = 1


cdef row_t _close(Parser* ps, uint32_t flags) noexcept nogil:
    """Complete and predict until nothing is new, then intern what still waits."""
    cdef uint32_t stride = ps.stride
    cdef size_t at = 0, kept = 0
    cdef uint32_t symbol, place, origin
    cdef uint64_t value, argument
    cdef uint32_t* item
    while at < ps.items.size and not ps.fault.code:
        item = ps.items.at + at
        symbol = item[0]
        place = item[1]
        origin = item[2]
        value = _parameter(ps, item)
        if symbol == NONE:
            if ps.owner[place] == ps.start_rule:
                flags |= ROW_ACCEPTS
            else:
                _complete(ps, ps.owner[place], origin, value)
        elif symbol & 1 == 0:
            argument = _argument(ps, place, value)
            _predict(ps, symbol >> 1, argument)
            if ps.nullable[symbol >> 1] == 1 or (
                ps.nullable[symbol >> 1] and _derived_empty(ps, symbol >> 1, argument)
            ):
                _add(ps, place + 1, origin, value)
        at += stride
    if ps.fault.code:
        return FIRST_ROW
    at = 0
    while at < ps.items.size:
        if ps.items.at[at] != NONE:
            if kept != at:
                memcpy(ps.items.at + kept, ps.items.at + at, stride * sizeof(uint32_t))
            kept += stride
        at += stride
    ps.items.size = kept
    qsort(
        ps.items.at, kept // stride, stride * sizeof(uint32_t),
        _compare_items3 if stride == 3 else _compare_items5,
    )
    ps.sorted.size = 0
    return _row(ps, flags, ps.items.at, <uint32_t>kept)


cdef int parser_begin(Parser* ps) noexcept nogil:
    """Make FIRST_ROW once the grammar is in place; -1 with a fault set when that fails."""
    cdef uint32_t flags = 0 if ps.initial_skip else ROW_NO_SKIP
    ps.predicted = <uint32_t*>calloc(ps.rule_count + 1, sizeof(uint32_t))
    if ps.predicted == NULL:
        fault_set(ps.fault, FAULT_MEMORY)
        return -1
    _open(ps)
    _predict(ps, ps.start_rule, 0)
    _close(ps, flags)
    return -1 if ps.fault.code else 0


# --------------------------------------------------------------------------- scanning

cdef row_t _scan(Parser* ps, row_t row, set_t emitted) noexcept nogil:
    cdef const uint32_t* terminals = ps.lexer.sets.entries[emitted].words
    cdef uint32_t length = ps.lexer.sets.entries[emitted].length
    cdef uint32_t i, j, count, kernel, before
    cdef uint32_t stride = ps.stride
    cdef const uint32_t* item
    cdef row_t result
    if ps.lexer.set_is_skip[emitted]:
        if not ps.skip_once:
            return row
        ps.sorted.size = 0
        return _row(
            ps, ps.rows[row].flags | ROW_NO_SKIP, ps.rows[row].items, ps.rows[row].count * stride
        )
    _open(ps)
    for i in range(length):
        item = row_find(ps, row, 2 * terminals[i] + 1, &count)
        for j in range(count):
            _add(ps, item[1] + 1, row if item[2] == SELF else item[2], _parameter(ps, item))
            item += stride
    if ps.fault.code:
        return FIRST_ROW
    # Kernels come in the order of the row they leave; sorting them makes equal ones equal.
    ps.sorted.size = 0
    if words_reserve(&ps.sorted, ps.items.size) < 0:
        fault_set(ps.fault, FAULT_MEMORY)
        return FIRST_ROW
    memcpy(ps.sorted.at, ps.items.at, ps.items.size * sizeof(uint32_t))
    qsort(
        ps.sorted.at, ps.items.size // stride, stride * sizeof(uint32_t),
        _compare_items3 if stride == 3 else _compare_items5,
    )
    before = ps.kernels.count
    kernel = interner_put(&ps.kernels, ps.sorted.at, <uint32_t>ps.items.size)
    if kernel == NONE:
        fault_set(ps.fault, FAULT_MEMORY)
        return FIRST_ROW
    if kernel < ps.kernel_row.size and ps.kernel_row.at[kernel] != NONE:
        return ps.kernel_row.at[kernel]
    if kernel >= ps.kernel_row.size and words_push(&ps.kernel_row, NONE) < 0:
        ps.kernels.count = before
        fault_set(ps.fault, FAULT_MEMORY)
        return FIRST_ROW
    result = _close(ps, 0)
    if not ps.fault.code:
        ps.kernel_row.at[kernel] = result
    return result


cdef row_t parser_scan(Parser* ps, row_t row, set_t emitted) noexcept nogil:
    """The row after ``row`` and a lexeme that matched the terminals of ``emitted``.

    FIRST_ROW with a fault set when a limit is passed or memory is out.
    """
    cdef row_t result = map_get(&ps.scans, row, emitted)
    if result != NONE:
        return result
    result = _scan(ps, row, emitted)
    if not ps.fault.code and map_put(&ps.scans, row, emitted, result) < 0:
        fault_set(ps.fault, FAULT_MEMORY)
    return result


cdef state_t parser_start_state(Parser* ps, row_t row) noexcept nogil:
    cdef const uint32_t* item = ps.rows[row].items
    cdef uint32_t i, j, symbol, skip, last = NONE
    cdef size_t terminals
    cdef state_t state
    ps.sorted.size = 0
    for i in range(ps.rows[row].count):
        symbol = item[0]
        if symbol & 1 and symbol != last:
            last = symbol
            if words_push(&ps.sorted, symbol >> 1) < 0:
                fault_set(ps.fault, FAULT_MEMORY)
                return DEAD
        item += ps.stride
    terminals = ps.sorted.size
    if not ps.rows[row].flags & ROW_NO_SKIP:
        for i in range(<uint32_t>terminals):
            skip = ps.skip_of[ps.sorted.at[i]]
            if skip == NONE:
                continue
            j = <uint32_t>terminals
            while j < ps.sorted.size and ps.sorted.at[j] != skip:
                j += 1
            if j < ps.sorted.size:
                continue
            if row_find(ps, row, 2 * skip + 1, &j) != NULL and j == 0 and words_push(&ps.sorted, skip) < 0:
                fault_set(ps.fault, FAULT_MEMORY)
                return DEAD
        # Insert the few skip terminals where they belong.
        for i in range(<uint32_t>terminals, <uint32_t>ps.sorted.size):
            symbol = ps.sorted.at[i]
            j = i
            while j > 0 and ps.sorted.at[j - 1] > symbol:
                ps.sorted.at[j] = ps.sorted.at[j - 1]
                j -= 1
            ps.sorted.at[j] = symbol
    state = lexer_start(ps.lexer, ps.sorted.at, <uint32_t>ps.sorted.size)
    if not ps.fault.code:
        ps.rows[row].start = state
    return state
