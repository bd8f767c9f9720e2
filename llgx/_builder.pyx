# cython: language_level=3, boundscheck=False, wraparound=False
# cython: initializedcheck=False, cdivision=True
"""Masks in the making, and their shortest forms.

A builder collects tokens of one mask: as a shared bitset plus and minus short lists for as long as
that does, then as a bitset of its own. There is one per level of recursion of the mask engine,
reused for good, so that making a mask allocates nothing but its result. A finished :c:type:`Mask`
is a list of tokens, the differences from a bitset that others use too, or a bitset; equal bitsets
are kept once.

Invariant: the parts that are put into a builder are disjoint, but for what was removed before; so
nothing depends on their order where nothing is removed.

Cost: a token is a push; what needs a bitset costs passes over V / 64 words, about a microsecond
each for 128k tokens.
"""

from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcmp, memcpy, memset

from llgx._engine cimport DELTA_LIMIT, SPARSE_LIMIT, Builder, Engine, Mask
from llgx._memory cimport (
    FAULT_MEMORY, NONE, Map, Words, arena_take, array_grown, bits_hash, fault_set, lowest_bit,
    map_get, map_put, words_push, words_reserve,
)
from llgx._trie cimport Trie


cdef Builder* builder_open(Engine* engine) noexcept nogil:
    """The builder of the next level, empty; NULL with a fault set when memory is out.

    Builders move when there are more levels than before: hold levels, not pointers, over recursion.
    """
    cdef Builder* grown
    cdef uint32_t room
    if engine.level == engine.builder_count:
        room = engine.builder_count + 8
        grown = <Builder*>realloc(engine.builders, room * sizeof(Builder))
        if grown == NULL:
            fault_set(&engine.fault, FAULT_MEMORY)
            return NULL
        memset(grown + engine.builder_count, 0, 8 * sizeof(Builder))
        engine.builders = grown
        engine.builder_count = room
    grown = &engine.builders[engine.level]
    grown.list.size = 0
    grown.taken.size = 0
    grown.dense = False
    grown.base = NULL
    engine.level += 1
    return grown


cdef int builder_densify(Engine* engine, Builder* builder) noexcept nogil:
    """Turn a builder into a bitset, for what a list cannot do; -1 with a fault set."""
    cdef size_t i
    cdef uint32_t token
    if builder.bits == NULL:
        builder.bits = <uint64_t*>malloc((engine.words + 1) * sizeof(uint64_t))
        if builder.bits == NULL:
            fault_set(&engine.fault, FAULT_MEMORY)
            return -1
    if builder.base == NULL:
        memset(builder.bits, 0, engine.words * sizeof(uint64_t))
    else:
        memcpy(builder.bits, builder.base, engine.words * sizeof(uint64_t))
    for i in range(builder.taken.size):
        token = builder.taken.at[i]
        builder.bits[token >> 6] &= ~(<uint64_t>1 << (token & 63))
    for i in range(builder.list.size):
        token = builder.list.at[i]
        builder.bits[token >> 6] |= <uint64_t>1 << (token & 63)
    builder.dense = True
    return 0


cdef const uint64_t* _combined(
    Engine* engine, Map* known, const uint64_t* one, const uint64_t* other, bint minus
) noexcept nogil:
    """A kept bitset: the union of two kept ones or, ``minus``, the first without the second. NULL
    with a fault set.

    What rows add to masks are few bitsets, met again and again, so sums are looked up.
    """
    cdef uint32_t i, index
    cdef uint64_t* made
    cdef const uint64_t* kept
    if one == other and not minus:
        return one
    index = map_get(known, <uint64_t><size_t>one, <uint64_t><size_t>other)
    if index != NONE:
        return engine.bitsets[index]
    if engine.combined == NULL:
        engine.combined = <uint64_t*>malloc((engine.words + 1) * sizeof(uint64_t))
    made = engine.combined
    if made == NULL:
        fault_set(&engine.fault, FAULT_MEMORY)
        return NULL
    if minus:
        for i in range(engine.words):
            made[i] = one[i] & ~other[i]
    else:
        for i in range(engine.words):
            made[i] = one[i] | other[i]
    kept = builder_bitset(engine, made, &index)
    if kept != NULL and map_put(
        known, <uint64_t><size_t>one, <uint64_t><size_t>other, index
    ) < 0:
        fault_set(&engine.fault, FAULT_MEMORY)
        return NULL
    return kept


cdef void builder_put_bits(Engine* engine, uint32_t level, const uint64_t* bits) noexcept nogil:
    """Add a bitset that is kept, as are all bases."""
    cdef Builder* builder = &engine.builders[level]
    cdef uint32_t i
    cdef uint64_t* own
    if not builder.dense:
        if builder.taken.size == 0:
            if builder.base != NULL:
                bits = _combined(engine, &engine.bitset_plus, builder.base, bits, 0)
            if bits != NULL:
                builder.base = bits
            return
        if builder_densify(engine, builder) < 0:
            return
    own = builder.bits
    for i in range(engine.words):
        own[i] |= bits[i]


cdef void builder_put_parts(
    Engine* engine, uint32_t level, const uint64_t* base, const uint32_t* tokens, size_t added,
    const uint32_t* taken, size_t removed
) noexcept nogil:
    """Add a set given as a bitset (or NULL) minus the tokens ``taken`` plus others."""
    cdef size_t i
    cdef Builder* other
    if removed and not builder_is_empty(&engine.builders[level]):
        # What is taken away may be there for another reason already: apply it by itself first.
        if builder_open(engine) == NULL:
            return
        builder_put_parts(engine, engine.level - 1, base, tokens, added, taken, removed)
        other = &engine.builders[engine.level - 1]
        if builder_densify(engine, other) == 0:
            builder_put_dense(engine, level, other)
        engine.level -= 1
        return
    if base != NULL:
        builder_put_bits(engine, level, base)
    if removed:
        # The builder was empty, so it is the base alone now.
        other = &engine.builders[level]
        for i in range(removed):
            if words_push(&other.taken, taken[i]) < 0:
                fault_set(&engine.fault, FAULT_MEMORY)
                return
    for i in range(added):
        builder_put(engine, level, tokens[i])


cdef void builder_put_mask(Engine* engine, uint32_t level, const Mask* mask) noexcept nogil:
    builder_put_parts(
        engine, level, mask.base, mask.tokens, mask.added, mask.tokens + mask.added, mask.removed
    )


cdef void builder_put_builder(Engine* engine, uint32_t level, uint32_t source) noexcept nogil:
    """Add what the builder of level ``source`` holds."""
    cdef Builder* builder = &engine.builders[source]
    if not builder.dense:
        builder_put_parts(
            engine, level, builder.base, builder.list.at, builder.list.size, builder.taken.at,
            builder.taken.size
        )
        return
    builder_put_dense(engine, level, builder)


cdef void builder_put_dense(Engine* engine, uint32_t level, const Builder* source) noexcept nogil:
    """Add a bitset that does not outlive this call, so that no builder may point to it."""
    cdef Builder* target = &engine.builders[level]
    cdef uint32_t i
    if not target.dense and builder_densify(engine, target) < 0:
        return
    if target.base == NULL:
        target.base = source.base  # what the sum will differ from the least
    for i in range(engine.words):
        target.bits[i] |= source.bits[i]


cdef const uint64_t* builder_bitset(
    Engine* engine, const uint64_t* bits, uint32_t* index
) noexcept nogil:
    """A kept bitset with this content; NULL with a fault set when memory is out."""
    cdef uint64_t h = bits_hash(bits, engine.words)
    cdef uint64_t** grown
    cdef uint64_t* made
    index[0] = map_get(&engine.bitset_index, h, 0)
    if index[0] != NONE and \
            memcmp(engine.bitsets[index[0]], bits, engine.words * sizeof(uint64_t)) == 0:
        return engine.bitsets[index[0]]
    grown = <uint64_t**>array_grown(
        engine.bitsets, &engine.bitset_room, engine.bitset_count, sizeof(uint64_t*)
    )
    if grown == NULL:
        fault_set(&engine.fault, FAULT_MEMORY)
        return NULL
    engine.bitsets = grown
    made = <uint64_t*>malloc((engine.words + 1) * sizeof(uint64_t))
    if made == NULL or map_put(&engine.bitset_index, h, 0, engine.bitset_count) < 0:
        free(made)
        fault_set(&engine.fault, FAULT_MEMORY)
        return NULL
    memcpy(made, bits, engine.words * sizeof(uint64_t))
    index[0] = engine.bitset_count
    engine.bitsets[index[0]] = made
    engine.bitset_count += 1
    engine.mask_bytes += engine.words * sizeof(uint64_t)
    return made


cdef bint builder_differs(
    Engine* engine, const uint64_t* bits, const uint64_t* base, uint32_t limit
) noexcept nogil:
    """Whether two bitsets (``base`` NULL: none) differ in at most ``limit`` tokens.

    If so, ``engine.tokens`` holds those to add to ``base`` and ``engine.removed`` those to take
    away.
    """
    cdef uint32_t i, j, at, stop
    cdef uint64_t own = 0, different
    engine.tokens.size = 0
    engine.removed.size = 0
    if words_reserve(&engine.tokens, limit + 64) < 0 \
            or words_reserve(&engine.removed, limit + 64) < 0:
        fault_set(&engine.fault, FAULT_MEMORY)
        return False
    i = 0
    while i < engine.words:
        # Most words are equal: eight at a time, without a branch between them.
        stop = i + 8
        if stop <= engine.words:
            different = 0
            if base == NULL:
                for j in range(8):
                    different |= bits[i + j]
            else:
                for j in range(8):
                    different |= bits[i + j] ^ base[i + j]
            if different == 0:
                i = stop
                continue
        else:
            stop = engine.words
        while i < stop:
            if base != NULL:
                own = base[i]
            different = bits[i] ^ own
            while different:
                at = lowest_bit(different)
                different &= different - 1
                if (own >> at) & 1:
                    engine.removed.at[engine.removed.size] = 64 * i + at
                    engine.removed.size += 1
                else:
                    engine.tokens.at[engine.tokens.size] = 64 * i + at
                    engine.tokens.size += 1
            i += 1
            if engine.tokens.size + engine.removed.size > limit:
                return False
    return True


cdef int _set_lists(
    Engine* engine, Mask* mask, const uint64_t* base, const Words* added, const Words* taken
) noexcept nogil:
    """Make ``mask`` a base with tokens to add and to take away."""
    cdef size_t count = added.size + taken.size
    mask.base = base
    mask.added = <uint32_t>added.size
    mask.removed = <uint32_t>taken.size
    mask.bytes = <uint32_t>(4 * count)
    if count == 0:
        return 0
    mask.tokens = <uint32_t*>arena_take(&engine.mask_arena, count * sizeof(uint32_t))
    if mask.tokens == NULL:
        fault_set(&engine.fault, FAULT_MEMORY)
        return -1
    if added.size:
        memcpy(mask.tokens, added.at, added.size * sizeof(uint32_t))
    if taken.size:
        memcpy(mask.tokens + added.size, taken.at, taken.size * sizeof(uint32_t))
    return 0


cdef int builder_finish(Engine* engine, uint32_t level, uint64_t place, Mask* mask) noexcept nogil:
    """Turn a builder into a mask in a short form; -1 with a fault set when memory is out.

    What has stayed lists does so, which costs no pass over the vocabulary. A bitset becomes, in the
    order tried, the differences from the bitset that it was begun with, a list of tokens, the
    differences from the last mask of the same (site, state), or itself.
    """
    cdef Builder* builder = &engine.builders[level]
    cdef uint32_t index
    memset(mask, 0, sizeof(Mask))
    if not builder.dense:
        return _set_lists(engine, mask, builder.base, &builder.list, &builder.taken)
    if builder.base != NULL and builder_differs(engine, builder.bits, builder.base, DELTA_LIMIT):
        return _set_lists(engine, mask, builder.base, &engine.tokens, &engine.removed)
    if builder_differs(engine, builder.bits, NULL, SPARSE_LIMIT):
        return _set_lists(engine, mask, NULL, &engine.tokens, &engine.removed)
    index = map_get(&engine.bitset_last, 0, place)
    if index != NONE and builder_differs(
        engine, builder.bits, engine.bitsets[index], DELTA_LIMIT
    ):
        return _set_lists(
            engine, mask, engine.bitsets[index], &engine.tokens, &engine.removed
        )
    if engine.fault.code:
        return -1
    mask.base = builder_bitset(engine, builder.bits, &index)
    if mask.base == NULL or map_put(&engine.bitset_last, 0, place, index) < 0:
        fault_set(&engine.fault, FAULT_MEMORY)
        return -1
    return 0


cdef void builder_remove_places(
    Engine* engine, uint32_t level, const Trie* trie, uint32_t begin, uint32_t end
) noexcept nogil:
    cdef uint32_t i, token
    cdef Builder* builder = &engine.builders[level]
    if not builder.dense and builder_densify(engine, builder) < 0:
        return
    for i in range(begin, end):
        token = trie.tokens[i]
        builder.bits[token >> 6] &= ~(<uint64_t>1 << (token & 63))


cdef void builder_remove_bits(Engine* engine, uint32_t level, const uint64_t* bits) noexcept nogil:
    """Take a kept bitset away from what the builder holds."""
    cdef Builder* builder = &engine.builders[level]
    cdef uint64_t* own
    cdef size_t i, kept = 0
    cdef uint32_t token
    if builder.dense:
        own = builder.bits
        for i in range(engine.words):
            own[i] &= ~bits[i]
        return
    if builder.base != NULL:
        builder.base = _combined(engine, &engine.bitset_minus, builder.base, bits, 1)
    for i in range(builder.list.size):
        token = builder.list.at[i]
        if not (bits[token >> 6] >> (token & 63)) & 1:
            builder.list.at[kept] = token
            kept += 1
    builder.list.size = kept


cdef void builder_remove_tokens(
    Engine* engine, uint32_t level, const uint32_t* tokens, uint32_t count
) noexcept nogil:
    """Take a few sorted tokens away from what the builder holds."""
    cdef Builder* builder = &engine.builders[level]
    cdef size_t i, kept = 0
    cdef uint32_t token, low, high, middle
    if builder.dense:
        for i in range(count):
            builder.bits[tokens[i] >> 6] &= ~(<uint64_t>1 << (tokens[i] & 63))
        return
    for i in range(builder.list.size):
        token = builder.list.at[i]
        low = 0
        high = count
        while low < high:
            middle = (low + high) >> 1
            if tokens[middle] < token:
                low = middle + 1
            else:
                high = middle
        if low == count or tokens[low] != token:
            builder.list.at[kept] = token
            kept += 1
    builder.list.size = kept
    if builder.base == NULL:
        return
    for i in range(count):
        if (builder.base[tokens[i] >> 6] >> (tokens[i] & 63)) & 1 \
                and words_push(&builder.taken, tokens[i]) < 0:
            fault_set(&engine.fault, FAULT_MEMORY)
            return
