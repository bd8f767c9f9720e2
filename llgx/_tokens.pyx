# cython: language_level=3, boundscheck=False, wraparound=False
# cython: initializedcheck=False, cdivision=True
"""Terminals that are model tokens: which ids a row allows as such, and what one of them moves.

A terminal with a token set never takes part in lexing: its regex is empty, so no lexer state holds
it. It may come where a lexeme may begin; a lexeme in progress that matches ends before it, as at
any byte that it cannot go on with. One token is one lexeme, of all the terminals of the row that
its id belongs to. Ids are kept as sorted intervals, so that "any token" costs as much as one.

Everything is found by id, so a special token stays impossible in text.

Invariant: a scan of several terminals holds what the scans of each of them hold, so an id is
allowed exactly if some terminal that it belongs to leads to a row that is alive.

Cost: linear in the items of the row and the intervals of its terminals.
"""

from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memset

from llgx._earley cimport Parser, parser_scan, row_dead, row_t, row_takes_tokens
from llgx._lexer cimport NO_SET, lexer_set, set_t
from llgx._memory cimport FAULT_MEMORY, NONE, fault_set, words_push


cdef void tokens_free(TokenSets* sets) noexcept nogil:
    free(sets.at)
    free(sets.ids)
    memset(sets, 0, sizeof(TokenSets))


cdef bint _holds(const TokenSets* sets, uint32_t terminal, uint32_t token) noexcept nogil:
    cdef uint32_t low = sets.at[terminal]
    cdef uint32_t high = sets.at[terminal + 1]
    cdef uint32_t middle
    while low < high:
        middle = (low + high) >> 1
        if sets.ids[2 * middle + 1] <= token:
            low = middle + 1
        elif sets.ids[2 * middle] > token:
            high = middle
        else:
            return True
    return False


cdef uint32_t tokens_next(
    const TokenSets* sets, const Parser* ps, row_t row, uint32_t* cursor
) noexcept nogil:
    """The next token terminal of ``row`` after item ``cursor``, each once; NONE after the last."""
    cdef uint32_t shape = ps.rows[row].shape
    cdef const uint32_t* item
    cdef uint32_t symbol
    while cursor[0] < ps.shapes[shape].count:
        item = ps.shapes[shape].items + cursor[0] * ps.stride
        symbol = item[0]
        cursor[0] += 1
        if symbol & 1 and sets.at[symbol >> 1] != sets.at[(symbol >> 1) + 1]:
            while cursor[0] < ps.shapes[shape].count and item[ps.stride] == symbol:
                cursor[0] += 1
                item += ps.stride
            return symbol >> 1
    return NONE


cdef set_t tokens_match(
    const TokenSets* sets, Parser* ps, row_t row, uint32_t token
) noexcept nogil:
    """The terminals that ``token`` is in ``row`` as a set to be scanned; NO_SET if there are
    none."""
    cdef uint32_t cursor = 0, terminal
    cdef set_t result = NO_SET
    ps.sorted.size = 0
    while True:
        terminal = tokens_next(sets, ps, row, &cursor)
        if terminal == NONE:
            break
        if _holds(sets, terminal, token) and words_push(&ps.sorted, terminal) < 0:
            fault_set(ps.fault, FAULT_MEMORY)
            return NO_SET
    if ps.sorted.size:
        result = lexer_set(ps.lexer, ps.sorted.at, <uint32_t>ps.sorted.size)
    return result


cdef bint _is_alive(Parser* ps, row_t row, uint32_t terminal) noexcept nogil:
    """Whether text can go on, or end, after ``terminal``: only guards say otherwise."""
    cdef set_t emitted
    if ps.stride == 3:
        return True
    emitted = lexer_set(ps.lexer, &terminal, 1)
    return emitted != NO_SET and not row_dead(ps, parser_scan(ps, row, emitted))


cdef bint tokens_some(const TokenSets* sets, Parser* ps, row_t row) noexcept nogil:
    """Whether ``row`` allows any token as a terminal."""
    cdef uint32_t cursor = 0, terminal = 0
    if not row_takes_tokens(ps, row):
        return False
    while terminal != NONE:
        terminal = tokens_next(sets, ps, row, &cursor)
        if terminal != NONE and _is_alive(ps, row, terminal):
            return True
    return False


cdef void tokens_allow(
    const TokenSets* sets, Parser* ps, row_t row, uint64_t* bits
) noexcept nogil:
    """Add the ids that ``row`` allows to a bitset over token ids."""
    cdef uint32_t cursor = 0, terminal
    while True:
        terminal = tokens_next(sets, ps, row, &cursor)
        if terminal == NONE:
            return
        if _is_alive(ps, row, terminal):
            tokens_put(sets, terminal, bits)


cdef void tokens_put(const TokenSets* sets, uint32_t terminal, uint64_t* bits) noexcept nogil:
    """Add the ids of one terminal to a bitset over token ids."""
    cdef uint32_t i, token, end
    for i in range(sets.at[terminal], sets.at[terminal + 1]):
        token = sets.ids[2 * i]
        end = sets.ids[2 * i + 1]
        while token < end:
            if token & 63 == 0 and token + 64 <= end:
                bits[token >> 6] = <uint64_t>-1
                token += 64
            else:
                bits[token >> 6] |= <uint64_t>1 << (token & 63)
                token += 1


cdef uint32_t tokens_only(const TokenSets* sets, Parser* ps, row_t row) noexcept nogil:
    """The one id that ``row`` allows as a token; NONE if it allows none or several."""
    cdef uint32_t cursor = 0, terminal, i, found = NONE
    while True:
        terminal = tokens_next(sets, ps, row, &cursor)
        if terminal == NONE:
            return found
        if not _is_alive(ps, row, terminal):
            continue
        for i in range(sets.at[terminal], sets.at[terminal + 1]):
            if sets.ids[2 * i + 1] - sets.ids[2 * i] > 1 \
                    or (found != NONE and found != sets.ids[2 * i]):
                return NONE
            found = sets.ids[2 * i]
