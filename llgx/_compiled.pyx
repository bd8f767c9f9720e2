# cython: language_level=3, boundscheck=False, wraparound=False
# cython: initializedcheck=False, cdivision=True
"""Compiled grammars: an ``llgx.ir`` description bound to a vocabulary.

Compiling lowers the terminals to regex nodes, drops what can take no part in a text (rules that
derive nothing, terminals with an empty language, what ``start`` does not reach), turns terminals
that may match the empty string into rules that derive either, and lays the productions out for the
parser.

Invariant: an engine is touched under its lock only. What compiling builds is never changed again;
everything that is built lazily lives in the engine.

Cost: linear in the grammar, but for exact emptiness of terminals with ``&`` and ``~``.
"""

from libc.stdint cimport uint32_t, uint8_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

cimport cython
from cpython.pythread cimport (
    NOWAIT_LOCK, PyThread_acquire_lock, PyThread_allocate_lock, PyThread_free_lock,
)

from llgx._earley cimport FIRST_ROW, Production, row_dead
from llgx._emptiness cimport regex_is_live
from llgx._engine cimport (
    BOUNDARY_MEMO, DIFFERENCE_MASKS, FORCED_RUNS, LENGTH_CLASSES, MASK_MEMO, ROLE_CLOSE,
    ROLE_DISTINCT, ROLE_OPEN, ROLE_UNIQUE, SHARED_PLANS,
)
from llgx._exact cimport exact_new
from llgx._mask cimport engine_begin, engine_free, engine_init
from llgx._lower cimport raise_fault, regex_lower
from llgx._memory cimport NONE, Fault
from llgx._parameters cimport Cond, Expr
from llgx._regex cimport ALL, EMPTY, node_t, regex_freeze_classes, regex_nonempty, regex_nullable
from llgx._scopes cimport scopes_count, scopes_new
from llgx._sequence cimport program_acquire, program_release

from llgx import ir as _ir
from llgx.arguments import check_type
from llgx.errors import GrammarError, LimitError
from llgx.limits import Limits, Shortcuts
from llgx.special_literals import special_literals
from llgx.stops import expand_stops, without_tail
from llgx.token_sets import resolve_tokens, special_names


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


# The engine gives loop tables back to the trie's pool when it is freed: garbage collection must not
# take the trie away first.
@cython.no_gc_clear
cdef class CompiledGrammar:
    """A grammar bound to a vocabulary: immutable for its users, shareable between threads.

    Made by :meth:`llgx.Grammar.compile`. Raises :class:`GrammarError` if the grammar matches no
    text at all, :class:`LimitError` if it passes a cap, ``ValueError`` for an inconsistent ``ir``.
    Compiling is linear in the grammar; everything else is built when a matcher first needs it.
    """

    def __cinit__(self, ir, vocabulary, limits, shortcuts):
        cdef uint32_t index, size
        check_type(ir, _ir.GrammarIR, "a description")
        if not hasattr(vocabulary, "kept_for"):
            raise TypeError(
                f"a grammar is compiled for a Vocabulary, not {type(vocabulary).__name__}"
            )
        check_type(limits, Limits, "limits=")
        check_type(shortcuts, Shortcuts, "shortcuts=")
        self.vocabulary = vocabulary
        self.limits = limits
        self.shortcuts = shortcuts
        self.trie = vocabulary.trie
        self.lock = PyThread_allocate_lock()
        if self.lock == NULL:
            raise MemoryError
        ir.check()
        _refuse_unbuilt(ir)
        ir = expand_stops(ir)
        self.forcing = ir.forcing
        self.max_tokens = NONE if ir.max_tokens is None else min(ir.max_tokens, 0xFFFFFFF0)
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
        self._set_scopes(ir)
        if ir.exact:
            self.engine.exact = exact_new()
            if self.engine.exact == NULL:
                raise MemoryError
            self.engine.exact.pair_limit = max(1, min(limits.exact_pairs, 0x7FFFFFFF))
        self._load(ir)
        self._set_program()
        if engine_begin(&self.engine) < 0:
            raise_fault(&self.engine.fault, limits)
            raise MemoryError
        is_dead = row_dead(&self.engine.parser, FIRST_ROW)
        raise_fault(&self.engine.fault, limits)
        if is_dead:
            raise GrammarError("the grammar matches no text: its guards leave no way to begin")

    def __dealloc__(self):
        engine_free(&self.engine)
        free(self.eog)
        free(self.is_eog)
        free(self.wanted)
        free(self.temperatures)
        free(self.ends_with_eog)
        free(self.tails)
        if self.lock != NULL:
            PyThread_free_lock(self.lock)

    cdef int _set_program(self) except -1:
        """Gather what is needed to follow a text without the GIL."""
        self.program.engine = &self.engine
        self.program.lock = self.lock
        self.program.text = self.trie.text
        self.program.text_at = self.trie.text_at
        self.program.is_text = self.trie.is_text
        self.program.vocabulary_size = self.trie.vocabulary_size
        self.program.eog = self.eog
        self.program.eog_count = self.eog_count
        self.program.is_eog = self.is_eog
        self.program.ends_with_eog = self.ends_with_eog
        self.program.max_tokens = self.max_tokens
        self.program.has_single = self.has_single
        return 0

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
            | (SHARED_PLANS if shortcuts.shared_plans else 0)
        )
        return 0

    cdef int _set_scopes(self, ir) except -1:
        """Note the roles of terminals in scopes, if any of them is distinct or unique."""
        cdef uint32_t index
        if not any([terminal.distinct or terminal.unique for terminal in ir.terminals]):
            return 0
        self.engine.scopes = scopes_new(<uint32_t>len(ir.terminals))
        if self.engine.scopes == NULL:
            raise MemoryError
        self.engine.scopes.limit = min(self.limits.scopes, 0x7FFFFFFF)
        for index in range(<uint32_t>len(ir.terminals)):
            terminal = ir.terminals[index]
            self.engine.scopes.roles[index] = (
                (ROLE_DISTINCT if terminal.distinct else 0)
                | (ROLE_OPEN if terminal.scope == "open" else 0)
                | (ROLE_CLOSE if terminal.scope == "close" else 0)
                | (ROLE_UNIQUE if terminal.unique and terminal.scope == "open" else 0)
            )
        return 0

    cdef int _load(self, ir) except -1:
        """Lower the terminals, drop what cannot take part in a text, and lay out the rest."""
        cdef list rules = [
            [_ir.Production(())] if rule.max_tokens == 0 else list(rule.productions)
            for rule in ir.rules
        ]
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
        cdef dict tokens = self._resolve_tokens(ir, terminals)
        tokens = self._resolve_tokens(ir, terminals)
        nullable, empty = self._lower_terminals(
            ir, sorted((terminals | used_skip).difference(tokens))
        )
        empty.update([index for index in tokens if not tokens[index]])
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
        self._lay_out_captures(ir, rules, reached)
        self._lay_out_rules(ir, reached)
        self.names = tuple([terminal.name for terminal in ir.terminals])
        for index in range(len(ir.terminals)):
            if ir.terminals[index].ends_with_eog:
                if self.ends_with_eog == NULL:
                    self.ends_with_eog = <uint8_t*>calloc(len(ir.terminals) + 1, 1)
                    if self.ends_with_eog == NULL:
                        raise MemoryError
                self.ends_with_eog[index] = 1
        self.warnings = (*ir.warnings, *special_literals(ir.literals, self.vocabulary))
        self.unenforced = tuple(ir.unenforced)
        for index in range(len(ir.terminals)):
            skip = ir.skip[ir.terminals[index].skip_class]
            if skip < 0 or skip in empty or skip not in used_skip:
                self.engine.parser.skip_of[index] = NONE
            else:
                self.engine.parser.skip_of[index] = skip
            self.engine.parser.skip_once[index] = ir.skip_once and (
                ir.skip_once_classes is None
                or ir.terminals[index].skip_class in ir.skip_once_classes
            )
        return 0

    cdef dict _resolve_tokens(self, ir, set terminals):
        """Set the ids of the terminals that are model tokens; them as a list by terminal."""
        cdef dict found = {}
        cdef Py_ssize_t count = 0, index
        cdef uint32_t at = 0
        for index in terminals:
            if ir.terminals[index].tokens is None:
                continue
            if not found:
                names = special_names(self.vocabulary)
            found[index] = resolve_tokens(ir.terminals[index], self.vocabulary, names)
            count += len(found[index])
        sets = &self.engine.token_sets
        self.engine.parser.is_token = <uint8_t*>calloc(len(ir.terminals) + 1, 1)
        if self.engine.parser.is_token == NULL:
            raise MemoryError
        if not found:
            return found
        sets.at = <uint32_t*>calloc(len(ir.terminals) + 2, sizeof(uint32_t))
        sets.ids = <uint32_t*>malloc((2 * count + 1) * sizeof(uint32_t))
        if sets.at == NULL or sets.ids == NULL:
            raise MemoryError
        for index in range(len(ir.terminals)):
            sets.at[index] = at
            self.engine.parser.is_token[index] = index in found
            for first, end in found.get(index, ()):
                sets.ids[2 * at] = first
                sets.ids[2 * at + 1] = end
                at += 1
        sets.at[len(ir.terminals)] = at
        return found

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
            self.engine.lexer.lazy[index] = terminal.lazy and not ir.exact
        self._lower_tails(ir, order, memo)
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

    cdef int _lower_tails(self, ir, list order, dict memo) except -1:
        """Lower what captures leave out of a lexeme, and what is before it."""
        rx = &self.engine.lexer.rx
        self.tails = <uint32_t*>calloc(2 * len(ir.terminals) + 2, sizeof(uint32_t))
        if self.tails == NULL:
            raise MemoryError
        for index in order:
            terminal = ir.terminals[index]
            if terminal.tail is None:
                continue
            self.tails[2 * index] = ALL
            body = without_tail(terminal.regex, terminal.tail)
            if body is not None:
                self.tails[2 * index] = regex_lower(rx, body, memo, 0)
            self.tails[2 * index + 1] = regex_lower(rx, terminal.tail, memo, 0)
            raise_fault(&self.engine.fault, self.limits)
        self._lay_out_hidden(ir, order)
        return 0

    cdef int _lay_out_hidden(self, ir, list order) except -1:
        """Tell the lexer which tails are hidden."""
        cdef list hidden = [index for index in order if ir.terminals[index].hidden_tail]
        cdef list texts = [ir.terminals[index].tail for index in hidden]
        cdef bytes data = b"".join([t.data for t in texts if type(t) is _ir.Literal])
        cdef uint32_t at = 0
        lexer = &self.engine.lexer
        if not hidden:
            return 0
        lexer.tails = <uint32_t*>calloc(2 * len(ir.terminals) + 2, sizeof(uint32_t))
        lexer.tail_bytes = <uint8_t*>malloc(len(data) + 1)
        if lexer.tails == NULL or lexer.tail_bytes == NULL:
            raise MemoryError
        memcpy(lexer.tail_bytes, <const char*>data, len(data))
        for index, text in zip(hidden, texts):
            lexer.tails[2 * index] = at
            if type(text) is _ir.Literal:
                lexer.tails[2 * index + 1] = <uint32_t>len(text.data)
                at += <uint32_t>len(text.data)
            else:
                lexer.tails[2 * index + 1] = NONE
        return 0

    cdef int _lay_out_rules(self, ir, list reached) except -1:
        """Keep what rules are called and what hosts may sample with in them."""
        cdef Py_ssize_t at
        self.rule_names = [
            ir.rules[index].name if index < len(ir.rules) else "" for index in reached
        ] + [""]
        for at, index in enumerate(reached):
            if index < len(ir.rules) and ir.rules[index].max_tokens:
                ps = &self.engine.parser
                if ps.limits == NULL:
                    ps.limits = <uint32_t*>malloc((len(reached) + 2) * sizeof(uint32_t))
                    if ps.limits == NULL:
                        raise MemoryError
                    for i in range(len(reached) + 2):
                        ps.limits[i] = NONE
                ps.limits[at] = min(ir.rules[index].max_tokens, 0xFFFFFFF0)
                self.has_single = self.has_single or ps.limits[at] == 1
            if index >= len(ir.rules) or ir.rules[index].temperature is None:
                continue
            if self.temperatures == NULL:
                self.temperatures = <double*>malloc((len(reached) + 1) * sizeof(double))
                if self.temperatures == NULL:
                    raise MemoryError
                for i in range(len(reached) + 1):
                    self.temperatures[i] = -1
            self.temperatures[at] = ir.rules[index].temperature
        return 0

    cdef int _lay_out_captures(self, ir, list rules, list reached) except -1:
        """Say which rules have a capture, and below which rules there is one."""
        cdef dict number = {rule: at for at, rule in enumerate(reached)}
        cdef dict users = {}
        cdef list names = [(None, None)] * (len(reached) + 1)
        cdef list todo = []
        self.wanted = <uint8_t*>calloc(len(reached) + 2, 1)
        if self.wanted == NULL:
            raise MemoryError
        for index in reached:
            for production in rules[index]:
                for symbol in production.symbols:
                    if type(symbol) is _ir.RuleRef:
                        users.setdefault(symbol.index, set()).add(index)
            if index >= len(ir.rules):
                continue
            rule = ir.rules[index]
            if rule.capture is not None or rule.tail_capture is not None:
                names[number[index]] = (rule.capture, rule.tail_capture)
                self.wanted[number[index]] = 1
                todo.append(index)
        if not todo:
            return 0
        self.capture_names = names
        self.wanted[len(reached)] = 2  # the start rule's parent
        while todo:
            for user in users.get(todo.pop(), ()):
                if not self.wanted[number[user]]:
                    todo.append(user)
                self.wanted[number[user]] |= 2
        return 0

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
        ps.tail = <uint8_t*>calloc(rule_count + 1, 1)
        ps.skip_of = <uint32_t*>malloc((len(ir.terminals) + 1) * sizeof(uint32_t))
        ps.skip_once = <uint8_t*>calloc(len(ir.terminals) + 1, 1)
        if ps.symbols == NULL or ps.argument == NULL or ps.owner == NULL or ps.rules == NULL \
                or ps.productions == NULL or ps.nullable == NULL or ps.tail == NULL \
                or ps.skip_of == NULL or ps.skip_once == NULL:
            raise MemoryError
        ps.rule_count = rule_count
        ps.start_rule = rule_count - 1
        ps.initial_skip = ir.initial_skip
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
        for index in _tail_recursive(rules, reached):
            ps.tail[number[index]] = 1
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
                program_acquire(&self.program)
        return 0

    cdef int release(self) except -1:
        """Give the lock back; raise what a kernel reported."""
        # First: an exception is an object, and making one may run the garbage collector, whose
        # finalizers may want the lock. No Python object is made while it is held.
        cdef Fault fault = program_release(&self.program)
        return raise_fault(&fault, self.limits) if fault.code else 0

    @property
    def is_worn(self):
        """Whether half of what a limit allows to be built has been built.

        Rows and lexer states are kept for as long as a matcher may stand on them. So that a grammar
        that serves for weeks does not end in a :class:`LimitError`, :meth:`llgx.Grammar.compile`
        starts over when it finds its compiled grammar worn; matchers of the old one are not
        touched.
        """
        cdef Engine* engine = &self.engine
        return (
            engine.parser.contents.count > engine.parser.row_limit // 2
            or engine.lexer.vectors.count > engine.lexer.state_limit // 2
            or engine.lexer.rx.nodes.count > engine.lexer.rx.node_limit // 2
            or (
                engine.scopes != NULL
                and scopes_count(engine.scopes) > engine.scopes.limit // 2
            )
            or (
                engine.exact != NULL
                and engine.exact.configs.count > engine.parser.row_limit // 2
            )
        )

    def stats(self):
        """Counts of what has been built so far, and ``memory`` in bytes. For tests and benches."""
        cdef size_t figures[11]
        cdef Engine* engine = &self.engine
        self.acquire()
        figures[0] = engine.lexer.rx.nodes.count
        figures[1] = engine.lexer.rx.class_count
        figures[2] = engine.lexer.vectors.count
        figures[3] = engine.parser.contents.count
        figures[4] = engine.parser.shape_words.count
        figures[5] = engine.mask_count
        figures[6] = engine.inside_count
        figures[7] = engine.site_count
        figures[8] = engine.table_count
        figures[9] = (
            engine.lexer.rx.nodes.arena.total + 48 * <size_t>engine.lexer.rx.nodes.room
            + 48 * <size_t>engine.lexer.rx.derivatives.count
            + engine.lexer.vectors.arena.total + 56 * <size_t>engine.lexer.states_room
            + engine.lexer.rows.total + engine.parser.contents.arena.total
            + engine.parser.shape_words.arena.total + 4 * engine.parser.variants.room
            + 48 * <size_t>engine.parser.scans.count + engine.mask_bytes
            + engine.inside_arena.total
        )
        figures[10] = scopes_count(engine.scopes) if engine.scopes != NULL else 0
        self.release()
        names = (
            "regex_nodes", "byte_classes", "lexer_states", "rows", "shapes", "masks", "insides",
            "sites", "tables", "memory", "scopes",
        )
        return {name: figures[i] for i, name in enumerate(names)}


cdef int _refuse_unbuilt(ir) except -1:
    """What a description may say and the engine does not do yet is an error that names it."""
    if not ir.exact:
        return 0
    for terminal in ir.terminals:
        if terminal.distinct or terminal.unique or terminal.tokens is not None \
                or terminal.hidden_tail or terminal.ends_with_eog:
            raise GrammarError(
                f"terminal {terminal.name}: exact lexing knows no distinct lexemes, model tokens "
                "or stop conditions"
            )
    for rule in ir.rules:
        if rule.capture is not None or rule.tail_capture is not None \
                or rule.temperature is not None or rule.max_tokens is not None:
            raise GrammarError(
                f"rule {rule.name}: exact lexing knows no captures, limits or temperature"
            )
    return 0


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


cdef set _tail_recursive(list rules, list reached):
    """Rules whose derivations may end in another one of the same rule. Linear.

    These are the cycles among the last symbols of productions: the components of more than one
    rule, and rules that end in themselves (Tarjan, "Depth-first search and linear graph
    algorithms", 1972).
    """
    cdef dict ends = {}
    cdef dict order = {}         # rule -> when it was met
    cdef dict lowest = {}        # rule -> the earliest rule under way that it leads to
    cdef list path = []          # rules met whose component is not known yet
    cdef list todo = []          # (rule, what it ends in that is still to be looked at)
    cdef set found = set(), open_rules = set()
    for index in reached:
        for production in rules[index]:
            last = production.symbols[len(production.symbols) - 1] if production.symbols else None
            if type(last) is _ir.RuleRef:
                ends.setdefault(index, set()).add(last.index)
    for start in ends:
        if start in order:
            continue
        todo.append((start, iter(ends[start])))
        while todo:
            index, others = todo[len(todo) - 1]
            if index not in order:
                order[index] = lowest[index] = len(order)
                path.append(index)
                open_rules.add(index)
                if index in ends[index]:
                    found.add(index)
            for other in others:
                if other not in ends:
                    continue
                if other not in order:
                    todo.append((other, iter(ends[other])))
                    break
                if other in open_rules:
                    lowest[index] = min(lowest[index], order[other])
            else:
                todo.pop()
                if todo:
                    around = todo[len(todo) - 1][0]
                    lowest[around] = min(lowest[around], lowest[index])
                if lowest[index] == order[index]:
                    single = path[len(path) - 1] == index
                    while True:
                        other = path.pop()
                        open_rules.discard(other)
                        if not single:
                            found.add(other)
                        if other == index:
                            break
    return found


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
    """Append ``condition`` and below as (condition, place of its first part), parts side by
    side."""
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
