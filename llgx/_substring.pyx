# cython: language_level=3, boundscheck=False, wraparound=False
# cython: initializedcheck=False, cdivision=True
"""Any run of consecutive pieces of a text, as one regex of linear size.

The runs are the words of the suffix automaton of the pieces (Blumer et al., *The smallest automaton
recognizing the subwords of a text*, 1985), which has at most two states and three transitions a
piece; every state accepts. A state is a node: nothing, or a piece and the node that it leads to.
Longer runs lead to later places of the text, so nodes are made from its end.

Invariant: a chain of nodes is as long as the text, but not deep: what follows a text is not looked
at before the text has been read, so a derivative needs the stack of one state.

Cost: linear in the pieces, about 2 µs each, and 130 bytes of nodes.
"""

from libc.stdlib cimport free, malloc

from llgx._memory cimport words_push
from llgx._regex cimport (
    EMPTY, EPSILON, Regex, node_t, regex_alt, regex_concat, regex_literal,
)

from llgx.errors import LimitError

cdef enum:
    WIDE = 8     # more transitions than this are grouped by their first bytes,
    GROUPED = 4  # this many bytes deep


cdef class _SuffixAutomaton:
    """States are numbers, 0 is the start."""

    cdef list lengths    # of the longest run that leads to a state
    cdef list following  # states by piece
    cdef list links

    def __init__(self, pieces, Py_ssize_t most):
        cdef Py_ssize_t last = 0
        self.lengths = [0]
        self.following = [{}]
        self.links = [-1]
        for piece in pieces:
            if piece:
                last = self._extend(last, piece)
                if len(self.links) > most:
                    raise LimitError(
                        f"a regex of the runs of {len(pieces)} pieces", limit="regex_nodes"
                    )

    cdef Py_ssize_t _add(self, Py_ssize_t length, dict following, Py_ssize_t link):
        self.lengths.append(length)
        self.following.append(following)
        self.links.append(link)
        return len(self.links) - 1

    cdef Py_ssize_t _extend(self, Py_ssize_t last, bytes piece):
        cdef Py_ssize_t length = self.lengths[last]
        cdef Py_ssize_t current = self._add(length + 1, {}, 0)
        cdef Py_ssize_t state = last, target, copy
        cdef dict onward
        while state >= 0:
            onward = self.following[state]
            if piece in onward:
                break
            onward[piece] = current
            state = self.links[state]
        if state < 0:
            return current
        target = onward[piece]
        length = self.lengths[state]
        if length + 1 == self.lengths[target]:
            self.links[current] = target
            return current
        copy = self._add(length + 1, dict(self.following[target]), self.links[target])
        while state >= 0:
            onward = self.following[state]
            if onward.get(piece) != target:
                break
            onward[piece] = copy
            state = self.links[state]
        self.links[target] = self.links[current] = copy
        return current


cdef int _push(Regex* rx, node_t node) except -1:
    if words_push(&rx.stack, node) < 0:
        raise MemoryError
    return 0


cdef int _push_edges(Regex* rx, list edges, int depth) except -1:
    """Push one node for each of ``edges``, text and the node behind it, or for each first byte.

    Grouped by first byte a few bytes deep where they are many, so that a derivative looks at one
    branch and not at each.
    """
    cdef dict groups
    cdef size_t base
    cdef bytes text
    cdef node_t node
    if len(edges) <= WIDE or depth == GROUPED:
        for text, node in edges:
            _push(rx, regex_concat(rx, regex_literal(rx, text, <unsigned int>len(text)), node))
        return 0
    groups = {}
    for text, node in edges:
        groups.setdefault(text[:1], []).append((text[1:], node))
    for text, edges in groups.items():
        base = rx.stack.size
        _push_edges(rx, edges, depth + 1)
        node = regex_alt(rx, base)
        _push(rx, regex_concat(rx, regex_literal(rx, text, <unsigned int>len(text)), node))
    return 0


cdef node_t substring_lower(Regex* rx, tuple pieces) except? 0:
    """The node for ``ir.Substring(pieces)``; EMPTY with a fault set where nodes run out."""
    cdef _SuffixAutomaton automaton = _SuffixAutomaton(pieces, rx.node_limit)
    cdef Py_ssize_t count = len(automaton.links), state
    cdef list edges
    cdef size_t base
    cdef node_t node = EPSILON
    cdef node_t* nodes = <node_t*>malloc(count * sizeof(node_t))
    if nodes == NULL:
        raise MemoryError
    try:
        for state in sorted(range(count), key=automaton.lengths.__getitem__, reverse=True):
            if rx.fault.code:
                return EMPTY
            base = rx.stack.size
            _push(rx, EPSILON)
            edges = [
                (piece, nodes[<Py_ssize_t>target])
                for piece, target in (<dict>automaton.following[state]).items()
            ]
            _push_edges(rx, edges, 0)
            node = nodes[state] = regex_alt(rx, base)
    finally:
        free(nodes)
    return node
