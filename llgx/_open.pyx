# cython: language_level=3, boundscheck=False, wraparound=False
# cython: initializedcheck=False, cdivision=True
"""Which rules a row is in the middle of, from the inside outwards.

An item waits in a row for a terminal; its rule began at its origin, where items wait for that rule,
and so on up to the start. A *climb* visits these (row, rule) pairs breadth first, each once.
Nothing is kept: this serves reports and properties, not masks. Of right recursion it sees the
outermost rules only, as the rows do.

Cost: linear in the items of the rows on the way, as many as rules are nested.
"""

from libc.stdint cimport uint32_t
from libc.string cimport memset

from llgx._earley cimport Parser, parser_origin, row_t
from llgx._memory cimport NONE, map_free, map_get, map_put, words_free, words_push


cdef void climb_free(Climb* climb) noexcept nogil:
    words_free(&climb.places)
    map_free(&climb.seen)


cdef void _visit(Climb* climb, row_t row, uint32_t rule, uint32_t place) noexcept nogil:
    if map_get(&climb.seen, row, rule) != NONE:
        return
    if map_put(&climb.seen, row, rule, 0) < 0 or words_push(&climb.places, row) < 0 \
            or words_push(&climb.places, rule) < 0 or words_push(&climb.places, place) < 0:
        climb.failed = True


cdef void climb_begin(
    Climb* climb, const Parser* ps, row_t row, const uint32_t* terminals, uint32_t count,
    uint32_t stride
) noexcept nogil:
    """Visit the rules of the items of ``row`` that wait for one of ``count`` terminals, every
    ``stride`` words."""
    cdef const uint32_t* item = ps.shapes[ps.rows[row].shape].items
    cdef uint32_t i, j
    memset(climb, 0, sizeof(Climb))
    for i in range(ps.shapes[ps.rows[row].shape].count):
        for j in range(count):
            if item[0] == 2 * terminals[j * stride] + 1:
                _visit(climb, parser_origin(ps, row, item), ps.owner[item[1]], NONE)
                break
        item += ps.stride


cdef void climb_from(Climb* climb, const Parser* ps, uint32_t place) noexcept nogil:
    """Visit the rules that wait for the one at ``place`` where that began."""
    cdef row_t row = climb.places.at[place]
    cdef uint32_t rule = climb.places.at[place + 1]
    cdef const uint32_t* item = ps.shapes[ps.rows[row].shape].items
    cdef uint32_t i
    for i in range(ps.shapes[ps.rows[row].shape].count):
        if item[0] == 2 * rule:
            _visit(climb, parser_origin(ps, row, item), ps.owner[item[1]], place)
        item += ps.stride
