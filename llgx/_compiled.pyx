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

from llgx._byte_classes cimport regex_freeze_classes
from llgx._common cimport CommonRegexes, common_regexes
from llgx._earley cimport FIRST_ROW, Production, row_dead
from llgx._emptiness cimport regex_is_live
from llgx._engine cimport (
    BOUNDARY_MEMO, DIFFERENCE_MASKS, ENDLESS_STATES, FORCED_RUNS, HELD_TEXTS, LENGTH_CLASSES,
    LONG_TOKENS_APART, MASK_MEMO, ROLE_CLOSE, ROLE_DISTINCT, ROLE_OPEN, ROLE_UNIQUE, ROLE_WHOLE,
    SHARED_PLANS, TWIN_MASKS,
)
from llgx._exact cimport exact_new
from llgx._flat cimport Flat, flat_read
from llgx._mask cimport engine_begin, engine_free, engine_init
from llgx._ir cimport GrammarFields, Rule, Terminal
from llgx._lower cimport raise_fault, regex_lower
from llgx._memory cimport NONE, Fault
from llgx._parameters cimport Cond, Expr
from llgx._regex cimport (
    ALL, EMPTY, Regex, node_t, regex_nonempty, regex_nullable,
)
from llgx._scopes cimport scopes_count, scopes_new
from llgx._sequence cimport program_acquire, program_release
from llgx._trie cimport TokenTrie

from llgx import ir as _ir
from llgx.arguments import check_limits, check_type
from llgx.errors import GrammarError, LimitError
from llgx.forks import held
from llgx.ir import GrammarIR
from llgx.limits import DEFAULT_LIMITS
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


cdef class _EndTokens:
    """See the layout. Made by :func:`_end_tokens`."""

    def __dealloc__(self):
        free(self.at)
        free(self.is_end)


cdef _EndTokens _end_tokens(TokenTrie trie, object ids):
    """Those with these ``ids``, for the vocabulary of ``trie``: made when first asked for.

    A byte for each token is more than most grammars take.
    """
    cdef _EndTokens found = trie.end_tokens
    cdef uint32_t size = <uint32_t>trie.vocabulary_size
    cdef Py_ssize_t index
    if found is not None and found.ids is ids:
        return found
    found = _EndTokens.__new__(_EndTokens)
    found.at = <uint32_t*>malloc((len(ids) + 1) * sizeof(uint32_t))
    found.is_end = <uint8_t*>calloc(<size_t>size + 1, 1)
    if found.at == NULL or found.is_end == NULL:
        raise MemoryError
    for index in ids:
        if not 0 <= index < size:
            raise ValueError(f"end token {index} is not in the vocabulary of {size}")
        found.at[found.count] = <uint32_t>index
        found.count += 1
        found.is_end[index] = 1
    found.ids = ids
    trie.end_tokens = found
    return found


cdef class _Settings:
    """What the engine is told of limits and shortcuts."""

    cdef object limits_, shortcuts_
    cdef uint32_t regex_nodes, regex_depth, emptiness_steps, lexer_states, rows, row_items
    cdef uint32_t heavy_nodes, shortcuts
    cdef size_t mask_cache_bytes
    cdef bint twin_states, through_and


cdef _Settings _last_settings = None


cdef _Settings _settings_of(object limits, object shortcuts):
    """Those of ``limits`` and ``shortcuts``, which do not change: the last ones are kept."""
    global _last_settings
    cdef _Settings found = _last_settings
    if found is not None and found.limits_ is limits and found.shortcuts_ is shortcuts:
        return found
    found = _Settings.__new__(_Settings)
    found.limits_ = limits
    found.shortcuts_ = shortcuts
    found.regex_nodes = min(limits.regex_nodes, 0x7FFFFFFF)
    found.regex_depth = min(limits.regex_depth, 20000)
    found.emptiness_steps = min(limits.emptiness_steps, 0x7FFFFFFF)
    found.lexer_states = min(limits.lexer_states, 0x7FFFFFFE)
    found.rows = min(limits.rows, 0x7FFFFFFF)
    found.row_items = min(limits.row_items, 0x0FFFFFFF)
    found.mask_cache_bytes = limits.mask_cache_bytes
    found.heavy_nodes = max(1, min(limits.heavy_nodes, 0x7FFFFFFF))
    found.shortcuts = (
        (DIFFERENCE_MASKS if shortcuts.difference_masks else 0)
        | (LENGTH_CLASSES if shortcuts.length_classes else 0)
        | (BOUNDARY_MEMO if shortcuts.boundary_memo else 0)
        | (MASK_MEMO if shortcuts.mask_memo else 0)
        | (FORCED_RUNS if shortcuts.forced_runs else 0)
        | (SHARED_PLANS if shortcuts.shared_plans else 0)
        | (TWIN_MASKS if shortcuts.twin_masks else 0)
        | (ENDLESS_STATES if shortcuts.endless_states else 0)
        | (LONG_TOKENS_APART if shortcuts.long_tokens_apart else 0)
        | (HELD_TEXTS if shortcuts.held_texts else 0)
    )
    found.twin_states = shortcuts.twin_states
    found.through_and = shortcuts.saturated_intersections
    _last_settings = found
    return found


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
        cdef Flat flat
        if type(ir) is not GrammarIR:
            check_type(ir, GrammarIR, "a description")
        cdef GrammarFields fields = ir
        if not hasattr(vocabulary, "kept_for"):
            raise TypeError(
                f"a grammar is compiled for a Vocabulary, not {type(vocabulary).__name__}"
            )
        check_limits(limits, shortcuts)
        self.vocabulary = vocabulary
        self.limits = limits
        self.shortcuts = shortcuts
        self.trie = vocabulary.trie
        self.lock = PyThread_allocate_lock()
        if self.lock == NULL:
            raise MemoryError
        flat = flat_read(fields)
        self._read_terminals(fields)
        if flat.has_limits or flat.has_extras or self.has_special or fields.exact \
                or fields.max_tokens is not None:
            ir.check()
            _refuse_unbuilt(fields)
            if self.has_special:
                fields = expand_stops(ir)
                flat = flat_read(fields)
                self._read_terminals(fields)
        self.forcing = fields.forcing
        self.max_tokens = NONE
        if fields.max_tokens is not None:
            self.max_tokens = min(fields.max_tokens, 0xFFFFFFF0)
        if engine_init(&self.engine, &self.trie.pool, <uint32_t>len(fields.terminals)) < 0:
            raise MemoryError
        self.ends = _end_tokens(self.trie, vocabulary.eog)
        self.eog = self.ends.at
        self.eog_count = self.ends.count
        self.is_eog = self.ends.is_end
        self._set_limits()
        self._set_scopes()
        if fields.exact:
            self.engine.exact = exact_new()
            if self.engine.exact == NULL:
                raise MemoryError
            self.engine.exact.pair_limit = max(1, min(limits.exact_pairs, 0x7FFFFFFF))
        self._load(fields, flat)
        self._set_program()
        if engine_begin(&self.engine) < 0:
            raise_fault(&self.engine.fault, limits)
            raise MemoryError
        is_dead = row_dead(&self.engine.parser, FIRST_ROW)
        raise_fault(&self.engine.fault, limits)
        if is_dead:
            raise GrammarError("the grammar matches no text: its guards leave no way to begin")
        held(self)

    def __dealloc__(self):
        engine_free(&self.engine)
        free(self.wanted)
        free(self.temperatures)
        free(self.ends_with_eog)
        free(self.tails)
        free(self.roles)
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
        cdef _Settings settings = _settings_of(self.limits, self.shortcuts)
        self.engine.lexer.rx.node_limit = settings.regex_nodes
        self.engine.lexer.rx.depth_limit = settings.regex_depth
        self.engine.lexer.rx.step_limit = settings.emptiness_steps
        self.engine.lexer.state_limit = settings.lexer_states
        self.engine.parser.row_limit = settings.rows
        self.engine.parser.item_limit = settings.row_items
        self.engine.mask_limit = settings.mask_cache_bytes
        self.engine.heavy = settings.heavy_nodes
        self.engine.shortcuts = settings.shortcuts
        self.engine.lexer.twins = settings.twin_states
        self.engine.lexer.rx.through_and = settings.through_and
        return 0

    cdef int _read_terminals(self, GrammarFields ir) except -1:
        """Note what terminals are, but for their regexes; ``ValueError`` for a wrong skip class."""
        cdef list terminals = ir.terminals
        cdef Py_ssize_t count = len(terminals), index, skip_class, classes = len(ir.skip)
        cdef uint8_t role
        cdef Terminal terminal
        free(self.roles)
        self.roles = <uint8_t*>calloc(count + 1, 1)
        if self.roles == NULL:
            raise MemoryError
        self.names = ()
        self.is_scoped = self.has_special = False
        cdef list names = []
        for index in range(count):
            if type(terminals[index]) is not Terminal:
                raise ValueError(f"{terminals[index]!r} is no terminal")
            terminal = <Terminal>terminals[index]
            names.append(terminal.name)
            skip_class = terminal.skip_class
            if not 0 <= skip_class < classes:
                ir.check()
            role = 0
            scope = terminal.scope
            if scope:
                if scope == "open":
                    role = ROLE_OPEN | (ROLE_UNIQUE if terminal.unique else 0)
                elif scope == "close":
                    role = ROLE_CLOSE | (ROLE_WHOLE if terminal.unique else 0)
            if terminal.distinct:
                role |= ROLE_DISTINCT
            if role & (ROLE_DISTINCT | ROLE_UNIQUE) or terminal.unique:
                self.is_scoped = True
            self.roles[index] = role
            if terminal.tokens is not None or terminal.tail is not None or terminal.hidden_tail \
                    or terminal.ends_with_eog:
                self.has_special = True
        self.names = tuple(names)
        return 0

    cdef int _set_scopes(self) except -1:
        """Note the roles of terminals in scopes, if any of them is distinct or unique."""
        cdef uint32_t count = <uint32_t>len(self.names)
        if not self.is_scoped:
            return 0
        self.engine.scopes = scopes_new(count)
        if self.engine.scopes == NULL:
            raise MemoryError
        self.engine.scopes.limit = min(self.limits.scopes, 0x7FFFFFFF)
        memcpy(self.engine.scopes.roles, self.roles, count)
        return 0

    cdef int _load(self, GrammarFields ir, Flat flat) except -1:
        """Lower the terminals, drop what cannot take part in a text, and lay out the rest."""
        cdef list terminals = ir.terminals
        cdef uint32_t count = <uint32_t>len(terminals), start = ir.start
        cdef list reached = flat.reachable(start)
        cdef uint8_t* marks = <uint8_t*>calloc(4 * <size_t>count + 4, 1)
        if marks == NULL:
            raise MemoryError
        try:
            self._load_marked(
                ir, flat, terminals, reached, marks, marks + count, marks + 2 * count,
                marks + 3 * count,
            )
        finally:
            free(marks)
        self.warnings = tuple(ir.warnings)
        if ir.literals:
            self.warnings += tuple(special_literals(ir.literals, self.vocabulary))
        self.unenforced = tuple(ir.unenforced)
        return 0

    cdef int _load_marked(
        self, GrammarFields ir, Flat flat, list terminals, list reached, uint8_t* is_used,
        uint8_t* is_empty, uint8_t* is_nullable, uint8_t* is_lowered
    ) except -1:
        """:meth:`_load` with room for marks by terminal."""
        cdef uint32_t count = <uint32_t>len(terminals), start = ir.start
        cdef uint32_t rule, production, place, at
        cdef Py_ssize_t size = 0, skip, skip_class
        cdef list skips = ir.skip
        cdef list order = []
        cdef uint8_t* productive
        cdef bint has_nullable = False, drops
        cdef bint every_class = ir.skip_once_classes is None
        cdef bint skip_once = ir.skip_once
        cdef dict tokens = {}
        cdef Terminal terminal
        for rule in reached:
            for production in range(flat.rule_at.at[rule], flat.rule_at.at[rule + 1]):
                size += 1 + flat.place_at.at[production + 1] - flat.place_at.at[production]
                for place in range(flat.place_at.at[production], flat.place_at.at[production + 1]):
                    if flat.symbols.at[place] & 1:
                        is_used[flat.symbols.at[place] >> 1] = 1
        if size > self.limits.symbols:
            raise LimitError(f"the grammar has {size} symbols", limit="symbols")
        # Where no terminal that is used may have white space before it, that takes no part.
        for at in range(count):
            if is_used[at] == 1:
                skip = skips[(<Terminal>terminals[at]).skip_class]
                if skip >= 0:
                    is_used[skip] |= 2
        self.engine.parser.is_token = <uint8_t*>calloc(count + 1, 1)
        if self.engine.parser.is_token == NULL:
            raise MemoryError
        if self.has_special:
            tokens = self._resolve_tokens(ir, {at for at in range(count) if is_used[at] & 1})
        for at in range(count):
            if is_used[at] and not (self.has_special and at in tokens):
                order.append(at)
        self._lower_terminals(ir, terminals, order, is_empty, is_nullable, is_lowered)
        for at in tokens:
            if not tokens[at]:
                is_empty[at] = 1
        # A terminal that may match nothing stands for a rule that derives it or nothing; only
        # matches of at least one byte are the lexer's business.
        cdef dict helper = {}
        for at in range(count):
            if is_nullable[at] and is_used[at] & 1:
                helper[at] = 2 * flat.rules
                flat.add_optional(at, is_empty[at])
                has_nullable = True
        if has_nullable:
            for rule in reached:
                for place in range(
                    flat.place_at.at[flat.rule_at.at[rule]],
                    flat.place_at.at[flat.rule_at.at[rule + 1]],
                ):
                    if flat.symbols.at[place] & 1 and is_nullable[flat.symbols.at[place] >> 1]:
                        flat.symbols.at[place] = helper[flat.symbols.at[place] >> 1]
        productive = <uint8_t*>calloc(flat.rules + 1, 1)
        if productive == NULL:
            raise MemoryError
        try:
            drops = flat.drop_unproductive(is_empty, productive)
            if not productive[start]:
                message, names = _unproductive(ir, flat, productive, is_empty)
                raise GrammarError(message, names=names)
        finally:
            free(productive)
        if drops or has_nullable:
            reached = flat.reachable(start)
        self._lay_out(ir, flat, reached)
        self._lay_out_captures(ir, flat, reached)
        self._lay_out_rules(ir, flat, reached)
        for at in range(count):
            terminal = <Terminal>terminals[at]
            if self.has_special and terminal.ends_with_eog:
                if self.ends_with_eog == NULL:
                    self.ends_with_eog = <uint8_t*>calloc(count + 1, 1)
                    if self.ends_with_eog == NULL:
                        raise MemoryError
                self.ends_with_eog[at] = 1
            skip_class = terminal.skip_class
            skip = skips[skip_class]
            if skip < 0 or is_empty[skip] or not is_used[skip] & 2:
                self.engine.parser.skip_of[at] = NONE
            else:
                self.engine.parser.skip_of[at] = <uint32_t>skip
            self.engine.parser.skip_once[at] = skip_once and (
                every_class or skip_class in ir.skip_once_classes
            )
        return 0

    cdef dict _resolve_tokens(self, GrammarFields ir, set terminals):
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

    cdef dict _common_trees(self, GrammarFields ir):
        """Begin with the nodes of trees that other grammars have too; what is known of those."""
        cdef CommonRegexes common
        if not ir.common or not self.shortcuts.common_regexes or self.limits is not DEFAULT_LIMITS:
            return {}
        common = common_regexes(self.trie, ir.common, self.engine.lexer.rx.through_and)
        common.copy_to(&self.engine.lexer.rx)
        return common.memo

    cdef int _lower_terminals(
        self, GrammarFields ir, list terminals, list order, uint8_t* is_empty, uint8_t* is_nullable,
        uint8_t* is_lowered
    ) except -1:
        """Set the lexer's terminals, those in ``order``, and mark them; mark those that are
        nullable and those with no longer match."""
        cdef dict common = self._common_trees(ir), memo = {}
        cdef node_t node
        cdef uint32_t index, count = <uint32_t>len(terminals)
        cdef bint exact = ir.exact
        cdef Terminal terminal
        cdef Regex* rx = &self.engine.lexer.rx
        for index in order:
            terminal = <Terminal>terminals[index]
            node = regex_lower(rx, terminal.regex, memo, common, 0)
            raise_fault(&self.engine.fault, self.limits)
            if regex_nullable(rx, node):
                is_nullable[index] = 1
                node = regex_nonempty(rx, node)
            self.engine.lexer.initial[index] = node
            self.engine.lexer.lazy[index] = terminal.lazy and not exact
            is_lowered[index] = 1
        self._lower_tails(ir, order, memo, common)
        for skip in ir.skip:
            if skip >= 0:
                self.engine.lexer.skip[skip] = 1
        raise_fault(&self.engine.fault, self.limits)
        with nogil:
            regex_freeze_classes(rx)
            for index in range(count):
                if not is_lowered[index]:
                    continue
                if not regex_is_live(rx, self.engine.lexer.initial[index]):
                    self.engine.lexer.initial[index] = EMPTY
                    is_empty[index] = 1
                if self.engine.fault.code:
                    break
        raise_fault(&self.engine.fault, self.limits)
        return 0

    cdef int _lower_tails(self, GrammarFields ir, list order, dict memo, dict common) except -1:
        """Lower what captures leave out of a lexeme, and what is before it."""
        cdef list bodies = []        # which ``memo`` wants to live
        rx = &self.engine.lexer.rx
        self.tails = <uint32_t*>calloc(2 * len(ir.terminals) + 2, sizeof(uint32_t))
        if self.tails == NULL:
            raise MemoryError
        if not self.has_special:
            return 0
        for index in order:
            terminal = ir.terminals[index]
            if terminal.tail is None:
                continue
            self.tails[2 * index] = ALL
            body = without_tail(terminal.regex, terminal.tail)
            if body is not None:
                bodies.append(body)
                self.tails[2 * index] = regex_lower(rx, body, memo, common, 0)
            self.tails[2 * index + 1] = regex_lower(rx, terminal.tail, memo, common, 0)
            raise_fault(&self.engine.fault, self.limits)
        self._lay_out_hidden(ir, order)
        return 0

    cdef int _lay_out_hidden(self, GrammarFields ir, list order) except -1:
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

    cdef int _lay_out_rules(self, GrammarFields ir, Flat flat, list reached) except -1:
        """Keep what rules are called and what hosts may sample with in them."""
        cdef Py_ssize_t at, count
        cdef list rules = ir.rules, names = []
        count = len(rules)
        for at in reached:
            names.append((<Rule>rules[at]).name if at < count else "")
        names.append("")
        self.rule_names = names
        if not flat.has_limits and not flat.has_extras:
            return 0
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

    cdef int _lay_out_captures(self, GrammarFields ir, Flat flat, list reached) except -1:
        """Say which rules have a capture, and below which rules there is one."""
        cdef dict number
        cdef dict users = {}
        cdef list names
        cdef list todo = []
        cdef uint32_t production, place, rule
        self.wanted = <uint8_t*>calloc(len(reached) + 2, 1)
        if self.wanted == NULL:
            raise MemoryError
        if not flat.has_extras:
            return 0
        number = {rule: at for at, rule in enumerate(reached)}
        names = [(None, None)] * (len(reached) + 1)
        for rule in reached:
            for production in range(flat.rule_at.at[rule], flat.rule_at.at[rule + 1]):
                if flat.dropped[production]:
                    continue
                for place in range(flat.place_at.at[production], flat.place_at.at[production + 1]):
                    if not flat.symbols.at[place] & 1:
                        users.setdefault(flat.symbols.at[place] >> 1, set()).add(rule)
            if rule >= flat.parameters:
                continue
            described = ir.rules[rule]
            if described.capture is not None or described.tail_capture is not None:
                names[number[rule]] = (described.capture, described.tail_capture)
                self.wanted[number[rule]] = 1
                todo.append(rule)
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

    cdef int _lay_out(self, GrammarFields ir, Flat flat, list reached) except -1:
        """Fill the parser's arrays with the rules ``reached``, the start rule's parent added."""
        cdef size_t places = flat.symbols.size + flat.place_at.size + 2
        cdef size_t productions = flat.place_at.size + 1
        cdef uint32_t terminals = <uint32_t>len(ir.terminals)
        cdef uint32_t rule_count = <uint32_t>len(reached) + 1
        ps = &self.engine.parser
        ps.symbols = <uint32_t*>malloc(places * sizeof(uint32_t))
        ps.argument = <uint32_t*>malloc(places * sizeof(uint32_t))
        ps.owner = <uint32_t*>malloc(places * sizeof(uint32_t))
        ps.rules = <uint32_t*>malloc((rule_count + 1) * sizeof(uint32_t))
        ps.productions = <Production*>malloc(productions * sizeof(Production))
        ps.nullable = <uint8_t*>calloc(rule_count + 1, 1)
        ps.tail = <uint8_t*>calloc(rule_count + 1, 1)
        ps.skip_of = <uint32_t*>malloc((terminals + 1) * sizeof(uint32_t))
        ps.skip_once = <uint8_t*>calloc(terminals + 1, 1)
        if ps.symbols == NULL or ps.argument == NULL or ps.owner == NULL or ps.rules == NULL \
                or ps.productions == NULL or ps.nullable == NULL or ps.tail == NULL \
                or ps.skip_of == NULL or ps.skip_once == NULL:
            raise MemoryError
        ps.rule_count = rule_count
        ps.start_rule = rule_count - 1
        ps.initial_skip = ir.initial_skip
        cdef uint32_t* number = <uint32_t*>calloc(flat.rules + 1, sizeof(uint32_t))
        cdef uint8_t* marks = <uint8_t*>calloc(2 * <size_t>flat.rules + 2, 1)
        try:
            if number == NULL or marks == NULL:
                raise MemoryError
            self._lay_out_productions(flat, reached, number)
            flat.nullable(marks)
            flat.tail_recursive(marks + flat.rules + 1)
            for rule in reached:
                ps.nullable[number[<uint32_t>rule]] = marks[<uint32_t>rule]
                ps.tail[number[<uint32_t>rule]] = marks[flat.rules + 1 + <uint32_t>rule]
        finally:
            free(number)
            free(marks)
        return 0

    cdef int _lay_out_productions(self, Flat flat, list reached, uint32_t* number) except -1:
        """Copy the productions, rules renumbered, and what guards and arguments are."""
        cdef list conds = []
        cdef uint32_t at = 0, made = 0, rule, production, place, i
        cdef uint32_t rule_count = <uint32_t>len(reached) + 1
        cdef bint parametric = False
        ps = &self.engine.parser
        for i in range(rule_count - 1):
            number[<uint32_t>reached[i]] = i
        for i in range(rule_count - 1):
            rule = reached[i]
            ps.rules[i] = made
            for production in range(flat.rule_at.at[rule], flat.rule_at.at[rule + 1]):
                if flat.dropped[production]:
                    continue
                ps.productions[made].place = at
                ps.productions[made].condition = NONE
                if flat.guards.at[production] != NONE:
                    parametric = True
                    ps.productions[made].condition = <uint32_t>len(conds)
                    _flatten_condition(flat.conditions[flat.guards.at[production]], conds)
                made += 1
                for place in range(flat.place_at.at[production], flat.place_at.at[production + 1]):
                    ps.owner[at] = i
                    ps.argument[at] = flat.arguments.at[place]
                    ps.symbols[at] = flat.symbols.at[place]
                    if not ps.symbols[at] & 1:
                        ps.symbols[at] = 2 * number[ps.symbols[at] >> 1]
                        if ps.argument[at] != NONE:
                            parametric = True
                    at += 1
                ps.owner[at] = i
                ps.symbols[at] = NONE
                ps.argument[at] = NONE
                at += 1
        # The parent of the start rule, which is the first one reached.
        ps.rules[rule_count - 1] = made
        ps.productions[made].place = at
        ps.productions[made].condition = NONE
        made += 1
        for i in range(2):
            ps.owner[at] = rule_count - 1
            ps.symbols[at] = NONE if i else 0
            ps.argument[at] = NONE
            at += 1
        ps.rules[rule_count] = made
        ps.stride = 5 if parametric else 3
        ps.exprs = <Expr*>calloc(len(flat.exprs) + 1, sizeof(Expr))
        ps.conds = <Cond*>calloc(len(conds) + 1, sizeof(Cond))
        if ps.exprs == NULL or ps.conds == NULL:
            raise MemoryError
        for i in range(<uint32_t>len(flat.exprs)):
            expr = flat.exprs[i]
            ps.exprs[i].op = _EXPR_OPS[expr.op]
            ps.exprs[i].a = expr.a & 0xFFFFFFFFFFFFFFFF
            ps.exprs[i].b = expr.b & 0xFFFFFFFFFFFFFFFF
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

    def _fork_key(self):
        return id(self)

    def _hold(self):
        """Keep all others off the engine, for a fork."""
        self.acquire()

    def _let_go(self):
        program_release(&self.program)

    def __copy__(self):
        return self  # immutable

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        raise TypeError(
            "a CompiledGrammar cannot be pickled: send the Grammar and compile that where it is "
            "needed"
        )

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

    @property
    def memory(self):
        """Bytes that have been built so far, about: the ``memory`` of :meth:`stats`."""
        # Without the lock, which a finalizer may ask in vain for: each word is read as it is.
        return self._memory()

    def _report_to(self, report):
        """Have ``report()`` called when a matcher goes that this has grown with. For the cache of
        schemas."""
        self.report = report
        self.reported = self._memory()

    cdef int matcher_goes(self) except -1:
        """To be called when a matcher is done with this."""
        cdef size_t memory
        if self.report is not None:
            memory = self._memory()
            if memory > self.reported:
                self.reported = memory
                self.report()
        return 0

    cdef size_t _memory(self) noexcept:
        cdef Engine* engine = &self.engine
        return (
            engine.lexer.rx.nodes.arena.total + 48 * <size_t>engine.lexer.rx.nodes.room
            + 48 * (
                <size_t>engine.lexer.rx.derivatives.count + engine.lexer.rx.saturated.count
                + engine.lexer.rx.lengths.count + engine.lexer.rx.alike.count
            )
            + engine.lexer.vectors.arena.total + 56 * <size_t>engine.lexer.states_room
            + engine.lexer.rows.total + engine.parser.contents.arena.total
            + engine.parser.shape_words.arena.total + 4 * engine.parser.variants.room
            + 48 * <size_t>engine.parser.scans.count + engine.mask_bytes
            + engine.inside_arena.total + 4 * engine.followed.room
        )

    def __repr__(self):
        return f"<llgx.CompiledGrammar of {len(self.names)} terminals for {self.vocabulary!r}>"

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
        figures[9] = self._memory()
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


cdef tuple _unproductive(ir, Flat flat, uint8_t* productive, uint8_t* is_empty):
    """Why the grammar matches no text, and the names of what that is about."""
    cdef uint32_t at, place
    for at in range(<uint32_t>len(ir.terminals)):
        if is_empty[at]:
            for place in range(<uint32_t>flat.symbols.size):
                if flat.symbols.at[place] == 2 * at + 1:
                    name = ir.terminals[at].name
                    return f"the grammar matches no text: terminal {name} matches nothing", (name,)
    for rule in ir.rules:
        if rule.name and not rule.productions:
            return (
                f"the grammar matches no text: rule {rule.name} matches nothing, or never ends",
                (rule.name,),
            )
    names = [rule.name for at, rule in enumerate(ir.rules) if not productive[at] and rule.name]
    if not names:
        return "the grammar matches no text: no way through its rules comes to an end", ()
    return (
        "the grammar matches no text: no end to the recursion of " + ", ".join(names[:5]),
        # The last one met is the innermost of those that the others wait for.
        tuple(reversed(names)),
    )


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
