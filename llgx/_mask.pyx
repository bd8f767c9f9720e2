# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Masks: which tokens may come next, as a pure function of (row, lexer state).

The plain way is one walk of the token trie that steps the lexer by each byte and the parser at each end
of a lexeme. Everything here is a shortcut to the same set, and each can be switched off:

* *Inside and boundary.* A lexeme that a token leaves unfinished does not depend on the row. What a
  lexer state says about a trie before any row is asked is kept as an :c:type:`Inside`: tokens, and
  places where a lexeme ends inside a token. Only those are looked at per row.
* *Difference masks.* If most children of the root lead to one looping state, the loop's table
  (``_trie``) stands for all tokens that begin that way: its bitset for those that stay in the loop, its
  suffix trie for those that leave it. Where this state goes another way than the loop (a keyword
  beside an identifier), the two are walked together until they meet, and the difference is recorded.
* *Length classes.* The same for a counted repeat: the bitset of the tokens that are short enough.
* *Boundary memo.* What may follow a finished lexeme is itself a mask, of a suffix trie or of a heavy
  node of a trie, memoised per (site, row, state).
* *Mask memo.* As is the whole mask.
* *Forced runs.* A state that only one byte can follow looks that child up.

Invariant: at each token one decision is made on one path, since the lexer is deterministic; so a mask
never depends on the order of the walk, and the parts of a mask are disjoint.

Memory: masks are short lists, short differences from a shared bitset, or bitsets of their own; their
bytes are counted, and the memo starts afresh when ``mask_limit`` is passed between two masks.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcmp, memcpy, memset

from llgx._earley cimport (
    parser_begin, parser_free, parser_init, parser_scan, row_accepts, row_state,
    row_t,
)
from llgx._lexer cimport (
    DEAD, NO_SET, TAIL_BYTES, TAIL_NONE, TAIL_UTF8, Loop, LoopKey, lexer_free, lexer_init, lexer_loop,
    lexer_loop_at, lexer_loop_lead, lexer_step, set_t, state_t, utf8_lead,
)
from llgx._memory cimport (
    FAULT_MEMORY, NONE, Slot, Words, arena_free, arena_take, fault_set, interner_drop,
    interner_free, interner_put, map_clear, map_free,
    map_get, map_put, words_free, words_push, words_reserve,
)
from llgx._trie cimport Table, Trie, table_acquire, table_release, table_split, table_window

cdef enum:
    LIST_LIMIT = 768     # tokens up to which a mask in the making is a list
    SPARSE_LIMIT = 512   # tokens up to which a finished mask is a list
    DELTA_LIMIT = 256    # tokens by which a finished mask may differ from a shared bitset
    SITE_DEPTH = 6       # tables below one another
    DEPTH_LIMIT = 48     # masks being made for other masks: bounds the C stack
    FRAME_WORDS = 6


# --------------------------------------------------------------------------- life

cdef int engine_init(Engine* engine, TablePool* pool, uint32_t terminals) noexcept nogil:
    """An engine without grammar; -1 when memory is out. To be freed in either case."""
    memset(engine, 0, sizeof(Engine))
    engine.pool = pool
    engine.words = pool.words
    engine.mask_limit = 256000000
    engine.shortcuts = 31
    engine.heavy = 768
    if lexer_init(&engine.lexer, terminals, &engine.fault) < 0:
        return -1
    engine.lexer.rx.saturation = pool.longest
    if parser_init(&engine.parser, &engine.lexer, &engine.fault) < 0:
        return -1
    return 0


cdef int engine_begin(Engine* engine) noexcept nogil:
    """To be called once the grammar is in place; -1 with a fault set when that fails."""
    if parser_begin(&engine.parser) < 0:
        return -1
    return -1 if _site(engine, &engine.pool.trie, 0, 0, NONE, NULL, 0) == NONE else 0


cdef void engine_free(Engine* engine) noexcept nogil:
    cdef uint32_t i
    lexer_free(&engine.lexer)
    parser_free(&engine.parser)
    _forget_masks(engine)
    free(engine.masks)
    free(engine.bitsets)
    map_free(&engine.bitset_index)
    map_free(&engine.bitset_last)
    map_free(&engine.mask_index)
    map_free(&engine.site_index)
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
        free(engine.builders[i].bits)
    free(engine.builders)
    for i in range(engine.table_count):
        table_release(engine.pool, engine.tables[i])
    free(engine.tables)
    words_free(&engine.frames)
    words_free(&engine.tokens)
    words_free(&engine.bounds)
    words_free(&engine.removed)


cdef void _forget_masks(Engine* engine) noexcept nogil:
    cdef uint32_t i
    for i in range(engine.mask_count):
        free(engine.masks[i].tokens)
    for i in range(engine.bitset_count):
        free(engine.bitsets[i])
    engine.bitset_count = 0
    map_clear(&engine.bitset_index)
    map_clear(&engine.bitset_last)
    engine.mask_count = 0
    engine.mask_bytes = 0
    map_clear(&engine.mask_index)


cdef uint32_t _site(
    Engine* engine, Trie* trie, uint32_t root, uint32_t low, uint32_t high, Table* table,
    uint32_t depth
) noexcept nogil:
    """The id of a place to walk from; NONE with a fault set when memory is out."""
    cdef uint32_t known, room
    cdef Site* grown
    cdef uint64_t high_key = <uint64_t><size_t>trie
    cdef uint64_t low_key = root
    cdef bint filtered = False
    if trie.prefix != NULL:
        if low <= trie.prefix_low:
            low = 0
        if high >= trie.prefix_high and trie.prefix_high < 0xFFFF:
            high = NONE
        filtered = low != 0 or high != NONE
    if filtered:
        # Walks begin at the root of a filtered site only, so the bounds can take its place.
        high_key |= <uint64_t>1 << 63
        low_key = (<uint64_t>low << 32) | high
    known = map_get(&engine.site_index, high_key, low_key)
    if known != NONE:
        return known
    if engine.site_count == engine.site_room:
        room = engine.site_room * 2 if engine.site_room else 16
        grown = <Site*>realloc(engine.sites, room * sizeof(Site))
        if grown == NULL:
            fault_set(&engine.fault, FAULT_MEMORY)
            return NONE
        engine.sites = grown
        engine.site_room = room
    grown = &engine.sites[engine.site_count]
    grown.trie = trie
    grown.root = root
    grown.low = low
    grown.high = high
    grown.table = table
    grown.depth = depth
    grown.filtered = filtered
    if map_put(&engine.site_index, high_key, low_key, engine.site_count) < 0:
        fault_set(&engine.fault, FAULT_MEMORY)
        return NONE
    engine.site_count += 1
    return engine.site_count - 1


cdef Table* _table(
    Engine* engine, Table* parent, uint32_t root, const LoopKey* key
) noexcept nogil:
    """A table of the pool, held until the engine is freed."""
    cdef Table* table
    cdef Table** grown
    cdef uint32_t i, room
    cdef Trie* trie = &engine.pool.trie if parent == NULL else &parent.suffix
    for i in range(engine.table_count):
        table = engine.tables[i]
        if table.trie == trie and table.root == root and table.key.tail == key.tail \
                and table.key.ascii[0] == key.ascii[0] and table.key.ascii[1] == key.ascii[1]:
            return table
    if engine.table_count == engine.table_room:
        room = engine.table_room * 2 if engine.table_room else 16
        grown = <Table**>realloc(engine.tables, room * sizeof(Table*))
        if grown == NULL:
            fault_set(&engine.fault, FAULT_MEMORY)
            return NULL
        engine.tables = grown
        engine.table_room = room
    table = table_acquire(engine.pool, parent, root, key)
    if table == NULL:
        fault_set(&engine.fault, FAULT_MEMORY)
        return NULL
    engine.tables[engine.table_count] = table
    engine.table_count += 1
    return table


# --------------------------------------------------------------------------- one byte

cdef inline bint _row_dead(Engine* engine, row_t row) noexcept nogil:
    """No lexeme can follow and the text is not complete. Guards of parametric rules alone do this."""
    return row_state(&engine.parser, row) == DEAD and not row_accepts(&engine.parser, row)


cdef bint engine_step(
    Engine* engine, row_t* row, state_t* state, bint* fresh, uint8_t byte
) noexcept nogil:
    """Read one byte. False, and nothing changed, where the grammar does not allow it.

    ``fresh`` says whether the lexer stands at the beginning of a lexeme. Also False with a fault set.
    """
    cdef row_t at = row[0]
    cdef state_t target = lexer_step(&engine.lexer, state[0], byte)
    cdef set_t emitted
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
        at = parser_scan(&engine.parser, at, emitted)
        target = row_state(&engine.parser, at)
        if engine.fault.code or _row_dead(engine, at):
            return False
        fresh[0] = True
    else:
        fresh[0] = False
    if engine.fault.code:
        return False
    row[0] = at
    state[0] = target
    return True


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


# --------------------------------------------------------------------------- builders

cdef Builder* _builder_open(Engine* engine) noexcept nogil:
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
    grown.dense = False
    grown.base = NULL
    engine.level += 1
    return grown


cdef int _densify(Engine* engine, Builder* builder, const uint64_t* base) noexcept nogil:
    cdef size_t i
    cdef uint32_t token
    if builder.bits == NULL:
        builder.bits = <uint64_t*>malloc((engine.words + 1) * sizeof(uint64_t))
        if builder.bits == NULL:
            fault_set(&engine.fault, FAULT_MEMORY)
            return -1
    if base == NULL:
        memset(builder.bits, 0, engine.words * sizeof(uint64_t))
    else:
        memcpy(builder.bits, base, engine.words * sizeof(uint64_t))
        builder.base = base
    for i in range(builder.list.size):
        token = builder.list.at[i]
        builder.bits[token >> 6] |= <uint64_t>1 << (token & 63)
    builder.dense = True
    return 0


cdef inline void _put(Engine* engine, uint32_t level, uint32_t token) noexcept nogil:
    cdef Builder* builder = &engine.builders[level]
    if builder.dense:
        builder.bits[token >> 6] |= <uint64_t>1 << (token & 63)
        return
    if words_push(&builder.list, token) < 0:
        fault_set(&engine.fault, FAULT_MEMORY)
    if builder.list.size > LIST_LIMIT:
        _densify(engine, builder, NULL)


cdef void _put_bits(Engine* engine, uint32_t level, const uint64_t* bits) noexcept nogil:
    cdef Builder* builder = &engine.builders[level]
    cdef uint32_t i
    cdef uint64_t* own
    if not builder.dense:
        _densify(engine, builder, bits)
        return
    own = builder.bits
    for i in range(engine.words):
        own[i] |= bits[i]


cdef void _put_mask(Engine* engine, uint32_t level, const Mask* mask) noexcept nogil:
    cdef uint32_t i, token
    cdef Builder* builder
    if mask.removed and (engine.builders[level].dense or engine.builders[level].list.size):
        # What the difference takes away may be there for another reason already.
        _put_difference(engine, level, mask)
        return
    if mask.base != NULL:
        _put_bits(engine, level, mask.base)
    for i in range(mask.added):
        _put(engine, level, mask.tokens[i])
    if mask.removed:
        builder = &engine.builders[level]
        for i in range(mask.added, mask.added + mask.removed):
            token = mask.tokens[i]
            builder.bits[token >> 6] &= ~(<uint64_t>1 << (token & 63))


cdef void _put_difference(Engine* engine, uint32_t level, const Mask* mask) noexcept nogil:
    """Add a mask with removals to a builder that is not empty, by way of a bitset of its own."""
    cdef Builder* other = _builder_open(engine)
    cdef uint32_t i, token
    if other == NULL:
        return
    if _densify(engine, other, mask.base) == 0:
        for i in range(mask.added):
            token = mask.tokens[i]
            other.bits[token >> 6] |= <uint64_t>1 << (token & 63)
        for i in range(mask.added, mask.added + mask.removed):
            token = mask.tokens[i]
            other.bits[token >> 6] &= ~(<uint64_t>1 << (token & 63))
        _put_bits(engine, level, other.bits)
    engine.level -= 1


cdef void _put_builder(Engine* engine, uint32_t level, uint32_t source) noexcept nogil:
    """Add what the builder of level ``source`` holds."""
    cdef size_t i
    if engine.builders[source].dense:
        if not engine.builders[level].dense:
            _densify(engine, &engine.builders[level], NULL)
        _put_bits(engine, level, engine.builders[source].bits)
        if engine.builders[level].base == NULL:
            engine.builders[level].base = engine.builders[source].base
        return
    for i in range(engine.builders[source].list.size):
        _put(engine, level, engine.builders[source].list.at[i])


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


cdef int _finish(Engine* engine, uint32_t level, uint64_t place, Mask* mask) noexcept nogil:
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
        mask.added = <uint32_t>builder.list.size
        if mask.added:
            mask.tokens = <uint32_t*>malloc(mask.added * sizeof(uint32_t))
            if mask.tokens == NULL:
                fault_set(&engine.fault, FAULT_MEMORY)
                return -1
            memcpy(mask.tokens, builder.list.at, mask.added * sizeof(uint32_t))
        mask.bytes = 4 * mask.added
        return 0
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


# --------------------------------------------------------------------------- inside: before the row

cdef inline bint _counts(const Site* site, uint32_t place) noexcept nogil:
    """Whether the token at ``place`` has as many characters before the suffix as the site asks."""
    return site.trie.prefix[place] >= site.low and site.trie.prefix[place] <= site.high


cdef void _inside_tokens(Engine* engine, const Site* site, uint32_t node) noexcept nogil:
    cdef uint32_t i
    for i in range(site.trie.tokens_at[node], site.trie.tokens_at[node + 1]):
        if site.filtered and not _counts(site, i):
            continue
        if words_push(&engine.tokens, site.trie.tokens[i]) < 0:
            fault_set(&engine.fault, FAULT_MEMORY)


cdef void _bound(
    Engine* engine, uint32_t mode, set_t emitted, uint32_t node, uint32_t state
) noexcept nogil:
    if words_push(&engine.bounds, mode) < 0 or words_push(&engine.bounds, emitted) < 0 \
            or words_push(&engine.bounds, node) < 0 or words_push(&engine.bounds, state) < 0:
        fault_set(&engine.fault, FAULT_MEMORY)


cdef inline bint _heavy(const Engine* engine, const Trie* trie, uint32_t node) noexcept nogil:
    return trie.end[node] - node >= engine.heavy


cdef inline bint _leaf(const Trie* trie, uint32_t node) noexcept nogil:
    return trie.children[node] == trie.children[node + 1]


cdef void _frame(
    Engine* engine, uint32_t cursor, uint32_t end, uint32_t a, uint32_t b, uint32_t c, uint32_t d
) noexcept nogil:
    cdef uint32_t* at
    if words_reserve(&engine.frames, FRAME_WORDS) < 0:
        fault_set(&engine.fault, FAULT_MEMORY)
        return
    at = engine.frames.at + engine.frames.size
    at[0] = cursor
    at[1] = end
    at[2] = a
    at[3] = b
    at[4] = c
    at[5] = d
    engine.frames.size += FRAME_WORDS


cdef bint _visit(Engine* engine, uint32_t where, uint32_t node, state_t state) noexcept nogil:
    """Account for ``node``, reached in a living ``state``; whether its children are to be walked."""
    cdef Site* site = &engine.sites[where]
    cdef Trie* trie = site.trie
    cdef set_t eager = engine.lexer.states[state].eager
    cdef uint32_t nested
    if eager != NO_SET:
        if engine.parser.stride == 5:
            _bound(engine, OWN, eager, node, 0)
        else:
            _inside_tokens(engine, site, node)
        if not _leaf(trie, node):
            _bound(engine, BELOW, eager, node, 0)
        return False
    _inside_tokens(engine, site, node)
    if _leaf(trie, node):
        return False
    if engine.shortcuts & DIFFERENCE_MASKS and _heavy(engine, trie, node) and not site.filtered \
            and engine.lexer.states[state].forced < 0:
        nested = _site(engine, trie, node, 0, NONE, site.table, site.depth)
        if nested != NONE:
            _bound(engine, NESTED, NO_SET, nested, state)
        return False
    return True


cdef uint32_t _child(const Trie* trie, uint32_t node, uint8_t byte) noexcept nogil:
    """The place in the child arrays of the child of ``node`` with this byte, or NONE."""
    cdef uint32_t low = trie.children[node]
    cdef uint32_t high = trie.children[node + 1]
    cdef uint32_t middle
    cdef uint32_t end = high
    while low < high:
        middle = (low + high) >> 1
        if trie.child_byte[middle] < byte:
            low = middle + 1
        else:
            high = middle
    return low if low < end and trie.child_byte[low] == byte else NONE


cdef void _inside_walk(
    Engine* engine, uint32_t where, uint32_t node, state_t state
) noexcept nogil:
    """Walk the children of ``node`` from ``state`` without a row, recording tokens and boundaries."""
    cdef Trie* trie = engine.sites[where].trie
    cdef size_t floor = engine.frames.size
    cdef uint32_t cursor, end, child, killed = 0
    cdef state_t target
    cdef uint32_t* at
    if engine.shortcuts & FORCED_RUNS and engine.lexer.states[state].forced >= 0:
        cursor = _child(trie, node, <uint8_t>engine.lexer.states[state].forced)
        if cursor == NONE:
            return
        end = cursor + 1
    else:
        cursor = trie.children[node]
        end = trie.children[node + 1]
    while not engine.fault.code:
        if cursor == end:
            if engine.frames.size == floor:
                break
            engine.frames.size -= FRAME_WORDS
            at = engine.frames.at + engine.frames.size
            cursor = at[0]
            end = at[1]
            node = at[2]
            state = at[3]
            killed = at[4]
            continue
        target = lexer_step(&engine.lexer, state, trie.child_byte[cursor])
        child = trie.child_node[cursor]
        cursor += 1
        if target == DEAD:
            if not killed and engine.lexer.states[state].accept != NO_SET:
                _bound(engine, KILL, engine.lexer.states[state].accept, node, state)
                killed = 1
            continue
        if not _visit(engine, where, child, target):
            continue
        if cursor != end:
            _frame(engine, cursor, end, node, state, killed, 0)
        node = child
        state = target
        killed = 0
        if engine.shortcuts & FORCED_RUNS and engine.lexer.states[state].forced >= 0:
            cursor = _child(trie, node, <uint8_t>engine.lexer.states[state].forced)
            if cursor == NONE:
                cursor = 0
                end = 0
            else:
                end = cursor + 1
        else:
            cursor = trie.children[node]
            end = trie.children[node + 1]
    engine.frames.size = floor


cdef void _remove(Engine* engine, const Trie* trie, uint32_t begin, uint32_t end) noexcept nogil:
    """Record that the base being compared with answers wrongly for token places begin to end - 1."""
    if begin < end and (
        words_push(&engine.removed, begin) < 0 or words_push(&engine.removed, end) < 0
    ):
        fault_set(&engine.fault, FAULT_MEMORY)


cdef void _pair_visit(
    Engine* engine, uint32_t where, uint32_t node, state_t state, state_t loop, const LoopKey* key
) noexcept nogil:
    """``node`` is reached in ``state`` here and in another state of the loop in the base: record what
    differs below.

    The base answers for every token below: those that stay in the loop are in its bitset, the others in
    its suffix trie, read in ``loop``. Where both are in one state again, so are their futures.
    """
    cdef Trie* trie = engine.sites[where].trie
    cdef size_t floor = engine.frames.size
    cdef uint32_t cursor, end, child
    cdef uint8_t byte
    cdef state_t mine, its
    cdef state_t base_state = loop  # or one inside a character of the loop
    cdef set_t emitted
    cdef bint inside
    cdef uint32_t* at
    if engine.lexer.states[state].eager != NO_SET:
        _remove(engine, trie, trie.tokens_at[node], trie.tokens_at[trie.end[node]])
        _visit(engine, where, node, state)
        return
    cursor = trie.children[node]
    end = trie.children[node + 1]
    while not engine.fault.code:
        if cursor == end:
            if engine.frames.size == floor:
                break
            engine.frames.size -= FRAME_WORDS
            at = engine.frames.at + engine.frames.size
            cursor = at[0]
            end = at[1]
            node = at[2]
            state = at[3]
            base_state = at[4]
            continue
        byte = trie.child_byte[cursor]
        child = trie.child_node[cursor]
        cursor += 1
        mine = lexer_step(&engine.lexer, state, byte)
        its = lexer_step(&engine.lexer, base_state, byte)
        if mine == its and mine != DEAD:
            continue
        emitted = engine.lexer.states[state].accept
        if mine == DEAD:
            if its == DEAD and emitted == engine.lexer.states[base_state].accept:
                continue
            _remove(engine, trie, trie.tokens_at[child], trie.tokens_at[trie.end[child]])
            if emitted != NO_SET:
                _bound(engine, CHILD, emitted, child, byte)
            continue
        if base_state != loop:
            inside = its != DEAD
        elif byte < 0x80:
            inside = (key.ascii[byte >> 6] >> (byte & 63)) & 1
        else:
            inside = key.tail == TAIL_BYTES or (key.tail == TAIL_UTF8 and utf8_lead(byte) != 0)
        if not inside or engine.lexer.states[mine].eager != NO_SET:
            _remove(engine, trie, trie.tokens_at[child], trie.tokens_at[trie.end[child]])
            if _visit(engine, where, child, mine):
                _inside_walk(engine, where, child, mine)
            continue
        # Alive in both: the tokens of ``child`` itself are right already.
        if _leaf(trie, child):
            continue
        if cursor != end:
            _frame(engine, cursor, end, node, state, base_state, 0)
        node = child
        state = mine
        base_state = its
        cursor = trie.children[node]
        end = trie.children[node + 1]
    engine.frames.size = floor


cdef struct Candidate:
    state_t target
    uint32_t weight      # nodes below children that lead to the target
    uint32_t loop
    Table* table


cdef enum:
    CANDIDATES = 4       # bases of one walk at the most


cdef uint32_t _apart(
    Engine* engine, const Trie* trie, uint32_t node, state_t one, state_t other
) noexcept nogil:
    """Nodes below ``node`` whose first byte leads from the two states to different ones."""
    cdef uint32_t i, child, count = 0
    for i in range(trie.children[node], trie.children[node + 1]):
        if lexer_step(&engine.lexer, one, trie.child_byte[i]) != \
                lexer_step(&engine.lexer, other, trie.child_byte[i]):
            child = trie.child_node[i]
            count += trie.end[child] - child
    return count


cdef uint32_t _choose_bases(
    Engine* engine, uint32_t where, state_t state, const state_t* targets, Candidate* chosen
) noexcept nogil:
    """The loops that enough children of the site's root lead into; how many there are.

    A loop is worth it if the nodes that it answers for outnumber those that it answers wrongly for.
    """
    cdef Site site = engine.sites[where]
    cdef Trie* trie = site.trie
    cdef uint32_t first = trie.children[site.root]
    cdef uint32_t count = trie.children[site.root + 1] - first
    cdef uint32_t i, j, known = 0, picked = 0, best, weight, right, wrong
    cdef Candidate found[32]
    cdef Candidate candidate
    cdef Loop loop
    cdef uint8_t byte
    for i in range(count):
        if targets[i] == DEAD or engine.lexer.states[targets[i]].eager != NO_SET:
            continue
        j = trie.child_node[first + i]
        weight = trie.end[j] - j
        j = 0
        while j < known and found[j].target != targets[i]:
            j += 1
        if j == known:
            if known == 32:
                continue
            found[j].target = targets[i]
            found[j].weight = 0
            known += 1
        found[j].weight += weight
    while picked < CANDIDATES:
        best = NONE
        for j in range(known):
            if found[j].weight >= engine.heavy and (best == NONE or found[j].weight > found[best].weight):
                best = j
        if best == NONE:
            break
        candidate = found[best]
        found[best].weight = 0
        candidate.loop = lexer_loop(
            &engine.lexer, candidate.target, engine.shortcuts & LENGTH_CLASSES
        )
        if candidate.loop == NONE:
            continue
        loop = engine.lexer.loops[candidate.loop]
        right = 0
        wrong = 0
        for i in range(count):
            byte = trie.child_byte[first + i]
            if byte >= 0x80 or not (loop.key.ascii[byte >> 6] >> (byte & 63)) & 1:
                continue
            j = trie.child_node[first + i]
            if targets[i] == candidate.target:
                right += trie.end[j] - j
            elif targets[i] == DEAD:
                wrong += (trie.end[j] - j) >> 2  # its tokens are cleared, which is cheap
            else:
                wrong += _apart(engine, trie, j, targets[i], candidate.target)
        if right < engine.heavy or right < wrong:
            continue
        candidate.table = _table(engine, site.table, site.root, &loop.key)
        if candidate.table == NULL:
            break
        if loop.open_end and loop.high != NONE and (
            loop.high < candidate.table.longest or engine.parser.stride == 5
            or loop.high < candidate.table.suffix.prefix_high
        ):
            # A token may run past the counter's end into the next lexeme, or end there at a row
            # that a guard leaves dead.
            continue
        chosen[picked] = candidate
        picked += 1
    return picked


cdef bint _in_class(const LoopKey* key, uint8_t byte) noexcept nogil:
    """Whether a character of the loop may begin with this byte."""
    if byte < 0x80:
        return (key.ascii[byte >> 6] >> (byte & 63)) & 1
    return key.tail == TAIL_BYTES or (key.tail == TAIL_UTF8 and utf8_lead(byte) != 0)


cdef bint _same_lead(
    Engine* engine, const Candidate* candidate, const Loop* loop, uint8_t byte, state_t target
) noexcept nogil:
    """Whether ``target`` is where the candidate's loop is after this first byte of a character."""
    if byte < 0x80 or loop.key.tail == TAIL_BYTES:
        return target == candidate.target
    return target == lexer_loop_lead(&engine.lexer, candidate.target, byte)


cdef void _set_parts(
    Engine* engine, Base* base, state_t target, const Loop* loop, uint32_t depth
) noexcept nogil:
    """Say where and how the tokens that leave a base's loop are read on."""
    cdef uint32_t k, site, count = 0
    cdef state_t state
    cdef Trie* split = NULL
    if loop.split:
        split = table_split(engine.pool, base.table, &count)
        if split == NULL:
            fault_set(&engine.fault, FAULT_MEMORY)
            return
    base.part_count = 0
    base.parts = <uint32_t*>arena_take(&engine.inside_arena, (2 * count + 2) * sizeof(uint32_t))
    if base.parts == NULL:
        fault_set(&engine.fault, FAULT_MEMORY)
        return
    if not loop.split:
        base.parts[0] = _site(
            engine, &base.table.suffix, 0, loop.low, loop.high, base.table, depth
        )
        base.parts[1] = loop.after
        base.part_count = 1
        return
    for k in range(1, count + 1):
        # ``target`` is the state after the first character.
        state = lexer_loop_at(&engine.lexer, target, k - 1)
        if state == DEAD or split[k].token_count == 0:
            continue
        site = _site(engine, &split[k], 0, 0, NONE, base.table, SITE_DEPTH)
        if engine.fault.code:
            return
        base.parts[2 * base.part_count] = site
        base.parts[2 * base.part_count + 1] = state
        base.part_count += 1


cdef void _explore(
    Engine* engine, uint32_t where, state_t state, Base* bases, uint32_t* base_count
) noexcept nogil:
    """Fill the scratch of inside walks with what ``state`` says about the site."""
    cdef Site site = engine.sites[where]
    cdef Trie* trie = site.trie
    cdef uint32_t first = trie.children[site.root]
    cdef uint32_t count = trie.children[site.root + 1] - first
    cdef state_t targets[256]
    cdef uint8_t owner[256]
    cdef Candidate chosen[CANDIDATES]
    cdef Loop loop
    cdef uint32_t i, k, node, picked = 0
    cdef uint8_t byte
    cdef bint killed = False
    cdef bint paired[256]
    base_count[0] = 0
    if not engine.shortcuts & DIFFERENCE_MASKS or not _heavy(engine, trie, site.root) \
            or site.depth >= SITE_DEPTH or site.filtered \
            or engine.lexer.states[state].forced >= 0:
        _inside_walk(engine, where, site.root, state)
        return
    for i in range(count):
        targets[i] = lexer_step(&engine.lexer, state, trie.child_byte[first + i])
    if engine.fault.code:
        return
    picked = _choose_bases(engine, where, state, targets, chosen)
    if picked == 0 or engine.fault.code:
        if not engine.fault.code:
            _inside_walk(engine, where, site.root, state)
        return
    for i in range(count):
        owner[i] = 255
        paired[i] = False
        if targets[i] == DEAD:
            continue
        byte = trie.child_byte[first + i]
        for k in range(picked):
            loop = engine.lexer.loops[chosen[k].loop]
            if _in_class(&loop.key, byte) and \
                    _same_lead(engine, &chosen[k], &loop, byte, targets[i]):
                owner[i] = <uint8_t>k
                break
    for k in range(picked):
        loop = engine.lexer.loops[chosen[k].loop]
        bases[k].table = chosen[k].table
        bases[k].bits = table_window(engine.pool, chosen[k].table, loop.high)
        bases[k].removed = <uint32_t>engine.removed.size
        if bases[k].bits == NULL:
            fault_set(&engine.fault, FAULT_MEMORY)
        _set_parts(engine, &bases[k], chosen[k].target, &loop, site.depth + 1)
        if engine.fault.code:
            return
        for i in range(count):
            byte = trie.child_byte[first + i]
            if owner[i] == k or not _in_class(&loop.key, byte):
                continue
            node = trie.child_node[first + i]
            if owner[i] == 255 and not paired[i] and byte < 0x80 and loop.high == NONE \
                    and loop.after == chosen[k].target and not loop.split and targets[i] != DEAD \
                    and engine.lexer.states[targets[i]].eager == NO_SET:
                paired[i] = True
                _pair_visit(engine, where, node, targets[i], chosen[k].target, &loop.key)
            else:
                _remove(engine, trie, trie.tokens_at[node], trie.tokens_at[trie.end[node]])
        bases[k].removed_end = <uint32_t>engine.removed.size
        if engine.fault.code:
            return
    base_count[0] = picked
    for i in range(count):
        if targets[i] == DEAD:
            killed = True
        elif owner[i] == 255 and not paired[i]:
            node = trie.child_node[first + i]
            if _visit(engine, where, node, targets[i]):
                _inside_walk(engine, where, node, targets[i])
    if killed and engine.lexer.states[state].accept != NO_SET:
        _bound(engine, KILL, engine.lexer.states[state].accept, site.root, state)


cdef uint32_t _inside(Engine* engine, uint32_t where, state_t state) noexcept nogil:
    """The index of what ``state`` says about a site; NONE with a fault set. Kept for good."""
    cdef uint32_t known = map_get(&engine.inside_index, where, state)
    cdef Base bases[CANDIDATES]
    cdef Inside* grown
    cdef uint32_t room, count = 0
    if known != NONE:
        return known
    engine.tokens.size = 0
    engine.bounds.size = 0
    engine.removed.size = 0
    _explore(engine, where, state, bases, &count)
    if engine.fault.code:
        return NONE
    if engine.inside_count == engine.inside_room:
        room = engine.inside_room * 2 if engine.inside_room else 32
        grown = <Inside*>realloc(engine.insides, room * sizeof(Inside))
        if grown == NULL:
            fault_set(&engine.fault, FAULT_MEMORY)
            return NONE
        engine.insides = grown
        engine.inside_room = room
    grown = &engine.insides[engine.inside_count]
    grown.base_count = count
    grown.token_count = <uint32_t>engine.tokens.size
    grown.boundary_count = <uint32_t>(engine.bounds.size // 4)
    grown.bases = <Base*>arena_take(&engine.inside_arena, count * sizeof(Base))
    grown.tokens = <uint32_t*>arena_take(
        &engine.inside_arena, engine.tokens.size * sizeof(uint32_t)
    )
    grown.removed = <uint32_t*>arena_take(
        &engine.inside_arena, engine.removed.size * sizeof(uint32_t)
    )
    grown.boundaries = <Boundary*>arena_take(
        &engine.inside_arena, engine.bounds.size * sizeof(uint32_t)
    )
    if grown.bases == NULL or grown.tokens == NULL or grown.removed == NULL \
            or grown.boundaries == NULL \
            or map_put(&engine.inside_index, where, state, engine.inside_count) < 0:
        fault_set(&engine.fault, FAULT_MEMORY)
        return NONE
    memcpy(grown.bases, bases, count * sizeof(Base))
    if engine.tokens.size:
        memcpy(grown.tokens, engine.tokens.at, engine.tokens.size * sizeof(uint32_t))
    if engine.removed.size:
        memcpy(grown.removed, engine.removed.at, engine.removed.size * sizeof(uint32_t))
    if engine.bounds.size:
        memcpy(grown.boundaries, engine.bounds.at, engine.bounds.size * sizeof(uint32_t))
    engine.inside_count += 1
    return engine.inside_count - 1


# --------------------------------------------------------------------------- with a row

cdef inline void _put_node(
    Engine* engine, uint32_t level, const Site* site, uint32_t node
) noexcept nogil:
    cdef uint32_t i
    for i in range(site.trie.tokens_at[node], site.trie.tokens_at[node + 1]):
        if site.filtered and not _counts(site, i):
            continue
        _put(engine, level, site.trie.tokens[i])


cdef void _remove_places(
    Engine* engine, uint32_t level, const Trie* trie, uint32_t begin, uint32_t end
) noexcept nogil:
    cdef uint32_t i, token
    cdef Builder* builder = &engine.builders[level]
    if not builder.dense and _densify(engine, builder, NULL) < 0:
        return
    for i in range(begin, end):
        token = trie.tokens[i]
        builder.bits[token >> 6] &= ~(<uint64_t>1 << (token & 63))


cdef void _nested(
    Engine* engine, uint32_t level, uint32_t where, row_t row, state_t state
) noexcept nogil:
    """Add the mask of another site."""
    cdef uint32_t mask
    if state == DEAD:
        return
    if engine.depth >= DEPTH_LIMIT and not engine.sites[where].filtered:
        _row_walk(engine, level, where, engine.sites[where].root, row, state, DEAD)
        return
    engine.depth += 1
    if engine.shortcuts & BOUNDARY_MEMO:
        mask = _mask(engine, where, row, state)
        if mask != NONE:
            _put_mask(engine, level, &engine.masks[mask])
    else:
        _compose(engine, level, where, row, state)
    engine.depth -= 1


cdef inline bint _nests(
    Engine* engine, uint32_t where, uint32_t node, state_t state
) noexcept nogil:
    """Whether what follows ``node`` in ``state`` is better asked for as a mask of its own."""
    return engine.shortcuts & DIFFERENCE_MASKS and _heavy(engine, engine.sites[where].trie, node) \
        and not engine.sites[where].filtered and engine.depth < DEPTH_LIMIT \
        and engine.lexer.states[state].forced < 0


cdef const uint64_t* _subtrees(
    Engine* engine, uint32_t where, uint32_t node, const uint32_t* bytes
) noexcept nogil:
    """The tokens below the children of ``node`` whose byte is in a set, as a bitset that is kept."""
    cdef Trie* trie = engine.sites[where].trie
    cdef uint32_t i, j, child, index, token
    cdef uint32_t key[11]
    cdef uint64_t* bits
    cdef uint64_t** grown
    memcpy(key, bytes, 8 * sizeof(uint32_t))
    key[8] = node
    key[9] = <uint32_t><size_t>trie
    key[10] = <uint32_t>(<size_t>trie >> 32)
    index = interner_put(&engine.subtree_keys, key, 11)
    if index == NONE:
        fault_set(&engine.fault, FAULT_MEMORY)
        return NULL
    if index < engine.subtree_count:
        return engine.subtrees[index]
    grown = <uint64_t**>realloc(engine.subtrees, (index + 1) * sizeof(uint64_t*))
    if grown != NULL:
        engine.subtrees = grown
    bits = <uint64_t*>calloc(engine.words + 1, sizeof(uint64_t))
    if grown == NULL or bits == NULL:
        free(bits)
        interner_drop(&engine.subtree_keys)
        fault_set(&engine.fault, FAULT_MEMORY)
        return NULL
    for i in range(trie.children[node], trie.children[node + 1]):
        if (bytes[trie.child_byte[i] >> 5] >> (trie.child_byte[i] & 31)) & 1:
            child = trie.child_node[i]
            for j in range(trie.tokens_at[child], trie.tokens_at[trie.end[child]]):
                token = trie.tokens[j]
                bits[token >> 6] |= <uint64_t>1 << (token & 63)
    engine.subtrees[index] = bits
    engine.subtree_count = index + 1
    return bits


cdef void _row_children(
    Engine* engine, uint32_t level, uint32_t where, uint32_t node, row_t row, state_t state,
    state_t exclude
) noexcept nogil:
    """Add the tokens below ``node``, whose children are read from ``state`` of ``row``.

    Children on whose byte ``exclude`` lives are left out (DEAD leaves out none): from the mask of
    all of them, so that this is shared by all states that a lexeme may end in.
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
    nested = _site(
        engine, trie, node, 0, NONE, engine.sites[where].table, engine.sites[where].depth
    )
    if nested == NONE:
        return
    if exclude != DEAD:
        memset(bytes, 0, sizeof(bytes))
        for i in range(trie.children[node], trie.children[node + 1]):
            byte = trie.child_byte[i]
            if lexer_step(&engine.lexer, exclude, byte) != DEAD \
                    and lexer_step(&engine.lexer, state, byte) != DEAD:
                bytes[byte >> 5] |= <uint32_t>1 << (byte & 31)
                overlap += 1
    if overlap == 0:
        _nested(engine, level, nested, row, state)
        return
    if _builder_open(engine) == NULL:
        return
    target = engine.level - 1
    _nested(engine, target, nested, row, state)
    removed = _subtrees(engine, where, node, bytes)
    if not engine.fault.code:
        _remove_bits(engine, target, removed)
        _put_builder(engine, level, target)
    engine.level -= 1


cdef void _remove_bits(Engine* engine, uint32_t level, const uint64_t* bits) noexcept nogil:
    cdef Builder* builder = &engine.builders[level]
    cdef uint64_t* own = builder.bits
    cdef size_t i, kept = 0
    cdef uint32_t token
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


cdef bint _row_visit(
    Engine* engine, uint32_t level, uint32_t where, uint32_t node, row_t* row, state_t* state
) noexcept nogil:
    """Account for ``node``, reached in a living ``state``; whether its children are to be walked."""
    cdef Site* site = &engine.sites[where]
    cdef set_t eager = engine.lexer.states[state[0]].eager
    cdef uint32_t nested
    if eager != NO_SET:
        row[0] = parser_scan(&engine.parser, row[0], eager)
        state[0] = row_state(&engine.parser, row[0])
        if engine.fault.code or _row_dead(engine, row[0]):
            return False
    _put_node(engine, level, site, node)
    if state[0] == DEAD or _leaf(site.trie, node):
        return False
    if _nests(engine, where, node, state[0]):
        nested = _site(engine, site.trie, node, 0, NONE, site.table, site.depth)
        if nested != NONE:
            _nested(engine, level, nested, row[0], state[0])
        return False
    return True


cdef void _row_walk(
    Engine* engine, uint32_t level, uint32_t where, uint32_t node, row_t row, state_t state,
    state_t exclude
) noexcept nogil:
    """Walk the children of ``node`` with lexer and parser, adding every token on the way."""
    cdef Trie* trie = engine.sites[where].trie
    cdef size_t floor = engine.frames.size
    cdef uint32_t cursor, end, child
    cdef uint8_t byte
    cdef state_t target
    cdef set_t emitted
    cdef row_t after
    cdef uint32_t* at
    cursor = trie.children[node]
    end = trie.children[node + 1]
    if engine.shortcuts & FORCED_RUNS and engine.lexer.states[state].forced >= 0:
        cursor = _child(trie, node, <uint8_t>engine.lexer.states[state].forced)
        if cursor == NONE:
            return
        end = cursor + 1
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
            exclude = at[4]
            continue
        byte = trie.child_byte[cursor]
        child = trie.child_node[cursor]
        cursor += 1
        if exclude != DEAD and lexer_step(&engine.lexer, exclude, byte) != DEAD:
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
            _frame(engine, cursor, end, row, state, exclude, 0)
        row = after
        state = target
        exclude = DEAD
        cursor = trie.children[child]
        end = trie.children[child + 1]
        if engine.shortcuts & FORCED_RUNS and engine.lexer.states[state].forced >= 0:
            cursor = _child(trie, child, <uint8_t>engine.lexer.states[state].forced)
            end = cursor + 1
            if cursor == NONE:
                cursor = 0
                end = 0
    engine.frames.size = floor


cdef void _compose(
    Engine* engine, uint32_t level, uint32_t where, row_t row, state_t state
) noexcept nogil:
    """Add the mask of (site, row, state) to a builder."""
    cdef uint32_t index = _inside(engine, where, state)
    cdef Inside inside
    cdef Boundary* bound
    cdef Base* base
    cdef Trie* trie = engine.sites[where].trie
    cdef uint32_t i, j, target
    cdef row_t after
    cdef state_t start
    if index == NONE:
        return
    inside = engine.insides[index]
    for i in range(inside.base_count):
        base = &inside.bases[i]
        target = level
        if base.removed != base.removed_end and \
                (engine.builders[level].dense or engine.builders[level].list.size):
            if _builder_open(engine) == NULL:
                return
            target = engine.level - 1
        _put_bits(engine, target, base.bits)
        for j in range(base.part_count):
            _nested(engine, target, base.parts[2 * j], row, base.parts[2 * j + 1])
        for j in range(base.removed, base.removed_end, 2):
            _remove_places(engine, target, trie, inside.removed[j], inside.removed[j + 1])
        if target != level:
            if not engine.fault.code:
                _put_builder(engine, level, target)
            engine.level -= 1
        if engine.fault.code:
            return
    for i in range(inside.token_count):
        _put(engine, level, inside.tokens[i])
    for i in range(inside.boundary_count):
        if engine.fault.code:
            return
        bound = &inside.boundaries[i]
        if bound.mode == NESTED:
            _nested(engine, level, bound.node, row, bound.state)
            continue
        after = parser_scan(&engine.parser, row, bound.emitted)
        start = row_state(&engine.parser, after)
        if engine.fault.code:
            return
        if bound.mode == OWN:
            if not _row_dead(engine, after):
                _put_node(engine, level, &engine.sites[where], bound.node)
        elif bound.mode == CHILD:
            start = lexer_step(&engine.lexer, start, <uint8_t>bound.state)
            if start != DEAD and _row_visit(engine, level, where, bound.node, &after, &start):
                _row_walk(engine, level, where, bound.node, after, start, DEAD)
        else:
            _row_children(
                engine, level, where, bound.node, after, start,
                bound.state if bound.mode == KILL else DEAD
            )


cdef uint32_t _make_mask(
    Engine* engine, uint32_t where, row_t row, state_t state
) noexcept nogil:
    """Compute and keep the mask of (site, row, state); NONE with a fault set when that fails."""
    cdef uint32_t room, level = engine.level, depth = engine.depth
    cdef size_t frames = engine.frames.size
    cdef Mask mask
    cdef Mask* grown
    if _builder_open(engine) != NULL:
        _compose(engine, level, where, row, state)
    if engine.fault.code or _finish(engine, level, (<uint64_t>where << 32) | state, &mask) < 0:
        engine.level = level
        engine.depth = depth
        engine.frames.size = frames
        return NONE
    engine.level = level
    if engine.mask_count == engine.mask_room:
        room = engine.mask_room * 2 if engine.mask_room else 64
        grown = <Mask*>realloc(engine.masks, room * sizeof(Mask))
        if grown == NULL:
            free(mask.tokens)
            fault_set(&engine.fault, FAULT_MEMORY)
            return NONE
        engine.masks = grown
        engine.mask_room = room
    engine.masks[engine.mask_count] = mask
    engine.mask_bytes += mask.bytes + 64
    engine.mask_count += 1
    return _keep(engine, where, row, state, engine.mask_count - 1)


cdef uint32_t _keep(
    Engine* engine, uint32_t where, row_t row, state_t state, uint32_t mask
) noexcept nogil:
    if map_put(&engine.mask_index, where, (<uint64_t>row << 32) | state, mask) < 0:
        fault_set(&engine.fault, FAULT_MEMORY)
        return NONE
    engine.mask_bytes += 2 * sizeof(Slot)
    return mask


cdef uint32_t _mask(Engine* engine, uint32_t where, row_t row, state_t state) noexcept nogil:
    """The index of the mask of (site, row, state); NONE with a fault set when that fails."""
    cdef uint32_t known = map_get(&engine.mask_index, where, (<uint64_t>row << 32) | state)
    if known != NONE:
        return known
    return _make_mask(engine, where, row, state)


cdef int engine_fill(
    Engine* engine, row_t row, state_t state, uint64_t* bits
) noexcept nogil:
    """Write the text tokens allowed at (row, state) to a bitset of ``words`` words.

    -1 with a fault set, and the bitset untouched, when that fails.
    """
    cdef const Mask* mask
    cdef uint32_t known, i, token
    cdef Builder* builder
    if state == DEAD:
        memset(bits, 0, engine.words * sizeof(uint64_t))
        return 0
    if engine.shortcuts & MASK_MEMO:
        known = map_get(&engine.mask_index, 0, (<uint64_t>row << 32) | state)
        if known == NONE:
            if engine.mask_bytes > engine.mask_limit:
                _forget_masks(engine)
            known = _mask(engine, 0, row, state)
            if known == NONE:
                return -1
        mask = &engine.masks[known]
        if mask.base == NULL:
            memset(bits, 0, engine.words * sizeof(uint64_t))
        else:
            memcpy(bits, mask.base, engine.words * sizeof(uint64_t))
        for i in range(mask.added):
            token = mask.tokens[i]
            bits[token >> 6] |= <uint64_t>1 << (token & 63)
        for i in range(mask.added, mask.added + mask.removed):
            token = mask.tokens[i]
            bits[token >> 6] &= ~(<uint64_t>1 << (token & 63))
        return 0
    if engine.mask_bytes > engine.mask_limit:
        _forget_masks(engine)
    builder = _builder_open(engine)
    if builder != NULL:
        _compose(engine, 0, 0, row, state)
        builder = &engine.builders[0]
        if not builder.dense and not engine.fault.code:
            _densify(engine, builder, NULL)
    engine.level = 0
    engine.depth = 0
    engine.frames.size = 0
    if engine.fault.code:
        return -1
    memcpy(bits, engine.builders[0].bits, engine.words * sizeof(uint64_t))
    return 0
