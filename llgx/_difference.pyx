# cython: language_level=3, boundscheck=False, wraparound=False
# cython: initializedcheck=False, cdivision=True
"""Where a lexer state and its twin part on a trie.

The keys of an object are some literals beside "a string that is none of them". Its twin, any
string, is a state of all grammars, whose plan is known as a rule; what the literals change are a
few tokens. So such a state and its twin are walked together, and only what differs is written
down: token places that the twin answers wrongly for, and the tokens and boundaries of the state
itself below them.

*Words.* Where the twin is a loop (the body of a string), and the literals and what the complements
leave out end in no other way than with a byte that is not of the loop's class (the closing quote),
the two live and go on alike until then. Then a token matters only if it spells one of these words
up to that byte. The words are looked up in the trie, without a derivative; most are in no token.

Invariant: for the tokens of places that were not written down, the two states live, and end
lexemes, at the same bytes with the same terminals, and go on in one state.

Cost: for each word the nodes of the trie along it, once for all states that begin with it at the
same place; then derivatives along those words that are found up to that byte.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport qsort
from libc.string cimport memcpy, memmove

from llgx._endless cimport shape_leaves
from llgx._engine cimport (
    CHILD, FRAME_WORDS, LENGTH_CLASSES, TWIN_MASKS, Engine, child_place, frame_push, is_heavy,
    is_leaf,
)
from llgx._inside cimport (
    inside_apart, inside_bound, inside_may_part, inside_remove, inside_visit, inside_walk,
)
from llgx._lexer cimport (
    DEAD, NO_SET, LoopKey, key_equals, key_may_take, lexer_loop, lexer_step, lexer_twin, set_t,
    state_t,
)
from llgx._memory cimport (
    FAULT_MEMORY, NONE, Words, fault_set, map_get, map_put, words_push, words_reserve,
)
from llgx._regex cimport (
    ALT_KIND, AND_KIND, BYTES_KIND, CONCAT_KIND, EMPTY, EPSILON, EPSILON_KIND, LITERAL_KIND,
    NOT_KIND, Regex, node_t, regex_words,
)
from llgx._residuals cimport residual_is_finite
from llgx._trie cimport Trie, child_byte, child_node, tokens_end

cdef enum:
    DEEPEST = 100        # levels of a regex that words are read off
    KEY_WORDS = sizeof(LoopKey) // sizeof(uint32_t)
    MOST_FOLLOWED = 1 << 22  # words of memory for what was found
    OPEN = 1             # of a node in ``Engine.words``: below it every token matters

cdef enum Walk:
    FREE = 0             # every token below matters
    BY_WORDS = 1         # those along words do


cdef struct Rest:        # what comes after a part of a word
    node_t node
    const Rest* after


cdef bint _begins_open(const Regex* rx, node_t node, uint32_t depth) noexcept nogil:
    """Whether some match of ``node`` begins with what is no text and no set of bytes."""
    cdef const uint32_t* words = regex_words(rx, node)
    cdef uint32_t i
    if words[0] == CONCAT_KIND and depth < DEEPEST:
        return _begins_open(rx, words[1], depth + 1)
    if words[0] == ALT_KIND and depth < DEEPEST:
        for i in range(1, rx.nodes.entries[node].length):
            if _begins_open(rx, words[i], depth + 1):
                return True
        return False
    return words[0] != LITERAL_KIND and words[0] != BYTES_KIND and words[0] != EPSILON_KIND


cdef bint _leaves_open(const Engine* engine, state_t state) noexcept nogil:
    """Whether what complements leave out of a state begins like a pattern: then it and its twin may
    part nearly everywhere, and walking one of them is less than walking both."""
    cdef const Regex* rx = &engine.lexer.rx
    cdef const uint32_t* words = engine.lexer.vectors.entries[state].words
    cdef const uint32_t* parts
    cdef uint32_t i, j
    cdef node_t head
    for i in range(1, engine.lexer.vectors.entries[state].length, 2):
        head = words[i]
        if rx.info[head].kind == CONCAT_KIND:
            head = regex_words(rx, head)[1]
        if rx.info[head].kind != AND_KIND:
            continue
        parts = regex_words(rx, head)
        for j in range(1, rx.nodes.entries[head].length):
            if rx.info[parts[j]].kind == NOT_KIND \
                    and _begins_open(rx, regex_words(rx, parts[j])[1], 0):
                return True
    return False


cdef bint difference_is_asked(Engine* engine, uint32_t where, state_t state) noexcept nogil:
    """Whether the mask of a (site, state) is to be made of that of its twin."""
    cdef state_t twin
    if not engine.shortcuts & TWIN_MASKS or engine.sites[where].filtered \
            or not is_heavy(engine, engine.sites[where].trie, engine.sites[where].root):
        return False
    twin = lexer_twin(&engine.lexer, state)
    return twin != NONE and twin != DEAD and engine.fault.code == 0 \
        and engine.lexer.states[state].excluding \
        and engine.lexer.states[state].eager == engine.lexer.states[twin].eager \
        and not _leaves_open(engine, state)


# --------------------------------------------------------------------------- words

cdef inline void _mark(Engine* engine, uint32_t node, uint32_t flag) noexcept nogil:
    if words_push(&engine.words_found, node << 1 | flag) < 0:
        fault_set(&engine.fault, FAULT_MEMORY)


cdef bint _follow(
    Engine* engine, const Trie* trie, uint32_t at, node_t node, const Rest* rest,
    const LoopKey* key, uint32_t depth
) noexcept nogil:
    """Note the nodes of the trie along the words that begin like ``node``, then ``rest``, and that
    the trie has up to their first byte that is not in the class; whether it has some."""
    cdef const Regex* rx = &engine.lexer.rx
    cdef const uint32_t* words = regex_words(rx, node)
    cdef uint32_t kind = words[0], i, child, place
    cdef uint8_t byte
    cdef bint found = False
    cdef Rest more
    if depth > DEEPEST:
        _mark(engine, at, OPEN)
        return True
    if kind == EPSILON_KIND:
        return rest != NULL and _follow(
            engine, trie, at, rest.node, rest.after, key, depth + 1
        )
    if kind == LITERAL_KIND:
        child = at
        for i in range(words[2]):
            byte = rx.bytes[words[1] + i]
            place = child_place(trie, child, byte)
            if place == NONE:
                return False
            child = child_node(trie, place)
            if not key_may_take(key, byte):
                _mark(engine, child, OPEN)
                found = True
                break
        if not found and (rest == NULL or not _follow(
            engine, trie, child, rest.node, rest.after, key, depth + 1
        )):
            return False
        for i in range(words[2]):
            at = child_node(trie, child_place(trie, at, rx.bytes[words[1] + i]))
            if at == child:
                break
            _mark(engine, at, 0)
        if not found:
            _mark(engine, child, 0)
        return True
    if kind == BYTES_KIND:
        for i in range(trie.nodes[at].children, trie.nodes[at + 1].children):
            byte = child_byte(trie, i)
            if not (words[1 + (byte >> 5)] >> (byte & 31)) & 1:
                continue
            child = child_node(trie, i)
            if not key_may_take(key, byte):
                _mark(engine, child, OPEN)
                found = True
            elif rest != NULL and _follow(
                engine, trie, child, rest.node, rest.after, key, depth + 1
            ):
                _mark(engine, child, 0)
                found = True
        return found
    if kind == CONCAT_KIND:
        more.node = words[2]
        more.after = rest
        return _follow(engine, trie, at, words[1], &more, key, depth + 1)
    if kind == ALT_KIND:
        for i in range(1, rx.nodes.entries[node].length):
            if _follow(engine, trie, at, words[i], rest, key, depth + 1):
                found = True
        return found
    _mark(engine, at, OPEN)
    return True


cdef bint _follow_new(
    Engine* engine, const Trie* trie, uint32_t at, node_t node, node_t tail, const LoopKey* key
) noexcept nogil:
    """Note the nodes along the words of ``node``, or if ``tail`` is not EMPTY those of a complement
    of ``node`` before ``tail``; False where the words may end inside the loop."""
    cdef const Regex* rx = &engine.lexer.rx
    cdef Rest rest
    if tail == EMPTY:
        if not shape_leaves(rx, node, key, 0):
            return False
        _follow(engine, trie, at, node, NULL, key, 0)
        return True
    # Finitely many words are left out of what goes round in the loop for ever.
    if not shape_leaves(rx, tail, key, 0) or not residual_is_finite(rx, node):
        return False
    rest.node = tail
    rest.after = NULL
    _follow(engine, trie, at, node, &rest, key, 0)
    return True


cdef bint _follow_known(
    Engine* engine, uint32_t where, uint32_t at, node_t node, node_t tail, const LoopKey* key
) noexcept nogil:
    """The same, found once: the states of an object's keys have all its names in common."""
    cdef uint64_t high = <uint64_t>node << 32 | tail, low = <uint64_t>where << 32 | at
    cdef uint32_t place = map_get(&engine.followed_index, high, low)
    cdef size_t before = engine.words_found.size, count
    cdef uint32_t* entry
    cdef bint leaves
    cdef LoopKey of_entry
    if place != NONE:
        entry = engine.followed.at + place
        memcpy(&of_entry, entry + 1, sizeof(LoopKey))
        if key_equals(&of_entry, key):
            count = entry[1 + KEY_WORDS]
            if words_reserve(&engine.words_found, count + 1) < 0:
                fault_set(&engine.fault, FAULT_MEMORY)
                return False
            memcpy(
                engine.words_found.at + before, entry + 2 + KEY_WORDS, count * sizeof(uint32_t)
            )
            engine.words_found.size += count
            return entry[0]
    leaves = _follow_new(engine, engine.sites[where].trie, at, node, tail, key)
    count = engine.words_found.size - before
    if engine.fault.code or place != NONE or engine.followed.size > MOST_FOLLOWED:
        return leaves
    place = <uint32_t>engine.followed.size
    if words_reserve(&engine.followed, count + 2 + KEY_WORDS) < 0 \
            or map_put(&engine.followed_index, high, low, place) < 0:
        fault_set(&engine.fault, FAULT_MEMORY)
        return False
    entry = engine.followed.at + place
    entry[0] = leaves
    memcpy(entry + 1, key, sizeof(LoopKey))
    entry[1 + KEY_WORDS] = <uint32_t>count
    if count:
        memcpy(entry + 2 + KEY_WORDS, engine.words_found.at + before, count * sizeof(uint32_t))
    engine.followed.size += count + 2 + KEY_WORDS
    return leaves


cdef bint _follow_all(
    Engine* engine, uint32_t where, uint32_t at, state_t state, const LoopKey* key
) noexcept nogil:
    """Note the nodes along all words of a state; False where the two may part inside the loop."""
    cdef const Regex* rx = &engine.lexer.rx
    cdef const uint32_t* words = engine.lexer.vectors.entries[state].words
    cdef const uint32_t* parts
    cdef uint32_t length = engine.lexer.vectors.entries[state].length
    cdef uint32_t i, j, kind
    cdef node_t head, tail
    for i in range(1, length, 2):
        head = words[i]
        tail = EPSILON
        if rx.info[head].kind == CONCAT_KIND:
            parts = regex_words(rx, head)
            head = parts[1]
            tail = parts[2]
        kind = rx.info[head].kind
        if kind == LITERAL_KIND or kind == BYTES_KIND:
            if not _follow_known(engine, where, at, words[i], EMPTY, key):
                return False
        elif kind == AND_KIND:
            parts = regex_words(rx, head)
            for j in range(1, rx.nodes.entries[head].length):
                if rx.info[parts[j]].kind == NOT_KIND and not _follow_known(
                    engine, where, at, regex_words(rx, parts[j])[1], tail, key
                ):
                    return False
    return True


cdef int _compare(const void* left, const void* right) noexcept nogil:
    cdef uint32_t a = (<const uint32_t*>left)[0]
    cdef uint32_t b = (<const uint32_t*>right)[0]
    return (a > b) - (a < b)


cdef size_t _place_of(const Words* sorted_words, uint32_t word) noexcept nogil:
    """How many of the words are below ``word``."""
    cdef size_t low = 0, high = sorted_words.size, middle
    while low < high:
        middle = (low + high) >> 1
        if sorted_words.at[middle] < word:
            low = middle + 1
        else:
            high = middle
    return low


cdef bint _is_found(const Engine* engine, uint32_t word) noexcept nogil:
    """Whether a node with a flag is among those that were noted."""
    cdef size_t place = _place_of(&engine.words_found, word)
    return place < engine.words_found.size and engine.words_found.at[place] == word


cdef void _forget_before(Engine* engine, uint32_t word) noexcept nogil:
    """Take out the words, which are sorted, below ``word``."""
    cdef Words* found = &engine.words_found
    cdef size_t low = _place_of(found, word)
    if low:
        memmove(found.at, found.at + low, (found.size - low) * sizeof(uint32_t))
        found.size -= low


cdef bint _notes(const Engine* engine, size_t begin, uint32_t node) noexcept nogil:
    """Whether, from ``begin`` on, everything below ``node`` is noted."""
    cdef size_t i
    for i in range(begin, engine.words_found.size):
        if engine.words_found.at[i] == (node << 1 | OPEN):
            return True
    return False


cdef uint32_t _enter(
    Engine* engine, uint32_t where, uint32_t node, state_t state, state_t twin
) noexcept nogil:
    """How to walk the children of ``node``, reached in the two states."""
    cdef uint32_t loop
    cdef LoopKey key
    cdef size_t before
    cdef bint is_open
    if engine.lexer.states[state].twin != twin or engine.lexer.states[state].accept != NO_SET \
            or engine.lexer.states[twin].accept != NO_SET:
        return FREE
    loop = lexer_loop(&engine.lexer, twin, engine.shortcuts & LENGTH_CLASSES)
    if loop == NONE or engine.fault.code or engine.lexer.loops[loop].after != twin \
            or engine.lexer.loops[loop].split or engine.lexer.loops[loop].high != NONE:
        return FREE
    key = engine.lexer.loops[loop].key
    # Nodes come in the order of the walk: those noted before this one are done with. Without this,
    # each of the nodes of a pattern would sort what all the others have left.
    _forget_before(engine, node << 1)
    before = engine.words_found.size
    is_open = not _follow_all(engine, where, node, state, &key) or _notes(engine, before, node)
    if is_open:
        engine.words_found.size = before  # all children are looked at, and note theirs
        return FREE
    if engine.words_found.size > before:
        qsort(engine.words_found.at, engine.words_found.size, sizeof(uint32_t), &_compare)
    return FREE if _is_found(engine, node << 1 | OPEN) else BY_WORDS


# --------------------------------------------------------------------------- the walk

cdef void difference_walk(
    Engine* engine, uint32_t where, state_t state, state_t twin
) noexcept nogil:
    """Fill the scratch of inside walks with what ``state`` says about a site that its twin does
    not, and with the token places that the twin answers wrongly for."""
    cdef Trie* trie = engine.sites[where].trie
    cdef uint32_t node = engine.sites[where].root
    cdef size_t floor = engine.frames.size
    cdef uint32_t cursor, end, child, walk
    cdef uint8_t byte
    cdef state_t mine, its
    cdef set_t emitted
    cdef uint32_t* at
    cdef const uint64_t* apart
    engine.words_found.size = 0
    walk = _enter(engine, where, node, state, twin)
    apart = inside_apart(engine, state, twin)
    cursor = trie.nodes[node].children
    end = trie.nodes[node + 1].children
    if walk == BY_WORDS and engine.words_found.size == 0:
        return
    while not engine.fault.code:
        if cursor == end:
            if engine.frames.size == floor:
                break
            engine.frames.size -= FRAME_WORDS
            at = engine.frames.at + engine.frames.size
            cursor = at[0]
            end = at[1]
            node = at[2]
            state = at[3]
            twin = at[4]
            walk = at[5]
            apart = inside_apart(engine, state, twin)
            continue
        byte = child_byte(trie, cursor)
        child = child_node(trie, cursor)
        cursor += 1
        if not inside_may_part(engine, apart, byte) or (
            walk == BY_WORDS and not _is_found(engine, child << 1)
            and not _is_found(engine, child << 1 | OPEN)
        ):
            continue
        mine = lexer_step(&engine.lexer, state, byte)
        its = lexer_step(&engine.lexer, twin, byte)
        if mine == its and mine != DEAD:
            continue
        emitted = engine.lexer.states[state].accept
        if mine == DEAD:
            if its == DEAD and emitted == engine.lexer.states[twin].accept:
                continue
            inside_remove(engine, trie, trie.nodes[child].tokens_at, tokens_end(trie, child))
            if emitted != NO_SET:
                inside_bound(engine, CHILD, emitted, child, byte)
            continue
        if its == DEAD or engine.lexer.states[mine].eager != NO_SET \
                or engine.lexer.states[its].eager != NO_SET:
            inside_remove(engine, trie, trie.nodes[child].tokens_at, tokens_end(trie, child))
            if inside_visit(engine, where, child, mine):
                inside_walk(engine, where, child, mine)
            continue
        # Alive in both: the tokens of ``child`` itself are right already.
        if is_leaf(trie, child):
            continue
        if cursor != end:
            frame_push(engine, cursor, end, node, state, twin, walk)
        node = child
        state = mine
        twin = its
        if walk == FREE or _is_found(engine, child << 1 | OPEN):
            lexer_twin(&engine.lexer, state)
            walk = _enter(engine, where, node, state, twin)
        apart = inside_apart(engine, state, twin)
        cursor = trie.nodes[node].children
        end = trie.nodes[node + 1].children
    engine.frames.size = floor
