# cython: language_level=3, boundscheck=False, wraparound=False
# cython: initializedcheck=False, cdivision=True
"""Token tries, and tables of what a loop of characters does to a whole vocabulary.

A :c:type:`Trie` holds the text tokens of a vocabulary in flat arrays in depth-first order: a
subtree is an interval of nodes, its tokens an interval of ``tokens``, and the children of a node
are contiguous words of byte and id, so that a walk touches no sibling that it does not enter. A
walk of a cold vocabulary waits for memory above all; hence few, small arrays.

A :c:type:`Table` answers for one loop (``LoopKey``: a class of characters that leads back to where
it started) which tokens stay in it to their end, as a bitset and by length in characters; what the
other tokens hold *after* the loop is merged into one suffix trie (``_suffixes``). A mask in such a
state is then that bitset and a walk of the small suffix trie instead of a walk of the vocabulary. A
table depends on nothing but the vocabulary and the key, so all grammars share it. Suffix tries can
be walked, and have tables, like the main one (an identifier after white space).

The few longest tokens have a trie of their own too: what is counted is for most states out of reach
of all the others (``_plan``).

Ownership: a :class:`TokenTrie` owns its tables. They are counted by their users; those without any
are dropped, least recently used first, when all together pass ``table_limit`` bytes.

Cost: building the trie is a sort and two linear passes (Llama 3: 274,521 nodes, 7 MB); a table is
one walk of the part of the trie that the loop reaches, at most a few milliseconds, once per
vocabulary.
"""

from libc.stdint cimport uint32_t, uint64_t, uint8_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.pythread cimport (
    WAIT_LOCK, PyThread_acquire_lock, PyThread_allocate_lock, PyThread_free_lock,
    PyThread_release_lock,
)

from llgx._classes cimport classes_exits, classes_free, classes_table, classes_window
from llgx._lexer cimport LoopKey, key_equals, key_takes, utf8_lead, utf8_next
from llgx._memory cimport (
    NONE, Words, interner_bytes, map_hash, queue_put, queue_take, words_free, words_push,
)
from llgx._plan_pool cimport plan_pool_free
from llgx._regex cimport LEVELS
from llgx._spans cimport spans_free
from llgx._suffixes cimport splits_free, table_splits, table_suffixes

from llgx.errors import VocabularyError


# --------------------------------------------------------------------------- building

cdef void trie_free(Trie* trie) noexcept nogil:
    free(trie.nodes)
    free(trie.child)
    free(trie.tokens)
    free(trie.prefix)
    memset(trie, 0, sizeof(Trie))


cdef int trie_assemble(Trie* trie, const Words* shape, const Words* starts) noexcept nogil:
    """Lay out a trie whose nodes are given in depth-first order; -1 when memory is out.

    ``shape`` holds (depth, byte) of each node, ``starts`` where its tokens begin. The caller sets
    ``tokens`` and ``prefix``.
    """
    cdef uint32_t count = <uint32_t>(shape.size // 2)
    cdef uint32_t i, depth, deepest = 0, at, parent
    cdef uint32_t* path
    cdef uint32_t* parents
    for i in range(count):
        if shape.at[2 * i] > deepest:
            deepest = shape.at[2 * i]
    trie.count = count
    trie.nodes = <Node*>calloc(count + 2, sizeof(Node))
    trie.child = <uint32_t*>malloc((count + 1) * sizeof(uint32_t))
    path = <uint32_t*>malloc((deepest + 2) * sizeof(uint32_t))
    parents = <uint32_t*>malloc((count + 1) * sizeof(uint32_t))
    if count > MAX_NODES or trie.nodes == NULL or trie.child == NULL or path == NULL \
            or parents == NULL:
        free(path)
        free(parents)
        return -1
    for i in range(count):
        trie.nodes[i].tokens_at = starts.at[i]
    trie.nodes[count].tokens_at = trie.token_count
    at = 0
    for i in range(count):
        depth = shape.at[2 * i]
        while i and at > depth - 1:
            trie.nodes[path[at]].end = i
            at -= 1
        if i:
            parents[i] = path[at]
            trie.nodes[path[at] + 2].children += 1
            at += 1
        path[at] = i
    while True:
        trie.nodes[path[at]].end = count
        if at == 0:
            break
        at -= 1
    # children[p + 2] counts, then children[p + 1] becomes the place of p's next child.
    for i in range(2, count + 2):
        trie.nodes[i].children += trie.nodes[i - 1].children
    for i in range(1, count):
        parent = parents[i]
        at = trie.nodes[parent + 1].children
        trie.nodes[parent + 1].children += 1
        trie.child[at] = i << 8 | shape.at[2 * i + 1]
    free(path)
    free(parents)
    trie.bytes = <size_t>count * 16 + <size_t>trie.token_count * (6 if trie.prefix != NULL else 4)
    return 0


cdef enum:
    LONG_TOKEN = 16      # bytes
    MOST_LONG = 640      # tokens that are set apart as the longest,
    LONG_PART = 64       # and no more than one of so many
    PREPARED_NODES = 4096  # of the main trie, from which on some tables are made ahead


# --------------------------------------------------------------------------- tables

cdef int walk_loop(
    const Trie* trie, uint32_t root, const LoopKey* key, Words* whole, Words* leaving
) noexcept nogil:
    """Walk the loop over ``trie``: (node, characters) of tokens that stay, pairs of what leaves.

    The walk's state is the place inside a UTF-8 character (0: between characters) and the number of
    characters begun. A byte that is ill-formed inside a character ends the token for good.
    """
    cdef Words frames          # child cursor, child end, inner state, characters begun
    cdef uint32_t cursor, end, inner, begun, node, following, i
    cdef uint8_t byte
    cdef int status = -1
    memset(&frames, 0, sizeof(Words))
    cursor = trie.nodes[root].children
    end = trie.nodes[root + 1].children
    inner = 0
    begun = 0
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
        if inner:
            following = utf8_next(inner, byte)
            if following == NONE:
                continue
        elif key_takes(key, byte):
            following = utf8_lead(byte) if byte >= 0x80 and not key.bytes else 0
        else:
            following = NONE
        if following == NONE:
            if begun:
                if words_push(leaving, node << 8 | byte) < 0 or words_push(leaving, begun) < 0:
                    break
            continue
        i = begun if inner else begun + 1
        if trie.nodes[node].tokens_at != trie.nodes[node + 1].tokens_at:
            if words_push(whole, node) < 0 or words_push(whole, i) < 0:
                break
        if trie.nodes[node].children != trie.nodes[node + 1].children:
            if cursor != end:
                if words_push(&frames, cursor) < 0 or words_push(&frames, end) < 0 \
                        or words_push(&frames, inner) < 0 or words_push(&frames, begun) < 0:
                    break
            cursor = trie.nodes[node].children
            end = trie.nodes[node + 1].children
            inner = following
            begun = i
    words_free(&frames)
    return status


cdef void _table_free(Table* table) noexcept nogil:
    cdef uint32_t i
    cdef Suffixes* suffixes = table.suffixes
    cdef Splits* splits = table.splits
    while suffixes != NULL:
        table.suffixes = suffixes.next
        trie_free(&suffixes.trie)
        free(suffixes)
        suffixes = table.suffixes
    free(table.leaving)
    free(table.whole)
    free(table.whole_at)
    free(table.bits)
    if table.windows != NULL:
        for i in range(table.longest + 1):
            free(table.windows[i])
    free(table.windows)
    while splits != NULL:
        table.splits = splits.next
        splits_free(splits)
        splits = table.splits
    free(table)


cdef Table* _table_build(
    TablePool* pool, const Trie* trie, uint32_t root, const LoopKey* key
) noexcept nogil:
    cdef Table* table = <Table*>calloc(1, sizeof(Table))
    cdef Words whole, leaving
    cdef uint32_t i, j, node, total = 0, words = pool.words
    cdef int status = -1
    if table == NULL:
        return NULL
    memset(&whole, 0, sizeof(Words))
    memset(&leaving, 0, sizeof(Words))
    table.key = key[0]
    table.root = root
    table.bits = <uint64_t*>calloc(words + 1, sizeof(uint64_t))
    if table.bits != NULL and trie == &pool.trie:
        status = classes_table(pool, table, key)
        if status <= 0:
            if status < 0:
                _table_free(table)
            return table if status == 0 else NULL
        status = -1
    if table.bits != NULL and walk_loop(trie, root, key, &whole, &leaving) == 0:
        for i in range(0, <uint32_t>whole.size, 2):
            node = whole.at[i]
            total += trie.nodes[node + 1].tokens_at - trie.nodes[node].tokens_at
            if whole.at[i + 1] > table.longest:
                table.longest = whole.at[i + 1]
        table.whole = <uint32_t*>malloc((total + 1) * sizeof(uint32_t))
        table.whole_at = <uint32_t*>calloc(table.longest + 3, sizeof(uint32_t))
        table.windows = <uint64_t**>calloc(table.longest + 1, sizeof(uint64_t*))
        table.leaving_count = <uint32_t>(leaving.size // 2)
        table.leaving = <uint32_t*>malloc((leaving.size + 1) * sizeof(uint32_t))
        if table.whole != NULL and table.whole_at != NULL and table.windows != NULL \
                and table.leaving != NULL:
            if leaving.size:
                memcpy(table.leaving, leaving.at, leaving.size * sizeof(uint32_t))
            for i in range(0, <uint32_t>whole.size, 2):
                node = whole.at[i]
                table.whole_at[whole.at[i + 1] + 2] += (
                    trie.nodes[node + 1].tokens_at - trie.nodes[node].tokens_at
                )
            for i in range(2, table.longest + 3):
                table.whole_at[i] += table.whole_at[i - 1]
            for i in range(0, <uint32_t>whole.size, 2):
                node = whole.at[i]
                for j in range(trie.nodes[node].tokens_at, trie.nodes[node + 1].tokens_at):
                    table.whole[table.whole_at[whole.at[i + 1] + 1]] = trie.tokens[j]
                    table.whole_at[whole.at[i + 1] + 1] += 1
                    table.bits[trie.tokens[j] >> 6] |= <uint64_t>1 << (trie.tokens[j] & 63)
            table.bytes = sizeof(Table) + words * 8 + <size_t>total * 4 \
                + <size_t>table.longest * 12 + leaving.size * 4
            status = 0
    words_free(&whole)
    words_free(&leaving)
    if status < 0:
        _table_free(table)
        return NULL
    return table


cdef inline uint32_t _bucket(const Trie* trie, uint32_t root, const LoopKey* key) noexcept nogil:
    cdef uint32_t low = map_hash(key.ascii[0], key.ascii[1])
    cdef uint32_t high = map_hash(key.leads + key.bytes, <uint64_t><size_t>trie + root)
    return map_hash(high, low) % TABLE_BUCKETS


cdef void _evict(TablePool* pool) noexcept nogil:
    """Free unused tables, least recently used first, until the limit holds. Lock held."""
    cdef Table* table
    cdef Table** link
    while pool.bytes > pool.limit and pool.unused.oldest != NULL:
        table = <Table*>pool.unused.oldest
        queue_take(&pool.unused, &table.link)
        link = &pool.tables[_bucket(table.trie, table.root, &table.key)]
        while link[0] != table:
            link = &link[0].next
        link[0] = table.next
        pool.table_count -= 1
        pool.bytes -= table.bytes
        if table.parent != NULL:
            table_drop(pool, table.parent)
        _table_free(table)


cdef Table* table_acquire(
    TablePool* pool, Table* parent, Trie* trie, uint32_t root, const LoopKey* key
) noexcept nogil:
    """The table of a loop on the main trie (``parent`` NULL) or on a suffix trie of a table.

    Built on first use; NULL when memory is out. To be given back by :c:func:`table_release`.
    """
    cdef uint32_t bucket = _bucket(trie, root, key)
    cdef Table* table
    PyThread_acquire_lock(pool.lock, WAIT_LOCK)
    table = pool.tables[bucket]
    while table != NULL:
        if table.trie == trie and table.root == root and key_equals(&table.key, key):
            break
        table = table.next
    if table == NULL:
        table = _table_build(pool, trie, root, key)
        if table != NULL:
            table.trie = trie
            table.parent = parent
            if parent != NULL:
                table_hold(pool, parent)
            table.next = pool.tables[bucket]
            pool.tables[bucket] = table
            pool.table_count += 1
            pool.bytes += table.bytes
            queue_put(&pool.unused, &table.link)
    if table != NULL:
        table_hold(pool, table)
        _evict(pool)
    PyThread_release_lock(pool.lock)
    return table


cdef void table_release(TablePool* pool, Table* table) noexcept nogil:
    PyThread_acquire_lock(pool.lock, WAIT_LOCK)
    table_drop(pool, table)
    _evict(pool)
    PyThread_release_lock(pool.lock)


cdef const uint64_t* table_window(TablePool* pool, Table* table, uint32_t high) noexcept nogil:
    """The bitset of tokens that stay in the loop and need at most ``high`` characters.

    Kept with the table, 16 KB per 128k tokens and length; NULL when memory is out.
    """
    cdef uint64_t* bits
    cdef uint32_t i, token, short, total
    if high >= table.longest:
        return table.bits
    PyThread_acquire_lock(pool.lock, WAIT_LOCK)
    bits = table.windows[high]
    if bits == NULL:
        bits = <uint64_t*>calloc(pool.words + 1, sizeof(uint64_t))
        if bits != NULL and table.whole == NULL:
            if classes_window(pool, table, high, bits) < 0:
                free(bits)
                bits = NULL
            else:
                table.windows[high] = bits
                table.bytes += pool.words * 8
                pool.bytes += pool.words * 8
        elif bits != NULL:
            short = table.whole_at[high + 1]
            total = table.whole_at[table.longest + 1]
            if short < total // 2:
                for i in range(short):
                    token = table.whole[i]
                    bits[token >> 6] |= <uint64_t>1 << (token & 63)
            else:
                memcpy(bits, table.bits, pool.words * sizeof(uint64_t))
                for i in range(short, total):
                    token = table.whole[i]
                    bits[token >> 6] &= ~(<uint64_t>1 << (token & 63))
            table.windows[high] = bits
            table.bytes += pool.words * 8
            pool.bytes += pool.words * 8
    PyThread_release_lock(pool.lock)
    return bits


# --------------------------------------------------------------------------- the Python class

cdef class TokenTrie:
    """The text tokens of a vocabulary, and the loop tables that its grammars share.

    ``tokens`` gives the bytes of each id; ids in ``excluded`` (special and end-of-generation
    tokens) and empty tokens take no part in text. Duplicates are all kept. Immutable, but for the
    tables, which are guarded by a lock: safe to use from several threads.

    Raises ``TypeError`` for a token that is not ``bytes`` and :class:`VocabularyError` for a token
    longer than 65,535 bytes, since lengths are kept in 16 bits.
    """

    def __cinit__(self, tokens, excluded=()):
        cdef Py_ssize_t size = len(tokens)
        cdef Py_ssize_t i, length
        cdef uint64_t total = 0
        cdef bytes data
        self.vocabulary_size = size
        self.common = {}
        self.pool.words = <uint32_t>((size + 63) // 64)
        self.pool.limit = 256 * 1024 * 1024
        self.pool.shared.limit = 64 * 1024 * 1024
        self.pool.shared.words = self.pool.words
        self.pool.lock = PyThread_allocate_lock()
        self.pool.tables = <Table**>calloc(TABLE_BUCKETS, sizeof(Table*))
        if self.pool.lock == NULL or self.pool.tables == NULL:
            raise MemoryError
        for token in tokens:
            if type(token) is not bytes:
                raise TypeError(f"tokens must be bytes, not {type(token).__name__}")
            length = PyBytes_GET_SIZE(token)
            if length > 0xFFFF:
                raise VocabularyError(f"a token of {length} bytes is too long (at most 65,535)")
            total += length
        self.text = <uint8_t*>malloc(total + 1)
        self.text_at = <uint64_t*>malloc((64 * <size_t>self.pool.words + 1) * sizeof(uint64_t))
        self.is_text = <uint8_t*>calloc(size + 1, 1)
        if self.text == NULL or self.text_at == NULL or self.is_text == NULL:
            raise MemoryError
        total = 0
        for i in range(size):
            data = tokens[i]
            length = PyBytes_GET_SIZE(data)
            self.text_at[i] = total
            self.is_text[i] = length > 0
            memcpy(self.text + total, PyBytes_AS_STRING(data), length)
            total += length
        for i in range(size, 64 * <Py_ssize_t>self.pool.words + 1):
            self.text_at[i] = total
        self.pool.text = self.text
        self.pool.text_at = self.text_at
        for i in excluded:
            if not 0 <= i < size:
                raise VocabularyError(f"token {i} is not in the vocabulary of {size}")
            self.is_text[i] = 0
        cdef list order = [i for i in range(size) if self.is_text[i]]
        order.sort(key=tokens.__getitem__)
        if self._build(&self.pool.trie, order) < 0 or self._set_levels(order, tokens) < 0:
            raise MemoryError
        cdef list longest = [i for i in order if len(tokens[i]) > LONG_TOKEN]
        longest.sort(key=lambda token: -len(tokens[token]))
        self.pool.long_rest = min(self.pool.longest, LONG_TOKEN)
        self.pool.long_tokens = <uint32_t*>malloc((len(longest) + 1) * sizeof(uint32_t))
        if self.pool.long_tokens == NULL:
            raise MemoryError
        for i in longest:
            self.pool.long_tokens[self.pool.long_count] = i
            self.pool.long_count += 1
        if self.pool.trie.count >= PREPARED_NODES and self._prepare() < 0:
            raise MemoryError

    cdef int _prepare(self) except -2:
        """Make the tables that all grammars of JSON need; -1 when memory is out.

        The first mask of a process would wait for them, some milliseconds each.
        """
        cdef LoopKey keys[3]
        cdef uint64_t bytes[2][4]
        cdef uint64_t quote[4]
        cdef uint64_t backslash[4]
        cdef uint32_t count
        cdef const uint32_t* up
        cdef Table* table
        cdef bint failed
        cdef int i
        memset(keys, 0, sizeof(keys))
        memset(bytes, 0, sizeof(bytes))
        memset(quote, 0, sizeof(quote))
        memset(backslash, 0, sizeof(backslash))
        # The inside of a string, left by a quote or a backslash; white space; digits.
        string_key(&keys[0])
        keys[1].ascii[0] = 0x100002600ULL
        keys[2].ascii[0] = 0x3FF000000000000ULL
        quote[0] = <uint64_t>1 << 34
        backslash[1] = <uint64_t>1 << 28
        bytes[0][0] = quote[0]
        bytes[0][1] = backslash[1]
        memset(bytes[1], 0xFF, sizeof(bytes[1]))  # white space may be left by any byte
        for i in range(3):
            table = table_acquire(&self.pool, NULL, &self.pool.trie, 0, &keys[i])
            if table == NULL:
                return -1
            failed = i < 2 and table_suffixes(&self.pool, table, bytes[i], NONE) == NULL
            if i == 0:
                # A quote alone where strings are counted, the characters before a backslash, and
                # what else is in the tokens of strings.
                failed = failed or table_suffixes(&self.pool, table, quote, NONE) == NULL \
                    or table_splits(&self.pool, table, backslash, &count) == NULL \
                    or classes_exits(&self.pool, &count, &up) == NULL
            table_release(&self.pool, table)
            if failed:
                return -1
        return 0

    cdef int _set_levels(self, list order, tokens) except -2:
        """Set the longest tokens apart, half as many each time; -1 when memory is out."""
        cdef Py_ssize_t most = min(MOST_LONG, len(order) // LONG_PART)
        cdef list lengths = sorted([len(tokens[i]) for i in order], reverse=True)
        cdef list apart
        cdef Level* level
        cdef uint32_t token, bytes
        while most and self.pool.level_count < LEVELS:
            bytes = lengths[most]
            most //= 2
            if bytes == self.pool.longest:
                break
            level = &self.pool.levels[self.pool.level_count]
            if self.pool.level_count and level[-1].bytes == bytes:
                continue
            self.pool.level_count += 1
            level.bytes = bytes
            level.bits = <uint64_t*>calloc(self.pool.words + 1, sizeof(uint64_t))
            if level.bits == NULL:
                return -1
            apart = [i for i in order if len(tokens[i]) > bytes]
            for token in apart:
                level.bits[token >> 6] |= <uint64_t>1 << (token & 63)
            if self._build(&level.trie, apart) < 0:
                return -1
        return 0

    cdef int _build(self, Trie* trie, list order) except -2:
        """A trie from token ids sorted by text; -1 when memory is out."""
        cdef Words shape, starts
        cdef const uint8_t* text
        cdef const uint8_t* before = NULL
        cdef uint32_t length, before_length = 0, common, i
        cdef Py_ssize_t place
        cdef uint32_t token
        cdef int status = -1
        memset(&shape, 0, sizeof(Words))
        memset(&starts, 0, sizeof(Words))
        trie.token_count = <uint32_t>len(order)
        trie.tokens = <uint32_t*>malloc((len(order) + 1) * sizeof(uint32_t))
        if trie.tokens == NULL:
            return -1
        if words_push(&shape, 0) == 0 and words_push(&shape, 0) == 0 \
                and words_push(&starts, 0) == 0:
            for place in range(len(order)):
                token = order[place]
                trie.tokens[place] = token
                text = self.text + self.text_at[token]
                length = <uint32_t>(self.text_at[token + 1] - self.text_at[token])
                if length > self.pool.longest:
                    self.pool.longest = length
                common = 0
                while common < length and common < before_length and text[common] == before[common]:
                    common += 1
                # An equal token adds no node: its place falls to the node just made.
                for i in range(common, length):
                    if words_push(&shape, i + 1) < 0 or words_push(&shape, text[i]) < 0 \
                            or words_push(&starts, <uint32_t>place) < 0:
                        words_free(&shape)
                        words_free(&starts)
                        return -1
                before = text
                before_length = length
            if shape.size > 2 * <size_t>MAX_NODES:
                words_free(&shape)
                words_free(&starts)
                raise VocabularyError(f"a vocabulary of more than {MAX_NODES:,} different prefixes")
            status = trie_assemble(trie, &shape, &starts)
        words_free(&shape)
        words_free(&starts)
        return status

    def __dealloc__(self):
        cdef uint32_t i
        cdef Table* table
        cdef Table* following
        cdef Spans* spans = self.pool.spans
        plan_pool_free(&self.pool)
        for i in range(TABLE_BUCKETS if self.pool.tables != NULL else 0):
            table = self.pool.tables[i]
            while table != NULL:
                following = table.next
                _table_free(table)
                table = following
        free(self.pool.tables)
        classes_free(&self.pool)
        while spans != NULL:
            self.pool.spans = spans.next
            spans_free(spans)
            spans = self.pool.spans
        trie_free(&self.pool.trie)
        for i in range(self.pool.level_count):
            trie_free(&self.pool.levels[i].trie)
            free(self.pool.levels[i].bits)
        free(self.pool.long_tokens)
        free(self.text)
        free(self.text_at)
        free(self.is_text)
        if self.pool.lock != NULL:
            PyThread_free_lock(self.pool.lock)

    def __len__(self):
        return self.vocabulary_size

    @property
    def node_count(self):
        """Nodes of the main trie."""
        return self.pool.trie.count

    @property
    def memory(self):
        """Bytes held, tables included."""
        return self.pool.trie.bytes + self.text_at[self.vocabulary_size] + self.pool.bytes \
            + self.pool.shared.bytes + interner_bytes(&self.pool.shared.nodes) \
            + interner_bytes(&self.pool.shared.states) + interner_bytes(&self.pool.shared.places) \
            + 9 * self.vocabulary_size

    @property
    def table_count(self):
        """Loop tables held at the moment."""
        return self.pool.table_count
