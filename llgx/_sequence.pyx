# cython: language_level=3, boundscheck=False, wraparound=False
# cython: initializedcheck=False, cdivision=True
"""What a token does to the state of a sequence, and which tokens it allows.

A :c:type:`Step` is the state after a token: (row, lexer state, at the beginning of a lexeme or
not). ``_core`` keeps a stack of them for Python, ``llama/_sampler`` one for llama.cpp; both call
the functions here, which need no GIL and make no Python object. A :c:type:`Program` is what they
need of a compiled grammar; whoever uses one keeps that grammar alive.

Invariant: an engine is touched between :c:func:`program_acquire` and :c:func:`program_release`
only. What goes wrong in between is the fault that the latter returns and clears; results are then
void, and no mask was written.

Cost: a step of the lexer per byte; a mask met before is copied (16 KB for 128k tokens).
"""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport realloc
from libc.string cimport memcpy, memset

from cpython.pythread cimport WAIT_LOCK, PyThread_acquire_lock, PyThread_release_lock

from llgx._budget cimport budget_deadline, budget_expire, budget_plain, budget_step
from llgx._earley cimport (
    FIRST_ROW, parser_scan, row_dead, row_state, row_t, row_takes_tokens,
)
from llgx._engine cimport WHOLE_MASK, Engine
from llgx._exact cimport FIRST_CONFIG, exact_accepts, exact_step
from llgx._exact_mask cimport exact_fill
from llgx._filter cimport scopes_are_idle, scopes_filter
from llgx._lexer cimport DEAD, NO_SET, lexer_saturate, lexer_set, set_t, state_t
from llgx._mask cimport engine_accepts, engine_copy, engine_fill, engine_step
from llgx._memory cimport (
    FAULT_MEMORY, FAULT_NONE, NONE, Fault, Words, fault_set, map_get, words_free, words_push,
)
from llgx._scopes cimport (
    NO_CONTEXT, scopes_accept, scopes_depth, scopes_end, scopes_go_on, scopes_read,
)
from llgx._tokens cimport tokens_allow, tokens_match, tokens_next, tokens_put, tokens_some


cdef void program_acquire(const Program* program) noexcept nogil:
    """Take the engine's lock, waiting for it."""
    PyThread_acquire_lock(program.lock, WAIT_LOCK)


cdef Fault program_release(const Program* program) noexcept nogil:
    """Give the lock back; what went wrong since it was taken."""
    cdef Fault fault = program.engine.fault
    program.engine.fault.code = FAULT_NONE
    PyThread_release_lock(program.lock)
    return fault


cdef void step_begin(const Program* program, Step* step) noexcept nogil:
    """The state before the first token. The lock is held, here and in all that follow."""
    step.row = FIRST_ROW
    step.state = row_state(&program.engine.parser, FIRST_ROW) | FRESH
    if program.engine.exact != NULL:
        step.row = FIRST_CONFIG
        step.state = FRESH
    step.token = NONE
    step.count = 0
    step.begin = 0
    step.context = NO_CONTEXT


cdef int step_advance(
    const Program* program, Step* step, int64_t token, uint64_t* scratch
) noexcept nogil:
    """Move ``step`` past a token. -1, or how many of its bytes fit if it is refused.

    ``scratch`` is as for :c:func:`step_mask`; what is in it is lost.
    """
    cdef Step before
    cdef int fitting
    cdef bint cut = False
    if program.engine.parser.limits == NULL:
        return _move(program, step, token, &cut)
    before = step[0]
    fitting = _move(program, step, token, &cut)
    if cut and fitting < 0:
        # Allowed only if every token cuts a derivation off.
        _fill(program, &before, _is_idle(program, &before), scratch)
        if not (scratch[token >> 6] >> (token & 63)) & 1:
            return 0
    return fitting


cdef int _move(const Program* program, Step* step, int64_t token, bint* cut) noexcept nogil:
    """The same for all tokens that lead on, those that cut a derivation off included."""
    cdef Engine* engine = program.engine
    cdef row_t row = step.row
    cdef state_t state = step.state & STATE
    cdef bint fresh = step.state & FRESH != 0
    cdef uint32_t begin = step.begin
    cdef uint64_t i
    cdef size_t length
    if token < 0 or token >= program.vocabulary_size:
        return 0
    if row == NONE or step.count >= program.max_tokens:
        if not program.is_eog[token]:
            return 0
        if row != NONE:
            step.state = DEAD if step_accepts(program, step) else CUT
        step.row = NONE
    elif program.is_eog[token] and step_eat(program, step, <uint32_t>token) != NO_SET:
        pass
    elif program.is_eog[token] and step_accepts(program, step):
        step.row = NONE
        step.state = DEAD
    elif engine.token_sets.ids != NULL and step_take(program, step, <uint32_t>token) != NO_SET:
        pass
    elif not program.is_text[token]:
        return 0
    else:
        if engine.exact != NULL:
            for i in range(program.text_at[token], program.text_at[token + 1]):
                row = exact_step(engine, row, program.text[i])
                if row == NONE:
                    return <int>(i - program.text_at[token])
        elif engine.scopes != NULL:
            length = program.text_at[token + 1] - program.text_at[token]
            i = scopes_read(
                engine, &row, &state, &fresh, &step.context, program.text + program.text_at[token],
                length, &begin, step.count if engine.parser.limits != NULL else NONE
            )
            if i < length:
                return <int>i
            step.begin = begin
        elif engine.parser.limits != NULL:
            for i in range(program.text_at[token], program.text_at[token + 1]):
                if not budget_step(
                    engine, &row, &state, &fresh, &begin, step.count, program.text[i]
                ):
                    return <int>(i - program.text_at[token])
            step.begin = begin
        else:
            for i in range(program.text_at[token], program.text_at[token + 1]):
                if not engine_step(engine, &row, &state, &fresh, program.text[i]):
                    return <int>(i - program.text_at[token])
        step.row = row
        step.state = state | (FRESH if fresh else 0)
    step.token = <uint32_t>token
    step.count += 1
    if engine.parser.limits != NULL and step.row != NONE:
        cut[0] = _expire(program, step)
    return -1


cdef bint _expire(const Program* program, Step* step) noexcept nogil:
    """End the derivations that have spent their tokens; whether one was cut off."""
    cdef row_t row = step.row
    cdef state_t state = step.state & STATE
    cdef bint fresh = step.state & FRESH != 0
    cdef bint cut = budget_expire(
        program.engine, &row, &state, &fresh, &step.context, step.begin, step.count
    )
    step.row = row
    step.state = state | (FRESH if fresh else 0)
    return cut


cdef row_t step_plain(const Program* program, const Step* step) noexcept nogil:
    """The row that masks are made of."""
    if program.engine.parser.limits == NULL:
        return step.row
    return budget_plain(program.engine, step.row)


cdef bint step_end_lexeme(const Program* program, Step* step, set_t emitted) noexcept nogil:
    """Move ``step`` past the end of the lexeme in progress, if there is one, as ``emitted``.

    NO_SET: as all that it matches. False, and ``step`` is spoilt, if it cannot end.
    """
    cdef Engine* engine = program.engine
    if step.state & FRESH:
        return True
    if emitted == NO_SET:
        emitted = engine.lexer.states[step.state].accept
    if emitted == NO_SET:
        return False
    if engine.scopes != NULL:
        if not scopes_end(
            engine, &step.row, step.state, &step.context, emitted,
            step.begin if engine.parser.limits != NULL else NONE
        ):
            return False
    else:
        engine.parser.clock = step.begin if engine.parser.limits != NULL else NONE
        step.row = parser_scan(&engine.parser, step.row, emitted)
        engine.parser.clock = NONE
    step.state = row_state(&engine.parser, step.row) | FRESH
    return True


cdef set_t step_eat(const Program* program, Step* step, uint32_t token) noexcept nogil:
    """Move ``step`` past an end-of-generation token that ends the lexeme in progress only, and
    as what; NO_SET, and nothing changed, if it does not."""
    cdef Engine* engine = program.engine
    cdef Step after = step[0]
    cdef uint32_t i, terminal
    cdef set_t emitted, kept = NO_SET
    if program.ends_with_eog == NULL or step.row == NONE or step.state & FRESH:
        return NO_SET
    emitted = engine.lexer.states[step.state].accept
    if emitted == NO_SET or engine.lexer.set_is_skip[emitted]:
        return NO_SET
    engine.parser.sorted.size = 0
    for i in range(engine.lexer.sets.entries[emitted].length):
        terminal = engine.lexer.sets.entries[emitted].words[i]
        if program.ends_with_eog[terminal]:
            if words_push(&engine.parser.sorted, terminal) < 0:
                fault_set(&engine.fault, FAULT_MEMORY)
                return NO_SET
    if engine.parser.sorted.size:
        kept = lexer_set(
            &engine.lexer, engine.parser.sorted.at, <uint32_t>engine.parser.sorted.size
        )
    if kept == NO_SET or not step_end_lexeme(program, &after, kept) \
            or row_dead(&engine.parser, after.row) or engine.fault.code:
        return NO_SET
    if engine.scopes != NULL and not scopes_go_on(
        engine, after.row, after.state & STATE, after.context
    ):
        return NO_SET
    after.token = token
    step[0] = after
    return kept


cdef row_t step_token_row(const Program* program, const Step* step) noexcept nogil:
    """The row whose terminals that are tokens may come at ``step``; NONE if there are none.

    A lexeme in progress that matches ends there.
    """
    cdef Engine* engine = program.engine
    cdef Step after = step[0]
    if step.row == NONE or engine.token_sets.ids == NULL \
            or not step_end_lexeme(program, &after, NO_SET):
        return NONE
    if engine.scopes != NULL:
        return after.row if _scoped_tokens(program, &after, NULL) else NONE
    return after.row if tokens_some(&engine.token_sets, &engine.parser, after.row) else NONE


cdef set_t step_take(const Program* program, Step* step, uint32_t token) noexcept nogil:
    """Move ``step`` past a token that is a terminal, and which ones; NO_SET, and nothing
    changed, if it is none."""
    cdef Engine* engine = program.engine
    cdef Step after = step[0]
    cdef set_t emitted
    if not step_end_lexeme(program, &after, NO_SET) \
            or not row_takes_tokens(&engine.parser, after.row):
        return NO_SET
    emitted = tokens_match(&engine.token_sets, &engine.parser, after.row, token)
    if emitted == NO_SET:
        return NO_SET
    if engine.parser.limits != NULL:
        engine.parser.clock = step.count
        if engine.scopes != NULL:
            engine.parser.depth = scopes_depth(engine.scopes, after.context)
    after.row = parser_scan(&engine.parser, after.row, emitted)
    engine.parser.clock = NONE
    engine.parser.depth = 0
    if engine.fault.code or row_dead(&engine.parser, after.row):
        return NO_SET
    after.state = row_state(&engine.parser, after.row) | FRESH
    if engine.scopes != NULL and not scopes_go_on(
        engine, after.row, after.state & STATE, after.context
    ):
        return NO_SET
    after.token = token
    step[0] = after
    return emitted


cdef bint step_accepts(const Program* program, const Step* step) noexcept nogil:
    """Whether the text is complete."""
    if step.row == NONE:
        return step.state != CUT
    if program.engine.exact != NULL:
        return exact_accepts(program.engine, step.row)
    if program.engine.scopes != NULL:
        return scopes_accept(
            program.engine, step_plain(program, step), step.state & STATE,
            step.state & FRESH != 0, step.context
        )
    return engine_accepts(
        program.engine, step_plain(program, step), step.state & STATE, step.state & FRESH != 0
    )


cdef void _add_eog(const Program* program, uint64_t* bits, bint accepts) noexcept nogil:
    """Allow end-of-generation tokens where the text may end."""
    cdef uint32_t i
    if accepts:
        for i in range(program.eog_count):
            bits[program.eog[i] >> 6] |= <uint64_t>1 << (program.eog[i] & 63)


cdef void _fill(
    const Program* program, const Step* step, bint idle, uint64_t* bits
) noexcept nogil:
    """Write the mask of ``step``, ``idle`` if scopes take nothing from it. ``bits`` may be half
    written on a fault."""
    cdef Engine* engine = program.engine
    cdef Step after = step[0]
    cdef row_t row = step.row, tokens
    cdef state_t state = step.state & STATE
    cdef uint32_t i
    cdef bint spent = row == NONE or step.count >= program.max_tokens
    cdef bint accepts = spent or step_accepts(program, step) \
        or step_eat(program, &after, 0) != NO_SET
    tokens = NONE if spent else step_token_row(program, step)
    if not spent and engine.exact != NULL:
        exact_fill(engine, row, bits)
        _add_eog(program, bits, accepts)
        return
    if spent:
        state = DEAD
    else:
        state = lexer_saturate(&engine.lexer, state)
        row = step_plain(program, step)
    if engine.fault.code:
        return
    engine_fill(engine, row, state, bits)
    if state != DEAD and engine.fault.code == 0 and not idle:
        scopes_filter(
            engine, row, step.state & STATE, step.state & FRESH != 0, step.context, bits
        )
    if tokens != NONE and engine.fault.code == 0:
        if engine.scopes == NULL:
            tokens_allow(&engine.token_sets, &engine.parser, tokens, bits)
        else:
            after = step[0]
            step_end_lexeme(program, &after, NO_SET)
            _scoped_tokens(program, &after, bits)
    _add_eog(program, bits, accepts)
    if engine.parser.limits != NULL and not spent and engine.fault.code == 0 and (
        program.has_single or budget_deadline(
            engine, step.row, step.state & FRESH != 0, step.begin
        ) <= step.count + 1
    ):
        _spare(program, step, bits)


cdef bint _is_idle(const Program* program, const Step* step) noexcept nogil:
    """Whether scopes take nothing from the mask of ``step``."""
    cdef Engine* engine = program.engine
    return engine.scopes == NULL or step.row == NONE or scopes_are_idle(
        engine, step.row, step.state & STATE, step.state & FRESH != 0, step.context
    )


cdef void _spare(const Program* program, const Step* step, uint64_t* bits) noexcept nogil:
    """Of the tokens in ``bits`` leave those that cut no derivation off, if there are any.

    What has one token left ends with it where it can. Lock held; steps over every token.
    """
    cdef Engine* engine = program.engine
    cdef Step after
    cdef Words cutting
    cdef uint32_t i, j
    cdef size_t allowed = 0
    cdef uint64_t left
    cdef bint cut
    memset(&cutting, 0, sizeof(Words))
    for i in range(engine.words):
        left = bits[i]
        for j in range(64):
            if not (left >> j) & 1:
                continue
            allowed += 1
            cut = False
            after = step[0]
            _move(program, &after, 64 * i + j, &cut)
            if cut and words_push(&cutting, 64 * i + j) < 0:
                fault_set(&engine.fault, FAULT_MEMORY)
    if cutting.size < allowed:
        for i in range(<uint32_t>cutting.size):
            bits[cutting.at[i] >> 6] &= ~(<uint64_t>1 << (cutting.at[i] & 63))
    words_free(&cutting)


cdef bint _scoped_tokens(const Program* program, const Step* step, uint64_t* bits) noexcept nogil:
    """Whether a token may come as a terminal at the beginning of a lexeme, where scopes have a
    say; all of them are added to ``bits``, unless that is NULL."""
    cdef Engine* engine = program.engine
    cdef uint32_t cursor = 0, terminal
    cdef set_t emitted
    cdef row_t row
    cdef bint found = False
    while not engine.fault.code:
        terminal = tokens_next(&engine.token_sets, &engine.parser, step.row, &cursor)
        if terminal == NONE:
            break
        emitted = lexer_set(&engine.lexer, &terminal, 1)
        row = parser_scan(&engine.parser, step.row, emitted)
        if row_dead(&engine.parser, row) or not scopes_go_on(
            engine, row, row_state(&engine.parser, row), step.context
        ):
            continue
        found = True
        if bits != NULL:
            tokens_put(&engine.token_sets, terminal, bits)
    return found


cdef bint _is_direct(const Program* program, const int32_t* out) noexcept nogil:
    """Whether masks may be written to ``out`` as words of 64 bits."""
    return mask_words(program) % 2 == 0 and <size_t>out % 8 == 0 \
        and program.engine.token_sets.ids == NULL and program.engine.parser.limits == NULL


cdef bint step_copy(const Program* program, const Step* step, int32_t* out) noexcept nogil:
    """Write the mask of ``step`` as :c:func:`step_mask` does, if it is little more than a copy;
    whether it was."""
    cdef Engine* engine = program.engine
    cdef Step after = step[0]
    cdef state_t state
    cdef uint32_t known
    cdef bint accepts
    if step.row == NONE or step.count >= program.max_tokens or engine.exact != NULL \
            or not _is_direct(program, out) or not _is_idle(program, step):
        return False
    state = lexer_saturate(&engine.lexer, step.state & STATE)
    if engine.fault.code or state == DEAD:
        return False
    known = map_get(&engine.mask_index, WHOLE_MASK, (<uint64_t>step.row << 32) | state)
    if known == NONE:
        return False
    accepts = step_accepts(program, step) or step_eat(program, &after, 0) != NO_SET
    if engine.fault.code:
        return False
    engine_copy(engine, known, True, <uint64_t*>out)
    _add_eog(program, <uint64_t*>out, accepts)
    return True


cdef void step_mask(
    const Program* program, const Step* step, int32_t* out, uint64_t* scratch
) noexcept nogil:
    """Write the mask of ``step`` to the ``ceil(V / 32)`` words of ``out``; nothing if that fails.

    ``scratch`` is a bitset of the engine's width and one word more.
    """
    cdef Engine* engine = program.engine
    cdef size_t words = mask_words(program)
    # What may fail must not be seen half done: then the mask is made in the scratch.
    cdef bint idle = _is_idle(program, step)
    cdef bint direct = idle and _is_direct(program, out)
    _fill(program, step, idle, <uint64_t*>out if direct else scratch)
    if not direct and engine.fault.code == 0:
        memcpy(out, scratch, words * 4)


cdef int steps_reserve(Step** steps, uint32_t* room, uint32_t count) noexcept nogil:
    """Make room for ``count`` steps. -1 if memory is out; nothing has changed then."""
    cdef uint32_t grown = room[0] if room[0] else 64
    cdef Step* moved
    if count <= room[0]:
        return 0
    while grown < count:
        grown *= 2
    moved = <Step*>realloc(steps[0], <size_t>grown * sizeof(Step))
    if moved == NULL:
        return -1
    steps[0] = moved
    room[0] = grown
    return 0
