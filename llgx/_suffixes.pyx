# cython: language_level=3, boundscheck=False, wraparound=False
# cython: initializedcheck=False, cdivision=True
"""Suffix tries: what tokens hold after a loop of characters, merged.

A token that leaves a loop is read on from where it leaves it, and what it holds from there on is
shared by many tokens: all that is left of those that leave a JSON string is a quote or a backslash
and what code has after them. So for a loop table and the bytes that matter, the rests of all
tokens are merged into one trie, and the mask engine walks that.

Three things are asked for: the rests of tokens that leave the loop with certain bytes, after any
number of characters, each token with its number (``Trie.prefix``); the same as one trie for each
number, where it decides how the rest is read; and the rests of tokens that *could* stay, after an
exact number of characters, where a counter ends the lexeme and another one begins.

Invariant: a token is in the answer once for each place of it that is asked for, of which it has one
at the most, since a loop is left once and a number of characters reached once.

Cost: the places are looked up by byte, or walked for where many bytes matter; then one pass over
the nodes below them, sorted by byte where subtrees meet. Kept with the table.
"""

from libc.stdint cimport uint16_t, uint32_t, uint64_t, uint8_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy, memset

from cpython.pythread cimport WAIT_LOCK, PyThread_acquire_lock, PyThread_release_lock

from llgx._classes cimport classes_are_few, classes_places
from llgx._lexer cimport key_takes, utf8_lead, utf8_next
from llgx._memory cimport NONE, Words, words_free, words_push, words_reserve
from llgx._trie cimport (
    Splits, Suffixes, Table, TablePool, Trie, child_byte, child_node, trie_assemble, trie_free,
    walk_loop,
)

cdef enum:
    FEW = 24             # places up to which they are sorted by insertion


# --------------------------------------------------------------------------- merging

cdef int _sort_places(Words* places, size_t begin, uint32_t count) noexcept nogil:
    """Sort the last ``count`` triples by byte, keeping the order of equal ones; -1 when memory is
    out."""
    cdef uint32_t counts[256]
    cdef uint32_t* at
    cdef uint32_t* to
    cdef uint32_t triple[3]
    cdef uint32_t i, total, byte
    cdef size_t j
    if count <= FEW:
        # Nearly all groups are this small, and most are in order.
        at = places.at + begin
        for i in range(1, count):
            if at[3 * i + 1] >= at[3 * i - 2]:
                continue
            memcpy(triple, at + 3 * i, sizeof(triple))
            j = i
            while j > 0 and at[3 * j - 2] > triple[1]:
                memcpy(at + 3 * j, at + 3 * j - 3, sizeof(triple))
                j -= 1
            memcpy(at + 3 * j, triple, sizeof(triple))
        return 0
    if words_reserve(places, 3 * <size_t>count) < 0:
        return -1
    at = places.at + begin
    to = at + 3 * <size_t>count
    memset(counts, 0, sizeof(counts))
    for i in range(count):
        counts[at[3 * i + 1]] += 1
    total = 0
    for i in range(256):
        total += counts[i]
        counts[i] = total - counts[i]
    for i in range(count):
        byte = at[3 * i + 1]
        memcpy(to + 3 * <size_t>counts[byte], at + 3 * i, sizeof(triple))
        counts[byte] += 1
    memcpy(at, to, 3 * <size_t>count * sizeof(uint32_t))
    return 0


cdef int _merge_suffixes(const Trie* source, Words* places, Trie* suffix) noexcept nogil:
    """Merge subtrees of ``source`` into one trie; -1 when memory is out.

    ``places`` holds triples (node, its byte, characters before it), one for each subtree, and is
    used up. Tokens that end in equal suffixes come together on one node.
    """
    cdef Words frames, shape, starts, tokens, prefix
    cdef uint32_t count, depth, byte, i, j, node, before, total, first
    cdef size_t begin, at
    cdef uint32_t low = NONE, high = 0
    cdef int status = -1
    memset(&frames, 0, sizeof(Words))
    memset(&shape, 0, sizeof(Words))
    memset(&starts, 0, sizeof(Words))
    memset(&tokens, 0, sizeof(Words))
    memset(&prefix, 0, sizeof(Words))
    count = <uint32_t>(places.size // 3)
    at = 0
    while True:
        # The root stands for the empty suffix and takes the given places as its children; any
        # other frame is (begin, count, depth, byte, end of the places around) of a group of source
        # nodes that become one. Groups of a node are taken in the order of the places, so that all
        # that comes after these is used up.
        if shape.size == 0:
            depth = 0
            if words_push(&shape, 0) < 0 or words_push(&shape, 0) < 0 \
                    or words_push(&starts, 0) < 0:
                break
        else:
            if frames.size == 0:
                status = 0
                break
            frames.size -= 5
            begin = frames.at[frames.size]
            count = frames.at[frames.size + 1]
            depth = frames.at[frames.size + 2]
            byte = frames.at[frames.size + 3]
            at = frames.at[frames.size + 4]
            places.size = at
            if words_push(&shape, depth) < 0 or words_push(&shape, byte) < 0 \
                    or words_push(&starts, <uint32_t>tokens.size) < 0:
                break
            total = 0
            for i in range(count):
                node = places.at[begin + 3 * i]
                before = places.at[begin + 3 * i + 2]
                for j in range(source.nodes[node].tokens_at, source.nodes[node + 1].tokens_at):
                    if words_push(&tokens, source.tokens[j]) < 0 \
                            or words_push(&prefix, before) < 0:
                        total = NONE
                    low = before if before < low else low
                    high = before if before > high else high
                if total != NONE:
                    total += source.nodes[node + 1].children - source.nodes[node].children
            if total == NONE or words_reserve(places, 3 * <size_t>total) < 0:
                break
            for i in range(count):
                node = places.at[begin + 3 * i]
                before = places.at[begin + 3 * i + 2]
                for j in range(source.nodes[node].children, source.nodes[node + 1].children):
                    places.at[places.size] = child_node(source, j)
                    places.at[places.size + 1] = child_byte(source, j)
                    places.at[places.size + 2] = before
                    places.size += 3
            count = total
        if count == 0:
            continue
        if places.size >= NONE or _sort_places(places, at, count) < 0:
            break
        # Push groups in falling order of bytes, so that they are taken in rising order.
        i = count
        while i > 0:
            first = i - 1
            byte = places.at[at + 3 * <size_t>first + 1]
            while first > 0 and places.at[at + 3 * <size_t>first - 2] == byte:
                first -= 1
            if words_push(&frames, <uint32_t>at + 3 * first) < 0 \
                    or words_push(&frames, i - first) < 0 or words_push(&frames, depth + 1) < 0 \
                    or words_push(&frames, byte) < 0 \
                    or words_push(&frames, <uint32_t>places.size) < 0:
                break
            i = first
        if i > 0:
            break
    if status == 0:
        status = -1
        suffix.token_count = <uint32_t>tokens.size
        suffix.prefix_low = <uint16_t>(low if low < 0xFFFF else 0xFFFF)
        suffix.prefix_high = <uint16_t>(high if high < 0xFFFF else 0xFFFF)
        suffix.tokens = <uint32_t*>malloc((tokens.size + 1) * sizeof(uint32_t))
        suffix.prefix = <uint16_t*>malloc((tokens.size + 1) * sizeof(uint16_t))
        if suffix.tokens != NULL and suffix.prefix != NULL:
            if tokens.size:
                memcpy(suffix.tokens, tokens.at, tokens.size * sizeof(uint32_t))
            for i in range(<uint32_t>tokens.size):
                suffix.prefix[i] = <uint16_t>(prefix.at[i] if prefix.at[i] < 0xFFFF else 0xFFFF)
            status = trie_assemble(suffix, &shape, &starts)
    words_free(&frames)
    words_free(&shape)
    words_free(&starts)
    words_free(&tokens)
    words_free(&prefix)
    return status


# --------------------------------------------------------------------------- places

cdef bint _list_leaving(TablePool* pool, Table* table) noexcept nogil:
    """List what leaves a loop, if that was not done; False when memory is out. Lock held."""
    cdef Words whole, leaving
    if table.leaving != NULL:
        return True
    memset(&whole, 0, sizeof(Words))
    memset(&leaving, 0, sizeof(Words))
    if walk_loop(table.trie, table.root, &table.key, &whole, &leaving) == 0:
        table.leaving = <uint32_t*>malloc((leaving.size + 1) * sizeof(uint32_t))
    if table.leaving != NULL:
        if leaving.size:
            memcpy(table.leaving, leaving.at, leaving.size * sizeof(uint32_t))
        table.leaving_count = <uint32_t>(leaving.size // 2)
        table.bytes += leaving.size * 4
        pool.bytes += leaving.size * 4
    words_free(&whole)
    words_free(&leaving)
    return table.leaving != NULL


cdef inline bint _holds(const uint64_t* bytes, uint32_t byte) noexcept nogil:
    return (bytes[byte >> 6] >> (byte & 63)) & 1


cdef int _put_place(Words* places, uint32_t node, uint32_t byte, uint32_t before) noexcept nogil:
    if words_push(places, node) < 0 or words_push(places, byte) < 0 \
            or words_push(places, before) < 0:
        return -1
    return 0


cdef int _walk_places(
    const Table* table, const uint64_t* bytes, uint32_t characters, Words* places
) noexcept nogil:
    """List where one of ``bytes`` comes after so many characters of the loop; -1 when memory is
    out."""
    cdef const Trie* trie = table.trie
    cdef Words frames    # child cursor, child end, inner state of UTF-8, characters begun
    cdef uint32_t cursor = trie.nodes[table.root].children
    cdef uint32_t end = trie.nodes[table.root + 1].children
    cdef uint32_t inner = 0, begun = 0, node, following
    cdef uint8_t byte
    cdef int status = -1
    memset(&frames, 0, sizeof(Words))
    while True:
        if cursor == end:
            if frames.size == 0:
                status = 0
                break
            frames.size -= 4
            cursor = frames.at[frames.size]
            end = frames.at[frames.size + 1]
            inner = frames.at[frames.size + 2]
            begun = frames.at[frames.size + 3]
            continue
        byte = child_byte(trie, cursor)
        node = child_node(trie, cursor)
        cursor += 1
        if inner == 0 and begun == characters:
            if _holds(bytes, byte) and _put_place(places, node, byte, begun) < 0:
                break
            continue
        if inner:
            following = utf8_next(inner, byte)
        elif key_takes(&table.key, byte):
            following = utf8_lead(byte) if byte >= 0x80 and not table.key.bytes else 0
        else:
            following = NONE
        if following == NONE or trie.nodes[node].children == trie.nodes[node + 1].children:
            continue
        if cursor != end and (
            words_push(&frames, cursor) < 0 or words_push(&frames, end) < 0
            or words_push(&frames, inner) < 0 or words_push(&frames, begun) < 0
        ):
            break
        begun += inner == 0
        cursor = trie.nodes[node].children
        end = trie.nodes[node + 1].children
        inner = following
    words_free(&frames)
    return status


cdef int _list_places(
    TablePool* pool, Table* table, const uint64_t* bytes, uint32_t characters, Words* places
) noexcept nogil:
    """List (node, its byte, characters before it) where one of ``bytes`` comes after so many
    characters of the loop, NONE: after those that a token has there before it leaves the loop. -1
    when memory is out. Lock held."""
    cdef uint32_t i, byte
    if table.leaving == NULL and classes_places(pool, table, bytes, characters, NONE, places):
        return 0
    if characters != NONE:
        return _walk_places(table, bytes, characters, places)
    if not _list_leaving(pool, table):
        return -1
    for i in range(0, 2 * table.leaving_count, 2):
        byte = table.leaving[i] & 0xFF
        if _holds(bytes, byte) and _put_place(
            places, table.leaving[i] >> 8, byte, table.leaving[i + 1]
        ) < 0:
            return -1
    return 0


cdef void _leaving_bytes(
    const Table* table, const uint64_t* bytes, uint64_t* leaving
) noexcept nogil:
    """Those of ``bytes`` that do not go round in the loop: no token leaves it with the others."""
    cdef uint32_t byte
    memcpy(leaving, bytes, 4 * sizeof(uint64_t))
    for byte in range(256):
        if key_takes(&table.key, <uint8_t>byte):
            leaving[byte >> 6] &= ~(<uint64_t>1 << (byte & 63))


# --------------------------------------------------------------------------- what is kept

cdef Suffixes* _known(
    const Table* table, const uint64_t* bytes, uint32_t characters
) noexcept nogil:
    cdef Suffixes* suffixes = table.suffixes
    while suffixes != NULL and (
        suffixes.characters != characters
        or memcmp(suffixes.bytes, bytes, sizeof(suffixes.bytes)) != 0
    ):
        suffixes = suffixes.next
    return suffixes


cdef Trie* _suffixes(
    TablePool* pool, Table* table, const uint64_t* bytes, uint32_t characters
) noexcept nogil:
    """What is known, or made and kept; NULL when memory is out. Lock held."""
    cdef Suffixes* suffixes = _known(table, bytes, characters)
    cdef Words places
    if suffixes != NULL:
        return &suffixes.trie
    suffixes = <Suffixes*>calloc(1, sizeof(Suffixes))
    if suffixes == NULL:
        return NULL
    memset(&places, 0, sizeof(Words))
    memcpy(suffixes.bytes, bytes, sizeof(suffixes.bytes))
    suffixes.characters = characters
    if _list_places(pool, table, bytes, characters, &places) < 0 \
            or _merge_suffixes(table.trie, &places, &suffixes.trie) < 0:
        trie_free(&suffixes.trie)
        free(suffixes)
        suffixes = NULL
    else:
        suffixes.next = table.suffixes
        table.suffixes = suffixes
        table.bytes += sizeof(Suffixes) + suffixes.trie.bytes
        pool.bytes += sizeof(Suffixes) + suffixes.trie.bytes
    words_free(&places)
    return NULL if suffixes == NULL else &suffixes.trie


cdef Trie* table_suffixes(
    TablePool* pool, Table* table, const uint64_t* bytes, uint32_t characters
) noexcept nogil:
    """What comes after the loop, of the tokens that have one of ``bytes`` (4 words) after exactly
    ``characters`` of its characters, or, NONE, that leave it with one of them after any number.

    Kept with the table; NULL when memory is out.
    """
    cdef uint64_t asked[4]
    cdef Trie* trie
    if characters == NONE:
        _leaving_bytes(table, bytes, asked)
    else:
        memcpy(asked, bytes, sizeof(asked))
    PyThread_acquire_lock(pool.lock, WAIT_LOCK)
    trie = _suffixes(pool, table, asked, characters)
    PyThread_release_lock(pool.lock)
    return trie


cdef Trie* table_left(TablePool* pool, Table* table, const uint64_t* bytes) noexcept nogil:
    """What comes after the loop, of the tokens that leave it with one of ``bytes`` (4 words), and
    maybe of others: where many bytes matter, or all are known, it is those of all, once."""
    cdef uint64_t every[4]
    cdef uint64_t asked[4]
    cdef Trie* trie
    memset(every, 0xFF, sizeof(every))
    _leaving_bytes(table, every, every)
    _leaving_bytes(table, bytes, asked)
    PyThread_acquire_lock(pool.lock, WAIT_LOCK)
    if table.leaving != NULL or _known(table, every, NONE) != NULL \
            or not classes_are_few(pool, asked):
        memcpy(asked, every, sizeof(asked))
    trie = _suffixes(pool, table, asked, NONE)
    PyThread_release_lock(pool.lock)
    return trie


cdef int _split(const Table* table, const Words* places, Splits* splits) noexcept nogil:
    """Merge the places by their number of characters; -1 when memory is out."""
    cdef Words of_number
    cdef size_t i
    cdef uint32_t k
    cdef int status = 0
    memset(&of_number, 0, sizeof(Words))
    for i in range(2, places.size, 3):
        splits.count = max(splits.count, places.at[i])
    splits.tries = <Trie*>calloc(splits.count + 1, sizeof(Trie))
    if splits.tries == NULL:
        return -1
    for k in range(1, splits.count + 1):
        of_number.size = 0
        for i in range(0, places.size, 3):
            if places.at[i + 2] == k and _put_place(
                &of_number, places.at[i], places.at[i + 1], k
            ) < 0:
                status = -1
        if status < 0 or (
            of_number.size and _merge_suffixes(table.trie, &of_number, &splits.tries[k]) < 0
        ):
            status = -1
            break
    words_free(&of_number)
    return status


cdef void splits_free(Splits* splits) noexcept nogil:
    cdef uint32_t k
    if splits.tries != NULL:
        for k in range(1, splits.count + 1):
            trie_free(&splits.tries[k])
    free(splits.tries)
    free(splits)


cdef Trie* table_splits(
    TablePool* pool, Table* table, const uint64_t* bytes, uint32_t* count
) noexcept nogil:
    """What comes after the loop, of the tokens that leave it with one of ``bytes`` (4 words), by
    the number of characters before, 1 to ``count``, at their own index; tries without tokens where
    there are none.

    Kept with the table; NULL when memory is out.
    """
    cdef Splits* splits
    cdef Words places
    cdef uint64_t asked[4]
    cdef uint32_t k
    memset(&places, 0, sizeof(Words))
    _leaving_bytes(table, bytes, asked)
    PyThread_acquire_lock(pool.lock, WAIT_LOCK)
    splits = table.splits
    while splits != NULL and memcmp(splits.bytes, asked, sizeof(splits.bytes)) != 0:
        splits = splits.next
    if splits == NULL:
        splits = <Splits*>calloc(1, sizeof(Splits))
        if splits != NULL:
            memcpy(splits.bytes, asked, sizeof(splits.bytes))
            if _list_places(pool, table, asked, NONE, &places) < 0 \
                    or _split(table, &places, splits) < 0:
                splits_free(splits)
                splits = NULL
            else:
                splits.next = table.splits
                table.splits = splits
                for k in range(1, splits.count + 1):
                    table.bytes += sizeof(Trie) + splits.tries[k].bytes
                    pool.bytes += sizeof(Trie) + splits.tries[k].bytes
    PyThread_release_lock(pool.lock)
    words_free(&places)
    if splits == NULL:
        return NULL
    count[0] = splits.count
    return splits.tries
