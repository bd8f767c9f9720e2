# cython: language_level=3, boundscheck=False, wraparound=False
# cython: initializedcheck=False, cdivision=True
"""Masks: which tokens may come next, as a pure function of (row, lexer state).

The plain way is one walk of the token trie that steps the lexer by each byte and the parser at each
end of a lexeme. Everything here is a shortcut to the same set, and each can be switched off:

* *Inside and boundary, difference masks, length classes*: see ``_inside``.
* *Boundary memo.* What may follow a finished lexeme is itself a mask, of a suffix trie or of a
  heavy node of a trie, memoised per (site, row, state).
* *Mask memo.* As is the whole mask.
* *Forced runs.* A state that only one byte can follow looks that child up.

Invariant: at each token one decision is made on one path, since the lexer is deterministic; so a
mask never depends on the order of the walk, and the parts of a mask are disjoint.

Memory: masks are short lists, short differences from a shared bitset, or bitsets of their own;
their bytes are counted, and the memo starts afresh when ``mask_limit`` is passed between two masks.
"""

from libc.stdint cimport uint32_t, uint64_t, uint8_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from llgx._builder cimport (
    builder_bitset, builder_densify, builder_finish, builder_open, builder_put,
    builder_put_builder, builder_put_mask, builder_remove_bits, builder_remove_tokens,
)
from llgx._common cimport regex_measure
from llgx._earley cimport (
    parser_begin, parser_free, parser_init, parser_scan, row_accepts, row_dead, row_state, row_t,
)
from llgx._engine cimport (
    BOUNDARY_MEMO, CHILD, DELTA_LIMIT, DEPTH_LIMIT, DIFFERENCE_MASKS, FRAME_WORDS, KILL, LEFT,
    MASK_MEMO, NESTED, NO_SITE, OVER, OWN, PART_MASK, WALK, WHOLE_MASK, Boundary, Builder, Engine,
    Mask, Plan, Site, frame_push, is_heavy, is_leaf, open_children, place_counts,
)
from llgx._exact cimport exact_begin, exact_free
from llgx._filter cimport scopes_forget
from llgx._inside cimport lazy_suffixes, site_of, subtrees_of
from llgx._lexer cimport (
    DEAD, NO_SET, lexer_free, lexer_init, lexer_step, lexer_tail, set_t, state_t,
)
from llgx._memory cimport (
    FAULT_MEMORY, FAULT_NONE, NONE, Slot, arena_free, array_grown, fault_set, interner_free,
    map_clear, map_free, map_get, map_put, words_free,
)
from llgx._plan cimport plan_of, plans_forget, plans_free
from llgx._scopes cimport scopes_begin, scopes_free
from llgx._shared cimport shared_begin, shared_release
from llgx._tokens cimport tokens_free
from llgx._trie cimport TablePool, Trie, child_byte, child_node, table_release

cdef enum:
    SETTLING_TOKENS = 3000  # of a mask's lists, written in all before it becomes a bitset: about as
                         # many as that costs


# --------------------------------------------------------------------------- life

cdef int engine_init(Engine* engine, TablePool* pool, uint32_t terminals) noexcept nogil:
    """An engine without grammar; -1 when memory is out. To be freed in either case."""
    memset(engine, 0, sizeof(Engine))
    engine.pool = pool
    engine.words = pool.words
    engine.mask_limit = 256000000
    engine.shortcuts = 1023
    engine.heavy = 768
    if lexer_init(&engine.lexer, terminals, &engine.fault) < 0:
        return -1
    regex_measure(&engine.lexer.rx, pool)
    if parser_init(&engine.parser, &engine.lexer, &engine.fault) < 0:
        return -1
    return 0


cdef int engine_begin(Engine* engine) noexcept nogil:
    """To be called once the grammar is in place; -1 with a fault set when that fails."""
    if engine.scopes != NULL and scopes_begin(engine) < 0:
        fault_set(&engine.fault, FAULT_MEMORY)
        return -1
    if parser_begin(&engine.parser) < 0:
        return -1
    if engine.exact != NULL and exact_begin(engine) < 0:
        return -1
    shared_begin(engine)
    return -1 if site_of(engine, &engine.pool.trie, 0, 0, NONE, NULL, 0) == NONE else 0


cdef void engine_free(Engine* engine) noexcept nogil:
    cdef uint32_t i
    lexer_free(&engine.lexer)
    parser_free(&engine.parser)
    tokens_free(&engine.token_sets)
    map_free(&engine.plain_rows)
    map_free(&engine.deadlines)
    words_free(&engine.budget_stack)
    words_free(&engine.budget_words)
    _forget_masks(engine)
    scopes_free(engine.scopes)
    exact_free(engine.exact)
    free(engine.masks)
    free(engine.bitsets)
    free(engine.combined)
    map_free(&engine.bitset_index)
    map_free(&engine.bitset_plus)
    map_free(&engine.bitset_minus)
    map_free(&engine.bitset_last)
    plans_free(engine)
    map_free(&engine.mask_index)
    map_free(&engine.site_index)
    map_free(&engine.lazy_index)
    map_free(&engine.lazy_after)
    map_free(&engine.inside_index)
    free(engine.insides)
    arena_free(&engine.inside_arena)
    free(engine.sites)
    for i in range(engine.subtree_count):
        free(engine.subtrees[i])
    free(engine.subtrees)
    interner_free(&engine.subtree_keys)
    for i in range(engine.builder_count):
        words_free(&engine.builders[i].list)
        words_free(&engine.builders[i].taken)
        free(engine.builders[i].bits)
    free(engine.builders)
    shared_release(engine)
    for i in range(engine.table_count):
        table_release(engine.pool, engine.tables[i])
    free(engine.tables)
    words_free(&engine.frames)
    words_free(&engine.tokens)
    words_free(&engine.bounds)
    words_free(&engine.removed)
    words_free(&engine.words_found)
    map_free(&engine.followed_index)
    words_free(&engine.followed)


cdef void _forget_masks(Engine* engine) noexcept nogil:
    cdef uint32_t i
    for i in range(engine.bitset_count):
        free(engine.bitsets[i])
    engine.bitset_count = 0
    map_clear(&engine.bitset_index)
    map_clear(&engine.bitset_plus)
    map_clear(&engine.bitset_minus)
    map_clear(&engine.bitset_last)
    plans_forget(engine)
    arena_free(&engine.mask_arena)
    engine.mask_count = 0
    engine.mask_bytes = 0
    map_clear(&engine.mask_index)
    if engine.scopes != NULL:
        scopes_forget(engine.scopes)


# --------------------------------------------------------------------------- one byte

cdef bint engine_reread(
    Engine* engine, row_t* row, state_t* state, bint* fresh, const uint8_t* data, uint32_t length,
    uint32_t* begin
) noexcept nogil:
    """Read a hidden tail again from the beginning of a lexeme. False, and nothing changed, where
    what follows cannot read all of it.

    A lexeme that is nothing but its own hidden tail does not count: it would be read for ever.
    ``begin`` is set to where the lexeme in progress begins in ``data``. Recursion is as deep as
    lexemes end with hidden tails that are shorter each time.
    """
    cdef row_t at = row[0], inner_row
    cdef state_t target = state[0], inner_state
    cdef bint new = True, inner_fresh
    cdef uint32_t i = 0, start = 0, hidden, inner_begin
    cdef const uint8_t* tail
    cdef set_t emitted
    while i < length:
        emitted = engine.lexer.states[target].accept
        target = lexer_step(&engine.lexer, target, data[i])
        if target == DEAD:
            if new or emitted == NO_SET:
                return False
            at = parser_scan(&engine.parser, at, emitted)
            start = i
            target = lexer_step(&engine.lexer, row_state(&engine.parser, at), data[i])
            if target == DEAD:
                return False
        i += 1
        new = False
        emitted = engine.lexer.states[target].eager
        if emitted == NO_SET:
            continue
        hidden = lexer_tail(&engine.lexer, emitted, &tail)
        if hidden and hidden >= i - start:
            return False
        at = parser_scan(&engine.parser, at, emitted)
        target = row_state(&engine.parser, at)
        new = True
        start = i
        if engine.fault.code or row_dead(&engine.parser, at):
            return False
        if hidden:
            inner_row = at
            inner_state = target
            inner_fresh = True
            if engine_reread(
                engine, &inner_row, &inner_state, &inner_fresh, tail, hidden, &inner_begin
            ):
                at = inner_row
                target = inner_state
                new = inner_fresh
                start = i - hidden + inner_begin
    if engine.fault.code:
        return False
    row[0] = at
    state[0] = target
    fresh[0] = new
    begin[0] = start
    return True


cdef bint engine_follow(
    Engine* engine, row_t* row, set_t emitted, state_t* state, bint* fresh
) noexcept nogil:
    """Move past the end of a lexeme, and past its hidden tail where what follows can read that.

    False where nothing can follow and the text may not end. In grammars with scopes a hidden tail
    is not read again.
    """
    cdef const uint8_t* tail
    cdef uint32_t hidden, begin
    row[0] = parser_scan(&engine.parser, row[0], emitted)
    state[0] = row_state(&engine.parser, row[0])
    fresh[0] = True
    if engine.fault.code or row_dead(&engine.parser, row[0]):
        return False
    if engine.lexer.tails != NULL and engine.scopes == NULL:
        hidden = lexer_tail(&engine.lexer, emitted, &tail)
        if hidden:
            engine_reread(engine, row, state, fresh, tail, hidden, &begin)
    return engine.fault.code == 0


cdef bint engine_step(
    Engine* engine, row_t* row, state_t* state, bint* fresh, uint8_t byte
) noexcept nogil:
    """Read one byte. False, and nothing changed, where the grammar does not allow it.

    ``fresh`` says whether the lexer stands at the beginning of a lexeme. Also False with a fault
    set.
    """
    cdef row_t at = row[0]
    cdef state_t target = lexer_step(&engine.lexer, state[0], byte)
    cdef set_t emitted
    cdef bint begins = False
    if target == DEAD:
        emitted = engine.lexer.states[state[0]].accept
        if emitted == NO_SET or fresh[0]:
            return False
        at = parser_scan(&engine.parser, at, emitted)
        target = lexer_step(&engine.lexer, row_state(&engine.parser, at), byte)
        if target == DEAD:
            return False
    emitted = engine.lexer.states[target].eager
    if emitted != NO_SET:
        if not engine_follow(engine, &at, emitted, &target, &begins):
            return False
    if engine.fault.code:
        return False
    fresh[0] = begins
    row[0] = at
    state[0] = target
    return True


cdef bint engine_ends(Engine* engine, row_t row, state_t state, bint fresh) noexcept nogil:
    """Whether no byte can follow, though the lexer could go on: guards may refuse every lexeme."""
    cdef uint32_t i
    cdef row_t at
    cdef state_t target
    cdef bint begins
    for i in range(engine.lexer.rx.class_count):
        at = row
        target = state
        begins = fresh
        if engine_step(engine, &at, &target, &begins, engine.lexer.rx.sample[i]):
            return False
    return engine.fault.code == 0


cdef bint engine_accepts(Engine* engine, row_t row, state_t state, bint fresh) noexcept nogil:
    """Whether the text so far is complete."""
    cdef set_t emitted
    if not fresh:
        emitted = engine.lexer.states[state].accept
        if emitted == NO_SET:
            return False
        row = parser_scan(&engine.parser, row, emitted)
        if engine.fault.code:
            return False
    return row_accepts(&engine.parser, row)


# --------------------------------------------------------------------------- with a row

cdef inline void _put_node(
    Engine* engine, uint32_t level, const Site* site, uint32_t node
) noexcept nogil:
    cdef uint32_t i
    for i in range(site.trie.nodes[node].tokens_at, site.trie.nodes[node + 1].tokens_at):
        if site.filtered and not place_counts(site, i):
            continue
        builder_put(engine, level, site.trie.tokens[i])


cdef void _part(Engine* engine, uint32_t level, uint32_t plan, row_t row) noexcept nogil:
    """Add what a row allows beyond the fixed part of a plan."""
    cdef uint32_t mask
    if engine.plans[plan].boundary_count == 0:
        return
    if not engine.shortcuts & BOUNDARY_MEMO or engine.plans[plan].boundary_count == 1:
        _boundaries(engine, level, plan, row)
        return
    mask = _mask(engine, PART_MASK, row, plan)
    if mask != NONE:
        builder_put_mask(engine, level, &engine.masks[mask])


cdef void _nested(
    Engine* engine, uint32_t level, uint32_t where, row_t row, state_t state
) noexcept nogil:
    """Add the mask of another site, or that of the main trie as a whole."""
    cdef uint32_t index
    if state == DEAD:
        return
    if engine.depth >= DEPTH_LIMIT and not engine.sites[where].filtered:
        _row_walk(engine, level, where, engine.sites[where].root, row, state, NULL)
        return
    engine.depth += 1
    if where == 0 and engine.shortcuts & BOUNDARY_MEMO:
        index = _mask(engine, WHOLE_MASK, row, state)
        if index != NONE:
            builder_put_mask(engine, level, &engine.masks[index])
    else:
        index = plan_of(engine, where, state)
        if index != NONE:
            builder_put_mask(engine, level, &engine.plans[index].fixed)
            _part(engine, level, index, row)
    engine.depth -= 1


cdef inline bint _nests(
    Engine* engine, uint32_t where, uint32_t node, state_t state
) noexcept nogil:
    """Whether what follows ``node`` in ``state`` is better asked for as a mask of its own."""
    return engine.shortcuts & DIFFERENCE_MASKS \
        and is_heavy(engine, engine.sites[where].trie, node) \
        and not engine.sites[where].filtered and engine.depth < DEPTH_LIMIT \
        and engine.lexer.states[state].forced < 0


cdef void _row_children(
    Engine* engine, uint32_t level, uint32_t where, uint32_t node, row_t row, state_t state,
    const uint64_t* exclude
) noexcept nogil:
    """Add the tokens below ``node``, whose children are read from ``state`` of ``row``.

    Children whose byte is in ``exclude`` (NULL: none) are left out: from the mask of all of them,
    so that this is shared by all states that a lexeme may end in.
    """
    cdef Trie* trie = engine.sites[where].trie
    cdef uint32_t i, nested, target, overlap = 0
    cdef uint32_t bytes[8]
    cdef uint8_t byte
    cdef const uint64_t* removed
    if state == DEAD:
        return
    if not _nests(engine, where, node, state):
        _row_walk(engine, level, where, node, row, state, exclude)
        return
    nested = site_of(
        engine, trie, node, 0, NONE, engine.sites[where].table, engine.sites[where].depth
    )
    if nested == NONE:
        return
    if exclude != NULL:
        memset(bytes, 0, sizeof(bytes))
        for i in range(trie.nodes[node].children, trie.nodes[node + 1].children):
            byte = child_byte(trie, i)
            if (exclude[byte >> 6] >> (byte & 63)) & 1 \
                    and lexer_step(&engine.lexer, state, byte) != DEAD:
                bytes[byte >> 5] |= <uint32_t>1 << (byte & 31)
                overlap += 1
    if overlap == 0:
        _nested(engine, level, nested, row, state)
        return
    if builder_open(engine) == NULL:
        return
    target = engine.level - 1
    _nested(engine, target, nested, row, state)
    removed = subtrees_of(engine, trie, node, bytes)
    if not engine.fault.code:
        builder_remove_bits(engine, target, removed)
        builder_put_builder(engine, level, target)
    engine.level -= 1


cdef bint _row_visit(
    Engine* engine, uint32_t level, uint32_t where, uint32_t node, row_t* row, state_t* state
) noexcept nogil:
    """Account for ``node``, reached in a living ``state``; whether its children are to be
    walked."""
    cdef Site* site = &engine.sites[where]
    cdef set_t eager = engine.lexer.states[state[0]].eager
    cdef uint32_t nested
    cdef bint fresh
    if eager != NO_SET:
        if not engine_follow(engine, row, eager, state, &fresh):
            return False
    _put_node(engine, level, site, node)
    if state[0] == DEAD or is_leaf(site.trie, node):
        return False
    if _nests(engine, where, node, state[0]):
        nested = site_of(engine, site.trie, node, 0, NONE, site.table, site.depth)
        if nested != NONE:
            _nested(engine, level, nested, row[0], state[0])
        return False
    return True


cdef void _row_walk(
    Engine* engine, uint32_t level, uint32_t where, uint32_t node, row_t row, state_t state,
    const uint64_t* exclude
) noexcept nogil:
    """Walk the children of ``node`` with lexer and parser, adding every token on the way.

    Children of ``node`` itself whose byte is in ``exclude`` (NULL: none) are left out.
    """
    cdef Trie* trie = engine.sites[where].trie
    cdef size_t floor = engine.frames.size
    cdef uint32_t cursor, end, child
    cdef uint8_t byte
    cdef state_t target
    cdef set_t emitted
    cdef row_t after
    cdef bint begun = False
    cdef uint32_t* at
    open_children(engine, trie, node, state, &cursor, &end)
    while not engine.fault.code:
        if cursor == end:
            if engine.frames.size == floor:
                break
            engine.frames.size -= FRAME_WORDS
            at = engine.frames.at + engine.frames.size
            cursor = at[0]
            end = at[1]
            row = at[2]
            state = at[3]
            begun = at[4]
            continue
        byte = child_byte(trie, cursor)
        child = child_node(trie, cursor)
        cursor += 1
        if not begun and exclude != NULL and (exclude[byte >> 6] >> (byte & 63)) & 1:
            continue
        target = lexer_step(&engine.lexer, state, byte)
        after = row
        if target == DEAD:
            emitted = engine.lexer.states[state].accept
            if emitted == NO_SET:
                continue
            after = parser_scan(&engine.parser, row, emitted)
            target = lexer_step(&engine.lexer, row_state(&engine.parser, after), byte)
            if target == DEAD:
                continue
        if not _row_visit(engine, level, where, child, &after, &target):
            continue
        if cursor != end:
            frame_push(engine, cursor, end, row, state, begun, 0)
        row = after
        state = target
        begun = True
        open_children(engine, trie, child, state, &cursor, &end)
    engine.frames.size = floor


cdef void _row_after(
    Engine* engine, uint32_t level, const Boundary* bound, row_t row, state_t state
) noexcept nogil:
    """Add the tokens that have, after the loop of a lazy site, what begins a lexeme in ``state`` of
    ``row``."""
    cdef uint32_t site
    if state == DEAD:
        return
    site = lazy_suffixes(engine, bound.site, state, bound.mode == OVER)
    if site != NO_SITE and site != NONE:
        _row_children(
            engine, level, site, 0, row, state, NULL if bound.mode == OVER else bound.live
        )


cdef void _boundary(
    Engine* engine, uint32_t level, row_t after, state_t start, const Boundary* bound
) noexcept nogil:
    """Add what may follow the lexeme that ends at a boundary, its filter aside."""
    cdef row_t at = after
    if bound.mode == OWN:
        if not row_dead(&engine.parser, after):
            _put_node(engine, level, &engine.sites[bound.site], bound.node)
    elif bound.mode == CHILD:
        start = lexer_step(&engine.lexer, start, <uint8_t>bound.detail)
        if start != DEAD and _row_visit(engine, level, bound.site, bound.node, &at, &start):
            _row_walk(engine, level, bound.site, bound.node, at, start, NULL)
    elif bound.mode == LEFT or bound.mode == OVER:
        _row_after(engine, level, bound, after, start)
    else:
        _row_children(
            engine, level, bound.site, bound.node, after, start,
            bound.live if bound.mode == KILL else NULL
        )


cdef void _boundaries(Engine* engine, uint32_t level, uint32_t index, row_t row) noexcept nogil:
    """Add what the row says at the boundaries of a plan."""
    cdef Plan plan = engine.plans[index]  # the table of plans may move
    cdef const Boundary* bound
    cdef uint32_t i, target
    cdef set_t emitted = NO_SET
    cdef row_t after = row
    cdef state_t start = DEAD
    cdef bint fresh
    for i in range(plan.boundary_count):
        bound = &plan.boundaries[i]
        if bound.emitted != emitted:
            emitted = bound.emitted
            after = row
            engine_follow(engine, &after, emitted, &start, &fresh)
            if engine.fault.code:
                return
        target = level
        if bound.filter != NULL or bound.less_count:
            if builder_open(engine) == NULL:
                return
            target = engine.level - 1
        if bound.mode == NESTED:
            _part(engine, target, bound.detail, row)
        elif bound.mode == WALK:
            _row_walk(
                engine, target, bound.site, engine.sites[bound.site].root, row, bound.detail, NULL
            )
        else:
            _boundary(engine, target, after, start, bound)
        if target != level:
            if not engine.fault.code:
                if bound.filter != NULL:
                    builder_remove_bits(engine, target, bound.filter)
                builder_remove_tokens(engine, target, bound.less, bound.less_count)
                builder_put_builder(engine, level, target)
            engine.level -= 1
        if engine.fault.code:
            return


cdef void _compose(Engine* engine, uint32_t level, row_t row, state_t state) noexcept nogil:
    """Add the mask of (row, state) over the main trie to a builder."""
    cdef uint32_t index = plan_of(engine, 0, state)
    if index == NONE:
        return
    builder_put_mask(engine, level, &engine.plans[index].fixed)
    _boundaries(engine, level, index, row)


cdef uint32_t _make_mask(
    Engine* engine, uint32_t kind, row_t row, uint32_t of
) noexcept nogil:
    """Compute and keep a mask; NONE with a fault set when that fails.

    A WHOLE_MASK is that of lexer state ``of`` over the main trie, a PART_MASK what the row adds to
    the fixed part of plan ``of``.
    """
    cdef uint32_t level = engine.level, depth = engine.depth
    cdef size_t frames = engine.frames.size
    cdef uint32_t plan
    cdef Mask mask
    cdef Mask* grown
    if kind == WHOLE_MASK and engine.shortcuts & MASK_MEMO:
        plan = plan_of(engine, 0, of)
        if plan != NONE and engine.plans[plan].state != of:
            # The state differs from its twin in no token.
            plan = _mask(engine, WHOLE_MASK, row, engine.plans[plan].state)
            return NONE if plan == NONE else _keep(engine, kind, row, of, plan)
    if builder_open(engine) != NULL:
        if kind == WHOLE_MASK:
            _compose(engine, level, row, of)
        else:
            _boundaries(engine, level, of, row)
    if engine.fault.code or builder_finish(
        engine, level, (<uint64_t>kind << 32) | of, &mask
    ) < 0:
        engine.level = level
        engine.depth = depth
        engine.frames.size = frames
        return NONE
    engine.level = level
    grown = <Mask*>array_grown(engine.masks, &engine.mask_room, engine.mask_count, sizeof(Mask))
    if grown == NULL:
        fault_set(&engine.fault, FAULT_MEMORY)
        return NONE
    engine.masks = grown
    engine.masks[engine.mask_count] = mask
    engine.mask_bytes += mask.bytes + 64
    engine.mask_count += 1
    return _keep(engine, kind, row, of, engine.mask_count - 1)


cdef uint32_t _keep(
    Engine* engine, uint32_t kind, row_t row, uint32_t of, uint32_t mask
) noexcept nogil:
    if map_put(&engine.mask_index, kind, (<uint64_t>row << 32) | of, mask) < 0:
        fault_set(&engine.fault, FAULT_MEMORY)
        return NONE
    engine.mask_bytes += 2 * sizeof(Slot)
    return mask


cdef uint32_t _mask(Engine* engine, uint32_t kind, row_t row, uint32_t of) noexcept nogil:
    """The index of what ``_make_mask`` makes, made once; NONE with a fault set."""
    cdef uint32_t known = map_get(&engine.mask_index, kind, (<uint64_t>row << 32) | of)
    if known != NONE:
        return known
    return _make_mask(engine, kind, row, of)


cdef void _settle(Engine* engine, Mask* mask, const uint64_t* bits) noexcept nogil:
    """Keep a mask that is asked for again as a bitset: from then on it is a copy."""
    cdef uint32_t index
    cdef const uint64_t* kept = builder_bitset(engine, bits, &index)
    if kept == NULL:
        engine.fault.code = FAULT_NONE  # the lists are as good, only slower
        return
    mask.base = kept
    mask.tokens = NULL
    mask.added = 0
    mask.removed = 0


cdef void engine_copy(Engine* engine, uint32_t index, bint again, uint64_t* bits) noexcept nogil:
    """Write a mask that is kept; ``again`` if it was asked for before."""
    cdef Mask* mask = &engine.masks[index]
    cdef uint32_t i, token
    if mask.base == NULL:
        memset(bits, 0, engine.words * sizeof(uint64_t))
    else:
        memcpy(bits, mask.base, engine.words * sizeof(uint64_t))
    for i in range(mask.added, mask.added + mask.removed):
        token = mask.tokens[i]
        bits[token >> 6] &= ~(<uint64_t>1 << (token & 63))
    for i in range(mask.added):
        token = mask.tokens[i]
        bits[token >> 6] |= <uint64_t>1 << (token & 63)
    if mask.added + mask.removed > DELTA_LIMIT:
        mask.uses += mask.added + mask.removed
        if again and mask.uses > SETTLING_TOKENS:
            _settle(engine, mask, bits)


cdef int engine_fill(
    Engine* engine, row_t row, state_t state, uint64_t* bits
) noexcept nogil:
    """Write the text tokens allowed at (row, state) to a bitset of ``words`` words.

    -1 with a fault set, and the bitset untouched, when that fails.
    """
    cdef uint32_t known
    cdef Builder* builder
    cdef bint again
    if state == DEAD:
        memset(bits, 0, engine.words * sizeof(uint64_t))
        return 0
    if engine.shortcuts & MASK_MEMO:
        known = map_get(&engine.mask_index, WHOLE_MASK, (<uint64_t>row << 32) | state)
        again = known != NONE
        if not again:
            if engine.mask_bytes > engine.mask_limit:
                _forget_masks(engine)
            known = _make_mask(engine, WHOLE_MASK, row, state)
            if known == NONE:
                return -1
        engine_copy(engine, known, again, bits)
        return 0
    if engine.mask_bytes > engine.mask_limit:
        _forget_masks(engine)
    builder = builder_open(engine)
    if builder != NULL:
        _compose(engine, 0, row, state)
        builder = &engine.builders[0]
        if not builder.dense and not engine.fault.code:
            builder_densify(engine, builder)
    engine.level = 0
    engine.depth = 0
    engine.frames.size = 0
    if engine.fault.code:
        return -1
    memcpy(bits, engine.builders[0].bits, engine.words * sizeof(uint64_t))
    return 0
