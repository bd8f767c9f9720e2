# cython: language_level=3, boundscheck=False, wraparound=False
# cython: initializedcheck=False, cdivision=True
"""Limits on the tokens of a derivation.

A token is spent in a derivation if a byte of it is. So a derivation that began in token b has spent
n - b tokens once n tokens are consumed, and with a limit of N it is over then or earlier if
n - b is N. Rows know no positions; in grammars with limits, and in no others, an origin in which
something waits for a limited rule is *stamped* with b when a scan makes it, so that it tells of all
that began there when that was, a rule whose first symbol is a rule under way included. Stamped rows
are rows like any other (a matcher stands on them, ``rollback`` and ``copy`` are what they always
are); masks are those of the *plain* rows without stamps, shared by all positions.

*At the end of a token* that spends the last of a derivation's limit, :func:`budget_expire`

1. drops the items of that derivation, if anything else can go on with the lexeme in progress, or
   begin one, or the text may end: other derivations of the same text, or what follows this one;
2. else ends the lexeme in progress, if it matches, and looks again;
3. else *cuts*: the derivation counts as finished as it stands, and the text goes on after it.

So there is always a way to go on. Masks allow tokens that lead to a cut only where every token
does: that look-ahead of one token is in ``_core``.

Invariant: a plain row is what scans without a clock make of the same lexemes.

Cost: a map look-up per token; the end of a derivation costs a pass over its row and its origins.
"""

from libc.stdint cimport uint32_t, uint64_t, uint8_t
from libc.string cimport memcpy, memset

from llgx._earley cimport (
    ROW_ACCEPTS, ROW_RESTRICTED, ROW_STAMPED, Parser, parser_argument, parser_finish,
    parser_origin, parser_rebuild, parser_row, parser_scan, row_dead, row_state, row_t,
)
from llgx._engine cimport Engine
from llgx._lexer cimport DEAD, NO_SET, lexer_keep, lexer_step, lexer_tail, set_t, state_t
from llgx._mask cimport engine_reread
from llgx._memory cimport (
    FAULT_MEMORY, NONE, Map, Words, fault_set, map_free, map_get, map_put, words_free, words_push,
    words_reserve,
)
from llgx._scopes cimport scopes_cut, scopes_depth, scopes_end, scopes_hold


cdef enum:
    MOST_TURNS = 1000    # lexemes ended and derivations cut at the end of one token


cdef bint budget_step(
    Engine* engine, row_t* row, state_t* state, bint* fresh, uint32_t* begin, uint32_t now,
    uint8_t byte
) noexcept nogil:
    """``engine_step`` with stamps: ``begin`` is the token that the lexeme in progress began in,
    ``now`` the one that is read."""
    cdef Parser* ps = &engine.parser
    cdef row_t at = row[0]
    cdef state_t target = lexer_step(&engine.lexer, state[0], byte)
    cdef uint32_t first = now if fresh[0] else begin[0]
    cdef uint32_t hidden, inner
    cdef set_t emitted
    cdef bint begins = False
    cdef const uint8_t* tail
    if target == DEAD:
        emitted = engine.lexer.states[state[0]].accept
        if emitted == NO_SET or fresh[0]:
            return False
        ps.clock = first
        at = parser_scan(ps, at, emitted)
        ps.clock = NONE
        first = now
        target = lexer_step(&engine.lexer, row_state(ps, at), byte)
        if target == DEAD:
            return False
    emitted = engine.lexer.states[target].eager
    if emitted != NO_SET:
        ps.clock = first
        at = parser_scan(ps, at, emitted)
        target = row_state(ps, at)
        begins = True
        hidden = 0
        if not engine.fault.code and not row_dead(ps, at) and engine.scopes == NULL:
            hidden = lexer_tail(&engine.lexer, emitted, &tail)
        ps.clock = now
        if hidden:
            engine_reread(engine, &at, &target, &begins, tail, hidden, &inner)
        ps.clock = NONE
        first = now
        if engine.fault.code or row_dead(ps, at):
            return False
    if engine.fault.code:
        return False
    row[0] = at
    state[0] = target
    fresh[0] = begins
    begin[0] = first
    return True


# --------------------------------------------------------------------------- rows on the way up

cdef row_t budget_plain(Engine* engine, row_t row) noexcept nogil:
    """``row`` without stamps. Kept."""
    cdef Parser* ps = &engine.parser
    cdef Words* stack = &engine.budget_stack
    cdef size_t floor = stack.size
    cdef uint32_t i, at, known, count
    cdef bint ready
    known = map_get(&engine.plain_rows, 0, row)
    if known != NONE:
        return known
    words_push(stack, row)
    while stack.size > floor and not engine.fault.code:
        at = stack.at[stack.size - 1]
        ready = True
        for i in range(ps.rows[at].origin_count):
            if map_get(&engine.plain_rows, 0, ps.rows[at].origins[i]) == NONE:
                ready = False
                if words_push(stack, ps.rows[at].origins[i]) < 0:
                    fault_set(&engine.fault, FAULT_MEMORY)
                    break
        if not ready:
            continue
        count = ps.rows[at].origin_count
        engine.budget_words.size = 0
        if words_reserve(&engine.budget_words, count + 3) < 0:
            fault_set(&engine.fault, FAULT_MEMORY)
            break
        engine.budget_words.at[0] = ps.rows[at].shape
        for i in range(count):
            engine.budget_words.at[1 + i] = map_get(
                &engine.plain_rows, 0, ps.rows[at].origins[i]
            )
        count += 1
        if ps.shapes[ps.rows[at].shape].flags & ROW_STAMPED:
            engine.budget_words.at[count] = NONE
            engine.budget_words.at[count + 1] = 0
            count += 2
        known = parser_row(ps, engine.budget_words.at, count)
        if engine.fault.code or map_put(&engine.plain_rows, 0, at, known) < 0:
            fault_set(&engine.fault, FAULT_MEMORY)
            break
        stack.size -= 1
    stack.size = floor
    return known if not engine.fault.code else row


cdef inline uint32_t _last(const Parser* ps, uint32_t rule, uint32_t begin) noexcept nogil:
    """The number of tokens at which a derivation that began in token ``begin`` is over."""
    if ps.limits[rule] == NONE or begin == NONE or ps.limits[rule] >= NONE - begin:
        return NONE
    return begin + ps.limits[rule]


cdef uint32_t _row_deadline(Engine* engine, row_t row) noexcept nogil:
    """The least number of tokens at which a derivation that a row is in the middle of is over."""
    cdef Parser* ps = &engine.parser
    cdef Words* stack = &engine.budget_stack
    cdef size_t floor = stack.size
    cdef uint32_t i, at, least = NONE, known
    cdef const uint32_t* item
    cdef row_t origin
    cdef bint ready
    known = map_get(&engine.deadlines, 0, row)
    if known != NONE:
        return known - 1 if known else NONE
    words_push(stack, row)
    while stack.size > floor and not engine.fault.code:
        at = stack.at[stack.size - 1]
        ready = True
        least = NONE
        for i in range(ps.rows[at].origin_count):
            known = map_get(&engine.deadlines, 0, ps.rows[at].origins[i])
            if known == NONE:
                ready = False
                if words_push(stack, ps.rows[at].origins[i]) < 0:
                    fault_set(&engine.fault, FAULT_MEMORY)
                    break
            elif known:
                least = min(least, known - 1)
        if not ready:
            continue
        # What waits in an origin for its first symbol began there, with a lexeme that is over.
        item = ps.shapes[ps.rows[at].shape].items
        for i in range(ps.shapes[ps.rows[at].shape].count):
            origin = parser_origin(ps, at, item)
            if origin != at or ps.shapes[ps.rows[at].shape].flags & ROW_RESTRICTED:
                least = min(least, _last(ps, ps.owner[item[1]], ps.rows[origin].clock))
            item += ps.stride
        # Kept plus one; 0: none.
        if map_put(&engine.deadlines, 0, at, least + 1) < 0:
            fault_set(&engine.fault, FAULT_MEMORY)
            break
        stack.size -= 1
    stack.size = floor
    return least


cdef uint32_t budget_deadline(
    Engine* engine, row_t row, bint fresh, uint32_t begin
) noexcept nogil:
    """The least number of tokens at which a derivation that is under way is over, or NONE.

    Some may be over all the same: those that the lexeme in progress has nothing to do with.
    """
    cdef Parser* ps = &engine.parser
    cdef uint32_t least = _row_deadline(engine, row), i
    cdef const uint32_t* item
    if fresh:
        return least
    item = ps.shapes[ps.rows[row].shape].items
    for i in range(ps.shapes[ps.rows[row].shape].count):
        if parser_origin(ps, row, item) == row:
            least = min(least, _last(ps, ps.owner[item[1]], begin))
        item += ps.stride
    return least


# --------------------------------------------------------------------------- what is over

cdef struct Purge:       # one pass over a row and its origins
    uint32_t now
    uint32_t begin       # token of the lexeme in progress, NONE if there is none
    uint32_t depth       # scopes around it
    row_t top
    Map kept             # row -> what is left of it plus 1, 0: nothing
    Words stack
    Words items
    Map begun            # (row, rule): rules under way, where they began
    Words pairs          # the same
    Words over           # (rule, origin, parameter low, high): derivations that are over


cdef bint _is_over(
    Engine* engine, const Purge* purge, row_t row, const uint32_t* item
) noexcept nogil:
    cdef Parser* ps = &engine.parser
    cdef row_t origin = parser_origin(ps, row, item)
    cdef uint32_t begin = ps.rows[origin].clock
    cdef uint32_t end
    if origin == row:
        if map_get(&purge.begun, row, ps.owner[item[1]]) == NONE:
            return False
        if row == purge.top:
            begin = purge.begin
    end = _last(ps, ps.owner[item[1]], begin)
    return end != NONE and end <= purge.now


cdef bint _goes_on(
    Engine* engine, const Purge* purge, const uint32_t* item, state_t state
) noexcept nogil:
    """Whether an item of the row waits for what is in progress, or for anything if nothing is."""
    cdef Parser* ps = &engine.parser
    cdef const uint32_t* words = engine.lexer.vectors.entries[state].words
    cdef uint32_t i, terminal = item[0] >> 1
    if item[0] & 1 == 0:
        return False
    if purge.begin == NONE:
        return True
    for i in range(0, engine.lexer.vectors.entries[state].length, 2):
        if words[i] == terminal or words[i] == ps.skip_of[terminal]:
            return True
    return False


cdef void _climb(Engine* engine, Purge* purge, state_t state) noexcept nogil:
    """Find the rules under way, from the items that can go on upwards."""
    cdef Parser* ps = &engine.parser
    cdef const uint32_t* item = ps.shapes[ps.rows[purge.top].shape].items
    cdef uint32_t i, rule
    cdef size_t at = 0
    cdef row_t row
    for i in range(ps.shapes[ps.rows[purge.top].shape].count):
        if _goes_on(engine, purge, item, state):
            _begin(engine, purge, parser_origin(ps, purge.top, item), ps.owner[item[1]])
        item += ps.stride
    while at < purge.pairs.size and not engine.fault.code:
        row = purge.pairs.at[at]
        rule = purge.pairs.at[at + 1]
        at += 2
        item = ps.shapes[ps.rows[row].shape].items
        for i in range(ps.shapes[ps.rows[row].shape].count):
            if item[0] == 2 * rule:
                _begin(engine, purge, parser_origin(ps, row, item), ps.owner[item[1]])
            item += ps.stride


cdef void _begin(Engine* engine, Purge* purge, row_t row, uint32_t rule) noexcept nogil:
    if map_get(&purge.begun, row, rule) != NONE:
        return
    if map_put(&purge.begun, row, rule, 0) < 0 or words_push(&purge.pairs, row) < 0 \
            or words_push(&purge.pairs, rule) < 0:
        fault_set(&engine.fault, FAULT_MEMORY)


cdef bint budget_is_open(
    Engine* engine, row_t row, state_t state, bint fresh
) noexcept nogil:
    """Whether a derivation with a limit is under way."""
    cdef Parser* ps = &engine.parser
    cdef Purge purge
    cdef size_t at
    cdef bint found = False
    if budget_deadline(engine, row, fresh, 0) == NONE:
        return False
    memset(&purge, 0, sizeof(Purge))
    purge.begin = NONE if fresh else 0
    purge.top = row
    _climb(engine, &purge, state)
    for at in range(0, purge.pairs.size, 2):
        if ps.limits[purge.pairs.at[at + 1]] != NONE and (
            purge.pairs.at[at] != row or not fresh
        ):
            found = True
    _free(&purge)
    return found


cdef void _list_over(Engine* engine, Purge* purge, row_t row, state_t state) noexcept nogil:
    """List the derivations in a row that are under way and over."""
    cdef Parser* ps = &engine.parser
    cdef const uint32_t* item = ps.shapes[ps.rows[row].shape].items
    cdef uint64_t parameter
    cdef uint32_t i
    for i in range(ps.shapes[ps.rows[row].shape].count):
        if _is_over(engine, purge, row, item) and (
            map_get(&purge.begun, row, item[0] >> 1) != NONE if item[0] & 1 == 0
            else row == purge.top and _goes_on(engine, purge, item, state)
        ):
            parameter = _parameter_of(ps, item)
            if words_push(&purge.over, ps.owner[item[1]]) < 0 \
                    or words_push(&purge.over, parser_origin(ps, row, item)) < 0 \
                    or words_push(&purge.over, <uint32_t>parameter) < 0 \
                    or words_push(&purge.over, <uint32_t>(parameter >> 32)) < 0:
                fault_set(&engine.fault, FAULT_MEMORY)
        item += ps.stride


cdef inline uint64_t _parameter_of(const Parser* ps, const uint32_t* item) noexcept nogil:
    return item[2] | (<uint64_t>item[3] << 32) if ps.stride == 5 else 0


cdef bint _waits(
    const Parser* ps, const uint32_t* items, uint32_t count, uint32_t rule, uint64_t parameter
) noexcept nogil:
    """Whether one of some items waits for a rule with this parameter."""
    cdef uint32_t i
    for i in range(count):
        if items[0] == 2 * rule and \
                parser_argument(ps, items[1], _parameter_of(ps, items)) == parameter:
            return True
        items += ps.stride
    return False


cdef void _purge_row(Engine* engine, Purge* purge, row_t row) noexcept nogil:
    """Find out what is left of a row whose origins have been dealt with."""
    cdef Parser* ps = &engine.parser
    cdef const uint32_t* item = ps.shapes[ps.rows[row].shape].items
    cdef uint32_t count = ps.shapes[ps.rows[row].shape].count
    cdef uint32_t stride = ps.stride
    cdef uint32_t i, rule, left
    cdef row_t origin, made
    cdef bint more = True
    cdef const uint32_t* items
    cdef Words own
    memset(&own, 0, sizeof(Words))  # items that began here, left or not: 0, 1
    purge.items.size = 0
    if words_reserve(&purge.items, (<size_t>count + 1) * stride) < 0 \
            or words_reserve(&own, count + 1) < 0:
        fault_set(&engine.fault, FAULT_MEMORY)
        return
    for i in range(count):
        own.at[i] = 0
        origin = parser_origin(ps, row, item)
        rule = ps.owner[item[1]]
        if not _is_over(engine, purge, row, item):
            if origin == row:
                own.at[i] = 1  # so far: if something waits for it
            else:
                left = map_get(&purge.kept, 0, origin)
                if left and left != NONE and (rule == ps.start_rule or _waits(
                    ps, ps.shapes[ps.rows[left - 1].shape].items,
                    ps.shapes[ps.rows[left - 1].shape].count, rule, _parameter_of(ps, item)
                )):
                    memcpy(purge.items.at + purge.items.size, item, stride * sizeof(uint32_t))
                    purge.items.at[purge.items.size + stride - 1] = left - 1
                    purge.items.size += stride
        item += stride
    # What began here stays if what waits for it does.
    while more:
        more = False
        item = ps.shapes[ps.rows[row].shape].items
        for i in range(count):
            if own.at[i] == 1 and (ps.owner[item[1]] == ps.start_rule or _waits(
                ps, purge.items.at, <uint32_t>(purge.items.size // stride), ps.owner[item[1]],
                _parameter_of(ps, item)
            )):
                own.at[i] = 0
                more = True
                memcpy(purge.items.at + purge.items.size, item, stride * sizeof(uint32_t))
                purge.items.size += stride  # its origin is the row itself, whatever that becomes
            item += stride
    words_free(&own)
    left = 0
    if purge.items.size or ps.shapes[ps.rows[row].shape].flags & ROW_ACCEPTS:
        made = parser_rebuild(
            ps, purge.items.at, <uint32_t>(purge.items.size // stride),
            ps.shapes[ps.rows[row].shape].flags, ps.rows[row].clock, ps.rows[row].depth
        )
        left = made + 1
    if map_put(&purge.kept, 0, row, left) < 0:
        fault_set(&engine.fault, FAULT_MEMORY)


cdef row_t _left_of(Engine* engine, Purge* purge, state_t state) noexcept nogil:
    """The row without the derivations that are over, which are listed; NONE if nothing is left."""
    cdef Parser* ps = &engine.parser
    cdef uint32_t i, at, known
    cdef bint ready
    words_push(&purge.stack, purge.top)
    while purge.stack.size and not engine.fault.code:
        at = purge.stack.at[purge.stack.size - 1]
        if map_get(&purge.kept, 0, at) != NONE:
            purge.stack.size -= 1
            continue
        ready = True
        for i in range(ps.rows[at].origin_count):
            if map_get(&purge.kept, 0, ps.rows[at].origins[i]) == NONE:
                ready = False
                if words_push(&purge.stack, ps.rows[at].origins[i]) < 0:
                    fault_set(&engine.fault, FAULT_MEMORY)
                    break
        if not ready:
            continue
        _list_over(engine, purge, at, state)
        _purge_row(engine, purge, at)
        purge.stack.size -= 1
    known = map_get(&purge.kept, 0, purge.top)
    return known - 1 if known != NONE and known else NONE


cdef void _free(Purge* purge) noexcept nogil:
    map_free(&purge.kept)
    words_free(&purge.stack)
    words_free(&purge.items)
    map_free(&purge.begun)
    words_free(&purge.pairs)
    words_free(&purge.over)


cdef row_t _cut(Engine* engine, Purge* purge) noexcept nogil:
    """The row after the derivations that are over, taken as finished."""
    cdef Parser* ps = &engine.parser
    cdef const uint32_t* item
    cdef uint32_t i, stride = ps.stride
    cdef row_t own = NONE
    for i in range(0, <uint32_t>purge.over.size, 4):
        if purge.over.at[i + 1] != purge.top:
            continue
        if own == NONE:
            # What waits in the row itself becomes an origin.
            purge.items.size = 0
            if words_reserve(
                &purge.items, (<size_t>ps.shapes[ps.rows[purge.top].shape].count + 1) * stride
            ) < 0:
                fault_set(&engine.fault, FAULT_MEMORY)
                return purge.top
            item = ps.shapes[ps.rows[purge.top].shape].items
            for i in range(ps.shapes[ps.rows[purge.top].shape].count):
                if item[0] & 1 == 0:
                    memcpy(purge.items.at + purge.items.size, item, stride * sizeof(uint32_t))
                    if parser_origin(ps, purge.top, item) != purge.top:
                        purge.items.at[purge.items.size + stride - 1] = parser_origin(
                            ps, purge.top, item
                        )
                    purge.items.size += stride
                item += stride
            own = parser_rebuild(
                ps, purge.items.at, <uint32_t>(purge.items.size // stride), ROW_RESTRICTED,
                purge.begin, purge.depth
            )
            if engine.fault.code:
                return purge.top
            break
    for i in range(0, <uint32_t>purge.over.size, 4):
        if purge.over.at[i + 1] == purge.top:
            purge.over.at[i + 1] = own
    return parser_finish(ps, purge.over.at, <uint32_t>(purge.over.size // 4))


cdef bint _holds(
    Engine* engine, row_t row, state_t state, bint fresh, uint32_t context
) noexcept nogil:
    return engine.scopes == NULL or scopes_hold(engine, row, state, fresh, context)


cdef bint _end(
    Engine* engine, row_t* row, state_t state, uint32_t* context, set_t emitted, uint32_t begin
) noexcept nogil:
    """End the lexeme in progress. False, and nothing changed, where scopes refuse that."""
    cdef Parser* ps = &engine.parser
    cdef row_t after = row[0]
    cdef uint32_t inner = context[0]
    if engine.scopes == NULL:
        ps.clock = begin
        row[0] = parser_scan(ps, row[0], emitted)
        ps.clock = NONE
        return True
    if not scopes_end(engine, &after, state, &inner, emitted, begin) or row_dead(ps, after) \
            or not scopes_hold(engine, after, row_state(ps, after), True, inner):
        return False
    row[0] = after
    context[0] = inner
    return True


cdef void _leave_scopes(Engine* engine, const Purge* purge, uint32_t* context) noexcept nogil:
    """Give up the scopes that a derivation in ``purge.over`` opened."""
    cdef Parser* ps = &engine.parser
    cdef uint32_t depth = purge.depth, i
    if engine.scopes == NULL:
        return
    for i in range(0, <uint32_t>purge.over.size, 4):
        depth = min(depth, ps.rows[purge.over.at[i + 1]].depth)
    scopes_cut(engine, context, depth)


cdef bint budget_expire(
    Engine* engine, row_t* row, state_t* state, bint* fresh, uint32_t* context, uint32_t begin,
    uint32_t now
) noexcept nogil:
    """Deal with the derivations that have spent their tokens once ``now`` are consumed.

    Whether one of them was cut.
    """
    cdef Parser* ps = &engine.parser
    cdef Purge purge
    cdef row_t left
    cdef state_t kept
    cdef set_t emitted
    cdef bint cut = False, done = False
    cdef uint32_t turns = 0
    while turns < MOST_TURNS and not done \
            and budget_deadline(engine, row[0], fresh[0], begin) <= now \
            and not engine.fault.code:
        turns += 1
        memset(&purge, 0, sizeof(Purge))
        purge.now = now
        purge.begin = NONE if fresh[0] else begin
        purge.depth = scopes_depth(engine.scopes, context[0]) if engine.scopes != NULL else 0
        purge.top = row[0]
        _climb(engine, &purge, state[0])
        left = _left_of(engine, &purge, state[0])
        if purge.over.size == 0 or engine.fault.code:
            _free(&purge)
            break
        kept = DEAD
        if left != NONE:
            kept = row_state(ps, left)
            if not fresh[0]:
                kept = lexer_keep(&engine.lexer, state[0], kept)
        if left != NONE and (not row_dead(ps, left) if fresh[0] else kept != DEAD):
            emitted = NO_SET if fresh[0] else engine.lexer.states[kept].eager
            if emitted == NO_SET:
                if _holds(engine, left, kept, fresh[0], context[0]):
                    row[0] = left
                    state[0] = kept
                    done = True
            elif _end(engine, &left, kept, context, emitted, begin):
                row[0] = left
                state[0] = row_state(ps, left)
                fresh[0] = True
                _free(&purge)
                continue
        if not done:
            emitted = engine.lexer.states[state[0]].accept
            if fresh[0] or emitted == NO_SET \
                    or not _end(engine, row, state[0], context, emitted, begin):
                row[0] = _cut(engine, &purge)
                _leave_scopes(engine, &purge, context)
                cut = True
            state[0] = row_state(ps, row[0])
            fresh[0] = True
        _free(&purge)
    return cut
