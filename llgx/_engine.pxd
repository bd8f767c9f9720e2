# cython: language_level=3
"""Layout of the mask engine, shared by ``_builder``, ``_inside`` and ``_mask``, and what all three
use.
"""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from llgx._earley cimport Parser, row_t
from llgx._lexer cimport Lexer, LoopKey, set_t, state_t
from llgx._memory cimport (
    FAULT_MEMORY, NONE, Arena, Fault, Interner, Map, Words, fault_set, words_reserve,
)
from llgx._texts cimport Texts
from llgx._tokens cimport TokenSets
from llgx._trie cimport SharedPlan, Spans, Table, TablePool, Trie, child_byte

cdef enum:
    LIST_LIMIT = 2048    # tokens up to which a mask in the making is a list, and may stay one
    SPARSE_LIMIT = 512   # tokens up to which a bitset is made a list again
    DELTA_LIMIT = 96     # tokens by which a bitset may differ from one that it is kept as; also
                         # those that a mask may list once it was asked for again
    SMALL_LOOP = 256     # tokens up to which those that stay in a loop are added one by one
    FEW_BOUNDARIES = 16  # boundaries up to which those of a part are taken over by the whole
    SITE_DEPTH = 6       # tables below one another
    DEPTH_LIMIT = 48     # masks being made for other masks: bounds the C stack
    FRAME_WORDS = 6

cdef enum:
    NO_SITE = 0xFFFFFFFE

cdef enum Shortcut:
    DIFFERENCE_MASKS = 1
    LENGTH_CLASSES = 2
    BOUNDARY_MEMO = 4
    MASK_MEMO = 8
    FORCED_RUNS = 16
    SHARED_PLANS = 32
    TWIN_MASKS = 64
    ENDLESS_STATES = 128
    HELD_TEXTS = 256
    LONG_TOKENS_APART = 512

cdef struct Site:        # where a walk may begin
    Trie* trie
    uint32_t root
    uint32_t low         # tokens count only if they have low to high characters before the suffix
    uint32_t high
    Table* table         # whose suffix trie this is, or NULL for the main trie
    uint32_t depth       # tables below one another
    bint filtered        # low or high says something
    bint lazy            # not walked: ``trie`` and ``root`` are those of ``table``, and what comes
                         # after its loop is looked for when it is known what it may begin with

cdef enum BoundaryMode:
    BELOW = 0            # every child of ``node``, read after the lexeme
    KILL = 1             # the children of ``node`` that are not ``live``
    CHILD = 2            # ``node`` itself, whose byte is ``detail``
    OWN = 3              # the tokens of ``node`` itself, if the row after the lexeme is alive
    NESTED = 4           # in an inside: ``site`` in state ``detail``, the lexeme still going on;
                         # in a plan: the boundaries of plan ``detail``
    WALK = 5             # all of ``site`` in state ``detail``: too deep for a plan
    LEFT = 6             # tokens that leave the loop of the (lazy) site with a byte that is not
                         # ``live``, read after the lexeme
    OVER = 7             # tokens that have ``high`` characters of that loop and go on with one more
                         # of them, read after the lexeme

cdef enum MaskKind:      # what a mask in the memo is of, by row and
    WHOLE_MASK = 0       # lexer state: all tokens
    PART_MASK = 1        # plan: what the row adds to its fixed part

cdef struct Boundary:    # where a row has to be asked
    uint32_t mode
    uint32_t site
    set_t emitted
    uint32_t node
    uint32_t detail
    const uint64_t* filter  # tokens that do not count here, or NULL
    const uint32_t* less # a few more of them, sorted
    uint32_t less_count
    uint64_t live[4]     # bit b: the lexeme goes on with byte b, of a child of ``node`` or after
                         # the loop of a lazy site

cdef struct Base:        # a loop table that stands for most of a walk
    Table* table
    const uint64_t* bits # tokens that stay in the loop, short enough
    uint32_t whole       # how many they are
    bint endless         # no number of characters ends the loop, and with it the lexeme
    bint ending          # some of them may end the lexeme
    uint32_t left        # the lazy site of tokens that leave the loop where a lexeme ends, or NONE
    uint32_t over        # the same of those that go beyond its last character, or NONE
    set_t emitted        # what ends before both
    uint64_t live[4]     # the bytes on which the lexeme goes on after the loop
    uint32_t* parts      # pairs: a site on what comes after the loop, the state to read it in
    uint32_t part_count
    uint32_t removed     # token intervals of the site's trie that the table answers wrongly: where
    uint32_t removed_end # they begin and end in Inside.removed

cdef struct Inside:      # what a lexer state says about a site before any row is asked
    Base* bases
    uint32_t base_count
    uint32_t* removed    # pairs: first token place, and the one after the last
    uint32_t removed_count  # words of ``removed``
    uint32_t* tokens     # allowed whatever the row is
    uint32_t token_count
    Boundary* boundaries # where a lexeme ends inside a token
    uint32_t boundary_count

cdef struct Mask:        # a base, minus some tokens, plus others
    const uint64_t* base # a bitset of a table or of the engine, or NULL for none
    uint32_t* tokens     # in ``mask_arena``: first those to add, then those taken away before that
    uint32_t added
    uint32_t removed
    uint32_t bytes
    uint32_t uses        # tokens of long lists that were written for it

cdef struct Plan:        # what a mask of (site, state) is in any row, and where rows matter
    state_t state
    Mask fixed
    Boundary* boundaries
    uint32_t boundary_count

cdef struct Builder:     # a mask in the making
    bint dense           # kept as ``bits``; otherwise ``base`` minus ``taken`` plus ``list``
    const uint64_t* base # a shared bitset, or NULL; if dense, the one that it was begun with
    Words list
    Words taken
    uint64_t* bits

cdef enum Role:          # of a terminal, and of sets and states that hold such terminals
    ROLE_DISTINCT = 1
    ROLE_OPEN = 2
    ROLE_CLOSE = 4
    ROLE_UNIQUE = 8      # what it opens is a unique scope
    ROLE_PLAIN = 16      # neither distinct nor skipped
    ROLE_SKIP = 32
    ROLE_WHOLE = 64      # it closes a scope only if that differs from its siblings
    ROLE_KNOWN = 128     # of a set or state: its roles are known
    ROLE_LASTING = 256   # of a state: a distinct lexeme in progress may end in infinitely many ways

cdef enum FrameFlag:
    FRAME_UNIQUE = 1     # the scopes in it are distinct
    FRAME_TRACKED = 2    # it is such a scope: its text counts, from ``begin`` on
    FRAME_INSIDE = 4     # it is tracked, or in one that is
    FRAME_TIGHT = 8      # some beginning of a finished lexeme can be finished in no other way
    FRAME_HELD = 16      # it, or one around it, has a text that a token may hold whole

cdef struct Place:       # of a matcher in a grammar with scopes; see ``_scopes.pyx``
    row_t row
    state_t state
    bint fresh           # at the beginning of a lexeme
    uint32_t frame       # the innermost scope
    uint32_t chain       # where the running text is kept, up to ``chained``
    uint8_t* text        # of the tracked scopes, and after it the lexeme in progress
    size_t size
    size_t room
    size_t chained
    size_t pending       # where the lexeme in progress begins
    uint32_t begin       # the token in which it did, where rules have limits; or NONE
    uint32_t now         # the token that is read, or NONE

cdef struct Scopes:
    uint8_t* roles       # by terminal
    bint unique          # some scope is unique
    bint finite          # what is left of some distinct terminal may be finite
    bint mixed           # a distinct lexeme may begin as one that opens a scope does
    uint8_t* endless     # by terminal: it never is
    uint32_t limit
    Texts texts
    Interner frames      # [parent, texts, flags, begin, frames around it]
    Interner chains      # [chain before, length of all, bytes, four a word...]
    Interner contexts    # [frame, chain, length of the lexeme in progress, bytes...]
    uint16_t* set_roles  # by set
    uint32_t set_room
    uint16_t* state_roles  # by lexer state
    uint32_t state_room
    Words words          # scratch
    const Place* traced  # the ends of its lexemes are noted in ``ended``; NULL: none are
    Words ended
    Place places[6]      # scratch: of the caller, of a check, three of a search, of a walk
    Interner lists       # of the next two
    Map suspects         # (SuspectKind, row << 32 | state) -> tokens to look at
    Map leading          # row -> whether some token may end a distinct lexeme before it and be
                         # where nothing is left for the next one
    Map removals         # (row << 32 | state, context) -> tokens that a thorough filter removed
    const Spans* spans[4]  # tokens that may hold a distinct lexeme, or open a scope, or end a
                         # distinct lexeme, or begin to close a scope; NULL: not asked
    bint quick           # what a token can hold whole is known, and nothing else is refused
    Words found          # scratch of filters
    Words texts_found
    Words opening
    Words removed

cdef struct Config:      # of an exact lexer
    uint32_t* row        # next configuration by byte class, UNKNOWN where not asked for; or NULL
    uint64_t* mask       # NULL where not asked for
    LoopKey key          # which bytes lead back to it
    uint8_t loop         # of ConfigLoop
    bint busy            # its mask is being made

cdef enum ConfigLoop:
    LOOP_UNKNOWN = 0
    LOOP_NONE = 1
    LOOP_SELF = 2        # some ASCII byte leads back to it

cdef struct Exact:       # see ``_exact.pyx``
    Interner configs     # (row, lexer state) pairs, sorted
    Config* info
    uint32_t room
    uint32_t pair_limit
    Arena rows
    Map site_index       # (address of a trie, node << 32 | configuration) -> in ``site_masks``
    uint64_t** site_masks
    uint32_t site_count
    uint32_t site_room
    Words pairs          # scratch
    Words terminals
    Words frames

cdef struct Engine:
    Fault fault
    Lexer lexer
    Parser parser
    Scopes* scopes       # NULL in grammars without distinct lexemes
    Exact* exact         # NULL in the default lexing mode
    TokenSets token_sets # of the terminals that are model tokens
    Map plain_rows       # row -> the same without stamps; of this and the next see ``_budget.pyx``
    Map deadlines        # row -> tokens at which one of its derivations is over plus 1, 0: none
    Words budget_stack   # scratch
    Words budget_words
    TablePool* pool      # of the vocabulary; kept alive by the owner of the engine
    uint32_t words       # 64-bit words of a bitset
    uint32_t heavy       # nodes of a subtree from which on it gets a memo, or a table, of its own
    uint32_t shortcuts
    Site* sites          # 0: the main trie
    uint32_t site_count
    uint32_t site_room
    Map site_index
    Map lazy_index       # (address of a table, low << 32 | high) -> lazy site
    Map lazy_after       # (lazy site << 1 | of OVER, lexer state) -> the site that may follow, or
                         # NO_SITE
    Interner subtree_keys  # (bytes, node, trie) -> bitset of the tokens below such children
    uint64_t** subtrees
    uint32_t subtree_count
    uint32_t subtree_room
    Map inside_index     # (site, state) -> inside
    Inside* insides
    uint32_t inside_count
    uint32_t inside_room
    Arena inside_arena
    uint64_t** bitsets   # of masks, each content once
    uint32_t bitset_count
    uint32_t bitset_room
    uint64_t* combined   # scratch
    Map bitset_index     # hash -> bitset
    Map bitset_plus      # addresses of two bitsets -> bitset of both together
    Map bitset_minus     # addresses of two bitsets -> bitset of the first without the second
    Map bitset_last      # what masks are of -> the last bitset that one of them is based on
    Map plan_index       # (site, state) -> plan
    Plan* plans
    uint32_t plan_count
    uint32_t plan_room
    Arena mask_arena     # boundaries of plans, lists of plans and masks
    SharedPlan** adopted # plans of the vocabulary's pool that are in use, to be released
    uint32_t adopted_count
    uint32_t adopted_room
    uint32_t generation  # of the pool's ids, when the engine began
    Map mask_index       # (MaskKind, row << 32 | lexer state or plan) -> mask
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
    Words asked          # boundaries of all plans in the making, as one stack
    Words words_found    # scratch of ``_difference``: node << 1 | flag, sorted
    Map followed_index   # (regex node, what comes after it; site, trie node) -> in ``followed``
    Words followed       # [whether its words leave the loop, LoopKey, count, words found...]


cdef inline bint place_counts(const Site* site, uint32_t place) noexcept nogil:
    """Whether the token at ``place`` has as many characters before the suffix as the site asks."""
    return site.trie.prefix[place] >= site.low and site.trie.prefix[place] <= site.high


cdef inline bint is_heavy(const Engine* engine, const Trie* trie, uint32_t node) noexcept nogil:
    return trie.nodes[node].end - node >= engine.heavy


cdef inline bint is_leaf(const Trie* trie, uint32_t node) noexcept nogil:
    return trie.nodes[node].children == trie.nodes[node + 1].children


cdef inline void frame_push(
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


cdef inline uint32_t child_place(const Trie* trie, uint32_t node, uint8_t byte) noexcept nogil:
    """The place in the child arrays of the child of ``node`` with this byte, or NONE."""
    cdef uint32_t low = trie.nodes[node].children
    cdef uint32_t high = trie.nodes[node + 1].children
    cdef uint32_t middle
    cdef uint32_t end = high
    while low < high:
        middle = (low + high) >> 1
        if child_byte(trie, middle) < byte:
            low = middle + 1
        else:
            high = middle
    return low if low < end and child_byte(trie, low) == byte else NONE


cdef inline void open_children(
    const Engine* engine, const Trie* trie, uint32_t node, state_t state, uint32_t* cursor,
    uint32_t* end
) noexcept nogil:
    """Where a walk of the children of ``node`` begins and ends: of the one child that can follow,
    where ``state`` shows that there is one only."""
    if engine.shortcuts & FORCED_RUNS and engine.lexer.states[state].forced >= 0:
        cursor[0] = child_place(trie, node, <uint8_t>engine.lexer.states[state].forced)
        end[0] = cursor[0] if cursor[0] == NONE else cursor[0] + 1
        return
    cursor[0] = trie.nodes[node].children
    end[0] = trie.nodes[node + 1].children
