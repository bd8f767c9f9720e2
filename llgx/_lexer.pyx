# cython: language_level=3, boundscheck=False, wraparound=False
# cython: initializedcheck=False, cdivision=True
"""The lexer: a lazy byte DFA whose states are sets of (terminal, residual regex).

A parser row allows some terminals; :c:func:`lexer_start` is the state of all of them at once, and
each byte derives them together. Terminals that can no longer match drop out (exactly: see
``_regex``). What a state says about the end of a lexeme:

* ``eager``: the lexeme is over on arrival. Either a lazy terminal matches (the set holds the
  matched lazy ones only, and of these those that hide the least of it), or every terminal left has
  matched and none can go on.
* ``accept``: the terminals matched so far, emitted together if the next byte leads to DEAD.
  Otherwise the lexer goes on: maximal munch, without falling back to an earlier match.

Invariant: no terminal of a start state matches the empty string (``regex_nonempty``), so an emitted
lexeme has at least one byte; empty matches are the parser's business. Equal sets are one state, so
the DFA stays finite; transitions are rows over byte classes, filled on demand.

A *loop* is a state that a whole class of characters leads back to (the body of a string, an
identifier, white space), or a counted repeat of such a class. Loops are what mask sharing is built
on; their keys (``LoopKey``) mean the same in every grammar.

Cost: a known transition is two loads; a new one is a derivative per terminal and one interning, for
all bytes together that the state treats alike.
"""

from libc.stdint cimport int16_t, int8_t, uint32_t, uint64_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from llgx._byte_classes cimport regex_alike
from llgx._emptiness cimport regex_is_extendable, regex_is_live
from llgx._memory cimport (
    FAULT_LEXER_STATES, FAULT_MEMORY, NONE, UNKNOWN, Fault, arena_free, arena_take, array_grown,
    fault_set, interner_drop, interner_free, interner_put, map_free, map_get, map_put, words_free,
    words_push,
)
from llgx._residuals cimport residual_is_finite
from llgx._saturation cimport regex_saturate, saturation_helps
from llgx._regex cimport (
    AND_KIND, BYTES_KIND, CONCAT_KIND, EMPTY, EPSILON, HARD, LITERAL_KIND, NOT_KIND, REPEAT_KIND,
    class_is_in, node_t, regex_and, regex_concat, regex_derive, regex_first, regex_free, regex_init,
    regex_nullable, regex_repeat, regex_words,
)


cdef int lexer_init(Lexer* lx, uint32_t terminal_count, Fault* fault) noexcept nogil:
    """A lexer of so many terminals, their regexes still to be set; -1 when memory is out."""
    cdef uint32_t none = 0
    memset(lx, 0, sizeof(Lexer))
    lx.fault = fault
    lx.state_limit = 1000000
    lx.twins = True
    lx.terminal_count = terminal_count
    if regex_init(&lx.rx, fault) < 0:
        return -1
    lx.initial = <node_t*>calloc(terminal_count + 1, sizeof(node_t))
    lx.lazy = <uint8_t*>calloc(terminal_count + 1, 1)
    lx.skip = <uint8_t*>calloc(terminal_count + 1, 1)
    if lx.initial == NULL or lx.lazy == NULL or lx.skip == NULL:
        return -1
    if lexer_set(lx, &none, 0) != NO_SET or _state(lx, 0) != DEAD:
        return -1
    return 0


cdef void lexer_free(Lexer* lx) noexcept nogil:
    regex_free(&lx.rx)
    interner_free(&lx.vectors)
    interner_free(&lx.sets)
    arena_free(&lx.rows)
    words_free(&lx.scratch)
    free(lx.states)
    free(lx.set_is_skip)
    free(lx.initial)
    free(lx.lazy)
    free(lx.skip)
    free(lx.tails)
    free(lx.tail_bytes)
    free(lx.loops)
    map_free(&lx.node_loops)


cdef set_t lexer_set(Lexer* lx, const uint32_t* terminals, uint32_t count) noexcept nogil:
    """The id of a sorted set of terminals."""
    cdef uint32_t before = lx.sets.count, i
    cdef int8_t* grown
    cdef set_t result = interner_put(&lx.sets, terminals, count)
    if result == NONE:
        fault_set(lx.fault, FAULT_MEMORY)
        return NO_SET
    if lx.sets.count == before:
        return result
    grown = <int8_t*>array_grown(lx.set_is_skip, &lx.sets_room, result, 1)
    if grown == NULL:
        fault_set(lx.fault, FAULT_MEMORY)
        interner_drop(&lx.sets)
        return NO_SET
    lx.set_is_skip = grown
    lx.set_is_skip[result] = 0
    for i in range(count):
        lx.set_is_skip[result] |= lx.skip[terminals[i]]
    return result


cdef int16_t _forced_byte(Lexer* lx, node_t node) noexcept nogil:
    """The first byte of every match of ``node`` where its shape shows that there is one only."""
    cdef const uint32_t* words = regex_words(&lx.rx, node)
    cdef uint32_t i, bits, found = NONE
    if words[0] == CONCAT_KIND:
        words = regex_words(&lx.rx, words[1])
    if words[0] == LITERAL_KIND:
        return lx.rx.bytes[words[1]]
    if words[0] == BYTES_KIND:
        for i in range(8):
            bits = words[1 + i]
            if bits & (bits - 1) or (bits and found != NONE):
                return -1
            if bits:
                found = 32 * i
                while bits > 1:
                    bits >>= 1
                    found += 1
        return <int16_t>found
    return -1


cdef state_t _state(Lexer* lx, size_t base) noexcept nogil:
    """Intern the (terminal, node) pairs on the scratch stack from ``base`` on, and take them
    off."""
    cdef uint32_t before = lx.vectors.count
    cdef uint32_t length = <uint32_t>(lx.scratch.size - base)
    cdef uint32_t i
    cdef State* grown
    cdef State* info
    cdef const uint32_t* words
    cdef state_t state
    cdef uint32_t hidden = NONE
    cdef bint lazy_matched = False, open_ended = False
    cdef size_t top
    lx.scratch.size = base
    if lx.fault.code or (length == 0 and before):
        return DEAD
    if lx.scratch.at == NULL and words_push(&lx.scratch, 0) == 0:
        lx.scratch.size = 0
    state = interner_put(&lx.vectors, lx.scratch.at + base, length)
    if state == NONE:
        fault_set(lx.fault, FAULT_MEMORY)
        return DEAD
    if lx.vectors.count == before:
        return state
    grown = <State*>array_grown(lx.states, &lx.states_room, state, sizeof(State))
    if grown == NULL:
        fault_set(lx.fault, FAULT_MEMORY)
        interner_drop(&lx.vectors)
        return DEAD
    lx.states = grown
    if lx.vectors.count > lx.state_limit:
        interner_drop(&lx.vectors)
        fault_set(lx.fault, FAULT_LEXER_STATES)
        return DEAD
    info = &lx.states[state]
    info.row = NULL
    info.eager = NO_SET
    info.accept = NO_SET
    info.loop = UNKNOWN
    info.forced = -1
    info.saturated = UNKNOWN
    info.brief = UNKNOWN
    info.twin = UNKNOWN
    info.excluding = False
    info.apart = NULL
    words = lx.vectors.entries[state].words
    top = lx.scratch.size
    for i in range(0, length, 2):
        if not regex_nullable(&lx.rx, words[i + 1]):
            open_ended = True
        elif lx.lazy[words[i]]:
            lazy_matched = True
        elif regex_is_extendable(&lx.rx, words[i + 1]):
            open_ended = True
    if lazy_matched and lx.tails != NULL:
        for i in range(0, length, 2):
            if lx.lazy[words[i]] and regex_nullable(&lx.rx, words[i + 1]):
                hidden = min(hidden, lx.tails[2 * words[i] + 1])
    for i in range(0, length, 2):
        if lazy_matched and (
            not lx.lazy[words[i]] or (lx.tails != NULL and lx.tails[2 * words[i] + 1] != hidden)
        ):
            continue
        if regex_nullable(&lx.rx, words[i + 1]):
            if words_push(&lx.scratch, words[i]) < 0:
                fault_set(lx.fault, FAULT_MEMORY)
    if lx.scratch.size > top:
        info.accept = lexer_set(lx, lx.scratch.at + top, <uint32_t>(lx.scratch.size - top))
        if lazy_matched or not open_ended:
            info.eager = info.accept
    elif length == 2:
        info.forced = _forced_byte(lx, words[1])
    lx.scratch.size = top
    if lx.fault.code:
        # Half of what the state says may be wrong: it must not be found again.
        interner_drop(&lx.vectors)
        return DEAD
    return state


cdef state_t lexer_start(Lexer* lx, const uint32_t* terminals, uint32_t count) noexcept nogil:
    """The state in which these terminals (sorted) may begin; DEAD if there are none."""
    cdef size_t base = lx.scratch.size
    cdef uint32_t i
    for i in range(count):
        if lx.initial[terminals[i]] == EMPTY:
            continue
        if words_push(&lx.scratch, terminals[i]) < 0 \
                or words_push(&lx.scratch, lx.initial[terminals[i]]) < 0:
            fault_set(lx.fault, FAULT_MEMORY)
            break
    return _state(lx, base)


cdef state_t lexer_keep(Lexer* lx, state_t state, state_t allowed) noexcept nogil:
    """``state`` with those of its terminals that ``allowed`` has too."""
    cdef size_t base = lx.scratch.size
    cdef uint32_t i, j = 0
    cdef uint32_t length = lx.vectors.entries[allowed].length
    for i in range(0, lx.vectors.entries[state].length, 2):
        while j < length and lx.vectors.entries[allowed].words[j] \
                < lx.vectors.entries[state].words[i]:
            j += 2
        if j < length and lx.vectors.entries[allowed].words[j] \
                == lx.vectors.entries[state].words[i]:
            if words_push(&lx.scratch, lx.vectors.entries[state].words[i]) < 0 \
                    or words_push(&lx.scratch, lx.vectors.entries[state].words[i + 1]) < 0:
                fault_set(lx.fault, FAULT_MEMORY)
                break
    return _state(lx, base)


cdef int _add_first(Lexer* lx, node_t node, uint64_t* bits) noexcept nogil:
    """Add the byte classes that a match of ``node`` may begin with; -1 with a fault set."""
    cdef const uint64_t* first = regex_first(&lx.rx, node)
    cdef uint32_t i
    if first == NULL:
        return -1
    for i in range(4):
        bits[i] |= first[i]
    return 0


cdef bint lexer_first(Lexer* lx, state_t state, uint64_t* bytes) noexcept nogil:
    """Set ``bytes`` (4 words) to those by which ``state`` may go on, found without a step; some
    may turn out to be dead. False with a fault set."""
    cdef uint64_t first[4]
    cdef uint32_t i, place
    memset(first, 0, sizeof(first))
    memset(bytes, 0, 4 * sizeof(uint64_t))
    for i in range(1, lx.vectors.entries[state].length, 2):
        if _add_first(lx, lx.vectors.entries[state].words[i], first) < 0:
            return False
    for i in range(256):
        place = lx.rx.classes[i]
        bytes[i >> 6] |= ((first[place >> 6] >> (place & 63)) & 1) << (i & 63)
    return True


cdef node_t _without_complements(
    Lexer* lx, node_t head, node_t tail, uint64_t* bits, bint* finite
) noexcept nogil:
    """``head tail``, of which ``head`` is an intersection, without the complements in that; the
    byte classes by which the two derive differently are added to ``bits``.

    By a byte that no string of X begins with, what is left of ``~X`` is everything. ``finite``
    becomes false if it may be of infinitely many strings.
    """
    cdef const uint32_t* words = regex_words(&lx.rx, head)
    cdef uint32_t i, length = lx.rx.nodes.entries[head].length
    cdef size_t base = lx.rx.stack.size
    cdef node_t plain
    for i in range(1, length):
        if lx.rx.info[words[i]].kind == NOT_KIND:
            _add_first(lx, regex_words(&lx.rx, words[i])[1], bits)
            finite[0] = finite[0] and residual_is_finite(
                &lx.rx, regex_words(&lx.rx, words[i])[1]
            )
        elif words_push(&lx.rx.stack, words[i]) < 0:
            fault_set(lx.fault, FAULT_MEMORY)
            break
    plain = regex_and(&lx.rx, base)
    if regex_nullable(&lx.rx, plain) != regex_nullable(&lx.rx, head):
        _add_first(lx, tail, bits)
    return regex_concat(&lx.rx, plain, tail)


cdef node_t _after_literal(
    Lexer* lx, node_t literal, node_t tail, bint* finite
) noexcept nogil:
    """``literal tail`` without the complements that ``tail`` begins with."""
    cdef node_t head = tail, rest = EPSILON
    cdef uint64_t bits[4]
    if lx.rx.info[tail].kind == CONCAT_KIND:
        head = regex_words(&lx.rx, tail)[1]
        rest = regex_words(&lx.rx, tail)[2]
    if lx.rx.info[head].kind == AND_KIND:
        memset(bits, 0, sizeof(bits))
        tail = _without_complements(lx, head, rest, bits, finite)
    return regex_concat(&lx.rx, literal, tail)


cdef void _find_twin(Lexer* lx, state_t state) noexcept nogil:
    """Set ``State.twin``: literals dropped, complements left out.

    An object's keys are many literals beside one string that is none of them. By most bytes this
    goes on as any string does, and so need not be derived. A literal before such a string, the
    opening quote, stays: by its first byte the state and the twin go on to a state and its twin.
    """
    cdef const uint32_t* words = lx.vectors.entries[state].words
    cdef uint32_t i, kind, length = lx.vectors.entries[state].length
    cdef size_t base = lx.scratch.size
    cdef node_t node, head, tail, plain
    cdef state_t twin
    cdef uint64_t bits[4]
    cdef uint64_t* kept
    cdef bint changed = False, excluding = False, finite = True
    memset(bits, 0, sizeof(bits))
    lx.states[state].twin = NONE
    for i in range(0, length, 2):
        node = words[i + 1]
        head = node
        tail = EPSILON
        if lx.rx.info[node].kind == CONCAT_KIND:
            head = regex_words(&lx.rx, node)[1]
            tail = regex_words(&lx.rx, node)[2]
        kind = lx.rx.info[head].kind
        if kind == LITERAL_KIND or kind == BYTES_KIND:
            changed = True
            _add_first(lx, node, bits)
            plain = _after_literal(lx, head, tail, &finite)
            if plain == node:
                continue
            node = plain
            excluding = True
        if kind == AND_KIND:
            node = _without_complements(lx, head, tail, bits, &finite)
            excluding = excluding or node != words[i + 1]
        if words_push(&lx.scratch, words[i]) < 0 or words_push(&lx.scratch, node) < 0:
            fault_set(lx.fault, FAULT_MEMORY)
            break
    if lx.fault.code or not (changed or excluding):
        lx.scratch.size = base
        return
    twin = _state(lx, base)
    kept = <uint64_t*>arena_take(&lx.rows, sizeof(bits))
    if kept == NULL:
        fault_set(lx.fault, FAULT_MEMORY)
    if lx.fault.code:
        return
    memcpy(kept, bits, sizeof(bits))
    lx.states[state].apart = kept
    lx.states[state].excluding = excluding and finite
    lx.states[state].twin = twin


cdef state_t lexer_twin(Lexer* lx, state_t state) noexcept nogil:
    """``State.twin``, found if it was not asked for before; NONE too where twins are not used."""
    if not lx.twins:
        return NONE
    if lx.states[state].twin == UNKNOWN:
        _find_twin(lx, state)
    return NONE if lx.fault.code else lx.states[state].twin


cdef state_t lexer_fill(Lexer* lx, state_t state, uint32_t byte_class) noexcept nogil:
    """Compute one transition, and keep it for all bytes that the state treats alike."""
    cdef state_t target = DEAD, twin
    cdef state_t* row
    cdef uint64_t first[4]
    cdef uint64_t alike[4]
    cdef uint32_t i
    cdef bint alone = True
    if lx.twins and lx.states[state].twin == UNKNOWN:
        _find_twin(lx, state)
        if lx.fault.code:
            return DEAD
    twin = lx.states[state].twin
    if lx.twins and twin != NONE and not class_is_in(lx.states[state].apart, byte_class):
        if twin != DEAD:
            target = lexer_step(lx, twin, lx.rx.sample[byte_class])
    else:
        target = _derived(lx, state, byte_class)
        alone = twin != NONE  # the byte begins a literal
    if lx.fault.code:
        return DEAD
    row = lx.states[state].row
    if row == NULL:
        row = <state_t*>arena_take(&lx.rows, lx.rx.class_count * sizeof(state_t))
        if row == NULL:
            fault_set(lx.fault, FAULT_MEMORY)
            return DEAD
        memset(first, 0, sizeof(first))
        for i in range(1, lx.vectors.entries[state].length, 2):
            if _add_first(lx, lx.vectors.entries[state].words[i], first) < 0:
                return DEAD
        # By most bytes nothing goes on, which needs no derivative.
        for i in range(lx.rx.class_count):
            row[i] = UNKNOWN if class_is_in(first, i) else DEAD
        lx.states[state].row = row
    row[byte_class] = target
    if alone:
        return target
    memset(alike, 0xFF, sizeof(alike))
    for i in range(1, lx.vectors.entries[state].length, 2):
        regex_alike(&lx.rx, lx.vectors.entries[state].words[i], byte_class, alike)
    for i in range(lx.rx.class_count):
        if class_is_in(alike, i):
            row[i] = target
    return target


cdef state_t _derived(Lexer* lx, state_t state, uint32_t byte_class) noexcept nogil:
    """The state after a byte of this class, by derivatives."""
    cdef const uint32_t* words = lx.vectors.entries[state].words
    cdef uint32_t length = lx.vectors.entries[state].length
    cdef size_t base = lx.scratch.size
    cdef uint32_t i
    cdef node_t node
    cdef const uint64_t* first
    for i in range(0, length, 2):
        first = regex_first(&lx.rx, words[i + 1])
        if first == NULL:
            return DEAD
        if not class_is_in(first, byte_class):
            continue
        node = regex_derive(&lx.rx, words[i + 1], byte_class)
        if node == EMPTY or (lx.rx.info[node].flags & HARD and not regex_is_live(&lx.rx, node)):
            continue
        if words_push(&lx.scratch, words[i]) < 0 or words_push(&lx.scratch, node) < 0:
            fault_set(lx.fault, FAULT_MEMORY)
            break
    return _state(lx, base)


# --------------------------------------------------------------------------- loops

# The automaton of one well-formed UTF-8 character after its lead byte: for each inner state the
# range of bytes that it takes and the state that these lead to; 0 is "character complete".
cdef enum:
    MOST_PARTS = 8       # lead bytes with some of whose characters a loop may deal otherwise

cdef extern from *:
    """
    static const uint8_t _utf8_first[8] = {0x00, 0x80, 0x80, 0x80, 0xA0, 0x80, 0x90, 0x80};
    static const uint8_t _utf8_last[8] = {0x00, 0xBF, 0xBF, 0xBF, 0xBF, 0x9F, 0xBF, 0x8F};
    static const uint8_t _utf8_next[8] = {0, 0, 1, 2, 1, 1, 2, 2};
    """
    const uint8_t _utf8_first[8]
    const uint8_t _utf8_last[8]
    const uint8_t _utf8_next[8]


cdef uint32_t utf8_lead(uint8_t byte) noexcept nogil:
    """The inner state after a lead byte, 0 for a byte that leads no longer character."""
    if byte < 0xC2 or byte > 0xF4:
        return 0
    if byte < 0xE0:
        return 1
    if byte < 0xF0:
        return 4 if byte == 0xE0 else (5 if byte == 0xED else 2)
    return 6 if byte == 0xF0 else (7 if byte == 0xF4 else 3)


cdef uint32_t utf8_next(uint32_t inner, uint8_t byte) noexcept nogil:
    """The inner state after one more byte, 0 when the character is complete, NONE if ill-formed."""
    if byte < _utf8_first[inner] or byte > _utf8_last[inner]:
        return NONE
    return _utf8_next[inner]


cdef uint32_t utf8_after(uint32_t inner) noexcept nogil:
    """The inner state after any byte that may follow."""
    return _utf8_next[inner]


cdef const Characters* lexer_characters(Lexer* lx) noexcept nogil:
    """Which byte classes may follow in a character; found once."""
    cdef Characters* characters = &lx.characters
    cdef uint32_t inner, byte, place
    if characters.known:
        return characters
    for byte in range(256):
        place = lx.rx.classes[byte]
        for inner in range(1, UTF8_STATES):
            if utf8_next(inner, <uint8_t>byte) == NONE:
                characters.beside[inner][place >> 6] |= <uint64_t>1 << (place & 63)
            else:
                characters.within[inner][place >> 6] |= <uint64_t>1 << (place & 63)
    characters.known = True
    return characters


cdef int _steps(Lexer* lx, uint32_t at, bint nodes, uint32_t* targets) noexcept nogil:
    """Where each byte class leads from a state of the DFA or, with ``nodes``, from a regex node.

    0 is dead in both. -1 with a fault set.
    """
    cdef uint32_t i, j, target
    cdef const uint64_t* first
    cdef uint64_t alike[4]
    if not nodes:
        for i in range(lx.rx.class_count):
            targets[i] = lexer_step(lx, at, lx.rx.sample[i])
        return -1 if lx.fault.code else 0
    first = regex_first(&lx.rx, at)
    if first == NULL:
        return -1
    for i in range(lx.rx.class_count):
        targets[i] = UNKNOWN if class_is_in(first, i) else EMPTY
    for i in range(lx.rx.class_count):
        if targets[i] != UNKNOWN:
            continue
        target = regex_derive(&lx.rx, at, i)
        memset(alike, 0xFF, sizeof(alike))
        regex_alike(&lx.rx, at, i, alike)
        for j in range(i, lx.rx.class_count):
            if class_is_in(alike, j):
                targets[j] = target
    return -1 if lx.fault.code else 0


cdef struct Inners:      # states inside a character, by what utf8_next says of them
    uint32_t whole[UTF8_STATES]   # the last one that takes just what may follow, 0: none
    uint32_t other[UTF8_STATES]   # the last one that does not
    uint32_t failed


cdef bint _is_whole(
    Lexer* lx, uint32_t inner, uint32_t at, uint32_t back, bint nodes, Inners* known
) noexcept nogil:
    """Whether a state, or regex node, inside a character takes all that may follow in it, and no
    other byte, and is at ``back`` after it. At most three deep."""
    cdef uint32_t targets[256]
    cdef uint32_t place, following = utf8_after(inner)
    cdef const Characters* characters
    cdef bint whole
    if at == known.whole[inner]:
        return at != 0
    if at == known.other[inner] or at == 0 or at == back:
        return False
    whole = (nodes or lx.states[at].accept == NO_SET) and _steps(lx, at, nodes, targets) == 0
    characters = lexer_characters(lx)
    for place in range(lx.rx.class_count):
        if not whole:
            break
        if class_is_in(characters.beside[inner], place):
            whole = targets[place] == 0
        if not whole or not class_is_in(characters.within[inner], place):
            continue
        if following:
            whole = _is_whole(lx, following, targets[place], back, nodes, known)
        else:
            whole = targets[place] == back
    if whole:
        known.whole[inner] = at
    else:
        known.other[inner] = at
    return whole and lx.fault.code == 0


cdef void _set_tail(
    Lexer* lx, const uint32_t* targets, uint32_t back, bint nodes, LoopKey* key
) noexcept nogil:
    """Say what a loop whose first byte leads to ``targets``, and that returns as ``back``, does
    with bytes from 0x80 on. Classes with parts of many blocks are left after a few of these."""
    cdef uint32_t b
    cdef Inners known
    key.leads = 0
    key.bytes = True
    for b in range(0x80, 0x100):
        if targets[lx.rx.classes[b]] != back:
            key.bytes = False
            break
    if key.bytes:
        return
    memset(&known, 0, sizeof(Inners))
    for b in range(LEAD_COUNT):
        if targets[lx.rx.classes[FIRST_LEAD + b]] == 0:
            continue
        if _is_whole(
            lx, utf8_lead(<uint8_t>(FIRST_LEAD + b)), targets[lx.rx.classes[FIRST_LEAD + b]], back,
            nodes, &known
        ):
            key.leads |= <uint64_t>1 << b
        else:
            known.failed += 1
            if known.failed == MOST_PARTS:
                return


cdef bint _self_loop(Lexer* lx, state_t state, Loop* loop) noexcept nogil:
    cdef uint32_t targets[256]
    cdef uint32_t b
    cdef bint any_byte = False
    memset(loop, 0, sizeof(Loop))
    if lx.states[state].eager != NO_SET or _steps(lx, state, False, targets) < 0:
        return False
    for b in range(128):
        if targets[lx.rx.classes[b]] == state:
            loop.key.ascii[b >> 6] |= <uint64_t>1 << (b & 63)
            any_byte = True
    if not any_byte:
        return False
    _set_tail(lx, targets, state, False, &loop.key)
    loop.after = state
    loop.low = 0
    loop.high = NONE
    return lx.fault.code == 0


cdef const uint32_t* _repeat_of(Lexer* lx, state_t state, node_t* rest) noexcept nogil:
    """The repeat that the only terminal of ``state`` starts with, and what follows; or NULL."""
    cdef const uint32_t* words = lx.vectors.entries[state].words
    rest[0] = EPSILON
    if lx.vectors.entries[state].length != 2:
        return NULL
    words = regex_words(&lx.rx, words[1])
    if words[0] == CONCAT_KIND:
        rest[0] = words[2]
        words = regex_words(&lx.rx, words[1])
    return words if words[0] == REPEAT_KIND else NULL


cdef bint _counted_loop(Lexer* lx, state_t state, Loop* loop) noexcept nogil:
    """Whether ``state`` is one terminal at ``x{low,high} rest`` that has characters of x alone.

    The loop is made of those characters of x that cannot begin ``rest``. After k of them the lexer
    is at ``x{low-k,high-k} rest`` for certain. A byte that begins nothing of x is read as the first
    of ``rest``, wherever it comes; the others are the ``splits`` of the loop.
    """
    cdef uint32_t low, high, b
    cdef node_t body, rest, derived
    cdef const uint32_t* repeat = _repeat_of(lx, state, &rest)
    cdef uint32_t terminal
    cdef uint32_t of_body[256]
    cdef uint32_t of_rest[256]
    cdef bint any_byte = False, taken
    cdef size_t base
    memset(loop, 0, sizeof(Loop))
    if repeat == NULL or lx.states[state].eager != NO_SET:
        return False
    terminal = lx.vectors.entries[state].words[0]
    body = repeat[1]
    low = repeat[2]
    high = repeat[3]
    loop.open_end = regex_nullable(&lx.rx, rest)
    if loop.open_end and lx.lazy[terminal]:
        return False
    if _steps(lx, body, True, of_body) < 0 or _steps(lx, rest, True, of_rest) < 0:
        return False
    _set_tail(lx, of_body, EPSILON, True, &loop.key)
    for b in range(0x80, 0x100):
        if of_rest[lx.rx.classes[b]] != EMPTY:
            loop.key.bytes = False
            if b >= FIRST_LEAD and b < FIRST_LEAD + LEAD_COUNT:
                loop.key.leads &= ~(<uint64_t>1 << (b - FIRST_LEAD))
    for b in range(256):
        derived = of_body[lx.rx.classes[b]]
        if b < 128:
            taken = derived == EPSILON and of_rest[lx.rx.classes[b]] == EMPTY
            if taken:
                loop.key.ascii[b >> 6] |= <uint64_t>1 << (b & 63)
                any_byte = True
        else:
            taken = key_takes(&loop.key, <uint8_t>b)
        if not taken and derived != EMPTY:
            loop.splits[b >> 6] |= <uint64_t>1 << (b & 63)
            loop.split = True
    if not any_byte or lx.fault.code or low >= NONE - 1 or (high != NONE and high >= NONE - 1):
        return False
    base = lx.scratch.size
    if words_push(&lx.scratch, terminal) < 0 or words_push(&lx.scratch, rest) < 0:
        fault_set(lx.fault, FAULT_MEMORY)
        return False
    loop.after = _state(lx, base)
    loop.low = low + 1
    loop.high = NONE if high == NONE else high + 1
    return lx.fault.code == 0


cdef bint lexer_body(Lexer* lx, node_t body, LoopKey* key) noexcept nogil:
    """Which characters are a match of ``body`` each; False with a fault set."""
    cdef uint32_t targets[256]
    cdef uint32_t b
    memset(key, 0, sizeof(LoopKey))
    if _steps(lx, body, True, targets) < 0:
        return False
    _set_tail(lx, targets, EPSILON, True, key)
    for b in range(128):
        if targets[lx.rx.classes[b]] == EPSILON:
            key.ascii[b >> 6] |= <uint64_t>1 << (b & 63)
    return lx.fault.code == 0


cdef state_t lexer_loop_at(Lexer* lx, state_t state, uint32_t count) noexcept nogil:
    """Where a counted loop is ``count`` characters after ``state``; DEAD beyond its end."""
    cdef node_t rest, node
    cdef const uint32_t* repeat = _repeat_of(lx, state, &rest)
    cdef uint32_t terminal = lx.vectors.entries[state].words[0]
    cdef size_t base = lx.scratch.size
    if repeat == NULL or (repeat[3] != NONE and count > repeat[3]):
        return DEAD
    node = regex_repeat(
        &lx.rx, repeat[1], repeat[2] - count if repeat[2] > count else 0,
        NONE if repeat[3] == NONE else repeat[3] - count
    )
    node = regex_concat(&lx.rx, node, rest)
    if words_push(&lx.scratch, terminal) < 0 or words_push(&lx.scratch, node) < 0:
        fault_set(lx.fault, FAULT_MEMORY)
        return DEAD
    return _state(lx, base)


cdef state_t _saturated(Lexer* lx, state_t state, uint32_t most) noexcept nogil:
    """``state`` with counters beyond ``most`` bytes unbounded; UNKNOWN with a fault set."""
    cdef const uint32_t* words = lx.vectors.entries[state].words
    cdef uint32_t length = lx.vectors.entries[state].length
    cdef uint32_t i
    cdef size_t base = lx.scratch.size
    cdef bint counted = False
    cdef state_t result
    for i in range(1, length, 2):
        counted = counted or saturation_helps(&lx.rx, words[i], most)
    if not counted:
        return state
    for i in range(0, length, 2):
        if words_push(&lx.scratch, words[i]) < 0 or \
                words_push(&lx.scratch, regex_saturate(&lx.rx, words[i + 1], most)) < 0:
            fault_set(lx.fault, FAULT_MEMORY)
            break
    result = _state(lx, base)
    return UNKNOWN if lx.fault.code else result


cdef state_t lexer_saturate(Lexer* lx, state_t state) noexcept nogil:
    """The state that stands for ``state`` where no more than one token is read.

    Counters that the longest token cannot count to their end become unbounded, so that the masks
    along a repeat of thousands are one mask.
    """
    cdef state_t result = lx.states[state].saturated
    if result == UNKNOWN:
        result = _saturated(lx, state, lx.rx.saturation)
        if result == UNKNOWN:
            return state
        lx.states[state].saturated = result
    return result


cdef state_t lexer_brief(Lexer* lx, state_t state, uint32_t* level) noexcept nogil:
    """The state that stands for ``state`` where one token is read that is none of the longest:
    none longer than ``level``, an index of ``Regex.levels``. ``state`` itself if there is none.

    Counters that the shortest level cannot reach are unbounded in it; it stands for ``state`` up
    to the highest level that cannot reach them either.
    """
    cdef state_t result = lx.states[state].brief
    cdef uint32_t i
    if result == UNKNOWN:
        result = state
        if lx.rx.level_count:
            result = _saturated(lx, state, lx.rx.levels[0])
        if result == UNKNOWN:
            return state
        lx.states[state].level = 0
        if result != state:
            for i in range(lx.rx.level_count - 1, 0, -1):
                if _saturated(lx, state, lx.rx.levels[i]) == result:
                    lx.states[state].level = i
                    break
        if lx.fault.code:
            return state
        lx.states[state].brief = result
    level[0] = lx.states[state].level
    return result


cdef bint _known_self_loop(Lexer* lx, state_t state, Loop* loop) noexcept nogil:
    """``_self_loop``, found once for all terminals that stand alone at the same regex: the other
    names of an object, say, of which each object has its own."""
    cdef const uint32_t* words = lx.vectors.entries[state].words
    cdef uint32_t known, node
    cdef uint64_t lazy
    cdef bint found
    if lx.vectors.entries[state].length != 2:
        return _self_loop(lx, state, loop)
    lazy = lx.lazy[words[0]]
    node = words[1]
    known = map_get(&lx.node_loops, lazy, node)
    if known == NO_LOOP:
        return False
    if known != NONE:
        loop[0] = lx.loops[known]
        loop.after = state
        return True
    found = _self_loop(lx, state, loop)
    if lx.fault.code == 0 and map_put(
        &lx.node_loops, lazy, node, lx.loop_count if found else NO_LOOP
    ) < 0:
        fault_set(lx.fault, FAULT_MEMORY)
    return found


cdef uint32_t lexer_loop(Lexer* lx, state_t state, bint counted) noexcept nogil:
    """The index of the state's loop, or NONE. Kept; costs up to one row of transitions once."""
    cdef Loop loop
    cdef Loop* grown
    if lx.states[state].loop != UNKNOWN:
        return lx.states[state].loop
    grown = <Loop*>array_grown(lx.loops, &lx.loop_room, lx.loop_count, sizeof(Loop))
    if grown == NULL:
        fault_set(lx.fault, FAULT_MEMORY)
        return NONE
    lx.loops = grown
    if not _known_self_loop(lx, state, &loop) \
            and not (counted and _counted_loop(lx, state, &loop)):
        if lx.fault.code == 0:
            lx.states[state].loop = NONE
        return NONE
    lx.loops[lx.loop_count] = loop
    lx.states[state].loop = lx.loop_count
    lx.loop_count += 1
    return lx.loop_count - 1


cdef state_t lexer_loop_lead(Lexer* lx, state_t state, uint8_t byte) noexcept nogil:
    """Where a loop that reads ``state`` after each character is after this first byte of one."""
    cdef node_t rest, node
    cdef const uint32_t* repeat
    cdef size_t base = lx.scratch.size
    if lx.loops[lx.states[state].loop].after == state:
        return lexer_step(lx, state, byte)
    # A counted loop: state is x{low,high} rest, so it is d(x) x{low,high} rest.
    repeat = _repeat_of(lx, state, &rest)
    node = regex_concat(
        &lx.rx, regex_derive(&lx.rx, repeat[1], lx.rx.classes[byte]),
        lx.vectors.entries[state].words[1]
    )
    if words_push(&lx.scratch, lx.vectors.entries[state].words[0]) < 0 \
            or words_push(&lx.scratch, node) < 0:
        fault_set(lx.fault, FAULT_MEMORY)
        return DEAD
    return _state(lx, base)
