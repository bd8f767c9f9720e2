# cython: language_level=3, boundscheck=False, wraparound=False
# cython: initializedcheck=False, cdivision=True
"""Matchers: the state of one sequence under a compiled grammar.

A :class:`Matcher` is a stack with one entry per consumed token, (row, lexer state, at the beginning
of a lexeme or not), so that ``rollback``, ``copy`` and ``reset`` cost next to nothing. Everything
else is shared by all matchers of a grammar.

Invariants: every public method either succeeds or raises and leaves the object as it was. A mask
that is not in the memo is computed without the GIL. A matcher belongs to one thread at a time.

Cost: ``fill_bitmask`` of a known state copies the mask (16 KB for 128k tokens) and sets a few bits;
``consume`` steps the lexer once per byte.
"""

cimport cython
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uint8_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from cpython.buffer cimport PyBuffer_Release
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.long cimport PyLong_AsLongLongAndOverflow

from llgx._budget cimport budget_is_open, budget_step
from llgx._captures cimport Text, captures_of, text_free, text_lexeme, text_reserve
from llgx._compiled cimport CompiledGrammar
from llgx._earley cimport parser_scan, row_state, row_t
from llgx._engine cimport Engine, Place, child_place
from llgx._exact cimport exact_accepts, exact_ends, exact_step, exact_terminals
from llgx._lexer cimport DEAD, NO_SET, lexer_step, lexer_tail, set_t, state_t
from llgx._mask cimport engine_accepts, engine_ends, engine_reread, engine_step
from llgx._mask_buffer cimport array_row, mask_open, mask_stride
from llgx._memory cimport NONE, Words, words_free, words_push
from llgx._open cimport Climb, climb_begin, climb_free, climb_from
from llgx._scopes cimport (
    place_load, place_step, scopes_are_complete, scopes_forced, scopes_read,
)
from llgx._sequence cimport (
    CUT, FRESH, STATE, Step, step_accepts, step_advance, step_begin, step_eat,
    step_copy, step_mask, step_plain, step_take, step_token_row, steps_reserve,
)
from llgx._tokens cimport tokens_next, tokens_only
from llgx._trie cimport TokenTrie, child_node, tokens_end

from numpy import ndarray

from llgx.errors import TokenRejected, VocabularyError
from llgx.explanation import Explanation

cdef enum:
    FORCED_LIMIT = 4096  # bytes that ``forced_bytes`` looks ahead


cdef object _ndarray = ndarray


# Garbage collection leaves the grammar to __dealloc__, which tells it.
@cython.no_gc_clear
cdef class Matcher:
    """The state of one sequence under a :class:`CompiledGrammar`.

    Not to be used by two threads at once; any number of matchers may share a compiled grammar.
    Every method that raises leaves the matcher as it was.
    """

    def __cinit__(self, compiled):
        if not isinstance(compiled, CompiledGrammar):
            raise TypeError(
                f"a Matcher follows a CompiledGrammar, not {type(compiled).__name__}: "
                "Grammar.compile(vocabulary) makes one"
            )
        self.grammar = compiled
        self.program = &self.grammar.program
        self._reserve(0)
        self.scratch = <uint64_t*>malloc((self.grammar.engine.words + 1) * sizeof(uint64_t))
        if self.scratch == NULL:
            raise MemoryError
        self.grammar.acquire()
        step_begin(self.program, self.steps)
        self.grammar.release()

    def __dealloc__(self):
        free(self.steps)
        free(self.scratch)
        if self.grammar is not None:
            self.grammar.matcher_goes()

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

    def __bool__(self):
        return True  # also before the first token

    def __repr__(self):
        return f"<llgx.Matcher after {self.count} tokens>"

    # ------------------------------------------------------------ steps

    cdef int _reserve(self, uint32_t extra) except -1:
        """Make room for so many more steps."""
        if steps_reserve(&self.steps, &self.room, self.count + extra + 1) < 0:
            raise MemoryError
        return 0

    cdef int _advance(self, Step* step, int64_t token):
        """:c:func:`step_advance`, without the GIL where that may take a mask; lock held."""
        cdef int fitting
        if self.grammar.engine.parser.limits == NULL:
            return step_advance(self.program, step, token, self.scratch)
        with nogil:
            fitting = step_advance(self.program, step, token, self.scratch)
        return fitting

    cdef object _rejection(self, given, int64_t token, int fitting):
        cdef Step* step = &self.steps[self.count]
        size = self.grammar.trie.vocabulary_size
        data = b""
        if not 0 <= token < size:
            given = given.__index__()
            message = f"token {given} is not in the vocabulary of {size}"
        else:
            data = self.grammar.vocabulary.tokens[token]
            expected = ", ".join(self.expected()[:8])
            if step.row == NONE:
                reason = "the text has ended"
            elif self.count >= self.grammar.max_tokens:
                reason = f"max_tokens={self.grammar.max_tokens} are spent"
            elif self.grammar.is_eog[token]:
                reason = f"the text is not complete; expected {expected}"
            elif not self.grammar.trie.is_text[token]:
                reason = "it is a special token, which no text matches"
                if expected:
                    reason += f"; expected {expected}"
            elif not expected:
                reason = "the text is complete"
            else:
                reason = f"its byte {fitting} does not fit; expected {expected}"
            message = f"token {token} {data!r} is not allowed after {self.count} tokens: {reason}"
        return TokenRejected(
            message, token=given, token_bytes=data, position=self.count, byte_offset=fitting,
            expected=self.expected(),
        )

    def consume(self, token):
        """Move past ``token``.

        Raises :class:`TokenRejected` if the grammar does not allow it (an id out of range
        included), ``TypeError`` if it is no integer, :class:`LimitError`.
        """
        cdef int64_t number = _as_token(token)
        cdef Step step = self.steps[self.count]
        cdef int fitting
        self.grammar.acquire()
        fitting = self._advance(&step, number)
        self.grammar.release()
        if fitting >= 0:
            raise self._rejection(token, number, fitting)
        self._reserve(1)
        self.count += 1
        self.steps[self.count] = step

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
        cdef list numbers = _as_tokens(tokens)
        cdef Step step = self.steps[self.count]
        cdef Py_ssize_t fits = 0
        self.grammar.acquire()
        while fits < len(numbers) and self._advance(&step, numbers[fits]) < 0:
            fits += 1
        self.grammar.release()
        return fits

    def try_consume(self, tokens):
        """Consume ``tokens`` up to the first that is refused; how many were consumed."""
        cdef list numbers = _as_tokens(tokens)
        cdef Py_ssize_t count = len(numbers), taken = 0
        cdef Step step = self.steps[self.count]
        cdef Step* steps = <Step*>malloc((count + 1) * sizeof(Step))
        if steps == NULL:
            raise MemoryError
        try:
            self.grammar.acquire()
            while taken < count and self._advance(&step, numbers[taken]) < 0:
                steps[taken] = step
                taken += 1
            self.grammar.release()
            self._reserve(<uint32_t>taken)
            memcpy(self.steps + self.count + 1, steps, taken * sizeof(Step))
            self.count += <uint32_t>taken
        finally:
            free(steps)
        return taken

    def rollback(self, count):
        """Take back the last ``count`` tokens, end-of-generation tokens included. Constant time.

        Raises ``ValueError`` if there are not so many, and changes nothing then.
        """
        if not hasattr(count, "__index__"):
            raise TypeError(f"a number of tokens is an integer, not {type(count).__name__}")
        number = count.__index__()
        if not 0 <= number <= self.count:
            raise ValueError(f"cannot roll back {number} of {self.count} tokens")
        self.count -= <uint32_t>number

    def _place(self):
        """What follows depends on this alone: (row, lexer state, context, tokens, the token that
        the lexeme in progress began in). For llgx itself."""
        cdef Step* step = &self.steps[self.count]
        return step.row, step.state, step.context, step.count, step.begin

    def reset(self):
        """Back to before the first token."""
        self.count = 0

    def copy(self):
        """A matcher in the same state, independent from here on. Linear in the tokens consumed."""
        cdef Matcher other = Matcher.__new__(Matcher, self.grammar)
        other._reserve(self.count)
        other.count = self.count
        memcpy(other.steps, self.steps, (self.count + 1) * sizeof(Step))
        return other

    __copy__ = copy

    def __deepcopy__(self, memo):
        return self.copy()

    # ------------------------------------------------------------ state

    def is_accepting(self):
        """Whether the text so far is complete, so that it may end here."""
        self.grammar.acquire()
        accepts = step_accepts(self.program, &self.steps[self.count])
        self.grammar.release()
        return accepts

    @property
    def stop_reason(self):
        """``"eog"`` after an end-of-generation token, ``"complete"`` where the text is complete and
        nothing can follow, ``"max_tokens"`` where all tokens that the grammar grants are spent,
        else ``None``."""
        cdef Step* step = &self.steps[self.count]
        cdef bint complete
        if step.row == NONE:
            return "eog"
        self.grammar.acquire()
        if self.grammar.engine.exact != NULL:
            complete = exact_ends(&self.grammar.engine, step.row) \
                and step_accepts(self.program, step)
        else:
            complete = step_accepts(self.program, step) and (
                step.state == (DEAD | FRESH)
                or (
                    self.grammar.engine.parser.conds != NULL
                    and engine_ends(
                        &self.grammar.engine, step.row, step.state & STATE,
                        step.state & FRESH != 0
                    )
                )
            )
        if not complete and self.grammar.engine.scopes != NULL:
            complete = scopes_are_complete(
                &self.grammar.engine, step.row, step.state & STATE, step.state & FRESH != 0,
                step.context
            )
        complete = complete and step_token_row(self.program, step) == NONE
        self.grammar.release()
        if not complete and self.count >= self.grammar.max_tokens:
            return "max_tokens"
        return "complete" if complete else None

    def is_stopped(self):
        """Whether no text can follow: all that the mask allows are end-of-generation tokens."""
        return self.stop_reason is not None

    cdef tuple _expected(self, Step* step):
        """The terminals that could begin or go on at ``step``, by name."""
        cdef Engine* engine = &self.grammar.engine
        cdef state_t state = step.state & STATE
        cdef state_t states[2]
        cdef uint32_t* found
        cdef uint32_t i, terminal, count = 0
        cdef row_t tokens
        cdef int which
        if step.row == NONE or self.count >= self.grammar.max_tokens:
            return ()
        if engine.exact != NULL:
            return self._expected_exact(step)
        found = <uint32_t*>malloc((3 * engine.lexer.terminal_count + 1) * sizeof(uint32_t))
        if found == NULL:
            raise MemoryError
        try:
            self.grammar.acquire()
            tokens = step_token_row(self.program, step)
            i = 0
            while tokens != NONE:
                terminal = tokens_next(&engine.token_sets, &engine.parser, tokens, &i)
                if terminal == NONE:
                    break
                found[count] = terminal
                count += 1
            states[0] = state
            states[1] = DEAD
            if not step.state & FRESH and engine.lexer.states[state].accept != NO_SET:
                states[1] = row_state(
                    &engine.parser,
                    parser_scan(&engine.parser, step.row, engine.lexer.states[state].accept),
                )
            for which in range(2):
                for i in range(0, engine.lexer.vectors.entries[states[which]].length, 2):
                    found[count] = engine.lexer.vectors.entries[states[which]].words[i]
                    count += 1
            self.grammar.release()
            terminals = sorted({found[i] for i in range(count)})
        finally:
            free(found)
        return tuple([
            self.grammar.names[terminal] for terminal in terminals
            if not engine.lexer.skip[terminal]
        ])

    @property
    def temperature(self):
        """What hosts may sample the next token with: of the rules that are under way or may begin
        here, the innermost ones that have a temperature, and of these the highest; None without.
        """
        cdef Engine* engine = &self.grammar.engine
        cdef Step* step = &self.steps[self.count]
        cdef Climb climb
        cdef uint32_t at = 0
        cdef double found = -1
        if self.grammar.temperatures == NULL or step.row == NONE:
            return None
        self.grammar.acquire()
        self._begin_climb(&climb, step)
        while at < climb.places.size and not climb.failed:
            if self.grammar.temperatures[climb.places.at[at + 1]] < 0:
                climb_from(&climb, &engine.parser, at)
            else:
                found = max(found, self.grammar.temperatures[climb.places.at[at + 1]])
            at += 3
        failed = climb.failed
        climb_free(&climb)
        self.grammar.release()
        if failed:
            raise MemoryError
        return None if found < 0 else found

    cdef void _begin_climb(self, Climb* climb, Step* step):
        """Visit the rules that wait for what may come or go on at ``step``; lock held."""
        cdef Engine* engine = &self.grammar.engine
        cdef state_t state = step.state & STATE
        cdef const uint32_t* words = engine.lexer.vectors.entries[state].words
        cdef uint32_t count = engine.lexer.vectors.entries[state].length // 2
        cdef Words all
        cdef uint32_t i = 0, terminal
        if not step.state & FRESH or engine.token_sets.ids == NULL:
            climb_begin(climb, &engine.parser, step.row, words, count, 2)
            return
        memset(&all, 0, sizeof(Words))
        for i in range(count):
            words_push(&all, words[2 * i])
        i = 0
        while True:
            terminal = tokens_next(&engine.token_sets, &engine.parser, step.row, &i)
            if terminal == NONE or words_push(&all, terminal) < 0:
                break
        climb_begin(climb, &engine.parser, step.row, all.at, <uint32_t>all.size, 1)
        words_free(&all)

    cdef tuple _expected_exact(self, Step* step):
        cdef Engine* engine = &self.grammar.engine
        cdef uint32_t i
        cdef uint8_t* found = <uint8_t*>calloc(engine.lexer.terminal_count + 1, 1)
        if found == NULL:
            raise MemoryError
        try:
            self.grammar.acquire()
            exact_terminals(engine, step.row, found)
            self.grammar.release()
            return tuple([
                self.grammar.names[i] for i in range(engine.lexer.terminal_count)
                if found[i] and not engine.lexer.skip[i]
            ])
        finally:
            free(found)

    def expected(self):
        """Names of the terminals that could begin or go on at this point, in grammar order.

        Empty after an end-of-generation token and where the text can only end.
        """
        return self._expected(&self.steps[self.count])

    # ------------------------------------------------------------ masks

    cdef int _write(self, int32_t* out) except -1:
        """Write the mask of this state to ``ceil(V / 32)`` words."""
        cdef Step* step = &self.steps[self.count]
        self.grammar.acquire()
        if not step_copy(self.program, step, out):
            with nogil:
                step_mask(self.program, step, out, self.scratch)
        self.grammar.release()
        return 0

    def fill_bitmask(self, mask, row=0):
        """Write which tokens are allowed next to row ``row`` of ``mask``.

        ``mask`` is a writable int32 array of shape ``(batch, ceil(V / 32))``, rows contiguous; bit
        i of word w stands for token ``32 * w + i``. All words of the row are written. Raises
        ``TypeError`` or ``ValueError`` for an array of another shape or type, ``IndexError`` for a
        row that it lacks, :class:`LimitError`; the array is then unchanged.

        A state met before costs about a copy of the row. Otherwise the mask is computed, with the
        GIL released.
        """
        cdef Py_buffer view
        cdef Py_ssize_t width = (self.grammar.trie.vocabulary_size + 31) // 32
        cdef Py_ssize_t stride
        cdef Py_ssize_t number = _as_row(row)
        cdef char* out
        if type(mask) is _ndarray:
            out = array_row(mask, width, number)
            if out != NULL:
                self._write(<int32_t*>out)
                return
        mask_open(mask, &view)
        try:
            stride = mask_stride(&view, width)
            if not 0 <= number < view.shape[0]:
                raise IndexError(f"row {row} of a mask of {view.shape[0]} rows")
            self._write(<int32_t*>(<char*>view.buf + number * stride))
        finally:
            PyBuffer_Release(&view)

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

    def _raise_if_stuck(self):
        """Raise :class:`VocabularyError` where no token is allowed and the text is not complete.

        The vocabulary then cannot spell what the grammar asks for. Costs a mask.
        """
        cdef Py_ssize_t words = (self.grammar.trie.vocabulary_size + 31) // 32
        cdef bytearray out = bytearray(4 * words)
        cdef unsigned char* data = out
        self._write(<int32_t*>data)
        if not any(out) and not self.is_stopped() and not self.is_accepting():
            expected = ", ".join(self.expected()[:8])
            raise VocabularyError(
                f"{self.grammar.vocabulary!r} has no token that the grammar allows after "
                f"{self.count} tokens: it cannot spell {expected}"
            )

    # ------------------------------------------------------------ forced text

    cdef uint32_t _forced(self, Step* step, uint8_t* out):
        """Bytes of which each is the only one that can come next, and how many; lock held."""
        cdef Engine* engine = &self.grammar.engine
        cdef row_t row = step.row, next_row = 0
        cdef state_t state = step.state & STATE, next_state = 0
        cdef bint fresh = step.state & FRESH != 0
        cdef bint next_fresh = False
        cdef uint32_t byte, found
        cdef row_t try_row
        cdef state_t try_state
        cdef bint try_fresh
        cdef uint32_t count = 0
        cdef Step at = step[0]
        cdef uint32_t begin
        cdef bint limited = engine.parser.limits != NULL
        cdef bint others = engine.token_sets.ids != NULL or self.grammar.ends_with_eog != NULL
        if row == NONE or not self.grammar.forcing or self.count >= self.grammar.max_tokens:
            return 0
        if engine.scopes != NULL and (others or limited):
            begin = step.begin if limited else NONE
            while count < FORCED_LIMIT \
                    and not (limited and budget_is_open(engine, row, state, fresh)) \
                    and step_token_row(self.program, &at) == NONE \
                    and step_eat(self.program, &at, 0) == NO_SET and scopes_forced(
                engine, row, state, fresh, at.context, out + count, 1
            ) and scopes_read(
                engine, &row, &state, &fresh, &at.context, out + count, 1, &begin,
                step.count if limited else NONE
            ):
                at.row = row
                at.state = state | (FRESH if fresh else 0)
                count += 1
            return count
        if engine.exact != NULL:
            while count < FORCED_LIMIT and not exact_accepts(engine, row):
                found = 256
                for byte in range(256):
                    try_row = exact_step(engine, row, <uint8_t>byte)
                    if try_row != NONE:
                        found = byte if found == 256 else 257
                        next_row = try_row
                if found >= 256 or engine.fault.code:
                    break
                out[count] = <uint8_t>found
                count += 1
                row = next_row
            return count
        if engine.scopes != NULL:
            return scopes_forced(engine, row, state, fresh, step.context, out, FORCED_LIMIT)
        while count < FORCED_LIMIT and not engine_accepts(engine, row, state, fresh):
            if limited and budget_is_open(engine, row, state, fresh):
                break  # what its last token may be depends on how the text is cut into tokens
            if others:
                at.row = row
                at.state = state | (FRESH if fresh else 0)
                if step_token_row(self.program, &at) != NONE \
                        or step_eat(self.program, &at, 0) != NO_SET:
                    break
            found = 256
            for byte in range(256):
                if engine.lexer.states[state].forced >= 0 \
                        and byte != <uint32_t>engine.lexer.states[state].forced:
                    continue
                try_row = row
                try_state = state
                try_fresh = fresh
                if limited:
                    begin = step.count
                    if not budget_step(
                        engine, &try_row, &try_state, &try_fresh, &begin, begin, <uint8_t>byte
                    ):
                        continue
                elif not engine_step(engine, &try_row, &try_state, &try_fresh, <uint8_t>byte):
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
            out[count] = <uint8_t>found
            count += 1
            row = next_row
            state = next_state
            fresh = next_fresh
        return count

    def forced_bytes(self):
        """The text that must come next whatever the model wants: ``b""`` where there is a choice.

        A choice is a second byte that could follow, or that the text may end. Looks ahead 4,096
        bytes at most, so the text may go on being forced after them. Empty under ``no_forcing``.
        """
        cdef uint8_t out[FORCED_LIMIT]
        self.grammar.acquire()
        cdef uint32_t count = self._forced(&self.steps[self.count], out)
        self.grammar.release()
        return PyBytes_FromStringAndSize(<const char*>out, count)

    def forced_tokens(self):
        """The canonical tokens of the forced text that can be taken without limiting the model.

        These are tokens of ``vocabulary.tokenize(forced_bytes())``, up to the first place where the
        mask also allows a token that reaches beyond the forced text: from there on the model may
        want another one. Where no text can follow but one token that the grammar names, that is
        forced too, and so on after it. Empty if nothing is forced.
        """
        cdef Matcher probe = self.copy()
        cdef list result = []
        cdef uint32_t token
        if not self.grammar.forcing:
            return result
        while len(result) < FORCED_LIMIT:
            forced = probe.forced_bytes()
            if forced and not probe._take_forced(forced, result):
                break
            token = probe._forced_token()
            if token == NONE or not probe.allows(token):
                break
            probe.consume(token)
            result.append(token)
        return result

    cdef bint _take_forced(self, bytes forced, list result) except -1:
        """Consume the tokens of ``forced`` that limit nobody, and append them; whether all were."""
        cdef Py_ssize_t at = 0
        try:
            tokens = self._tokenize_after(forced)
        except VocabularyError:
            return False  # no tokens spell the text: there is nothing to take
        for token in tokens:
            if self._reaches_beyond(forced[at:]) or not self.allows(token):
                return False
            self.consume(token)
            result.append(token)
            at += len(self.grammar.vocabulary.tokens[token])
        return True

    cdef uint32_t _forced_token(self) except? 0xFFFFFFF0:
        """The one token that can come next, of a place where no text can; NONE elsewhere."""
        cdef Step* step = &self.steps[self.count]
        cdef uint32_t token = NONE
        cdef row_t row
        if step.state != (DEAD | FRESH):
            return NONE
        self.grammar.acquire()
        row = step_token_row(self.program, step)
        if row != NONE and not step_accepts(self.program, step):
            token = tokens_only(&self.grammar.engine.token_sets, &self.grammar.engine.parser, row)
        self.grammar.release()
        return token

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
        cdef uint32_t node = 0, low, high, place
        cdef uint64_t* bits
        for i in range(len(rest)):
            place = child_place(&trie.pool.trie, node, data[i])
            if place == NONE:
                return False
            node = child_node(&trie.pool.trie, place)
        low = trie.pool.trie.nodes[node + 1].tokens_at
        high = tokens_end(&trie.pool.trie, node)
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

    cdef object _try(self, bytes text):
        """How far ``text`` fits from here on, as an :class:`Explanation`. Changes nothing."""
        cdef Step step = self.steps[self.count]
        cdef Py_ssize_t fits = 0
        cdef Py_ssize_t length = len(text)
        cdef const uint8_t* data = text
        cdef row_t row = step.row
        cdef state_t state = step.state & STATE
        cdef bint fresh = step.state & FRESH != 0
        cdef uint32_t begin = NONE
        self.grammar.acquire()
        if row != NONE:
            row = step_plain(self.program, &step)
        if row != NONE and self.grammar.engine.exact != NULL:
            while fits < length:
                row = exact_step(&self.grammar.engine, step.row, data[fits])
                if row == NONE:
                    break
                step.row = row
                fits += 1
        elif row != NONE and self.grammar.engine.scopes != NULL:
            fits = <Py_ssize_t>scopes_read(
                &self.grammar.engine, &row, &state, &fresh, &step.context, data, <size_t>length,
                &begin, NONE
            )
            step.row = row
            step.state = state | (FRESH if fresh else 0)
        elif row != NONE:
            while fits < length and engine_step(
                &self.grammar.engine, &row, &state, &fresh, data[fits]
            ):
                fits += 1
            step.row = row
            step.state = state | (FRESH if fresh else 0)
        complete = fits == length and step_accepts(self.program, &step)
        self.grammar.release()
        return Explanation(text, fits, complete, self._expected(&step), self._rule_path(&step))

    cdef tuple _rule_path(self, Step* step):
        """Names of the rules under way at ``step``, from the start inwards."""
        cdef Engine* engine = &self.grammar.engine
        cdef Climb climb
        cdef uint32_t at = 0
        cdef list names = []
        if step.row == NONE or engine.exact != NULL:
            return ()
        self.grammar.acquire()
        self._begin_climb(&climb, step)
        while at < climb.places.size and not climb.failed \
                and climb.places.at[at + 1] != engine.parser.start_rule:
            climb_from(&climb, &engine.parser, at)
            at += 3
        self.grammar.release()
        if climb.failed:
            climb_free(&climb)
            raise MemoryError
        while at < climb.places.size:
            name = self.grammar.rule_names[climb.places.at[at + 1]]
            if step.state & FRESH and climb.places.at[at] == step.row:
                name = ""  # it may begin here, but has not yet
            if name and (not names or names[len(names) - 1] != name):
                names.append(name)
            at = climb.places.at[at + 2]
        climb_free(&climb)
        return tuple(names)

    def match_bytes(self, text):
        """How many bytes of ``text`` fit from here on, and whether it could end after all of them.

        ``text`` is ``bytes``; changes nothing. A pair ``(count, accepting)``; ``accepting`` is
        False where not all bytes fit.
        """
        if not isinstance(text, bytes):
            raise TypeError(f"text must be bytes, not {type(text).__name__}")
        result = self._try(text)
        return result.offset, result.complete

    def explain(self, text):
        """Where ``text`` (``str`` or ``bytes``) stops fitting from here on, and what was expected.

        An :class:`llgx.Explanation`, whose ``str`` is fit to print. Changes nothing.
        """
        if isinstance(text, str):
            text = text.encode("utf-8", "surrogatepass")
        elif not isinstance(text, bytes):
            raise TypeError(f"text must be str or bytes, not {type(text).__name__}")
        return self._try(text)

    # ------------------------------------------------------------ captures

    cdef void _replay(self, Text* text, Words* pending, bint* complete):
        """List the lexemes of the tokens so far; lock held.

        ``complete`` if they are a whole text; otherwise ``pending`` are the terminals of the lexeme
        in progress, or none where any may come.
        """
        cdef Engine* engine = &self.grammar.engine
        cdef TokenTrie trie = self.grammar.trie
        cdef Step step
        cdef uint32_t i, token, count = self.count
        cdef size_t begin = 0, size
        cdef set_t emitted
        complete[0] = False
        for i in range(self.count):
            step = self.steps[i]
            if step.row != NONE:
                step.row = step_plain(self.program, &step)
            if step.state & FRESH:
                begin = text.size
            if self.steps[i + 1].row == NONE:
                complete[0] = self.steps[i + 1].state != CUT
                count = i
                break
            token = self.steps[i + 1].token
            emitted = NO_SET
            if self.grammar.is_eog[token]:
                emitted = step_eat(self.program, &step, token)
                if emitted != NO_SET:
                    text_lexeme(text, engine, emitted, begin, text.size)
                    continue
            if engine.token_sets.ids != NULL:
                emitted = step_take(self.program, &step, token)
            if emitted != NO_SET:
                if not self.steps[i].state & FRESH:
                    step.state = self.steps[i].state
                    text_lexeme(
                        text, engine, engine.lexer.states[step.state].accept, begin, text.size
                    )
                begin = text.size
                if trie.is_text[token]:
                    self._append(text, token)
                text_lexeme(text, engine, emitted, begin, text.size)
            else:
                size = text.size
                self._append(text, token)
                self._replay_text(text, &step, size, &begin)
                if not step.state & FRESH and self.steps[i + 1].state & FRESH:
                    # A limit on tokens has ended the lexeme, which may not even match.
                    emitted = engine.lexer.states[step.state].accept
                    if emitted != NO_SET:
                        text_lexeme(text, engine, emitted, begin, text.size)
            if text.failed or engine.fault.code:
                return
        step = self.steps[count]
        if not complete[0]:
            complete[0] = step_accepts(self.program, &step)
        if step.state & FRESH:
            return
        if complete[0]:
            text_lexeme(text, engine, engine.lexer.states[step.state].accept, begin, text.size)
            return
        for i in range(0, engine.lexer.vectors.entries[step.state].length, 2):
            token = engine.lexer.vectors.entries[step.state].words[i]
            if engine.lexer.skip[token]:
                pending.size = 0
                return
            if words_push(pending, token) < 0:
                text.failed = True

    cdef void _append(self, Text* text, uint32_t token):
        cdef TokenTrie trie = self.grammar.trie
        cdef size_t size = trie.text_at[token + 1] - trie.text_at[token]
        if text_reserve(text, size) == 0:
            memcpy(text.bytes + text.size, trie.text + trie.text_at[token], size)
            text.size += size

    cdef void _replay_text(self, Text* text, Step* step, size_t at, size_t* begin):
        """List the lexemes that end in the text from ``at`` on."""
        cdef Engine* engine = &self.grammar.engine
        cdef row_t row = step.row
        cdef state_t state = step.state & STATE
        cdef state_t target
        cdef set_t emitted
        cdef row_t after
        cdef bint fresh, new = step.state & FRESH != 0
        cdef uint32_t hidden, inner
        cdef const uint8_t* tail
        if engine.scopes != NULL:
            self._replay_scoped(text, step, at, begin)
            return
        while at < text.size and not engine.fault.code:
            target = lexer_step(&engine.lexer, state, text.bytes[at])
            if target == DEAD:
                emitted = engine.lexer.states[state].accept
                text_lexeme(text, engine, emitted, begin[0], at)
                begin[0] = at
                row = parser_scan(&engine.parser, row, emitted)
                target = lexer_step(
                    &engine.lexer, row_state(&engine.parser, row), text.bytes[at]
                )
            at += 1
            state = target
            new = False
            emitted = engine.lexer.states[target].eager
            if emitted != NO_SET:
                text_lexeme(text, engine, emitted, begin[0], at)
                row = parser_scan(&engine.parser, row, emitted)
                state = row_state(&engine.parser, row)
                new = True
                hidden = lexer_tail(&engine.lexer, emitted, &tail)
                if hidden:
                    after = row
                    target = state
                    if engine_reread(
                        engine, &after, &target, &fresh, tail, hidden, &inner
                    ):
                        at -= hidden
                begin[0] = at
        step.row = row
        step.state = state | (FRESH if new else 0)

    cdef void _replay_scoped(self, Text* text, Step* step, size_t at, size_t* begin):
        """The same where scopes have a say in what a lexeme is."""
        cdef Engine* engine = &self.grammar.engine
        cdef Place* place = &engine.scopes.places[0]
        cdef Words* ended = &engine.scopes.ended
        cdef size_t i
        cdef bint early
        place_load(
            engine, place, step.row, step.state & STATE, step.state & FRESH != 0, step.context
        )
        engine.scopes.traced = place
        while at < text.size and not engine.fault.code:
            early = lexer_step(&engine.lexer, place.state, text.bytes[at]) == DEAD
            ended.size = 0
            if not place_step(engine, place, text.bytes[at]):
                break
            at += 1
            for i in range(ended.size):
                text_lexeme(text, engine, ended.at[i], begin[0], at - 1 if early else at)
                begin[0] = at - 1 if early else at
                early = False
        engine.scopes.traced = NULL
        step.state = place.state | (FRESH if place.fresh else 0)

    def captures(self):
        """What the rules that have a name for it have captured so far: :class:`llgx.Capture`.

        In the order in which their derivations ended, each as often as it occurs. Of a text that
        is not complete, those of the rules that have ended; while a lexeme may still go on its rule
        has not. Which derivation counts where there are several: see ``llgx/_captures.pyx``.

        Computed from the tokens when asked for: a chart parse, some microseconds per lexeme.
        Raises :class:`LimitError`.
        """
        cdef Text text
        cdef Words pending
        cdef bint complete = False
        if self.grammar.capture_names is None:
            return []
        memset(&text, 0, sizeof(Text))
        memset(&pending, 0, sizeof(Words))
        try:
            self.grammar.acquire()
            self._replay(&text, &pending, &complete)
            self.grammar.release()
            return captures_of(
                self.grammar, &text, &pending if pending.size else NULL, complete
            )
        finally:
            text_free(&text)
            words_free(&pending)


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


cdef list _as_tokens(tokens):
    if isinstance(tokens, str) or not hasattr(tokens, "__iter__"):
        raise TypeError(f"tokens are a list of integers, not {type(tokens).__name__}")
    return [_as_token(token) for token in tokens]


cdef Py_ssize_t _as_row(row) except? -7:
    """A row number as a C integer; one that does not fit is as wrong as any out of range."""
    cdef int overflow = 0
    cdef int64_t number
    if type(row) is not int:
        if not hasattr(row, "__index__"):
            raise TypeError(f"a row is an integer, not {type(row).__name__}")
        row = row.__index__()
    number = PyLong_AsLongLongAndOverflow(row, &overflow)
    return -1 if overflow or number < 0 else <Py_ssize_t>number
