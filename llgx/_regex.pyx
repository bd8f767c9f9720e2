# cython: language_level=3, boundscheck=False, wraparound=False
# cython: initializedcheck=False, cdivision=True
"""Hash-consed regexes over bytes and their derivatives.

A node is an interned word sequence, so equal content is one id and a derivative can be memoised by
(node, byte class). The constructors keep nodes in a normal form (flat and sorted alternatives, one
byte set per alternation, right-leaning concatenations, merged counters) under which the residuals
of a pattern are few: that is what makes the lazy DFA above this module finite and small.

*Counted repeats* are nodes with two counters: ``a{0,65536}`` costs what ``a{0,5}`` does. Ambiguous
bodies give alternatives that differ in the counters alone; overlapping ones are merged into one,
and those that another one with wider counters stands for are dropped.

*Remainders* are the digits of the multiples of a number. A residual is a residue, so a modulus of a
million is a node until digits are read; whether a residue can still become zero is arithmetic.

Method: Brzozowski, "Derivatives of regular expressions" (1964), with the similarity rules of Owens,
Reppy and Turon, "Regular-expression derivatives re-examined" (2009). A derivative costs time linear
in the node, once per (node, byte class); memory is about 40 bytes a node.
"""

from libc.stdint cimport uint16_t, uint32_t, uint64_t, uint8_t
from libc.stdlib cimport free, qsort, realloc
from libc.string cimport memcpy, memset

from llgx._memory cimport (
    FAULT_MEMORY, FAULT_REGEX_DEPTH, FAULT_REGEX_NODES, NONE, UNKNOWN, Fault, arena_free,
    arena_take, array_grown, fault_set, interner_drop, interner_free, interner_put, map_free,
    map_get, map_put, words_free, words_push,
)


# --------------------------------------------------------------------------- nodes

cdef int _compare_words(const void* left, const void* right) noexcept nogil:
    cdef uint32_t a = (<const uint32_t*>left)[0]
    cdef uint32_t b = (<const uint32_t*>right)[0]
    return (a > b) - (a < b)


cdef inline uint32_t _max(uint32_t a, uint32_t b) noexcept nogil:
    return a if a > b else b


cdef node_t _node(Regex* rx, const uint32_t* words, uint32_t length) noexcept nogil:
    """Intern a node and fill in what is known of it; EMPTY with a fault set when that fails."""
    cdef uint32_t before = rx.nodes.count
    cdef uint32_t i, child
    cdef NodeInfo* info
    cdef uint8_t flags = 0
    cdef uint32_t depth = 0
    cdef node_t node
    if rx.fault.code:
        return EMPTY
    node = interner_put(&rx.nodes, words, length)
    if node == NONE:
        fault_set(rx.fault, FAULT_MEMORY)
        return EMPTY
    if rx.nodes.count == before:
        return node
    info = <NodeInfo*>array_grown(rx.info, &rx.info_room, node, sizeof(NodeInfo))
    if info == NULL:
        interner_drop(&rx.nodes)
        fault_set(rx.fault, FAULT_MEMORY)
        return EMPTY
    rx.info = info
    words = rx.nodes.entries[node].words
    if words[0] == EPSILON_KIND:
        flags = NULLABLE
    elif words[0] == CONCAT_KIND:
        flags = rx.info[words[1]].flags & rx.info[words[2]].flags & NULLABLE
        flags |= (rx.info[words[1]].flags | rx.info[words[2]].flags) & HARD
        depth = rx.info[words[1]].depth
        if rx.info[words[1]].flags & NULLABLE or rx.info[words[2]].flags & HARD:
            depth = _max(depth, rx.info[words[2]].depth)
    elif words[0] == ALT_KIND:
        for i in range(1, length):
            flags |= rx.info[words[i]].flags & (NULLABLE | HARD)
            depth = _max(depth, rx.info[words[i]].depth)
    elif words[0] == AND_KIND:
        flags = NULLABLE
        for i in range(1, length):
            flags &= rx.info[words[i]].flags
            depth = _max(depth, rx.info[words[i]].depth)
        flags |= HARD
    elif words[0] == NOT_KIND:
        flags = HARD | (0 if rx.info[words[1]].flags & NULLABLE else NULLABLE)
        depth = rx.info[words[1]].depth
    elif words[0] == REPEAT_KIND:
        flags = rx.info[words[1]].flags & (NULLABLE | HARD)
        if words[2] == 0:
            flags |= NULLABLE
        if regex_is_beyond(rx, words, rx.saturation):
            flags |= COUNTED
        if rx.level_count and regex_is_beyond(rx, words, rx.levels[0]):
            flags |= COUNTED_FAR
        depth = rx.info[words[1]].depth
    elif words[0] == REMAINDER_KIND:
        if words[3] == 0 and words[4] == 0 and words[5] == 0 and \
                words[8] & PART_MASK != PART_POINT:
            flags = NULLABLE
    if words[0] == CONCAT_KIND:
        flags |= (rx.info[words[1]].flags | rx.info[words[2]].flags) & (COUNTED | COUNTED_FAR)
    elif words[0] == ALT_KIND:
        for i in range(1, length):
            flags |= rx.info[words[i]].flags & (COUNTED | COUNTED_FAR)
    elif words[0] == REPEAT_KIND:
        flags |= rx.info[words[1]].flags & (COUNTED | COUNTED_FAR)
    rx.info[node].kind = <uint8_t>words[0]
    rx.info[node].flags = flags
    rx.info[node].depth = <uint16_t>(depth + 1)
    rx.info[node].first = NULL
    rx.info[node].shared = UNKNOWN
    rx.info[node].digest = 0
    rx.info[node].least = _least(rx, words, length)
    if depth + 1 > rx.depth_limit:
        fault_set(rx.fault, FAULT_REGEX_DEPTH)
    if rx.nodes.count > rx.node_limit:
        fault_set(rx.fault, FAULT_REGEX_NODES)
    return node


cdef uint32_t _least(const Regex* rx, const uint32_t* words, uint32_t length) noexcept nogil:
    """See ``NodeInfo.least``: read off the parts, so that ``&`` and ``~`` may ask for more."""
    cdef uint64_t least = 0
    cdef uint32_t i
    if words[0] == BYTES_KIND:
        least = 1
    elif words[0] == LITERAL_KIND:
        least = words[2]
    elif words[0] == CONCAT_KIND:
        least = <uint64_t>rx.info[words[1]].least + rx.info[words[2]].least
    elif words[0] == ALT_KIND:
        least = rx.info[words[1]].least
        for i in range(2, length):
            if rx.info[words[i]].least < least:
                least = rx.info[words[i]].least
    elif words[0] == AND_KIND:
        for i in range(1, length):
            if rx.info[words[i]].least > least:
                least = rx.info[words[i]].least
    elif words[0] == REPEAT_KIND:
        least = <uint64_t>rx.info[words[1]].least * words[2]
    elif words[0] == REMAINDER_KIND:
        least = words[5]
    return <uint32_t>least if least < LONGEST_LEAST else LONGEST_LEAST


cdef int regex_init(Regex* rx, Fault* fault) noexcept nogil:
    """An empty pool with the four constant nodes; -1 when memory is out."""
    cdef uint32_t words[9]
    cdef int i
    memset(rx, 0, sizeof(Regex))
    rx.fault = fault
    rx.node_limit = 4000000
    rx.depth_limit = 4000
    rx.step_limit = 500000
    rx.saturation = NONE - 1
    words[0] = EMPTY_KIND
    _node(rx, words, 1)
    words[0] = EPSILON_KIND
    _node(rx, words, 1)
    words[0] = BYTES_KIND
    for i in range(8):
        words[1 + i] = 0xFFFFFFFFu
    _node(rx, words, 9)
    words[0] = REPEAT_KIND
    words[1] = ANY
    words[2] = 0
    words[3] = NONE
    _node(rx, words, 4)
    return -1 if fault.code else 0


cdef void regex_clear(Regex* rx) noexcept nogil:
    """Take all nodes away, the constants too."""
    interner_free(&rx.nodes)
    free(rx.info)
    free(rx.bytes)
    rx.info = NULL
    rx.bytes = NULL
    rx.info_room = rx.bytes_size = rx.bytes_room = 0
    map_free(&rx.derivatives)
    arena_free(&rx.sets)
    map_free(&rx.saturated)
    map_free(&rx.lengths)
    map_free(&rx.alike)
    words_free(&rx.alikes)
    map_free(&rx.nonempty)
    rx.class_count = rx.classed = 0


cdef void regex_free(Regex* rx) noexcept nogil:
    regex_clear(rx)
    words_free(&rx.stack)


# --------------------------------------------------------------------------- constructors

cdef node_t regex_bytes(Regex* rx, const uint32_t* bits) noexcept nogil:
    cdef uint32_t words[9]
    cdef uint32_t any_bit = 0
    cdef int i
    words[0] = BYTES_KIND
    for i in range(8):
        words[1 + i] = bits[i]
        any_bit |= bits[i]
    if not any_bit:
        return EMPTY
    return _node(rx, words, 9)


cdef node_t _single(Regex* rx, uint8_t byte) noexcept nogil:
    cdef uint32_t bits[8]
    memset(bits, 0, sizeof(bits))
    bits[byte >> 5] = <uint32_t>1 << (byte & 31)
    return regex_bytes(rx, bits)


cdef node_t _literal_at(Regex* rx, uint32_t offset, uint32_t length) noexcept nogil:
    cdef uint32_t words[3]
    if length == 0:
        return EPSILON
    if length == 1:
        return _single(rx, rx.bytes[offset])
    words[0] = LITERAL_KIND
    words[1] = offset
    words[2] = length
    return _node(rx, words, 3)


cdef node_t regex_literal(Regex* rx, const uint8_t* data, uint32_t length) noexcept nogil:
    """These bytes. Equal literals should be asked for once: the text is not looked up."""
    cdef uint32_t room, offset = rx.bytes_size
    cdef uint8_t* grown
    if length == 0:
        return EPSILON
    if length == 1:
        return _single(rx, data[0])
    if rx.bytes_size + length > rx.bytes_room:
        room = _max(rx.bytes_room * 2, rx.bytes_size + length)
        grown = <uint8_t*>realloc(rx.bytes, room)
        if grown == NULL:
            fault_set(rx.fault, FAULT_MEMORY)
            return EMPTY
        rx.bytes = grown
        rx.bytes_room = room
    memcpy(rx.bytes + offset, data, length)
    rx.bytes_size += length
    return _literal_at(rx, offset, length)


cdef node_t regex_concat(Regex* rx, node_t head, node_t tail) noexcept nogil:
    cdef uint32_t words[4]
    cdef const uint32_t* h
    cdef const uint32_t* t
    cdef node_t rest = EPSILON
    cdef uint64_t low, high
    cdef size_t base
    if head == EMPTY or tail == EMPTY:
        return EMPTY
    if head == EPSILON:
        return tail
    if tail == EPSILON:
        return head
    if head == ALL and tail == ALL:
        return ALL
    h = regex_words(rx, head)
    if h[0] == CONCAT_KIND:
        # Right-leaning: the head of a concatenation is never one itself. By a loop, since heads
        # may be as long as the grammar.
        base = rx.stack.size
        while rx.info[head].kind == CONCAT_KIND:
            h = regex_words(rx, head)
            if words_push(&rx.stack, h[1]) < 0:
                fault_set(rx.fault, FAULT_MEMORY)
                return EMPTY
            head = h[2]
        rest = regex_concat(rx, head, tail)
        while rx.stack.size > base:
            rx.stack.size -= 1
            rest = regex_concat(rx, rx.stack.at[rx.stack.size], rest)
        return rest
    if h[0] == REPEAT_KIND:
        t = regex_words(rx, tail)
        if t[0] == CONCAT_KIND and regex_words(rx, t[1])[0] == REPEAT_KIND:
            rest = t[2]
            t = regex_words(rx, t[1])
        if t[0] == REPEAT_KIND and t[1] == h[1]:
            low = <uint64_t>h[2] + t[2]
            high = <uint64_t>h[3] + t[3]
            if h[3] == NONE or t[3] == NONE:
                high = NONE
            if low < NONE and (high < NONE or h[3] == NONE or t[3] == NONE):
                return regex_concat(
                    rx, regex_repeat(rx, h[1], <uint32_t>low, <uint32_t>high), rest
                )
    words[0] = CONCAT_KIND
    words[1] = head
    words[2] = tail
    return _node(rx, words, 3)


cdef node_t regex_repeat(Regex* rx, node_t node, uint32_t low, uint32_t high) noexcept nogil:
    cdef uint32_t words[4]
    cdef const uint32_t* inner
    cdef uint64_t least, most
    if high == 0 or node == EPSILON:
        return EPSILON
    if node == EMPTY:
        return EMPTY if low else EPSILON
    if low == 1 and high == 1:
        return node
    if regex_nullable(rx, node):
        low = 0
    inner = regex_words(rx, node)
    if inner[0] == REPEAT_KIND:
        # (a{i,j}){low,high} takes k i to k j times a for each k. If the first of these intervals
        # touch, so do all later ones, and they are one.
        if inner[2] <= 1 if low == 0 else (
            inner[3] == NONE or (<uint64_t>low + 1) * inner[2] <= <uint64_t>low * inner[3] + 1
        ):
            least = <uint64_t>low * inner[2]
            most = NONE if high == NONE or inner[3] == NONE else <uint64_t>high * inner[3]
            if least < NONE:
                # More than 4 billion times is as good as any number of times.
                return regex_repeat(
                    rx, inner[1], <uint32_t>least, <uint32_t>(most if most < NONE else NONE)
                )
    words[0] = REPEAT_KIND
    words[1] = node
    words[2] = low
    words[3] = high
    return _node(rx, words, 4)


cdef enum:
    ZERO = 0x30              # the byte "0"
    POINT = 0x2E             # the byte "."
    MOST_DIGITS = 18         # a modulus is at most 10 ** 18, so that ten of it fit a word


cdef inline uint64_t _power_of_ten(uint32_t exponent, uint64_t modulus) noexcept nogil:
    cdef uint64_t power = 1 % modulus
    cdef uint32_t i
    for i in range(exponent):
        power = power * 10 % modulus
    return power


cdef inline bint _below_power(uint64_t value, uint64_t exponent) noexcept nogil:
    """Whether ``value``, at most 10 ** 18, is less than 10 ** ``exponent``."""
    while exponent and value:
        value = value // 10
        exponent -= 1
    return value == 0


cdef inline bint _can_be_zero(
    uint64_t modulus, uint64_t residue, uint32_t low, uint32_t high, uint32_t places
) noexcept nogil:
    """Whether ``low`` to ``high`` integer digits and ``places`` more make the residue zero.

    With n digits in all they make every number below 10 ** n, so the least number that is wanted
    has to be below.
    """
    cdef uint32_t count
    cdef uint64_t value = residue
    if low >= MOST_DIGITS:
        return True
    for count in range(low):
        value = value * 10 % modulus
    count = low
    while True:
        if _below_power((modulus - value) % modulus, <uint64_t>count + places):
            return True
        if count == high or count >= MOST_DIGITS:
            return False
        value = value * 10 % modulus
        count += 1


cdef uint64_t _plainest_residue(
    uint64_t modulus, uint64_t residue, uint32_t places
) noexcept nogil:
    """A residue before the point that the same digits make zero, the same one for most of these.

    Write the modulus as m times factors of two and five, all of which divide 10 ** n. After n more
    digits only the residue modulo m counts. If fewer digits cannot make it zero, it is as good as
    any such residue.
    """
    cdef uint64_t core = modulus, candidate, value
    cdef uint32_t digits = 0, twos = 0, fives = 0, i, count
    while core % 2 == 0:
        core //= 2
        twos += 1
    while core % 5 == 0:
        core //= 5
        fives += 1
    digits = twos if twos > fives else fives
    if digits == 0 or not residue or (
        _can_be_zero(modulus, residue, 0, digits - 1, places)
    ):
        return residue
    candidate = residue % core
    for i in range(16):
        if candidate >= residue:
            return residue
        if not _can_be_zero(modulus, candidate, 0, digits - 1, places):
            return candidate
        candidate += core
    return residue


cdef node_t regex_remainder(
    Regex* rx, uint64_t modulus, uint64_t residue, uint32_t low, uint32_t high, uint32_t places,
    uint32_t shape
) noexcept nogil:
    """``ir.Remainder``; 1 <= modulus <= 10 ** 18, residue < modulus, low <= high.

    ``shape`` is a Part and a Spelling. EMPTY if nothing matches, EPSILON if only the empty string
    does: the node of a remainder always matches something else.
    """
    cdef uint32_t words[9]
    cdef uint32_t part = shape & PART_MASK
    cdef uint32_t spelling = shape & SPELL_MASK
    cdef uint64_t wanted = (modulus - residue) % modulus
    cdef bint more
    if part == PART_INTEGER:
        if not _can_be_zero(modulus, residue, low, high, places):
            return EMPTY
        residue = _plainest_residue(modulus, residue, places)
        more = high != 0 or spelling == SPELL_ZEROS
    else:
        low = 0
        high = 0
        more = spelling == SPELL_ZEROS
        if more and not _below_power(wanted, places):
            return EMPTY
    if not more:
        # What is left is a fraction that ends in no zero, or nothing.
        more = spelling == SPELL_SHORTEST and _below_power(wanted if wanted else modulus, places)
        if not more:
            return EPSILON if residue == 0 and part != PART_POINT else EMPTY
    words[0] = REMAINDER_KIND
    words[1] = <uint32_t>modulus
    words[2] = <uint32_t>(modulus >> 32)
    words[3] = <uint32_t>residue
    words[4] = <uint32_t>(residue >> 32)
    words[5] = low
    words[6] = high
    words[7] = places
    words[8] = shape
    return _node(rx, words, 9)


cdef node_t _derive_remainder(Regex* rx, const uint32_t* words, uint32_t byte) noexcept nogil:
    cdef uint64_t modulus = words[1] | (<uint64_t>words[2] << 32)
    cdef uint64_t residue = words[3] | (<uint64_t>words[4] << 32)
    cdef uint32_t low = words[5], high = words[6], places = words[7]
    cdef uint32_t part = words[8] & PART_MASK, spelling = words[8] & SPELL_MASK
    cdef uint32_t digit = byte - ZERO
    if byte == POINT:
        if part != PART_INTEGER or spelling == SPELL_INTEGER or low:
            return EMPTY
        part = PART_POINT
    elif byte < ZERO or digit > 9:
        return EMPTY
    elif part == PART_INTEGER:
        if high == 0:
            return EMPTY
        residue = residue * 10 % modulus
        residue = (residue + digit * _power_of_ten(places, modulus) % modulus) % modulus
        low = low - 1 if low else 0
        high = NONE if high == NONE else high - 1
    else:
        if places:
            places -= 1
            residue = (residue + digit * _power_of_ten(places, modulus) % modulus) % modulus
        elif digit:
            return EMPTY
        part = PART_FRACTION if digit or spelling == SPELL_ZEROS else PART_POINT
    return regex_remainder(rx, modulus, residue, low, high, places, part | spelling)


cdef node_t regex_not(Regex* rx, node_t node) noexcept nogil:
    cdef uint32_t words[2]
    cdef const uint32_t* inner
    if node == EMPTY:
        return ALL
    if node == ALL:
        return EMPTY
    inner = regex_words(rx, node)
    if inner[0] == NOT_KIND:
        return inner[1]
    words[0] = NOT_KIND
    words[1] = node
    return _node(rx, words, 2)


cdef size_t _flatten(Regex* rx, size_t base, uint32_t kind) noexcept nogil:
    """Replace nodes of ``kind`` among the items from ``base`` on by their children."""
    cdef size_t i = base, j
    cdef node_t node
    cdef const uint32_t* words
    cdef uint32_t length
    while i < rx.stack.size:
        node = rx.stack.at[i]
        words = regex_words(rx, node)
        if words[0] != kind:
            i += 1
            continue
        length = rx.nodes.entries[node].length
        rx.stack.at[i] = words[1]  # children of a normal node are never of its own kind
        for j in range(2, length):
            if words_push(&rx.stack, words[j]) < 0:
                fault_set(rx.fault, FAULT_MEMORY)
                return rx.stack.size
        i += 1
    return rx.stack.size


cdef void _sort_unique(Regex* rx, size_t base) noexcept nogil:
    cdef uint32_t* at = rx.stack.at + base
    cdef size_t count = rx.stack.size - base
    cdef size_t i = 1, j
    cdef uint32_t value
    while i < count and at[i - 1] < at[i]:
        i += 1
    if i >= count:
        return  # as what was sorted before mostly is
    if count > 24:
        qsort(at, count, sizeof(uint32_t), _compare_words)
    else:
        for i in range(1, count):
            value = at[i]
            j = i
            while j > 0 and at[j - 1] > value:
                at[j] = at[j - 1]
                j -= 1
            at[j] = value
    j = 0
    for i in range(count):
        if i == 0 or at[i] != at[i - 1]:
            at[j] = at[i]
            j += 1
    rx.stack.size = base + j


cdef node_t _finish(Regex* rx, size_t base, uint32_t kind) noexcept nogil:
    """Intern ``[kind, items from base on]`` and drop the items from the scratch stack."""
    cdef size_t count = rx.stack.size - base
    cdef node_t node
    if count == 1:
        node = rx.stack.at[base]
    elif words_push(&rx.stack, 0) < 0:
        fault_set(rx.fault, FAULT_MEMORY)
        node = EMPTY
    else:
        count += 1
        while count > 1:
            count -= 1
            rx.stack.at[base + count] = rx.stack.at[base + count - 1]
        rx.stack.at[base] = kind
        node = _node(rx, rx.stack.at + base, <uint32_t>(rx.stack.size - base))
    rx.stack.size = base
    return node


cdef inline const uint32_t* _counter(Regex* rx, node_t node, node_t* tail) noexcept nogil:
    """The words of the repeat that ``node`` is or starts with, or NULL."""
    cdef const uint32_t* words = regex_words(rx, node)
    tail[0] = EPSILON
    if words[0] == CONCAT_KIND:
        tail[0] = words[2]
        words = regex_words(rx, words[1])
    return words if words[0] == REPEAT_KIND else NULL


cdef bint _merge_counters(Regex* rx, size_t base) noexcept nogil:
    """Join those of ``a{i,j} t | a{k,l} t`` whose intervals touch. True if something changed.

    One pass, quadratic: what a join leaves may be joined with others by the next.
    """
    cdef size_t i, j
    cdef node_t tail_i, tail_j
    cdef const uint32_t* left
    cdef const uint32_t* right
    cdef uint32_t low, high
    cdef bint changed = False
    i = base
    while i < rx.stack.size:
        left = _counter(rx, rx.stack.at[i], &tail_i)
        j = i + 1
        while left != NULL and j < rx.stack.size:
            right = _counter(rx, rx.stack.at[j], &tail_j)
            if right == NULL or right[1] != left[1] or tail_i != tail_j \
                    or (left[3] != NONE and left[3] + 1 < right[2]) \
                    or (right[3] != NONE and right[3] + 1 < left[2]):
                j += 1
                continue
            low = left[2] if left[2] < right[2] else right[2]
            high = NONE if left[3] == NONE or right[3] == NONE else _max(left[3], right[3])
            rx.stack.at[i] = regex_concat(
                rx, regex_repeat(rx, left[1], low, high), tail_i
            )
            rx.stack.size -= 1
            rx.stack.at[j] = rx.stack.at[rx.stack.size]
            changed = True
            # A longer interval may touch what the shorter ones did not.
            left = _counter(rx, rx.stack.at[i], &tail_i)
            j = i + 1
        i += 1
    return changed


cdef enum:
    MOST_PARTS = 16          # of a concatenation that are compared with those of another


cdef inline node_t _head(const Regex* rx, node_t node, node_t* tail) noexcept nogil:
    """What a concatenation begins with, and the rest of it."""
    cdef const uint32_t* words = regex_words(rx, node)
    tail[0] = EPSILON
    if words[0] != CONCAT_KIND:
        return node
    tail[0] = words[2]
    return words[1]


cdef bint _is_within(Regex* rx, node_t node, node_t other) noexcept nogil:
    """Whether ``node`` is ``other`` with narrower counters, so that it matches nothing more.

    Looks along both from the left, a few parts far; False where that does not tell.
    """
    cdef node_t head, tail, other_head, other_tail
    cdef const uint32_t* words
    cdef const uint32_t* wide
    cdef uint32_t turns
    for turns in range(MOST_PARTS):
        if node == other:
            return True
        if node == EPSILON:
            return regex_nullable(rx, other)
        head = _head(rx, node, &tail)
        other_head = _head(rx, other, &other_tail)
        if head != other_head:
            words = regex_words(rx, head)
            wide = regex_words(rx, other_head)
            if wide[0] != REPEAT_KIND:
                return False
            if words[0] == REPEAT_KIND and words[1] == wide[1]:
                if wide[2] > words[2] \
                        or (wide[3] != NONE and (words[3] == NONE or words[3] > wide[3])):
                    return False
            elif wide[1] == head:
                if wide[2] > 1:
                    return False
            elif wide[2] == 0:
                other = other_tail  # it is left out
                continue
            else:
                return False
        node = tail
        other = other_tail
    return False


cdef void _drop_narrower(Regex* rx, size_t base) noexcept nogil:
    """Drop alternatives that others with wider counters stand for.

    Repeats in repeats have a residual for each number of turns that the outer one may have made;
    beyond its lower bound, fewer turns made leave more to choose from. Quadratic in those that
    begin with a counter, or nearly so.
    """
    cdef size_t places[64]
    cdef size_t i, j, count = 0
    cdef node_t head, rest
    cdef int k
    for i in range(base, rx.stack.size):
        rest = rx.stack.at[i]
        for k in range(3):
            head = _head(rx, rest, &rest)
            if rx.info[head].kind == REPEAT_KIND:
                if count < 64:
                    places[count] = i
                    count += 1
                break
    for i in range(count):
        for j in range(count):
            if i != j and rx.stack.at[places[i]] != EMPTY and rx.stack.at[places[j]] != EMPTY \
                    and _is_within(rx, rx.stack.at[places[i]], rx.stack.at[places[j]]):
                rx.stack.at[places[i]] = EMPTY
                break
    j = base
    for i in range(base, rx.stack.size):
        if rx.stack.at[i] != EMPTY:
            rx.stack.at[j] = rx.stack.at[i]
            j += 1
    rx.stack.size = j


cdef node_t regex_alt(Regex* rx, size_t base) noexcept nogil:
    """The alternation of the nodes on the scratch stack from ``base`` on, which it takes off."""
    cdef size_t i, j, count
    cdef uint32_t bits[8]
    cdef uint32_t sets = 0
    cdef node_t node
    cdef bint nullable = False
    cdef const uint32_t* words
    cdef int k
    _flatten(rx, base, ALT_KIND)
    _sort_unique(rx, base)
    memset(bits, 0, sizeof(bits))
    j = base
    for i in range(base, rx.stack.size):
        node = rx.stack.at[i]
        if node == ALL:
            rx.stack.size = base
            return ALL
        if node == EMPTY:
            continue
        if rx.info[node].kind == BYTES_KIND:
            words = regex_words(rx, node)
            for k in range(8):
                bits[k] |= words[1 + k]
            sets += 1
            if sets > 1:
                continue
        if node != EPSILON and regex_nullable(rx, node):
            nullable = True
        rx.stack.at[j] = node
        j += 1
    rx.stack.size = j
    if sets > 1:
        for i in range(base, rx.stack.size):
            if rx.info[rx.stack.at[i]].kind == BYTES_KIND:
                rx.stack.at[i] = regex_bytes(rx, bits)
    if nullable and rx.stack.size > base and rx.stack.at[base] == EPSILON:
        rx.stack.size -= 1
        rx.stack.at[base] = rx.stack.at[rx.stack.size]
    count = rx.stack.size - base
    if 1 < count <= 64:
        while _merge_counters(rx, base):
            pass
        _drop_narrower(rx, base)
    _sort_unique(rx, base)
    if rx.stack.size == base:
        return EMPTY
    return _finish(rx, base, ALT_KIND)


cdef node_t regex_and(Regex* rx, size_t base) noexcept nogil:
    """The intersection of the nodes on the scratch stack from ``base`` on, which it takes off."""
    cdef size_t i, j
    cdef uint32_t bits[8]
    cdef uint32_t sets = 0
    cdef node_t node, other
    cdef const uint32_t* words
    cdef bint nullable = True
    cdef int k
    _flatten(rx, base, AND_KIND)
    _sort_unique(rx, base)
    for k in range(8):
        bits[k] = 0xFFFFFFFFu
    j = base
    for i in range(base, rx.stack.size):
        node = rx.stack.at[i]
        if node == EMPTY:
            rx.stack.size = base
            return EMPTY
        if node == ALL:
            continue
        if not regex_nullable(rx, node):
            nullable = False
        if rx.info[node].kind == BYTES_KIND:
            words = regex_words(rx, node)
            for k in range(8):
                bits[k] &= words[1 + k]
            sets += 1
            if sets > 1:
                continue
        rx.stack.at[j] = node
        j += 1
    rx.stack.size = j
    if rx.stack.size == base:
        return ALL
    if rx.stack.at[base] == EPSILON:
        rx.stack.size = base
        return EPSILON if nullable else EMPTY
    for i in range(base, rx.stack.size):
        node = rx.stack.at[i]
        if rx.info[node].kind == NOT_KIND:
            other = regex_words(rx, node)[1]
            for j in range(base, rx.stack.size):
                if rx.stack.at[j] == other:
                    rx.stack.size = base
                    return EMPTY
        elif sets > 1 and rx.info[node].kind == BYTES_KIND:
            node = regex_bytes(rx, bits)
            if node == EMPTY:
                rx.stack.size = base
                return EMPTY
            rx.stack.at[i] = node
    _sort_unique(rx, base)
    return _finish(rx, base, AND_KIND)


cdef node_t _pair(Regex* rx, node_t left, node_t right, uint32_t kind) noexcept nogil:
    cdef size_t base = rx.stack.size
    if words_push(&rx.stack, left) < 0 or words_push(&rx.stack, right) < 0:
        rx.stack.size = base
        fault_set(rx.fault, FAULT_MEMORY)
        return EMPTY
    return regex_alt(rx, base) if kind == ALT_KIND else regex_and(rx, base)


cdef node_t regex_nonempty(Regex* rx, node_t node) noexcept nogil:
    """``node`` without the empty string, as simple as its shape allows."""
    cdef const uint32_t* words
    cdef node_t left
    if not regex_nullable(rx, node):
        return node
    words = regex_words(rx, node)
    if words[0] == EPSILON_KIND:
        return EMPTY
    left = map_get(&rx.nonempty, 0, node)
    if left != NONE:
        return left
    left = _nonempty(rx, node)
    if rx.fault.code == 0 and map_put(&rx.nonempty, 0, node, left) < 0:
        fault_set(rx.fault, FAULT_MEMORY)
    return left


cdef node_t _nonempty(Regex* rx, node_t node) noexcept nogil:
    cdef const uint32_t* words = regex_words(rx, node)
    cdef uint32_t i, length
    cdef size_t base
    cdef node_t left, right
    if words[0] == REPEAT_KIND and not regex_nullable(rx, words[1]):
        return regex_repeat(rx, words[1], 1, words[3])
    if words[0] == CONCAT_KIND:
        left = regex_concat(rx, regex_nonempty(rx, words[1]), words[2])
        right = regex_nonempty(rx, words[2])
        return _pair(rx, left, right, ALT_KIND)
    if words[0] == ALT_KIND:
        base = rx.stack.size
        length = rx.nodes.entries[node].length
        for i in range(1, length):
            left = regex_nonempty(rx, regex_words(rx, node)[i])
            if words_push(&rx.stack, left) < 0:
                fault_set(rx.fault, FAULT_MEMORY)
                break
        return regex_alt(rx, base)
    return _pair(rx, node, regex_repeat(rx, ANY, 1, NONE), AND_KIND)


# --------------------------------------------------------------------------- derivatives

cdef const uint64_t* regex_first(Regex* rx, node_t node) noexcept nogil:
    """The byte classes that a match of ``node`` may begin with, as 4 words of bits.

    Exact but for ``&`` and ``~``, where it may say too much. Kept; NULL with a fault set. Byte
    classes have to be frozen.
    """
    cdef const uint32_t* words = regex_words(rx, node)
    cdef uint32_t kind = words[0]
    cdef uint32_t i, j, byte, length
    cdef const uint64_t* part
    cdef uint64_t* bits
    if rx.info[node].first != NULL:
        return rx.info[node].first
    bits = <uint64_t*>arena_take(&rx.sets, 4 * sizeof(uint64_t))
    if bits == NULL:
        fault_set(rx.fault, FAULT_MEMORY)
        return NULL
    memset(bits, 0, 4 * sizeof(uint64_t))
    if kind == BYTES_KIND:
        for i in range(rx.class_count):
            byte = rx.sample[i]
            bits[i >> 6] |= <uint64_t>((words[1 + (byte >> 5)] >> (byte & 31)) & 1) << (i & 63)
    elif kind == LITERAL_KIND:
        i = rx.classes[rx.bytes[words[1]]]
        bits[i >> 6] |= <uint64_t>1 << (i & 63)
    elif kind == CONCAT_KIND or kind == ALT_KIND or kind == AND_KIND or kind == REPEAT_KIND:
        length = rx.nodes.entries[node].length
        if kind == REPEAT_KIND or (kind == CONCAT_KIND and not regex_nullable(rx, words[1])):
            length = 2
        for i in range(1, length):
            part = regex_first(rx, words[i])
            if part == NULL:
                return NULL
            for j in range(4):
                if kind == AND_KIND and i > 1:
                    bits[j] &= part[j]
                else:
                    bits[j] |= part[j]
    elif kind == REMAINDER_KIND:
        for byte in range(POINT, ZERO + 10):
            i = rx.classes[byte]
            if regex_derive(rx, node, i) != EMPTY:
                bits[i >> 6] |= <uint64_t>1 << (i & 63)
        if rx.fault.code:
            return NULL
    elif kind > EPSILON_KIND:
        memset(bits, 0xFF, 4 * sizeof(uint64_t))
    rx.info[node].first = bits
    return bits


cdef node_t regex_derive(Regex* rx, node_t node, uint32_t byte_class) noexcept nogil:
    """What must follow once a byte of this class was read. Memoised; EMPTY when nothing may."""
    cdef const uint32_t* words = regex_words(rx, node)
    cdef uint32_t kind = words[0]
    cdef uint32_t byte = rx.sample[byte_class]
    cdef uint32_t i, length, low, high
    cdef size_t base
    cdef node_t result, rest
    if kind <= EPSILON_KIND:
        return EMPTY
    if kind == BYTES_KIND:
        return EPSILON if (words[1 + (byte >> 5)] >> (byte & 31)) & 1 else EMPTY
    if kind == LITERAL_KIND:
        if rx.bytes[words[1]] != byte:
            return EMPTY
        return _literal_at(rx, words[1] + 1, words[2] - 1)
    result = map_get(&rx.derivatives, byte_class, node)
    if result != NONE:
        return result
    if kind == CONCAT_KIND:
        rest = words[2]
        i = words[1]
        result = regex_concat(rx, regex_derive(rx, i, byte_class), rest)
        if regex_nullable(rx, i):
            rest = regex_derive(rx, rest, byte_class)
            if rest != EMPTY:
                result = _pair(rx, result, rest, ALT_KIND)
    elif kind == ALT_KIND or kind == AND_KIND:
        base = rx.stack.size
        length = rx.nodes.entries[node].length
        result = EMPTY
        for i in range(1, length):
            # The words of an interned node never move, only the entries' table does.
            rest = regex_derive(rx, words[i], byte_class)
            if rest == EMPTY:
                if kind == AND_KIND:
                    break
                continue
            if words_push(&rx.stack, rest) < 0:
                fault_set(rx.fault, FAULT_MEMORY)
                break
        else:
            result = regex_alt(rx, base) if kind == ALT_KIND else regex_and(rx, base)
        rx.stack.size = base
    elif kind == NOT_KIND:
        result = regex_not(rx, regex_derive(rx, words[1], byte_class))
    elif kind == REMAINDER_KIND:
        result = _derive_remainder(rx, words, byte)
    else:
        low = words[2] - 1 if words[2] else 0
        high = NONE if words[3] == NONE else words[3] - 1
        i = words[1]
        rest = regex_derive(rx, i, byte_class)
        result = EMPTY if rest == EMPTY else regex_concat(
            rx, rest, regex_repeat(rx, i, low, high)
        )
    if rx.fault.code:
        return EMPTY
    if map_put(&rx.derivatives, byte_class, node, result) < 0:
        fault_set(rx.fault, FAULT_MEMORY)
    return result
