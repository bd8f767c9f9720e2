# cython: language_level=3, boundscheck=False, wraparound=False
# cython: initializedcheck=False, cdivision=True
"""Questions about regular languages, for front ends: emptiness, membership, enumeration.

A :class:`Language` holds regexes in one pool of :mod:`llgx._regex`, so that what one question finds
out serves the next. All trees are given at once: the byte classes depend on every one of them.

Invariant: answers are exact. Work is bounded by counts (``Limits.regex_nodes``, and per question
``Limits.emptiness_steps``), beyond which :class:`LimitError` is raised; the object stays usable.

Cost: lowering is linear in the trees, about 10 microseconds for small ones; a question costs one
derivative per new (node, byte class).
"""

from libc.stdint cimport uint32_t

from llgx._emptiness cimport regex_is_live
from llgx._lower cimport raise_fault, regex_lower
from llgx._memory cimport FAULT_EMPTINESS, Fault, fault_set, words_push
from llgx._byte_classes cimport regex_freeze_classes
from llgx._regex cimport (
    ALL, EMPTY, Regex, node_t, regex_and, regex_derive, regex_free,
    regex_init, regex_not, regex_nullable,
)

from llgx.limits import DEFAULT_LIMITS


cdef class Language:
    """Regexes by index, and what can be asked about some of them together.

    Raises ``LimitError`` for trees that pass a cap and ``GrammarError`` for a remainder that the
    engine does not do.
    """

    cdef Regex rx
    cdef Fault fault
    cdef object limits
    cdef list nodes

    def __cinit__(self, trees, limits=None):
        cdef dict memo = {}
        cdef tuple kept = tuple(trees)
        self.limits = DEFAULT_LIMITS if limits is None else limits
        self.nodes = []
        if regex_init(&self.rx, &self.fault) < 0:
            raise MemoryError
        self.rx.node_limit = min(self.limits.regex_nodes, 0x7FFFFFFF)
        self.rx.depth_limit = min(self.limits.regex_depth, 20000)
        self.rx.step_limit = min(self.limits.emptiness_steps, 0x7FFFFFFF)
        for tree in kept:
            self.nodes.append(regex_lower(&self.rx, tree, memo, {}, 0))
            raise_fault(&self.fault, self.limits)
        regex_freeze_classes(&self.rx)

    def __dealloc__(self):
        regex_free(&self.rx)

    def __len__(self) -> int:
        return len(self.nodes)

    cdef node_t _at(self, index) except? 0:
        if not 0 <= index < len(self.nodes):
            raise IndexError(f"no regex {index} among {len(self.nodes)}")
        return self.nodes[index]

    cdef node_t _meet(self, every, none) except? 0:
        cdef size_t base = self.rx.stack.size
        cdef list chosen = [self._at(index) for index in every]
        cdef list others = [self._at(index) for index in none]
        cdef node_t node
        for item in chosen:
            if words_push(&self.rx.stack, item) < 0:
                raise MemoryError
        for item in others:
            node = regex_not(&self.rx, item)
            if words_push(&self.rx.stack, node) < 0:
                raise MemoryError
        node = regex_and(&self.rx, base)
        raise_fault(&self.fault, self.limits)
        return node

    def is_empty(self, every, none=()) -> bool:
        """Whether no byte string is in all of ``every`` and in none of ``none`` (indexes).

        Exact. Raises ``LimitError`` beyond ``Limits.emptiness_steps`` derivatives.
        """
        cdef node_t node = self._meet(every, none)
        cdef bint live = regex_is_live(&self.rx, node)
        raise_fault(&self.fault, self.limits)
        return not live

    def matches(self, index: int, data: bytes) -> bool:
        """Whether ``data`` is in the language ``index``. A derivative per byte."""
        cdef node_t node = self._at(index)
        cdef const unsigned char* at = data
        cdef Py_ssize_t i
        for i in range(len(data)):
            node = regex_derive(&self.rx, node, self.rx.classes[at[i]])
            if node == EMPTY:
                break
        raise_fault(&self.fault, self.limits)
        return regex_nullable(&self.rx, node)

    def enumerate(self, every, none, limit: int) -> list[bytes] | None:
        """The strings in all of ``every`` and none of ``none``, shortest first, then by bytes.

        None if there are more than ``limit``. Raises ``LimitError`` beyond
        ``Limits.emptiness_steps`` derivatives.
        """
        cdef node_t node, after
        cdef uint32_t byte
        cdef uint32_t steps = 0
        cdef list found = [], level, following
        node = self._meet(every, none)
        level = [(b"", node)] if regex_is_live(&self.rx, node) else []
        raise_fault(&self.fault, self.limits)
        while level:
            # Each of these prefixes begins a string of its own.
            if len(level) + len(found) > limit:
                return None
            following = []
            for prefix, item in level:
                node = item
                if node == ALL:
                    return None
                if regex_nullable(&self.rx, node):
                    found.append(prefix)
                for byte in range(256):
                    after = regex_derive(&self.rx, node, self.rx.classes[byte])
                    if after != EMPTY and regex_is_live(&self.rx, after):
                        following.append((prefix + bytes((byte,)), after))
                steps += self.rx.class_count
                if steps > self.rx.step_limit:
                    fault_set(&self.fault, FAULT_EMPTINESS)
                raise_fault(&self.fault, self.limits)
                if len(following) > limit:
                    return None
            level = following
        return found

    def count_states(self, index: int, limit: int) -> int | None:
        """How many live residuals the language ``index`` has, its DFA's states; None above
        ``limit``."""
        cdef node_t node = self._at(index), after
        cdef uint32_t i
        cdef set seen = {node}
        cdef list todo = [node]
        while todo:
            node = todo.pop()
            for i in range(self.rx.class_count):
                after = regex_derive(&self.rx, node, i)
                if after not in seen and regex_is_live(&self.rx, after):
                    seen.add(after)
                    todo.append(after)
            raise_fault(&self.fault, self.limits)
            if len(seen) > limit:
                return None
        return len(seen)

    def automaton(self, index: int, limit: int) -> list[tuple[bool, list[int]]] | None:
        """The DFA of the language ``index``, its start first; None above ``limit`` states.

        A state is whether it accepts, and by byte the state after it, or -1 where no string of the
        language goes on. States are live; an empty language has one that does not accept.
        """
        cdef node_t node = self._at(index), after
        cdef uint32_t i, byte
        cdef dict numbers = {node: 0}
        cdef list order = [node], states = [], by_class
        cdef Py_ssize_t at = 0
        while at < len(order):
            node = order[at]
            by_class = []
            for i in range(self.rx.class_count):
                after = regex_derive(&self.rx, node, i)
                if after == EMPTY or not regex_is_live(&self.rx, after):
                    by_class.append(-1)
                    continue
                if after not in numbers:
                    numbers[after] = len(order)
                    order.append(after)
                by_class.append(numbers[after])
            raise_fault(&self.fault, self.limits)
            if len(order) > limit:
                return None
            states.append((
                bool(regex_nullable(&self.rx, node)),
                [by_class[self.rx.classes[byte]] for byte in range(256)],
            ))
            at += 1
        return states
