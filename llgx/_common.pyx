# cython: language_level=3, boundscheck=False, wraparound=False
# cython: initializedcheck=False, cdivision=True
"""Regexes that most grammars of a front end hold: lowered once for each vocabulary.

A JSON Schema's own terminals are few beside strings, numbers and punctuation, which each grammar
had to lower, check for emptiness and tell the byte classes of again. Here a pool of nodes is made
of them once; a new grammar starts with a copy of it, and lowers what it has beyond that.

Invariant: a pool is never changed once it is made. Which trees are in it is told by the front end
(``GrammarIR.common``); whether a grammar holds them makes no difference to its language. Pools are
kept by the identity of that tuple, the last few of a vocabulary.

Cost: a copy is linear in the pool, some microseconds for that of JSON.
"""

from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport malloc
from libc.string cimport memcpy

from llgx._byte_classes cimport regex_freeze_classes
from llgx._emptiness cimport regex_is_live
from llgx._lower cimport raise_fault, regex_lower
from llgx._memory cimport interner_copy, map_copy
from llgx._regex cimport (
    NodeInfo, node_t, regex_clear, regex_free, regex_init, regex_nonempty,
)
from llgx._trie cimport TokenTrie

from llgx.limits import DEFAULT_LIMITS

cdef enum:
    MOST_POOLS = 8           # of one vocabulary


cdef void regex_measure(Regex* rx, const TablePool* pool) noexcept nogil:
    """Tell ``rx`` how long the tokens are that its texts will be cut into."""
    cdef uint32_t i
    rx.saturation = pool.longest
    rx.level_count = pool.level_count
    for i in range(pool.level_count):
        rx.levels[i] = pool.levels[i].bytes
    rx.text = pool.text
    rx.text_at = pool.text_at
    rx.long_tokens = pool.long_tokens
    rx.long_count = pool.long_count
    rx.long_rest = pool.long_rest


cdef class CommonRegexes:
    """A pool of lowered ``trees``. Made by :func:`common_regexes`."""

    def __dealloc__(self):
        regex_free(&self.rx)

    cdef int lower(self) except -1:
        """Lower the trees. ``ValueError`` or ``GrammarError`` for one that is none."""
        cdef object limits = DEFAULT_LIMITS
        cdef node_t node
        self.memo = {}
        # Not as whole trees, which are not kept.
        for tree in self.trees:
            node = regex_nonempty(&self.rx, regex_lower(&self.rx, tree, self.memo, {}, 1))
            raise_fault(&self.fault, limits)
        regex_freeze_classes(&self.rx)
        for tree in self.trees:
            node = regex_nonempty(&self.rx, regex_lower(&self.rx, tree, self.memo, {}, 1))
            regex_is_live(&self.rx, node)
            raise_fault(&self.fault, limits)
        # What a match may begin with is told by classes, and those of a grammar are finer.
        for node in range(self.rx.nodes.count):
            self.rx.info[node].first = NULL
        return 0

    cdef int copy_to(self, Regex* rx) except -1:
        """Make ``rx``, which is new, hold the nodes of the pool under the same ids."""
        if _copy(rx, &self.rx) < 0:
            raise MemoryError
        return 0


cdef int _copy(Regex* rx, const Regex* source) noexcept nogil:
    """Nodes and what is known of them; settings stay. -1 when memory is out: ``rx`` is to be freed.
    """
    regex_clear(rx)
    if interner_copy(&rx.nodes, &source.nodes) < 0:
        return -1
    rx.info = <NodeInfo*>malloc(source.info_room * sizeof(NodeInfo))
    rx.bytes = <uint8_t*>malloc(source.bytes_room + 1)
    if rx.info == NULL or rx.bytes == NULL:
        return -1
    memcpy(rx.info, source.info, source.nodes.count * sizeof(NodeInfo))
    rx.info_room = source.info_room
    if source.bytes_size:
        memcpy(rx.bytes, source.bytes, source.bytes_size)
    rx.bytes_size = source.bytes_size
    rx.bytes_room = source.bytes_room
    memcpy(rx.classes, source.classes, 256)
    memcpy(rx.sample, source.sample, 256)
    rx.class_count = source.class_count
    rx.classed = source.classed
    if map_copy(&rx.derivatives, &source.derivatives) < 0 \
            or map_copy(&rx.saturated, &source.saturated) < 0 \
            or map_copy(&rx.lengths, &source.lengths) < 0 \
            or map_copy(&rx.nonempty, &source.nonempty) < 0:
        return -1
    return 0


cdef CommonRegexes common_regexes(TokenTrie trie, tuple trees, bint through_and):
    """The pool of ``trees`` for the vocabulary of ``trie``: made when it is first asked for."""
    cdef tuple key = (id(trees), through_and)
    cdef CommonRegexes found = trie.common.get(key)
    if found is None:
        found = CommonRegexes.__new__(CommonRegexes)
        found.trees = trees
        if regex_init(&found.rx, &found.fault) < 0:
            raise MemoryError
        regex_measure(&found.rx, &trie.pool)
        found.rx.through_and = through_and
        found.lower()
        while len(trie.common) >= MOST_POOLS:
            trie.common.pop(next(iter(trie.common)), None)
        trie.common[key] = found
    return found
