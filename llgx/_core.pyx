# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Compiled grammars and matchers: what the rest of llgx sees of the engine.

A :class:`CompiledGrammar` owns an engine (lexer, parser, masks), all of which is built lazily and shared
by the :class:`Matcher` objects of its sequences. A matcher is a stack with one entry per consumed token,
(row, lexer state, at the beginning of a lexeme or not), so that ``rollback``, ``copy`` and ``reset`` cost
next to nothing.

Invariants: every public method either succeeds or raises and leaves the object as it was. An engine is
touched under its lock only; a mask that is not in the memo is computed without the GIL. A matcher itself
belongs to one thread at a time.

Cost: ``fill_bitmask`` of a known state copies the mask (16 KB for 128k tokens) and sets a few bits;
``consume`` steps the lexer once per byte.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset

from cpython.buffer cimport (
    PyBUF_FORMAT, PyBUF_ND, PyBUF_STRIDES, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer,
)
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.long cimport PyLong_AsLongLongAndOverflow
from cpython.pythread cimport (
    NOWAIT_LOCK, PyThread_acquire_lock, PyThread_allocate_lock, PyThread_free_lock,
    PyThread_release_lock, PyThread_type_lock, WAIT_LOCK,
)

from llgx._earley cimport (
    COND_AND, COND_NOT, COND_OR, Cond, Expr, FIRST_ROW, Production, parser_scan, row_accepts,
    row_state, row_t,
)
from llgx._lexer cimport DEAD, NO_SET, lexer_saturate, state_t
from llgx._mask cimport (
    BOUNDARY_MEMO, DIFFERENCE_MASKS, Engine, FORCED_RUNS, LENGTH_CLASSES, MASK_MEMO,
    engine_accepts,
    engine_begin, engine_fill, engine_free, engine_init, engine_step,
)
from llgx._memory cimport NONE, map_get
from llgx._regex cimport (
    EMPTY, HARD, node_t, raise_fault, regex_freeze_classes, regex_is_live, regex_lower,
    regex_nonempty, regex_nullable,
)
from llgx._trie cimport TokenTrie

from llgx import ir as _ir
from llgx.errors import GrammarError, LimitError, TokenRejected, VocabularyError

cdef enum:
    FRESH = 0x80000000   # flag in Step.state: at the beginning of a lexeme
    STATE = 0x7FFFFFFF
    FORCED_LIMIT = 4096  # bytes that ``forced_bytes`` looks ahead

cdef struct Step:
    row_t row            # NONE after an end-of-generation token
    uint32_t state       # lexer state, FRESH added at the beginning of a lexeme
    uint32_t token


# --------------------------------------------------------------------------- grammars

cdef dict _EXPR_OPS = {
    "const": 0, "self": 1, "set_bit": 2, "clear_bit": 3, "bit_and": 4, "bit_or": 5, "incr": 6,
    "decr": 7,
}
cdef dict _COND_OPS = {
    "true": 0, "eq": 1, "ne": 2, "lt": 3, "le": 4, "gt": 5, "ge": 6, "bit_count_eq": 7,
    "bit_count_ne": 8, "bit_count_lt": 9, "bit_count_le": 10, "bit_count_gt": 11,
    "bit_count_ge": 12, "bit_set": 13, "bit_clear": 14, "is_ones": 15, "is_zeros": 16, "and": 17,
    "or": 18, "not": 19,
}


cdef class CompiledGrammar:
    """A grammar bound to a vocabulary: immutable for its users, shareable between threads.

    Made by :meth:`llgx.Grammar.compile`. Raises :class:`GrammarError` if the grammar matches no text
    at all, :class:`LimitError` if it passes a cap, ``ValueError`` for an inconsistent ``ir``.
    Compiling is linear in the grammar; everything else is built when a matcher first needs it.
    """

    cdef Engine engine
    cdef TokenTrie trie
    cdef PyThread_type_lock lock
    cdef uint32_t* eog
    cdef uint32_t eog_count
    cdef uint8_t* is_eog
    cdef readonly object vocabulary
    cdef readonly object limits
    cdef readonly object shortcuts
    cdef readonly tuple warnings
    cdef readonly bint forcing
    cdef tuple names             # of terminals
    cdef object __weakref__

    def __cinit__(self, ir, vocabulary, limits, shortcuts):
        cdef uint32_t index, size
        self.vocabulary = vocabulary
        self.limits = limits
        self.shortcuts = shortcuts
        self.trie = vocabulary.trie
        self.lock = PyThread_allocate_lock()
        if self.lock == NULL:
            raise MemoryError
        ir.check()
        self.forcing = ir.forcing
        if engine_init(&self.engine, &self.trie.pool, <uint32_t>len(ir.terminals)) < 0:
            raise MemoryError
        size = <uint32_t>self.trie.vocabulary_size
        self.eog = <uint32_t*>malloc((len(vocabulary.eog) + 1) * sizeof(uint32_t))
        self.is_eog = <uint8_t*>calloc(size + 1, 1)
        if self.eog == NULL or self.is_eog == NULL:
            raise MemoryError
        for index in vocabulary.eog:
            if index >= size:
                raise ValueError(f"end token {index} is not in the vocabulary of {size}")
            self.eog[self.eog_count] = index
            self.eog_count += 1
            self.is_eog[index] = 1
        self._set_limits()
        self._load(ir)
        if engine_begin(&self.engine) < 0:
            raise_fault(&self.engine.fault, limits)
            raise MemoryError

    def __dealloc__(self):
        engine_free(&self.engine)
        free(self.eog)
        free(self.is_eog)
        if self.lock != NULL:
            PyThread_free_lock(self.lock)

    cdef int _set_limits(self) except -1:
        cdef object limits = self.limits
        cdef object shortcuts = self.shortcuts
        self.engine.lexer.rx.node_limit = min(limits.regex_nodes, 0x7FFFFFFF)
        self.engine.lexer.rx.depth_limit = min(limits.regex_depth, 20000)
        self.engine.lexer.rx.step_limit = min(limits.emptiness_steps, 0x7FFFFFFF)
        self.engine.lexer.state_limit = min(limits.lexer_states, 0x7FFFFFFE)
        self.engine.parser.row_limit = min(limits.rows, 0x7FFFFFFF)
        self.engine.parser.item_limit = min(limits.row_items, 0x0FFFFFFF)
        self.engine.mask_limit = limits.mask_cache_bytes
        self.engine.heavy = max(1, min(limits.heavy_nodes, 0x7FFFFFFF))
        self.engine.shortcuts = (
            (DIFFERENCE_MASKS if shortcuts.difference_masks else 0)
            | (LENGTH_CLASSES if shortcuts.length_classes else 0)
            | (BOUNDARY_MEMO if shortcuts.boundary_memo else 0)
            | (MASK_MEMO if shortcuts.mask_memo else 0)
            | (FORCED_RUNS if shortcuts.forced_runs else 0)
        )
        return 0

    cdef int _load(self, ir) except -1:
        """Lower the terminals, drop what cannot take part in a text, and lay out the rest."""
        cdef list rules = [list(rule.productions) for rule in ir.rules]
        cdef list reached = _reachable(rules, ir.start)
        cdef set terminals = set()
        cdef Py_ssize_t count = 0
        for index in reached:
            for production in rules[index]:
                count += 1 + len(production.symbols)
                for symbol in production.symbols:
                    if type(symbol) is _ir.TerminalRef:
                        terminals.add(symbol.index)
        if count > self.limits.symbols:
            raise LimitError(f"the grammar has {count} symbols", limit="symbols")
        used_skip = {ir.skip[ir.terminals[index].skip_class] for index in terminals} - {-1}
        nullable, empty = self._lower_terminals(ir, sorted(terminals | used_skip))
        # A terminal that may match nothing stands for a rule that derives it or nothing; only
        # matches of at least one byte are the lexer's business.
        cdef dict helper = {}
        for index in sorted(nullable & terminals):
            helper[index] = len(rules)
            body = [_ir.Production(())]
            if index not in empty:
                body.append(_ir.Production((_ir.TerminalRef(index),)))
            rules.append(body)
        if helper:
            for index in reached:
                rules[index] = [_with_helpers(production, helper) for production in rules[index]]
        productive = _productive(rules, empty)
        if ir.start not in productive:
            raise GrammarError(_unproductive_message(ir, rules, productive, empty))
        for index in range(len(rules)):
            rules[index] = [
                production for production in rules[index]
                if _can_derive(production, productive, empty)
            ]
        reached = _reachable(rules, ir.start)
        self._lay_out(ir, rules, reached)
        self.names = tuple([terminal.name for terminal in ir.terminals])
        self.warnings = tuple(ir.warnings)
        for index in range(len(ir.terminals)):
            skip = ir.skip[ir.terminals[index].skip_class]
            if skip < 0 or skip in empty or skip not in used_skip:
                self.engine.parser.skip_of[index] = NONE
            else:
                self.engine.parser.skip_of[index] = skip
        return 0

    cdef tuple _lower_terminals(self, ir, list order):
        """Set the lexer's terminals; which of them are nullable, and which have no longer match."""
        cdef dict memo = {}
        cdef dict nodes = {}
        cdef node_t node
        cdef set nullable = set(), empty = set()
        for index in order:
            terminal = ir.terminals[index]
            node = regex_lower(&self.engine.lexer.rx, terminal.regex, memo, 0)
            raise_fault(&self.engine.fault, self.limits)
            if regex_nullable(&self.engine.lexer.rx, node):
                nullable.add(index)
                node = regex_nonempty(&self.engine.lexer.rx, node)
            self.engine.lexer.initial[index] = node
            self.engine.lexer.lazy[index] = terminal.lazy
        for index in set(ir.skip) - {-1}:
            self.engine.lexer.skip[index] = 1
        raise_fault(&self.engine.fault, self.limits)
        regex_freeze_classes(&self.engine.lexer.rx)
        for index in order:
            node = self.engine.lexer.initial[index]
            with nogil:
                if not regex_is_live(&self.engine.lexer.rx, node):
                    node = EMPTY
            raise_fault(&self.engine.fault, self.limits)
            self.engine.lexer.initial[index] = node
            if node == EMPTY:
                empty.add(index)
        return nullable, empty

    cdef int _lay_out(self, ir, list rules, list reached) except -1:
        """Fill the parser's arrays with the rules ``reached``, the start rule's parent added."""
        cdef dict number = {rule: at for at, rule in enumerate(reached)}
        cdef list exprs = [], conds = []
        cdef dict expr_index = {}
        cdef Py_ssize_t places = 2, productions = 1
        cdef uint32_t at = 0, made = 0, rule, i
        cdef bint parametric = False
        for index in reached:
            productions += len(rules[index])
            for production in rules[index]:
                places += 1 + len(production.symbols)
        cdef uint32_t rule_count = <uint32_t>len(reached) + 1
        ps = &self.engine.parser
        ps.symbols = <uint32_t*>malloc(places * sizeof(uint32_t))
        ps.argument = <uint32_t*>malloc(places * sizeof(uint32_t))
        ps.owner = <uint32_t*>malloc(places * sizeof(uint32_t))
        ps.rules = <uint32_t*>malloc((rule_count + 1) * sizeof(uint32_t))
        ps.productions = <Production*>malloc(productions * sizeof(Production))
        ps.nullable = <uint8_t*>calloc(rule_count + 1, 1)
        ps.skip_of = <uint32_t*>malloc((len(ir.terminals) + 1) * sizeof(uint32_t))
        if ps.symbols == NULL or ps.argument == NULL or ps.owner == NULL or ps.rules == NULL \
                or ps.productions == NULL or ps.nullable == NULL or ps.skip_of == NULL:
            raise MemoryError
        ps.rule_count = rule_count
        ps.start_rule = rule_count - 1
        ps.initial_skip = ir.initial_skip
        ps.skip_once = ir.skip_once
        start = [_ir.Production((_ir.RuleRef(ir.start),))]
        for rule in range(rule_count):
            ps.rules[rule] = made
            for production in (rules[reached[rule]] if rule < rule_count - 1 else start):
                ps.productions[made].place = at
                ps.productions[made].condition = NONE
                if production.condition is not None:
                    parametric = True
                    ps.productions[made].condition = <uint32_t>len(conds)
                    _flatten_condition(production.condition, conds)
                made += 1
                for symbol in production.symbols:
                    ps.owner[at] = rule
                    ps.argument[at] = NONE
                    if type(symbol) is _ir.TerminalRef:
                        ps.symbols[at] = 2 * <uint32_t>symbol.index + 1
                    else:
                        ps.symbols[at] = 2 * <uint32_t>number[symbol.index]
                        if symbol.argument is not None:
                            parametric = True
                            if symbol.argument not in expr_index:
                                expr_index[symbol.argument] = len(exprs)
                                exprs.append(symbol.argument)
                            ps.argument[at] = expr_index[symbol.argument]
                    at += 1
                ps.owner[at] = rule
                ps.symbols[at] = NONE
                ps.argument[at] = NONE
                at += 1
        ps.rules[rule_count] = made
        for rule, status in _nullable(rules, reached, ir).items():
            ps.nullable[number[rule]] = status
        ps.stride = 5 if parametric else 3
        ps.exprs = <Expr*>calloc(len(exprs) + 1, sizeof(Expr))
        ps.conds = <Cond*>calloc(len(conds) + 1, sizeof(Cond))
        if ps.exprs == NULL or ps.conds == NULL:
            raise MemoryError
        for i in range(<uint32_t>len(exprs)):
            ps.exprs[i].op = _EXPR_OPS[exprs[i].op]
            ps.exprs[i].a = exprs[i].a & 0xFFFFFFFFFFFFFFFF
            ps.exprs[i].b = exprs[i].b & 0xFFFFFFFFFFFFFFFF
        for i in range(<uint32_t>len(conds)):
            condition, first = conds[i]
            ps.conds[i].op = _COND_OPS[condition.op]
            ps.conds[i].a = condition.a
            ps.conds[i].b = condition.b
            ps.conds[i].value = condition.value & 0xFFFFFFFFFFFFFFFF
            ps.conds[i].first = first
            ps.conds[i].count = <uint32_t>len(condition.items)
        return 0

    cdef int acquire(self) except -1:
        """Take the engine's lock, without the GIL if it has to be waited for."""
        if not PyThread_acquire_lock(self.lock, NOWAIT_LOCK):
            with nogil:
                PyThread_acquire_lock(self.lock, WAIT_LOCK)
        return 0

    cdef int release(self) except -1:
        """Give the lock back; raise what a kernel reported."""
        cdef int code = self.engine.fault.code
        if code == 0:
            PyThread_release_lock(self.lock)
            return 0
        try:
            raise_fault(&self.engine.fault, self.limits)
        finally:
            PyThread_release_lock(self.lock)
        return 0

    def stats(self):
        """Counts of what has been built so far, and ``memory`` in bytes. For tests and benches."""
        self.acquire()
        engine = &self.engine
        result = {
            "regex_nodes": engine.lexer.rx.nodes.count,
            "byte_classes": engine.lexer.rx.class_count,
            "lexer_states": engine.lexer.vectors.count,
            "rows": engine.parser.contents.count,
            "shapes": engine.parser.shape_words.count,
            "masks": engine.mask_count,
            "insides": engine.inside_count,
            "sites": engine.site_count,
            "tables": engine.table_count,
            "memory": (
                engine.lexer.rx.nodes.arena.total + 48 * <size_t>engine.lexer.rx.nodes.room
                + 48 * <size_t>engine.lexer.rx.derivatives.count
                + engine.lexer.vectors.arena.total + 56 * <size_t>engine.lexer.states_room
                + engine.lexer.rows.total + engine.parser.contents.arena.total
                + engine.parser.shape_words.arena.total + 4 * engine.parser.variants.room + 48 * <size_t>engine.parser.scans.count
                + engine.mask_bytes + engine.inside_arena.total
            ),
        }
        self.release()
        return result


cdef list _reachable(list rules, start):
    """Rules that ``start`` can reach, in the order met, ``start`` first."""
    cdef set seen = {start}
    cdef list order = [start]
    cdef Py_ssize_t at = 0
    while at < len(order):
        for production in rules[order[at]]:
            for symbol in production.symbols:
                if type(symbol) is _ir.RuleRef and symbol.index not in seen:
                    seen.add(symbol.index)
                    order.append(symbol.index)
        at += 1
    return order


cdef object _with_helpers(production, dict helper):
    """``production`` with references to nullable terminals replaced by their helper rules."""
    for symbol in production.symbols:
        if type(symbol) is _ir.TerminalRef and symbol.index in helper:
            break
    else:
        return production
    return _ir.Production(
        tuple([
            _ir.RuleRef(helper[symbol.index])
            if type(symbol) is _ir.TerminalRef and symbol.index in helper else symbol
            for symbol in production.symbols
        ]),
        production.condition,
    )


cdef set _productive(list rules, set empty):
    """Rules that derive some text, guards taken as true. Linear."""
    cdef dict waiting = {}       # rule -> [(rule, production's counter)]
    cdef set productive = set()
    cdef list todo = []
    for index, productions in enumerate(rules):
        for production in productions:
            missing = set()
            for symbol in production.symbols:
                if type(symbol) is _ir.RuleRef:
                    missing.add(symbol.index)
                elif symbol.index in empty:
                    break
            else:
                if not missing:
                    todo.append(index)
                    continue
                counter = [index, len(missing)]
                for other in missing:
                    waiting.setdefault(other, []).append(counter)
    while todo:
        index = todo.pop()
        if index in productive:
            continue
        productive.add(index)
        for counter in waiting.get(index, ()):
            counter[1] -= 1
            if counter[1] == 0:
                todo.append(counter[0])
    return productive


cdef bint _can_derive(production, set productive, set empty):
    for symbol in production.symbols:
        if type(symbol) is _ir.RuleRef:
            if symbol.index not in productive:
                return False
        elif symbol.index in empty:
            return False
    return True


cdef str _unproductive_message(ir, list rules, set productive, set empty):
    for index in sorted(empty):
        if _mentions(rules, index):
            return (
                f"the grammar matches no text: terminal {ir.terminals[index].name} "
                "matches nothing"
            )
    names = [rule.name for at, rule in enumerate(ir.rules) if at not in productive and rule.name]
    return "the grammar matches no text: no end to the recursion of " + ", ".join(names[:5])


cdef bint _mentions(list rules, index):
    for productions in rules:
        for production in productions:
            for symbol in production.symbols:
                if type(symbol) is _ir.TerminalRef and symbol.index == index:
                    return True
    return False


cdef dict _nullable(list rules, list reached, ir):
    """By rule: 1 if it surely derives the empty string, 2 if that depends on a parameter."""
    cdef dict status = {}
    cdef dict users = {}
    cdef list todo
    for wanted in (1, 2):
        # The second round takes every guard as true, the first every parametric rule as never
        # empty: what only the second finds depends on parameters.
        todo = list(reached)
        if wanted == 1:
            for index in reached:
                for production in rules[index]:
                    for symbol in production.symbols:
                        if type(symbol) is _ir.RuleRef:
                            users.setdefault(symbol.index, []).append(index)
        while todo:
            index = todo.pop()
            if index in status:
                continue
            if wanted == 1 and index < len(ir.rules) and ir.rules[index].parametric:
                continue
            for production in rules[index]:
                if wanted == 1 and production.condition is not None:
                    continue
                for symbol in production.symbols:
                    if type(symbol) is _ir.TerminalRef or symbol.index not in status:
                        break
                else:
                    status[index] = wanted
                    todo.extend(users.get(index, ()))
                    break
    return status


cdef int _flatten_condition(condition, list out) except -1:
    """Append ``condition`` and below as (condition, place of its first part), parts side by side."""
    cdef list todo = [len(out)]
    out.append((condition, 0))
    while todo:
        at = todo.pop()
        parts = out[at][0].items
        if parts:
            first = len(out)
            out[at] = (out[at][0], first)
            for part in parts:
                todo.append(len(out))
                out.append((part, 0))
    return 0


# --------------------------------------------------------------------------- matchers

cdef class Matcher:
    """The state of one sequence under a :class:`CompiledGrammar`.

    Not to be used by two threads at once; any number of matchers may share a compiled grammar. Every
    method that raises leaves the matcher as it was.
    """

    cdef CompiledGrammar grammar
    cdef Step* steps             # [0] is the state before the first token
    cdef uint32_t count          # tokens consumed
    cdef uint32_t room
    cdef uint64_t* scratch       # one mask, for rows that cannot be written as 64-bit words
    cdef Py_buffer target        # the array of the last ``fill_bitmask``
    cdef object target_owner     # kept, and locked, until another array comes
    cdef object __weakref__

    def __cinit__(self, CompiledGrammar compiled not None):
        self.grammar = compiled
        self.room = 64
        self.steps = <Step*>malloc(self.room * sizeof(Step))
        self.scratch = <uint64_t*>malloc((compiled.engine.words + 1) * sizeof(uint64_t))
        if self.steps == NULL or self.scratch == NULL:
            raise MemoryError
        compiled.acquire()
        self.steps[0].row = FIRST_ROW
        self.steps[0].state = row_state(&compiled.engine.parser, FIRST_ROW) | FRESH
        self.steps[0].token = NONE
        compiled.release()

    def __dealloc__(self):
        free(self.steps)
        free(self.scratch)
        if self.target_owner is not None:
            PyBuffer_Release(&self.target)

    @property
    def compiled(self):
        """The grammar that this matcher follows."""
        return self.grammar

    @property
    def tokens(self):
        """The tokens consumed so far."""
        return [self.steps[i].token for i in range(1, self.count + 1)]

    def __len__(self):
        return self.count

    # ------------------------------------------------------------ steps

    cdef int _advance(self, Step* step, int64_t token) except -2:
        """Move ``step`` past a token. -1, or how many of its bytes fit if it is refused.

        The engine's lock is held; faults are left for the caller's ``release``.
        """
        cdef Engine* engine = &self.grammar.engine
        cdef TokenTrie trie = self.grammar.trie
        cdef row_t row = step.row
        cdef state_t state = step.state & STATE
        cdef bint fresh = step.state & FRESH != 0
        cdef uint64_t i
        if token < 0 or token >= trie.vocabulary_size:
            return 0
        if self.grammar.is_eog[token]:
            if row != NONE and not engine_accepts(engine, row, state, fresh):
                return 0
            step.row = NONE
            step.state = DEAD
            step.token = <uint32_t>token
            return -1
        if row == NONE or not trie.is_text[token]:
            return 0
        for i in range(trie.text_at[token], trie.text_at[token + 1]):
            if not engine_step(engine, &row, &state, &fresh, trie.text[i]):
                return <int>(i - trie.text_at[token])
        step.row = row
        step.state = state | (FRESH if fresh else 0)
        step.token = <uint32_t>token
        return -1

    cdef int _push(self, Step step) except -1:
        cdef Step* grown
        if self.count + 1 == self.room:
            grown = <Step*>realloc(self.steps, 2 * <size_t>self.room * sizeof(Step))
            if grown == NULL:
                raise MemoryError
            self.steps = grown
            self.room *= 2
        self.count += 1
        self.steps[self.count] = step
        return 0

    cdef object _rejection(self, int64_t token, int fitting):
        cdef Step* step = &self.steps[self.count]
        size = self.grammar.trie.vocabulary_size
        data = b""
        if not 0 <= token < size:
            message = f"token {token} is not in the vocabulary of {size}"
        else:
            data = self.grammar.vocabulary.tokens[token]
            expected = ", ".join(self.expected()[:8])
            if step.row == NONE:
                reason = "the text has ended"
            elif self.grammar.is_eog[token]:
                reason = f"the text is not complete; expected {expected}"
            elif not self.grammar.trie.is_text[token]:
                reason = "it is a special token, which no text matches"
            elif not expected:
                reason = "the text is complete"
            else:
                reason = f"its byte {fitting} does not fit; expected {expected}"
            message = f"token {token} {data!r} is not allowed after {self.count} tokens: {reason}"
        return TokenRejected(
            message, token=token, token_bytes=data, position=self.count, byte_offset=fitting,
            expected=self.expected(),
        )

    def consume(self, token):
        """Move past ``token``.

        Raises :class:`TokenRejected` if the grammar does not allow it (an id out of range included),
        ``TypeError`` if it is no integer, :class:`LimitError`.
        """
        cdef int64_t number = _as_token(token)
        cdef Step step = self.steps[self.count]
        cdef int fitting
        self.grammar.acquire()
        fitting = self._advance(&step, number)
        self.grammar.release()
        if fitting >= 0:
            raise self._rejection(number, fitting)
        self._push(step)

    def allows(self, token):
        """Whether ``consume(token)`` would succeed. Costs no mask."""
        cdef int64_t number = _as_token(token)
        cdef Step step = self.steps[self.count]
        cdef int fitting
        self.grammar.acquire()
        fitting = self._advance(&step, number)
        self.grammar.release()
        return fitting < 0

    def validate(self, tokens):
        """How many of ``tokens`` could be consumed one after the other. Changes nothing."""
        cdef list numbers = [_as_token(token) for token in tokens]
        cdef Step step = self.steps[self.count]
        cdef Py_ssize_t fits = 0
        self.grammar.acquire()
        while fits < len(numbers) and self._advance(&step, numbers[fits]) < 0:
            fits += 1
        self.grammar.release()
        return fits

    def try_consume(self, tokens):
        """Consume ``tokens`` up to the first that is refused; how many were consumed."""
        cdef list numbers = [_as_token(token) for token in tokens]
        cdef list steps = []
        cdef Step step = self.steps[self.count]
        self.grammar.acquire()
        for token in numbers:
            if self._advance(&step, token) >= 0:
                break
            steps.append(step)
        self.grammar.release()
        for taken in steps:
            self._push(taken)
        return len(steps)

    def rollback(self, count):
        """Take back the last ``count`` tokens, end-of-generation tokens included. Constant time.

        Raises ``ValueError`` if there are not so many, and changes nothing then.
        """
        cdef Py_ssize_t number = count
        if number < 0 or number > self.count:
            raise ValueError(f"cannot roll back {count} of {self.count} tokens")
        self.count -= <uint32_t>number

    def reset(self):
        """Back to before the first token."""
        self.count = 0

    def copy(self):
        """A matcher in the same state, independent from here on. Linear in the tokens consumed."""
        cdef Matcher other = Matcher.__new__(Matcher, self.grammar)
        cdef Step* grown = <Step*>realloc(other.steps, self.room * sizeof(Step))
        if grown == NULL:
            raise MemoryError
        other.steps = grown
        other.room = self.room
        other.count = self.count
        memcpy(other.steps, self.steps, (self.count + 1) * sizeof(Step))
        return other

    __copy__ = copy

    def __deepcopy__(self, memo):
        return self.copy()

    # ------------------------------------------------------------ state

    cdef bint _accepts(self, Step* step):
        """Whether the text is complete; lock held."""
        if step.row == NONE:
            return True
        return engine_accepts(
            &self.grammar.engine, step.row, step.state & STATE, step.state & FRESH != 0
        )

    def is_accepting(self):
        """Whether the text so far is complete, so that it may end here."""
        self.grammar.acquire()
        accepts = self._accepts(&self.steps[self.count])
        self.grammar.release()
        return accepts

    @property
    def stop_reason(self):
        """``"eog"`` after an end-of-generation token, ``"complete"`` where the text is complete and
        nothing can follow, else ``None``."""
        cdef Step* step = &self.steps[self.count]
        if step.row == NONE:
            return "eog"
        if step.state == (DEAD | FRESH) and self.is_accepting():
            return "complete"
        return None

    def is_stopped(self):
        """Whether no text can follow: all that the mask allows are end-of-generation tokens."""
        return self.stop_reason is not None

    def expected(self):
        """Names of the terminals that could begin or go on at this point, in grammar order.

        Empty after an end-of-generation token and where the text can only end.
        """
        cdef Step* step = &self.steps[self.count]
        cdef Engine* engine = &self.grammar.engine
        cdef state_t state = step.state & STATE
        cdef state_t states[2]
        cdef uint32_t i
        cdef int which
        cdef set found = set()
        if step.row == NONE:
            return ()
        self.grammar.acquire()
        states[0] = state
        states[1] = DEAD
        if not step.state & FRESH and engine.lexer.states[state].accept != NO_SET:
            states[1] = row_state(
                &engine.parser,
                parser_scan(&engine.parser, step.row, engine.lexer.states[state].accept),
            )
        for which in range(2):
            for i in range(0, engine.lexer.vectors.entries[states[which]].length, 2):
                found.add(engine.lexer.vectors.entries[states[which]].words[i])
        self.grammar.release()
        return tuple([
            self.grammar.names[terminal] for terminal in sorted(found)
            if not engine.lexer.skip[terminal]
        ])

    # ------------------------------------------------------------ masks

    cdef int _write(self, int32_t* out) except -1:
        """Write the mask of this state to ``ceil(V / 32)`` words."""
        cdef Engine* engine = &self.grammar.engine
        cdef Step* step = &self.steps[self.count]
        cdef size_t words = (<size_t>self.grammar.trie.vocabulary_size + 31) // 32
        cdef bint direct = words % 2 == 0 and <size_t>out % 8 == 0
        cdef uint64_t* bits = <uint64_t*>out if direct else self.scratch
        cdef row_t row = step.row
        cdef state_t state = step.state & STATE
        cdef uint32_t i
        cdef bint accepts
        self.grammar.acquire()
        if row == NONE:
            state = DEAD
        else:
            state = lexer_saturate(&engine.lexer, state)
        if state == DEAD or map_get(
            &engine.mask_index, 0, (<uint64_t>row << 32) | state
        ) != NONE:
            engine_fill(engine, row, state, bits)
        else:
            with nogil:
                engine_fill(engine, row, state, bits)
        accepts = engine.fault.code == 0 and self._accepts(step)
        self.grammar.release()
        if accepts:
            for i in range(self.grammar.eog_count):
                bits[self.grammar.eog[i] >> 6] |= <uint64_t>1 << (self.grammar.eog[i] & 63)
        if not direct:
            memcpy(out, bits, words * 4)
        return 0

    cdef int32_t* _row_of(self, mask, index) except NULL:
        """Where row ``index`` of ``mask`` is, after checking everything about the array."""
        cdef Py_buffer view
        cdef Py_ssize_t number, width
        width = (self.grammar.trie.vocabulary_size + 31) // 32
        if mask is not self.target_owner:
            try:
                PyObject_GetBuffer(mask, &view, PyBUF_WRITABLE | PyBUF_FORMAT | PyBUF_STRIDES)
            except BufferError as error:
                raise ValueError(f"the mask cannot be written to: {error}") from None
            try:
                _check_mask(&view, width)
            except BaseException:
                PyBuffer_Release(&view)
                raise
            if self.target_owner is not None:
                PyBuffer_Release(&self.target)
            self.target = view
            self.target_owner = mask
        number = index
        if number < 0 or number >= self.target.shape[0]:
            raise IndexError(f"row {number} of a mask of {self.target.shape[0]} rows")
        return <int32_t*>(<char*>self.target.buf + number * self.target.strides[0])

    def fill_bitmask(self, mask, row=0):
        """Write which tokens are allowed next to row ``row`` of ``mask``.

        ``mask`` is a writable int32 array of shape ``(batch, ceil(V / 32))``, rows contiguous; bit i of
        word w stands for token ``32 * w + i``. All words of the row are written. The array is held
        until the matcher is given another one. Raises ``TypeError`` or ``ValueError`` for an array of
        another shape or type, ``IndexError`` for a row that it lacks, :class:`LimitError`; the array is
        then unchanged.

        A state met before costs about a copy of the row. Otherwise the mask is computed, with the GIL
        released.
        """
        self._write(self._row_of(mask, row))

    def allowed_tokens(self):
        """The ids that the mask allows, in rising order. Linear in the vocabulary: for tests and
        tools."""
        cdef Py_ssize_t size = self.grammar.trie.vocabulary_size
        cdef Py_ssize_t words = (size + 31) // 32
        cdef bytearray out = bytearray(4 * words)
        cdef unsigned char* data = out
        cdef Py_ssize_t i
        self._write(<int32_t*>data)
        return [i for i in range(size) if (data[i >> 3] >> (i & 7)) & 1]

    # ------------------------------------------------------------ forced text

    cdef bytes _forced(self, Step* step):
        """Bytes of which each is the only one that can come next; lock held."""
        cdef Engine* engine = &self.grammar.engine
        cdef row_t row = step.row, next_row = 0
        cdef state_t state = step.state & STATE, next_state = 0
        cdef bint fresh = step.state & FRESH != 0
        cdef bint next_fresh = False
        cdef uint32_t byte, found
        cdef row_t try_row
        cdef state_t try_state
        cdef bint try_fresh
        cdef bytearray out = bytearray()
        if row == NONE or not self.grammar.forcing:
            return b""
        while len(out) < FORCED_LIMIT and not engine_accepts(engine, row, state, fresh):
            found = 256
            for byte in range(256):
                if engine.lexer.states[state].forced >= 0 \
                        and byte != <uint32_t>engine.lexer.states[state].forced:
                    continue
                try_row = row
                try_state = state
                try_fresh = fresh
                if not engine_step(engine, &try_row, &try_state, &try_fresh, <uint8_t>byte):
                    continue
                if found != 256:
                    found = 257
                    break
                found = byte
                next_row = try_row
                next_state = try_state
                next_fresh = try_fresh
            if found >= 256 or engine.fault.code:
                break
            out.append(found)
            row = next_row
            state = next_state
            fresh = next_fresh
        return bytes(out)

    def forced_bytes(self):
        """The text that must come next whatever the model wants: ``b""`` where there is a choice.

        A choice is a second byte that could follow, or that the text may end. Looks ahead 4,096 bytes at
        most, so the text may go on being forced after them. Empty under ``no_forcing``.
        """
        self.grammar.acquire()
        forced = self._forced(&self.steps[self.count])
        self.grammar.release()
        return forced

    def forced_tokens(self):
        """The canonical tokens of the forced text that can be taken without limiting the model.

        These are tokens of ``vocabulary.tokenize(forced_bytes())``, up to the first place where the
        mask also allows a token that reaches beyond the forced text: from there on the model may want
        another one. Empty if nothing is forced.
        """
        forced = self.forced_bytes()
        if not forced:
            return []
        cdef Matcher probe = self.copy()
        cdef list result = []
        cdef Py_ssize_t at = 0
        try:
            tokens = self._tokenize_after(forced)
        except VocabularyError:
            return []  # no tokens spell the text: there is nothing to take
        for token in tokens:
            if probe._reaches_beyond(forced[at:]):
                break
            if not probe.allows(token):
                break
            probe.consume(token)
            result.append(token)
            at += len(self.grammar.vocabulary.tokens[token])
        return result

    cdef list _tokenize_after(self, bytes forced):
        """Canonical tokens of ``forced`` in the context of the last token consumed."""
        cdef uint32_t last = self.steps[self.count].token
        vocabulary = self.grammar.vocabulary
        if self.count and self.grammar.trie.is_text[last]:
            tokens = vocabulary.tokenize(vocabulary.tokens[last] + forced)
            if tokens and tokens[0] == last:
                return list(tokens[1:])
        return list(vocabulary.tokenize(forced))

    cdef bint _reaches_beyond(self, bytes rest) except -1:
        """Whether the mask allows a token that begins with ``rest`` and is longer."""
        cdef TokenTrie trie = self.grammar.trie
        cdef const uint8_t* data = rest
        cdef Py_ssize_t i
        cdef uint32_t node = 0, low, high, middle, place
        cdef uint64_t* bits
        for i in range(len(rest)):
            low = trie.pool.trie.children[node]
            high = trie.pool.trie.children[node + 1]
            while low < high:
                middle = (low + high) >> 1
                if trie.pool.trie.child_byte[middle] < data[i]:
                    low = middle + 1
                else:
                    high = middle
            if low == trie.pool.trie.children[node + 1] \
                    or trie.pool.trie.child_byte[low] != data[i]:
                return False
            node = trie.pool.trie.child_node[low]
        low = trie.pool.trie.tokens_at[node + 1]
        high = trie.pool.trie.tokens_at[trie.pool.trie.end[node]]
        if low == high:
            return False
        bits = <uint64_t*>calloc(self.grammar.engine.words + 1, sizeof(uint64_t))
        if bits == NULL:
            raise MemoryError
        try:
            self._write(<int32_t*>bits)
            for place in range(low, high):
                node = trie.pool.trie.tokens[place]
                if (bits[node >> 6] >> (node & 63)) & 1:
                    return True
        finally:
            free(bits)
        return False

    # ------------------------------------------------------------ text

    def match_bytes(self, text):
        """How many bytes of ``text`` fit from here on, and whether it could end after all of them.

        ``text`` is ``bytes``; changes nothing. A pair ``(count, accepting)``; ``accepting`` is False
        where not all bytes fit.
        """
        if not isinstance(text, bytes):
            raise TypeError(f"text must be bytes, not {type(text).__name__}")
        cdef bytes data = text
        cdef Step step = self.steps[self.count]
        cdef Py_ssize_t fits = 0
        cdef Py_ssize_t length = len(data)
        cdef const uint8_t* at = data
        cdef row_t row = step.row
        cdef state_t state = step.state & STATE
        cdef bint fresh = step.state & FRESH != 0
        cdef bint accepts = False
        self.grammar.acquire()
        if row != NONE:
            while fits < length and engine_step(
                &self.grammar.engine, &row, &state, &fresh, at[fits]
            ):
                fits += 1
        if fits == length:
            step.row = row
            step.state = state | (FRESH if fresh else 0)
            accepts = self._accepts(&step)
        self.grammar.release()
        return fits, accepts


cdef int64_t _as_token(token) except? -7:
    """A token id as a C integer; ids that do not fit are as wrong as any out of range."""
    cdef int overflow = 0
    cdef int64_t number
    if type(token) is not int:
        if not hasattr(token, "__index__"):
            raise TypeError(f"a token is an integer, not {type(token).__name__}")
        token = token.__index__()
    number = PyLong_AsLongLongAndOverflow(token, &overflow)
    return number if not overflow and -1 <= number < 0x7FFFFFFF else 0x7FFFFFFF


cdef int _check_mask(Py_buffer* view, Py_ssize_t width) except -1:
    cdef bytes code = view.format if view.format != NULL else b"B"
    if code.lstrip(b"@=<") not in (b"i", b"l") or view.itemsize != 4:
        raise TypeError(f"the mask must be of dtype int32, not {code.decode()!r}")
    if view.ndim != 2 or view.shape[1] != width:
        shape = tuple([view.shape[i] for i in range(view.ndim)])
        raise ValueError(f"the mask must have shape (batch, {width}), not {shape}")
    if view.strides[1] != 4:
        raise ValueError("the rows of the mask must be contiguous")
    return 0


def fill_bitmasks(matchers, mask):
    """Fill row i of ``mask`` for matcher i; ``None`` leaves its row as it is.

    Equal to ``fill_bitmask`` on each; all matchers must have vocabularies of one size. Raises what
    that raises, with the rows before the offending one written, and ``ValueError`` if there are more
    matchers than rows.
    """
    cdef list each = list(matchers)
    cdef Py_ssize_t i
    for matcher in each:
        if matcher is not None and not isinstance(matcher, Matcher):
            raise TypeError(f"not a Matcher: {type(matcher).__name__}")
    if hasattr(mask, "shape") and len(each) > mask.shape[0]:
        raise ValueError(f"{len(each)} matchers for a mask of {mask.shape[0]} rows")
    for i in range(len(each)):
        if each[i] is not None:
            (<Matcher>each[i]).fill_bitmask(mask, i)
