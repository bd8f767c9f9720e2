# cython: language_level=3, boundscheck=False, wraparound=False
# cython: initializedcheck=False, cdivision=True
"""The parser: Earley rows, interned by content, with memoised scans.

A row is a set of items (place of the dot, origin row, parameter) after some lexemes. Origins are
ids of interned rows, or SELF for an item that begins here, so equal ids mean equal futures: the
parser is an automaton that is built lazily and shared by all matchers of a grammar. Completed items
have done their work once a row is closed and are dropped, which is what lets a left-recursive list
come back to the row it was in.

*Restricted rows.* When a rule that was predicted in a row is finished, only the items waiting for
it matter there, those waiting for the rules of these, and so on. So the origin of the items that a
scan moves is not the whole row but its restriction to what the scanned terminals may come to
finish. What else the row could have done is forgotten, and rows reached on different ways become
equal far more often: after each line of a list of lines, say.

*Forwarded origins.* Where one item only waits for a rule in its origin, and that item is complete
after it, finishing the rule there is finishing the item's rule in the item's own origin, and so on.
If this leads to the same rule again, an item of it gets that further origin at once. So right
recursion of any depth has one row and one completion, as with the transitive items of Leo, "A
general context-free parsing algorithm running in linear time on every LR(k) grammar without using
lookahead" (1991), but without items of another kind.

*Shapes.* What a row does next rarely depends on which rows its origins are. So a row is stored as a
*shape* (its items, with origins numbered) and the list of its origins, and :c:func:`parser_scan`, a
pure function of (row, emitted set), is memoised twice: by row, and by shape. A scan that completes
items looks into origin rows; a *variant* of (shape, set) records how those were reached from the
row (paths of origin numbers and restrictions), which shapes they had and which of them were the
same row. Any row on which these agree has the same scan up to the names of rows, so its successor
is the variant's shape with the origins read off along the paths: a closure, which costs
microseconds, happens once per kind of place in the grammar and not once per depth of nesting.

Rules with a parameter carry 64 bits per item; guards are evaluated when a production is predicted.
Rules that surely derive the empty string are stepped over when predicted (Aycock and Horspool,
"Practical Earley Parsing", 2002); those that do so for some parameters only are completed where
they stand, and items that arrive later look them up.

An emitted set with a skip terminal moves nothing. What stays of the row are the terminals of the
classes that this skip terminal belongs to; where a gap may hold one lexeme only, they have no skip
terminal any more.

Cost: a known scan is a map lookup; a known variant a few comparisons and one interning; a closure
is linear in the items of the row, but for sorting them.
"""

from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy, memset

from llgx._lexer cimport DEAD, Lexer, lexer_start, set_t, state_t
from llgx._memory cimport (
    FAULT_MEMORY, FAULT_ROWS, FAULT_ROW_ITEMS, NONE, UNKNOWN, Fault, array_grown, fault_set,
    interner_drop, interner_free, interner_put, map_clear, map_free, map_get, map_put, words_free,
    words_hash, words_push, words_reserve, words_sort,
)
from llgx._parameters cimport cond_holds, expr_value

cdef extern from *:
    """
    #define LLGX_SELF 0xFFFFFFFDu    /* origin of an item that begins in its own row */
    """
    const uint32_t SELF "LLGX_SELF"

cdef extern from *:
    """
    #define LLGX_PATH_USED 0x80000000u
    #define LLGX_STEP_RESTRICT 0x80000000u
    """
    # in a path's parent: the path stands for some item's origin
    const uint32_t PATH_USED "LLGX_PATH_USED"
    # a path's step from the row itself to its restriction
    const uint32_t STEP_RESTRICT "LLGX_STEP_RESTRICT"

cdef enum:
    PATH_WORDS = 4
    MOST_PATHS = 64          # of a variant; scans that reach further are closed each time
    MOST_VARIANTS = 16       # tried per scan
    VARIANT_WORDS = 16000000
    FEW_ORIGINS = 24
    FURTHEST = 32            # items that an origin is forwarded along
    WORK_PER_ITEM = 16       # times that items of a row may be arrived at again, on average,
    FREE_WORK = 131072       # beyond so many


cdef int parser_init(Parser* ps, Lexer* lexer, Fault* fault) noexcept nogil:
    """A parser without grammar. The caller fills the grammar's arrays, which the parser then
    owns."""
    memset(ps, 0, sizeof(Parser))
    ps.lexer = lexer
    ps.fault = fault
    ps.stride = 3
    ps.clock = NONE
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
    free(ps.tail)
    free(ps.exprs)
    free(ps.conds)
    free(ps.skip_of)
    free(ps.is_token)
    free(ps.skip_once)
    free(ps.limits)
    free(ps.rows)
    free(ps.shapes)
    free(ps.seen)
    free(ps.predicted)
    free(ps.wanted)
    interner_free(&ps.contents)
    interner_free(&ps.shape_words)
    map_free(&ps.moves)
    map_free(&ps.restrictions)
    words_free(&ps.restricted)
    words_free(&ps.spare)
    words_free(&ps.variants)
    words_free(&ps.paths)
    map_free(&ps.numbers)
    words_free(&ps.items)
    words_free(&ps.empty)
    words_free(&ps.sorted)
    map_free(&ps.scans)


# --------------------------------------------------------------------------- parameters

cdef row_t parser_origin(const Parser* ps, row_t row, const uint32_t* item) noexcept nogil:
    """The row in which an item of ``row`` began."""
    cdef uint32_t number = item[ps.stride - 1]
    return row if number == SELF else ps.rows[row].origins[number]


cdef uint64_t parser_argument(
    const Parser* ps, uint32_t place, uint64_t parameter
) noexcept nogil:
    """The argument of the rule behind a dot; 0 for one without parameter. Reads the grammar
    only."""
    return _argument(ps, place, parameter)


cdef bint parser_guard(const Parser* ps, uint32_t production, uint64_t parameter) noexcept nogil:
    """Whether a production is there for this parameter. Reads the grammar only."""
    cdef uint32_t condition = ps.productions[production].condition
    return condition == NONE or cond_holds(ps.conds, condition, parameter)


# --------------------------------------------------------------------------- closing a row

cdef void _sort_items(Parser* ps) noexcept nogil:
    # The width as a constant, for the compiler.
    if (words_sort(&ps.items, 3, &ps.sorted) if ps.stride == 3
            else words_sort(&ps.items, 5, &ps.sorted)) < 0:
        fault_set(ps.fault, FAULT_MEMORY)


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
    item[2] = <uint32_t>parameter
    item[3] = <uint32_t>(parameter >> 32)
    item[stride - 1] = origin
    at = words_hash(item + 1, stride - 1) & ps.seen_mask
    while ps.seen[at] >> 32 == ps.generation:
        known = <uint32_t>ps.seen[at]
        items = ps.items.at + known * stride
        if memcmp(items + 1, item + 1, (stride - 1) * sizeof(uint32_t)) == 0:
            # Ambiguity without end arrives at the same items again and again.
            ps.work += 1
            if ps.work > FREE_WORK + WORK_PER_ITEM * (ps.items.size // stride):
                fault_set(ps.fault, FAULT_ROW_ITEMS)
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
    return item[2] | (<uint64_t>item[3] << 32) if ps.stride == 5 else 0


cdef inline uint64_t _argument(
    const Parser* ps, uint32_t place, uint64_t parameter
) noexcept nogil:
    if ps.argument[place] == NONE:
        return 0
    return expr_value(&ps.exprs[ps.argument[place]], parameter)


cdef const uint32_t* _waiting(
    const Parser* ps, uint32_t shape, uint32_t symbol, uint32_t* count
) noexcept nogil:
    """The items of a shape whose dot stands before ``symbol``: first of them, and how many."""
    cdef const uint32_t* items = ps.shapes[shape].items
    cdef uint32_t total = ps.shapes[shape].count
    cdef uint32_t stride = ps.stride
    cdef uint32_t low = 0, high = total, middle
    while low < high:
        middle = (low + high) >> 1
        if items[middle * stride] < symbol:
            low = middle + 1
        else:
            high = middle
    middle = low
    while middle < total and items[middle * stride] == symbol:
        middle += 1
    count[0] = middle - low
    return items + low * stride


cdef bint _map_origins(Parser* ps, const uint32_t* origins, uint32_t count) noexcept nogil:
    """Keep the numbers of origins in a map once they are too many to look through."""
    cdef uint32_t first = count - 1
    cdef uint32_t i
    if count <= FEW_ORIGINS:
        return True
    if count == FEW_ORIGINS + 1:
        map_clear(&ps.numbers)
        first = 0
    for i in range(first, count):
        if map_put(&ps.numbers, 0, origins[i], i) < 0:
            fault_set(ps.fault, FAULT_MEMORY)
            return False
    return True


cdef uint32_t _make_restriction(Parser* ps, uint32_t shape, set_t emitted) noexcept nogil:
    """Find the items of ``shape`` that matter after a scan of ``emitted``; their place, or NONE."""
    cdef const uint32_t* items = ps.shapes[shape].items
    cdef const uint32_t* terminals = ps.lexer.sets.entries[emitted].words
    cdef uint32_t terminal_count = ps.lexer.sets.entries[emitted].length
    cdef uint32_t count = ps.shapes[shape].count
    cdef uint32_t stride = ps.stride
    cdef const uint32_t* item
    cdef uint32_t i, number, symbol, known, origins = 0
    cdef size_t at, done = 0, place, base
    # spare: [symbols that may come to be finished here...] [flags, items kept...]
    ps.spare.size = 0
    ps.wanted_now += 1
    for i in range(terminal_count):
        if words_push(&ps.spare, 2 * terminals[i] + 1) < 0:
            fault_set(ps.fault, FAULT_MEMORY)
            return NONE
    while done < ps.spare.size:
        item = _waiting(ps, shape, ps.spare.at[done], &number)
        done += 1
        for i in range(number):
            symbol = ps.owner[item[1]]
            if item[stride - 1] == SELF and ps.wanted[symbol] != ps.wanted_now:
                ps.wanted[symbol] = ps.wanted_now
                if words_push(&ps.spare, 2 * symbol) < 0:
                    fault_set(ps.fault, FAULT_MEMORY)
                    return NONE
            item += stride
    base = ps.spare.size
    place = ps.restricted.size
    if words_reserve(&ps.spare, 1 + <size_t>count * stride) < 0 \
            or words_reserve(&ps.restricted, 2 + <size_t>count) < 0:
        fault_set(ps.fault, FAULT_MEMORY)
        return NONE
    ps.spare.at[base] = ROW_RESTRICTED
    ps.spare.size += 1
    for i in range(count):
        symbol = items[i * stride]
        if symbol & 1 or ps.wanted[symbol >> 1] != ps.wanted_now:
            continue
        if ps.limits != NULL and ps.limits[symbol >> 1] != NONE:
            ps.spare.at[base] |= ROW_STAMPED
        at = ps.spare.size
        memcpy(ps.spare.at + at, items + i * stride, stride * sizeof(uint32_t))
        ps.spare.size += stride
        number = items[i * stride + stride - 1]
        if number == SELF:
            continue
        if origins <= FEW_ORIGINS:
            known = 0
            while known < origins and ps.restricted.at[place + 2 + known] != number:
                known += 1
        else:
            known = map_get(&ps.numbers, 0, number)
        if known == origins or known == NONE:
            known = origins
            ps.restricted.at[place + 2 + origins] = number
            origins += 1
            if not _map_origins(ps, ps.restricted.at + place + 2, origins):
                return NONE
        ps.spare.at[at + stride - 1] = known
    ps.restricted.at[place] = _shape(ps, ps.spare.at + base, <uint32_t>(ps.spare.size - base))
    ps.restricted.at[place + 1] = origins
    ps.restricted.size = place + 2 + origins
    return <uint32_t>place


cdef row_t _restrict(Parser* ps, row_t row, set_t emitted) noexcept nogil:
    """What may still matter of ``row`` as an origin of the items that a scan of ``emitted``
    moves."""
    cdef uint32_t shape = ps.rows[row].shape
    cdef uint32_t place = map_get(&ps.restrictions, emitted, shape)
    cdef uint32_t i, count
    if place == NONE:
        place = _make_restriction(ps, shape, emitted)
        if ps.fault.code:
            return row
        if map_put(&ps.restrictions, emitted, shape, place) < 0:
            fault_set(ps.fault, FAULT_MEMORY)
            return row
    count = ps.restricted.at[place + 1]
    ps.spare.size = 0
    if words_reserve(&ps.spare, count + 3) < 0:
        fault_set(ps.fault, FAULT_MEMORY)
        return row
    ps.spare.at[0] = ps.restricted.at[place]
    for i in range(count):
        ps.spare.at[1 + i] = ps.rows[row].origins[ps.restricted.at[place + 2 + i]]
    if ps.shapes[ps.spare.at[0]].flags & ROW_STAMPED:
        ps.spare.at[count + 1] = ps.clock
        ps.spare.at[count + 2] = ps.depth
        count += 2
    return _row(ps, ps.spare.at, count + 1)


cdef inline uint32_t _origin(const Parser* ps, row_t row, const uint32_t* item) noexcept nogil:
    """The origin of an item of ``row``, as a row, once the item moves on."""
    cdef uint32_t number = item[ps.stride - 1]
    if number != SELF:
        return ps.rows[row].origins[number]
    return ps.own if row == ps.scanned else row


cdef uint32_t _path_of(const Parser* ps, row_t row) noexcept nogil:
    """The number of the path that stands for ``row``, the first to it, or NONE."""
    cdef uint32_t at
    for at in range(<uint32_t>(ps.paths.size // PATH_WORDS)):
        if ps.paths.at[at * PATH_WORDS] == row:
            return at
    return NONE


cdef void _consult(Parser* ps, row_t row) noexcept nogil:
    """Note that the closure depends on the items of ``row``, and how its origins are reached.

    The first path to a row stands for it; that others lead to the same row is part of the variant.
    """
    cdef uint32_t at, number
    if ps.paths.size > MOST_PATHS * PATH_WORDS:
        return  # too many for a variant: no more book-keeping
    at = _path_of(ps, row)
    if at == NONE or ps.paths.at[at * PATH_WORDS + 3] != NONE:
        return
    ps.paths.at[at * PATH_WORDS + 3] = ps.rows[row].shape
    for number in range(ps.rows[row].origin_count):
        if words_push(&ps.paths, ps.rows[row].origins[number]) < 0 \
                or words_push(&ps.paths, at) < 0 or words_push(&ps.paths, number) < 0 \
                or words_push(&ps.paths, NONE) < 0:
            fault_set(ps.fault, FAULT_MEMORY)
            return


cdef row_t _forward(
    Parser* ps, uint32_t place, row_t origin, uint64_t parameter
) noexcept nogil:
    """The furthest origin that is as good as ``origin`` for an item that has just got it."""
    cdef uint32_t rule = ps.owner[place], wanted = rule
    cdef uint32_t stride = ps.stride
    cdef uint32_t steps, i, count
    cdef uint64_t value = parameter
    cdef row_t row = origin
    cdef const uint32_t* item
    cdef const uint32_t* found
    if ps.limits != NULL and ps.limits[rule] != NONE:
        return origin  # each derivation counts its own tokens
    for steps in range(FURTHEST):
        _consult(ps, row)
        item = _waiting(ps, ps.rows[row].shape, 2 * wanted, &count)
        found = NULL
        for i in range(count):
            if stride == 3 or _argument(ps, item[1], _parameter(ps, item)) == value:
                if found != NULL:
                    return origin
                found = item
            item += stride
        if found == NULL or ps.symbols[found[1] + 1] != NONE:
            break
        wanted = ps.owner[found[1]]
        if ps.limits != NULL and ps.limits[wanted] != NONE:
            break
        value = _parameter(ps, found)
        if found[stride - 1] != SELF:
            row = ps.rows[row].origins[found[stride - 1]]
        if wanted == rule and value == parameter:
            if row == origin:
                break
            origin = row
    return origin


cdef void _complete(Parser* ps, uint32_t rule, uint32_t origin, uint64_t parameter) noexcept nogil:
    """``rule`` is finished: move the items that wait for it, in its origin or in this row."""
    cdef const uint32_t* item
    cdef uint32_t i, count, place
    cdef uint32_t stride = ps.stride
    cdef uint64_t value
    if origin != SELF:
        _consult(ps, origin)
        item = _waiting(ps, ps.rows[origin].shape, 2 * rule, &count)
        for i in range(count):
            value = _parameter(ps, item)
            if _argument(ps, item[1], value) == parameter:
                place = item[1] + 1
                if ps.tail[ps.owner[place]] and item[stride - 1] == SELF:
                    _add(ps, place, _forward(ps, place, _origin(ps, origin, item), value), value)
                else:
                    _add(ps, place, _origin(ps, origin, item), value)
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
                _add(ps, place, item[stride - 1], value)  # may move the items: ``item`` is stale


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
                cond_holds(ps.conds, production.condition, parameter):
            _add(ps, production.place, SELF, parameter)


cdef uint32_t _shape(Parser* ps, const uint32_t* words, uint32_t length) noexcept nogil:
    """Intern a shape, given as [flags, items...]; 0 with a fault set when that fails."""
    cdef uint32_t before = ps.shape_words.count, shape
    cdef Shape* grown
    shape = interner_put(&ps.shape_words, words, length)
    if shape == NONE:
        fault_set(ps.fault, FAULT_MEMORY)
        return 0
    if ps.shape_words.count == before:
        return shape
    grown = <Shape*>array_grown(ps.shapes, &ps.shapes_room, shape, sizeof(Shape))
    if grown == NULL:
        interner_drop(&ps.shape_words)
        fault_set(ps.fault, FAULT_MEMORY)
        return 0
    ps.shapes = grown
    words = ps.shape_words.entries[shape].words
    ps.shapes[shape].items = words + 1
    ps.shapes[shape].count = (length - 1) // ps.stride
    ps.shapes[shape].flags = words[0]
    ps.shapes[shape].start = UNKNOWN
    return shape


cdef row_t _row(Parser* ps, const uint32_t* words, uint32_t length) noexcept nogil:
    """Intern a row, given as [shape, origins..., clock and depth if stamped].

    FIRST_ROW with a fault set when that fails.
    """
    cdef uint32_t before = ps.contents.count
    cdef Row* grown
    cdef row_t row = interner_put(&ps.contents, words, length)
    if row == NONE:
        fault_set(ps.fault, FAULT_MEMORY)
        return FIRST_ROW
    if ps.contents.count == before:
        return row
    if ps.contents.count > ps.row_limit:
        interner_drop(&ps.contents)
        fault_set(ps.fault, FAULT_ROWS)
        return FIRST_ROW
    grown = <Row*>array_grown(ps.rows, &ps.rows_room, row, sizeof(Row))
    if grown == NULL:
        interner_drop(&ps.contents)
        fault_set(ps.fault, FAULT_MEMORY)
        return FIRST_ROW
    ps.rows = grown
    words = ps.contents.entries[row].words
    ps.rows[row].shape = words[0]
    ps.rows[row].origins = words + 1
    ps.rows[row].origin_count = length - 1
    ps.rows[row].clock = NONE
    ps.rows[row].depth = 0
    if ps.shapes[words[0]].flags & ROW_STAMPED:
        ps.rows[row].origin_count -= 2
        ps.rows[row].clock = words[length - 2]
        ps.rows[row].depth = words[length - 1]
    return row


cdef void _open(Parser* ps) noexcept nogil:
    """Begin a new closure with no items."""
    ps.items.size = 0
    ps.empty.size = 0
    ps.work = 0
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
        origin = item[stride - 1]
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
        elif ps.is_token[symbol >> 1]:
            flags |= ROW_TOKENS
        at += stride
    if ps.fault.code:
        return FIRST_ROW
    if ps.paths.size <= MOST_PATHS * PATH_WORDS:
        # Every origin met counts for the variant, those of the completed items too.
        at = stride - 1
        while at < ps.items.size:
            if ps.items.at[at] != SELF:
                symbol = _path_of(ps, ps.items.at[at])
                if symbol != NONE:
                    ps.paths.at[symbol * PATH_WORDS + 1] |= PATH_USED
            at += stride
    at = 0
    while at < ps.items.size:
        if ps.items.at[at] != NONE:
            if kept != at:
                memcpy(ps.items.at + kept, ps.items.at + at, stride * sizeof(uint32_t))
            kept += stride
        at += stride
    ps.items.size = kept
    _sort_items(ps)
    if ps.fault.code:
        return FIRST_ROW
    return _name_origins(ps, flags, NONE, 0)


cdef row_t _name_origins(
    Parser* ps, uint32_t flags, uint32_t clock, uint32_t depth
) noexcept nogil:
    """The row of the closed, sorted items: number the origins as they come, intern shape and
    row."""
    cdef uint32_t stride = ps.stride
    cdef size_t at
    cdef uint32_t origin, number, count
    cdef size_t words = ps.items.size + 1
    # sorted: [flags, items with numbers...] [shape, origins...]
    ps.sorted.size = 0
    if words_reserve(&ps.sorted, words + 3 + ps.items.size // stride) < 0:
        fault_set(ps.fault, FAULT_MEMORY)
        return FIRST_ROW
    ps.sorted.at[0] = flags
    if ps.items.size:
        memcpy(ps.sorted.at + 1, ps.items.at, ps.items.size * sizeof(uint32_t))
    ps.sorted.size = words + 1
    at = stride
    while at < words:
        origin = ps.sorted.at[at]
        if origin != SELF:
            count = <uint32_t>(ps.sorted.size - words - 1)
            if count <= FEW_ORIGINS:
                number = 0
                while number < count and ps.sorted.at[words + 1 + number] != origin:
                    number += 1
            else:
                number = map_get(&ps.numbers, 0, origin)
            if number == count or number == NONE:
                number = count
                ps.sorted.at[ps.sorted.size] = origin
                ps.sorted.size += 1
                if not _map_origins(ps, ps.sorted.at + words + 1, count + 1):
                    return FIRST_ROW
            ps.sorted.at[at] = number
        at += stride
    ps.sorted.at[words] = _shape(ps, ps.sorted.at, <uint32_t>words)
    if ps.fault.code:
        return FIRST_ROW
    if flags & ROW_STAMPED:
        ps.sorted.at[ps.sorted.size] = clock
        ps.sorted.at[ps.sorted.size + 1] = depth
        ps.sorted.size += 2
    return _row(ps, ps.sorted.at + words, <uint32_t>(ps.sorted.size - words))


cdef int parser_begin(Parser* ps) noexcept nogil:
    """Make FIRST_ROW once the grammar is in place; -1 with a fault set when that fails."""
    cdef uint32_t flags = 0 if ps.initial_skip else ROW_NO_SKIP
    ps.predicted = <uint32_t*>calloc(ps.rule_count + 1, sizeof(uint32_t))
    ps.wanted = <uint64_t*>calloc(ps.rule_count + 1, sizeof(uint64_t))
    if ps.predicted == NULL or ps.wanted == NULL:
        fault_set(ps.fault, FAULT_MEMORY)
        return -1
    _open(ps)
    _predict(ps, ps.start_rule, 0)
    _close(ps, flags)
    return -1 if ps.fault.code else 0


# --------------------------------------------------------------------------- scanning

# A variant in ``variants``: [place of the next older one or NONE, number of paths, shape, number of
# origins, paths..., origins...]. A path is (parent path, step from it, first path with the same
# row, shape that was consulted or NONE); path 0 is the row itself. A step is the number of an
# origin, or leads to the row's restriction. An origin is a path.

cdef void _record_variant(Parser* ps, row_t row, set_t emitted, row_t result) noexcept nogil:
    """Keep what the closure just made depended on."""
    cdef uint32_t renamed[MOST_PATHS]
    cdef uint32_t count = <uint32_t>(ps.paths.size // PATH_WORDS)
    cdef uint32_t kept = 0, i, j, origins = ps.rows[result].origin_count
    cdef size_t place = ps.variants.size
    cdef uint32_t shape = ps.rows[row].shape
    cdef uint32_t* path
    cdef uint32_t* made
    if count > MOST_PATHS or ps.variants.size > VARIANT_WORDS:
        return
    if words_reserve(&ps.variants, 4 + 4 * <size_t>count + origins) < 0:
        fault_set(ps.fault, FAULT_MEMORY)
        return
    made = ps.variants.at + place + 4
    for i in range(count):
        path = ps.paths.at + i * PATH_WORDS
        if not (path[1] & PATH_USED or path[3] != NONE):
            # Either never looked at, or another way to a row that an earlier path stands for.
            j = 0
            while j < i and ps.paths.at[j * PATH_WORDS] != path[0]:
                j += 1
            if j == i or not (
                ps.paths.at[j * PATH_WORDS + 1] & PATH_USED
                or ps.paths.at[j * PATH_WORDS + 3] != NONE
            ):
                continue
        j = 0
        while ps.paths.at[j * PATH_WORDS] != path[0]:
            j += 1
        renamed[i] = kept
        made[4 * kept] = renamed[path[1] & ~PATH_USED] if i else 0
        made[4 * kept + 1] = path[2]
        made[4 * kept + 2] = renamed[j]
        made[4 * kept + 3] = path[3]
        kept += 1
    made += 4 * kept
    for i in range(origins):
        j = 0
        while ps.paths.at[j * PATH_WORDS] != ps.rows[result].origins[i]:
            j += 1
        made[i] = renamed[j]
    made = ps.variants.at + place
    made[0] = map_get(&ps.moves, shape, emitted)
    made[1] = kept
    made[2] = ps.rows[result].shape
    made[3] = origins
    if map_put(&ps.moves, shape, emitted, <uint32_t>place) < 0:
        fault_set(ps.fault, FAULT_MEMORY)
        return
    ps.variants.size = place + 4 + 4 * kept + origins


cdef row_t _by_variant(Parser* ps, row_t row, set_t emitted) noexcept nogil:
    """The scan by a variant of the row's shape, or NONE if none fits."""
    cdef uint32_t rows[MOST_PATHS]
    cdef uint32_t words[MOST_PATHS + 1]
    cdef uint32_t place = map_get(&ps.moves, ps.rows[row].shape, emitted)
    cdef uint32_t tries = 0, i, j, count
    cdef const uint32_t* path
    cdef bint fits
    while place != NONE and tries < MOST_VARIANTS:
        count = ps.variants.at[place + 1]
        path = ps.variants.at + place + 4
        rows[0] = row
        fits = True
        for i in range(1, count):
            path += 4
            if path[1] == STEP_RESTRICT:
                rows[i] = _restrict(ps, row, emitted)
            else:
                rows[i] = ps.rows[rows[path[0]]].origins[path[1]]
            j = 0
            while rows[j] != rows[i]:
                j += 1
            if j != path[2] or (path[3] != NONE and ps.rows[rows[i]].shape != path[3]):
                fits = False
                break
        if fits:
            path = ps.variants.at + place + 4 + 4 * count
            words[0] = ps.variants.at[place + 2]
            count = ps.variants.at[place + 3]
            for i in range(count):
                words[1 + i] = rows[path[i]]
            return _row(ps, words, count + 1)
        place = ps.variants.at[place]
        tries += 1
    return NONE


cdef row_t _scan(Parser* ps, row_t row, set_t emitted) noexcept nogil:
    cdef const uint32_t* terminals = ps.lexer.sets.entries[emitted].words
    cdef uint32_t length = ps.lexer.sets.entries[emitted].length
    cdef uint32_t i, j, count, place
    cdef uint32_t stride = ps.stride
    cdef const uint32_t* item
    cdef row_t result
    if ps.lexer.set_is_skip[emitted]:
        return _after_skip(ps, row, emitted)
    result = _by_variant(ps, row, emitted)
    if result != NONE:
        return result
    _open(ps)
    ps.paths.size = 0
    if words_push(&ps.paths, row) < 0 or words_push(&ps.paths, 0) < 0 \
            or words_push(&ps.paths, 0) < 0 or words_push(&ps.paths, NONE) < 0:
        fault_set(ps.fault, FAULT_MEMORY)
        return FIRST_ROW
    _consult(ps, row)
    ps.scanned = row
    ps.own = _restrict(ps, row, emitted)
    if ps.fault.code or words_push(&ps.paths, ps.own) < 0 or words_push(&ps.paths, 0) < 0 \
            or words_push(&ps.paths, STEP_RESTRICT) < 0 or words_push(&ps.paths, NONE) < 0:
        fault_set(ps.fault, FAULT_MEMORY)
        return FIRST_ROW
    for i in range(length):
        item = _waiting(ps, ps.rows[row].shape, 2 * terminals[i] + 1, &count)
        for j in range(count):
            place = item[1] + 1
            if ps.tail[ps.owner[place]] and item[stride - 1] == SELF:
                _add(
                    ps, place, _forward(ps, place, ps.own, _parameter(ps, item)),
                    _parameter(ps, item)
                )
            else:
                _add(ps, place, _origin(ps, row, item), _parameter(ps, item))
            item += stride
    result = _close(ps, 0)
    if not ps.fault.code:
        _record_variant(ps, row, emitted, result)
    return result


cdef row_t _after_skip(Parser* ps, row_t row, set_t emitted) noexcept nogil:
    """What of ``row`` may follow a lexeme that was skipped as ``emitted``."""
    cdef const Shape* shape = &ps.shapes[ps.rows[row].shape]
    cdef const uint32_t* skipped = ps.lexer.sets.entries[emitted].words
    cdef uint32_t skipped_count = ps.lexer.sets.entries[emitted].length
    cdef const uint32_t* item = shape.items
    cdef uint32_t stride = ps.stride, flags = shape.flags & ~ROW_TOKENS
    cdef uint32_t i, j, terminal
    cdef uint32_t* kept
    ps.items.size = 0
    if words_reserve(&ps.items, <size_t>shape.count * stride + stride) < 0:
        fault_set(ps.fault, FAULT_MEMORY)
        return FIRST_ROW
    for i in range(shape.count):
        if item[0] & 1:
            terminal = item[0] >> 1
            j = 0
            while j < skipped_count and skipped[j] != ps.skip_of[terminal]:
                j += 1
            if j == skipped_count:
                item += stride
                continue
            if ps.skip_once[terminal]:
                flags |= ROW_SKIPPED
            if ps.is_token[terminal]:
                flags |= ROW_TOKENS
        kept = ps.items.at + ps.items.size
        memcpy(kept, item, stride * sizeof(uint32_t))
        if item[stride - 1] != SELF:
            kept[stride - 1] = ps.rows[row].origins[item[stride - 1]]
        ps.items.size += stride
        item += stride
    if flags == shape.flags and ps.items.size == <size_t>shape.count * stride:
        return row
    return _name_origins(ps, flags, NONE, 0)


cdef row_t parser_row(Parser* ps, const uint32_t* words, uint32_t length) noexcept nogil:
    """Intern a row, given as [shape, origins..., clock and depth if stamped]."""
    return _row(ps, words, length)


cdef row_t parser_rebuild(
    Parser* ps, const uint32_t* items, uint32_t count, uint32_t flags, uint32_t clock,
    uint32_t depth
) noexcept nogil:
    """The row of these items, their origins given as rows; FIRST_ROW with a fault set when that
    fails."""
    cdef uint32_t stride = ps.stride, i
    ps.items.size = 0
    if words_reserve(&ps.items, <size_t>count * stride + stride) < 0:
        fault_set(ps.fault, FAULT_MEMORY)
        return FIRST_ROW
    memcpy(ps.items.at, items, <size_t>count * stride * sizeof(uint32_t))
    ps.items.size = <size_t>count * stride
    flags &= ~(ROW_STAMPED | ROW_TOKENS)
    for i in range(count):
        if items[i * stride] & 1:
            if ps.is_token[items[i * stride] >> 1]:
                flags |= ROW_TOKENS
        elif flags & ROW_RESTRICTED and ps.limits[items[i * stride] >> 1] != NONE:
            flags |= ROW_STAMPED
    _sort_items(ps)
    if ps.fault.code:
        return FIRST_ROW
    return _name_origins(ps, flags, clock, depth)


cdef row_t parser_finish(
    Parser* ps, const uint32_t* finished, uint32_t count
) noexcept nogil:
    """The row in which rules are finished by force: (rule, origin, parameter low, high) each."""
    cdef uint32_t i
    _open(ps)
    ps.paths.size = MOST_PATHS * PATH_WORDS + 1  # no variant is made of this
    ps.scanned = NONE
    for i in range(count):
        _complete(
            ps, finished[4 * i], finished[4 * i + 1],
            finished[4 * i + 2] | (<uint64_t>finished[4 * i + 3] << 32)
        )
    return _close(ps, 0)


cdef row_t parser_scan(Parser* ps, row_t row, set_t emitted) noexcept nogil:
    """The row after ``row`` and a lexeme that matched the terminals of ``emitted``.

    FIRST_ROW with a fault set when a limit is passed or memory is out.
    """
    # Without a clock the key is the row alone.
    cdef uint64_t key = (<uint64_t>(<uint32_t>(ps.clock + 1)) << 32) | row
    cdef uint64_t second = (<uint64_t>ps.depth << 32) | emitted
    cdef row_t result = map_get(&ps.scans, key, second)
    if result != NONE:
        return result
    result = _scan(ps, row, emitted)
    if not ps.fault.code and map_put(&ps.scans, key, second, result) < 0:
        fault_set(ps.fault, FAULT_MEMORY)
    return result


cdef state_t parser_start_state(Parser* ps, row_t row) noexcept nogil:
    cdef uint32_t shape = ps.rows[row].shape
    cdef const uint32_t* item = ps.shapes[shape].items
    cdef uint32_t i, j, symbol, skip, last = NONE
    cdef size_t terminals
    cdef state_t state
    ps.sorted.size = 0
    for i in range(ps.shapes[shape].count):
        symbol = item[0]
        if symbol & 1 and symbol != last:
            last = symbol
            if words_push(&ps.sorted, symbol >> 1) < 0:
                fault_set(ps.fault, FAULT_MEMORY)
                return DEAD
        item += ps.stride
    terminals = ps.sorted.size
    if not ps.shapes[shape].flags & ROW_NO_SKIP:
        for i in range(<uint32_t>terminals):
            skip = ps.skip_of[ps.sorted.at[i]]
            if skip == NONE or (
                ps.shapes[shape].flags & ROW_SKIPPED and ps.skip_once[ps.sorted.at[i]]
            ):
                continue
            j = <uint32_t>terminals
            while j < ps.sorted.size and ps.sorted.at[j] != skip:
                j += 1
            if j < ps.sorted.size:
                continue
            _waiting(ps, shape, 2 * skip + 1, &j)
            if j == 0 and words_push(&ps.sorted, skip) < 0:
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
        ps.shapes[shape].start = state
    return state
