# cython: language_level=3, boundscheck=False, wraparound=False
# cython: initializedcheck=False, cdivision=True
"""Masks of exact lexing: which tokens the automaton of configurations reads.

A mask is a walk of the token trie by the automaton, which three things keep short:

* Where a whole class of characters leads a configuration back to itself (the body of a string, an
  identifier, white space), it is a *loop* as a lexer state is one, and the vocabulary's loop tables
  stand for the tokens that stay in it; what leaves it is a walk of the table's suffix trie.
* Where bytes lead to a configuration that loops on them, what follows them is part of that
  configuration's own mask, which is kept: of the letters that begin an identifier, of blanks.
* Masks are kept by (trie, configuration), and what follows a node with much below it by (node,
  configuration).

Invariant: bits are added for tokens only that the automaton reads from the place where they are
added; so it does not matter which way a token was found.

Cost: a known mask is a copy. A new one costs some tens of microseconds where loops take most of the
vocabulary, else what a walk of the live part of the trie costs.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from llgx._engine cimport (
    DIFFERENCE_MASKS, LOOP_NONE, LOOP_SELF, LOOP_UNKNOWN, MASK_MEMO, Config, Engine, Exact,
    is_heavy, is_leaf,
)
from llgx._exact cimport exact_step
from llgx._inside cimport subtrees_of, table_of
from llgx._lexer cimport LEAD_COUNT, LoopKey, key_takes, utf8_lead, utf8_next
from llgx._memory cimport (
    FAULT_MEMORY, NONE, array_grown, fault_set, lowest_bit, map_clear, map_get, map_put,
    words_reserve,
)
from llgx._suffixes cimport table_suffixes
from llgx._trie cimport Table, Trie, child_byte, child_node, tokens_end

cdef enum:
    WALK_WORDS = 8
    DEEPEST = 12         # masks and subtrees in the making for one another: bounds the C stack
    FEW_NODES = 32       # of a subtree from which on it is copied from a mask that is known
    MOST_SUBTREES = 1024 # bitsets of tokens below some children
    UTF8_STATES = 8

cdef struct Path:        # bytes read since the root of a trie
    uint64_t ascii[2]
    bint other           # some were not ASCII


cdef void exact_forget(Engine* engine) noexcept nogil:
    """Drop all masks."""
    cdef Exact* exact = engine.exact
    cdef uint32_t i
    for i in range(exact.configs.count):
        free(exact.info[i].mask)
        exact.info[i].mask = NULL
    for i in range(exact.site_count):
        free(exact.site_masks[i])
    exact.site_count = 0
    map_clear(&exact.site_index)
    engine.mask_bytes = 0


# --------------------------------------------------------------------------- loops

cdef void _set_tail(Engine* engine, uint32_t config, LoopKey* key) noexcept nogil:
    """Say what a loop does with bytes from 0x80 on: takes all, or all characters, or leaves it."""
    cdef uint32_t inner[UTF8_STATES]
    cdef uint32_t b, i, lead, target, following
    cdef bint all_bytes = True
    memset(inner, 0xFF, sizeof(inner))  # NONE
    for b in range(0x80, 0x100):
        target = exact_step(engine, config, <uint8_t>b)
        all_bytes = all_bytes and target == config
        if engine.fault.code:
            return
    if all_bytes:
        key.bytes = True
        return
    for b in range(0x80, 0x100):
        lead = utf8_lead(<uint8_t>b)
        if lead == 0:
            continue
        target = exact_step(engine, config, <uint8_t>b)
        if target == NONE or target == config:
            return
        if inner[lead] == NONE:
            inner[lead] = target
        elif inner[lead] != target:
            return
    for i in range(1, UTF8_STATES):
        for b in range(0x100):
            target = exact_step(engine, inner[i], <uint8_t>b)
            if engine.fault.code:
                return
            following = utf8_next(i, <uint8_t>b)
            if following == NONE:
                if target != NONE:
                    return
            elif target != (inner[following] if following else config):
                return
    key.leads = (<uint64_t>1 << LEAD_COUNT) - 1


cdef bint _loops(Engine* engine, uint32_t config) noexcept nogil:
    """Whether the configuration is a loop; its key is kept with it."""
    cdef LoopKey key
    cdef uint32_t b
    cdef Config* info = &engine.exact.info[config]
    if info.loop != LOOP_UNKNOWN:
        return info.loop == LOOP_SELF
    memset(&key, 0, sizeof(LoopKey))
    for b in range(128):
        if exact_step(engine, config, <uint8_t>b) == config:
            key.ascii[b >> 6] |= <uint64_t>1 << (b & 63)
        if engine.fault.code:
            return False
    if key.ascii[0] or key.ascii[1]:
        _set_tail(engine, config, &key)
    if engine.fault.code:
        return False
    info = &engine.exact.info[config]  # stepping may have moved it
    info.key = key
    info.loop = LOOP_SELF if key.ascii[0] or key.ascii[1] else LOOP_NONE
    return info.loop == LOOP_SELF


cdef inline bint _stays(Engine* engine, uint32_t config, const Path* path) noexcept nogil:
    """Whether the bytes of a path lead the loop ``config`` back to itself."""
    cdef const LoopKey* key = &engine.exact.info[config].key
    return not path.other and path.ascii[0] & ~key.ascii[0] == 0 \
        and path.ascii[1] & ~key.ascii[1] == 0


cdef inline Path _longer(Path path, uint8_t byte) noexcept nogil:
    if byte < 0x80:
        path.ascii[byte >> 6] |= <uint64_t>1 << (byte & 63)
    else:
        path.other = True
    return path


# --------------------------------------------------------------------------- walks

cdef inline void _put(const Trie* trie, uint32_t node, uint64_t* bits) noexcept nogil:
    cdef uint32_t i, token
    for i in range(trie.nodes[node].tokens_at, trie.nodes[node + 1].tokens_at):
        token = trie.tokens[i]
        bits[token >> 6] |= <uint64_t>1 << (token & 63)


cdef void _copy(
    const Trie* trie, uint32_t node, const uint64_t* source, uint64_t* bits
) noexcept nogil:
    """Add the tokens of a subtree that are in ``source``."""
    cdef uint32_t i, token
    for i in range(trie.nodes[node].tokens_at, tokens_end(trie, node)):
        token = trie.tokens[i]
        bits[token >> 6] |= source[token >> 6] & (<uint64_t>1 << (token & 63))


cdef uint64_t* _known(Engine* engine, const Trie* trie, uint32_t config) noexcept nogil:
    """The mask of a configuration on a trie, or NULL."""
    cdef uint32_t index
    if trie == &engine.pool.trie:
        return engine.exact.info[config].mask
    index = map_get(&engine.exact.site_index, <uint64_t><size_t>trie, config)
    return engine.exact.site_masks[index] if index != NONE else NULL


cdef uint64_t* _mask(
    Engine* engine, Trie* trie, Table* table, uint32_t config, uint32_t depth
) noexcept nogil:
    """The tokens of a whole trie that are read from ``config``. Kept; NULL with a fault set."""
    cdef Exact* exact = engine.exact
    cdef uint64_t* made = _known(engine, trie, config)
    cdef Path path
    if made != NULL:
        return made
    made = <uint64_t*>calloc(engine.words + 1, sizeof(uint64_t))
    if made == NULL:
        fault_set(&engine.fault, FAULT_MEMORY)
        return NULL
    exact.info[config].busy = True
    memset(&path, 0, sizeof(Path))
    _read(engine, trie, table, 0, config, path, made, depth, True)
    exact.info[config].busy = False
    if engine.fault.code:
        free(made)
        return NULL
    if trie == &engine.pool.trie:
        engine.mask_bytes += engine.words * sizeof(uint64_t)
        exact.info[config].mask = made
    elif not _keep(engine, trie, config, made, engine.words):
        free(made)
        return NULL
    return made


cdef Trie* _suffixes(Engine* engine, Table* table, uint32_t config) noexcept nogil:
    """What tokens that leave a loop table go on with, of what can be read from ``config``; NULL
    with a fault set."""
    cdef uint64_t bytes[4]
    cdef uint32_t byte
    cdef Trie* trie
    memset(bytes, 0, sizeof(bytes))
    for byte in range(256):
        if exact_step(engine, config, <uint8_t>byte) != NONE:
            bytes[byte >> 6] |= <uint64_t>1 << (byte & 63)
        if engine.fault.code:
            return NULL
    trie = table_suffixes(engine.pool, table, bytes, NONE)
    if trie == NULL:
        fault_set(&engine.fault, FAULT_MEMORY)
    return trie


cdef void _read(
    Engine* engine, Trie* trie, Table* table, uint32_t node, uint32_t config, Path path,
    uint64_t* bits, uint32_t depth, bint loops
) noexcept nogil:
    """Add the tokens below ``node`` whose rest is read from ``config``.

    ``loops``: a loop table may stand for part of them. Recursive; ``depth`` bounds that.
    """
    cdef Table* found
    cdef Trie* suffixes
    cdef LoopKey key
    cdef Path begin
    cdef uint32_t i, child, target
    cdef uint32_t first = trie.nodes[node].children, end = trie.nodes[node + 1].children
    cdef uint32_t targets[256]
    cdef uint8_t byte
    loops = loops and engine.shortcuts & DIFFERENCE_MASKS and depth < DEEPEST \
        and is_heavy(engine, trie, node) and _loops(engine, config)
    if engine.fault.code:
        return
    if loops:
        key = engine.exact.info[config].key
        found = table_of(engine, table, trie, node, &key)
        if found == NULL:
            return
        suffixes = _suffixes(engine, found, config)
        if suffixes == NULL:
            return
        for i in range(engine.words):
            bits[i] |= found.bits[i]
        memset(&begin, 0, sizeof(Path))
        _read(engine, suffixes, found, 0, config, begin, bits, depth + 1, False)
    for i in range(first, end):
        byte = child_byte(trie, i)
        targets[i - first] = NONE
        if not loops or not key_takes(&key, byte):
            targets[i - first] = exact_step(engine, config, byte)
        if engine.fault.code:
            return
    if engine.shortcuts & MASK_MEMO and depth < DEEPEST:
        _read_groups(engine, trie, table, node, path, targets, bits, depth)
    for i in range(first, end):
        target = targets[i - first]
        if engine.fault.code:
            return
        if target != NONE:
            child = child_node(trie, i)
            _walk(
                engine, trie, table, child, target, _longer(path, child_byte(trie, i)), bits, depth
            )


cdef void _read_groups(
    Engine* engine, Trie* trie, Table* table, uint32_t node, Path path, uint32_t* targets,
    uint64_t* bits, uint32_t depth
) noexcept nogil:
    """Deal with the children of ``node`` that lead to loops which take them, and so are part of
    the masks of these; their ``targets`` become NONE."""
    cdef uint32_t first = trie.nodes[node].children, end = trie.nodes[node + 1].children
    cdef uint32_t i, j, target, weight
    cdef uint32_t bytes[8]
    cdef uint8_t byte
    cdef const uint64_t* source
    cdef const uint64_t* below
    cdef bint seen
    for i in range(first, end):
        target = targets[i - first]
        if target == NONE or child_byte(trie, i) >= 0x80:
            continue
        seen = False
        for j in range(first, i):
            seen = seen or targets[j - first] == target
        if seen or engine.exact.info[target].busy or engine.subtree_count >= MOST_SUBTREES:
            continue
        weight = 0
        for j in range(i, end):
            if targets[j - first] == target:
                weight += trie.nodes[child_node(trie, j)].end - child_node(trie, j)
        if weight < engine.heavy or not _loops(engine, target) \
                or not _stays(engine, target, &path):
            continue
        memset(bytes, 0, sizeof(bytes))
        weight = 0
        for j in range(i, end):
            byte = child_byte(trie, j)
            if targets[j - first] == target and byte < 0x80 \
                    and key_takes(&engine.exact.info[target].key, byte):
                bytes[byte >> 5] |= <uint32_t>1 << (byte & 31)
                weight += trie.nodes[child_node(trie, j)].end - child_node(trie, j)
        if weight < engine.heavy:
            continue
        source = _mask(engine, trie, table, target, depth + 1)
        below = subtrees_of(engine, trie, node, bytes)
        if source == NULL or below == NULL:
            return
        for j in range(engine.words):
            bits[j] |= source[j] & below[j]
        for j in range(i, end):
            byte = child_byte(trie, j)
            if byte < 0x80 and (bytes[byte >> 5] >> (byte & 31)) & 1:
                targets[j - first] = NONE


cdef bint _shorten(
    Engine* engine, Trie* trie, Table* table, uint32_t node, uint32_t config, const Path* path,
    uint64_t* bits, uint32_t depth
) noexcept nogil:
    """Deal with what is below ``node`` without walking it, if it is many nodes; whether it was."""
    cdef const uint64_t* source
    cdef bint heavy = is_heavy(engine, trie, node) and depth < DEEPEST
    if not heavy and engine.exact.info[config].loop != LOOP_SELF:
        return False
    if engine.shortcuts & MASK_MEMO and _loops(engine, config) and _stays(engine, config, path):
        source = _known(engine, trie, config)
        if source == NULL and heavy and not engine.exact.info[config].busy:
            source = _mask(engine, trie, table, config, depth + 1)
        if source != NULL:
            _copy(trie, node, source, bits)
            return True
    if heavy and engine.fault.code == 0:
        if engine.shortcuts & MASK_MEMO:
            _read_kept(engine, trie, table, node, config, path, bits, depth)
        else:
            _read(engine, trie, table, node, config, path[0], bits, depth + 1, True)
    return heavy


cdef void _read_kept(
    Engine* engine, Trie* trie, Table* table, uint32_t node, uint32_t config, const Path* path,
    uint64_t* bits, uint32_t depth
) noexcept nogil:
    """:func:`_read`, and keep what that found: a bit for each token of the subtree, in their
    order. What follows an operator, say, is asked for by all that may stand before it."""
    cdef uint64_t key = (<uint64_t>node << 32) | config
    cdef uint32_t index = map_get(&engine.exact.site_index, <uint64_t><size_t>trie, key)
    cdef uint32_t first = trie.nodes[node].tokens_at, count = tokens_end(trie, node) - first
    cdef uint32_t i, token, words = (count + 63) // 64
    cdef uint64_t* found
    cdef uint64_t* kept
    cdef uint64_t left
    if index == NONE:
        found = <uint64_t*>calloc(engine.words + 1, sizeof(uint64_t))
        kept = <uint64_t*>calloc(words + 1, sizeof(uint64_t))
        if found == NULL or kept == NULL:
            fault_set(&engine.fault, FAULT_MEMORY)
        else:
            _read(engine, trie, table, node, config, path[0], found, depth + 1, True)
            for i in range(count):
                token = trie.tokens[first + i]
                kept[i >> 6] |= ((found[token >> 6] >> (token & 63)) & 1) << (i & 63)
        free(found)
        if engine.fault.code or not _keep(engine, trie, key, kept, words):
            free(kept)
            return
    else:
        kept = engine.exact.site_masks[index]
    for i in range(words):
        left = kept[i]
        while left:
            token = trie.tokens[first + 64 * i + lowest_bit(left)]
            bits[token >> 6] |= <uint64_t>1 << (token & 63)
            left &= left - 1


cdef bint _keep(
    Engine* engine, const Trie* trie, uint64_t key, uint64_t* made, uint32_t words
) noexcept nogil:
    """Keep a bitset of the memo, which then owns it. False with a fault set when that fails."""
    cdef Exact* exact = engine.exact
    cdef uint64_t** grown = <uint64_t**>array_grown(
        exact.site_masks, &exact.site_room, exact.site_count, sizeof(uint64_t*)
    )
    if grown != NULL:
        exact.site_masks = grown
    if grown == NULL or map_put(
        &exact.site_index, <uint64_t><size_t>trie, key, exact.site_count
    ) < 0:
        fault_set(&engine.fault, FAULT_MEMORY)
        return False
    exact.site_masks[exact.site_count] = made
    exact.site_count += 1
    engine.mask_bytes += words * sizeof(uint64_t)
    return True


cdef void _walk(
    Engine* engine, Trie* trie, Table* table, uint32_t node, uint32_t config, Path path,
    uint64_t* bits, uint32_t depth
) noexcept nogil:
    """Add the tokens at and below ``node``, which was read and led to ``config``."""
    cdef size_t floor = engine.exact.frames.size
    cdef uint32_t* frame
    cdef uint32_t cursor, end, child, target
    cdef uint8_t byte
    cdef Path longer
    _put(trie, node, bits)
    if is_leaf(trie, node):
        return
    if trie.nodes[node].end - node >= FEW_NODES or is_heavy(engine, trie, node):
        if _shorten(engine, trie, table, node, config, &path, bits, depth):
            return
    cursor = trie.nodes[node].children
    end = trie.nodes[node + 1].children
    while engine.fault.code == 0:
        if cursor == end:
            if engine.exact.frames.size == floor:
                break
            engine.exact.frames.size -= WALK_WORDS
            frame = engine.exact.frames.at + engine.exact.frames.size
            cursor = frame[0]
            end = frame[1]
            config = frame[2]
            path.other = frame[3]
            memcpy(path.ascii, frame + 4, 4 * sizeof(uint32_t))
            continue
        byte = child_byte(trie, cursor)
        child = child_node(trie, cursor)
        cursor += 1
        target = exact_step(engine, config, byte)
        if target == NONE:
            continue
        _put(trie, child, bits)
        if is_leaf(trie, child):
            continue
        longer = _longer(path, byte)
        if trie.nodes[child].end - child >= FEW_NODES or is_heavy(engine, trie, child):
            if _shorten(engine, trie, table, child, target, &longer, bits, depth):
                continue
        if cursor != end and not _push(engine, cursor, end, config, &path):
            break
        config = target
        path = longer
        cursor = trie.nodes[child].children
        end = trie.nodes[child + 1].children
    engine.exact.frames.size = floor


cdef inline bint _push(
    Engine* engine, uint32_t cursor, uint32_t end, uint32_t config, const Path* path
) noexcept nogil:
    cdef uint32_t* frame
    if words_reserve(&engine.exact.frames, WALK_WORDS) < 0:
        fault_set(&engine.fault, FAULT_MEMORY)
        return False
    frame = engine.exact.frames.at + engine.exact.frames.size
    frame[0] = cursor
    frame[1] = end
    frame[2] = config
    frame[3] = path.other
    memcpy(frame + 4, path.ascii, 4 * sizeof(uint32_t))
    engine.exact.frames.size += WALK_WORDS
    return True


cdef int exact_fill(Engine* engine, uint32_t config, uint64_t* bits) noexcept nogil:
    """Write the text tokens allowed in a configuration to a bitset of ``words`` words.

    -1 with a fault set, and the bitset untouched, when that fails.
    """
    cdef const uint64_t* made
    if engine.mask_bytes > engine.mask_limit:
        exact_forget(engine)
    made = _mask(engine, &engine.pool.trie, NULL, config, 0)
    if made == NULL:
        return -1
    memcpy(bits, made, engine.words * sizeof(uint64_t))
    return 0
