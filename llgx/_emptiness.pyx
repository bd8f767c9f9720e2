# cython: language_level=3, boundscheck=False, wraparound=False
# cython: initializedcheck=False, cdivision=True
"""Exact emptiness of regexes with intersection and complement.

Without those a node is empty only if it is ``EMPTY``. With them, derivatives are searched for one
that matches, and every node on the way keeps its verdict, so that no lexer state holds a terminal
that can no longer match. Of the derivatives of a node the search goes on with the one that may be
nearest to a match: a pattern within bounds of length is mostly seen to match after a few steps.
Before that, a match is looked for straight ahead, by the first byte at each step that leads nearer
to one; as a rule that finds it, with a derivative or two a step.

Invariant: a verdict is right or, with a fault set, not kept. Cost: bounded by a number of
derivatives (``Regex.step_limit``), not by time; the look straight ahead is bounded by its length
and not counted.
"""

from libc.stdint cimport uint32_t, uint64_t, uint8_t
from libc.string cimport memset

from llgx._memory cimport (
    FAULT_EMPTINESS, FAULT_MEMORY, NONE, Map, Words, fault_set, map_free, map_get, map_put,
    words_free, words_push,
)
from llgx._regex cimport (
    ALT_KIND, AND_KIND, CONCAT_KIND, EMPTY, EPSILON, EXTENDABLE, EXTENDABLE_KNOWN, HARD, LIVE,
    LIVE_KNOWN, NULLABLE, REPEAT_KIND, Regex, class_is_in, node_t, regex_derive, regex_first,
    regex_words,
)
from llgx._saturation cimport regex_saturate, saturation_helps

cdef enum:
    LONGEST_DESCENT = 64 # bytes by which a match is looked for straight ahead


cdef inline int _verdict(const Regex* rx, node_t node) noexcept nogil:
    """1 live, 0 empty, -1 not known."""
    cdef uint8_t flags = rx.info[node].flags
    if not flags & HARD:
        return node != EMPTY
    if flags & NULLABLE:
        return 1
    if flags & LIVE_KNOWN:
        return 1 if flags & LIVE else 0
    return -1


cdef inline uint64_t _distance(const Regex* rx, node_t node) noexcept nogil:
    """How far a match may be: its least length, and then what all parts of ``&`` still ask for."""
    cdef const uint32_t* words
    cdef uint32_t i, total = 0
    cdef uint64_t least = rx.info[node].least
    if rx.info[node].flags & HARD:
        words = regex_words(rx, node)
        if words[0] == AND_KIND:
            for i in range(1, rx.nodes.entries[node].length):
                total += rx.info[words[i]].least
    return least << 32 | total


cdef void _sink(const Regex* rx, Words* todo, size_t base) noexcept nogil:
    """Put the newest pair in its place among those from ``base`` on: the nearest ones last."""
    cdef size_t at = todo.size - 2
    cdef uint32_t child = todo.at[at]
    cdef uint32_t parent = todo.at[at + 1]
    cdef uint64_t distance = _distance(rx, child)
    while at > base and _distance(rx, todo.at[at - 2]) < distance:
        todo.at[at] = todo.at[at - 2]
        todo.at[at + 1] = todo.at[at - 1]
        at -= 2
    todo.at[at] = child
    todo.at[at + 1] = parent


cdef bint _descends(Regex* rx, node_t node) noexcept nogil:
    """Whether a match is found by bytes each of which leads nearer to one. If so, the nodes on the
    way keep that they are live; if not, nothing is known."""
    cdef node_t path[LONGEST_DESCENT]
    cdef const uint64_t* first
    cdef uint32_t depth, i
    cdef uint64_t distance
    cdef node_t nearer, child
    cdef int verdict = -1
    for depth in range(LONGEST_DESCENT):
        path[depth] = node
        first = regex_first(rx, node)
        if first == NULL:
            return False
        distance = _distance(rx, node)
        nearer = EMPTY
        for i in range(rx.class_count):
            if not class_is_in(first, i):
                continue
            child = regex_derive(rx, node, i)
            verdict = _verdict(rx, child)
            if verdict == 1:
                break
            if verdict < 0 and _distance(rx, child) < distance:
                nearer = child
                break
        if rx.fault.code:
            return False
        if verdict == 1:
            for i in range(depth + 1):
                rx.info[path[i]].flags |= LIVE_KNOWN | LIVE
            return True
        if nearer == EMPTY:
            return False
        node = nearer
    return False


cdef bint regex_is_live(Regex* rx, node_t node) noexcept nogil:
    """Whether ``node`` matches any string. Exact, kept per node.

    What is asked is whether the node lives that stands for it where nothing more is read: it is one
    for all along a counter that has room for the way to a match.
    """
    cdef int verdict = _verdict(rx, node)
    cdef node_t alike = node
    if verdict >= 0:
        return verdict
    if saturation_helps(rx, node, 0):
        alike = regex_saturate(rx, node, 0)
        verdict = _verdict(rx, alike)
    if verdict < 0:
        verdict = _search(rx, alike)
    if rx.fault.code == 0:
        rx.info[node].flags |= LIVE_KNOWN | (LIVE if verdict else 0)
    return verdict


cdef bint _search(Regex* rx, node_t node) noexcept nogil:
    """Whether ``node`` matches any string, by a search; every node of it keeps its verdict.

    An edge leads from a node to nodes each of which, if live, makes it live; a node all of whose
    edges lead to empty nodes is empty. So the nodes seen are all empty when none of them is live.
    """
    cdef Words todo            # pairs: node, index of its parent in ``seen``
    cdef Words seen            # pairs: node, index of its parent in ``seen``
    cdef Map known
    cdef const uint32_t* words
    cdef const uint64_t* first
    cdef uint32_t i, length, at, parent
    cdef node_t child
    cdef size_t base
    cdef int verdict
    cdef bint live = False
    if _descends(rx, node):
        return True  # as a rule
    if rx.live_depth == 0:
        rx.live_steps = 0
    rx.live_depth += 1
    memset(&todo, 0, sizeof(Words))
    memset(&seen, 0, sizeof(Words))
    memset(&known, 0, sizeof(Map))
    if words_push(&todo, node) < 0 or words_push(&todo, NONE) < 0:
        fault_set(rx.fault, FAULT_MEMORY)
    while todo.size and not rx.fault.code:
        parent = todo.at[todo.size - 1]
        child = todo.at[todo.size - 2]
        todo.size -= 2
        verdict = _verdict(rx, child)
        if verdict == 0 or map_get(&known, 0, child) != NONE:
            continue
        at = <uint32_t>(seen.size // 2)
        if map_put(&known, 0, child, at) < 0 or words_push(&seen, child) < 0 \
                or words_push(&seen, parent) < 0:
            fault_set(rx.fault, FAULT_MEMORY)
            break
        if verdict == 1:
            live = True
            while at != NONE:
                rx.info[seen.at[2 * at]].flags |= LIVE_KNOWN | LIVE
                at = seen.at[2 * at + 1]
            break
        words = regex_words(rx, child)
        length = rx.nodes.entries[child].length
        if words[0] == ALT_KIND:
            for i in range(1, length):
                if words_push(&todo, words[i]) < 0 or words_push(&todo, at) < 0:
                    fault_set(rx.fault, FAULT_MEMORY)
        elif words[0] == CONCAT_KIND:
            if regex_is_live(rx, words[2]):
                if words_push(&todo, words[1]) < 0 or words_push(&todo, at) < 0:
                    fault_set(rx.fault, FAULT_MEMORY)
        elif words[0] == REPEAT_KIND:
            if words_push(&todo, words[1]) < 0 or words_push(&todo, at) < 0:
                fault_set(rx.fault, FAULT_MEMORY)
        else:
            base = todo.size
            first = regex_first(rx, seen.at[2 * at])
            for i in range(rx.class_count):
                if first == NULL or not class_is_in(first, i):
                    continue
                rx.live_steps += 1
                child = regex_derive(rx, seen.at[2 * at], i)
                verdict = _verdict(rx, child)
                if verdict == 0:
                    continue
                if words_push(&todo, child) < 0 or words_push(&todo, at) < 0:
                    fault_set(rx.fault, FAULT_MEMORY)
                    break
                if verdict == 1:
                    break
                _sink(rx, &todo, base)
        rx.live_steps += 1
        if rx.live_steps > rx.step_limit:
            fault_set(rx.fault, FAULT_EMPTINESS)
    rx.live_depth -= 1
    if not live and not rx.fault.code:
        for at in range(seen.size // 2):
            rx.info[seen.at[2 * at]].flags |= LIVE_KNOWN
    words_free(&todo)
    words_free(&seen)
    map_free(&known)
    return live


cdef bint regex_is_extendable(Regex* rx, node_t node) noexcept nogil:
    """Whether ``node`` matches any string that is not empty. Exact, kept per node."""
    cdef uint32_t i
    cdef bint found = False
    if not rx.info[node].flags & HARD:
        return node > EPSILON
    if rx.info[node].flags & EXTENDABLE_KNOWN:
        return rx.info[node].flags & EXTENDABLE
    for i in range(rx.class_count):
        if regex_is_live(rx, regex_derive(rx, node, i)):
            found = True
            break
    if not rx.fault.code:
        rx.info[node].flags |= EXTENDABLE_KNOWN | (EXTENDABLE if found else 0)
    return found
