# cython: language_level=3, boundscheck=False, wraparound=False
# cython: initializedcheck=False, cdivision=True
"""The rules of a description as arrays of numbers, and what is to be known of them.

:func:`flat_read` looks at each object of ``llgx.ir`` once and checks it on the way; everything
after that runs over arrays: which rules can be reached, which derive a text, which may derive the
empty one, which may end in themselves.

Invariant: places, productions and rules are numbered as in the description; rules that are added
come after those. A symbol is twice a rule, or twice a terminal and one. Cost: linear, each
question.
"""

from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

from llgx._ir cimport GrammarFields, Production, Rule, RuleRef, TerminalRef
from llgx._memory cimport NONE, words_free, words_push

from llgx import ir as _ir


cdef class Flat:
    """See the module. Made by :func:`flat_read`."""

    def __dealloc__(self):
        words_free(&self.rule_at)
        words_free(&self.place_at)
        words_free(&self.symbols)
        words_free(&self.arguments)
        words_free(&self.guards)
        free(self.parametric)
        free(self.dropped)

    cdef int add_optional(self, uint32_t terminal, bint is_empty) except -1:
        """Add a rule that derives nothing, or ``terminal`` unless that matches nothing else."""
        _push(&self.place_at, <uint32_t>self.symbols.size)
        _push(&self.guards, NONE)
        if not is_empty:
            _push(&self.symbols, 2 * terminal + 1)
            _push(&self.arguments, NONE)
            _push(&self.place_at, <uint32_t>self.symbols.size)
            _push(&self.guards, NONE)
        _push(&self.rule_at, <uint32_t>(self.place_at.size - 1))
        self.rules += 1
        return 0

    cdef list reachable(self, uint32_t start):
        """Rules that ``start`` can reach, in the order met, ``start`` first."""
        cdef list order = [start]
        cdef uint32_t production, place, rule
        cdef Py_ssize_t at = 0
        cdef uint8_t* seen = <uint8_t*>calloc(self.rules + 1, 1)
        if seen == NULL:
            raise MemoryError
        try:
            seen[start] = 1
            while at < len(order):
                rule = order[at]
                at += 1
                for production in range(self.rule_at.at[rule], self.rule_at.at[rule + 1]):
                    if self.dropped != NULL and self.dropped[production]:
                        continue
                    for place in range(
                        self.place_at.at[production], self.place_at.at[production + 1]
                    ):
                        rule = self.symbols.at[place] >> 1
                        if not self.symbols.at[place] & 1 and not seen[rule]:
                            seen[rule] = 1
                            order.append(rule)
        finally:
            free(seen)
        return order

    cdef int drop_unproductive(self, uint8_t* is_empty, uint8_t* productive) except -1:
        """Drop the productions that derive no text, guards taken as true; ``productive`` by rule.

        ``is_empty`` is by terminal. Whether there are any.
        """
        cdef uint32_t productions = self.rule_at.at[self.rules]
        cdef uint32_t production, place, symbol
        cdef bint drops = False
        cdef _Uses uses = _Uses.__new__(_Uses)
        free(self.dropped)
        self.dropped = <uint8_t*>calloc(productions + 1, 1)
        if self.dropped == NULL:
            raise MemoryError
        uses.read(self)
        for production in range(productions):
            for place in range(self.place_at.at[production], self.place_at.at[production + 1]):
                symbol = self.symbols.at[place]
                if not symbol & 1:
                    uses.missing[production] += 1
                elif is_empty[symbol >> 1]:
                    self.dropped[production] = 1
        for production in range(productions):
            if not self.dropped[production]:
                uses.settle(production, productive)
        uses.spread(self.dropped, productive)
        for production in range(productions):
            if uses.missing[production]:
                self.dropped[production] = 1
            drops = drops or self.dropped[production]
        return drops

    cdef int nullable(self, uint8_t* status) except -1:
        """By rule: 1 if it surely derives the empty string, 2 if that depends on a parameter.

        The second round takes every guard as true, the first every parametric rule as never empty:
        what only the second finds depends on parameters.
        """
        cdef uint32_t productions = self.rule_at.at[self.rules]
        cdef uint32_t production, place, symbol, rule
        cdef uint8_t* left_out
        cdef uint8_t* found
        cdef _Uses uses
        cdef int turn
        cdef bint some = False
        for production in range(productions):
            if self.place_at.at[production] == self.place_at.at[production + 1]:
                some = True
        if not some:
            return 0  # what is derived holds a terminal
        left_out = <uint8_t*>malloc(productions + 1)
        found = <uint8_t*>calloc(self.rules + 1, 1)
        uses = _Uses.__new__(_Uses)
        try:
            if left_out == NULL or found == NULL:
                raise MemoryError
            uses.read(self)
            for turn in range(1, 3):
                memset(left_out, 0, productions)
                for rule in range(self.rules):
                    for production in range(self.rule_at.at[rule], self.rule_at.at[rule + 1]):
                        uses.missing[production] = 0
                        left_out[production] = self.dropped[production] or (
                            turn == 1
                            and (
                                self.guards.at[production] != NONE
                                or (rule < self.parameters and self.parametric[rule])
                            )
                        )
                        for place in range(
                            self.place_at.at[production], self.place_at.at[production + 1]
                        ):
                            symbol = self.symbols.at[place]
                            if symbol & 1:
                                left_out[production] = 1
                                break
                            if not found[symbol >> 1]:
                                uses.missing[production] += 1
                for production in range(productions):
                    if not left_out[production]:
                        uses.settle(production, found)
                uses.spread(left_out, found)
                for rule in range(self.rules):
                    if found[rule] and not status[rule]:
                        status[rule] = turn
        finally:
            free(left_out)
            free(found)
        return 0

    cdef int tail_recursive(self, uint8_t* found) except -1:
        """Set ``found`` for the rules whose derivations may end in another one of the same rule.

        These are the cycles among the last symbols of productions: the components of more than one
        rule, and rules that end in themselves (Tarjan, "Depth-first search and linear graph
        algorithms", 1972).
        """
        cdef uint32_t* order = <uint32_t*>calloc(4 * <size_t>self.rules + 4, sizeof(uint32_t))
        if order == NULL:
            raise MemoryError
        _components(self, order, found)
        free(order)
        return 0


cdef int _components(Flat flat, uint32_t* order, uint8_t* found) noexcept:
    """``order``: when a rule was met (0: not yet), the earliest rule under way that it leads to,
    the production to look at next, and the rule above on the way, each by rule."""
    cdef uint32_t rules = flat.rules
    cdef uint32_t* lowest = order + rules + 1
    cdef uint32_t* cursor = lowest + rules + 1
    cdef uint32_t* above = cursor + rules + 1
    cdef uint32_t start, rule, production, end, other, met = 0
    cdef Words path          # rules met whose component is not known yet
    cdef bint deeper
    memset(&path, 0, sizeof(Words))
    for start in range(rules):
        if order[start]:
            continue
        rule = start
        above[rule] = NONE
        met += 1
        order[rule] = lowest[rule] = met
        cursor[rule] = flat.rule_at.at[rule]
        words_push(&path, rule)
        while rule != NONE:
            deeper = False
            while cursor[rule] < flat.rule_at.at[rule + 1]:
                production = cursor[rule]
                cursor[rule] += 1
                end = flat.place_at.at[production + 1]
                if flat.dropped[production] or end == flat.place_at.at[production]:
                    continue
                if flat.symbols.at[end - 1] & 1:
                    continue
                other = flat.symbols.at[end - 1] >> 1
                if other == rule:
                    found[rule] = 1
                elif not order[other]:
                    above[other] = rule
                    met += 1
                    order[other] = lowest[other] = met
                    cursor[other] = flat.rule_at.at[other]
                    words_push(&path, other)
                    rule = other
                    deeper = True
                    break
                elif order[other] != NONE and order[other] < lowest[rule]:
                    lowest[rule] = order[other]
            if deeper:
                continue
            if lowest[rule] == order[rule]:
                deeper = path.at[path.size - 1] != rule
                while True:
                    path.size -= 1
                    other = path.at[path.size]
                    order[other] = NONE          # done with
                    if deeper:
                        found[other] = 1
                    if other == rule:
                        break
            elif lowest[rule] < lowest[above[rule]]:
                lowest[above[rule]] = lowest[rule]
            rule = above[rule]
    words_free(&path)
    return 0


cdef class _Uses:
    """Where rules occur, and what productions still wait for: for fixpoints from the empty set."""

    cdef Flat flat
    cdef uint32_t* first         # by rule: its first occurrence; one more at the end
    cdef uint32_t* occurrences   # productions
    cdef uint32_t* owner         # by production: its rule
    cdef uint32_t* missing       # by production: occurrences of rules that are not settled
    cdef Words todo

    def __dealloc__(self):
        free(self.first)
        free(self.occurrences)
        free(self.owner)
        free(self.missing)
        words_free(&self.todo)

    cdef int read(self, Flat flat) except -1:
        cdef uint32_t productions = flat.rule_at.at[flat.rules]
        cdef uint32_t rule, production, place, symbol
        self.flat = flat
        self.first = <uint32_t*>calloc(flat.rules + 2, sizeof(uint32_t))
        self.occurrences = <uint32_t*>malloc((flat.symbols.size + 1) * sizeof(uint32_t))
        self.owner = <uint32_t*>malloc((productions + 1) * sizeof(uint32_t))
        self.missing = <uint32_t*>calloc(productions + 1, sizeof(uint32_t))
        if self.first == NULL or self.occurrences == NULL or self.owner == NULL \
                or self.missing == NULL:
            raise MemoryError
        for place in range(<uint32_t>flat.symbols.size):
            symbol = flat.symbols.at[place]
            if not symbol & 1:
                self.first[(symbol >> 1) + 2] += 1
        # What comes before a rule is first counted one place further on, from where it is moved.
        for rule in range(2, flat.rules + 2):
            self.first[rule] += self.first[rule - 1]
        for rule in range(flat.rules):
            for production in range(flat.rule_at.at[rule], flat.rule_at.at[rule + 1]):
                self.owner[production] = rule
                for place in range(flat.place_at.at[production], flat.place_at.at[production + 1]):
                    symbol = flat.symbols.at[place]
                    if not symbol & 1:
                        self.occurrences[self.first[(symbol >> 1) + 1]] = production
                        self.first[(symbol >> 1) + 1] += 1
        return 0

    cdef int settle(self, uint32_t production, uint8_t* found) except -1:
        """Settle the rule of ``production`` if nothing is missing any more."""
        cdef uint32_t rule = self.owner[production]
        if not self.missing[production] and not found[rule]:
            found[rule] = 1
            _push(&self.todo, rule)
        return 0

    cdef int spread(self, const uint8_t* left_out, uint8_t* found) except -1:
        """Settle what follows, through productions that are not ``left_out``."""
        cdef uint32_t rule, at, production
        while self.todo.size:
            self.todo.size -= 1
            rule = self.todo.at[self.todo.size]
            for at in range(self.first[rule], self.first[rule + 1]):
                production = self.occurrences[at]
                self.missing[production] -= 1
                if not left_out[production]:
                    self.settle(production, found)
        return 0


cdef inline int _push(Words* words, uint32_t value) except -1:
    if words_push(words, value) < 0:
        raise MemoryError
    return 0


cdef Flat flat_read(GrammarFields ir):
    """The rules of ``ir``, checked: ``ValueError`` as :meth:`GrammarIR.check` raises it."""
    cdef Flat flat = Flat.__new__(Flat)
    flat.exprs = []
    flat.conditions = []
    if not _read(flat, ir):
        ir.check()
        raise ValueError("the description of the grammar is inconsistent")
    return flat


cdef bint _read(Flat flat, GrammarFields ir) except? False:
    """Fill ``flat``; False where the description has a fault."""
    cdef list rules = ir.rules
    cdef Py_ssize_t terminals = len(ir.terminals)
    cdef Py_ssize_t count = len(rules), start = ir.start, at, index
    cdef dict known_exprs = {}
    cdef dict known_conditions = {}  # by identity: front ends share conditions
    cdef uint8_t* is_skip = NULL
    cdef object symbol, argument, found, derived
    cdef Rule rule
    cdef Production production
    if not 0 <= start < count or terminals >= 0x7FFFFFFF or count >= 0x7FFFFFFF:
        return False
    flat.rules = flat.parameters = <uint32_t>count
    flat.parametric = <uint8_t*>calloc(count + 1, 1)
    is_skip = <uint8_t*>calloc(terminals + 1, 1)
    try:
        if flat.parametric == NULL or is_skip == NULL:
            raise MemoryError
        for index in ir.skip:
            if not -1 <= index < terminals:
                return False
            if index >= 0:
                is_skip[index] = 1
        for at in range(count):
            if type(rules[at]) is not Rule:
                return False
            flat.parametric[at] = (<Rule>rules[at]).parametric
        if flat.parametric[start]:
            return False
        for at in range(count):
            rule = <Rule>rules[at]
            _push(&flat.rule_at, <uint32_t>flat.place_at.size)
            if rule.max_tokens is not None:
                flat.has_limits = True
                if rule.max_tokens == 0:
                    _push(&flat.place_at, <uint32_t>flat.symbols.size)
                    _push(&flat.guards, NONE)
            if rule.capture is not None or rule.tail_capture is not None \
                    or rule.temperature is not None:
                flat.has_extras = True
            if flat.symbols.size > 0x7FFFFFFF:
                raise MemoryError
            for derived in rule.productions:
                if flat.has_limits and rule.max_tokens == 0:
                    break
                if type(derived) is not Production:
                    return False
                production = <Production>derived
                _push(&flat.place_at, <uint32_t>flat.symbols.size)
                found = production.condition
                if found is None:
                    _push(&flat.guards, NONE)
                else:
                    index = known_conditions.setdefault(id(found), len(flat.conditions))
                    if index == len(flat.conditions):
                        flat.conditions.append(found)
                    _push(&flat.guards, <uint32_t>index)
                for symbol in production.symbols:
                    if type(symbol) is TerminalRef:
                        index = (<TerminalRef>symbol).index
                        if not 0 <= index < terminals or is_skip[index]:
                            return False
                        _push(&flat.symbols, 2 * <uint32_t>index + 1)
                        _push(&flat.arguments, NONE)
                        continue
                    if type(symbol) is not RuleRef:
                        return False
                    index = (<RuleRef>symbol).index
                    if not 0 <= index < count:
                        return False
                    argument = (<RuleRef>symbol).argument
                    if flat.parametric[index] != (argument is not None):
                        return False
                    _push(&flat.symbols, 2 * <uint32_t>index)
                    if argument is None:
                        _push(&flat.arguments, NONE)
                        continue
                    found = known_exprs.get(argument)
                    if found is None:
                        _ir.check_argument(argument)
                        found = known_exprs[argument] = len(flat.exprs)
                        flat.exprs.append(argument)
                    _push(&flat.arguments, <uint32_t>found)
        _push(&flat.rule_at, <uint32_t>flat.place_at.size)
        _push(&flat.place_at, <uint32_t>flat.symbols.size)
    finally:
        free(is_skip)
    for found in flat.conditions:
        _ir.check_condition(found)
    return True
