# cython: language_level=3, boundscheck=False, wraparound=False
# cython: initializedcheck=False, cdivision=True
"""Short ends of texts: tokens that complete what has been begun, and few of them.

An :class:`Endings` searches breadth-first from the state after a text for one in which the text may
end, one byte at a time: by the vocabulary's tokens of one byte, and by tokens that the grammar
names. Bytes of one class behave alike in every terminal, so one of each is tried.

What is found is kept: each state on the way knows its next token and how many are left to the end.
A later search ends where it meets such a state, after some more states in case there is a shorter
way past it, so that following a text token by token searches little. Contexts of scopes hold the
texts that may not come again, one context for each text. Of them only a few are tried: in each
state between lexemes, and within the lexemes after one such, at each of their lengths. That is
enough to find a key that is not taken yet.

Where much may come that need not (an object that may have more keys than the schema names, with any
value), the texts of one length are too many for that. What is not found within ``limit`` states is
searched again, best-first: those states first that are near to the start and to the end, which is
told by the fewest terminals that are still to come (Hart, Nilsson, Raphael, "A formal basis for the
heuristic determination of minimum cost paths", 1968, with more weight on the way ahead).

Invariant: a way that is returned is one that the grammar allows, token by token, and its end is
complete. It need not be the shortest possible; only the first search from a state without known
ones around it, if it takes no second one, finds that in bytes. No way is returned where none is
found within ``limit`` states twice; nothing is kept of such a search.

Cost: about 2 µs for each state that is visited, with scopes some 100. The engine's
lock is held meanwhile, the GIL is not. Memory: 16 bytes for each state that is known.
"""

from libc.stdint cimport uint32_t, uint64_t, uint8_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memset

from llgx._compiled cimport CompiledGrammar
from llgx._earley cimport Parser, Shape, parser_origin, row_accepts, row_t
from llgx._memory cimport (
    FAULT_MEMORY, NONE, Map, Words, fault_set, map_clear, map_free, map_get, map_put, words_free,
    words_push,
)
from llgx._sequence cimport FRESH, Program, Step, step_accepts, step_advance

import weakref

cdef enum:
    DETOUR = 256  # states that are still visited after the first way was found
    # Contexts of scopes that are tried in one state:
    BETWEEN = 3   # between lexemes
    WITHIN = 4    # within a lexeme, at one length, after one state between lexemes
    MOST_KNOWN = 1 << 20
    # Of the second search:
    RANKS = 1 << 14
    WEIGHT = 4    # of a terminal that is still to come, in tokens
    DEEPEST = 256 # derivations that are looked into, one within another
    FAR = 4096    # terminals; more are not told apart

cdef struct Visit:
    Step step
    uint32_t before      # index of the visit that led here; NONE for the first
    uint32_t origin      # index of the last visit between lexemes
    uint32_t depth
    uint32_t next        # visit of the same rank to be looked at after this one

# Representatives of byte classes, best first.
cdef bytes _PREFERRED = (
    b"ae0123456789bcdfghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ _-.,:;\"'{}[]()<>/"
)


cdef class Endings:
    """Ends of the texts of one compiled grammar.

    ``limit`` is the number of states that a search may visit. ``max_tokens`` is the number of
    tokens that the grammar grants a text, or None; ways do not look at it. Raises ``TypeError`` for
    what is no :class:`CompiledGrammar`.
    """

    cdef object reference        # weak: what is known is kept with the vocabulary
    cdef Program* program        # of the grammar, while it is searched
    cdef uint32_t limit
    cdef readonly object max_tokens
    cdef uint64_t* scratch       # of step_advance
    cdef Words candidates        # tokens that are tried from each state
    cdef Map known               # (row and state, context) -> index in next and left
    cdef Words next              # by known state: the token to take
    cdef Words left              # by known state: tokens to the end
    cdef uint32_t* ranks         # of the second search: by rank, the visit to look at
    cdef uint32_t* fewest        # by rule: terminals of its shortest derivation

    def __cinit__(self, compiled, limit=4_000):
        if not isinstance(compiled, CompiledGrammar):
            raise TypeError(f"a CompiledGrammar is searched, not {type(compiled).__name__}")
        if limit < 1 or limit > 10_000_000:
            raise ValueError(f"a search visits between 1 and 10,000,000 states, not {limit}")
        self.reference = weakref.ref(compiled)
        self.program = NULL
        self.limit = limit
        memset(&self.candidates, 0, sizeof(Words))
        memset(&self.known, 0, sizeof(Map))
        memset(&self.next, 0, sizeof(Words))
        memset(&self.left, 0, sizeof(Words))
        cdef CompiledGrammar grammar = compiled
        self.max_tokens = None if grammar.program.max_tokens == NONE else grammar.program.max_tokens
        self.scratch = <uint64_t*>malloc((grammar.engine.words + 1) * sizeof(uint64_t))
        self.ranks = <uint32_t*>malloc(RANKS * sizeof(uint32_t))
        self.fewest = <uint32_t*>malloc((grammar.engine.parser.rule_count + 1) * sizeof(uint32_t))
        if self.scratch == NULL or self.ranks == NULL or self.fewest == NULL:
            raise MemoryError
        self._count_terminals(&grammar.engine.parser)
        self._choose_candidates(grammar)

    def __dealloc__(self):
        free(self.scratch)
        free(self.ranks)
        free(self.fewest)
        words_free(&self.candidates)
        words_free(&self.next)
        words_free(&self.left)
        map_free(&self.known)

    cdef int _choose_candidates(self, CompiledGrammar grammar) except -1:
        cdef const uint8_t* classes = grammar.engine.lexer.rx.classes
        cdef Program* program = &grammar.program
        cdef uint32_t i, intervals, token
        of_byte = {}
        for token in range(<uint32_t>program.vocabulary_size):
            if program.is_text[token] \
                    and program.text_at[token + 1] - program.text_at[token] == 1:
                of_byte.setdefault(program.text[program.text_at[token]], token)
        # Where lexemes are to be distinct, a few characters more keep them short.
        distinct = 12 if grammar.engine.scopes != NULL else 0
        seen = set()
        chosen = []
        for place, byte in enumerate([*_PREFERRED, *range(256)]):
            if byte in of_byte and (classes[byte] not in seen or place < distinct):
                seen.add(classes[byte])
                chosen.append(of_byte[byte])
        if grammar.engine.token_sets.ids != NULL:
            intervals = grammar.engine.token_sets.at[
                grammar.engine.lexer.terminal_count
            ]
            for i in range(intervals):
                chosen.append(grammar.engine.token_sets.ids[2 * i])
        for token in dict.fromkeys(chosen):
            if words_push(&self.candidates, token) < 0:
                raise MemoryError
        return 0

    def way(self, place):
        """Tokens after which a text that stands at ``place`` is complete; None if none are found.

        ``place`` is what :meth:`llgx.Matcher._place` says. Raises :class:`LimitError` where the
        search passes a cap of the grammar's limits.
        """
        cdef CompiledGrammar grammar = self.reference()
        cdef Words found
        cdef Step start
        cdef bint reached = False
        cdef size_t i
        if grammar is None:
            raise ReferenceError("the compiled grammar is gone")
        start.row, start.state, start.context, start.count, start.begin = place
        start.token = NONE
        memset(&found, 0, sizeof(Words))
        try:
            # What is known is guarded by the engine's lock too.
            grammar.acquire()
            # Where rules are limited to some tokens, a way depends on how many there were.
            if self.next.size > MOST_KNOWN or grammar.engine.parser.limits != NULL:
                map_clear(&self.known)
                self.next.size = 0
                self.left.size = 0
            self.program = &grammar.program
            with nogil:
                reached = self._search(&start, &found, NULL)
                if not reached and self.program.engine.fault.code == 0:
                    found.size = 0
                    reached = self._search(&start, &found, self.ranks)
            grammar.release()
            return [found.at[i] for i in range(found.size)] if reached else None
        finally:
            words_free(&found)

    cdef bint _search(self, Step* start, Words* found, uint32_t* ranks) noexcept nogil:
        """Append a way from ``start`` to ``found``; whether there is one. The lock is held.

        Without ``ranks`` breadth-first; else by them, room for RANKS.
        """
        cdef Program* program = self.program
        cdef Map visited, crowds, ahead
        cdef uint32_t rank, lowest = RANKS
        cdef Visit* visits = NULL
        cdef Visit* at
        cdef Visit* grown
        cdef Step after
        cdef uint32_t room = 256, count = 1, looked_at = 0, head = 0, i, index
        cdef uint32_t best = NONE, shortest = NONE
        cdef uint32_t limit = self.limit
        if step_accepts(program, start):
            return program.engine.fault.code == 0
        if self._known_at(start) != NONE:
            return self._follow(start, found)
        memset(&visited, 0, sizeof(Map))
        memset(&crowds, 0, sizeof(Map))
        memset(&ahead, 0, sizeof(Map))
        if ranks != NULL:
            memset(ranks, 0xFF, RANKS * sizeof(uint32_t))  # NONE
        visits = <Visit*>malloc(room * sizeof(Visit))
        if visits == NULL:
            fault_set(&program.engine.fault, FAULT_MEMORY)
            return False
        visits[0].step = start[0]
        visits[0].before = NONE
        visits[0].origin = 0
        visits[0].depth = 0
        map_put(&visited, _high(start), start.context, 0)
        # `best` is the visit whose state is known, or complete, with the shortest way through it.
        while head < count and looked_at < limit and visits[head].depth + 1 < shortest:
            looked_at += 1
            for i in range(self.candidates.size):
                after = visits[head].step
                if step_advance(program, &after, self.candidates.at[i], self.scratch) >= 0:
                    if program.engine.fault.code:
                        break
                    continue
                if program.engine.fault.code:
                    break
                if map_get(&visited, _high(&after), after.context) != NONE:
                    continue
                if program.engine.scopes != NULL:
                    if self._is_crowded(&crowds, &visits[head], &after):
                        continue
                if count == room:
                    grown = <Visit*>realloc(visits, 2 * room * sizeof(Visit))
                    if grown == NULL:
                        fault_set(&program.engine.fault, FAULT_MEMORY)
                        break
                    visits = grown
                    room *= 2
                at = &visits[count]
                at.step = after
                at.before = head
                at.origin = count if after.state & FRESH else visits[head].origin
                at.depth = visits[head].depth + 1
                if map_put(&visited, _high(&after), after.context, count) < 0:
                    fault_set(&program.engine.fault, FAULT_MEMORY)
                    break
                index = self._known_at(&after)
                if index != NONE:
                    index = self.left.at[index]
                elif step_accepts(program, &after):
                    index = 0
                if index != NONE and at.depth + index < shortest:
                    if best == NONE and count + DETOUR < limit:
                        limit = count + DETOUR
                    shortest = at.depth + index
                    best = count
                if ranks != NULL:
                    rank = at.depth
                    if program.engine.exact == NULL and after.row != NONE:
                        rank += WEIGHT * self._ahead(&ahead, after.row, NONE, DEEPEST)
                    rank = min(rank, <uint32_t>(RANKS - 1))
                    at.next = ranks[rank]
                    ranks[rank] = count
                    lowest = min(lowest, rank)
                count += 1
            if program.engine.fault.code:
                break
            if ranks == NULL:
                head = looked_at
                continue
            if best != NONE:
                break
            while lowest < RANKS and ranks[lowest] == NONE:
                lowest += 1
            if lowest == RANKS:
                break
            head = ranks[lowest]
            ranks[lowest] = visits[head].next
        if best != NONE and program.engine.fault.code == 0:
            after = visits[best].step
            if self._keep(visits, best, shortest) < 0:
                fault_set(&program.engine.fault, FAULT_MEMORY)
            else:
                self._spell(visits, best, found)
                self._follow(&after, found)
        map_free(&visited)
        map_free(&crowds)
        map_free(&ahead)
        free(visits)
        return best != NONE and program.engine.fault.code == 0

    cdef void _count_terminals(self, const Parser* ps) noexcept:
        """Fill ``fewest``. Linear in the grammar for each level of rules in one another."""
        cdef uint32_t rule, production, rest
        cdef bint changed = True
        for rule in range(ps.rule_count):
            self.fewest[rule] = FAR
        while changed:
            changed = False
            for rule in range(ps.rule_count):
                for production in range(ps.rules[rule], ps.rules[rule + 1]):
                    rest = self._rest(ps, ps.productions[production].place)
                    if rest < self.fewest[rule]:
                        self.fewest[rule] = rest
                        changed = True

    cdef uint32_t _rest(self, const Parser* ps, uint32_t place) noexcept nogil:
        """Terminals from ``place`` to the end of its production, at the least."""
        cdef uint32_t count = 0
        while ps.symbols[place] != NONE and count < FAR:
            count += 1 if ps.symbols[place] & 1 else self.fewest[ps.symbols[place] >> 1]
            place += 1
        return min(count, <uint32_t>FAR)

    cdef uint32_t _ahead(self, Map* ahead, row_t row, uint32_t rule, uint32_t room) noexcept nogil:
        """Terminals from ``row`` to the end of the text, at the least, about; after ``rule``, where
        that is not NONE, which began in ``row``. What was counted is kept in ``ahead``."""
        cdef const Parser* ps = &self.program.engine.parser
        cdef const Shape* shape = &ps.shapes[ps.rows[row].shape]
        cdef const uint32_t* item
        cdef uint32_t i, count, least = map_get(ahead, row, rule)
        if least != NONE:
            return least
        if room == 0 or (rule == NONE and row_accepts(ps, row)):
            return 0
        map_put(ahead, row, rule, FAR)  # for ways that come back here
        least = FAR
        for i in range(shape.count):
            item = shape.items + <size_t>i * ps.stride
            if rule != NONE and item[0] != 2 * rule:
                continue
            count = self._rest(ps, item[1] if rule == NONE else item[1] + 1)
            if count < least and ps.owner[item[1]] != ps.start_rule:
                count += self._ahead(
                    ahead, parser_origin(ps, row, item), ps.owner[item[1]], room - 1
                )
            least = min(least, count)
        map_put(ahead, row, rule, least)  # where memory is out it is not kept
        return least

    cdef bint _is_crowded(self, Map* crowds, Visit* before, Step* after) noexcept nogil:
        """Whether enough contexts were tried in the state of ``after``; if not, it is one more."""
        cdef uint64_t place = <uint64_t>before.origin << 32 | before.depth
        cdef uint32_t room = WITHIN, crowd
        if after.state & FRESH:
            place = <uint64_t>NONE << 32
            room = BETWEEN
        crowd = map_get(crowds, _high(after), place)
        crowd = 0 if crowd == NONE else crowd
        if crowd >= room:
            return True
        if map_put(crowds, _high(after), place, crowd + 1) < 0:
            fault_set(&self.program.engine.fault, FAULT_MEMORY)
        return False

    cdef uint32_t _known_at(self, const Step* step) noexcept nogil:
        return map_get(&self.known, _high(step), step.context)

    cdef int _keep(self, Visit* visits, uint32_t end, uint32_t length) noexcept nogil:
        """Make the states on the way to ``end``, which is itself known or complete, known."""
        cdef uint32_t at = end, before
        while visits[at].before != NONE:
            before = visits[at].before
            if map_put(
                &self.known, _high(&visits[before].step), visits[before].step.context,
                <uint32_t>self.next.size
            ) < 0 or words_push(&self.next, visits[at].step.token) < 0 \
                    or words_push(&self.left, length - visits[before].depth) < 0:
                return -1
            at = before
        return 0

    cdef void _spell(self, Visit* visits, uint32_t end, Words* found) noexcept nogil:
        """Append the tokens on the way to ``end``."""
        cdef size_t first = found.size, last
        cdef uint32_t at = end, token
        while visits[at].before != NONE:
            if words_push(found, visits[at].step.token) < 0:
                fault_set(&self.program.engine.fault, FAULT_MEMORY)
                return
            at = visits[at].before
        last = found.size
        while first + 1 < last:
            last -= 1
            token = found.at[first]
            found.at[first] = found.at[last]
            found.at[last] = token
            first += 1

    cdef bint _follow(self, Step* step, Words* found) noexcept nogil:
        """Append the tokens from ``step`` on, by what is known."""
        cdef Program* program = self.program
        cdef uint32_t index
        while not step_accepts(program, step):
            index = self._known_at(step)
            if index == NONE:
                return False
            if step_advance(program, step, self.next.at[index], self.scratch) >= 0 \
                    or program.engine.fault.code:
                return False
            if words_push(found, self.next.at[index]) < 0:
                fault_set(&program.engine.fault, FAULT_MEMORY)
                return False
        return program.engine.fault.code == 0


cdef inline uint64_t _high(const Step* step) noexcept nogil:
    return (<uint64_t>step.row << 32) | step.state
