# cython: language_level=3
"""Layout of token tries and loop tables; see ``_trie.pyx``."""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from cpython.pythread cimport PyThread_type_lock

from llgx._lexer cimport LEAD_COUNT, LoopKey
from llgx._memory cimport Interner, Link, Map, Queue, Words, queue_put, queue_take
from llgx._regex cimport LEVELS
from llgx._texts cimport Texts, texts_t

cdef enum:
    MAX_NODES = 1 << 24  # of one trie: a child is packed into 32 bits
    TABLE_BUCKETS = 2048
    BITS_BUCKETS = 1024

cdef struct Node:
    uint32_t end         # the node after its subtree
    uint32_t children    # where its children begin in ``child``
    uint32_t tokens_at   # where its own tokens begin in ``tokens``

cdef struct Trie:
    uint32_t count       # nodes, in depth-first order; node 0 is the root
    Node* nodes          # and one more, where the last one's children and tokens end
    uint32_t* child      # node << 8 | byte, by parent and byte
    uint32_t* tokens     # token ids, in the order of nodes
    uint16_t* prefix     # by token place: characters before the suffix; NULL in the main trie
    uint32_t token_count
    uint16_t prefix_low  # least and greatest of ``prefix``
    uint16_t prefix_high
    size_t bytes         # memory

cdef struct Suffixes:    # what comes after a loop, of certain tokens; see ``_suffixes.pyx``
    uint64_t bytes[4]    # bit b: those that go on with byte b
    uint32_t characters  # after so many characters of the loop; NONE: where they leave it
    Trie trie
    Suffixes* next

cdef struct Splits:      # the same of tokens that leave the loop, by number of characters
    uint64_t bytes[4]    # bit b: those that leave it with byte b
    Trie* tries          # 1 .. count, some of them without tokens
    uint32_t count
    Splits* next

cdef struct Table:
    Link link            # in ``unused`` of the pool, where nothing refers to it
    Trie* trie           # what was walked, and from which node
    uint32_t root
    LoopKey key
    uint32_t* whole      # tokens that stay in the loop to their end, by characters needed; NULL
                         # where they are many and were found without being listed
    uint32_t* whole_at   # by number of characters 0 .. longest + 1: where they begin in ``whole``
    uint32_t longest     # characters of the longest of them
    uint64_t* bits       # the same as a bitset over token ids
    uint64_t** windows   # by number of characters: those that need at most so many, or NULL
    uint32_t* leaving    # pairs: node << 8 | byte that leaves the loop, characters before it;
                         # NULL until asked for
    uint32_t leaving_count
    Suffixes* suffixes   # those that were asked for
    Splits* splits
    Table* parent        # table one of whose suffix tries was walked, or NULL
    uint32_t references  # grammars, plans and tables that use it
    size_t bytes
    Table* next          # of the same bucket

cdef struct SharedBoundary:  # a Boundary (``_engine``) without the ids of one grammar
    uint32_t mode
    uint32_t node
    uint32_t byte
    uint64_t emitted     # bit i: the terminal at place i of the state's canonical order
    uint64_t live[4]
    Trie* trie           # the site
    uint32_t root
    uint32_t low
    uint32_t high
    uint32_t depth
    Table* table
    SharedBits* filter   # or NULL

cdef struct SharedBits:  # a bitset of plans, each content once
    uint64_t hash
    uint32_t references
    uint64_t* bits
    SharedBits* next     # of the same bucket

cdef struct SharedPlan:  # a Plan (``_engine``) that any grammar of the vocabulary may use
    Link link            # in ``unused`` of the pool, where no engine uses it
    SharedBits* base     # or NULL
    uint32_t* tokens     # owned; as in Mask
    uint32_t added
    uint32_t removed
    SharedBoundary* boundaries
    uint32_t boundary_count
    Table** tables       # kept for it
    uint32_t table_count
    uint32_t references  # by engines that use it
    bint orphan          # of an earlier generation: to be freed by its last user
    uint32_t place       # its key
    uint32_t state
    uint32_t index       # in ``plans`` of the pool
    size_t bytes         # without those of bitsets

cdef struct PlanPool:    # see ``_plan_pool.pyx``
    Interner nodes       # canonical contents of regex nodes
    Interner states      # canonical contents of lexer states
    Interner places      # sites, with the switches of an engine that change plans
    uint32_t generation  # of the ids of all three
    Map index            # (place, state) -> its plan; 0: there was one
    uint32_t* met        # by digest: the states met last, before they have ids; NULL: none yet
    SharedPlan** plans
    uint32_t count
    uint32_t room
    Words free_places    # of ``plans``
    Queue unused
    SharedBits** bits    # BITS_BUCKETS lists, by hash; NULL before the first one
    uint32_t words       # of a bitset
    size_t bytes         # of all plans and their bitsets
    size_t limit

cdef struct Spans:       # see ``_spans.pyx``
    uint32_t first[8]
    uint32_t last[8]
    uint8_t kinds[256]   # by byte: in which of the two it is
    bint single
    uint64_t* bits
    uint32_t count       # how many they are; if they are many, some number beyond that
    uint32_t* tokens     # the same in the order of the trie, where the text of each ends, and all
                         # texts one after the other; NULL if they are many
    uint32_t* tails      # what comes after a byte of ``last`` in them: as ``tokens``, sorted, the
                         # tokens left out; NULL where that was not asked for
    uint32_t tail_count
    bint knows           # of the rest
    Texts held           # the lexemes that they may hold
    texts_t held_texts
    uint32_t* repeats[2] # like ``tokens``: those that may hold two equal ones, and those that may
    uint32_t repeat_counts[2]  # hold one behind the end of another
    Spans* next

cdef struct Classes:     # see ``_classes.pyx``
    uint64_t* holding[256]  # 128 + b: the tokens that hold byte b; below, n: those of 2n and 2n + 1
                         # together, NULL until asked for
    uint64_t* beyond[LEAD_COUNT]  # by byte: those that hold a character which begins with it
    uint64_t* beginning[128]  # by byte: those that begin with it; NULL until asked for
    uint64_t* well_formed  # tokens of whole characters, but for the last one
    uint64_t* ascii
    uint16_t* characters # by token: characters, begun ones included
    uint32_t* by_characters  # the well-formed tokens, rising
    uint32_t* by_at      # by number of characters, and one more: where they begin
    uint32_t longest     # characters of the longest of them
    uint64_t** windows   # by number of characters: those that have at most so many, or NULL
    uint32_t* up         # by node of the main trie: parent << 8 | byte
    uint32_t* nodes      # those that come after whole characters, by byte
    uint32_t nodes_at[257]  # by byte: where its nodes begin
    uint32_t* exits      # nodes with which a token stops being characters of a JSON string; or NULL
    uint32_t exit_count

cdef struct Level:       # few tokens, the longest
    uint32_t bytes       # that they are longer than, and all others are not
    Trie trie
    uint64_t* bits       # the same as a bitset

cdef struct TablePool:
    Trie trie            # the main trie
    uint32_t words       # 64-bit words of a bitset over token ids
    uint32_t longest     # bytes of the longest text token
    uint32_t level_count
    Level levels[LEVELS] # rising
    const uint8_t* text  # bytes of all tokens, one after the other
    const uint64_t* text_at  # by token, and one more
    uint32_t* long_tokens    # those longer than ``long_rest`` bytes, falling
    uint32_t long_count
    uint32_t long_rest
    PyThread_type_lock lock  # of everything below
    Spans* spans
    Table** tables       # TABLE_BUCKETS lists, by site and key
    uint32_t table_count
    Queue unused
    Classes* classes     # NULL until asked for
    size_t bytes         # of all tables
    size_t limit
    PlanPool shared

cdef class TokenTrie:
    cdef TablePool pool
    cdef readonly Py_ssize_t vocabulary_size
    cdef dict common                 # pools of regexes; see ``_common.pyx``
    cdef object end_tokens           # see ``_compiled.pyx``
    cdef uint8_t* text               # bytes of all tokens, one after the other
    cdef uint64_t* text_at           # by token, and one more
    cdef uint8_t* is_text            # by token: takes part in text at all

    cdef int _set_levels(self, list order, tokens) except -2
    cdef int _build(self, Trie* trie, list order) except -2
    cdef int _prepare(self) except -2

cdef void trie_free(Trie* trie) noexcept nogil
cdef int trie_assemble(Trie* trie, const Words* shape, const Words* starts) noexcept nogil
cdef int walk_loop(
    const Trie* trie, uint32_t root, const LoopKey* key, Words* whole, Words* leaving
) noexcept nogil
cdef Table* table_acquire(
    TablePool* pool, Table* parent, Trie* trie, uint32_t root, const LoopKey* key
) noexcept nogil
cdef void table_release(TablePool* pool, Table* table) noexcept nogil
cdef const uint64_t* table_window(TablePool* pool, Table* table, uint32_t high) noexcept nogil


cdef inline void table_hold(TablePool* pool, Table* table) noexcept nogil:
    """Count one more user of a table. Lock held."""
    if table.references == 0:
        queue_take(&pool.unused, &table.link)
    table.references += 1


cdef inline void table_drop(TablePool* pool, Table* table) noexcept nogil:
    """Count one user less. Lock held."""
    table.references -= 1
    if table.references == 0:
        queue_put(&pool.unused, &table.link)


cdef inline void string_key(LoopKey* key) noexcept nogil:
    """The loop of the characters of a JSON string, without escapes."""
    key.ascii[0] = 0xFFFFFFFB00000000ULL
    key.ascii[1] = 0xFFFFFFFFEFFFFFFFULL
    key.leads = (<uint64_t>1 << LEAD_COUNT) - 1
    key.bytes = False


cdef inline const uint64_t* tokens_with(const Classes* classes, uint8_t byte) noexcept nogil:
    """The tokens that hold an ASCII byte, as a bitset."""
    return classes.holding[128 + byte]


cdef inline uint8_t child_byte(const Trie* trie, uint32_t place) noexcept nogil:
    return <uint8_t>(trie.child[place] & 0xFF)


cdef inline uint32_t child_node(const Trie* trie, uint32_t place) noexcept nogil:
    return trie.child[place] >> 8


cdef inline uint32_t tokens_end(const Trie* trie, uint32_t node) noexcept nogil:
    """Where the tokens of the node's subtree end; they begin at its own."""
    return trie.nodes[trie.nodes[node].end].tokens_at
