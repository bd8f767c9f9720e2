# cython: language_level=3, boundscheck=False, wraparound=False
# cython: initializedcheck=False, cdivision=True
"""Counters that no token can count to their end.

A mask is about one token. A counter that is further from its bounds than the longest token is long
is as good as unbounded for it, and so the residuals along ``a{0,65536}`` have one mask:
:c:func:`regex_saturate` is the regex that stands for all of them.

*Intersections.* What lives in ``C{0,n} & P`` depends on more than the next token: P may need more
characters than the counter leaves. But if each string of P is made of whole characters of C, and n
is at least what the most bytes of P that a token has in a row and then the shortest way to the end
of P take, then
the counter says nothing, and P stands for the intersection. Derivatives of P need no search for
emptiness, are the same in all grammars with this pattern, and are fewer. So it is with a pattern or
a format beside ``maxLength``.

Where what P has found may be followed by any bytes, the counter without its bound stays beside it.
So does a lower bound beyond one character, if P shows that each of its matches may be one longer:
else what fits between the two bounds may be nothing though P and either of them have matches.

Invariant: for the next token, a node and what stands for it live, match and go on alike. What is
not decided by the shape in a bounded number of steps is left as it is.

Cost: linear in the nodes that are new, once per node.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from llgx._memory cimport FAULT_MEMORY, NONE, fault_set, map_get, map_put, words_push
from llgx._regex cimport (
    ALL, ALT_KIND, AND_KIND, ANY, BYTES_KIND, CONCAT_KIND, COUNTED, COUNTED_FAR, EMPTY, EPSILON,
    HARD, LITERAL_KIND, NOT_KIND, REPEAT_KIND, Regex, class_is_in, counts_beyond, node_t,
    regex_alt, regex_and, regex_bytes, regex_concat, regex_derive, regex_first, regex_nullable,
    regex_not, regex_repeat, regex_words,
)

cdef enum:
    DEEPEST = 100        # levels of the shape that are looked at

cdef enum Asked:         # keys of ``Regex.lengths``
    SHORTEST = 1         # bytes of the shortest match
    WAY_OUT = 2          # bytes of the shortest match of any residual, at the most
    LONGEST = 3          # of a set of bytes: how many of them a token has in a row, at the most
    THROUGH = 4          # and a node: where a match leads from there
    IN_IT = 5            # the set of all bytes in it
    FURTHEST = 6         # bytes of the longest match


cdef bint saturation_helps(const Regex* rx, node_t node, uint32_t most) noexcept nogil:
    """Whether something else may stand for ``node`` where tokens have ``most`` bytes."""
    cdef uint8_t counted = COUNTED if most == rx.saturation else COUNTED_FAR
    return rx.info[node].flags & counted or (rx.through_and and rx.info[node].flags & HARD)


cdef node_t regex_saturate(Regex* rx, node_t node, uint32_t most) noexcept nogil:
    """``node`` with every counter beyond ``most`` bytes taken as unbounded, or as out of reach.

    ``most`` is ``saturation`` or one of ``levels``. For the first ``most`` bytes of a string, if
    they are in one token, the result lives, matches and goes on just as ``node`` does.
    """
    cdef const uint32_t* words = regex_words(rx, node)
    cdef uint32_t i, length, low, high
    cdef size_t base = rx.stack.size
    cdef node_t result = node, part
    if not saturation_helps(rx, node, most):
        return node
    result = map_get(&rx.saturated, most, node)
    if result != NONE:
        return result
    if words[0] == AND_KIND:
        result = _saturate_and(rx, node, most)
    elif words[0] == CONCAT_KIND:
        # By a loop: a concatenation may be as long as the grammar.
        result = node
        while rx.info[result].kind == CONCAT_KIND and saturation_helps(rx, result, most):
            words = regex_words(rx, result)
            part = regex_saturate(rx, words[1], most)
            result = words[2]
            if words_push(&rx.stack, part) < 0:
                fault_set(rx.fault, FAULT_MEMORY)
                return node
        result = regex_saturate(rx, result, most)
        while rx.stack.size > base:
            rx.stack.size -= 1
            result = regex_concat(rx, rx.stack.at[rx.stack.size], result)
    elif words[0] == ALT_KIND:
        length = rx.nodes.entries[node].length
        for i in range(1, length):
            part = regex_saturate(rx, words[i], most)
            if words_push(&rx.stack, part) < 0:
                fault_set(rx.fault, FAULT_MEMORY)
                break
        result = regex_alt(rx, base)
    elif words[0] == REPEAT_KIND:
        low = words[2]
        if counts_beyond(rx, words[1], low, most):
            low = most // max(1, rx.info[words[1]].least) + 1
        high = NONE if counts_beyond(rx, words[1], words[3], most) else words[3]
        result = regex_repeat(rx, regex_saturate(rx, words[1], most), low, high)
    else:
        result = node
    if rx.fault.code == 0 and map_put(&rx.saturated, most, node, result) < 0:
        fault_set(rx.fault, FAULT_MEMORY)
    return result


# --------------------------------------------------------------------------- intersections

cdef uint32_t _kept(Regex* rx, uint64_t asked, node_t node, uint32_t answer) noexcept nogil:
    if rx.fault.code == 0 and map_put(&rx.lengths, asked, node, answer) < 0:
        fault_set(rx.fault, FAULT_MEMORY)
    return answer


cdef uint32_t _shortest(Regex* rx, node_t node, uint32_t depth) noexcept nogil:
    """Bytes of the shortest match; FAR where that is not known or more."""
    cdef const uint32_t* words = regex_words(rx, node)
    cdef uint32_t kind = words[0], i, known
    cdef uint64_t total = 0
    if regex_nullable(rx, node):
        return 0
    if kind == BYTES_KIND:
        return 1
    if kind == LITERAL_KIND:
        return words[2]
    if depth > DEEPEST or rx.info[node].flags & HARD:
        return FAR
    known = map_get(&rx.lengths, SHORTEST, node)
    if known != NONE:
        return known
    if kind == CONCAT_KIND:
        known = node
        while words[0] == CONCAT_KIND:
            total += _shortest(rx, words[1], depth + 1)
            known = words[2]
            words = regex_words(rx, known)
        total += _shortest(rx, known, depth + 1)
    elif kind == ALT_KIND:
        total = FAR
        for i in range(1, rx.nodes.entries[node].length):
            total = min(total, _shortest(rx, words[i], depth + 1))
    elif kind == REPEAT_KIND:
        total = <uint64_t>words[2] * _shortest(rx, words[1], depth + 1)
    else:
        total = FAR
    return _kept(rx, SHORTEST, node, <uint32_t>min(total, <uint64_t>FAR))


cdef uint32_t regex_furthest(Regex* rx, node_t node, uint32_t depth) noexcept nogil:
    """Bytes of the longest match, or more; FAR where there is none or that is not known."""
    cdef const uint32_t* words = regex_words(rx, node)
    cdef uint32_t kind = words[0], i, known
    cdef uint64_t total = 0
    if node == EPSILON or node == EMPTY:
        return 0
    if kind == BYTES_KIND:
        return 1
    if kind == LITERAL_KIND:
        return words[2]
    if depth > DEEPEST or rx.info[node].flags & HARD:
        return FAR
    known = map_get(&rx.lengths, FURTHEST, node)
    if known != NONE:
        return known
    if kind == CONCAT_KIND:
        known = node
        while words[0] == CONCAT_KIND:
            total += regex_furthest(rx, words[1], depth + 1)
            known = words[2]
            words = regex_words(rx, known)
        total += regex_furthest(rx, known, depth + 1)
    elif kind == ALT_KIND:
        for i in range(1, rx.nodes.entries[node].length):
            total = max(total, <uint64_t>regex_furthest(rx, words[i], depth + 1))
    elif kind == REPEAT_KIND:
        total = FAR
        if words[3] != NONE:
            total = <uint64_t>words[3] * regex_furthest(rx, words[1], depth + 1)
    else:
        total = FAR
    return _kept(rx, FURTHEST, node, <uint32_t>min(total, <uint64_t>FAR))


cdef uint32_t _way_out(Regex* rx, node_t node, uint32_t depth) noexcept nogil:
    """A bound of the bytes of the shortest match of ``node`` and of each of its residuals."""
    cdef const uint32_t* words = regex_words(rx, node)
    cdef uint32_t kind = words[0], i, known, after
    cdef uint64_t total = 0
    cdef size_t base = rx.stack.size
    if kind == BYTES_KIND:
        return 1
    if kind == LITERAL_KIND:
        return words[2]
    if node == EPSILON:
        return 0
    if depth > DEEPEST or rx.info[node].flags & HARD:
        return FAR
    known = map_get(&rx.lengths, WAY_OUT, node)
    if known != NONE:
        return known
    if kind == CONCAT_KIND:
        # Inside a part, what is left of it and the parts after it; from the last one backwards.
        known = node
        while rx.info[known].kind == CONCAT_KIND:
            words = regex_words(rx, known)
            if words_push(&rx.stack, words[1]) < 0:
                fault_set(rx.fault, FAULT_MEMORY)
                return FAR
            known = words[2]
        total = _way_out(rx, known, depth + 1)
        after = _shortest(rx, known, depth + 1)
        while rx.stack.size > base:
            rx.stack.size -= 1
            known = rx.stack.at[rx.stack.size]
            total = max(total, <uint64_t>_way_out(rx, known, depth + 1) + after)
            after = min(after + _shortest(rx, known, depth + 1), <uint32_t>FAR)
    elif kind == ALT_KIND:
        for i in range(1, rx.nodes.entries[node].length):
            total = max(total, <uint64_t>_way_out(rx, words[i], depth + 1))
    elif kind == REPEAT_KIND:
        total = _way_out(rx, words[1], depth + 1)
        if words[2]:
            total += <uint64_t>(words[2] - 1) * _shortest(rx, words[1], depth + 1)
    else:
        total = FAR
    return _kept(rx, WAY_OUT, node, <uint32_t>min(total, <uint64_t>FAR))


cdef node_t _through(Regex* rx, node_t node, node_t start, uint32_t depth) noexcept nogil:
    """The residual of ``start`` to which all matches of ``node`` lead; EMPTY where they lead to
    several, or to nothing, or where that is not known."""
    cdef const uint32_t* words = regex_words(rx, node)
    cdef const uint64_t* first
    cdef uint32_t kind = words[0], i, length = rx.nodes.entries[node].length
    cdef uint64_t asked = (<uint64_t>THROUGH << 32) | start
    cdef node_t end = start, known
    if node == EPSILON or start == EMPTY:
        return start
    if depth > DEEPEST or rx.info[node].flags & HARD or rx.fault.code:
        return EMPTY
    known = map_get(&rx.lengths, asked, node)
    if known != NONE:
        return known
    if kind == BYTES_KIND:
        first = regex_first(rx, node)
        end = NONE
        for i in range(rx.class_count):
            if first == NULL or not class_is_in(first, i):
                continue
            known = regex_derive(rx, start, i)
            if end != NONE and known != end:
                known = EMPTY
            end = known
            if end == EMPTY:
                break
        if end == NONE:
            end = EMPTY
    elif kind == LITERAL_KIND:
        for i in range(words[2]):
            end = regex_derive(rx, end, rx.classes[rx.bytes[words[1] + i]])
    elif kind == CONCAT_KIND:
        known = node
        while rx.info[known].kind == CONCAT_KIND and end != EMPTY:
            words = regex_words(rx, known)
            end = _through(rx, words[1], end, depth + 1)
            known = words[2]
        end = _through(rx, known, end, depth + 1)
    elif kind == ALT_KIND:
        end = _through(rx, words[1], start, depth + 1)
        for i in range(2, length):
            if end != EMPTY and _through(rx, words[i], start, depth + 1) != end:
                end = EMPTY
    elif kind == REPEAT_KIND and _through(rx, words[1], start, depth + 1) == start:
        end = start
    else:
        end = EMPTY
    return _kept(rx, asked, node, end)


cdef node_t _union(Regex* rx, node_t one, node_t other) noexcept nogil:
    """The bytes of two sets."""
    cdef uint32_t bits[8]
    cdef uint32_t i
    if one == other or one == ANY or other == EMPTY:
        return one
    if one == EMPTY or other == ANY:
        return other
    for i in range(8):
        bits[i] = regex_words(rx, one)[1 + i] | regex_words(rx, other)[1 + i]
    return regex_bytes(rx, bits)


cdef node_t _bytes_in(Regex* rx, node_t node, uint32_t depth) noexcept nogil:
    """All bytes in ``node``, as a set: ANY where they are not known. Kept."""
    cdef const uint32_t* words = regex_words(rx, node)
    cdef uint32_t bits[8]
    cdef uint32_t kind = words[0], i, byte
    cdef size_t base = rx.stack.size
    cdef node_t found = EMPTY, known
    if kind == BYTES_KIND:
        return node
    if node == EPSILON:
        return EMPTY
    if depth > DEEPEST or rx.info[node].flags & HARD or rx.fault.code:
        return ANY
    known = map_get(&rx.lengths, IN_IT, node)
    if known != NONE:
        return known
    if kind == LITERAL_KIND:
        memset(bits, 0, sizeof(bits))
        for i in range(words[2]):
            byte = rx.bytes[words[1] + i]
            bits[byte >> 5] |= <uint32_t>1 << (byte & 31)
        found = regex_bytes(rx, bits)
    elif kind == REPEAT_KIND:
        found = _bytes_in(rx, words[1], depth + 1)
    elif kind == CONCAT_KIND:
        # From the last part backwards: what is left of it later has most of them.
        known = node
        while rx.info[known].kind == CONCAT_KIND \
                and map_get(&rx.lengths, IN_IT, known) == NONE:
            if words_push(&rx.stack, known) < 0:
                fault_set(rx.fault, FAULT_MEMORY)
                return ANY
            known = regex_words(rx, known)[2]
        found = _bytes_in(rx, known, depth + 1)
        while rx.stack.size > base:
            rx.stack.size -= 1
            known = rx.stack.at[rx.stack.size]
            found = _union(rx, _bytes_in(rx, regex_words(rx, known)[1], depth + 1), found)
            _kept(rx, IN_IT, known, found)
        return found
    elif kind == ALT_KIND:
        for i in range(1, rx.nodes.entries[node].length):
            found = _union(rx, found, _bytes_in(rx, words[i], depth + 1))
    else:
        found = ANY
    return _kept(rx, IN_IT, node, found)


cdef uint32_t _longest_of(Regex* rx, node_t node) noexcept nogil:
    """The most bytes of ``node``, one after the other, that are in a token, or more."""
    cdef uint32_t i, token, run, most, known
    cdef uint64_t at
    cdef node_t bytes
    cdef const uint32_t* bits
    if rx.text == NULL:
        return rx.saturation
    bytes = _bytes_in(rx, node, 0)
    if bytes == ANY:
        return rx.saturation
    if bytes == EMPTY:
        return 0
    known = map_get(&rx.lengths, LONGEST, bytes)
    if known != NONE:
        return known
    bits = regex_words(rx, bytes) + 1
    most = rx.long_rest
    for i in range(rx.long_count):
        token = rx.long_tokens[i]
        if rx.text_at[token + 1] - rx.text_at[token] <= most:
            break
        run = 0
        for at in range(rx.text_at[token], rx.text_at[token + 1]):
            run = run + 1 if (bits[rx.text[at] >> 5] >> (rx.text[at] & 31)) & 1 else 0
            most = max(most, run)
    return _kept(rx, LONGEST, bytes, most)


cdef bint _is_counter(
    Regex* rx, node_t node, node_t* rest, node_t* body, uint32_t* low, uint32_t* high
) noexcept nogil:
    """Whether ``node`` is ``C{low,high}``, or that after the rest of a C; and its parts."""
    cdef const uint32_t* words = regex_words(rx, node)
    rest[0] = EPSILON
    if words[0] == CONCAT_KIND:
        rest[0] = words[1]
        words = regex_words(rx, words[2])
    if words[0] != REPEAT_KIND:
        return False
    body[0] = words[1]
    low[0] = words[2]
    high[0] = words[3]
    return True


cdef bint _is_whole(
    Regex* rx, node_t node, node_t unbounded, bint* beyond, uint32_t depth
) noexcept nogil:
    """Whether the matches of ``node`` are made of whole characters of a counter, which is
    ``unbounded`` without its bounds; ``beyond``: but for any bytes that may follow, as after what
    a search has found."""
    cdef const uint32_t* words = regex_words(rx, node)
    cdef uint32_t i
    cdef node_t end = unbounded
    if words[0] == ALT_KIND:
        for i in range(1, rx.nodes.entries[node].length):
            if depth > DEEPEST or not _is_whole(
                rx, regex_words(rx, node)[i], unbounded, beyond, depth + 1
            ):
                return False
        return True
    while words[0] == CONCAT_KIND and end != EMPTY:
        end = _through(rx, words[1], end, 0)
        node = words[2]
        words = regex_words(rx, node)
    if node == ALL:
        beyond[0] = True
    else:
        end = _through(rx, node, end, 0)
    return end != EMPTY and regex_nullable(rx, end)


cdef bint _grows(Regex* rx, node_t node, node_t body, uint32_t depth) noexcept nogil:
    """Whether the shape shows that each match of ``node``, and of each of its residuals, is one
    still with one more ``body`` after it, of some kind: at its end is ``x+`` or ``x*``, each x one
    ``body``, or any bytes."""
    cdef const uint32_t* words = regex_words(rx, node)
    cdef uint32_t i
    if depth > DEEPEST:
        return False
    while words[0] == CONCAT_KIND:
        words = regex_words(rx, words[2])
    if words[0] == ALT_KIND:
        for i in range(1, rx.nodes.entries[node].length):
            if not _grows(rx, words[i], body, depth + 1):
                return False
        return True
    if words[0] != REPEAT_KIND:
        return False
    if words[3] == NONE and (
        words[1] == ANY
        or _through(rx, words[1], regex_repeat(rx, body, 0, 1), 0) == EPSILON
    ):
        return True
    return words[2] != 0 and _grows(rx, words[1], body, depth + 1)


cdef node_t _counted_part(Regex* rx, node_t node, node_t counter) noexcept nogil:
    """``x{low,high} & C{0,n}`` as ``x{low,k}``, the lesser bound, where each match of x is one
    character of C and no more; EMPTY for another shape.

    So it is with what a pattern leaves of a string at its end, beside ``maxLength``.
    """
    cdef const uint32_t* words = regex_words(rx, node)
    cdef const uint32_t* other = regex_words(rx, counter)
    cdef node_t body, end
    cdef uint32_t low, high
    while words[0] == CONCAT_KIND:
        # a* b* is b* if what a matches leads from b* to b*.
        body = words[2]
        words = regex_words(rx, words[1])
        if words[0] != REPEAT_KIND or words[2] != 0 or words[3] != NONE \
                or rx.info[body].kind != REPEAT_KIND or regex_words(rx, body)[2] != 0 \
                or regex_words(rx, body)[3] != NONE or _through(rx, words[1], body, 0) != body:
            return EMPTY
        words = regex_words(rx, body)
    if words[0] != REPEAT_KIND or other[0] != REPEAT_KIND or other[2] != 0 or other[3] == NONE:
        return EMPTY
    body = words[1]
    low = words[2]
    high = min(words[3], other[3])
    end = regex_repeat(rx, other[1], 0, other[3] - 1)
    if low > high or regex_nullable(rx, body) \
            or _through(rx, body, counter, 0) != end:
        return EMPTY
    return regex_repeat(rx, body, low, high)


cdef bint _has_apart(Regex* rx, node_t body, const uint64_t* others) noexcept nogil:
    """Whether ``body`` matches some byte by whose class none of ``others`` begins."""
    cdef const uint64_t* first = regex_first(rx, body)
    cdef uint32_t i
    for i in range(rx.class_count):
        if first != NULL and class_is_in(first, i) and not class_is_in(others, i) \
                and regex_nullable(rx, regex_derive(rx, body, i)):
            return True
    return False


cdef node_t _but_for_some(Regex* rx, node_t node, uint32_t most) noexcept nogil:
    """What stands for ``h C{low,high} & ~F & ~(k x{..})``, as names are that are none of some
    others and not of some form: the same without bounds; EMPTY for another shape.

    It lives, and so does what stands for it, as long as ``h C*`` does: F is finite, and some
    character of C alone, often enough, is in no ``k x{..}``, since no x begins with it.
    """
    cdef const uint32_t* words = regex_words(rx, node)
    cdef const uint32_t* inner
    cdef const uint64_t* first
    cdef uint32_t i, k, length = rx.nodes.entries[node].length, low = 0, high = 0
    cdef uint64_t longest = 0, need
    cdef uint64_t others[4]
    cdef node_t part = EMPTY, rest = EPSILON, body = EMPTY
    cdef size_t base = rx.stack.size
    cdef bint apart = False
    memset(others, 0, sizeof(others))
    for i in range(1, length):
        inner = regex_words(rx, words[i])
        if inner[0] != NOT_KIND:
            if part != EMPTY or rx.info[words[i]].flags & HARD:
                return EMPTY
            part = words[i]
            continue
        need = regex_furthest(rx, inner[1], 0)
        if need >= FAR or regex_saturate(rx, inner[1], most) != inner[1]:
            # It will not be finite, or is not.
            if not _is_counter(rx, inner[1], &rest, &body, &low, &high):
                return EMPTY
            need = <uint64_t>regex_furthest(rx, rest, 0) + regex_furthest(rx, body, 0)
            first = regex_first(rx, body)
            if first == NULL:
                return EMPTY
            for k in range(4):
                others[k] |= first[k]
            apart = True
        if need >= FAR:
            return EMPTY
        longest += need
    if part == EMPTY or not _is_counter(rx, part, &rest, &body, &low, &high) \
            or regex_nullable(rx, body) or high <= most + longest + 1 \
            or (apart and not _has_apart(rx, body, others)):
        return EMPTY
    part = regex_concat(rx, regex_saturate(rx, rest, most), regex_saturate(
        rx, regex_repeat(rx, body, low, NONE), most
    ))
    for i in range(1, length):
        inner = regex_words(rx, words[i])
        if inner[0] == NOT_KIND and words_push(
            &rx.stack, regex_not(rx, regex_saturate(rx, inner[1], most))
        ) < 0:
            fault_set(rx.fault, FAULT_MEMORY)
    if words_push(&rx.stack, part) < 0:
        fault_set(rx.fault, FAULT_MEMORY)
    if rx.fault.code:
        rx.stack.size = base
        return EMPTY
    return regex_and(rx, base)


cdef node_t _saturate_and(Regex* rx, node_t node, uint32_t most) noexcept nogil:
    """What stands for an intersection: the one part that says all, or ``node`` itself."""
    cdef const uint32_t* words = regex_words(rx, node)
    cdef uint32_t i, length = rx.nodes.entries[node].length, need
    cdef node_t part, result
    if not rx.through_and:
        return node
    result = _but_for_some(rx, node, most)
    if result != EMPTY or rx.fault.code:
        return node if rx.fault.code else result
    for i in range(1, length):
        if rx.info[words[i]].flags & HARD:
            return node
    if length == 3:
        for i in range(1, 3):
            part = _counted_part(rx, words[i], words[3 - i])
            if part != EMPTY or rx.fault.code:
                return node if rx.fault.code else regex_saturate(rx, part, most)
    for i in range(1, length):
        part = words[i]
        need = _way_out(rx, part, 0)
        if need == FAR:
            continue
        need += min(most, _longest_of(rx, part))
        result = _beside_counters(rx, node, i, need, most)
        if rx.fault.code:
            return node
        if result != EMPTY:
            return result
    return node


cdef node_t _beside_counters(
    Regex* rx, node_t node, uint32_t place, uint32_t need, uint32_t most
) noexcept nogil:
    """What stands for an intersection of one part, at a place, and of counters else, all of which
    have room for ``need`` characters; EMPTY where one has not, or that part is not made of whole
    characters of theirs."""
    cdef uint32_t length = rx.nodes.entries[node].length
    cdef node_t part = regex_words(rx, node)[place]
    cdef node_t rest = EPSILON, body = EMPTY, unbounded
    cdef uint32_t j, low = 0, high = 0
    cdef size_t base = rx.stack.size
    cdef bint beyond
    for j in range(1, length):
        if j == place:
            continue
        beyond = False
        if not _is_counter(rx, regex_words(rx, node)[j], &rest, &body, &low, &high) or high < need:
            rx.stack.size = base
            return EMPTY
        unbounded = regex_concat(rx, rest, regex_repeat(rx, body, 0, NONE))
        if low == 1 and rest == EPSILON and not regex_nullable(rx, part):
            low = 0  # each of its matches has a character
        # (What fits between the bounds of one counter may fit between none of two.)
        if not _is_whole(rx, part, unbounded, &beyond, 0) \
                or (low and (length > 3 or not _grows(rx, part, body, 0))):
            rx.stack.size = base
            return EMPTY
        if low:
            unbounded = regex_concat(rx, rest, regex_repeat(rx, body, low, NONE))
            unbounded = regex_saturate(rx, unbounded, most)
        if (low or beyond) and words_push(&rx.stack, unbounded) < 0:
            fault_set(rx.fault, FAULT_MEMORY)
    part = regex_saturate(rx, part, most)
    if words_push(&rx.stack, part) < 0:
        fault_set(rx.fault, FAULT_MEMORY)
    if rx.fault.code:
        rx.stack.size = base
        return EMPTY
    return regex_and(rx, base)
