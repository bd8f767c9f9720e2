# cython: language_level=3, boundscheck=False, wraparound=False
# cython: initializedcheck=False, cdivision=True
"""Exact lexing: the language of the context-free grammar over bytes, with no longest match.

Wherever a lexeme may end, the lexer both ends it and goes on with it. So a matcher is in a
*configuration*, a set of (row, lexer state) pairs, where one pair does in the default mode. The
set is interned: configurations are the states of an automaton over bytes that is built lazily and
shared by all matchers of a grammar, as rows and lexer states are. A lazy terminal is like any
other here, and a match that may be white space or something else is both.

Invariant: every pair can go on, or its row accepts; so the empty configuration is a byte refused.
White space stands before a lexeme, never at the end of a text: the row after it is the row before
it, so a flag of the pair says that a text cannot end there.
A pair at the beginning of a lexeme has the start state of its row.

Cost: a known byte is two loads; a new one is a lexer step and some scans per pair. Pairs are few
unless the grammar is ambiguous without end; their number is limited (``Limits.exact_pairs``). Masks
are in ``_exact_mask``.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, qsort
from libc.string cimport memset

from llgx._earley cimport FIRST_ROW, parser_scan, row_accepts, row_state, row_t
from llgx._engine cimport Config, Engine, Exact
from llgx._lexer cimport DEAD, NO_SET, lexer_set, lexer_step, set_t, state_t
from llgx._memory cimport (
    FAULT_EXACT_PAIRS, FAULT_MEMORY, FAULT_ROWS, NONE, UNKNOWN, Words, arena_free, arena_take,
    array_grown, fault_set, interner_drop, interner_free, interner_put, map_free, words_free,
    words_push, words_reserve,
)

cdef enum:
    # Flags beside a pair's lexer state: at the beginning of a lexeme; and what came last was white
    # space, which stands before something and ends no text.
    BEGINNING = 0x80000000
    SKIPPED = 0x40000000
    STATE = 0x3FFFFFFF


cdef Exact* exact_new() noexcept nogil:
    """Nothing yet; NULL when memory is out."""
    cdef Exact* exact = <Exact*>calloc(1, sizeof(Exact))
    if exact != NULL:
        exact.pair_limit = 1000
    return exact


cdef void exact_free(Exact* exact) noexcept nogil:
    cdef uint32_t i
    if exact == NULL:
        return
    for i in range(exact.configs.count):
        free(exact.info[i].mask)
    free(exact.info)
    for i in range(exact.site_count):
        free(exact.site_masks[i])
    free(exact.site_masks)
    map_free(&exact.site_index)
    interner_free(&exact.configs)
    arena_free(&exact.rows)
    words_free(&exact.pairs)
    words_free(&exact.terminals)
    words_free(&exact.frames)
    free(exact)


cdef int _compare_pairs(const void* left, const void* right) noexcept nogil:
    cdef const uint32_t* a = <const uint32_t*>left
    cdef const uint32_t* b = <const uint32_t*>right
    if a[0] != b[0]:
        return 1 if a[0] > b[0] else -1
    return (a[1] > b[1]) - (a[1] < b[1])


cdef uint32_t _config(Engine* engine) noexcept nogil:
    """The configuration of the pairs in the scratch; NONE with a fault set when that fails."""
    cdef Exact* exact = engine.exact
    cdef uint32_t* at = exact.pairs.at
    cdef uint32_t before = exact.configs.count, made
    cdef size_t i, kept = 0
    cdef Config* grown
    if engine.fault.code:
        return NONE
    if exact.pairs.size:
        qsort(at, exact.pairs.size // 2, 2 * sizeof(uint32_t), _compare_pairs)
    for i in range(0, exact.pairs.size, 2):
        if kept and at[kept - 2] == at[i] and at[kept - 1] == at[i + 1]:
            continue
        at[kept] = at[i]
        at[kept + 1] = at[i + 1]
        kept += 2
    if kept > 2 * <size_t>exact.pair_limit:
        fault_set(&engine.fault, FAULT_EXACT_PAIRS)
        return NONE
    made = interner_put(&exact.configs, at, <uint32_t>kept)
    if made == NONE:
        fault_set(&engine.fault, FAULT_MEMORY)
        return NONE
    if exact.configs.count == before:
        return made
    if exact.configs.count > engine.parser.row_limit:
        interner_drop(&exact.configs)
        fault_set(&engine.fault, FAULT_ROWS)
        return NONE
    grown = <Config*>array_grown(exact.info, &exact.room, made, sizeof(Config))
    if grown == NULL:
        interner_drop(&exact.configs)
        fault_set(&engine.fault, FAULT_MEMORY)
        return NONE
    exact.info = grown
    memset(&exact.info[made], 0, sizeof(Config))
    return made


cdef void _add_pair(Engine* engine, row_t row, uint32_t state) noexcept nogil:
    cdef Words* pairs = &engine.exact.pairs
    if words_push(pairs, row) < 0 or words_push(pairs, state) < 0:
        fault_set(&engine.fault, FAULT_MEMORY)


cdef void _add_row(Engine* engine, row_t row, uint32_t skipped) noexcept nogil:
    """Add the beginning of a lexeme at ``row``, if anything may come or end there. ``skipped`` is
    the flag, or 0."""
    cdef state_t state = row_state(&engine.parser, row)
    if state != DEAD or (not skipped and row_accepts(&engine.parser, row)):
        _add_pair(engine, row, state | BEGINNING | skipped)


cdef void _end_lexeme(Engine* engine, row_t row, set_t matched) noexcept nogil:
    """Add what comes after a lexeme that is any of ``matched``, white space apart from the rest."""
    cdef Words* chosen = &engine.exact.terminals
    cdef const uint32_t* words = engine.lexer.sets.entries[matched].words
    cdef uint32_t length = engine.lexer.sets.entries[matched].length
    cdef uint32_t i
    cdef int skip
    cdef set_t part
    if not engine.lexer.set_is_skip[matched]:
        _add_row(engine, parser_scan(&engine.parser, row, matched), 0)
        return
    for skip in range(2):
        chosen.size = 0
        if words_reserve(chosen, length + 1) < 0:
            fault_set(&engine.fault, FAULT_MEMORY)
            return
        for i in range(length):
            if engine.lexer.skip[words[i]] == skip:
                words_push(chosen, words[i])
        if chosen.size == 0:
            continue
        part = lexer_set(&engine.lexer, chosen.at, <uint32_t>chosen.size)
        if engine.fault.code:
            return
        _add_row(engine, parser_scan(&engine.parser, row, part), SKIPPED if skip else 0)


cdef int exact_begin(Engine* engine) noexcept nogil:
    """Make FIRST_CONFIG once the parser has its first row; -1 with a fault set."""
    engine.exact.pairs.size = 0
    _add_row(engine, FIRST_ROW, 0)
    return -1 if _config(engine) != FIRST_CONFIG else 0


cdef uint32_t _fill(Engine* engine, uint32_t config, uint32_t byte_class) noexcept nogil:
    """Compute one transition and keep it."""
    cdef Exact* exact = engine.exact
    cdef const uint32_t* words = exact.configs.entries[config].words
    cdef uint32_t length = exact.configs.entries[config].length
    cdef uint8_t byte = engine.lexer.rx.sample[byte_class]
    cdef uint32_t i, made
    cdef state_t target
    cdef uint32_t* row
    exact.pairs.size = 0
    for i in range(0, length, 2):
        target = lexer_step(&engine.lexer, words[i + 1] & STATE, byte)
        if target == DEAD:
            continue
        if engine.lexer.states[target].accept != NO_SET:
            _end_lexeme(engine, words[i], engine.lexer.states[target].accept)
        if engine.lexer.states[target].eager == NO_SET:
            _add_pair(engine, words[i], target)
        if engine.fault.code:
            return NONE
    made = NONE if exact.pairs.size == 0 else _config(engine)
    if engine.fault.code:
        return NONE
    row = exact.info[config].row
    if row == NULL:
        row = <uint32_t*>arena_take(
            &exact.rows, engine.lexer.rx.class_count * sizeof(uint32_t)
        )
        if row == NULL:
            fault_set(&engine.fault, FAULT_MEMORY)
            return NONE
        for i in range(engine.lexer.rx.class_count):
            row[i] = UNKNOWN
        exact.info[config].row = row
    row[byte_class] = made
    return made


cdef uint32_t exact_step(Engine* engine, uint32_t config, uint8_t byte) noexcept nogil:
    """The configuration after one more byte; NONE where it is refused, or with a fault set."""
    cdef uint32_t byte_class = engine.lexer.rx.classes[byte]
    cdef uint32_t target
    if engine.exact.info[config].row != NULL:
        target = engine.exact.info[config].row[byte_class]
        if target != UNKNOWN:
            return target
    return _fill(engine, config, byte_class)


cdef bint exact_accepts(Engine* engine, uint32_t config) noexcept nogil:
    """Whether the text so far is complete."""
    cdef const uint32_t* words = engine.exact.configs.entries[config].words
    cdef uint32_t i
    for i in range(0, engine.exact.configs.entries[config].length, 2):
        if words[i + 1] & (BEGINNING | SKIPPED) == <uint32_t>BEGINNING \
                and row_accepts(&engine.parser, words[i]):
            return True
    return False


cdef bint exact_ends(Engine* engine, uint32_t config) noexcept nogil:
    """Whether no byte can follow."""
    cdef const uint32_t* words = engine.exact.configs.entries[config].words
    cdef uint32_t i
    for i in range(0, engine.exact.configs.entries[config].length, 2):
        if words[i + 1] & STATE != DEAD:
            return False
    return True


cdef uint32_t exact_terminals(
    Engine* engine, uint32_t config, uint8_t* found
) noexcept nogil:
    """Set ``found`` for each terminal that could begin or go on; how many those are."""
    cdef const uint32_t* pairs = engine.exact.configs.entries[config].words
    cdef const uint32_t* words
    cdef uint32_t i, j, count = 0
    cdef state_t state
    for i in range(0, engine.exact.configs.entries[config].length, 2):
        state = pairs[i + 1] & STATE
        words = engine.lexer.vectors.entries[state].words
        for j in range(0, engine.lexer.vectors.entries[state].length, 2):
            count += not found[words[j]]
            found[words[j]] = 1
    return count
