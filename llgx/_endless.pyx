# cython: language_level=3, boundscheck=False, wraparound=False
# cython: initializedcheck=False, cdivision=True
"""Lexer states that no character of a string ends.

Before an unanchored search has found its match, and while it is on the way to it, a string may go
on with any characters: these lead from state to state, but none of them is dead or ends the lexeme.
So which tokens of such characters are allowed is known without reading one: all. What is left are
the tokens that hold something else, a quote above all. Their nodes are known for the characters of
a JSON string (``classes_exits``); they are read one by one, from the root.

Both are decided by the shape of the regexes: some part of the state begins with "any characters",
so that after any of them it is there again, and nothing in the state matches before a byte of
another kind. A counter counts as "any" while a token cannot use it up, and for an intersection the
part that comes again is looked into for emptiness, once; beside it may stand that the text is none
of finitely many.

Where a text must not hold some word, tokens that hold the word are looked up in the trie and read;
the others leave at least what holds none and does not go on with the end of one.

Invariant: as in ``_inside``, base, tokens and boundaries stand for each token exactly once.

Cost: some 1,500 short paths in Llama 3, some ten microseconds. Walks of such states take
milliseconds: they have no loop in common.
"""

from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memset

from llgx._classes cimport classes_exits
from llgx._emptiness cimport regex_is_live
from llgx._engine cimport DIFFERENCE_MASKS, ENDLESS_STATES, LENGTH_CLASSES, Base, Engine, is_heavy
from llgx._inside cimport inside_remove, inside_visit, inside_walk, table_of
from llgx._lexer cimport (
    DEAD, NO_SET, LoopKey, key_may_take, key_takes, lexer_body, lexer_loop, lexer_step,
    state_t,
)
from llgx._memory cimport (
    FAULT_MEMORY, NONE, Words, fault_set, words_free, words_push, words_sort,
)
from llgx._regex cimport (
    ALL, ALT_KIND, AND_KIND, ANY, BYTES_KIND, CONCAT_KIND, EMPTY, HARD, LITERAL_KIND, NOT_KIND,
    REPEAT_KIND, Regex, node_t, regex_alt, regex_and, regex_concat, regex_literal, regex_not,
    regex_repeat, regex_words,
)
from llgx._saturation cimport FAR, regex_furthest
from llgx._trie cimport Table, TablePool, Trie, string_key, tokens_end

cdef enum:
    DEEPEST = 100        # levels of a regex that are looked at
    LONGEST_TEXT = 48    # bytes of a text that may end a state,
    MOST_TEXTS = 256     # words that all of them take,
    MOST_HOLDERS = 2000  # places at which tokens hold one,
    MOST_BELOW = 8000    # and nodes below them


cdef bint shape_leaves(
    const Regex* rx, node_t node, const LoopKey* key, uint32_t depth
) noexcept nogil:
    """Whether the shape shows that each match of ``node`` has a byte that is not in the class."""
    cdef const uint32_t* words = regex_words(rx, node)
    cdef uint32_t kind = words[0], i, byte
    if depth > DEEPEST:
        return False
    if kind == LITERAL_KIND:
        for i in range(words[2]):
            if not key_may_take(key, rx.bytes[words[1] + i]):
                return True
        return False
    if kind == BYTES_KIND:
        for byte in range(256):
            if (words[1 + (byte >> 5)] >> (byte & 31)) & 1 and key_may_take(key, <uint8_t>byte):
                return False
        return True
    if kind == CONCAT_KIND:
        while words[0] == CONCAT_KIND:
            if shape_leaves(rx, words[1], key, depth + 1):
                return True
            node = words[2]
            words = regex_words(rx, node)
        return shape_leaves(rx, node, key, depth + 1)
    if kind == ALT_KIND:
        for i in range(1, rx.nodes.entries[node].length):
            if not shape_leaves(rx, words[i], key, depth + 1):
                return False
        return True
    if kind == AND_KIND:
        for i in range(1, rx.nodes.entries[node].length):
            if shape_leaves(rx, words[i], key, depth + 1):
                return True
        return False
    return kind == REPEAT_KIND and words[2] != 0 and shape_leaves(rx, words[1], key, depth + 1)


cdef bint _note_text(
    Words* texts, const uint8_t* text, uint32_t length, bint first
) noexcept nogil:
    """Append a text of ASCII: whether it comes ``first``, its length, its bytes; False for another
    one, or without memory."""
    cdef uint32_t i
    if length > LONGEST_TEXT or texts.size > MOST_TEXTS or words_push(texts, first) < 0 \
            or words_push(texts, length) < 0:
        return False
    for i in range(length):
        if text[i] >= 0x80 or words_push(texts, text[i]) < 0:
            return False
    return True


cdef bint _note_texts(
    const Regex* rx, node_t node, Words* texts, bint first, uint32_t depth
) noexcept nogil:
    """Note texts of which each match of ``node`` has one; False where the shape shows none.
    ``first``: nothing comes before ``node``."""
    cdef const uint32_t* words = regex_words(rx, node)
    cdef uint32_t i
    cdef uint8_t byte
    if depth > DEEPEST:
        return False
    if words[0] == LITERAL_KIND:
        return _note_text(texts, rx.bytes + words[1], words[2], first)
    if words[0] == BYTES_KIND:
        byte = 0
        while byte < 0x7F and not (words[1 + (byte >> 5)] >> (byte & 31)) & 1:
            byte += 1
        for i in range(byte + 1, 256):
            if (words[1 + (i >> 5)] >> (i & 31)) & 1:
                return False
        return _note_text(texts, &byte, 1, first)
    if words[0] == CONCAT_KIND:
        while words[0] == CONCAT_KIND:
            if rx.info[words[1]].kind == LITERAL_KIND or rx.info[words[1]].kind == BYTES_KIND:
                return _note_texts(rx, words[1], texts, first, depth + 1)
            first = False
            node = words[2]
            words = regex_words(rx, node)
        return _note_texts(rx, node, texts, first, depth + 1)
    if words[0] == ALT_KIND:
        for i in range(1, rx.nodes.entries[node].length):
            if not _note_texts(rx, words[i], texts, first, depth + 1):
                return False
        return True
    return False


cdef node_t _without_texts(Engine* engine, const Words* texts, size_t begin) noexcept nogil:
    """What holds none of the texts noted from ``begin`` on, but for those that come first, and
    begins with the end of none: a token that has none of them leaves no more than it."""
    cdef Regex* rx = &engine.lexer.rx
    cdef size_t base = rx.stack.size, at = begin
    cdef uint32_t i, length
    cdef uint8_t text[LONGEST_TEXT]
    cdef node_t node
    cdef bint first
    while at < texts.size:
        first = texts.at[at]
        length = texts.at[at + 1]
        for i in range(length):
            text[i] = <uint8_t>texts.at[at + 2 + i]
        at += length + 2
        for i in range(first, length):
            node = regex_concat(rx, regex_literal(rx, text + i, length - i), ALL)
            if i == 0:
                node = regex_concat(rx, ALL, node)
            if words_push(&rx.stack, node) < 0:
                fault_set(&engine.fault, FAULT_MEMORY)
                rx.stack.size = base
                return EMPTY
    return regex_not(rx, regex_alt(rx, base))


cdef bint _is_searched(Regex* rx, node_t node) noexcept nogil:
    """Whether something is looked for in an intersection. A name that is none of finitely many
    others is compared with its loop instead, which asks less."""
    cdef const uint32_t* words = regex_words(rx, node)
    cdef const uint32_t* part
    cdef uint32_t i
    for i in range(1, rx.nodes.entries[node].length):
        part = regex_words(rx, words[i])
        if part[0] != REPEAT_KIND and (
            part[0] != NOT_KIND or regex_furthest(rx, part[1], 0) >= FAR
        ):
            return True
    return False


cdef node_t _core(
    Engine* engine, node_t node, const LoopKey* key, Words* texts, uint32_t depth
) noexcept nogil:
    """A part of ``node``, or ``node``, that is in what is left of ``node`` after any characters of
    the class, as many as a token has, with none of the texts among them that are noted; EMPTY where
    the shape does not show one."""
    cdef Regex* rx = &engine.lexer.rx
    cdef const uint32_t* words = regex_words(rx, node)
    cdef uint32_t kind = words[0], i, longest, length = rx.nodes.entries[node].length
    cdef size_t base = rx.stack.size, noted = texts.size
    cdef node_t part = EMPTY
    cdef LoopKey of_body
    if depth > DEEPEST or engine.fault.code:
        return EMPTY
    if kind == CONCAT_KIND:
        part = _core(engine, words[1], key, texts, depth + 1)
        return EMPTY if part == EMPTY else regex_concat(
            rx, part, regex_words(rx, node)[2]
        )
    if kind == ALT_KIND:
        for i in range(1, length):
            part = _core(engine, regex_words(rx, node)[i], key, texts, depth + 1)
            if part != EMPTY:
                break
            texts.size = noted
        return part
    if kind == AND_KIND:
        if not _is_searched(rx, node):
            return EMPTY
        for i in range(1, length):
            part = _core(engine, regex_words(rx, node)[i], key, texts, depth + 1)
            if part == EMPTY or words_push(&rx.stack, part) < 0:
                rx.stack.size = base
                return EMPTY
        return regex_and(rx, base)
    if kind == NOT_KIND:
        # Of finitely many texts: what is longer than all of them is none of them.
        longest = regex_furthest(rx, words[1], 0)
        if longest < FAR:
            return regex_repeat(rx, ANY, longest + 1, NONE)
        return _without_texts(engine, texts, noted) if _note_texts(rx, words[1], texts, True, 0) \
            else EMPTY
    if kind != REPEAT_KIND or not lexer_body(&engine.lexer, words[1], &of_body):
        return EMPTY
    if (key.leads & ~of_body.leads and not of_body.bytes) \
            or key.ascii[0] & ~of_body.ascii[0] or key.ascii[1] & ~of_body.ascii[1]:
        return EMPTY
    words = regex_words(rx, node)
    if words[3] == NONE:
        return node
    # After k characters of a token it may take low - k, or none, to high - k more.
    return EMPTY if words[3] - words[2] <= rx.saturation else regex_repeat(
        rx, words[1], words[2], words[3] - rx.saturation
    )


cdef bint _may_begin_alike(const Regex* rx, node_t node, uint32_t depth) noexcept nogil:
    """Whether a look at the shape leaves it possible that ``node`` begins with any characters."""
    cdef const uint32_t* words = regex_words(rx, node)
    cdef uint32_t i, kind
    if words[0] == CONCAT_KIND:
        kind = rx.info[words[1]].kind
        return kind == REPEAT_KIND or kind == ALT_KIND or kind == AND_KIND
    if words[0] == ALT_KIND and depth:
        for i in range(1, rx.nodes.entries[node].length):
            if _may_begin_alike(rx, words[i], depth - 1):
                return True
    return False


cdef bint _is_endless(
    Engine* engine, state_t state, const LoopKey* key, Words* texts
) noexcept nogil:
    """Whether no token of the class ends the state, apart from those with one of the texts that are
    noted."""
    cdef Regex* rx = &engine.lexer.rx
    cdef const uint32_t* words = engine.lexer.vectors.entries[state].words
    cdef uint32_t i, length = engine.lexer.vectors.entries[state].length
    cdef node_t core
    cdef bint found = False
    if engine.lexer.states[state].accept != NO_SET:
        return False
    for i in range(1, length, 2):
        found = found or _may_begin_alike(rx, words[i], 1)
    if not found:
        return False  # most states: nothing in them may begin with any characters
    found = False
    for i in range(1, length, 2):
        if not shape_leaves(rx, words[i], key, 0):
            return False
        if not found and _may_begin_alike(rx, words[i], 1):
            texts.size = 0
            core = _core(engine, words[i], key, texts, 0)
            found = core != EMPTY and engine.fault.code == 0 and (
                not rx.info[core].flags & HARD or regex_is_live(rx, core)
            )
    return found and engine.fault.code == 0


cdef state_t path_state(
    Engine* engine, const uint32_t* up, uint32_t node, state_t state, Path* path
) noexcept nogil:
    """The state at a node, or DEAD, read from ``state`` at the root; DEAD too for a node that is
    deeper than ``LONGEST_PATH``, which callers rule out by the longest token.

    ``path`` is that of the node asked for before (``length`` 0: none was), from the same
    ``state``: what the two have in common is not read again.
    """
    cdef uint32_t length = 0, shared, at = node
    cdef int j
    cdef state_t before
    while at and length < LONGEST_PATH:
        length += 1
        at = up[at] >> 8
    if at:
        return DEAD
    shared = length
    at = node
    for j in range(<int>length - 1, -1, -1):
        if <uint32_t>j >= path.length or path.nodes[j] != at:
            path.nodes[j] = at
            shared = j
        at = up[at] >> 8
    before = path.states[shared - 1] if shared else state
    for j in range(<int>shared, <int>length):
        if before != DEAD:
            before = lexer_step(&engine.lexer, before, <uint8_t>(up[path.nodes[j]] & 0xFF))
        path.states[j] = before
    path.length = length
    return before


cdef bint _list_holders(
    const TablePool* pool, const uint32_t* text, uint32_t length, bint first, Words* nodes
) noexcept nogil:
    """Append the nodes of the main trie at which a text ends that is in a token, or comes
    ``first``; False where they are too many, or without memory."""
    cdef const uint32_t* up = pool.classes.up
    cdef uint32_t last = text[length - 1], i, j, node
    for i in range(pool.classes.nodes_at[last], pool.classes.nodes_at[last + 1]):
        node = pool.classes.nodes[i]
        j = length
        while j and node and (up[node] & 0xFF) == text[j - 1]:
            node = up[node] >> 8
            j -= 1
        if j == 0 and (node == 0 or not first) and (
            nodes.size == MOST_HOLDERS or words_push(nodes, pool.classes.nodes[i]) < 0
        ):
            return False
    return True


cdef void _remove_dead(
    Engine* engine, state_t state, const LoopKey* key, uint32_t node, Path* path
) noexcept nogil:
    """Remove those tokens of the class at a node and below it that are the end of the state."""
    cdef const Trie* trie = &engine.pool.trie
    cdef const uint32_t* up = engine.pool.classes.up
    cdef uint32_t end = trie.nodes[node].end
    while node < end and not engine.fault.code:
        if up[node] & 0xFF < 0x80 and not key_takes(key, <uint8_t>(up[node] & 0xFF)):
            node = trie.nodes[node].end  # an exit
        elif path_state(engine, up, node, state, path) == DEAD:
            inside_remove(engine, trie, trie.nodes[node].tokens_at, tokens_end(trie, node))
            node = trie.nodes[node].end
        else:
            node += 1


cdef bint _remove_holders(
    Engine* engine, state_t state, const LoopKey* key, const Words* texts, Path* path
) noexcept nogil:
    """Remove the tokens of the class that hold one of the texts, where that is the end of the
    state; False, and nothing removed, where they are too many. May set a fault."""
    cdef const Trie* trie = &engine.pool.trie
    cdef Words nodes, spare
    cdef size_t at = 0
    cdef uint32_t i, after = 0, below = 0
    cdef bint few = True
    memset(&nodes, 0, sizeof(Words))
    memset(&spare, 0, sizeof(Words))
    while few and at < texts.size:
        few = _list_holders(
            engine.pool, texts.at + at + 2, texts.at[at + 1], texts.at[at], &nodes
        )
        at += texts.at[at + 1] + 2
    few = few and words_sort(&nodes, 1, &spare) == 0
    for i in range(<uint32_t>nodes.size):
        if few and nodes.at[i] >= after:
            after = trie.nodes[nodes.at[i]].end
            below += after - nodes.at[i]
            few = below <= MOST_BELOW
    path.length = 0
    after = 0
    for i in range(<uint32_t>nodes.size):
        if few and nodes.at[i] >= after:
            # Where another reading lives on, what is the end of that may follow in the token.
            _remove_dead(engine, state, key, nodes.at[i], path)
            after = trie.nodes[nodes.at[i]].end
    words_free(&nodes)
    words_free(&spare)
    return few


cdef bint endless_explore(
    Engine* engine, uint32_t where, state_t state, Base* base
) noexcept nogil:
    """Fill ``base`` and the scratch of inside walks with what an endless state says about the main
    trie; False, and nothing filled, for another state or site. May set a fault."""
    cdef Trie* trie = engine.sites[where].trie
    cdef LoopKey key
    cdef Words texts
    cdef uint32_t loop
    cdef bint found
    if where != 0 or not engine.shortcuts & ENDLESS_STATES \
            or not engine.shortcuts & DIFFERENCE_MASKS or not is_heavy(engine, trie, 0) \
            or engine.pool.longest > LONGEST_PATH:
        return False
    string_key(&key)
    memset(&texts, 0, sizeof(Words))
    found = _is_endless(engine, state, &key, &texts)
    if found:
        loop = lexer_loop(&engine.lexer, state, engine.shortcuts & LENGTH_CLASSES)
        # Of a loop on all characters the table says more.
        found = loop == NONE or key.ascii[0] & ~engine.lexer.loops[loop].key.ascii[0] != 0 \
            or key.ascii[1] & ~engine.lexer.loops[loop].key.ascii[1] != 0
    found = found and engine.fault.code == 0 and _fill(engine, where, state, &key, &texts, base)
    words_free(&texts)
    return found and engine.fault.code == 0


cdef bint _fill(
    Engine* engine, uint32_t where, state_t state, const LoopKey* key, const Words* texts,
    Base* base
) noexcept nogil:
    """Fill what ``endless_explore`` fills; False where too many tokens hold one of the texts, or
    with a fault set."""
    cdef Table* table = table_of(engine, NULL, engine.sites[where].trie, 0, key)
    cdef const uint32_t* exits
    cdef const uint32_t* up
    cdef Path path
    cdef uint32_t i, count = 0, node
    cdef state_t before
    exits = classes_exits(engine.pool, &count, &up)
    if table == NULL or exits == NULL:
        fault_set(&engine.fault, FAULT_MEMORY)
        return False
    memset(base, 0, sizeof(Base))
    base.table = table
    base.bits = table.bits
    base.whole = NONE
    base.endless = True
    base.left = NONE
    base.over = NONE
    base.removed = <uint32_t>engine.removed.size
    if not _remove_holders(engine, state, key, texts, &path):
        return False
    base.removed_end = <uint32_t>engine.removed.size
    path.length = 0
    for i in range(count):
        node = exits[i]
        before = path_state(engine, up, up[node] >> 8, state, &path)
        if before == DEAD:
            continue
        before = lexer_step(&engine.lexer, before, <uint8_t>(up[node] & 0xFF))
        if before != DEAD and inside_visit(engine, where, node, before):
            inside_walk(engine, where, node, before)
        if engine.fault.code:
            return False
    return True
