# cython: language_level=3, boundscheck=False, wraparound=False
# cython: initializedcheck=False, cdivision=True
"""What a lexer state says about a trie before any parser row is asked.

A lexeme that a token leaves unfinished does not depend on the row. So for each (site, lexer state),
a site being a trie and a node to walk from, an :c:type:`Inside` is made once: the tokens that are
allowed whatever the row is, and the boundaries, places where a lexeme ends inside a token.

*Difference masks.* If enough children of the site's root lead into a loop (``_lexer``), the loop's
table (``_trie``) becomes a *base*: it stands for all tokens that begin that way, with its bitset
for those that stay in the loop and its suffix trie, a site of its own, for those that leave it.
Where this state goes another way than the loop (a keyword beside an identifier), the two are walked
together until they are in one state again, and what the table says wrongly in between is removed
and walked by itself.

*Length classes.* A counted repeat of a class is a loop too; its table is asked for the tokens that
are short enough. Where what follows depends on the count (a backslash in a string), the suffixes
are read per number of characters.

*What leaves a loop where a lexeme ends* belongs to the next lexeme. Most bytes may not begin that,
and which may only the row knows; so what comes after the loop with those bytes is looked for when
it is asked. That goes for tokens that leave the loop, and for those that could stay in it but for a
counter, which are as a rule none.

Invariant: bases, tokens and boundaries together stand for each token exactly once.

Cost: one walk of what the bases leave over; the result is kept as long as the grammar.
"""

from libc.stdint cimport uint32_t, uint64_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from llgx._classes cimport classes_nodes
from llgx._closed cimport closed_explore
from llgx._difference cimport difference_walk
from llgx._endless cimport endless_explore
from llgx._engine cimport (
    BELOW, CHILD, DIFFERENCE_MASKS, ENDLESS_STATES, FRAME_WORDS, KILL, LENGTH_CLASSES, NESTED,
    NO_SITE, OWN, SITE_DEPTH, Base, Boundary, Engine, Inside, Site, frame_push, is_heavy, is_leaf,
    open_children, place_counts,
)
from llgx._lexer cimport (
    DEAD, NO_SET, Loop, LoopKey, lexer_first, lexer_loop, lexer_loop_at,
    lexer_loop_lead, key_equals, key_takes, lexer_step, set_t, state_t,
)
from llgx._memory cimport (
    FAULT_MEMORY, NONE, Map, arena_take, array_grown, fault_set, interner_drop, interner_put,
    map_get, map_put, words_push,
)
from llgx._suffixes cimport table_left, table_splits, table_suffixes
from llgx._trie cimport (
    Table, Trie, child_byte, child_node, table_acquire, table_window, tokens_end,
)


cdef Site* _new_site(
    Engine* engine, Map* index, uint64_t high_key, uint64_t low_key
) noexcept nogil:
    """One more site, empty, the last of ``engine.sites``, found under a key of ``index``; NULL with
    a fault set when memory is out."""
    cdef Site* grown = <Site*>array_grown(
        engine.sites, &engine.site_room, engine.site_count, sizeof(Site)
    )
    if grown != NULL:
        engine.sites = grown
    if grown == NULL or map_put(index, high_key, low_key, engine.site_count) < 0:
        fault_set(&engine.fault, FAULT_MEMORY)
        return NULL
    grown = &engine.sites[engine.site_count]
    engine.site_count += 1
    memset(grown, 0, sizeof(Site))
    return grown


cdef uint32_t site_of(
    Engine* engine, Trie* trie, uint32_t root, uint32_t low, uint32_t high, Table* table,
    uint32_t depth
) noexcept nogil:
    """The id of a place to walk from; NONE with a fault set when memory is out."""
    cdef uint32_t known
    cdef Site* site
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
    site = _new_site(engine, &engine.site_index, high_key, low_key)
    if site == NULL:
        return NONE
    site.trie = trie
    site.root = root
    site.low = low
    site.high = high
    site.table = table
    site.depth = depth
    site.filtered = filtered
    return engine.site_count - 1


cdef uint32_t lazy_site(
    Engine* engine, Table* table, uint32_t low, uint32_t high, uint32_t depth
) noexcept nogil:
    """The id of what comes after a loop; NONE with a fault set when memory is out."""
    cdef uint64_t key = <uint64_t>low << 32 | high
    cdef uint32_t known = map_get(&engine.lazy_index, <uint64_t><size_t>table, key)
    cdef Site* site
    if known != NONE:
        return known
    site = _new_site(engine, &engine.lazy_index, <uint64_t><size_t>table, key)
    if site == NULL:
        return NONE
    site.trie = table.trie
    site.root = table.root
    site.low = low
    site.high = high
    site.table = table
    site.depth = depth
    site.lazy = True
    return engine.site_count - 1


cdef uint32_t lazy_suffixes(
    Engine* engine, uint32_t where, state_t state, bint over
) noexcept nogil:
    """The site of what tokens hold after the loop of a lazy one and ``state`` may begin with: after
    the last character, ``over``, or where they leave it; with bytes of others maybe. NO_SITE where
    there are none, NONE with a fault set. Kept for good."""
    cdef Site site = engine.sites[where]
    cdef uint64_t key = <uint64_t>where << 1 | over
    cdef uint32_t known = map_get(&engine.lazy_after, key, state)
    cdef uint32_t byte
    cdef uint64_t bytes[4]
    cdef Trie* trie
    if known != NONE:
        return known
    known = NO_SITE
    if not lexer_first(&engine.lexer, state, bytes):
        return NONE
    for byte in range(256):
        if key_takes(&site.table.key, <uint8_t>byte) != over:
            bytes[byte >> 6] &= ~(<uint64_t>1 << (byte & 63))
    if bytes[0] | bytes[1] | bytes[2] | bytes[3]:
        if over:
            trie = table_suffixes(engine.pool, site.table, bytes, site.high)
        else:
            trie = table_left(engine.pool, site.table, bytes)
        if trie == NULL:
            fault_set(&engine.fault, FAULT_MEMORY)
        elif trie.token_count:
            known = site_of(
                engine, trie, 0, 0 if over else site.low, NONE if over else site.high, site.table,
                SITE_DEPTH if over else site.depth
            )
    if engine.fault.code:
        return NONE
    if map_put(&engine.lazy_after, key, state, known) < 0:
        fault_set(&engine.fault, FAULT_MEMORY)
        return NONE
    return known


cdef Table* table_of(
    Engine* engine, Table* parent, Trie* trie, uint32_t root, const LoopKey* key
) noexcept nogil:
    """A table of the pool, held until the engine is freed."""
    cdef Table* table
    cdef Table** grown
    cdef uint32_t i
    for i in range(engine.table_count):
        table = engine.tables[i]
        if table.trie == trie and table.root == root and key_equals(&table.key, key):
            return table
    grown = <Table**>array_grown(
        engine.tables, &engine.table_room, engine.table_count, sizeof(Table*)
    )
    if grown == NULL:
        fault_set(&engine.fault, FAULT_MEMORY)
        return NULL
    engine.tables = grown
    table = table_acquire(engine.pool, parent, trie, root, key)
    if table == NULL:
        fault_set(&engine.fault, FAULT_MEMORY)
        return NULL
    engine.tables[engine.table_count] = table
    engine.table_count += 1
    return table


cdef const uint64_t* subtrees_of(
    Engine* engine, const Trie* trie, uint32_t node, const uint32_t* bytes
) noexcept nogil:
    """The tokens below the children of ``node`` whose byte is in a set, as a bitset that is
    kept."""
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
    grown = <uint64_t**>array_grown(
        engine.subtrees, &engine.subtree_room, index, sizeof(uint64_t*)
    )
    if grown != NULL:
        engine.subtrees = grown
    bits = <uint64_t*>calloc(engine.words + 1, sizeof(uint64_t))
    if grown == NULL or bits == NULL:
        free(bits)
        interner_drop(&engine.subtree_keys)
        fault_set(&engine.fault, FAULT_MEMORY)
        return NULL
    for i in range(trie.nodes[node].children, trie.nodes[node + 1].children):
        if (bytes[child_byte(trie, i) >> 5] >> (child_byte(trie, i) & 31)) & 1:
            child = child_node(trie, i)
            for j in range(trie.nodes[child].tokens_at, tokens_end(trie, child)):
                token = trie.tokens[j]
                bits[token >> 6] |= <uint64_t>1 << (token & 63)
    engine.subtrees[index] = bits
    engine.subtree_count = index + 1
    return bits


cdef void _inside_tokens(Engine* engine, const Site* site, uint32_t node) noexcept nogil:
    cdef uint32_t i
    for i in range(site.trie.nodes[node].tokens_at, site.trie.nodes[node + 1].tokens_at):
        if site.filtered and not place_counts(site, i):
            continue
        if words_push(&engine.tokens, site.trie.tokens[i]) < 0:
            fault_set(&engine.fault, FAULT_MEMORY)


cdef void inside_bound(
    Engine* engine, uint32_t mode, set_t emitted, uint32_t node, uint32_t state
) noexcept nogil:
    if words_push(&engine.bounds, mode) < 0 or words_push(&engine.bounds, emitted) < 0 \
            or words_push(&engine.bounds, node) < 0 or words_push(&engine.bounds, state) < 0:
        fault_set(&engine.fault, FAULT_MEMORY)


cdef bint inside_visit(Engine* engine, uint32_t where, uint32_t node, state_t state) noexcept nogil:
    """Account for ``node``, reached in a living ``state``; whether its children are to be
    walked."""
    cdef Site* site = &engine.sites[where]
    cdef Trie* trie = site.trie
    cdef set_t eager = engine.lexer.states[state].eager
    cdef uint32_t nested
    if eager != NO_SET:
        if engine.parser.stride == 5:
            inside_bound(engine, OWN, eager, node, 0)
        else:
            _inside_tokens(engine, site, node)
        if not is_leaf(trie, node):
            inside_bound(engine, BELOW, eager, node, 0)
        return False
    _inside_tokens(engine, site, node)
    if is_leaf(trie, node):
        return False
    if engine.shortcuts & DIFFERENCE_MASKS and is_heavy(engine, trie, node) and not site.filtered \
            and engine.lexer.states[state].forced < 0:
        nested = site_of(engine, trie, node, 0, NONE, site.table, site.depth)
        if nested != NONE:
            inside_bound(engine, NESTED, NO_SET, nested, state)
        return False
    return True


cdef void inside_walk(
    Engine* engine, uint32_t where, uint32_t node, state_t state
) noexcept nogil:
    """Walk the children of ``node`` from ``state`` without a row, recording tokens and
    boundaries."""
    cdef Trie* trie = engine.sites[where].trie
    cdef size_t floor = engine.frames.size
    cdef uint32_t cursor, end, child, killed = 0
    cdef state_t target
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
            node = at[2]
            state = at[3]
            killed = at[4]
            continue
        target = lexer_step(&engine.lexer, state, child_byte(trie, cursor))
        child = child_node(trie, cursor)
        cursor += 1
        if target == DEAD:
            if not killed and engine.lexer.states[state].accept != NO_SET:
                inside_bound(engine, KILL, engine.lexer.states[state].accept, node, state)
                killed = 1
            continue
        if not inside_visit(engine, where, child, target):
            continue
        if cursor != end:
            frame_push(engine, cursor, end, node, state, killed, 0)
        node = child
        state = target
        killed = 0
        open_children(engine, trie, node, state, &cursor, &end)
    engine.frames.size = floor


cdef void inside_remove(
    Engine* engine, const Trie* trie, uint32_t begin, uint32_t end
) noexcept nogil:
    """Record that the base being compared with answers wrongly for token places begin to end -
    1."""
    if begin < end and (
        words_push(&engine.removed, begin) < 0 or words_push(&engine.removed, end) < 0
    ):
        fault_set(&engine.fault, FAULT_MEMORY)


cdef const uint64_t* inside_apart(
    const Engine* engine, state_t one, state_t other
) noexcept nogil:
    """The byte classes, as 4 words, by which alone ``one`` may step and end otherwise than
    ``other``; NULL where that is not known."""
    if engine.lexer.states[one].twin == other \
            and engine.lexer.states[one].accept == engine.lexer.states[other].accept:
        return engine.lexer.states[one].apart
    return NULL


cdef void _pair_visit(
    Engine* engine, uint32_t where, uint32_t node, state_t state, state_t loop, const LoopKey* key
) noexcept nogil:
    """``node`` is reached in ``state`` here and in another state of the loop in the base: record
    what differs below.

    The base answers for every token below: those that stay in the loop are in its bitset, the
    others in its suffix trie, read in ``loop``. Where both are in one state again, so are their
    futures.
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
    cdef const uint64_t* apart = inside_apart(engine, state, base_state)
    if engine.lexer.states[state].eager != NO_SET:
        inside_remove(engine, trie, trie.nodes[node].tokens_at, tokens_end(trie, node))
        inside_visit(engine, where, node, state)
        return
    cursor = trie.nodes[node].children
    end = trie.nodes[node + 1].children
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
            apart = inside_apart(engine, state, base_state)
            continue
        byte = child_byte(trie, cursor)
        child = child_node(trie, cursor)
        cursor += 1
        if not inside_may_part(engine, apart, byte):
            continue
        mine = lexer_step(&engine.lexer, state, byte)
        its = lexer_step(&engine.lexer, base_state, byte)
        if apart == NULL:
            apart = inside_apart(engine, state, base_state)  # the step may have found out
        if mine == its and mine != DEAD:
            continue
        emitted = engine.lexer.states[state].accept
        if mine == DEAD:
            if its == DEAD and emitted == engine.lexer.states[base_state].accept:
                continue
            inside_remove(engine, trie, trie.nodes[child].tokens_at, tokens_end(trie, child))
            if emitted != NO_SET:
                inside_bound(engine, CHILD, emitted, child, byte)
            continue
        if base_state != loop:
            inside = its != DEAD
        else:
            inside = key_takes(key, byte)
        if not inside or engine.lexer.states[mine].eager != NO_SET:
            inside_remove(engine, trie, trie.nodes[child].tokens_at, tokens_end(trie, child))
            if inside_visit(engine, where, child, mine):
                inside_walk(engine, where, child, mine)
            continue
        # Alive in both: the tokens of ``child`` itself are right already.
        if is_leaf(trie, child):
            continue
        if cursor != end:
            frame_push(engine, cursor, end, node, state, base_state, 0)
        node = child
        state = mine
        base_state = its
        apart = inside_apart(engine, state, base_state)
        cursor = trie.nodes[node].children
        end = trie.nodes[node + 1].children
    engine.frames.size = floor


cdef struct Candidate:
    state_t target
    uint32_t weight      # nodes below children that lead to the target
    uint32_t loop
    Table* table


cdef enum:
    CANDIDATES = 4       # bases of one walk at the most
    COSTLY = 3000        # nodes at which a loop may be left, from which on other ways are tried


cdef inline uint32_t _weight(const Trie* trie, uint32_t node, uint32_t place) noexcept nogil:
    """Nodes below the child of ``node`` at a place, itself included. Read off the next child, whose
    word is at hand, where the child's own would have to be waited for."""
    if place + 1 < trie.nodes[node + 1].children:
        return child_node(trie, place + 1) - child_node(trie, place)
    return trie.nodes[node].end - child_node(trie, place)


cdef uint32_t _apart(
    Engine* engine, const Trie* trie, uint32_t node, state_t one, state_t other
) noexcept nogil:
    """Nodes below ``node`` whose first byte leads from the two states to different ones."""
    cdef uint32_t i, count = 0
    cdef uint8_t byte
    cdef const uint64_t* apart = NULL
    for i in range(trie.nodes[node].children, trie.nodes[node + 1].children):
        byte = child_byte(trie, i)
        if apart == NULL:
            apart = inside_apart(engine, one, other)
        if inside_may_part(engine, apart, byte) and lexer_step(&engine.lexer, one, byte) != \
                lexer_step(&engine.lexer, other, byte):
            count += _weight(trie, node, i)
    return count


cdef uint32_t _choose_bases(
    Engine* engine, uint32_t where, state_t state, const state_t* targets, Candidate* chosen
) noexcept nogil:
    """The loops that enough children of the site's root lead into; how many there are.

    A loop is worth it if the nodes that it answers for outnumber those that it answers wrongly for.
    """
    cdef Site site = engine.sites[where]
    cdef Trie* trie = site.trie
    cdef uint32_t first = trie.nodes[site.root].children
    cdef uint32_t count = trie.nodes[site.root + 1].children - first
    cdef uint32_t i, j, known = 0, picked = 0, best, weight, right, wrong
    cdef Candidate found[32]
    cdef Candidate candidate
    cdef Loop loop
    cdef uint8_t byte
    for i in range(count):
        if targets[i] == DEAD or engine.lexer.states[targets[i]].eager != NO_SET:
            continue
        weight = _weight(trie, site.root, first + i)
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
            if found[j].weight >= engine.heavy and (
                best == NONE or found[j].weight > found[best].weight
            ):
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
            byte = child_byte(trie, first + i)
            if byte >= 0x80 or not (loop.key.ascii[byte >> 6] >> (byte & 63)) & 1:
                continue
            weight = _weight(trie, site.root, first + i)
            if targets[i] == candidate.target:
                right += weight
            elif targets[i] == DEAD:
                wrong += weight >> 2  # its tokens are cleared, which is cheap
            else:
                wrong += _apart(
                    engine, trie, child_node(trie, first + i), targets[i], candidate.target
                )
        if right < engine.heavy or right < wrong:
            continue
        candidate.table = table_of(engine, site.table, trie, site.root, &loop.key)
        if candidate.table == NULL:
            break
        if loop.open_end and loop.high != NONE and engine.parser.stride == 5:
            # A token may end with the counter, at a row that a guard leaves dead.
            continue
        chosen[picked] = candidate
        picked += 1
    return picked


cdef uint32_t _most_exits(
    Engine* engine, const Candidate* chosen, uint32_t picked
) noexcept nogil:
    """The most nodes of the main trie at which a token may leave one of the loops: many where a
    search for a word goes on with a letter."""
    cdef uint64_t live[4]
    cdef uint32_t k, byte, most = 0
    cdef Loop loop
    for k in range(picked):
        loop = engine.lexer.loops[chosen[k].loop]
        if not lexer_first(&engine.lexer, loop.after, live):
            return 0
        for byte in range(256):
            if key_takes(&loop.key, <uint8_t>byte):
                live[byte >> 6] &= ~(<uint64_t>1 << (byte & 63))
        most = max(most, classes_nodes(engine.pool, live))
    return most


cdef bint _same_lead(
    Engine* engine, const Candidate* candidate, const LoopKey* key, uint8_t byte, state_t target
) noexcept nogil:
    """Whether ``target`` is where the candidate's loop is after this first byte of a character."""
    if byte < 0x80 or key.bytes:
        return target == candidate.target
    return target == lexer_loop_lead(&engine.lexer, candidate.target, byte)


cdef void _set_parts(
    Engine* engine, Base* base, state_t target, const Loop* loop, uint32_t depth
) noexcept nogil:
    """Say where and how the tokens that leave a base's loop are read on.

    Bytes on which the lexeme goes on after the loop are read here: for a string the quote, whatever
    the class of its characters. Where a lexeme may end, the others are the row's business.
    """
    cdef uint32_t byte, k, site, count = 0
    cdef state_t state
    cdef Trie* suffixes = NULL
    cdef Trie* splits = NULL
    cdef bint goes_on = False
    base.part_count = 0
    base.left = NONE
    base.over = NONE
    base.emitted = engine.lexer.states[loop.after].accept
    if not lexer_first(&engine.lexer, loop.after, base.live):
        return
    for byte in range(256):
        if key_takes(&loop.key, <uint8_t>byte):
            base.live[byte >> 6] &= ~(<uint64_t>1 << (byte & 63))
    for byte in range(4):
        base.live[byte] &= ~loop.splits[byte]
        goes_on = goes_on or base.live[byte] != 0
    if goes_on:
        suffixes = table_suffixes(engine.pool, base.table, base.live, NONE)
        if suffixes == NULL:
            fault_set(&engine.fault, FAULT_MEMORY)
    if loop.split:
        splits = table_splits(engine.pool, base.table, loop.splits, &count)
        if splits == NULL:
            fault_set(&engine.fault, FAULT_MEMORY)
    base.parts = <uint32_t*>arena_take(&engine.inside_arena, (2 * count + 2) * sizeof(uint32_t))
    if base.parts == NULL:
        fault_set(&engine.fault, FAULT_MEMORY)
    if engine.fault.code:
        return
    if goes_on and suffixes.token_count:
        base.parts[0] = site_of(
            engine, suffixes, 0, loop.low, loop.high, base.table, depth
        )
        base.parts[1] = loop.after
        base.part_count = 1
    for k in range(1, count + 1):
        if splits[k].token_count == 0:
            continue
        # ``target`` is the state after the first character.
        state = lexer_loop_at(&engine.lexer, target, k - 1)
        if state == DEAD:
            continue
        site = site_of(engine, &splits[k], 0, 0, NONE, base.table, SITE_DEPTH)
        if engine.fault.code:
            return
        base.parts[2 * base.part_count] = site
        base.parts[2 * base.part_count + 1] = state
        base.part_count += 1
    for byte in range(4):
        base.live[byte] |= loop.splits[byte]
    if base.emitted != NO_SET and loop.low <= engine.pool.longest:
        base.left = lazy_site(
            engine, base.table, loop.low if loop.low > 1 else 0,
            loop.high if loop.high < engine.pool.longest else NONE, depth
        )
        if base.ending and loop.high < engine.pool.longest:
            base.over = base.left


cdef void _explore(
    Engine* engine, uint32_t where, state_t state, Base* bases, uint32_t* base_count
) noexcept nogil:
    """Fill the scratch of inside walks with what ``state`` says about the site."""
    cdef Site site = engine.sites[where]
    cdef Trie* trie = site.trie
    cdef uint32_t first = trie.nodes[site.root].children
    cdef uint32_t count = trie.nodes[site.root + 1].children - first
    cdef state_t targets[256]
    cdef uint8_t owner[256]
    cdef Candidate chosen[CANDIDATES]
    cdef Loop loop
    cdef uint32_t i, k, node, exits, picked = 0
    cdef uint8_t byte
    cdef bint killed = False
    cdef const LoopKey* key
    cdef bint paired[256]
    base_count[0] = 0
    if endless_explore(engine, where, state, bases):
        base_count[0] = 1
        return
    if engine.fault.code:
        return
    if not engine.shortcuts & DIFFERENCE_MASKS or not is_heavy(engine, trie, site.root) \
            or site.depth >= SITE_DEPTH or site.filtered \
            or engine.lexer.states[state].forced >= 0:
        inside_walk(engine, where, site.root, state)
        return
    for i in range(count):
        targets[i] = lexer_step(&engine.lexer, state, child_byte(trie, first + i))
    if engine.fault.code:
        return
    picked = _choose_bases(engine, where, state, targets, chosen)
    if engine.fault.code:
        return
    if where == 0 and engine.shortcuts & ENDLESS_STATES:
        exits = NONE if picked == 0 else _most_exits(engine, chosen, picked)
        if exits > COSTLY and closed_explore(engine, state, targets, exits, bases):
            base_count[0] = 1
            return
    if picked == 0 or engine.fault.code:
        if not engine.fault.code:
            inside_walk(engine, where, site.root, state)
        return
    for i in range(count):
        owner[i] = 255
        paired[i] = False
        if targets[i] == DEAD:
            continue
        byte = child_byte(trie, first + i)
        for k in range(picked):
            key = &chosen[k].table.key
            if key_takes(key, byte) and _same_lead(engine, &chosen[k], key, byte, targets[i]):
                owner[i] = <uint8_t>k
                break
    for k in range(picked):
        loop = engine.lexer.loops[chosen[k].loop]
        bases[k].table = chosen[k].table
        bases[k].bits = table_window(engine.pool, chosen[k].table, loop.high)
        bases[k].endless = loop.high == NONE
        bases[k].ending = loop.open_end and loop.high != NONE
        bases[k].removed = <uint32_t>engine.removed.size
        bases[k].whole = NONE  # many
        if bases[k].table.whole != NULL:
            bases[k].whole = bases[k].table.whole_at[
                1 + (loop.high if loop.high < bases[k].table.longest else bases[k].table.longest)
            ]
        if bases[k].bits == NULL:
            fault_set(&engine.fault, FAULT_MEMORY)
        _set_parts(engine, &bases[k], chosen[k].target, &loop, site.depth + 1)
        if engine.fault.code:
            return
        for i in range(count):
            byte = child_byte(trie, first + i)
            if owner[i] == k or not key_takes(&loop.key, byte):
                continue
            node = child_node(trie, first + i)
            if owner[i] == 255 and not paired[i] and byte < 0x80 and loop.high == NONE \
                    and loop.after == chosen[k].target and not loop.split and targets[i] != DEAD \
                    and engine.lexer.states[targets[i]].eager == NO_SET:
                paired[i] = True
                _pair_visit(engine, where, node, targets[i], chosen[k].target, &loop.key)
            else:
                inside_remove(engine, trie, trie.nodes[node].tokens_at, tokens_end(trie, node))
        bases[k].removed_end = <uint32_t>engine.removed.size
        if engine.fault.code:
            return
    base_count[0] = picked
    for i in range(count):
        if targets[i] == DEAD:
            killed = True
        elif owner[i] == 255 and not paired[i]:
            node = child_node(trie, first + i)
            if inside_visit(engine, where, node, targets[i]):
                inside_walk(engine, where, node, targets[i])
    if killed and engine.lexer.states[state].accept != NO_SET:
        inside_bound(engine, KILL, engine.lexer.states[state].accept, site.root, state)


cdef void _set_live(Engine* engine, const Trie* trie, Boundary* bound) noexcept nogil:
    """Say on which children of the boundary's node the lexeme goes on, so that its state need not
    be known any more."""
    cdef uint32_t i
    cdef uint8_t byte
    for i in range(trie.nodes[bound.node].children, trie.nodes[bound.node + 1].children):
        byte = child_byte(trie, i)
        if lexer_step(&engine.lexer, bound.detail, byte) != DEAD:
            bound.live[byte >> 6] |= <uint64_t>1 << (byte & 63)


cdef uint32_t inside_of(Engine* engine, uint32_t where, state_t state) noexcept nogil:
    """The index of what ``state`` says about a site; NONE with a fault set. Kept for good."""
    cdef uint32_t known = map_get(&engine.inside_index, where, state)
    cdef Base bases[CANDIDATES]
    cdef uint32_t count = 0
    if known != NONE:
        return known
    engine.tokens.size = 0
    engine.bounds.size = 0
    engine.removed.size = 0
    _explore(engine, where, state, bases, &count)
    if engine.fault.code:
        return NONE
    known = _keep(engine, where, bases, count)
    if known != NONE and map_put(&engine.inside_index, where, state, known) < 0:
        fault_set(&engine.fault, FAULT_MEMORY)
        return NONE
    return known


cdef uint32_t inside_by_twin(
    Engine* engine, uint32_t where, state_t state, state_t twin
) noexcept nogil:
    """The index of what ``state`` says about a site otherwise than its twin: tokens and boundaries
    of its own, and the token places that the twin answers wrongly for; NONE with a fault set."""
    engine.tokens.size = 0
    engine.bounds.size = 0
    engine.removed.size = 0
    difference_walk(engine, where, state, twin)
    return NONE if engine.fault.code else _keep(engine, where, NULL, 0)


cdef uint32_t _keep(
    Engine* engine, uint32_t where, const Base* bases, uint32_t count
) noexcept nogil:
    """Keep what the scratch of inside walks holds, for good; NONE with a fault set."""
    cdef Inside* grown
    cdef Boundary* bound
    cdef const Trie* trie = engine.sites[where].trie
    cdef const uint32_t* at
    cdef uint32_t i
    grown = <Inside*>array_grown(
        engine.insides, &engine.inside_room, engine.inside_count, sizeof(Inside)
    )
    if grown == NULL:
        fault_set(&engine.fault, FAULT_MEMORY)
        return NONE
    engine.insides = grown
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
        &engine.inside_arena, grown.boundary_count * sizeof(Boundary)
    )
    if grown.bases == NULL or grown.tokens == NULL or grown.removed == NULL \
            or grown.boundaries == NULL:
        fault_set(&engine.fault, FAULT_MEMORY)
        return NONE
    if count:
        memcpy(grown.bases, bases, count * sizeof(Base))
    grown.removed_count = <uint32_t>engine.removed.size
    if engine.tokens.size:
        memcpy(grown.tokens, engine.tokens.at, engine.tokens.size * sizeof(uint32_t))
    if engine.removed.size:
        memcpy(grown.removed, engine.removed.at, engine.removed.size * sizeof(uint32_t))
    for i in range(grown.boundary_count):
        bound = &grown.boundaries[i]
        at = engine.bounds.at + 4 * i
        bound.mode = at[0]
        bound.site = at[2] if at[0] == NESTED else where
        bound.emitted = at[1]
        bound.node = at[2]
        bound.detail = at[3]
        bound.filter = NULL
        bound.less = NULL
        bound.less_count = 0
        memset(bound.live, 0, sizeof(bound.live))
        if at[0] == KILL:
            _set_live(engine, trie, bound)
    engine.inside_count += 1
    return engine.inside_count - 1
