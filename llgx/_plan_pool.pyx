# cython: language_level=3, boundscheck=False, wraparound=False
# cython: initializedcheck=False, cdivision=True
"""Where a vocabulary keeps the plans that its grammars share (``_shared``).

Plans are counted by the engines that use them. Those without users stay, in the order in which they
lost the last one, until all plans together pass the limit in bytes; then the oldest are freed. Most
of what a plan takes is its bitset, and plans of many states have the same one: each content is kept
once, counted by its plans, so that a mask of one grammar finds in the processor's caches what
another one has just copied.

Invariant: a plan is in ``PlanPool.unused`` if and only if no engine uses it and it is of the
current generation; a bitset lives as long as some plan refers to it.

Most states are met in one grammar only. These never get as far as a key: what is remembered of a
state that is met for the first time is its digest, in a small table where others soon take its
place. So the tables of ids stay small enough for the processor's caches.

Cost: everything is constant, but for one hash of a bitset when a plan is taken in.
"""

from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy

from llgx._memory cimport (
    array_grown, bits_hash, interner_free, map_clear, map_free, map_put, queue_put,
    queue_take, words_free, words_push, words_reserve,
)
from llgx._trie cimport BITS_BUCKETS, PlanPool, SharedBits, SharedPlan, TablePool, table_drop


cdef SharedBits* shared_bits(PlanPool* pool, const uint64_t* bits) noexcept nogil:
    """A bitset with this content, counted once more; NULL when memory is out. Lock held."""
    cdef uint64_t h = bits_hash(bits, pool.words)
    cdef size_t size = pool.words * sizeof(uint64_t)
    cdef SharedBits* found
    if pool.bits == NULL:
        pool.bits = <SharedBits**>calloc(BITS_BUCKETS, sizeof(SharedBits*))
        if pool.bits == NULL:
            return NULL
    found = pool.bits[h % BITS_BUCKETS]
    while found != NULL and (found.hash != h or memcmp(found.bits, bits, size) != 0):
        found = found.next
    if found == NULL:
        found = <SharedBits*>calloc(1, sizeof(SharedBits))
        if found == NULL:
            return NULL
        found.bits = <uint64_t*>malloc(size + sizeof(uint64_t))
        if found.bits == NULL:
            free(found)
            return NULL
        memcpy(found.bits, bits, size)
        found.hash = h
        found.next = pool.bits[h % BITS_BUCKETS]
        pool.bits[h % BITS_BUCKETS] = found
        pool.bytes += size + sizeof(SharedBits)
    found.references += 1
    return found


cdef void _bits_drop(PlanPool* pool, SharedBits* bits) noexcept nogil:
    cdef SharedBits** link
    if bits == NULL:
        return
    bits.references -= 1
    if bits.references:
        return
    link = &pool.bits[bits.hash % BITS_BUCKETS]
    while link[0] != bits:
        link = &link[0].next
    link[0] = bits.next
    pool.bytes -= pool.words * sizeof(uint64_t) + sizeof(SharedBits)
    free(bits.bits)
    free(bits)


cdef void shared_plan_free(TablePool* tables, SharedPlan* plan) noexcept nogil:
    """Free a plan that nothing refers to. Lock held."""
    cdef PlanPool* pool = &tables.shared
    cdef uint32_t i
    for i in range(plan.table_count):
        table_drop(tables, plan.tables[i])
    for i in range(plan.boundary_count):
        _bits_drop(pool, plan.boundaries[i].filter)
    _bits_drop(pool, plan.base)
    pool.bytes -= plan.bytes
    free(plan.boundaries)
    free(plan.tables)
    free(plan.tokens)
    free(plan)


cdef void shared_plan_drop(TablePool* tables, SharedPlan* plan) noexcept nogil:
    """Count one engine less that uses a plan. Lock held."""
    plan.references -= 1
    if plan.references:
        return
    if plan.orphan:
        shared_plan_free(tables, plan)
    else:
        queue_put(&tables.shared.unused, &plan.link)


cdef void _make_room(TablePool* tables) noexcept nogil:
    """Free plans without users, the oldest first, until the limit holds."""
    cdef PlanPool* pool = &tables.shared
    cdef SharedPlan* plan
    while pool.bytes > pool.limit and pool.unused.oldest != NULL:
        plan = <SharedPlan*>pool.unused.oldest
        if words_reserve(&pool.free_places, 1) < 0 \
                or map_put(&pool.index, plan.place, plan.state, 0) < 0:
            return
        words_push(&pool.free_places, plan.index)
        queue_take(&pool.unused, &plan.link)
        pool.plans[plan.index] = NULL
        shared_plan_free(tables, plan)


cdef bint plan_pool_met(TablePool* tables, uint64_t digest) noexcept nogil:
    """Whether a state of this digest was met before, not too long ago. Lock held."""
    cdef PlanPool* pool = &tables.shared
    cdef uint32_t at = digest % MET_STATES
    cdef uint32_t left = <uint32_t>(digest >> 32) | 1
    if pool.met == NULL:
        pool.met = <uint32_t*>calloc(MET_STATES, sizeof(uint32_t))
        if pool.met == NULL:
            return False
    if pool.met[at] == left:
        return True
    pool.met[at] = left
    return False


cdef void plan_pool_take(
    TablePool* tables, SharedPlan* plan, uint32_t place, uint32_t state
) noexcept nogil:
    """Keep a plan under its key, or free it where the limit or memory does not allow that. Lock
    held."""
    cdef PlanPool* pool = &tables.shared
    cdef SharedPlan** grown
    cdef uint32_t index = pool.count
    _make_room(tables)
    if pool.bytes <= pool.limit:
        if pool.free_places.size:
            index = pool.free_places.at[pool.free_places.size - 1]
        grown = <SharedPlan**>array_grown(pool.plans, &pool.room, index, sizeof(SharedPlan*))
        if grown != NULL:
            pool.plans = grown
            if map_put(&pool.index, place, state, index + FIRST_PLAN) == 0:
                if index == pool.count:
                    pool.count += 1
                else:
                    pool.free_places.size -= 1
                plan.index = index
                plan.place = place
                plan.state = state
                pool.plans[index] = plan
                queue_put(&pool.unused, &plan.link)
                return
    shared_plan_free(tables, plan)


cdef void plan_pool_renew(TablePool* tables) noexcept nogil:
    """Forget all ids and plans; those in use are freed by their last user. Lock held."""
    cdef PlanPool* pool = &tables.shared
    cdef uint32_t i
    for i in range(pool.count):
        if pool.plans[i] == NULL:
            continue
        if pool.plans[i].references:
            pool.plans[i].orphan = True
        else:
            queue_take(&pool.unused, &pool.plans[i].link)
            shared_plan_free(tables, pool.plans[i])
    pool.count = 0
    pool.free_places.size = 0
    interner_free(&pool.nodes)
    interner_free(&pool.states)
    interner_free(&pool.places)
    map_clear(&pool.index)
    pool.generation += 1


cdef void plan_pool_free(TablePool* tables) noexcept nogil:
    """Free everything; no engine uses a plan any more."""
    cdef PlanPool* pool = &tables.shared
    if pool.plans != NULL:
        plan_pool_renew(tables)
    free(pool.plans)
    free(pool.bits)
    free(pool.met)
    words_free(&pool.free_places)
    interner_free(&pool.nodes)
    interner_free(&pool.states)
    interner_free(&pool.places)
    map_free(&pool.index)
