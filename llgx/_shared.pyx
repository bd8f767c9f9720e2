# cython: language_level=3, boundscheck=False, wraparound=False
# cython: initializedcheck=False, cdivision=True
"""Plans that all grammars of a vocabulary share.

Most of what the first masks of a grammar cost is spent on lexer states that other grammars have
too: the body of a JSON string, a number, the start of any value. Their plans (``_plan``) depend on
vocabulary and content alone, so they are kept with the vocabulary and found by content: regex nodes
and lexer states have ids in the pool that mean the same in every grammar, given by interning their
contents in a canonical order. Terminals are places in that order, states are not named at all.

A state that is met for the first time leaves its digest behind, a hash of its content. Only where
that is met again is the state given ids, and its plan looked for, or else offered when it was made:
most states are one grammar's own, and neither their names nor their plans are ever copied.

Invariant: ids of one generation name equal contents only if they are equal; what is adopted is, but
for the ids of the grammar, what the engine would have made itself.

Cost: one interning per regex node below a state asked for, and a copy of a few boundaries. Where
plans are kept, and for how long, is ``_plan_pool``'s business.
"""

from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from cpython.pythread cimport WAIT_LOCK, PyThread_acquire_lock, PyThread_release_lock

from llgx._engine cimport (
    LEFT, NESTED, OVER, SHARED_PLANS, WALK, Boundary, Engine, Plan, Site, is_heavy,
)
from llgx._inside cimport lazy_site, site_of
from llgx._lexer cimport Lexer, lexer_set, state_t
from llgx._memory cimport (
    FAULT_MEMORY, NONE, UNKNOWN, arena_take, array_grown, fault_set, interner_put, map_get,
    words_hash,
)
from llgx._regex cimport (
    ALT_KIND, AND_KIND, BYTES_KIND, CONCAT_KIND, EPSILON_KIND, LITERAL_KIND, NOT_KIND,
    REMAINDER_KIND, REPEAT_KIND, Regex, node_t, regex_words,
)
from llgx._plan_pool cimport (
    FIRST_PLAN, plan_pool_met, plan_pool_renew, plan_pool_take, shared_bits, shared_plan_drop,
    shared_plan_free, shared_plan_hold,
)
from llgx._trie cimport PlanPool, SharedBoundary, SharedPlan, Table, TablePool, table_hold

cdef enum:
    MOST_IDS = 1 << 19   # of nodes, states and places in one generation
    MOST_WORDS = 256     # of the content of a node
    DEEPEST = 100        # levels of a regex that takes part


# --------------------------------------------------------------------------- content

cdef void _sort(uint32_t* words, uint32_t* along, uint32_t count) noexcept nogil:
    """Sort few words, and another array (or NULL) with them."""
    cdef uint32_t i, j, word, other
    for i in range(1, count):
        word = words[i]
        other = along[i] if along != NULL else 0
        j = i
        while j and words[j - 1] > word:
            words[j] = words[j - 1]
            if along != NULL:
                along[j] = along[j - 1]
            j -= 1
        words[j] = word
        if along != NULL:
            along[j] = other


cdef uint32_t _node_id(Regex* rx, PlanPool* pool, node_t node, uint32_t depth) noexcept nogil:
    """The pool's id of a node's content; NONE for what takes no part. Lock held."""
    cdef const uint32_t* words = regex_words(rx, node)
    cdef uint32_t length = rx.nodes.entries[node].length
    cdef uint32_t content[MOST_WORDS]
    cdef uint32_t kind = words[0], i, last
    if rx.info[node].shared != UNKNOWN:
        return rx.info[node].shared
    rx.info[node].shared = NONE
    if depth > DEEPEST or length > MOST_WORDS:
        return NONE
    content[0] = kind
    if kind == LITERAL_KIND:
        if words[2] > 4 * (MOST_WORDS - 2):
            return NONE
        content[1] = words[2]
        length = 2 + (words[2] + 3) // 4
        content[length - 1] = 0
        memcpy(&content[2], rx.bytes + words[1], words[2])
    elif kind <= EPSILON_KIND or kind == BYTES_KIND or kind == REMAINDER_KIND:
        memcpy(content, words, length * sizeof(uint32_t))
    elif kind == CONCAT_KIND or kind == ALT_KIND or kind == AND_KIND or kind == NOT_KIND \
            or kind == REPEAT_KIND:
        last = 2 if kind == REPEAT_KIND else length
        for i in range(1, last):
            content[i] = _node_id(rx, pool, words[i], depth + 1)
            if content[i] == NONE:
                return NONE
        for i in range(last, length):
            content[i] = words[i]
        if kind == ALT_KIND or kind == AND_KIND:
            _sort(content + 1, NULL, length - 1)  # their order is that of the grammar's own ids
    else:
        return NONE
    # NONE again when memory is out: then it takes no part.
    rx.info[node].shared = interner_put(&pool.nodes, content, length)
    return rx.info[node].shared


cdef uint32_t _digest(Regex* rx, node_t node, uint32_t depth) noexcept nogil:
    """A hash of a node's content, the same in every grammar and never 0."""
    cdef const uint32_t* words = regex_words(rx, node)
    cdef uint32_t length = rx.nodes.entries[node].length
    cdef uint32_t content[4]
    cdef uint32_t kind = words[0], i, made
    if rx.info[node].digest:
        return rx.info[node].digest
    if depth > DEEPEST:
        return 1
    memset(content, 0, sizeof(content))
    content[0] = kind
    if kind == LITERAL_KIND:
        content[1] = words[2]
        for i in range(words[2]):
            content[2] = (content[2] ^ rx.bytes[words[1] + i]) * 0x01000193
    elif kind == CONCAT_KIND:
        content[1] = _digest(rx, words[1], depth + 1)
        content[2] = _digest(rx, words[2], depth + 1)
    elif kind == REPEAT_KIND:
        content[1] = _digest(rx, words[1], depth + 1)
        content[2] = words[2]
        content[3] = words[3]
    elif kind == ALT_KIND or kind == AND_KIND or kind == NOT_KIND:
        content[1] = length
        for i in range(1, length):
            content[2] += _digest(rx, words[i], depth + 1)  # their order is the grammar's own
    else:
        content[1] = words_hash(words, length)
    made = words_hash(content, 4)
    rx.info[node].digest = made if made else 1
    return rx.info[node].digest


cdef uint64_t _state_digest(Engine* engine, state_t state) noexcept nogil:
    """A hash of what a state holds; 0 for one that takes no part."""
    cdef Lexer* lexer = &engine.lexer
    cdef const uint32_t* words = lexer.vectors.entries[state].words
    cdef uint32_t i, length = lexer.vectors.entries[state].length
    cdef uint64_t sum = length
    for i in range(0, length, 2):
        if lexer.tails != NULL and lexer.tails[2 * words[i] + 1]:
            return 0  # what a lexeme hides is no part of the content
        sum += _digest(&lexer.rx, words[i + 1], 0) * 0x9E3779B97F4A7C15ULL
    return (sum ^ sum >> 29) * 0xBF58476D1CE4E5B9ULL | 1


cdef bint _name(Engine* engine, uint32_t where, state_t state, SharedKey* key) noexcept nogil:
    """Name a (site, lexer state) by content; False for what takes no part. Lock held."""
    cdef PlanPool* pool = &engine.pool.shared
    cdef Lexer* lexer = &engine.lexer
    cdef const uint32_t* words = lexer.vectors.entries[state].words
    cdef const Site* site = &engine.sites[where]
    cdef uint32_t content[MOST_TERMINALS]
    cdef uint32_t place[6]
    cdef uint32_t i, id
    key.count = lexer.vectors.entries[state].length // 2
    for i in range(key.count):
        id = _node_id(&lexer.rx, pool, words[2 * i + 1], 0)
        if id == NONE:
            return False
        key.order[i] = words[2 * i]
        content[i] = id << 2 | (lexer.lazy[words[2 * i]] != 0) << 1 | lexer.skip[words[2 * i]]
    _sort(content, key.order, key.count)
    key.state = interner_put(&pool.states, content, key.count)
    place[0] = <uint32_t><size_t>site.trie
    place[1] = <uint32_t>(<size_t>site.trie >> 32)
    place[2] = site.root
    place[3] = engine.heavy  # this and the next two change what a plan looks like
    place[4] = engine.shortcuts
    place[5] = engine.parser.stride
    if key.state != NONE:
        key.place = interner_put(&pool.places, place, 6)
    return key.place != NONE


cdef inline bint _takes_part(Engine* engine, uint32_t where, state_t state) noexcept nogil:
    cdef const Site* site = &engine.sites[where]
    return engine.shortcuts & SHARED_PLANS and not site.filtered \
        and is_heavy(engine, site.trie, site.root) \
        and engine.lexer.vectors.entries[state].length <= 2 * MOST_TERMINALS


# --------------------------------------------------------------------------- the pool

cdef void shared_begin(Engine* engine) noexcept nogil:
    """Note the generation of ids in which the engine takes part."""
    PyThread_acquire_lock(engine.pool.lock, WAIT_LOCK)
    engine.generation = engine.pool.shared.generation
    PyThread_release_lock(engine.pool.lock)


# --------------------------------------------------------------------------- giving

cdef uint64_t _places(const Engine* engine, const SharedKey* key, uint32_t emitted) noexcept nogil:
    """An emitted set as a set of places; all ones if it holds another terminal."""
    cdef const uint32_t* words = engine.lexer.sets.entries[emitted].words
    cdef uint32_t i, j
    cdef uint64_t places = 0
    for i in range(engine.lexer.sets.entries[emitted].length):
        j = 0
        while j < key.count and key.order[j] != words[i]:
            j += 1
        if j == key.count:
            return <uint64_t>0 - 1
        places |= <uint64_t>1 << j
    return places


cdef void _hold(TablePool* pool, SharedPlan* plan, Table* table) noexcept nogil:
    """Keep a table for as long as the plan. Lock held."""
    cdef uint32_t i
    for i in range(plan.table_count):
        if plan.tables[i] == table:
            return
    plan.tables[plan.table_count] = table
    plan.table_count += 1
    table_hold(pool, table)


cdef SharedPlan* _made(const Engine* engine, const SharedKey* key, const Plan* plan) noexcept nogil:
    """A plan without the grammar's ids; NULL where it cannot be, or memory is out. Lock held."""
    cdef TablePool* pool = engine.pool
    cdef SharedPlan* made = <SharedPlan*>calloc(1, sizeof(SharedPlan))
    cdef const Boundary* bound
    cdef SharedBoundary* kept
    cdef const Site* site
    cdef uint32_t i, listed = plan.fixed.added + plan.fixed.removed
    cdef bint whole = True
    if made == NULL:
        return NULL
    made.boundaries = <SharedBoundary*>calloc(plan.boundary_count + 1, sizeof(SharedBoundary))
    made.tables = <Table**>calloc(plan.boundary_count + 1, sizeof(Table*))
    made.tokens = <uint32_t*>malloc((listed + 1) * sizeof(uint32_t))
    made.bytes = sizeof(SharedPlan) + listed * sizeof(uint32_t) \
        + plan.boundary_count * sizeof(SharedBoundary)
    pool.shared.bytes += made.bytes
    if made.boundaries == NULL or made.tables == NULL or made.tokens == NULL:
        shared_plan_free(pool, made)
        return NULL
    if plan.fixed.base != NULL:
        made.base = shared_bits(&pool.shared, plan.fixed.base)
        whole = made.base != NULL
    if listed:
        memcpy(made.tokens, plan.fixed.tokens, listed * sizeof(uint32_t))
    made.added = plan.fixed.added
    made.removed = plan.fixed.removed
    for i in range(plan.boundary_count):
        bound = &plan.boundaries[i]
        kept = &made.boundaries[i]
        made.boundary_count += 1
        site = &engine.sites[bound.site]
        kept.mode = bound.mode
        kept.node = bound.node
        kept.byte = bound.detail
        kept.emitted = _places(engine, key, bound.emitted)
        memcpy(kept.live, bound.live, sizeof(kept.live))
        kept.trie = site.trie
        kept.root = site.root
        kept.low = site.low
        kept.high = site.high
        kept.depth = site.depth
        kept.table = site.table
        if site.table != NULL:
            _hold(pool, made, site.table)
        if bound.filter != NULL:
            kept.filter = shared_bits(&pool.shared, bound.filter)
            whole = whole and kept.filter != NULL
        whole = whole and kept.emitted != <uint64_t>0 - 1
        if not whole:
            break
    if not whole:
        shared_plan_free(pool, made)
        return NULL
    return made


cdef void shared_offer(Engine* engine, const SharedKey* key, const Plan* plan) noexcept nogil:
    """Give a plan that was made here, for what :c:func:`shared_adopt` gave the key of, to the
    pool."""
    cdef PlanPool* pool = &engine.pool.shared
    cdef uint32_t i, known
    cdef SharedPlan* made
    if key.place == NONE:
        return
    for i in range(plan.boundary_count):
        if plan.boundaries[i].mode == NESTED or plan.boundaries[i].mode == WALK:
            return
    PyThread_acquire_lock(engine.pool.lock, WAIT_LOCK)
    if pool.nodes.count > MOST_IDS or pool.index.count > MOST_IDS:
        plan_pool_renew(engine.pool)
    if engine.generation == pool.generation:
        known = map_get(&pool.index, key.place, key.state)
        if known == NONE or known < FIRST_PLAN:
            made = _made(engine, key, plan)
            if made != NULL:
                plan_pool_take(engine.pool, made, key.place, key.state)
    PyThread_release_lock(engine.pool.lock)


# --------------------------------------------------------------------------- taking

cdef int _localise(
    Engine* engine, const SharedKey* key, const SharedPlan* shared, Plan* plan
) noexcept nogil:
    """Say a shared plan in the ids of this engine; -1 with a fault set."""
    cdef uint32_t i, j, listed = shared.added + shared.removed
    cdef const SharedBoundary* kept
    cdef Boundary* bound
    cdef uint32_t terminals[MOST_TERMINALS]
    cdef uint32_t count
    memset(plan, 0, sizeof(Plan))
    plan.boundaries = <Boundary*>arena_take(
        &engine.mask_arena, shared.boundary_count * sizeof(Boundary)
    )
    plan.fixed.base = NULL if shared.base == NULL else shared.base.bits
    plan.fixed.added = shared.added
    plan.fixed.removed = shared.removed
    plan.fixed.bytes = listed * sizeof(uint32_t)
    if listed:
        plan.fixed.tokens = <uint32_t*>arena_take(&engine.mask_arena, plan.fixed.bytes)
    if plan.boundaries == NULL or (listed and plan.fixed.tokens == NULL):
        fault_set(&engine.fault, FAULT_MEMORY)
        return -1
    if listed:
        memcpy(plan.fixed.tokens, shared.tokens, plan.fixed.bytes)
    plan.boundary_count = shared.boundary_count
    for i in range(shared.boundary_count):
        kept = &shared.boundaries[i]
        bound = &plan.boundaries[i]
        bound.mode = kept.mode
        bound.node = kept.node
        bound.detail = kept.byte
        bound.filter = NULL if kept.filter == NULL else kept.filter.bits
        bound.less = NULL
        bound.less_count = 0
        memcpy(bound.live, kept.live, sizeof(bound.live))
        if kept.mode == LEFT or kept.mode == OVER:
            bound.site = lazy_site(engine, kept.table, kept.low, kept.high, kept.depth)
        else:
            bound.site = site_of(
                engine, kept.trie, kept.root, kept.low, kept.high, kept.table, kept.depth
            )
        count = 0
        for j in range(key.count):
            if (kept.emitted >> j) & 1:
                terminals[count] = key.order[j]
                count += 1
        _sort(terminals, NULL, count)
        bound.emitted = lexer_set(&engine.lexer, terminals, count)
        if engine.fault.code:
            return -1
    return 0


cdef bint shared_adopt(
    Engine* engine, uint32_t where, state_t state, Plan* plan, SharedKey* key
) noexcept nogil:
    """Take the plan of a (site, state) from the pool; whether it has one. If not, ``key`` is what
    to offer one under. May set a fault."""
    cdef PlanPool* pool = &engine.pool.shared
    cdef uint32_t known
    cdef uint64_t digest
    cdef SharedPlan* shared = NULL
    cdef SharedPlan** grown
    key.place = NONE
    if not _takes_part(engine, where, state):
        return False
    digest = _state_digest(engine, state)
    if digest == 0:
        return False
    grown = <SharedPlan**>array_grown(
        engine.adopted, &engine.adopted_room, engine.adopted_count, sizeof(SharedPlan*)
    )
    if grown == NULL:
        return False
    engine.adopted = grown
    PyThread_acquire_lock(engine.pool.lock, WAIT_LOCK)
    if engine.generation == pool.generation and plan_pool_met(engine.pool, digest) \
            and _name(engine, where, state, key):
        known = map_get(&pool.index, key.place, key.state)
        if known != NONE and known >= FIRST_PLAN:
            shared = pool.plans[known - FIRST_PLAN]
            shared_plan_hold(pool, shared)
    PyThread_release_lock(engine.pool.lock)
    if shared == NULL:
        return False
    engine.adopted[engine.adopted_count] = shared
    engine.adopted_count += 1
    return _localise(engine, key, shared, plan) == 0


cdef void shared_release(Engine* engine) noexcept nogil:
    """Give back all plans that were adopted; the engine's masks must be gone."""
    cdef uint32_t i
    if engine.adopted_count:
        PyThread_acquire_lock(engine.pool.lock, WAIT_LOCK)
        for i in range(engine.adopted_count):
            shared_plan_drop(engine.pool, engine.adopted[i])
        PyThread_release_lock(engine.pool.lock)
    free(engine.adopted)
    engine.adopted = NULL
    engine.adopted_count = 0
    engine.adopted_room = 0
