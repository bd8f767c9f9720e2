# cython: language_level=3, boundscheck=False, wraparound=False
# cython: initializedcheck=False, cdivision=True
"""Plans: what the mask of a (site, lexer state) is in any row, and where a row has to be asked.

An inside (``_inside``) refers to other sites: the suffixes after its loops, heavy nodes below it.
A plan follows these references and puts together, once, what they allow whatever the row is: one
short mask, for a string body the bitset of its loop and the tokens that the suffix trie allows in
any row. What remains for each row are the boundaries, those of parts with few of them taken over,
the others as one reference to the part's plan.

Where a base answers wrongly for some tokens, they are taken out here; boundaries of its suffixes
that could bring one of them back carry the set of them as a filter.

A counter that is out of reach of all tokens but the longest is as good as unbounded for these. So
the plan of a state with such counters is that of the state without, which it shares with all along
the repeat, for all tokens but the longest, and one of these few by themselves.

A state with a twin (``_difference``) has the plan of that, which most grammars share, minus and
plus what the two differ in; if they differ in no token of the vocabulary, it is the very same.

Invariant: for every row, ``fixed`` and what the boundaries add are the mask.

Cost: a few passes over bitsets, once per (site, state); kept until masks are forgotten, whose
bitsets it uses.
"""

from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport free, qsort
from libc.string cimport memcpy, memset

from llgx._builder cimport (
    builder_bitset, builder_densify, builder_finish, builder_is_empty, builder_open, builder_put,
    builder_put_bits, builder_put_builder, builder_put_mask, builder_remove_bits,
    builder_remove_places, builder_remove_tokens,
)
from llgx._difference cimport difference_is_asked
from llgx._engine cimport (
    DELTA_LIMIT, DEPTH_LIMIT, DIFFERENCE_MASKS, FEW_BOUNDARIES, LEFT, LENGTH_CLASSES,
    LONG_TOKENS_APART, NESTED, OVER, SMALL_LOOP, SPARSE_LIMIT, WALK, Base, Boundary, Builder,
    Engine, Inside, Plan,
)
from llgx._inside cimport inside_by_twin, inside_of, site_of
from llgx._lexer cimport DEAD, NO_SET, lexer_brief, lexer_loop, lexer_saturate, lexer_twin, state_t
from llgx._memory cimport (
    FAULT_MEMORY, NONE, arena_take, array_grown, fault_set, map_clear, map_free,
    map_get, map_put, words_free, words_reserve,
)
from llgx._shared cimport SharedKey, shared_adopt, shared_offer
from llgx._trie cimport Level, Trie

cdef enum:
    MOST_LESS = 256      # tokens that a state may have less than its twin
    BOUNDARY_WORDS = sizeof(Boundary) // sizeof(uint32_t)


cdef void plans_forget(Engine* engine) noexcept nogil:
    """Drop all plans; those who hold an index of one must not use it any more."""
    engine.plan_count = 0
    map_clear(&engine.plan_index)


cdef void plans_free(Engine* engine) noexcept nogil:
    plans_forget(engine)
    map_free(&engine.plan_index)
    free(engine.plans)
    words_free(&engine.asked)


cdef void _ask(Engine* engine, const Boundary* bound) noexcept nogil:
    """Put a boundary on the stack of those of the plan in the making."""
    if words_reserve(&engine.asked, BOUNDARY_WORDS) < 0:
        fault_set(&engine.fault, FAULT_MEMORY)
        return
    memcpy(engine.asked.at + engine.asked.size, bound, sizeof(Boundary))
    engine.asked.size += BOUNDARY_WORDS


cdef const uint64_t* _union(
    Engine* engine, const uint64_t* one, const uint64_t* other
) noexcept nogil:
    """A kept bitset of the tokens of two (NULL: of no token)."""
    cdef const uint64_t* both
    if one == NULL or one == other:
        return other
    if other == NULL:
        return one
    if builder_open(engine) == NULL:
        return NULL
    builder_put_bits(engine, engine.level - 1, one)
    builder_put_bits(engine, engine.level - 1, other)
    both = engine.builders[engine.level - 1].base
    engine.level -= 1
    return both


cdef const uint64_t* _filter(
    Engine* engine, const Trie* trie, const Inside* inside, const Base* base
) noexcept nogil:
    """The tokens that the base answers wrongly for, as a kept bitset, if some of them could come
    from a boundary of its suffixes; else NULL."""
    cdef uint32_t i, j, token, index
    cdef const uint64_t* kept = NULL
    cdef bint outside = False
    cdef Builder* builder
    for i in range(base.removed, base.removed_end, 2):
        for j in range(inside.removed[i], inside.removed[i + 1]):
            token = trie.tokens[j]
            if not (base.bits[token >> 6] >> (token & 63)) & 1:
                outside = True
    if not outside:
        return NULL
    builder = builder_open(engine)
    if builder != NULL and builder_densify(engine, builder) == 0:
        for i in range(base.removed, base.removed_end, 2):
            for j in range(inside.removed[i], inside.removed[i + 1]):
                token = trie.tokens[j]
                builder.bits[token >> 6] |= <uint64_t>1 << (token & 63)
        kept = builder_bitset(engine, builder.bits, &index)
    engine.level -= 1
    return kept


cdef void _include(
    Engine* engine, uint32_t level, uint32_t where, state_t state, const uint64_t* filter
) noexcept nogil:
    """Add the plan of another site to the one in the making."""
    cdef Boundary bound
    cdef uint32_t index, i
    cdef Plan plan
    if state == DEAD or engine.fault.code:
        return
    memset(&bound, 0, sizeof(Boundary))
    bound.mode = NESTED
    bound.site = where
    bound.emitted = NO_SET
    bound.filter = filter
    if engine.depth >= DEPTH_LIMIT and not engine.sites[where].filtered:
        bound.mode = WALK
        bound.detail = state
        _ask(engine, &bound)
        return
    engine.depth += 1
    index = plan_of(engine, where, state)
    engine.depth -= 1
    if index == NONE:
        return
    plan = engine.plans[index]
    builder_put_mask(engine, level, &plan.fixed)
    if plan.boundary_count > FEW_BOUNDARIES:
        bound.detail = index
        _ask(engine, &bound)
        return
    for i in range(plan.boundary_count):
        bound = plan.boundaries[i]
        bound.filter = _union(engine, bound.filter, filter)
        _ask(engine, &bound)


cdef void _assemble(Engine* engine, uint32_t level, uint32_t where, uint32_t index) noexcept nogil:
    """Put together what an inside says."""
    cdef Inside inside = engine.insides[index]  # the table of insides may move
    cdef const Trie* trie = engine.sites[where].trie
    cdef const Base* base
    cdef const Boundary* bound
    cdef Boundary after
    cdef uint32_t i, j, target
    cdef const uint64_t* filter
    for i in range(inside.base_count):
        base = &inside.bases[i]
        target = level
        filter = NULL
        if base.removed != base.removed_end:
            if base.part_count or base.left != NONE:
                filter = _filter(engine, trie, &inside, base)
            if not builder_is_empty(&engine.builders[level]):
                # What the base answers wrongly may be there for another reason already.
                if builder_open(engine) == NULL:
                    return
                target = engine.level - 1
        if base.whole <= SMALL_LOOP:
            for j in range(base.whole):
                builder_put(engine, target, base.table.whole[j])
        else:
            builder_put_bits(engine, target, base.bits)
        for j in range(base.part_count):
            _include(engine, target, base.parts[2 * j], base.parts[2 * j + 1], filter)
        if base.left != NONE:
            memset(&after, 0, sizeof(Boundary))
            after.mode = LEFT
            after.site = base.left
            after.emitted = base.emitted
            after.filter = filter
            memcpy(after.live, base.live, sizeof(after.live))
            _ask(engine, &after)
        if base.over != NONE:
            after.mode = OVER
            after.site = base.over
            _ask(engine, &after)
        if engine.fault.code:
            return
        for j in range(base.removed, base.removed_end, 2):
            builder_remove_places(engine, target, trie, inside.removed[j], inside.removed[j + 1])
        if target != level:
            if not engine.fault.code:
                builder_put_builder(engine, level, target)
            engine.level -= 1
        if engine.fault.code:
            return
    for i in range(inside.token_count):
        builder_put(engine, level, inside.tokens[i])
    for i in range(inside.boundary_count):
        bound = &inside.boundaries[i]
        if bound.mode == NESTED:
            _include(engine, level, bound.site, bound.detail, NULL)
        else:
            _ask(engine, bound)


cdef int _compare_emitted(const void* left, const void* right) noexcept nogil:
    cdef uint32_t a = (<const Boundary*>left).emitted
    cdef uint32_t b = (<const Boundary*>right).emitted
    return (a > b) - (a < b)


cdef int _finish(
    Engine* engine, uint32_t level, uint32_t where, state_t state, size_t floor, Plan* plan
) noexcept nogil:
    """Turn a builder and the boundaries from ``floor`` on into a plan; -1 with a fault set."""
    cdef Builder* builder = &engine.builders[level]
    cdef size_t size = engine.asked.size - floor
    memset(plan, 0, sizeof(Plan))
    if not builder.dense and (
        builder.list.size > (SPARSE_LIMIT if builder.base == NULL else DELTA_LIMIT)
        and builder_densify(engine, builder) < 0
    ):
        return -1
    if builder_finish(engine, level, <uint64_t>(where + 2) << 32 | state, &plan.fixed) < 0:
        return -1
    engine.mask_bytes += plan.fixed.bytes + sizeof(Plan) + size * sizeof(uint32_t)
    plan.boundary_count = <uint32_t>(size // BOUNDARY_WORDS)
    plan.boundaries = <Boundary*>arena_take(&engine.mask_arena, size * sizeof(uint32_t))
    if plan.boundaries == NULL:
        fault_set(&engine.fault, FAULT_MEMORY)
        return -1
    if size:
        memcpy(plan.boundaries, engine.asked.at + floor, size * sizeof(uint32_t))
        # Lexemes of one kind together: the row after them is asked for once.
        qsort(plan.boundaries, plan.boundary_count, sizeof(Boundary), &_compare_emitted)
    return 0


cdef int _compare_tokens(const void* left, const void* right) noexcept nogil:
    cdef uint32_t a = (<const uint32_t*>left)[0]
    cdef uint32_t b = (<const uint32_t*>right)[0]
    return (a > b) - (a < b)


cdef uint32_t* _removed_tokens(
    Engine* engine, const Trie* trie, const Inside* inside, uint32_t* count
) noexcept nogil:
    """The tokens that a twin answers wrongly for, sorted, kept as long as plans are; NULL with a
    fault set, or if they are too many for a list."""
    cdef uint32_t i, j
    cdef uint32_t* tokens
    count[0] = 0
    for i in range(0, inside.removed_count, 2):
        count[0] += inside.removed[i + 1] - inside.removed[i]
    if count[0] > MOST_LESS:
        return NULL
    tokens = <uint32_t*>arena_take(&engine.mask_arena, count[0] * sizeof(uint32_t))
    if tokens == NULL:
        fault_set(&engine.fault, FAULT_MEMORY)
        return NULL
    count[0] = 0
    for i in range(0, inside.removed_count, 2):
        for j in range(inside.removed[i], inside.removed[i + 1]):
            tokens[count[0]] = trie.tokens[j]
            count[0] += 1
    qsort(tokens, count[0], sizeof(uint32_t), &_compare_tokens)
    return tokens


cdef uint32_t _by_twin(Engine* engine, uint32_t where, state_t state, Plan* plan) noexcept nogil:
    """The index of the plan of the twin, if the two differ in no token; else NONE, and ``plan`` is
    made of the twin's, unless a fault is set or ``plan.state`` is DEAD: then that cannot be done.
    """
    cdef state_t twin = lexer_twin(&engine.lexer, state)
    cdef uint32_t index, its, count, level = engine.level
    cdef size_t floor = engine.asked.size
    cdef Inside inside
    cdef Plan other
    cdef Boundary bound
    cdef uint32_t* less
    plan.state = DEAD
    index = inside_by_twin(engine, where, state, twin)
    if index == NONE:
        return NONE
    inside = engine.insides[index]
    less = _removed_tokens(engine, engine.sites[where].trie, &inside, &count)
    if less == NULL:
        return NONE
    its = plan_of(engine, where, twin)
    if its == NONE:
        return NONE
    if count == 0 and inside.token_count == 0 and inside.boundary_count == 0:
        return its
    if builder_open(engine) == NULL:
        return NONE
    other = engine.plans[its]
    builder_put_mask(engine, level, &other.fixed)
    builder_remove_tokens(engine, level, less, count)
    if other.boundary_count:
        memset(&bound, 0, sizeof(Boundary))
        bound.mode = NESTED
        bound.site = where
        bound.emitted = NO_SET
        bound.detail = its
        bound.less = less
        bound.less_count = count
        _ask(engine, &bound)
    if engine.fault.code == 0:
        _assemble(engine, level, where, index)
    if engine.fault.code == 0 and _finish(engine, level, where, state, floor, plan) == 0:
        plan.state = state
    engine.level = level
    engine.asked.size = floor
    return NONE


cdef bint _is_by_length(Engine* engine, state_t state) noexcept nogil:
    """Whether the state is a counted loop that a table answers for by the length of tokens, where
    nothing is read by their number of characters."""
    cdef uint32_t loop
    if not engine.shortcuts & DIFFERENCE_MASKS or not engine.shortcuts & LENGTH_CLASSES:
        return False
    loop = lexer_loop(&engine.lexer, state, True)
    return loop != NONE and engine.lexer.loops[loop].high != NONE \
        and not engine.lexer.loops[loop].split


cdef void _by_brief(
    Engine* engine, state_t state, state_t brief, Level* longest, Plan* plan
) noexcept nogil:
    """Make the plan over the main trie of that of ``brief``, which is right for all tokens but
    ``longest``, and of these by themselves; ``plan.state`` stays DEAD with a fault set."""
    cdef uint32_t level = engine.level
    cdef size_t floor = engine.asked.size
    cdef const uint64_t* apart = longest.bits
    cdef uint32_t where = site_of(engine, &longest.trie, 0, 0, NONE, NULL, 0)
    if where == NONE or builder_open(engine) == NULL:
        return
    _include(engine, level, 0, brief, apart)
    if engine.fault.code == 0:
        builder_remove_bits(engine, level, apart)
    _include(engine, level, where, state, NULL)
    if engine.fault.code == 0 and _finish(engine, level, 0, state, floor, plan) == 0:
        plan.state = state
    engine.level = level
    engine.asked.size = floor


cdef uint32_t plan_of(Engine* engine, uint32_t where, state_t state) noexcept nogil:
    """The index of the plan of a (site, state), or of another state that differs from it in
    nothing; NONE with a fault set."""
    cdef uint32_t known = map_get(&engine.plan_index, where, state)
    cdef uint32_t index, level = engine.level
    cdef size_t floor = engine.asked.size
    cdef state_t brief
    cdef uint32_t longest = 0
    cdef bint by_twin
    cdef SharedKey key
    cdef Plan plan
    cdef Plan* grown
    if known != NONE:
        return known
    key.place = NONE  # what is not asked for is not offered
    plan.state = DEAD
    by_twin = difference_is_asked(engine, where, state)
    if not by_twin and shared_adopt(engine, where, state, &plan, &key):
        plan.state = state
    elif where == 0 and engine.shortcuts & LONG_TOKENS_APART:
        brief = lexer_brief(&engine.lexer, state, &longest)
        if brief != state and engine.fault.code == 0 and not _is_by_length(engine, state):
            _by_brief(engine, state, brief, &engine.pool.levels[longest], &plan)
            if plan.state != DEAD:
                shared_offer(engine, &key, &plan)
    if by_twin and plan.state == DEAD and engine.fault.code == 0:
        known = _by_twin(engine, where, state, &plan)
        if known != NONE and map_put(&engine.plan_index, where, state, known) < 0:
            fault_set(&engine.fault, FAULT_MEMORY)
            return NONE
        if known != NONE:
            return known
    if engine.fault.code:
        return NONE
    if plan.state == DEAD and not (by_twin and shared_adopt(engine, where, state, &plan, &key)):
        index = inside_of(engine, where, state)
        if index == NONE or builder_open(engine) == NULL:
            return NONE
        _assemble(engine, level, where, index)
        if engine.fault.code or _finish(engine, level, where, state, floor, &plan) < 0:
            engine.level = level
            engine.asked.size = floor
            return NONE
        engine.level = level
        engine.asked.size = floor
        shared_offer(engine, &key, &plan)
    grown = <Plan*>array_grown(engine.plans, &engine.plan_room, engine.plan_count, sizeof(Plan))
    if grown == NULL:
        fault_set(&engine.fault, FAULT_MEMORY)
        return NONE
    engine.plans = grown
    if map_put(&engine.plan_index, where, state, engine.plan_count) < 0:
        fault_set(&engine.fault, FAULT_MEMORY)
        return NONE
    engine.plans[engine.plan_count] = plan
    engine.plans[engine.plan_count].state = state
    engine.plan_count += 1
    return engine.plan_count - 1


cdef state_t plan_state(Engine* engine, state_t state) noexcept nogil:
    """The state whose mask over the main trie stands for that of ``state``, if that was made
    already; else ``state``. In each token, the two live and end lexemes alike."""
    cdef uint32_t known = map_get(&engine.plan_index, 0, lexer_saturate(&engine.lexer, state))
    if known == NONE or engine.fault.code or engine.plans[known].state == state:
        return state
    return engine.plans[known].state
