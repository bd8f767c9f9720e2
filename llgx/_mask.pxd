# cython: language_level=3
"""Layout of the mask engine; see ``_mask.pyx``."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from llgx._earley cimport Parser, row_t
from llgx._lexer cimport Lexer, set_t, state_t
from llgx._memory cimport Arena, Fault, Interner, Map, Words
from llgx._trie cimport Table, TablePool, Trie

cdef enum Shortcut:
    DIFFERENCE_MASKS = 1
    LENGTH_CLASSES = 2
    BOUNDARY_MEMO = 4
    MASK_MEMO = 8
    FORCED_RUNS = 16

cdef struct Site:        # where a walk may begin
    Trie* trie
    uint32_t root
    uint32_t low         # tokens count only if they have low to high characters before the suffix
    uint32_t high
    Table* table         # whose suffix trie this is, or NULL for the main trie
    uint32_t depth       # tables below one another
    bint filtered        # low or high says something

cdef enum BoundaryMode:
    BELOW = 0            # every child of ``node``, read after the lexeme
    KILL = 1             # the children of ``node`` on whose byte ``state`` dies
    CHILD = 2            # ``node`` itself, whose byte is ``state``
    OWN = 3              # the tokens of ``node`` itself, if the row after the lexeme is alive
    NESTED = 4           # site ``node`` in ``state``, the lexeme still going on

cdef struct Boundary:
    uint32_t mode
    set_t emitted
    uint32_t node
    uint32_t state

cdef struct Base:        # a loop table that stands for most of a walk
    Table* table
    const uint64_t* bits # tokens that stay in the loop, short enough
    uint32_t* parts      # pairs: a site on what comes after the loop, and the state in which it is read
    uint32_t part_count
    uint32_t removed     # token intervals of the site's trie that the table answers wrongly: where
    uint32_t removed_end # they begin and end in Inside.removed

cdef struct Inside:      # what a lexer state says about a site before any row is asked
    Base* bases
    uint32_t base_count
    uint32_t* removed    # pairs: first token place, and the one after the last
    uint32_t* tokens     # allowed whatever the row is
    uint32_t token_count
    Boundary* boundaries # where a lexeme ends inside a token
    uint32_t boundary_count

cdef struct Mask:
    const uint64_t* base # a bitset of a table or of the engine, or NULL for none
    uint32_t* tokens     # first those to add to the base, then those to take away
    uint32_t added
    uint32_t removed
    uint32_t bytes

cdef struct Builder:     # a mask in the making: a list of tokens until it grows long
    Words list
    uint64_t* bits
    bint dense
    const uint64_t* base # the shared bitset that it started from

cdef struct Engine:
    Fault fault
    Lexer lexer
    Parser parser
    TablePool* pool      # of the vocabulary; kept alive by the owner of the engine
    uint32_t words       # 64-bit words of a bitset
    uint32_t heavy       # nodes of a subtree from which on it is worth a memo, or a table, of its own
    uint32_t shortcuts
    Site* sites          # 0: the main trie
    uint32_t site_count
    uint32_t site_room
    Map site_index
    Interner subtree_keys  # (bytes, node, trie) -> bitset of the tokens below such children
    uint64_t** subtrees
    uint32_t subtree_count
    Map inside_index     # (site, state) -> inside
    Inside* insides
    uint32_t inside_count
    uint32_t inside_room
    Arena inside_arena
    uint64_t** bitsets   # of masks, each content once
    uint32_t bitset_count
    uint32_t bitset_room
    Map bitset_index     # hash -> bitset
    Map bitset_last      # (site, state) -> the last bitset that one of its masks is based on
    Map mask_index       # (site, row << 32 | state) -> mask
    Mask* masks
    uint32_t mask_count
    uint32_t mask_room
    size_t mask_bytes
    size_t mask_limit
    Table** tables       # acquired, to be released
    uint32_t table_count
    uint32_t table_room
    Builder* builders    # one per level of recursion
    uint32_t builder_count
    uint32_t level       # builders in use
    uint32_t depth       # masks being made for other masks
    Words frames         # of all walks, as one stack
    Words tokens         # scratch of inside walks, as are the next two
    Words bounds
    Words removed

cdef int engine_init(Engine* engine, TablePool* pool, uint32_t terminals) noexcept nogil
cdef int engine_begin(Engine* engine) noexcept nogil
cdef void engine_free(Engine* engine) noexcept nogil
cdef bint engine_step(
    Engine* engine, row_t* row, state_t* state, bint* fresh, uint8_t byte
) noexcept nogil
cdef bint engine_accepts(Engine* engine, row_t row, state_t state, bint fresh) noexcept nogil
cdef int engine_fill(
    Engine* engine, row_t row, state_t state, uint64_t* bits
) noexcept nogil
