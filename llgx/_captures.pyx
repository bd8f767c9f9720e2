# cython: language_level=3, boundscheck=False, wraparound=False
# cython: initializedcheck=False, cdivision=True
"""Captures: what rules with a name for it derived, read from one derivation of the text so far.

The rows of the parser are shared by all texts and know no positions. So a matcher that is asked for
captures lists the lexemes that its tokens came down to, and a chart parse of its own finds out
which rule derived what: Earley items with the positions of their origins, and for each item all the
ways to it (Scott, "SPPF-style parsing from Earley recognisers", 2008).

*Which derivation.* Where there are several, the first production of a rule that leads to one, and
then as much of the text as possible for its first symbol, for its second one, and so on; the same
inside each of them. A derivation of a rule that contains itself over the same text is passed over;
which one is taken of rules that derive each other over the same text is not said.
A text that is not complete yet is derived in the same way as far as it goes: what a rule has begun
counts as more than any text that it could have finished with.

Invariant: captures come in the order in which their derivations end, inner ones first, each as
often as it occurs, and are a function of the tokens alone.

Cost: linear in the lexemes for grammars that a table could parse, quadratic for right-recursive
lists, cubic at worst, within ``Limits.chart_items``. Nothing at all before it is asked for.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memset

from cpython.bytes cimport PyBytes_FromStringAndSize

from llgx._compiled cimport CompiledGrammar
from llgx._earley cimport Parser, parser_argument, parser_guard
from llgx._engine cimport Engine
from llgx._lexer cimport set_t
from llgx._memory cimport (
    FAULT_MEMORY, NONE, Map, Words, array_grown, fault_set, map_free, map_get, map_put, words_free,
    words_push, words_reserve,
)
from llgx._regex cimport EMPTY, node_t, regex_derive, regex_nullable

from llgx.captures import Capture
from llgx.errors import LimitError


# --------------------------------------------------------------------------- the text

cdef int text_reserve(Text* text, size_t count) noexcept nogil:
    """Make room for so many more bytes; -1 when memory is out."""
    cdef size_t room = text.room
    cdef uint8_t* grown
    if text.size + count <= room:
        return 0
    while text.size + count > room:
        room = 2 * room if room else 256
    grown = <uint8_t*>realloc(text.bytes, room)
    if grown == NULL:
        text.failed = True
        return -1
    text.bytes = grown
    text.room = room
    return 0


cdef void text_lexeme(
    Text* text, Engine* engine, set_t emitted, size_t begin, size_t end
) noexcept nogil:
    """Add a lexeme, unless it was skipped."""
    cdef uint32_t place, length, i
    cdef Lexeme* grown
    if engine.lexer.set_is_skip[emitted] or text.failed:
        return
    grown = <Lexeme*>array_grown(text.lexemes, &text.lexemes_room, text.count, sizeof(Lexeme))
    if grown == NULL:
        text.failed = True
        return
    text.lexemes = grown
    place = map_get(&text.set_index, 0, emitted)
    if place == NONE:
        # Copied: the sets of the lexer may move once its lock is released.
        place = <uint32_t>text.sets.size
        length = engine.lexer.sets.entries[emitted].length
        if words_reserve(&text.sets, length + 1) < 0 \
                or map_put(&text.set_index, 0, emitted, place) < 0:
            text.failed = True
            return
        text.sets.at[place] = length
        for i in range(length):
            text.sets.at[place + 1 + i] = engine.lexer.sets.entries[emitted].words[i]
        text.sets.size += length + 1
    text.lexemes[text.count].begin = <uint32_t>begin
    text.lexemes[text.count].end = <uint32_t>end
    text.lexemes[text.count].full = <uint32_t>end
    text.lexemes[text.count].terminals = place
    text.count += 1


cdef void text_free(Text* text) noexcept nogil:
    free(text.bytes)
    free(text.lexemes)
    words_free(&text.sets)
    map_free(&text.set_index)
    memset(text, 0, sizeof(Text))


# --------------------------------------------------------------------------- the chart

cdef struct Item:
    uint32_t place       # of the dot
    uint32_t origin      # lexemes before the derivation
    uint32_t row         # lexemes before the dot
    uint32_t ways        # the first of them, NONE for a dot at the beginning
    uint32_t last_way
    uint32_t best        # the way that was chosen, UNCHOSEN before
    uint32_t next        # that waits for the same rule in the same row, or completes the same node
    uint32_t mark        # of the last search that came by, or that it may go on
    uint64_t parameter

cdef struct Way:         # how an item was reached
    uint32_t before      # the item with the dot one symbol earlier
    uint32_t child       # node of the symbol, NONE for a terminal
    uint32_t next

cdef struct Node:        # a rule that has derived a piece of the text
    uint32_t rule
    uint32_t origin
    uint32_t row
    uint32_t items       # the first of those that complete it, in the order found
    uint32_t chosen      # one of them, UNCHOSEN before
    uint32_t mark        # of the last search that came by
    uint64_t parameter

cdef enum:
    UNCHOSEN = 0xFFFFFFFE

cdef struct Chart:
    const Parser* ps
    const Text* text
    Item* items
    Way* ways
    Node* nodes
    uint32_t item_count
    uint32_t way_count
    uint32_t node_count
    uint32_t item_room
    uint32_t way_room
    uint32_t node_room
    uint32_t limit
    uint32_t* rows       # by row, and one more: its first item
    Map known            # (place, origin) -> newest item of the row being made; see ``_find``
    Map finished         # (rule, origin) -> newest node of the row being made
    Map waiting          # (row, rule) -> first item that waits for it
    Words same           # by item: an older one of the row with the same place and origin
    Words same_node
    Words stack
    Words chain
    Words found          # captures, last one first: see ``_note``
    const uint8_t* wanted  # by rule: it has a capture, 1 itself, 2 somewhere below
    uint32_t search      # number of the last search
    uint32_t row
    int fault            # 1: memory, 2: too many items


cdef uint32_t _add(
    Chart* chart, uint32_t place, uint32_t origin, uint64_t parameter, uint32_t before,
    uint32_t child
) noexcept nogil:
    """Add an item to the row being made, or a way to it. NONE with a fault set if that fails."""
    cdef uint32_t known = map_get(&chart.known, place, origin)
    cdef uint32_t found = known
    cdef Item* item
    cdef Way* way
    cdef void* grown
    while found != NONE and chart.items[found].parameter != parameter:
        found = chart.same.at[found]
    if chart.fault:
        return NONE
    if found == NONE:
        grown = array_grown(chart.items, &chart.item_room, chart.item_count, sizeof(Item))
        if grown == NULL:
            chart.fault = 1
            return NONE
        chart.items = <Item*>grown
        if words_push(&chart.same, known) < 0 \
                or map_put(&chart.known, place, origin, chart.item_count) < 0:
            chart.fault = 1
            return NONE
        found = chart.item_count
        item = &chart.items[found]
        chart.item_count += 1
        item.place = place
        item.origin = origin
        item.row = chart.row
        item.parameter = parameter
        item.ways = NONE
        item.last_way = NONE
        item.best = UNCHOSEN
        item.next = NONE
        item.mark = 0
    if before != NONE:
        grown = array_grown(chart.ways, &chart.way_room, chart.way_count, sizeof(Way))
        if grown == NULL:
            chart.fault = 1
            return NONE
        chart.ways = <Way*>grown
        way = &chart.ways[chart.way_count]
        way.before = before
        way.child = child
        way.next = NONE
        item = &chart.items[found]
        if item.ways == NONE:
            item.ways = chart.way_count
        else:
            chart.ways[item.last_way].next = chart.way_count
        item.last_way = chart.way_count
        chart.way_count += 1
    if chart.item_count + chart.way_count > chart.limit:
        chart.fault = 2
        return NONE
    return found


cdef uint32_t _node(
    Chart* chart, uint32_t rule, uint32_t origin, uint64_t parameter
) noexcept nogil:
    """The node of the row being made for what ``rule`` derived from ``origin`` on, or NONE."""
    cdef uint32_t found = map_get(&chart.finished, rule, origin)
    while found != NONE and chart.nodes[found].parameter != parameter:
        found = chart.same_node.at[found]
    return found


cdef void _complete(Chart* chart, uint32_t index) noexcept nogil:
    """An item whose dot is at the end: a node, new or known, and if new, what waited for it."""
    cdef Item* item = &chart.items[index]
    cdef uint32_t rule = chart.ps.owner[item.place]
    cdef uint32_t origin = item.origin
    cdef uint64_t parameter = item.parameter
    cdef uint32_t found = _node(chart, rule, origin, parameter)
    cdef uint32_t parent, known, last
    cdef void* grown
    if found != NONE:
        last = chart.nodes[found].items
        while chart.items[last].next != NONE:
            last = chart.items[last].next
        chart.items[last].next = index
        return
    known = map_get(&chart.finished, rule, origin)
    grown = array_grown(chart.nodes, &chart.node_room, chart.node_count, sizeof(Node))
    if grown == NULL:
        chart.fault = 1
        return
    chart.nodes = <Node*>grown
    if words_push(&chart.same_node, known) < 0 \
            or map_put(&chart.finished, rule, origin, chart.node_count) < 0:
        chart.fault = 1
        return
    found = chart.node_count
    chart.node_count += 1
    chart.nodes[found].rule = rule
    chart.nodes[found].origin = origin
    chart.nodes[found].row = chart.row
    chart.nodes[found].items = index
    chart.nodes[found].chosen = UNCHOSEN
    chart.nodes[found].mark = 0
    chart.nodes[found].parameter = parameter
    parent = map_get(&chart.waiting, origin, rule)
    while parent != NONE and not chart.fault:
        item = &chart.items[parent]
        if parser_argument(chart.ps, item.place, item.parameter) == parameter:
            _add(chart, item.place + 1, item.origin, item.parameter, parent, found)
        parent = chart.items[parent].next


cdef void _close(Chart* chart) noexcept nogil:
    """Complete and predict until the row has nothing new."""
    cdef const Parser* ps = chart.ps
    cdef uint32_t at = chart.rows[chart.row], symbol, rule, i, found
    cdef uint64_t argument
    cdef Item* item
    while at < chart.item_count and not chart.fault:
        item = &chart.items[at]
        symbol = ps.symbols[item.place]
        if symbol == NONE:
            _complete(chart, at)
        elif symbol & 1 == 0:
            rule = symbol >> 1
            argument = parser_argument(ps, item.place, item.parameter)
            item.next = map_get(&chart.waiting, chart.row, rule)
            if map_put(&chart.waiting, chart.row, rule, at) < 0:
                chart.fault = 1
                return
            for i in range(ps.rules[rule], ps.rules[rule + 1]):
                if parser_guard(ps, i, argument):
                    _add(chart, ps.productions[i].place, chart.row, argument, NONE, NONE)
            found = _node(chart, rule, chart.row, argument)
            if found != NONE:
                item = &chart.items[at]
                _add(chart, item.place + 1, item.origin, item.parameter, at, found)
        at += 1


cdef void _parse(Chart* chart) noexcept nogil:
    cdef const Parser* ps = chart.ps
    cdef const uint32_t* terminals
    cdef uint32_t i, j, at
    cdef Item* item
    chart.rows = <uint32_t*>calloc(chart.text.count + 2, sizeof(uint32_t))
    if chart.rows == NULL:
        chart.fault = 1
        return
    _add(chart, ps.productions[ps.rules[ps.start_rule]].place, 0, 0, NONE, NONE)
    _close(chart)
    for i in range(chart.text.count):
        if chart.fault:
            return
        chart.row = i + 1
        chart.rows[i + 1] = chart.item_count
        map_free(&chart.known)
        map_free(&chart.finished)
        terminals = chart.text.sets.at + chart.text.lexemes[i].terminals
        for at in range(chart.rows[i], chart.rows[i + 1]):
            item = &chart.items[at]
            if ps.symbols[item.place] == NONE or ps.symbols[item.place] & 1 == 0:
                continue
            for j in range(terminals[0]):
                if ps.symbols[item.place] == 2 * terminals[1 + j] + 1:
                    _add(chart, item.place + 1, item.origin, item.parameter, at, NONE)
                    break
        _close(chart)
    chart.rows[chart.text.count + 1] = chart.item_count


# --------------------------------------------------------------------------- one derivation

cdef int _compare_ways(const Chart* chart, const Way* a, const Way* b) noexcept nogil:
    """Above 0 where ``a`` gives more to the first symbol that the two differ in."""
    cdef uint32_t left = a.before, right = b.before
    cdef int result = 0
    while left != right:
        if chart.items[left].row != chart.items[right].row:
            result = 1 if chart.items[left].row > chart.items[right].row else -1
        if chart.items[left].ways == NONE or chart.items[right].ways == NONE:
            break
        left = chart.ways[chart.items[left].best].before
        right = chart.ways[chart.items[right].best].before
    return result


cdef uint32_t _best_way(Chart* chart, uint32_t index) noexcept nogil:
    """The way to an item that is part of the derivation; NONE for a dot at the beginning."""
    cdef size_t floor = chart.stack.size
    cdef uint32_t at, way, best, before
    cdef bint ready
    if chart.items[index].best != UNCHOSEN:
        return chart.items[index].best
    if words_push(&chart.stack, index) < 0:
        chart.fault = 1
    while chart.stack.size > floor and not chart.fault:
        at = chart.stack.at[chart.stack.size - 1]
        ready = True
        way = chart.items[at].ways
        while way != NONE:
            before = chart.ways[way].before
            if chart.items[before].best == UNCHOSEN:
                ready = False
                if words_push(&chart.stack, before) < 0:
                    chart.fault = 1
                    return NONE
            way = chart.ways[way].next
        if not ready:
            continue
        best = way = chart.items[at].ways
        while way != NONE:
            if _compare_ways(chart, &chart.ways[way], &chart.ways[best]) > 0:
                best = way
            way = chart.ways[way].next
        chart.items[at].best = best
        chart.stack.size -= 1
    chart.stack.size = floor
    return chart.items[index].best


cdef inline bint _spans(const Chart* chart, uint32_t child, uint32_t node) noexcept nogil:
    """Whether a child covers all of a node's text."""
    return child != NONE and chart.nodes[child].origin == chart.nodes[node].origin \
        and chart.nodes[child].row == chart.nodes[node].row


cdef bint _leads_back(Chart* chart, uint32_t child, uint32_t node) noexcept nogil:
    """Whether some derivation of ``child`` contains ``node`` over the same text."""
    cdef size_t floor = chart.stack.size
    cdef uint32_t at = child, item, way
    cdef bint result = False
    chart.search += 1
    while True:
        if at == node:
            result = True
            break
        if chart.nodes[at].mark != chart.search:
            chart.nodes[at].mark = chart.search
            item = chart.nodes[at].items
            while item != NONE:
                if words_push(&chart.stack, item) < 0:
                    chart.fault = 1
                    return True
                item = chart.items[item].next
        at = NONE
        while at == NONE and chart.stack.size > floor:
            chart.stack.size -= 1
            item = chart.stack.at[chart.stack.size]
            if chart.items[item].mark == chart.search:
                continue
            chart.items[item].mark = chart.search
            way = chart.items[item].ways
            while way != NONE:
                if words_push(&chart.stack, chart.ways[way].before) < 0:
                    chart.fault = 1
                    return True
                if _spans(chart, chart.ways[way].child, node) \
                        and chart.nodes[chart.ways[way].child].mark != chart.search:
                    if at == NONE:
                        at = chart.ways[way].child
                    elif words_push(&chart.stack, item) < 0:  # come back for the others
                        chart.fault = 1
                        return True
                    else:
                        chart.items[item].mark = 0
                way = chart.ways[way].next
        if at == NONE:
            break
    chart.stack.size = floor
    return result


cdef bint _contains_itself(Chart* chart, uint32_t item, uint32_t node) noexcept nogil:
    """Whether the derivation of ``node`` by ``item`` could come back to it.

    Among nodes that can derive each other over one text, only the one found later may hold the
    other. That leaves out the derivations without end, and some others of the same few rules.
    """
    cdef uint32_t way = _best_way(chart, item)
    cdef uint32_t child
    while way != NONE and not chart.fault:
        child = chart.ways[way].child
        if _spans(chart, child, node) and child >= node and _leads_back(chart, child, node):
            return True
        way = _best_way(chart, chart.ways[way].before)
    return False


cdef uint32_t _choose(Chart* chart, uint32_t node) noexcept nogil:
    """The item that completes a node in the derivation."""
    cdef uint32_t item, best
    if chart.nodes[node].chosen != UNCHOSEN:
        return chart.nodes[node].chosen
    best = NONE
    item = chart.nodes[node].items
    while item != NONE and not chart.fault:
        if (best == NONE or chart.items[item].place < chart.items[best].place) \
                and not _contains_itself(chart, item, node):
            best = item
        item = chart.items[item].next
    if best == NONE:
        # The first that was found, by the first ways that were found, was made of older nodes.
        best = item = chart.nodes[node].items
        while chart.items[item].ways != NONE:
            chart.items[item].best = chart.items[item].ways
            item = chart.ways[chart.items[item].ways].before
    chart.nodes[node].chosen = best
    return best


cdef int _push_children(Chart* chart, uint32_t item) noexcept nogil:
    """Put the nodes before the dot of an item on the stack, the last one on top."""
    cdef size_t low = chart.stack.size, high
    cdef uint32_t way = _best_way(chart, item), child
    while way != NONE:
        child = chart.ways[way].child
        if child != NONE and chart.wanted[chart.nodes[child].rule]:
            if words_push(&chart.stack, child) < 0:
                chart.fault = 1
                return -1
        way = _best_way(chart, chart.ways[way].before)
    high = chart.stack.size
    while low + 1 < high:
        high -= 1
        child = chart.stack.at[low]
        chart.stack.at[low] = chart.stack.at[high]
        chart.stack.at[high] = child
        low += 1
    return 0


cdef void _note(Chart* chart, uint32_t node) noexcept nogil:
    """Note a capture: rule, first lexeme, the one after the last, terminal of the last."""
    cdef uint32_t origin = chart.nodes[node].origin, row = chart.nodes[node].row
    cdef uint32_t rule = chart.nodes[node].rule
    cdef uint32_t terminal = NONE, item, way
    if row > origin:
        item = _choose(chart, node)
        while not chart.fault:
            way = _best_way(chart, item)
            if way == NONE:
                break
            if chart.ways[way].child == NONE:
                terminal = chart.ps.symbols[chart.items[item].place - 1] >> 1
                break
            node = chart.ways[way].child
            if chart.nodes[node].origin == chart.nodes[node].row:
                item = chart.ways[way].before
            else:
                item = _choose(chart, node)
    if words_push(&chart.found, rule) < 0 or words_push(&chart.found, origin) < 0 \
            or words_push(&chart.found, row) < 0 or words_push(&chart.found, terminal) < 0:
        chart.fault = 1


cdef void _walk(Chart* chart) noexcept nogil:
    """Note the captures of the nodes on the stack, from the last one to the first.

    A node comes before what it is made of, and that from right to left: the reverse of the order
    in which derivations end.
    """
    cdef uint32_t node
    while chart.stack.size and not chart.fault:
        chart.stack.size -= 1
        node = chart.stack.at[chart.stack.size]
        if chart.wanted[chart.nodes[node].rule] & 1:
            _note(chart, node)
        _push_children(chart, _choose(chart, node))


# --------------------------------------------------------------------------- a text that goes on

cdef void _mark_live(Chart* chart, const Words* pending) noexcept nogil:
    """Mark the items of the last row that may go on, and those that wait for what they derive.

    ``pending`` are the terminals of the lexeme in progress; NULL: any may come.
    """
    cdef const Parser* ps = chart.ps
    cdef uint32_t at, symbol, parent
    cdef size_t i
    cdef Item* item
    cdef bint fits
    chart.search += 1
    for at in range(chart.rows[chart.row], chart.item_count):
        symbol = ps.symbols[chart.items[at].place]
        if symbol == NONE or symbol & 1 == 0:
            continue
        fits = pending == NULL
        if not fits:
            for i in range(pending.size):
                if pending.at[i] == symbol >> 1:
                    fits = True
                    break
        if fits:
            chart.items[at].mark = chart.search
            if words_push(&chart.stack, at) < 0:
                chart.fault = 1
                return
    while chart.stack.size:
        chart.stack.size -= 1
        at = chart.stack.at[chart.stack.size]
        item = &chart.items[at]
        parent = map_get(&chart.waiting, item.origin, ps.owner[item.place])
        while parent != NONE:
            if chart.items[parent].mark != chart.search and parser_argument(
                ps, chart.items[parent].place, chart.items[parent].parameter
            ) == item.parameter:
                chart.items[parent].mark = chart.search
                if words_push(&chart.stack, parent) < 0:
                    chart.fault = 1
                    return
            parent = chart.items[parent].next


cdef uint32_t _dot_of(const Parser* ps, uint32_t place) noexcept nogil:
    """The number of symbols before a place in its production."""
    cdef uint32_t first = place
    while first > 0 and ps.symbols[first - 1] != NONE:
        first -= 1
    return place - first


cdef uint32_t _split(Chart* chart, uint32_t item, uint32_t dot) noexcept nogil:
    """Lexemes before and in symbol ``dot`` of an item; for what the item waits for, no bound."""
    cdef uint32_t at = _dot_of(chart.ps, chart.items[item].place)
    if dot >= at:
        return NONE
    while at > dot + 1:
        item = chart.ways[_best_way(chart, item)].before
        at -= 1
    return chart.items[item].row


cdef bint _comes_first(Chart* chart, uint32_t a, uint32_t b) noexcept nogil:
    """Whether an item is part of the derivation rather than another one of the same rule."""
    cdef uint32_t dot_a = _dot_of(chart.ps, chart.items[a].place)
    cdef uint32_t dot_b = _dot_of(chart.ps, chart.items[b].place)
    cdef uint32_t first_a = chart.items[a].place - dot_a
    cdef uint32_t first_b = chart.items[b].place - dot_b
    cdef uint32_t dot, split_a, split_b
    if first_a != first_b:
        return first_a < first_b
    for dot in range(max(dot_a, dot_b)):
        split_a = _split(chart, a, dot)
        split_b = _split(chart, b, dot)
        if split_a != split_b:
            return split_a > split_b
        if split_a == NONE:
            break
    return False


cdef void _walk_live(Chart* chart) noexcept nogil:
    """Note the captures of a text that goes on, last one first."""
    cdef const Parser* ps = chart.ps
    cdef uint32_t live = chart.search
    cdef uint32_t at = 0, i, best, rule
    cdef uint64_t argument
    cdef Map begun       # (origin, rule) -> first live item, the others by ``heads``
    cdef Words older
    memset(&begun, 0, sizeof(Map))
    memset(&older, 0, sizeof(Words))
    for i in range(chart.item_count):
        best = NONE
        if chart.items[i].mark == live:
            rule = ps.owner[chart.items[i].place]
            best = map_get(&begun, chart.items[i].origin, rule)
            if map_put(&begun, chart.items[i].origin, rule, i) < 0:
                chart.fault = 1
        if words_push(&older, best) < 0:
            chart.fault = 1
        if chart.fault:
            break
    # Depth first, each item once: an item that led nowhere leads nowhere on any later way either.
    if words_push(&chart.chain, at) < 0:
        chart.fault = 1
    while chart.chain.size and not chart.fault:
        at = chart.chain.at[chart.chain.size - 1]
        chart.items[at].mark = 0
        if ps.symbols[chart.items[at].place] & 1:
            break
        rule = ps.symbols[chart.items[at].place] >> 1
        argument = parser_argument(ps, chart.items[at].place, chart.items[at].parameter)
        best = NONE
        i = map_get(&begun, chart.items[at].row, rule)
        while i != NONE:
            if chart.items[i].mark == live and chart.items[i].parameter == argument \
                    and (best == NONE or _comes_first(chart, i, best)):
                best = i
            i = older.at[i]
        if best == NONE:
            chart.chain.size -= 1
        elif words_push(&chart.chain, best) < 0:
            chart.fault = 1
    map_free(&begun)
    words_free(&older)
    while chart.chain.size and not chart.fault:
        chart.chain.size -= 1
        _push_children(chart, chart.chain.at[chart.chain.size])
        _walk(chart)


# --------------------------------------------------------------------------- tails

cdef size_t _tail_begin(
    Engine* engine, node_t body, node_t tail, const uint8_t* data, size_t size
) noexcept nogil:
    """Where the tail of a lexeme begins: what is before it is as long as it can be."""
    # threads: (residual of the tail, the latest place where it may have begun)
    cdef Words threads, moved
    cdef size_t at, result = size
    cdef size_t i, j
    cdef node_t node
    memset(&threads, 0, sizeof(Words))
    memset(&moved, 0, sizeof(Words))
    for at in range(size + 1):
        if regex_nullable(&engine.lexer.rx, body):
            i = 0
            while i < threads.size and threads.at[i] != tail:
                i += 2
            if i == threads.size and (words_push(&threads, tail) < 0 \
                    or words_push(&threads, 0) < 0):
                fault_set(&engine.fault, FAULT_MEMORY)
                break
            threads.at[i + 1] = <uint32_t>at
        if at == size:
            break
        body = regex_derive(&engine.lexer.rx, body, engine.lexer.rx.classes[data[at]])
        moved.size = 0
        for i in range(0, threads.size, 2):
            node = regex_derive(
                &engine.lexer.rx, threads.at[i], engine.lexer.rx.classes[data[at]]
            )
            if node == EMPTY:
                continue
            j = 0
            while j < moved.size and moved.at[j] != node:
                j += 2
            if j == moved.size:
                if words_push(&moved, node) < 0 or words_push(&moved, threads.at[i + 1]) < 0:
                    fault_set(&engine.fault, FAULT_MEMORY)
                    break
            elif moved.at[j + 1] < threads.at[i + 1]:
                moved.at[j + 1] = threads.at[i + 1]
        threads, moved = moved, threads
        if engine.fault.code:
            break
    for i in range(0, threads.size, 2):
        if regex_nullable(&engine.lexer.rx, threads.at[i]) and (
            result == size or threads.at[i + 1] > result
        ):
            result = threads.at[i + 1]
    words_free(&threads)
    words_free(&moved)
    return result


# --------------------------------------------------------------------------- the answer

cdef list captures_of(CompiledGrammar grammar, Text* text, const Words* pending, bint complete):
    """What the rules of ``grammar`` captured of ``text``.

    ``complete`` says that the lexemes are a whole text; otherwise ``pending`` are the terminals of
    the lexeme in progress, NULL where any may come.
    """
    cdef Chart chart
    cdef uint32_t node
    cdef int fault
    memset(&chart, 0, sizeof(Chart))
    chart.ps = &grammar.engine.parser
    chart.text = text
    chart.wanted = grammar.wanted
    chart.limit = min(grammar.limits.chart_items, 0xF0000000)
    if text.failed:
        raise MemoryError
    try:
        with nogil:
            _parse(&chart)
            if chart.fault == 0:
                node = _node(&chart, chart.ps.start_rule, 0, 0) if complete else NONE
                if node != NONE:
                    if words_push(&chart.stack, node) < 0:
                        chart.fault = 1
                    _walk(&chart)
                else:
                    _mark_live(&chart, pending)
                    if chart.fault == 0:
                        _walk_live(&chart)
        fault = chart.fault
        if fault == 1:
            raise MemoryError
        if fault == 2:
            raise LimitError(
                "the chart parse that captures are read from has too many items",
                limit="chart_items",
            )
        return _answer(grammar, text, &chart)
    finally:
        _free(&chart)


cdef list _answer(CompiledGrammar grammar, const Text* text, Chart* chart):
    cdef list result = []
    cdef Engine* engine = &grammar.engine
    cdef const Lexeme* last
    cdef size_t i
    cdef uint32_t rule, origin, row, terminal, begin, end, tail
    # What of each last lexeme is a tail, instead of its terminal.
    grammar.acquire()
    for i in range(0, chart.found.size, 4):
        terminal = chart.found.at[i + 3]
        if terminal == NONE or grammar.tails[2 * terminal + 1] == EMPTY:
            chart.found.at[i + 3] = NONE
            continue
        last = &text.lexemes[chart.found.at[i + 2] - 1]
        chart.found.at[i + 3] = last.begin + <uint32_t>_tail_begin(
            engine, grammar.tails[2 * terminal], grammar.tails[2 * terminal + 1],
            text.bytes + last.begin, last.full - last.begin
        )
    grammar.release()
    i = chart.found.size
    while i > 0:
        i -= 4
        rule = chart.found.at[i]
        origin = chart.found.at[i + 1]
        row = chart.found.at[i + 2]
        tail = chart.found.at[i + 3]
        if row > origin:
            begin = text.lexemes[origin].begin
            end = text.lexemes[row - 1].end
        else:
            begin = end = text.lexemes[origin - 1].full if origin else 0
        name, tail_name = grammar.capture_names[rule]
        if tail_name is not None and tail != NONE:
            result.append(_capture(tail_name, text, tail, text.lexemes[row - 1].full))
        if name is not None:
            result.append(_capture(name, text, begin, end if tail == NONE else tail))
    return result


cdef object _capture(str name, const Text* text, uint32_t begin, uint32_t end):
    return Capture(
        name, PyBytes_FromStringAndSize(<const char*>text.bytes + begin, end - begin), begin, end
    )


cdef void _free(Chart* chart) noexcept nogil:
    free(chart.items)
    free(chart.ways)
    free(chart.nodes)
    free(chart.rows)
    map_free(&chart.known)
    map_free(&chart.finished)
    map_free(&chart.waiting)
    words_free(&chart.same)
    words_free(&chart.same_node)
    words_free(&chart.stack)
    words_free(&chart.chain)
    words_free(&chart.found)
