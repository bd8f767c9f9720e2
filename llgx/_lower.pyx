# cython: language_level=3, boundscheck=False, wraparound=False
# cython: initializedcheck=False, cdivision=True
"""From the regex trees of ``llgx.ir`` to nodes, and from faults to exceptions.

The only place where the regex pool meets Python objects. Invariant: a node stands for the language
of its tree; literals of one alternation are factored by prefix, so that a derivative looks at one
branch per byte and not at each literal.

Cost: linear in the tree, shared parts once.
"""

from cpython.dict cimport PyDict_GetItem
from cpython.object cimport PyObject
from libc.stdint cimport uint32_t
from libc.string cimport memcpy

from llgx._ir cimport (
    Alternation, ByteSet, Complement, Concat, Intersection, Literal, Remainder, Repeat,
    Substring,
)
from llgx._memory cimport (
    FAULT_EMPTINESS, FAULT_EXACT_PAIRS, FAULT_LEXER_STATES, FAULT_MEMORY, FAULT_NONE,
    FAULT_REGEX_DEPTH, FAULT_REGEX_NODES, FAULT_ROWS, FAULT_ROW_ITEMS, FAULT_SCOPES, NONE, Fault,
    words_push,
)
from llgx._regex cimport (
    EMPTY, EPSILON, PART_FRACTION, PART_INTEGER, PART_POINT, SPELL_INTEGER, SPELL_SHORTEST,
    SPELL_ZEROS, Regex, node_t, regex_alt, regex_and, regex_bytes, regex_concat, regex_literal,
    regex_not, regex_remainder, regex_repeat,
)
from llgx._substring cimport substring_lower

from llgx import ir as _ir
from llgx.errors import GrammarError, LimitError


# --------------------------------------------------------------------------- faults

cdef dict _LIMIT_OF_FAULT = {
    FAULT_REGEX_NODES: ("regex_nodes", "the grammar's regexes have too many residuals"),
    FAULT_REGEX_DEPTH: ("regex_depth", "a regex is nested too deeply"),
    FAULT_EMPTINESS: ("emptiness_steps", "it takes too long to tell whether a regex is empty"),
    FAULT_LEXER_STATES: ("lexer_states", "the lexer has too many states"),
    FAULT_ROWS: ("rows", "the parser has too many rows"),
    FAULT_ROW_ITEMS: ("row_items", "a parser row has too many items, or too many ways to them"),
    FAULT_EXACT_PAIRS: ("exact_pairs", "exact lexing has to follow too many ways at a time"),
    FAULT_SCOPES: ("scopes", "there are too many lexemes to be told apart"),
}


cdef int raise_fault(Fault* fault, object limits) except -1:
    """Turn a fault, if there is one, into its exception and clear it."""
    cdef int code = fault.code
    if code == FAULT_NONE:
        return 0
    fault.code = FAULT_NONE
    if code == FAULT_MEMORY:
        raise MemoryError("llgx: out of memory")
    name, message = _LIMIT_OF_FAULT[code]
    raise LimitError(f"{message} (limit {getattr(limits, name)})", limit=name)


# --------------------------------------------------------------------------- trees

cdef int _push(Regex* rx, node_t node) except -1:
    if words_push(&rx.stack, node) < 0:
        raise MemoryError
    return 0


cdef node_t _literal_of(Regex* rx, bytes data) noexcept:
    return regex_literal(rx, data, <uint32_t>len(data))


cdef Py_ssize_t _common(bytes left, bytes right):
    cdef Py_ssize_t i = 0
    while i < len(left) and i < len(right) and left[i] == right[i]:
        i += 1
    return i


cdef node_t _factor(Regex* rx, list texts) except? 0:
    """Literals, sorted and different, as a tree by prefix.

    So that a derivative looks at one branch per byte, not at each literal. The branches under way
    are on the scratch stack; ``levels`` says at how many bytes they part and where their items
    begin.
    """
    cdef list levels = []
    cdef Py_ssize_t following, depth = 0, parent, outer, place
    cdef size_t base = rx.stack.size
    cdef bytes text
    cdef node_t node
    # (depth, base) is the innermost level; ``levels`` holds those around it.
    for place in range(len(texts)):
        text = texts[place]
        following = _common(text, texts[place + 1]) if place + 1 < len(texts) else 0
        if following > depth:
            levels.append((depth, base))
            depth = following
            base = rx.stack.size
        _push(rx, _literal_of(rx, text[depth:]))
        while depth > following:
            node = regex_alt(rx, base)
            parent = depth
            depth, base = levels.pop()
            outer = depth if depth > following else following
            node = regex_concat(rx, _literal_of(rx, text[outer:parent]), node)
            if depth < outer:
                levels.append((depth, base))
                depth = outer
                base = rx.stack.size
            _push(rx, node)
    return regex_alt(rx, base)


cdef dict _PARTS = {
    "integer": PART_INTEGER,
    "point": PART_POINT,
    "fraction": PART_FRACTION,
}
cdef dict _SPELLINGS = {
    "none": SPELL_INTEGER,
    "zeros": SPELL_ZEROS,
    "shortest": SPELL_SHORTEST,
}


cdef node_t _lower_remainder(Regex* rx, object tree) except? 0:
    cdef uint32_t shape
    high = NONE if tree.high is None else tree.high
    if tree.modulus < 1 or tree.part not in _PARTS or tree.fraction not in _SPELLINGS:
        raise ValueError(f"not a remainder: {tree!r}")
    if tree.low < 0 or tree.low >= NONE or high < tree.low or high > NONE:
        raise ValueError(f"bounds {tree.low}, {tree.high} of a remainder out of range")
    if not 0 <= tree.places <= _ir.MAX_PLACES or (tree.places and tree.fraction == "none"):
        raise ValueError(f"{tree.places} places of a remainder out of range")
    if tree.part != "integer" and tree.fraction == "none":
        raise ValueError("a remainder without a fraction does not begin in one")
    if tree.modulus > _ir.MAX_MODULUS:
        raise GrammarError(
            f"a remainder modulo {tree.modulus:.3e}: the largest modulus is {_ir.MAX_MODULUS:.0e}"
        )
    shape = _PARTS[tree.part] | _SPELLINGS[tree.fraction]
    return regex_remainder(
        rx, tree.modulus, tree.residue % tree.modulus, tree.low, high, tree.places, shape
    )


cdef inline PyObject* _known(dict memo, dict common, object key):
    """The node of ``key``, borrowed; NULL if there is none."""
    cdef PyObject* found = PyDict_GetItem(common, key)
    return PyDict_GetItem(memo, key) if found == NULL else found


cdef node_t regex_lower(Regex* rx, object tree, dict memo, dict common, int depth) except? 0:
    """The node of an ``llgx.ir`` tree. Linear in the tree; equal literals share their text.

    What is found is kept in ``memo``, by the identity of trees and the text of literals, but for
    whole trees (``depth`` 0), of which few come twice: the trees have to live as long. ``common``
    is such a memo too, which is not added to.
    """
    cdef node_t node
    cdef size_t base
    cdef uint32_t bits[8]
    cdef object place, low, high
    cdef PyObject* known
    cdef bytes data
    cdef tuple parts
    cdef Py_ssize_t at
    if depth > <int>rx.depth_limit:
        raise LimitError("a regex is nested too deeply", limit="regex_depth")
    kind = type(tree)
    if rx.fault.code:
        return EMPTY  # the caller raises
    if kind is Literal:
        data = (<Literal>tree).data
        known = _known(memo, common, data)
        if known != NULL:
            return <object>known
        node = regex_literal(rx, data, <uint32_t>len(data))
        memo[data] = node
        return node
    place = <Py_ssize_t><PyObject*>tree
    known = _known(memo, common, place)
    if known != NULL:
        return <object>known
    if kind is ByteSet:
        data = ((<ByteSet>tree).mask & ((1 << 256) - 1)).to_bytes(32, "little")
        memcpy(bits, <const char*>data, 32)
        node = regex_bytes(rx, bits)
    elif kind is Concat:
        node = EPSILON
        parts = (<Concat>tree).items
        for at in range(len(parts) - 1, -1, -1):
            node = regex_concat(rx, regex_lower(rx, parts[at], memo, common, depth + 1), node)
    elif kind is Alternation or kind is Intersection:
        items = (<Alternation>tree).items if kind is Alternation else (<Intersection>tree).items
        base = rx.stack.size
        if kind is Alternation and len(items) > 8:
            literals = sorted({item.data for item in items if type(item) is Literal})
            if len(literals) > 8:
                items = [item for item in items if type(item) is not Literal]
                _push(rx, _factor(rx, literals))
        for item in items:
            node = regex_lower(rx, item, memo, common, depth + 1)
            _push(rx, node)
        if kind is Alternation:
            node = regex_alt(rx, base)
        else:
            node = regex_and(rx, base)
    elif kind is Complement:
        node = regex_not(rx, regex_lower(rx, (<Complement>tree).item, memo, common, depth + 1))
    elif kind is Repeat:
        node = regex_lower(rx, (<Repeat>tree).item, memo, common, depth + 1)
        low, high = (<Repeat>tree).low, (<Repeat>tree).high
        if low < 0 or (high is not None and high < low):
            raise ValueError(f"repeat bounds {low}, {high} out of range")
        if low >= NONE:
            raise GrammarError("a regex asks for more than 4 billion times the same")
        # More than 4 billion times is as good as any number of times.
        node = regex_repeat(rx, node, low, NONE if high is None or high > NONE else high)
    elif kind is Remainder:
        node = _lower_remainder(rx, tree)
    elif kind is Substring:
        node = substring_lower(rx, (<Substring>tree).pieces)
    else:
        raise TypeError(f"not a regex tree: {tree!r}")
    if depth:
        memo[place] = node
    return node
