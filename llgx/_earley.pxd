# cython: language_level=3
"""Layout of the parser; see ``_earley.pyx``."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from llgx._lexer cimport DEAD, Lexer, set_t, state_t
from llgx._memory cimport UNKNOWN, Fault, Interner, Map, Words
from llgx._parameters cimport Cond, Expr

ctypedef uint32_t row_t

cdef enum:
    FIRST_ROW = 0        # the row before any lexeme

cdef enum RowFlag:
    ROW_ACCEPTS = 1      # the text up to here is complete
    ROW_NO_SKIP = 2      # a skip terminal may not come next
    ROW_RESTRICTED = 4   # an origin only: what mattered of a row that was scanned
    ROW_TOKENS = 8       # a terminal that is a model token may come next
    ROW_SKIPPED = 16     # what may be skipped once has been
    ROW_STAMPED = 32     # an origin that a rule with a limit waits in: it says when that began

cdef struct Production:
    uint32_t place       # of its first symbol
    uint32_t condition   # index into conds, or NONE

cdef struct Shape:       # a row without the names of its origins
    const uint32_t* items  # (symbol, place[, parameter low, high], number of the origin), sorted
    uint32_t count
    uint32_t flags         # of RowFlag
    state_t start          # lexer state at the row, UNKNOWN until asked for

cdef struct Row:
    const uint32_t* origins  # rows, by their numbers in the shape
    uint32_t origin_count
    uint32_t shape
    uint32_t clock         # of a stamped row: tokens before the one that began here, or NONE
    uint32_t depth         # of a stamped row: scopes around what began here

cdef struct Parser:
    Lexer* lexer
    # the grammar
    uint32_t* symbols    # by place: 2 * rule, 2 * terminal + 1, or NONE at a production's end
    uint32_t* argument   # by place: index into exprs, or NONE
    uint32_t* owner      # by place: the rule
    uint32_t* rules      # by rule, and one more: where its productions begin
    Production* productions
    uint8_t* nullable    # by rule: 1 surely, 2 perhaps (it depends on parameters)
    uint8_t* tail        # by rule: a derivation of it may end in another one of it
    uint32_t rule_count
    uint32_t start_rule  # the added rule that derives the grammar's start
    Expr* exprs
    Cond* conds
    uint32_t* skip_of    # by terminal: the skip terminal of its class, or NONE
    uint8_t* is_token    # by terminal: it is a model token
    uint32_t* limits     # by rule: most tokens of a derivation, or NONE; NULL: no rule has one
    uint32_t clock       # what origins are stamped with; NONE: with nothing, see ``_budget.pyx``
    uint32_t depth       # the same: scopes around the lexeme that is scanned; 0 without a clock
    bint initial_skip
    uint8_t* skip_once   # by terminal: one lexeme at most may be skipped before it
    uint32_t stride      # words of an item: 3, or 5 with parameters
    # rows
    Interner shape_words # shape -> [flags, items...]
    Shape* shapes
    uint32_t shapes_room
    Interner contents    # row -> [shape, origins...]
    Row* rows
    uint32_t rows_room
    uint32_t row_limit
    uint32_t item_limit
    Map scans            # (row, set) -> row
    Map moves            # (shape, set) -> newest of its variants, a place in ``variants``
    Words variants       # see ``_earley.pyx``
    Map restrictions     # (set, shape) -> place in ``restricted``
    Words restricted     # [shape, number of origins, numbers of the origins in the whole shape...]
    # scratch of one closure
    Words items
    uint64_t work        # arrivals at items that were known
    Map numbers          # row -> its number among the origins
    uint64_t* seen       # hash of items: generation << 32 | index
    uint32_t seen_mask
    uint32_t generation
    uint32_t* predicted  # by rule: generation in which it was predicted
    uint64_t* wanted     # by rule: the last restriction that it mattered in, and which one is made
    uint64_t wanted_now
    Words empty          # (rule, parameter) that derived nothing here
    Words sorted
    Words paths          # (row, parent path, step from it, consulted shape or NONE)
    Words spare
    row_t scanned        # the row that is being scanned, and its restriction
    row_t own
    Fault* fault

cdef int parser_init(Parser* ps, Lexer* lexer, Fault* fault) noexcept nogil
cdef void parser_free(Parser* ps) noexcept nogil
cdef int parser_begin(Parser* ps) noexcept nogil
cdef row_t parser_row(Parser* ps, const uint32_t* words, uint32_t length) noexcept nogil
cdef row_t parser_rebuild(
    Parser* ps, const uint32_t* items, uint32_t count, uint32_t flags, uint32_t clock,
    uint32_t depth
) noexcept nogil
cdef row_t parser_finish(
    Parser* ps, const uint32_t* finished, uint32_t count
) noexcept nogil
cdef row_t parser_scan(Parser* ps, row_t row, set_t emitted) noexcept nogil
cdef row_t parser_origin(const Parser* ps, row_t row, const uint32_t* item) noexcept nogil
cdef uint64_t parser_argument(
    const Parser* ps, uint32_t place, uint64_t parameter
) noexcept nogil
cdef bint parser_guard(const Parser* ps, uint32_t production, uint64_t parameter) noexcept nogil
cdef state_t parser_start_state(Parser* ps, row_t row) noexcept nogil


cdef inline state_t row_state(Parser* ps, row_t row) noexcept nogil:
    """The lexer state in which ``row`` waits for its next lexeme."""
    cdef state_t state = ps.shapes[ps.rows[row].shape].start
    if state != UNKNOWN:
        return state
    return parser_start_state(ps, row)


cdef inline bint row_accepts(const Parser* ps, row_t row) noexcept nogil:
    return ps.shapes[ps.rows[row].shape].flags & ROW_ACCEPTS


cdef inline bint row_takes_tokens(const Parser* ps, row_t row) noexcept nogil:
    """Whether a terminal that is a model token may come next."""
    return ps.shapes[ps.rows[row].shape].flags & ROW_TOKENS


cdef inline bint row_dead(Parser* ps, row_t row) noexcept nogil:
    """No lexeme can follow and the text is not complete. Guards of parametric rules alone do
    this."""
    return row_state(ps, row) == DEAD \
        and not ps.shapes[ps.rows[row].shape].flags & (ROW_ACCEPTS | ROW_TOKENS)
