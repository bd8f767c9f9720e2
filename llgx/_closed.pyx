# cython: language_level=3, boundscheck=False, wraparound=False
# cython: initializedcheck=False, cdivision=True
"""Lexer states that a class of characters keeps among a few living ones.

A host name, an e-mail address, Base64 in groups of four or words counted by the spaces between them
are no loops: each character leads to another state. But as long as it is of the right class, all of
these states live and none ends the lexeme, so that the tokens made of such characters are allowed,
whichever states they go through. They are a loop table's bitset. What is left is read one by one:
tokens that leave the class with a byte that one of the states takes, and tokens that could get to
where a character of the class is dead after all.

Those places are *pits*: a second dot in a row, the last character that a counter has room for, a
word that may not be there. A token that falls into one has more characters than the shortest way
there, and holds the bytes that all ways there go through; bitsets of tokens by byte and by number
of characters say which these are. A byte whose pits leave too many tokens is taken out of the
class. Where all states are dead after so many characters, as of a word of at most eight letters,
longer tokens are not in the base at all.

Invariant: as in ``_inside``, base, tokens and boundaries stand for each token exactly once. No
state among those of the class ends a lexeme, so that a token which dies there has no boundary;
where one behind the horizon does, the walk is left to find the boundaries.

Cost: the states within a horizon of 16 or 24 characters, up to ``MOST_STATES``, by each byte
class; some ten passes over bitsets; then one path for each token that is read. A walk of the
vocabulary, which it stands for, takes two milliseconds.
"""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from cpython.pythread cimport WAIT_LOCK, PyThread_acquire_lock, PyThread_release_lock

from llgx._classes cimport classes_longer, classes_places, classes_within, ones
from llgx._endless cimport LONGEST_PATH, Path, path_state
from llgx._engine cimport Base, Engine
from llgx._inside cimport inside_remove, inside_visit, inside_walk, table_of
from llgx._lexer cimport (
    DEAD, FIRST_LEAD, LEAD_COUNT, NO_SET, Characters, LoopKey, key_takes,
    lexer_characters, lexer_step, state_t, utf8_after, utf8_lead,
)
from llgx._memory cimport (
    FAULT_MEMORY, NONE, Words, fault_set, lowest_bit, words_free,
)
from llgx._regex cimport class_is_in
from llgx._trie cimport (
    Classes, Table, TablePool, Trie, child_byte, child_node, table_window,
)

cdef enum:
    HORIZON = 16         # characters up to which states are looked at; longer tokens are read,
    FAR_HORIZON = 24     # or, where these are too many, characters up to this
    MOST_STATES = 64     # among which a class leads,
    MOST_NEW = 256       # of all classes, and of bytes inside of characters, not known before,
    NEW_PART = 128       # for a state with a loop one for so many exits, if these are fewer
    MOST_EDGES = 4096    # and the steps between them
    MOST_PITS = 512
    MOST_INNER = 32      # states inside of characters that follow one of them
    MOST_READ = 6000     # tokens that are read for a pit, or for all that is behind the horizon,
    LEAST_READ = 1200    # for a state with a loop one for so many exits, and at least so many
    READ_PART = 8
    MOST_PLACES = 4000   # at which tokens leave the class
    ROUNDS = 6           # times that a class is made smaller
    SMALL_CLASS = 4      # bytes of a byte class that a token is asked for
    MOST_OF = 7          # parts to one by which a class leaves nothing to a wider one
    WORTH = 10           # the part of the trie that has to begin with a class: one of so many

cdef struct Closure:
    LoopKey key
    uint32_t most                    # lexer states that there may be in the end
    uint32_t most_places             # where tokens may leave the class
    uint32_t most_read               # tokens for a pit
    uint32_t horizon                 # one of the two
    uint32_t furthest                # characters after which all states are dead, or NONE
    uint32_t count
    state_t states[MOST_STATES]
    uint8_t depth[MOST_STATES]       # characters of the shortest way to it
    uint16_t entered[MOST_STATES]    # its last byte class, or NOTHING: a character beyond ASCII
    uint64_t need[MOST_STATES][4]    # the byte classes that all ways to it go through
    bint goes_on[MOST_STATES]        # most characters of the class may follow
    uint32_t edge_count
    uint8_t source[MOST_EDGES]
    uint8_t target[MOST_EDGES]
    uint16_t by[MOST_EDGES]          # byte class, or NOTHING
    uint32_t pit_count
    uint8_t pit_at[MOST_PITS]        # a state,
    uint16_t pit_by[MOST_PITS]       # and a byte class that is dead there, NOTHING: some leads,
                                     # MOST: most of the class
    uint8_t sizes[256]               # by byte class: its bytes, or SMALL_CLASS + 1
    uint32_t inner_count             # states inside of characters that follow the one at hand
    state_t inner_state[MOST_INNER]
    uint32_t inner[MOST_INNER]

cdef enum:
    NOTHING = 0xFFFF
    MOST = 0xFFFE


cdef inline bint _has(const LoopKey* key, uint32_t byte) noexcept nogil:
    return (key.ascii[byte >> 6] >> (byte & 63)) & 1


cdef bint _is_worth(
    const Engine* engine, const LoopKey* key, uint32_t parts, uint32_t part
) noexcept nogil:
    """Whether ``parts`` of ``part`` nodes of the trie begin with a byte of the class, ASCII."""
    cdef const Trie* trie = &engine.pool.trie
    cdef uint32_t i, weight = 0
    for i in range(trie.nodes[0].children, trie.nodes[1].children):
        if child_byte(trie, i) < 0x80 and _has(key, child_byte(trie, i)):
            weight += trie.nodes[child_node(trie, i)].end - child_node(trie, i)
    return weight >= parts * (trie.count // part)


cdef void _drop_class(Engine* engine, LoopKey* key, uint32_t byte_class) noexcept nogil:
    cdef uint32_t byte
    for byte in range(128):
        if engine.lexer.rx.classes[byte] == byte_class:
            key.ascii[byte >> 6] &= ~(<uint64_t>1 << (byte & 63))


cdef void _drop_entered(Engine* engine, Closure* closure, uint32_t place) noexcept nogil:
    """Take out of the class what led to one of the states."""
    if closure.entered[place] == NOTHING:
        closure.key.leads = 0
    else:
        _drop_class(engine, &closure.key, closure.entered[place])


cdef bint _is_taken(
    const Engine* engine, const LoopKey* key, uint32_t byte_class
) noexcept nogil:
    cdef uint32_t byte
    for byte in range(128):
        if engine.lexer.rx.classes[byte] == byte_class and _has(key, byte):
            return True
    return False


cdef bint _add_pit(Closure* closure, uint32_t place, uint32_t by) noexcept nogil:
    """Note what is dead in a state, once; False where there are too many pits."""
    cdef uint32_t last = closure.pit_count - 1
    if closure.pit_count and closure.pit_at[last] == place and closure.pit_by[last] == by:
        return True
    if closure.pit_count == MOST_PITS:
        return False
    closure.pit_at[closure.pit_count] = <uint8_t>place
    closure.pit_by[closure.pit_count] = <uint16_t>by
    closure.pit_count += 1
    return True


cdef bint _arrive(
    Closure* closure, uint32_t source, state_t state, uint32_t byte_class
) noexcept nogil:
    """Note a step to a state; False where there are too many."""
    cdef uint32_t i = 0, k
    while i < closure.count and closure.states[i] != state:
        i += 1
    if i == closure.count:
        if i == MOST_STATES:
            return False
        closure.count += 1
        closure.states[i] = state
        closure.entered[i] = <uint16_t>byte_class
        closure.goes_on[i] = True
        closure.depth[i] = <uint8_t>(closure.depth[source] + 1)
        for k in range(4):
            closure.need[i][k] = closure.need[source][k]
        if byte_class != NOTHING:
            closure.need[i][byte_class >> 6] |= <uint64_t>1 << (byte_class & 63)
    if closure.edge_count == MOST_EDGES:
        return False
    closure.source[closure.edge_count] = <uint8_t>source
    closure.target[closure.edge_count] = <uint8_t>i
    closure.by[closure.edge_count] = <uint16_t>byte_class
    closure.edge_count += 1
    return True


cdef bint _takes_all(
    Engine* engine, Closure* closure, uint32_t source, uint32_t inner, state_t state
) noexcept nogil:
    """Whether a state inside a character takes all that may follow in it, and no other byte; what
    is after the character has arrived then. At most three deep."""
    cdef uint32_t i, place, following = utf8_after(inner)
    cdef state_t target, before = DEAD
    cdef const Characters* characters = lexer_characters(&engine.lexer)
    if state == DEAD or engine.lexer.states[state].eager != NO_SET \
            or engine.lexer.states[state].accept != NO_SET:
        return False
    for i in range(closure.inner_count):
        if closure.inner_state[i] == state and closure.inner[i] == inner:
            return True
    for place in range(engine.lexer.rx.class_count):
        target = lexer_step(&engine.lexer, state, engine.lexer.rx.sample[place])
        if target != DEAD and class_is_in(characters.beside[inner], place):
            return False
        if not class_is_in(characters.within[inner], place):
            continue
        if target == DEAD or engine.lexer.states[target].eager != NO_SET:
            return False
        if following:
            if not _takes_all(engine, closure, source, following, target):
                return False
        elif target != before:
            before = target
            if not _arrive(closure, source, target, NOTHING):
                return False
    if closure.inner_count < MOST_INNER:
        closure.inner_state[closure.inner_count] = state
        closure.inner[closure.inner_count] = inner
        closure.inner_count += 1
    return engine.fault.code == 0


cdef bint _close(Engine* engine, Closure* closure, state_t state, bint* smaller) noexcept nogil:
    """Find the states that the characters of the class lead to, and their pits; False where that is
    too much, or one of them ends a lexeme. Bytes that do more than go on are taken out of the
    class, ``smaller`` then; some states may be left out then."""
    cdef uint32_t i = 0, k, byte, byte_class, lead, taken, dead
    cdef state_t here, target
    cdef uint64_t seen[4]
    cdef bint changed
    closure.count = 1
    closure.edge_count = 0
    closure.pit_count = 0
    closure.states[0] = state
    closure.depth[0] = 0
    memset(closure.need[0], 0, sizeof(closure.need[0]))
    while i < closure.count:
        here = closure.states[i]
        if engine.lexer.states[here].accept != NO_SET or engine.fault.code \
                or engine.lexer.vectors.count > closure.most:
            return False
        if closure.depth[i] == closure.horizon or (
            closure.entered[i] != NOTHING and i
            and not _is_taken(engine, &closure.key, closure.entered[i])
        ):
            i += 1
            continue
        memset(seen, 0, sizeof(seen))
        taken = 0
        dead = 0
        for byte in range(128):
            if _has(&closure.key, byte):
                taken += 1
                dead += lexer_step(&engine.lexer, here, <uint8_t>byte) == DEAD
        if 2 * dead > taken and dead < taken and closure.depth[i] == 1:
            # An escape, say: what leads here is not of the class.
            _drop_entered(engine, closure, i)
            smaller[0] = True
            i += 1
            continue
        closure.goes_on[i] = i == 0 or 2 * dead <= taken
        if not closure.goes_on[i] and not _add_pit(closure, i, MOST):
            return False
        for byte in range(128):
            byte_class = engine.lexer.rx.classes[byte]
            if not _has(&closure.key, byte) or class_is_in(seen, byte_class):
                continue
            seen[byte_class >> 6] |= <uint64_t>1 << (byte_class & 63)
            target = lexer_step(&engine.lexer, here, <uint8_t>byte)
            if target == DEAD:
                if closure.goes_on[i] and not _add_pit(closure, i, byte_class):
                    return False
            elif engine.lexer.states[target].eager != NO_SET:
                _drop_class(engine, &closure.key, byte_class)
                smaller[0] = True
            elif not _arrive(closure, i, target, byte_class):
                return False
        closure.inner_count = 0
        for lead in range(LEAD_COUNT):
            if not (closure.key.leads >> lead) & 1:
                continue
            byte = FIRST_LEAD + lead
            target = lexer_step(&engine.lexer, here, <uint8_t>byte)
            if target == DEAD:
                if closure.goes_on[i] and not _add_pit(closure, i, NOTHING):
                    return False
            elif not _takes_all(engine, closure, i, utf8_lead(<uint8_t>byte), target):
                if closure.count == MOST_STATES or closure.edge_count == MOST_EDGES:
                    return False
                closure.key.leads &= ~(<uint64_t>1 << lead)
                smaller[0] = True
        i += 1
    changed = True
    while changed:
        changed = False
        for i in range(closure.edge_count):
            for k in range(4):
                seen[k] = closure.need[closure.source[i]][k]
            byte_class = closure.by[i]
            if byte_class != NOTHING:
                seen[byte_class >> 6] |= <uint64_t>1 << (byte_class & 63)
            for k in range(4):
                if closure.need[closure.target[i]][k] & ~seen[k]:
                    closure.need[closure.target[i]][k] &= seen[k]
                    changed = True
    closure.furthest = _longest_way(closure)
    if closure.furthest == NONE:
        for i in range(1, closure.count):
            if not closure.goes_on[i] and closure.depth[i] < closure.horizon:
                _drop_entered(engine, closure, i)
                smaller[0] = True
    return engine.fault.code == 0


cdef uint32_t _longest_way(const Closure* closure) noexcept nogil:
    """How many characters of the class there may be before all states are dead; NONE where there
    may be any number, or that is behind the horizon."""
    cdef uint32_t i, longest = 0
    cdef uint8_t ways[MOST_STATES]
    cdef bint changed = True
    memset(ways, 0, sizeof(ways))
    for i in range(closure.count):
        if closure.depth[i] == closure.horizon:
            return NONE
    for i in range(closure.edge_count):
        if closure.source[i] == closure.target[i]:
            return NONE
    while changed:
        changed = False
        for i in range(closure.edge_count):
            if ways[closure.target[i]] <= ways[closure.source[i]]:
                ways[closure.target[i]] = <uint8_t>(ways[closure.source[i]] + 1)
                if ways[closure.target[i]] >= closure.count:
                    return NONE  # a circle
                longest = max(longest, <uint32_t>ways[closure.target[i]])
                changed = True
    return longest


cdef bint _keep_holders(
    Engine* engine, const Closure* closure, uint32_t byte_class, uint64_t* bits
) noexcept nogil:
    """Leave the tokens that hold a byte of a class, where these are few enough to tell."""
    cdef uint32_t byte, i, count = 0
    cdef const uint64_t* holding[SMALL_CLASS]
    if closure.sizes[byte_class] > SMALL_CLASS:
        return False
    for byte in range(128):
        if engine.lexer.rx.classes[byte] == byte_class:
            holding[count] = engine.pool.classes.holding[128 + byte]
            count += 1
    if count == 1:
        for i in range(engine.words):
            bits[i] &= holding[0][i]
        return True
    while count < SMALL_CLASS:
        holding[count] = holding[0]
        count += 1
    for i in range(engine.words):
        bits[i] &= holding[0][i] | holding[1][i] | holding[2][i] | holding[3][i]
    return True


cdef bint _join(
    const Closure* closure, uint64_t* all, const uint64_t* more, uint32_t words
) noexcept nogil:
    """Add tokens that are to be read; False where they are too many."""
    cdef uint32_t i, count = 0
    for i in range(words):
        if more[i] & ~all[i]:
            count += ones(more[i] & ~all[i])
            if count > closure.most_read:
                return False
    for i in range(words):
        all[i] |= more[i]
    return True


cdef int _read_pits(
    Engine* engine, Closure* closure, uint64_t* within, uint64_t* read, uint64_t* scratch,
    bint* smaller
) noexcept nogil:
    """Put the tokens that may fall into a pit, or get behind the horizon, into ``read``; classes
    with too many are taken out, ``smaller`` then, as where the horizon is set further away. -1 when
    memory is out, 1 where it is no use."""
    cdef uint32_t i, k, at, byte_class
    cdef bint behind = False, all_read = False
    cdef uint64_t needed
    cdef uint64_t* arriving = scratch + engine.words
    memset(read, 0, engine.words * sizeof(uint64_t))
    if classes_within(engine.pool, &closure.key, within) < 0:
        return -1
    if closure.furthest != NONE:
        # Longer tokens of the class are not in the base.
        memcpy(scratch, within, engine.words * sizeof(uint64_t))
        if classes_longer(engine.pool, closure.furthest, scratch) < 0:
            return -1
        for k in range(engine.words):
            within[k] &= ~scratch[k]
    for i in range(closure.count):
        behind = behind or closure.depth[i] == closure.horizon
    if behind:
        for i in range(engine.words):
            scratch[i] = within[i]
        if classes_longer(engine.pool, closure.horizon, scratch) < 0:
            return -1
        if not _join(closure, read, scratch, engine.words):
            if closure.horizon == FAR_HORIZON:
                return 1
            closure.horizon = FAR_HORIZON
            smaller[0] = True
            return 0
    for i in range(closure.pit_count):
        at = closure.pit_at[i]
        if i == 0 or at != closure.pit_at[i - 1]:
            # What may get to the state at all is often few enough for all of its pits.
            for k in range(engine.words):
                arriving[k] = within[k]
            if classes_longer(engine.pool, closure.depth[at], arriving) < 0:
                return -1
            for k in range(4):
                needed = closure.need[at][k]
                while needed:
                    _keep_holders(engine, closure, 64 * k + lowest_bit(needed), arriving)
                    needed &= needed - 1
            all_read = _join(closure, read, arriving, engine.words)
        if all_read:
            continue
        byte_class = closure.pit_by[i]
        if byte_class == MOST:
            _drop_entered(engine, closure, at)
            smaller[0] = True
            continue
        if byte_class == NOTHING:
            for k in range(LEAD_COUNT):
                if (closure.key.leads >> k) & 1 and lexer_step(
                    &engine.lexer, closure.states[at], <uint8_t>(FIRST_LEAD + k)
                ) == DEAD:
                    closure.key.leads &= ~(<uint64_t>1 << k)
                    smaller[0] = True
            continue
        if not _is_taken(engine, &closure.key, byte_class):
            continue
        for k in range(engine.words):
            scratch[k] = arriving[k]
        if not _keep_holders(engine, closure, byte_class, scratch) \
                or not _join(closure, read, scratch, engine.words):
            _drop_class(engine, &closure.key, byte_class)
            smaller[0] = True
    return 0


cdef bint _find(
    Engine* engine, Closure* closure, state_t state, uint64_t* within, uint64_t* read,
    uint64_t* scratch
) noexcept nogil:
    """Make the class smaller until it is closed; False where nothing of it is left, or too much
    would have to be looked at."""
    cdef uint32_t turn
    cdef bint smaller
    cdef int status
    for turn in range(ROUNDS):
        smaller = False
        if not _close(engine, closure, state, &smaller):
            return False
        if not smaller:
            status = _read_pits(engine, closure, within, read, scratch, &smaller)
            if status < 0:
                fault_set(&engine.fault, FAULT_MEMORY)
            if status:
                return False
        if not smaller:
            return True
        if not _is_worth(engine, &closure.key, 1, WORTH):
            return False
    return False


cdef bint _begin(
    Engine* engine, Closure* closure, state_t state, const state_t* targets, bint wide
) noexcept nogil:
    """Set the class to begin with: the bytes that lead where most of ASCII does, and ``wide``: all
    that lead where much of the trie does; whether that is enough of the trie, or for ``wide`` more
    than without."""
    cdef const Trie* trie = &engine.pool.trie
    cdef uint32_t first = trie.nodes[0].children
    cdef uint32_t count = trie.nodes[1].children - first
    cdef uint32_t i, j, byte, groups = 0, best = 0
    cdef state_t lead[128]       # by group of ASCII bytes that lead to one state: which,
    cdef uint32_t bytes[128]     # how many they are,
    cdef uint32_t weight[128]    # and the nodes that they begin
    cdef uint8_t group[256]
    cdef bint more = False
    memset(&closure.key, 0, sizeof(LoopKey))
    for i in range(count):
        byte = child_byte(trie, first + i)
        if not _lives(engine, byte, targets[i]):
            continue
        j = 0
        while j < groups and lead[j] != targets[i]:
            j += 1
        if j == groups:
            groups += 1
            lead[j] = targets[i]
            bytes[j] = 0
            weight[j] = 0
        bytes[j] += 1
        weight[j] += trie.nodes[child_node(trie, first + i)].end - child_node(trie, first + i)
        group[byte] = <uint8_t>j
    for j in range(1, groups):
        if bytes[j] > bytes[best]:
            best = j
    for i in range(count):
        byte = child_byte(trie, first + i)
        if byte >= FIRST_LEAD and byte < FIRST_LEAD + LEAD_COUNT and targets[i] != DEAD:
            closure.key.leads |= <uint64_t>1 << (byte - FIRST_LEAD)
        if not _lives(engine, byte, targets[i]):
            continue
        j = group[byte]
        if j == best or (wide and weight[j] >= engine.heavy):
            more = more or j != best
            closure.key.ascii[byte >> 6] |= <uint64_t>1 << (byte & 63)
    return (more or not wide) and _is_worth(engine, &closure.key, 1, WORTH)


cdef inline bint _lives(const Engine* engine, uint32_t byte, state_t target) noexcept nogil:
    return byte < 0x80 and target != DEAD and engine.lexer.states[target].eager == NO_SET


cdef inline bint _ends(const Engine* engine, state_t state) noexcept nogil:
    """Whether a lexeme may end in a state."""
    return engine.lexer.states[state].accept != NO_SET or engine.lexer.states[state].eager != NO_SET


cdef bint _read(Engine* engine, state_t state, uint32_t token) noexcept nogil:
    """Remove a token of the class if it falls into a pit; False where a lexeme ends in it, beyond
    the horizon."""
    cdef const Trie* trie = &engine.pool.trie
    cdef uint64_t at
    cdef uint32_t node = 0, i
    cdef uint8_t byte
    for at in range(engine.pool.text_at[token], engine.pool.text_at[token + 1]):
        state = lexer_step(&engine.lexer, state, engine.pool.text[at])
        if state == DEAD:
            break
        if _ends(engine, state):
            return False
    if state != DEAD or engine.fault.code:
        return True
    for at in range(engine.pool.text_at[token], engine.pool.text_at[token + 1]):
        byte = engine.pool.text[at]
        for i in range(trie.nodes[node].children, trie.nodes[node + 1].children):
            if child_byte(trie, i) == byte:
                node = child_node(trie, i)
                break
    for i in range(trie.nodes[node].tokens_at, trie.nodes[node + 1].tokens_at):
        if trie.tokens[i] == token:
            inside_remove(engine, trie, i, i + 1)
    return True


cdef bint _read_exit(
    Engine* engine, state_t state, uint32_t node, uint8_t byte, Path* path
) noexcept nogil:
    """Account for what begins with a node of the main trie, reached by a byte that is not of the
    class; False where a lexeme ends before it, beyond the horizon."""
    cdef uint32_t i
    cdef state_t at = path_state(
        engine, engine.pool.classes.up, engine.pool.classes.up[node] >> 8, state, path
    )
    for i in range(HORIZON, path.length):
        if path.states[i] != DEAD and _ends(engine, path.states[i]):
            return False
    if at != DEAD:
        at = lexer_step(&engine.lexer, at, byte)
    if at != DEAD and inside_visit(engine, 0, node, at):
        inside_walk(engine, 0, node, at)
    return True


cdef bint closed_explore(
    Engine* engine, state_t state, const state_t* targets, uint32_t exits, Base* base
) noexcept nogil:
    """Fill ``base`` and the scratch of inside walks with what a state says about the main trie,
    ``targets`` being where the children of its root lead; False, and nothing filled, where no class
    of characters is closed, or that is too much work. For a state that has a loop, which tokens
    leave at so many ``exits`` (NONE: it has none), less is too much: what is made for loops serves
    many states. May set a fault."""
    cdef Closure closure
    cdef uint64_t* within
    cdef uint64_t* read
    cdef uint64_t* scratch
    cdef bint found = False, wide = False
    cdef uint32_t byte, i, count, turn
    if engine.pool.longest > LONGEST_PATH or engine.lexer.states[state].accept != NO_SET:
        return False
    wide = not _begin(engine, &closure, state, targets, False) \
        or not _is_worth(engine, &closure.key, MOST_OF, MOST_OF + 1)
    if wide and not _begin(engine, &closure, state, targets, True):
        wide = False
        if not _begin(engine, &closure, state, targets, False):
            return False
    for i in range(engine.lexer.rx.class_count):
        count = 0
        for byte in range(256):
            if engine.lexer.rx.classes[byte] == i:
                count += 1 if byte < 0x80 else SMALL_CLASS + 1
        closure.sizes[i] = <uint8_t>min(count, SMALL_CLASS + 1)
    within = <uint64_t*>calloc(4 * <size_t>engine.words + 1, sizeof(uint64_t))
    if within == NULL:
        fault_set(&engine.fault, FAULT_MEMORY)
        return False
    closure.most = engine.lexer.vectors.count + min(
        <uint32_t>MOST_NEW, max(<uint32_t>MOST_NEW // 8, exits // NEW_PART)
    )
    closure.horizon = HORIZON
    closure.most_read = min(<uint32_t>MOST_READ, max(<uint32_t>LEAST_READ, exits // READ_PART))
    closure.most_places = min(<uint32_t>MOST_PLACES, max(<uint32_t>MOST_PLACES, exits) // 4)
    read = within + engine.words
    scratch = read + engine.words
    for turn in range(2):
        found = _begin(engine, &closure, state, targets, wide) \
            and _find(engine, &closure, state, within, read, scratch) \
            and _fill(engine, &closure, state, targets, read, base)
        if found or engine.fault.code:
            break
        wide = not wide
    free(within)
    return found and engine.fault.code == 0


cdef bint _fill(
    Engine* engine, const Closure* closure, state_t state, const state_t* targets,
    const uint64_t* read, Base* base
) noexcept nogil:
    """Fill what ``closed_explore`` fills; False, and nothing filled, where too many places would
    have to be looked at, where a lexeme ends beyond the horizon, or with a fault set."""
    cdef TablePool* pool = engine.pool
    cdef Trie* trie = &pool.trie
    cdef Table* table = table_of(engine, NULL, trie, 0, &closure.key)
    cdef Path path
    cdef uint32_t i, j, byte, node
    cdef uint64_t leaving[4]
    cdef uint64_t left
    cdef Words places
    cdef bint few, living = True
    if table == NULL:
        return False
    memset(leaving, 0, sizeof(leaving))
    memset(&places, 0, sizeof(Words))
    for byte in range(256):
        if key_takes(&closure.key, <uint8_t>byte):
            continue
        for i in range(closure.count):
            if lexer_step(&engine.lexer, closure.states[i], <uint8_t>byte) != DEAD:
                leaving[byte >> 6] |= <uint64_t>1 << (byte & 63)
                break
    if engine.fault.code:
        return False
    PyThread_acquire_lock(pool.lock, WAIT_LOCK)
    few = classes_places(pool, table, leaving, NONE, closure.most_places, &places)
    PyThread_release_lock(pool.lock)
    if not few:
        words_free(&places)
        return False
    memset(base, 0, sizeof(Base))
    base.table = table
    base.bits = table_window(pool, table, closure.furthest)
    if base.bits == NULL:
        fault_set(&engine.fault, FAULT_MEMORY)
        words_free(&places)
        return False
    base.whole = NONE
    # Of a name that comes to an end a scope may have used up what a token leads to.
    base.endless = closure.furthest == NONE
    for i in range(closure.count):
        if closure.depth[i] == closure.horizon:
            base.endless = False
    base.left = NONE
    base.over = NONE
    base.removed = <uint32_t>engine.removed.size
    for i in range(engine.words):
        left = read[i] & base.bits[i]
        while left and living and not engine.fault.code:
            living = _read(engine, state, 64 * i + lowest_bit(left))
            left &= left - 1
    base.removed_end = <uint32_t>engine.removed.size
    for i in range(trie.nodes[0].children, trie.nodes[1].children):
        j = i - trie.nodes[0].children
        if not living or targets[j] == DEAD or key_takes(&closure.key, child_byte(trie, i)):
            continue
        node = child_node(trie, i)
        if inside_visit(engine, 0, node, targets[j]):
            inside_walk(engine, 0, node, targets[j])
    path.length = 0
    for i in range(0, <uint32_t>places.size, 3):
        if not living or engine.fault.code:
            break
        living = _read_exit(engine, state, places.at[i], <uint8_t>places.at[i + 1], &path)
    words_free(&places)
    if not living:
        engine.tokens.size = 0
        engine.bounds.size = 0
        engine.removed.size = 0
    return living and engine.fault.code == 0
