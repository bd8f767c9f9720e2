# cython: language_level=3, boundscheck=False, wraparound=False
# cython: initializedcheck=False, cdivision=True
"""Loop tables of the main trie by bitsets, without a walk.

Which tokens stay in a loop is known once it is known which tokens hold which byte: they are the
well-formed ones (or those of ASCII) that hold none of the bytes that the class lacks. So a table is
some unions of bitsets; those of whole blocks of bytes (half of the capitals, all control
characters) are kept, so that they are few. Windows of it are intersections with "tokens of at most
n characters", which do not depend on the class. And the nodes at which a certain byte leaves the
loop are among the nodes of that byte, of which there are few for a quote: the path above each shows
the rest.

All that depends on the vocabulary alone is made when it is first asked for, and kept.

Invariant: what a table says is what a walk of the trie (``walk_loop``) would say.

Cost: up to 255 bitsets, one pass over the text of all tokens, once per vocabulary (Llama 3: 4 MB,
2 ms); then a table is some ten microseconds where a walk took one to three milliseconds.
"""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from cpython.pythread cimport WAIT_LOCK, PyThread_acquire_lock, PyThread_release_lock

from llgx._lexer cimport (
    FIRST_LEAD, LEAD_COUNT, LoopKey, key_takes, utf8_lead, utf8_next,
)
from llgx._memory cimport NONE, Words, lowest_bit, words_free, words_push
from llgx._trie cimport (
    Classes, Table, TablePool, Trie, child_byte, child_node, string_key, tokens_end,
)

cdef enum:
    ILL_FORMED = 0xFF    # of a node: no character goes on as its bytes do
    LISTED = 4096        # tokens up to which a table lists those that stay in the loop
    MOST_HOLDERS = 20000 # nodes of certain bytes up to which their paths are looked at one by one


cdef void classes_free(TablePool* pool) noexcept nogil:
    cdef Classes* classes = pool.classes
    cdef uint32_t i
    if classes == NULL:
        return
    for i in range(256):
        free(classes.holding[i])
    for i in range(LEAD_COUNT):
        free(classes.beyond[i])
    for i in range(128):
        free(classes.beginning[i])
    if classes.windows != NULL:
        for i in range(classes.longest + 1):
            free(classes.windows[i])
    free(classes.windows)
    free(classes.well_formed)
    free(classes.ascii)
    free(classes.characters)
    free(classes.by_characters)
    free(classes.by_at)
    free(classes.up)
    free(classes.nodes)
    free(classes.exits)
    free(classes)
    pool.classes = NULL


cdef bint _read_token(Classes* classes, const TablePool* pool, uint32_t token) noexcept nogil:
    """Note the characters of a token, and whether they are well-formed but for the end."""
    cdef uint64_t at
    cdef uint32_t inner = 0, count = 0
    cdef uint8_t byte
    cdef bint ascii = True, formed = True
    for at in range(pool.text_at[token], pool.text_at[token + 1]):
        byte = pool.text[at]
        if byte < 0x80:
            classes.holding[128 + byte][token >> 6] |= <uint64_t>1 << (token & 63)
            count += 1
            formed = formed and inner == 0
            inner = 0
            continue
        ascii = False
        if byte >= 0xC0:
            count += 1
        if inner:
            inner = utf8_next(inner, byte)
            formed = formed and inner != NONE
            inner = 0 if inner == NONE else inner
        else:
            inner = utf8_lead(byte)
            formed = formed and inner != 0
            if inner:
                classes.beyond[byte - FIRST_LEAD][token >> 6] |= <uint64_t>1 << (token & 63)
    classes.characters[token] = <uint16_t>count  # a token has 65,535 bytes at the most
    if ascii:
        classes.ascii[token >> 6] |= <uint64_t>1 << (token & 63)
    if formed:
        classes.well_formed[token >> 6] |= <uint64_t>1 << (token & 63)
        if count > classes.longest:
            classes.longest = count
    return formed


cdef int _sort_tokens(Classes* classes, const Trie* trie) noexcept nogil:
    """List the well-formed tokens by rising number of characters; -1 when memory is out."""
    cdef uint32_t i, token, count
    cdef uint32_t* at = <uint32_t*>calloc(classes.longest + 3, sizeof(uint32_t))
    classes.by_at = at
    classes.by_characters = <uint32_t*>malloc((trie.token_count + 1) * sizeof(uint32_t))
    if at == NULL or classes.by_characters == NULL:
        return -1
    for i in range(trie.token_count):
        token = trie.tokens[i]
        if (classes.well_formed[token >> 6] >> (token & 63)) & 1:
            at[classes.characters[token] + 2] += 1
    for i in range(2, classes.longest + 3):
        at[i] += at[i - 1]
    for i in range(trie.token_count):
        token = trie.tokens[i]
        if (classes.well_formed[token >> 6] >> (token & 63)) & 1:
            count = classes.characters[token]
            classes.by_characters[at[count + 1]] = token
            at[count + 1] += 1
    return 0


cdef void _sort_nodes(Classes* classes, const Trie* trie, uint8_t* inner) noexcept nogil:
    """Note the parents of nodes, and list by byte those that come after whole characters.

    ``inner`` is scratch, a byte for each node: its place inside a character, or ``ILL_FORMED``.
    """
    cdef uint32_t i, node, child, before, following
    cdef uint8_t byte
    classes.up[0] = 0
    inner[0] = 0
    for node in range(trie.count):
        before = inner[node]
        for i in range(trie.nodes[node].children, trie.nodes[node + 1].children):
            child = child_node(trie, i)
            byte = child_byte(trie, i)
            classes.up[child] = node << 8 | byte
            if before == ILL_FORMED:
                following = NONE
            elif before:
                following = utf8_next(before, byte)
            else:
                following = 0 if byte < 0x80 else utf8_lead(byte)
                following = NONE if byte >= 0x80 and following == 0 else following
                classes.nodes_at[byte + 1] += 1
            inner[child] = <uint8_t>ILL_FORMED if following == NONE else <uint8_t>following
    for i in range(256):
        classes.nodes_at[i + 1] += classes.nodes_at[i]
    for node in range(1, trie.count):
        if inner[classes.up[node] >> 8]:
            continue
        byte = <uint8_t>(classes.up[node] & 0xFF)
        classes.nodes[classes.nodes_at[byte]] = node
        classes.nodes_at[byte] += 1
    for i in range(256, 0, -1):
        classes.nodes_at[i] = classes.nodes_at[i - 1]
    classes.nodes_at[0] = 0


cdef Classes* _classes_of(TablePool* pool) noexcept nogil:
    """What is known of all tokens, made once; NULL when memory is out. Lock held."""
    cdef Classes* classes
    cdef const Trie* trie = &pool.trie
    cdef uint32_t i
    cdef uint8_t* inner
    cdef bint whole = True
    if pool.classes != NULL:
        return pool.classes
    classes = <Classes*>calloc(1, sizeof(Classes))
    if classes == NULL:
        return NULL
    pool.classes = classes
    for i in range(128, 256):
        classes.holding[i] = <uint64_t*>calloc(pool.words + 1, sizeof(uint64_t))
        whole = whole and classes.holding[i] != NULL
    for i in range(LEAD_COUNT):
        classes.beyond[i] = <uint64_t*>calloc(pool.words + 1, sizeof(uint64_t))
        whole = whole and classes.beyond[i] != NULL
    classes.well_formed = <uint64_t*>calloc(pool.words + 1, sizeof(uint64_t))
    classes.ascii = <uint64_t*>calloc(pool.words + 1, sizeof(uint64_t))
    classes.characters = <uint16_t*>calloc(64 * <size_t>pool.words + 1, sizeof(uint16_t))
    classes.up = <uint32_t*>malloc((trie.count + 1) * sizeof(uint32_t))
    classes.nodes = <uint32_t*>malloc((trie.count + 1) * sizeof(uint32_t))
    inner = <uint8_t*>malloc(trie.count + 1)
    if inner != NULL and whole and classes.well_formed != NULL and classes.ascii != NULL \
            and classes.characters != NULL and classes.up != NULL and classes.nodes != NULL:
        for i in range(trie.token_count):
            _read_token(classes, pool, trie.tokens[i])
        _sort_nodes(classes, trie, inner)
        classes.windows = <uint64_t**>calloc(classes.longest + 1, sizeof(uint64_t*))
        if classes.windows != NULL and _sort_tokens(classes, trie) == 0:
            pool.bytes += (130 + LEAD_COUNT) * 8 * <size_t>pool.words + 8 * <size_t>trie.count \
                + 4 * <size_t>trie.token_count + 128 * <size_t>pool.words
            free(inner)
            return classes
    free(inner)
    classes_free(pool)
    return NULL


cdef int _list_whole(
    const Classes* classes, const TablePool* pool, Table* table, uint32_t count
) noexcept nogil:
    """List the tokens that stay in the loop by their number of characters; -1 when memory is
    out."""
    cdef uint32_t i, token, place, length
    cdef uint64_t word
    cdef uint32_t* at
    table.whole = <uint32_t*>malloc((count + 1) * sizeof(uint32_t))
    table.whole_at = <uint32_t*>calloc(table.longest + 3, sizeof(uint32_t))
    if table.whole == NULL or table.whole_at == NULL:
        return -1
    # whole_at[n + 2] counts, then whole_at[n + 1] becomes the place of the next of n characters.
    at = table.whole_at
    for place in range(2):
        for i in range(pool.words):
            word = table.bits[i]
            while word:
                token = 64 * i + lowest_bit(word)
                word &= word - 1
                length = classes.characters[token] - (table.root != 0)
                if place == 0:
                    at[length + 2] += 1
                else:
                    table.whole[at[length + 1]] = token
                    at[length + 1] += 1
        if place == 0:
            for i in range(2, table.longest + 3):
                at[i] += at[i - 1]
    return 0


cdef const uint64_t* _window(TablePool* pool, uint32_t high) noexcept nogil:
    """The well-formed tokens of at most ``high`` characters, made once; NULL when memory is out.
    Lock held."""
    cdef Classes* classes = pool.classes
    cdef uint64_t* made
    cdef uint32_t i, token, shorter
    if classes.windows[high] != NULL:
        return classes.windows[high]
    made = <uint64_t*>calloc(pool.words + 1, sizeof(uint64_t))
    if made == NULL:
        return NULL
    shorter = high
    while shorter and classes.windows[shorter] == NULL:
        shorter -= 1
    if shorter:
        memcpy(made, classes.windows[shorter], pool.words * sizeof(uint64_t))
        shorter += 1
    for i in range(classes.by_at[shorter], classes.by_at[high + 1]):
        token = classes.by_characters[i]
        made[token >> 6] |= <uint64_t>1 << (token & 63)
    classes.windows[high] = made
    pool.bytes += pool.words * 8
    return made


cdef int _set_longest(TablePool* pool, Table* table) noexcept nogil:
    """Find out how many characters the longest token of a table has; -1 when memory is out."""
    cdef uint32_t low = 0, high = pool.classes.longest, middle, i
    cdef const uint64_t* window
    cdef bint longer
    while low < high:
        middle = (low + high) // 2
        window = _window(pool, middle)
        if window == NULL:
            return -1
        longer = False
        for i in range(pool.words):
            if table.bits[i] & ~window[i]:
                longer = True
                break
        if longer:
            low = middle + 1
        else:
            high = middle
    table.longest = low - (table.root != 0)
    return 0


cdef const uint64_t* _holding(TablePool* pool, uint32_t block) noexcept nogil:
    """The tokens that hold a byte of a block, made once; NULL when memory is out. Lock held."""
    cdef Classes* classes = pool.classes
    cdef const uint64_t* one
    cdef const uint64_t* other
    cdef uint64_t* both
    cdef uint32_t i
    if classes.holding[block] != NULL:
        return classes.holding[block]
    one = _holding(pool, 2 * block)
    other = _holding(pool, 2 * block + 1)
    both = <uint64_t*>malloc((pool.words + 1) * sizeof(uint64_t))
    if one == NULL or other == NULL or both == NULL:
        free(both)
        return NULL
    for i in range(pool.words):
        both[i] = one[i] | other[i]
    classes.holding[block] = both
    pool.bytes += 8 * <size_t>pool.words
    return both


cdef int _remove_holders(
    TablePool* pool, const LoopKey* key, uint32_t block, uint32_t first, uint32_t count,
    uint64_t* bits
) noexcept nogil:
    """Take out the tokens that hold one of ``count`` bytes from ``first`` on, a block, that the
    class lacks; -1 when memory is out. A block of which it has none is one pass."""
    cdef uint32_t i, taken = 0
    cdef const uint64_t* without
    for i in range(first, first + count):
        taken += key_takes(key, <uint8_t>i)
    if taken == count:
        return 0
    if taken:
        i = count // 2
        if _remove_holders(pool, key, 2 * block, first, i, bits) < 0:
            return -1
        return _remove_holders(pool, key, 2 * block + 1, first + i, i, bits)
    without = _holding(pool, block)
    if without == NULL:
        return -1
    for i in range(pool.words):
        bits[i] &= ~without[i]
    return 0


cdef int _fill_class(TablePool* pool, const LoopKey* key, uint64_t* bits) noexcept nogil:
    """Fill ``bits`` with the tokens that are made of characters of a class; -1 when memory is out.
    Lock held, classes made."""
    cdef const uint64_t* without
    cdef const Classes* classes = pool.classes
    cdef uint32_t i, lead
    memcpy(
        bits, classes.ascii if key.leads == 0 else classes.well_formed,
        pool.words * sizeof(uint64_t)
    )
    if _remove_holders(pool, key, 1, 0, 128, bits) < 0:
        return -1
    for lead in range(LEAD_COUNT if key.leads else 0):
        if not (key.leads >> lead) & 1:
            without = classes.beyond[lead]
            for i in range(pool.words):
                bits[i] &= ~without[i]
    return 0


cdef int classes_within(TablePool* pool, const LoopKey* key, uint64_t* bits) noexcept nogil:
    """Fill ``bits`` with the tokens that are made of characters of a class, the last one maybe
    begun; -1 when memory is out."""
    cdef int status = -1
    PyThread_acquire_lock(pool.lock, WAIT_LOCK)
    if _classes_of(pool) != NULL:
        status = _fill_class(pool, key, bits)
    PyThread_release_lock(pool.lock)
    return status


cdef int classes_longer(TablePool* pool, uint32_t characters, uint64_t* bits) noexcept nogil:
    """Take the tokens of at most ``characters`` characters out of well-formed ones; -1 when memory
    is out. ``classes_within`` was called before."""
    cdef const uint64_t* window = NULL
    cdef uint32_t i
    if characters == 0:
        return 0
    PyThread_acquire_lock(pool.lock, WAIT_LOCK)
    window = _window(pool, min(characters, pool.classes.longest))
    PyThread_release_lock(pool.lock)
    if window == NULL:
        return -1
    for i in range(pool.words):
        bits[i] &= ~window[i]
    return 0


cdef const uint64_t* _beginning(TablePool* pool, uint32_t root, uint32_t byte) noexcept nogil:
    """The tokens below a child of the main trie's root, whose byte it is, made once; NULL when
    memory is out. Lock held."""
    cdef Classes* classes = pool.classes
    cdef uint32_t i, token
    if classes.beginning[byte] == NULL:
        classes.beginning[byte] = <uint64_t*>calloc(pool.words + 1, sizeof(uint64_t))
        if classes.beginning[byte] == NULL:
            return NULL
        pool.bytes += 8 * <size_t>pool.words
        for i in range(pool.trie.nodes[root + 1].tokens_at, tokens_end(&pool.trie, root)):
            token = pool.trie.tokens[i]
            classes.beginning[byte][token >> 6] |= <uint64_t>1 << (token & 63)
    return classes.beginning[byte]


cdef int _fill_below(
    TablePool* pool, uint32_t root, const LoopKey* key, uint64_t* bits
) noexcept nogil:
    """Fill ``bits`` with the tokens below a child of the main trie's root that go on from it with
    characters of a class; 1 where its byte is not ASCII, -1 when memory is out. Lock held."""
    cdef const Classes* classes = pool.classes
    cdef const Trie* trie = &pool.trie
    cdef uint32_t byte = classes.up[root] & 0xFF, i, j, node, token
    cdef const uint64_t* below
    cdef LoopKey wider = key[0]
    if byte >= 0x80 or classes.up[root] >> 8:
        return 1
    wider.ascii[byte >> 6] |= <uint64_t>1 << (byte & 63)
    below = _beginning(pool, root, byte)
    if below == NULL or _fill_class(pool, &wider, bits) < 0:
        return -1
    for i in range(pool.words):
        bits[i] &= below[i]
    if key_takes(key, <uint8_t>byte):
        return 0
    for i in range(classes.nodes_at[byte], classes.nodes_at[byte + 1]):
        node = classes.nodes[i]
        if node <= root or node >= trie.nodes[root].end:
            continue
        for j in range(trie.nodes[node].tokens_at, tokens_end(trie, node)):
            token = trie.tokens[j]
            bits[token >> 6] &= ~(<uint64_t>1 << (token & 63))
    return 0


cdef int classes_table(TablePool* pool, Table* table, const LoopKey* key) noexcept nogil:
    """Fill a table of the main trie from its root, or from a child of it: bits, longest, and short
    lists. 1 where that cannot be done by bitsets, -1 when memory is out. Lock held."""
    cdef Classes* classes
    cdef uint32_t i, count = 0
    cdef int status
    if key.bytes:
        return 1
    classes = _classes_of(pool)
    if classes == NULL:
        return -1
    if table.root:
        status = _fill_below(pool, table.root, key, table.bits)
    else:
        status = _fill_class(pool, key, table.bits)
    if status:
        return status
    for i in range(pool.words):
        count += ones(table.bits[i])
    if count and _set_longest(pool, table) < 0:
        return -1
    table.windows = <uint64_t**>calloc(table.longest + 1, sizeof(uint64_t*))
    if table.windows == NULL or (count <= LISTED and _list_whole(classes, pool, table, count) < 0):
        return -1
    table.bytes = sizeof(Table) + pool.words * 8 + <size_t>table.longest * 8 \
        + (<size_t>count * 4 if table.whole != NULL else 0)
    return 0


cdef int classes_window(
    TablePool* pool, const Table* table, uint32_t high, uint64_t* bits
) noexcept nogil:
    """Fill ``bits`` with the tokens of a table made by ``classes_table`` that need at most
    ``high`` characters; -1 when memory is out. Lock held."""
    cdef uint32_t i
    cdef const uint64_t* window
    if table.root:
        high = min(high + 1, pool.classes.longest)
    window = _window(pool, high)
    if window == NULL:
        return -1
    for i in range(pool.words):
        bits[i] = table.bits[i] & window[i]
    return 0


# --------------------------------------------------------------------------- what leaves a loop

cdef uint32_t _characters_above(
    const Classes* classes, const LoopKey* key, uint32_t root, uint32_t node, uint32_t most
) noexcept nogil:
    """The characters between ``root`` and a node below it that comes after whole ones, if all of
    them are in the loop and they are no more than ``most``; else 0."""
    cdef uint32_t count = 0, byte
    node = classes.up[node] >> 8
    while node != root:
        byte = classes.up[node] & 0xFF
        # (The bytes between are inside a character, which its first one stands for.)
        if (byte < 0x80 or byte >= FIRST_LEAD) and not key_takes(key, <uint8_t>byte):
            return 0
        count += byte < 0x80 or byte >= 0xC0
        if count > most:
            return 0
        node = classes.up[node] >> 8
    return count


cdef uint32_t classes_nodes(const TablePool* pool, const uint64_t* bytes) noexcept nogil:
    """How many nodes of the main trie have one of ``bytes`` (4 words) after whole characters; NONE
    where that is not known yet."""
    cdef uint32_t byte, total = 0
    if pool.classes == NULL:
        return NONE
    for byte in range(256):
        if (bytes[byte >> 6] >> (byte & 63)) & 1:
            total += pool.classes.nodes_at[byte + 1] - pool.classes.nodes_at[byte]
    return total


cdef bint classes_are_few(const TablePool* pool, const uint64_t* bytes) noexcept nogil:
    """Whether so few nodes have one of ``bytes`` (4 words) that they are looked at one by one. Lock
    held."""
    return classes_nodes(pool, bytes) <= MOST_HOLDERS


cdef bint classes_places(
    TablePool* pool, const Table* table, const uint64_t* bytes, uint32_t characters, size_t most,
    Words* places
) noexcept nogil:
    """Append (node, its byte, characters before it) where one of ``bytes`` (4 words) comes after so
    many characters of the loop, or, NONE, after any number, where it leaves it; False, and nothing
    appended, where a walk has to tell or there are more than ``most``. Lock held."""
    cdef Classes* classes = pool.classes
    cdef uint32_t byte, i, node, count
    cdef size_t before = places.size
    if table.trie != &pool.trie or table.key.bytes or not classes_are_few(pool, bytes) \
            or classes.up[table.root] >> 8:
        return False
    for byte in range(256):
        if not (bytes[byte >> 6] >> (byte & 63)) & 1:
            continue
        for i in range(classes.nodes_at[byte], classes.nodes_at[byte + 1]):
            node = classes.nodes[i]
            if table.root and (node <= table.root or node >= pool.trie.nodes[table.root].end):
                continue
            count = _characters_above(classes, &table.key, table.root, node, characters)
            if count == 0 or (characters != NONE and count < characters):
                continue
            if places.size - before >= 3 * most or words_push(places, node) < 0 \
                    or words_push(places, byte) < 0 or words_push(places, count) < 0:
                places.size = before
                return False
    return True


cdef int _walk_exits(const Trie* trie, Words* exits) noexcept nogil:
    """List the nodes with which a token stops being characters of a JSON string, well-formed ones;
    -1 when memory is out."""
    cdef LoopKey key
    cdef Words frames    # child cursor, child end, inner state of UTF-8
    cdef uint32_t cursor = trie.nodes[0].children, end = trie.nodes[1].children
    cdef uint32_t node, inner = 0, following
    cdef uint8_t byte
    cdef int status = -1
    string_key(&key)
    memset(&frames, 0, sizeof(Words))
    while True:
        if cursor == end:
            if frames.size == 0:
                status = 0
                break
            frames.size -= 3
            cursor = frames.at[frames.size]
            end = frames.at[frames.size + 1]
            inner = frames.at[frames.size + 2]
            continue
        byte = child_byte(trie, cursor)
        node = child_node(trie, cursor)
        cursor += 1
        if inner:
            following = utf8_next(inner, byte)
        elif key_takes(&key, byte):
            following = utf8_lead(byte) if byte >= 0x80 else 0
        else:
            following = NONE
        if following == NONE:
            if words_push(exits, node) < 0:
                break
            continue
        if words_push(&frames, cursor) < 0 or words_push(&frames, end) < 0 \
                or words_push(&frames, inner) < 0:
            break
        cursor = trie.nodes[node].children
        end = trie.nodes[node + 1].children
        inner = following
    words_free(&frames)
    return status


cdef const uint32_t* classes_exits(
    TablePool* pool, uint32_t* count, const uint32_t** up
) noexcept nogil:
    """The nodes of the main trie with which a token stops being characters of a JSON string, how
    many they are, and by node its parent << 8 | byte. NULL when memory is out."""
    cdef Classes* classes
    cdef Words exits
    PyThread_acquire_lock(pool.lock, WAIT_LOCK)
    classes = _classes_of(pool)
    if classes != NULL and classes.exits == NULL:
        memset(&exits, 0, sizeof(Words))
        if _walk_exits(&pool.trie, &exits) == 0:
            classes.exits = <uint32_t*>malloc((exits.size + 1) * sizeof(uint32_t))
        if classes.exits != NULL:
            if exits.size:
                memcpy(classes.exits, exits.at, exits.size * sizeof(uint32_t))
            classes.exit_count = <uint32_t>exits.size
            pool.bytes += exits.size * sizeof(uint32_t)
        words_free(&exits)
    PyThread_release_lock(pool.lock)
    if classes == NULL:
        return NULL
    count[0] = classes.exit_count
    up[0] = classes.up
    return classes.exits
