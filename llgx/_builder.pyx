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
from llgx._memory cimport FAULT_MEMORY, NONE, fault_set, map_get, map_put, words_push
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
    for i in range(builder.list.size):
        token = builder.list.at[i]
        builder.bits[token >> 6] |= <uint64_t>1 << (token & 63)
    for i in range(builder.taken.size):
        token = builder.taken.at[i]
        builder.bits[token >> 6] &= ~(<uint64_t>1 << (token & 63))
    builder.dense = True
    return 0


cdef void builder_put_bits(Engine* engine, uint32_t level, const uint64_t* bits) noexcept nogil:
    cdef Builder* builder = &engine.builders[level]
    cdef uint32_t i
    cdef uint64_t* own
    if not builder.dense:
        if builder.base == NULL and builder.taken.size == 0:
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
    """Add a set given as a bitset (or NULL), tokens to add to it and tokens to take away from
    it."""
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
    for i in range(added):
        builder_put(engine, level, tokens[i])
    if removed == 0:
        return
    other = &engine.builders[level]
    if other.dense:
        for i in range(removed):
            other.bits[taken[i] >> 6] &= ~(<uint64_t>1 << (taken[i] & 63))
        return
    for i in range(removed):
        if words_push(&other.taken, taken[i]) < 0:
            fault_set(&engine.fault, FAULT_MEMORY)
            return


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


cdef inline uint32_t _ones(uint64_t bits) noexcept nogil:
    bits = bits - ((bits >> 1) & 0x5555555555555555ULL)
    bits = (bits & 0x3333333333333333ULL) + ((bits >> 2) & 0x3333333333333333ULL)
    bits = (bits + (bits >> 4)) & 0x0F0F0F0F0F0F0F0FULL
    return <uint32_t>((bits * 0x0101010101010101ULL) >> 56)


cdef inline uint32_t _lowest(uint64_t bits) noexcept nogil:
    return _ones((bits & (~bits + 1)) - 1)


cdef const uint64_t* _bitset(Engine* engine, const uint64_t* bits, uint32_t* index) noexcept nogil:
    """A kept bitset with this content; NULL with a fault set when memory is out."""
    cdef uint64_t h = 0x9E3779B97F4A7C15ULL
    cdef uint32_t i, room
    cdef uint64_t** grown
    cdef uint64_t* made
    for i in range(engine.words):
        h = (h ^ bits[i]) * 0xD6E8FEB86659FD93ULL
        h ^= h >> 29
    index[0] = map_get(&engine.bitset_index, h, 0)
    if index[0] != NONE and \
            memcmp(engine.bitsets[index[0]], bits, engine.words * sizeof(uint64_t)) == 0:
        return engine.bitsets[index[0]]
    if engine.bitset_count == engine.bitset_room:
        room = engine.bitset_room * 2 if engine.bitset_room else 32
        grown = <uint64_t**>realloc(engine.bitsets, room * sizeof(uint64_t*))
        if grown == NULL:
            fault_set(&engine.fault, FAULT_MEMORY)
            return NULL
        engine.bitsets = grown
        engine.bitset_room = room
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


cdef uint32_t _differences(
    Engine* engine, const uint64_t* bits, const uint64_t* base, uint32_t limit
) noexcept nogil:
    """In how many tokens two bitsets differ; some number above ``limit`` if in more than that."""
    cdef uint32_t i, count = 0
    cdef uint64_t different
    for i in range(engine.words):
        different = bits[i] ^ (base[i] if base != NULL else 0)
        if different:
            count += _ones(different)
            if count > limit:
                break
    return count


cdef int builder_finish(Engine* engine, uint32_t level, uint64_t place, Mask* mask) noexcept nogil:
    """Turn a builder into a mask in a short form; -1 with a fault set when memory is out.

    In the order tried: a list of tokens, the differences from the loop table that it was begun with
    or from the last mask of the same (site, state), a bitset.
    """
    cdef Builder* builder = &engine.builders[level]
    cdef const uint64_t* base = NULL
    cdef uint32_t i, count, taken = 0, at, index
    cdef uint64_t bits, own
    memset(mask, 0, sizeof(Mask))
    if not builder.dense:
        if builder.base == NULL or builder.list.size + builder.taken.size <= DELTA_LIMIT:
            mask.base = builder.base
            mask.added = <uint32_t>builder.list.size
            mask.removed = <uint32_t>builder.taken.size
            count = mask.added + mask.removed
            mask.bytes = 4 * count
            if count == 0:
                return 0
            mask.tokens = <uint32_t*>malloc(count * sizeof(uint32_t))
            if mask.tokens == NULL:
                fault_set(&engine.fault, FAULT_MEMORY)
                return -1
            if mask.added:
                memcpy(mask.tokens, builder.list.at, mask.added * sizeof(uint32_t))
            if mask.removed:
                memcpy(
                    mask.tokens + mask.added, builder.taken.at, mask.removed * sizeof(uint32_t)
                )
            return 0
        if builder_densify(engine, builder) < 0:
            return -1
    count = _differences(engine, builder.bits, NULL, SPARSE_LIMIT)
    if count > SPARSE_LIMIT and builder.base != NULL:
        base = builder.base
        count = _differences(engine, builder.bits, base, DELTA_LIMIT)
    if count > DELTA_LIMIT and (base != NULL or count > SPARSE_LIMIT):
        index = map_get(&engine.bitset_last, 0, place)
        if index != NONE:
            base = engine.bitsets[index]
            count = _differences(engine, builder.bits, base, DELTA_LIMIT)
        if index == NONE or count > DELTA_LIMIT:
            mask.base = _bitset(engine, builder.bits, &index)
            if mask.base == NULL or map_put(&engine.bitset_last, 0, place, index) < 0:
                fault_set(&engine.fault, FAULT_MEMORY)
                return -1
            return 0
    mask.base = base
    if count == 0:
        return 0
    mask.tokens = <uint32_t*>malloc(count * sizeof(uint32_t))
    if mask.tokens == NULL:
        fault_set(&engine.fault, FAULT_MEMORY)
        return -1
    # Those to take away go to the end of the list first, so that one pass does.
    for i in range(engine.words):
        own = base[i] if base != NULL else 0
        bits = builder.bits[i] ^ own
        while bits:
            at = _lowest(bits)
            bits &= bits - 1
            if (own >> at) & 1:
                taken += 1
                mask.tokens[count - taken] = 64 * i + at
            else:
                mask.tokens[mask.added] = 64 * i + at
                mask.added += 1
    mask.removed = taken
    mask.bytes = 4 * count
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
    cdef Builder* builder = &engine.builders[level]
    cdef uint64_t* own
    cdef size_t i, kept = 0
    cdef uint32_t token
    if builder.base != NULL and not builder.dense and builder_densify(engine, builder) < 0:
        return
    own = builder.bits
    if builder.dense:
        for i in range(engine.words):
            own[i] &= ~bits[i]
        return
    for i in range(builder.list.size):
        token = builder.list.at[i]
        if not (bits[token >> 6] >> (token & 63)) & 1:
            builder.list.at[kept] = token
            kept += 1
    builder.list.size = kept
