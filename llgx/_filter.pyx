# cython: language_level=3, boundscheck=False, wraparound=False
# cython: initializedcheck=False, cdivision=True
"""What scopes take out of a mask.

The mask of (row, lexer state) is shared by all scopes; this module removes the few tokens that one
scope refuses. A token can be refused for three reasons only, and each has its own way to be found:

* It goes on with the lexeme in progress (or, in a tracked scope, with the text of the scope) as a
  sibling does: the siblings' texts and the token trie are walked together.
* It holds a whole distinct lexeme (or the beginning of a tracked scope). Few tokens do. Which,
  depends on (row, lexer state) alone and is kept as a list of *suspects* with the texts of those
  lexemes; only where a sibling is among them are they looked at, byte by byte. The list is made of
  those tokens of a mask that have the first and last byte of such a lexeme (``_spans``). Where no
  scope around has a text that any token holds, which is nearly everywhere, none of this is asked:
  a token can only repeat a lexeme that ends in it, and few tokens of the vocabulary could.
* It ends or begins a lexeme where the scope has used up what a terminal can match, or what it can
  match after some beginning. Only scopes that are *tight* can do that, and only in grammars in
  which what is left of a distinct terminal may be finite. There every token that does not stay
  inside one lexeme is looked at.

What was removed is kept per (row, state, context) where tokens were looked at.

Invariant: a token that is not looked at is one that :func:`place_step` allows.

Cost: a map lookup where nothing is in the way, some 100 ns beside a few siblings; a thorough
filter costs about 0.1 µs for each token that ends the lexeme in progress.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from llgx._earley cimport parser_scan, row_state, row_t
from llgx._engine cimport (
    FRAME_HELD, FRAME_INSIDE, FRAME_TIGHT, FRAME_UNIQUE, ROLE_CLOSE, ROLE_DISTINCT, ROLE_LASTING,
    ROLE_OPEN, ROLE_PLAIN, ROLE_SKIP, Base, Engine, Inside, Place, Scopes, child_place, is_leaf,
)
from llgx._inside cimport inside_of
from llgx._lexer cimport DEAD, NO_SET, lexer_saturate, lexer_step, set_t, state_t
from llgx._memory cimport (
    FAULT_MEMORY, NONE, Map, Words, array_grown, fault_set, interner_free, interner_put,
    lowest_bit, map_clear, map_free, map_get, map_put, words_free, words_push,
)
from llgx._plan cimport plan_state
from llgx._scopes cimport (
    frame_words, place_copy, place_is_tracked, place_load, place_siblings, place_step, place_store,
    place_tightens, scopes_ask, set_roles, state_roles,
)
from llgx._mask cimport engine_step
from llgx._spans cimport spans_latest, spans_text
from llgx._texts cimport (
    NO_TEXTS, TextCursor, texts_after, texts_branches, texts_final, texts_insert, texts_meet,
    texts_step, texts_t,
)
from llgx._trie cimport Spans, Trie, child_byte, child_node, tokens_end

cdef enum:
    WALK_WORDS = 4


cdef void scopes_forget(Scopes* scopes) noexcept nogil:
    """Drop all lists."""
    cdef uint32_t none = 0
    interner_free(&scopes.lists)
    interner_put(&scopes.lists, &none, 0)
    map_clear(&scopes.suspects)
    map_clear(&scopes.leading)
    map_clear(&scopes.removals)


# --------------------------------------------------------------------------- single tokens

cdef inline uint64_t _key(row_t row, state_t state, bint fresh) noexcept nogil:
    return (<uint64_t>row << 32) | (<uint64_t>fresh << 31) | state

cdef inline void _remove(Engine* engine, uint64_t* bits, uint32_t token) noexcept nogil:
    if (bits[token >> 6] >> (token & 63)) & 1:
        bits[token >> 6] &= ~(<uint64_t>1 << (token & 63))
        if words_push(&engine.scopes.removed, token) < 0:
            fault_set(&engine.fault, FAULT_MEMORY)


cdef void _remove_below(Engine* engine, uint64_t* bits, uint32_t node) noexcept nogil:
    """Remove the tokens of a node of the main trie and below."""
    cdef Trie* trie = &engine.pool.trie
    cdef uint32_t i
    for i in range(trie.nodes[node].tokens_at, tokens_end(trie, node)):
        _remove(engine, bits, trie.tokens[i])


cdef void _look_at(
    Engine* engine, const Place* place, uint64_t* bits, uint32_t token
) noexcept nogil:
    """Remove a token if it is refused."""
    cdef Place* after = &engine.scopes.places[1]
    cdef uint64_t i
    if not (bits[token >> 6] >> (token & 63)) & 1:
        return
    place_copy(engine, after, place)
    for i in range(engine.pool.text_at[token], engine.pool.text_at[token + 1]):
        if not place_step(engine, after, engine.pool.text[i]):
            _remove(engine, bits, token)
            return


cdef void _look_below(
    Engine* engine, const Place* place, uint64_t* bits, uint32_t node
) noexcept nogil:
    cdef Trie* trie = &engine.pool.trie
    cdef uint32_t i
    for i in range(trie.nodes[node].tokens_at, tokens_end(trie, node)):
        if engine.fault.code:
            return
        _look_at(engine, place, bits, trie.tokens[i])


# --------------------------------------------------------------------------- along siblings

cdef int _ends_as_sibling(Engine* engine, set_t emitted) noexcept nogil:
    """What becomes of a lexeme that a sibling has too, where ``emitted`` would be emitted: 0 is
    goes through, 1 it has to be looked at, 2 it is refused."""
    cdef uint32_t roles
    if emitted == NO_SET or engine.lexer.set_is_skip[emitted]:
        return 0
    roles = set_roles(engine, emitted)
    if not roles & ROLE_DISTINCT:
        return 0
    return 1 if roles & ROLE_PLAIN else 2


cdef void _walk_lexeme(
    Engine* engine, const Place* place, TextCursor cursor, uint64_t* bits
) noexcept nogil:
    """Follow the token trie along those siblings that begin as the lexeme in progress does."""
    cdef Scopes* scopes = engine.scopes
    cdef Trie* trie = &engine.pool.trie
    cdef Words todo
    cdef uint8_t bytes[256]
    cdef uint32_t node, i, count, at, child
    cdef int verdict
    cdef state_t state, target
    cdef TextCursor after
    memset(&todo, 0, sizeof(Words))
    node = 0
    state = place.state
    while not engine.fault.code:
        if texts_final(&scopes.texts, &cursor):
            verdict = _ends_as_sibling(engine, engine.lexer.states[state].accept)
            if verdict:
                for i in range(trie.nodes[node].children, trie.nodes[node + 1].children):
                    if lexer_step(&engine.lexer, state, child_byte(trie, i)) != DEAD:
                        continue
                    if verdict == 2:
                        _remove_below(engine, bits, child_node(trie, i))
                    else:
                        _look_below(engine, place, bits, child_node(trie, i))
        if scopes.finite and node:
            for i in range(trie.nodes[node].tokens_at, trie.nodes[node + 1].tokens_at):
                _look_at(engine, place, bits, trie.tokens[i])
        count = texts_branches(&scopes.texts, &cursor, bytes)
        for i in range(count):
            at = child_place(trie, node, bytes[i])
            if at == NONE:
                continue
            child = child_node(trie, at)
            target = lexer_step(&engine.lexer, state, bytes[i])
            if target == DEAD:
                continue
            after = cursor
            texts_step(&scopes.texts, &after, bytes[i])
            if engine.lexer.states[target].eager != NO_SET:
                if texts_final(&scopes.texts, &after):
                    verdict = _ends_as_sibling(engine, engine.lexer.states[target].eager)
                    if verdict == 2:
                        _remove_below(engine, bits, child)
                    elif verdict == 1:
                        _look_below(engine, place, bits, child)
                continue
            if words_push(&todo, child) < 0 or words_push(&todo, target) < 0 \
                    or words_push(&todo, after.node) < 0 or words_push(&todo, after.offset) < 0:
                fault_set(&engine.fault, FAULT_MEMORY)
        if todo.size == 0:
            break
        todo.size -= WALK_WORDS
        node = todo.at[todo.size]
        state = todo.at[todo.size + 1]
        cursor.node = todo.at[todo.size + 2]
        cursor.offset = todo.at[todo.size + 3]
    words_free(&todo)


cdef enum Verdict:       # what becomes of a place by a byte; else it is the number of a place
    VERDICT_UNKNOWN = NONE
    VERDICT_REFUSED = NONE - 1
    VERDICT_FREE = NONE - 2  # nothing is refused any more

cdef struct Tracked:     # a place in a walk along siblings
    row_t row
    state_t state
    bint fresh
    uint32_t context
    uint32_t siblings[8] # the bytes with which a sibling goes on
    uint32_t verdicts[256]

cdef struct Walk:
    Tracked* places
    uint32_t count
    uint32_t room
    Map index            # (row << 32 | state, context) -> place
    uint32_t loaded      # the place that is in Scopes.places[5]


cdef uint32_t _tracked(Engine* engine, Walk* walk, Place* place) noexcept nogil:
    """The number of a place, new or known; VERDICT_FREE with a fault set when memory is out."""
    cdef uint32_t context = place_store(engine, place)
    cdef uint64_t key = _key(place.row, place.state, place.fresh)
    cdef uint32_t known = map_get(&walk.index, key, context)
    cdef Tracked* grown
    if known != NONE:
        return known
    grown = <Tracked*>array_grown(walk.places, &walk.room, walk.count, sizeof(Tracked))
    if grown != NULL:
        walk.places = grown
    if grown == NULL or map_put(&walk.index, key, context, walk.count) < 0:
        fault_set(&engine.fault, FAULT_MEMORY)
        return VERDICT_FREE
    grown = &walk.places[walk.count]
    grown.row = place.row
    grown.state = place.state
    grown.fresh = place.fresh
    grown.context = context
    place_siblings(engine, place, grown.siblings)
    memset(grown.verdicts, 0xFF, sizeof(grown.verdicts))
    walk.count += 1
    return walk.count - 1


cdef uint32_t _verdict(Engine* engine, Walk* walk, uint32_t at, uint8_t byte) noexcept nogil:
    """What becomes of a place by a byte, asked once."""
    cdef Scopes* scopes = engine.scopes
    cdef Tracked* tracked = &walk.places[at]
    cdef Place* place = &scopes.places[5]
    cdef Place* after = &scopes.places[1]
    cdef uint32_t verdict = VERDICT_FREE
    cdef state_t target = lexer_step(&engine.lexer, tracked.state, byte)
    if target == DEAD:
        if tracked.fresh or engine.lexer.states[tracked.state].accept == NO_SET:
            return VERDICT_FREE  # not in the mask
    elif not scopes.finite and engine.lexer.states[target].eager == NO_SET \
            and state_roles(engine, target) & (ROLE_PLAIN | ROLE_DISTINCT) \
            and not (tracked.siblings[byte >> 5] >> (byte & 31)) & 1:
        return VERDICT_FREE  # the text differs from those of all siblings
    if walk.loaded != at:
        place_load(engine, place, tracked.row, tracked.state, tracked.fresh, tracked.context)
        walk.loaded = at
    place_copy(engine, after, place)
    if not place_step(engine, after, byte):
        verdict = VERDICT_REFUSED
    elif place_is_tracked(engine, after):
        verdict = _tracked(engine, walk, after)
    return verdict


cdef void _walk_scope(Engine* engine, const Place* place, uint64_t* bits) noexcept nogil:
    """Follow the token trie for as long as the text of a tracked scope is that of a sibling.

    Most nodes on the way are white space, which leads to one place again and again.
    """
    cdef Trie* trie = &engine.pool.trie
    cdef Place* first = &engine.scopes.places[5]
    cdef Words todo
    cdef Walk walk
    cdef uint32_t node = 0, at, i, child, verdict
    cdef uint8_t byte
    memset(&todo, 0, sizeof(Words))
    memset(&walk, 0, sizeof(Walk))
    walk.loaded = NONE
    place_copy(engine, first, place)
    at = _tracked(engine, &walk, first)
    while not engine.fault.code:
        for i in range(trie.nodes[node].children, trie.nodes[node + 1].children):
            child = child_node(trie, i)
            byte = child_byte(trie, i)
            verdict = walk.places[at].verdicts[byte]
            if verdict == VERDICT_UNKNOWN:
                verdict = _verdict(engine, &walk, at, byte)
                if engine.fault.code:
                    break
                walk.places[at].verdicts[byte] = verdict
            if verdict == VERDICT_REFUSED:
                _remove_below(engine, bits, child)
            elif verdict != VERDICT_FREE and not is_leaf(trie, child) and (
                words_push(&todo, child) < 0 or words_push(&todo, verdict) < 0
            ):
                fault_set(&engine.fault, FAULT_MEMORY)
        if todo.size == 0:
            break
        todo.size -= 2
        node = todo.at[todo.size]
        at = todo.at[todo.size + 1]
    words_free(&todo)
    map_free(&walk.index)
    free(walk.places)


# --------------------------------------------------------------------------- suspects

cdef enum SuspectKind:
    REPEATED_ALONE = 0   # tokens that may hold two equal lexemes
    REPEATED = 1         # those that may repeat the lexeme in progress too
    ALL_SUSPECTS = 2

# A list of suspects: [scopes that close in a token at the most, texts of the distinct lexemes in
# them, number of tokens to be looked at in any case, number of those that open a scope, the tokens
# of either kind, those that hold a distinct lexeme].
cdef enum:
    LIST_HEAD = 4


cdef inline bint _may_be_used_up(Engine* engine, state_t state) noexcept nogil:
    """Whether a scope may have all texts that can be finished from here."""
    cdef uint32_t roles = state_roles(engine, state)
    return roles & ROLE_DISTINCT and not roles & (ROLE_PLAIN | ROLE_LASTING)


cdef struct Trial:       # what the beginning of a token does, scopes left aside
    row_t row
    state_t state
    uint32_t begin       # where the lexeme in progress begins in the token, NONE: before it
    uint32_t lexemes     # ended in it
    uint32_t closes      # scopes closed
    uint32_t opens       # scopes opened
    bint ended           # a distinct lexeme ended in it, or a scope of a unique one
    bint finished        # what ended in it may be what a scope opened later has to differ from
    bint repeats         # it may end or begin two equal items, or use up what may follow
    bint whole           # it holds a distinct lexeme


cdef void _try_byte(
    Engine* engine, Trial* trial, const uint8_t* text, uint32_t at, texts_t* texts
) noexcept nogil:
    """Read byte ``at`` of a token that the mask allows without its scopes, adding a whole distinct
    lexeme to ``texts``."""
    cdef Scopes* scopes = engine.scopes
    cdef uint32_t roles
    cdef int stage
    cdef state_t target = lexer_step(&engine.lexer, trial.state, text[at])
    cdef set_t emitted
    # Stage 0: the lexeme that ends before this byte; stage 1: one that ends with it.
    for stage in range(2):
        if stage == 0:
            if target != DEAD:
                continue
            emitted = engine.lexer.states[trial.state].accept
        else:
            emitted = engine.lexer.states[target].eager
            if emitted == NO_SET:
                continue
        trial.row = parser_scan(&engine.parser, trial.row, emitted)
        trial.lexemes += 1
        if not engine.lexer.set_is_skip[emitted]:
            roles = set_roles(engine, emitted)
            if roles & ROLE_DISTINCT:
                if trial.begin != NONE:
                    texts[0] = texts_insert(
                        &scopes.texts, texts[0], text + trial.begin, at + stage - trial.begin
                    )
                    if texts[0] == NONE:
                        texts[0] = NO_TEXTS
                        fault_set(&engine.fault, FAULT_MEMORY)
                    trial.whole = True
                    trial.repeats = trial.repeats or trial.ended
                trial.ended = True
                trial.finished = trial.finished or scopes.mixed
            if roles & ROLE_OPEN:
                trial.opens += 1
                trial.repeats = trial.repeats or (scopes.unique and trial.finished)
            elif roles & ROLE_CLOSE:
                trial.closes += 1
                trial.ended = trial.ended or scopes.unique  # its text is finished
                trial.finished = trial.finished or scopes.unique
        trial.begin = at + stage
        target = row_state(&engine.parser, trial.row)
        if stage == 0:
            target = lexer_step(&engine.lexer, target, text[at])
    trial.state = target
    if trial.ended and scopes.finite and _may_be_used_up(engine, target):
        trial.repeats = True


cdef inline void _note(Engine* engine, Words* words, uint32_t value) noexcept nogil:
    if words_push(words, value) < 0:
        fault_set(&engine.fault, FAULT_MEMORY)


cdef uint64_t* _outside(Engine* engine, state_t state, const uint64_t* bits) noexcept nogil:
    """Those tokens of a mask that may end the lexeme in progress, or more, as a bitset to be freed;
    NULL with a fault set."""
    cdef uint32_t index = inside_of(engine, 0, lexer_saturate(&engine.lexer, state))
    cdef const Inside* inside
    cdef const Base* base
    cdef const Trie* trie = &engine.pool.trie
    cdef uint64_t* left
    cdef uint32_t i, j, k, token, word
    if index == NONE:
        return NULL
    inside = &engine.insides[index]
    left = <uint64_t*>malloc((engine.words + 1) * sizeof(uint64_t))
    if left == NULL:
        fault_set(&engine.fault, FAULT_MEMORY)
        return NULL
    memcpy(left, bits, engine.words * sizeof(uint64_t))
    for i in range(inside.base_count):
        base = &inside.bases[i]
        if base.ending:
            continue
        for word in range(engine.words):
            left[word] &= ~base.bits[word]
    for i in range(inside.base_count):
        base = &inside.bases[i]
        for j in range(base.removed, base.removed_end, 2):
            for k in range(inside.removed[j], inside.removed[j + 1]):
                token = trie.tokens[k]
                left[token >> 6] |= bits[token >> 6] & (<uint64_t>1 << (token & 63))
    return left


cdef bint _leads_on(Engine* engine, row_t row) noexcept nogil:
    """Whether a token that ends a distinct lexeme, so that ``row`` is reached, may end where
    nothing may be left of what can come then; asked once a row. Scopes left aside."""
    cdef Scopes* scopes = engine.scopes
    cdef const Spans* spans = scopes.spans[2]
    cdef uint32_t known = map_get(&scopes.leading, 0, row)
    cdef const uint8_t* text
    cdef const uint8_t* before = NULL
    cdef uint32_t i, at, length, alive = 0, dead = NONE
    cdef Trial* trials
    if known != NONE:
        return known
    if spans.tails == NULL:
        return True
    trials = <Trial*>malloc((engine.pool.longest + 1) * sizeof(Trial))
    if trials == NULL:
        fault_set(&engine.fault, FAULT_MEMORY)
        return True
    trials[0].row = row
    trials[0].state = row_state(&engine.parser, row)
    trials[0].whole = True  # at the beginning of a lexeme
    known = trials[0].state != DEAD and _may_be_used_up(engine, trials[0].state)
    for i in range(spans.tail_count):
        if known or engine.fault.code:
            break
        text = spans_text(spans.tails, spans.tail_count, i, &length)
        at = 0
        while at < alive and at < length and text[at] == before[at]:
            at += 1
        if at == alive and dead != NONE and at < length and text[at] == dead:
            before = text
            continue  # as far as the one before it
        dead = NONE
        while at < length:
            trials[at + 1] = trials[at]
            if not engine_step(
                engine, &trials[at + 1].row, &trials[at + 1].state, &trials[at + 1].whole, text[at]
            ):
                dead = text[at]
                break
            at += 1
            if _may_be_used_up(engine, trials[at].state):
                known = True
                break
        alive = at
        before = text
    free(trials)
    if engine.fault.code == 0:
        if map_put(&scopes.leading, 0, row, known) < 0:
            fault_set(&engine.fault, FAULT_MEMORY)
        engine.mask_bytes += 48
    return known


cdef struct Trials:      # of the tokens of a list, one after the other
    const Spans* spans
    row_t row
    state_t state
    bint fresh
    bint whole_only      # tokens are of interest only for a whole distinct lexeme in them
    bint ending          # only if they end one, or a scope, and lead on to where the next may be
    uint32_t closes      # the most scopes that one of them closes
    texts_t texts        # whole distinct lexemes in them
    Trial* trials        # by bytes read of the token
    const uint8_t* before  # the token before it
    uint32_t known       # bytes of that which were read


cdef void _try_token(
    Engine* engine, Trials* of, uint32_t token, const uint8_t* text, uint32_t length
) noexcept nogil:
    """Sort a token that a mask allows into what was found. It goes on from what it shares with the
    one before."""
    cdef Scopes* scopes = engine.scopes
    cdef Trial* trial
    cdef uint32_t at = 0
    cdef int64_t latest = spans_latest(of.spans, text, length) if of.whole_only else length
    while at < of.known and at < length and text[at] == of.before[at]:
        at += 1
    while at < length:
        trial = &of.trials[at]
        if not trial.whole and trial.begin != NONE and (trial.begin or not of.fresh):
            # The first lexeme has ended: the rest has to hold a whole one, or to lead on.
            if trial.begin > latest:
                break
            if of.ending and trial.begin and trial.lexemes == 1 \
                    and not _leads_on(engine, trial.row):
                break
        of.trials[at + 1] = of.trials[at]
        _try_byte(engine, &of.trials[at + 1], text, at, &of.texts)
        at += 1
    of.before = text
    of.known = at
    if at < length or engine.fault.code:
        return
    trial = &of.trials[length]
    if trial.repeats or (scopes.unique and trial.opens > 1):
        if not of.ending or not trial.whole:
            _note(engine, &scopes.found, token)
    else:
        if scopes.unique and trial.opens:
            _note(engine, &scopes.opening, token)
        if trial.whole and not of.ending:
            _note(engine, &scopes.texts_found, token)
    if trial.closes > of.closes:
        of.closes = trial.closes


cdef void _try_list(
    Engine* engine, Trials* of, const uint32_t* tokens, uint32_t count, const uint64_t* bits
) noexcept nogil:
    """Try those tokens of a list that a mask allows."""
    cdef const uint8_t* text
    cdef uint32_t i, length
    for i in range(count):
        if not (bits[tokens[i] >> 6] >> (tokens[i] & 63)) & 1:
            continue
        text = spans_text(tokens + count, count, i, &length)
        _try_token(engine, of, tokens[i], text, length)
        if engine.fault.code:
            return


cdef void _try_all(Engine* engine, Trials* of, const uint64_t* bits) noexcept nogil:
    """Try those tokens of ``of.spans`` that a mask allows."""
    cdef uint64_t* outside
    cdef uint64_t left, at
    cdef uint32_t i, token
    if of.spans.tokens != NULL:
        _try_list(engine, of, of.spans.tokens, of.spans.count, bits)
        return
    outside = _outside(engine, of.state, bits)
    if outside == NULL:
        return
    for i in range(engine.words):
        left = outside[i] & of.spans.bits[i]
        while left and not engine.fault.code:
            token = 64 * i + lowest_bit(left)
            left &= left - 1
            at = engine.pool.text_at[token]
            _try_token(
                engine, of, token, engine.pool.text + at,
                <uint32_t>(engine.pool.text_at[token + 1] - at)
            )
    free(outside)


cdef void _find_suspects(
    Engine* engine, Trials* of, uint32_t kind, const uint64_t* bits
) noexcept nogil:
    """Sort the tokens of a mask into what was found."""
    cdef Scopes* scopes = engine.scopes
    of.spans = scopes.spans[0]
    of.whole_only = True
    if kind != ALL_SUSPECTS:
        _try_list(engine, of, of.spans.repeats[kind], of.spans.repeat_counts[kind], bits)
        return
    if not scopes.finite or not scopes.unique:
        _try_all(engine, of, bits)
        if scopes.finite and not of.fresh and state_roles(engine, of.state) & ROLE_DISTINCT:
            of.known = 0
            of.spans = scopes.spans[2]
            of.whole_only = False
            of.ending = True
            _try_all(engine, of, bits)
    else:
        # What may end a distinct lexeme, or a scope, may hold one too.
        of.spans = scopes.spans[2]
        of.whole_only = False
        _try_all(engine, of, bits)
    if scopes.unique and engine.fault.code == 0:
        of.known = 0
        of.spans = scopes.spans[1]
        of.whole_only = False
        of.ending = False
        _try_all(engine, of, bits)


cdef uint32_t _make_suspects(
    Engine* engine, row_t row, state_t state, bint fresh, uint32_t kind, const uint64_t* bits
) noexcept nogil:
    """The suspects among the tokens of a mask; their list, 0 for none."""
    cdef Scopes* scopes = engine.scopes
    cdef uint32_t i, index, openings = 0
    cdef Trials of
    memset(&of, 0, sizeof(Trials))
    scopes.found.size = 0        # in any case, then those that open a scope
    scopes.texts_found.size = 0  # the others
    scopes.opening.size = 0
    of.row = row
    of.state = state
    of.fresh = fresh
    of.texts = NO_TEXTS
    of.trials = <Trial*>malloc((engine.pool.longest + 1) * sizeof(Trial))
    if of.trials == NULL:
        fault_set(&engine.fault, FAULT_MEMORY)
        return 0
    memset(&of.trials[0], 0, sizeof(Trial))
    of.trials[0].row = row
    of.trials[0].state = state
    of.trials[0].begin = 0 if fresh else NONE
    _find_suspects(engine, &of, kind, bits)
    free(of.trials)
    if engine.fault.code:
        return 0
    openings = <uint32_t>scopes.opening.size
    if scopes.found.size + openings + scopes.texts_found.size == 0:
        return 0
    scopes.words.size = 0
    _note(engine, &scopes.words, of.closes)
    _note(engine, &scopes.words, of.texts)
    _note(engine, &scopes.words, <uint32_t>scopes.found.size)
    _note(engine, &scopes.words, openings)
    for i in range(<uint32_t>scopes.found.size):
        _note(engine, &scopes.words, scopes.found.at[i])
    for i in range(openings):
        _note(engine, &scopes.words, scopes.opening.at[i])
    for i in range(<uint32_t>scopes.texts_found.size):
        _note(engine, &scopes.words, scopes.texts_found.at[i])
    if engine.fault.code:
        return 0
    index = interner_put(&scopes.lists, scopes.words.at, <uint32_t>scopes.words.size)
    if index == NONE:
        fault_set(&engine.fault, FAULT_MEMORY)
        return 0
    engine.mask_bytes += 4 * scopes.words.size + 16
    return index


cdef enum Need:          # what of a list of suspects has to be looked at
    NEED_ANY_CASE = 1
    NEED_OPENINGS = 2
    NEED_WHOLE = 4


cdef uint32_t _suspects_needed(
    Engine* engine, const Place* place, const uint32_t* words
) noexcept nogil:
    cdef Scopes* scopes = engine.scopes
    cdef const uint32_t* frame = frame_words(scopes, place.frame)
    cdef uint32_t i, need = NEED_ANY_CASE if words[2] else 0
    cdef int meets
    for i in range(words[0] + 1):
        if frame[1] != NO_TEXTS:
            if frame[2] & FRAME_UNIQUE and words[3]:
                need |= NEED_OPENINGS
            meets = texts_meet(&scopes.texts, words[1], frame[1])
            if meets < 0:
                fault_set(&engine.fault, FAULT_MEMORY)
            elif meets:
                need |= NEED_WHOLE
        if frame[0] == NONE:
            break
        frame = frame_words(scopes, frame[0])
    return need


cdef uint32_t _suspect_kind(Engine* engine, const Place* place) noexcept nogil:
    """Which tokens a scope may refuse for what they hold."""
    cdef Scopes* scopes = engine.scopes
    cdef set_t emitted
    cdef TextCursor cursor
    if not scopes.quick or frame_words(scopes, place.frame)[2] & FRAME_HELD:
        return ALL_SUSPECTS
    if place.fresh or not state_roles(engine, place.state) & ROLE_DISTINCT:
        return REPEATED_ALONE
    emitted = engine.lexer.states[place.state].accept
    if emitted != NO_SET and set_roles(engine, emitted) & ROLE_DISTINCT:
        return ALL_SUSPECTS  # the lexeme in progress may end before the token
    cursor = texts_after(
        &scopes.spans[0].held, scopes.spans[0].held_texts, place.text + place.pending,
        place.size - place.pending
    )
    return REPEATED_ALONE if cursor.node == NONE else REPEATED


cdef bint _some_of(
    const uint32_t* tokens, uint32_t count, const uint64_t* bits
) noexcept nogil:
    """Whether a mask has some token of a list."""
    cdef uint32_t i
    for i in range(count):
        if (bits[tokens[i] >> 6] >> (tokens[i] & 63)) & 1:
            return True
    return False


cdef uint32_t _filter_suspects(Engine* engine, const Place* place, uint64_t* bits) noexcept nogil:
    """Remove those suspects that are refused. How many tokens were looked at."""
    cdef Scopes* scopes = engine.scopes
    cdef uint64_t key = _key(place.row, place.state, place.fresh)
    cdef uint32_t kind = _suspect_kind(engine, place)
    cdef uint32_t known = map_get(&scopes.suspects, kind, key)
    cdef uint64_t same
    cdef state_t state
    cdef const uint32_t* words
    cdef uint32_t i, length, need, whole, looked = 0
    if known == NONE and kind != ALL_SUSPECTS and not _some_of(
        scopes.spans[0].repeats[kind], scopes.spans[0].repeat_counts[kind], bits
    ):
        known = 0
        if map_put(&scopes.suspects, kind, key, known) < 0:
            fault_set(&engine.fault, FAULT_MEMORY)
            return 0
        engine.mask_bytes += 48
    if known == NONE:
        # A state whose mask is its twin's ends lexemes in every token as the twin does.
        state = plan_state(engine, place.state)
        same = _key(place.row, state, place.fresh)
        if same != key:
            known = map_get(&scopes.suspects, kind, same)
        if known == NONE:
            known = _make_suspects(engine, place.row, state, place.fresh, kind, bits)
        if engine.fault.code:
            return 0
        if map_put(&scopes.suspects, kind, key, known) < 0 \
                or map_put(&scopes.suspects, kind, same, known) < 0:
            fault_set(&engine.fault, FAULT_MEMORY)
            return 0
        engine.mask_bytes += 96
    if known == 0:
        return 0
    words = scopes.lists.entries[known].words
    length = scopes.lists.entries[known].length
    need = _suspects_needed(engine, place, words)
    whole = LIST_HEAD + words[2] + words[3]
    for i in range(LIST_HEAD, length):
        if need & (
            NEED_WHOLE if i >= whole
            else (NEED_ANY_CASE if i < LIST_HEAD + words[2] else NEED_OPENINGS)
        ):
            _look_at(engine, place, bits, words[i])
            looked += 1
    return looked


# --------------------------------------------------------------------------- all together

cdef void _filter_all(
    Engine* engine, const Place* place, const uint64_t* within, uint64_t* bits
) noexcept nogil:
    """Look at every token but those that stay inside the lexeme in progress for certain, and of
    them only at those in ``within``, if that is not NULL."""
    cdef uint32_t index = inside_of(engine, 0, lexer_saturate(&engine.lexer, place.state))
    cdef Inside inside
    cdef Trie* trie = &engine.pool.trie
    cdef uint32_t word, token, i, j, place_of
    cdef uint64_t left
    cdef const Base* base
    cdef bint distinct = state_roles(engine, place.state) & ROLE_DISTINCT
    if index == NONE:
        return
    inside = engine.insides[index]
    for word in range(engine.words):
        left = bits[word] if within == NULL else bits[word] & within[word]
        for i in range(inside.base_count):
            # A counted loop goes on with the same lexeme too, but a name by counted characters
            # may come to where none is left.
            if inside.bases[i].endless or not (distinct or inside.bases[i].ending):
                left &= ~inside.bases[i].bits[word]
        while left and not engine.fault.code:
            token = 64 * word + lowest_bit(left)
            left &= left - 1
            _look_at(engine, place, bits, token)
    for i in range(inside.base_count):
        base = &inside.bases[i]
        for j in range(base.removed, base.removed_end, 2):
            for place_of in range(inside.removed[j], inside.removed[j + 1]):
                if engine.fault.code:
                    return
                token = trie.tokens[place_of]
                if within == NULL or (within[token >> 6] >> (token & 63)) & 1:
                    _look_at(engine, place, bits, token)


cdef void _filter_tight(
    Engine* engine, const Place* place, bint tightens, uint64_t* bits
) noexcept nogil:
    """Look at the tokens that a tight scope may refuse, apart from those that go on with the lexeme
    in progress as a sibling does. ``tightens``: the scope is tight once that has ended."""
    cdef Scopes* scopes = engine.scopes
    cdef uint32_t roles = state_roles(engine, place.state)
    cdef const uint64_t* within = NULL
    cdef set_t emitted = engine.lexer.states[place.state].accept
    if not tightens and not frame_words(scopes, place.frame)[2] & FRAME_TIGHT:
        # One around it is. Such tokens close the innermost one.
        _filter_suspects(engine, place, bits)
        if place.fresh or not roles & ROLE_CLOSE:
            within = scopes.spans[3].bits
    elif not place.fresh and not roles & (ROLE_PLAIN | ROLE_SKIP) and emitted == NO_SET:
        within = scopes.spans[2].bits  # nothing but a distinct lexeme can end
    if not engine.fault.code:
        _filter_all(engine, place, within, bits)


cdef bint _is_tight(Engine* engine, uint32_t frame) noexcept nogil:
    """Whether this scope or one around it is tight."""
    cdef const uint32_t* words
    if not engine.scopes.finite:
        return False
    while frame != NONE:
        words = frame_words(engine.scopes, frame)
        if words[2] & FRAME_TIGHT:
            return True
        frame = words[0]
    return False


cdef bint scopes_are_idle(
    Engine* engine, row_t row, state_t state, bint fresh, uint32_t context
) noexcept nogil:
    """Whether it is known that nothing is to be taken out of the mask of (row, state)."""
    cdef Scopes* scopes = engine.scopes
    cdef const uint32_t* words = scopes.contexts.entries[context].words
    cdef Place* place
    cdef uint64_t key = _key(row, state, fresh)
    cdef uint32_t kind, known
    cdef TextCursor cursor
    cdef uint32_t flags = frame_words(scopes, words[0])[2]
    if scopes.spans[0] == NULL or flags & FRAME_INSIDE or _is_tight(engine, words[0]):
        return False
    if words[2] == 0:  # no lexeme is in progress that a scope has to do with
        kind = ALL_SUSPECTS if flags & FRAME_HELD or not scopes.quick else REPEATED_ALONE
        known = map_get(&scopes.suspects, kind, key)
        if known == 0 or (kind != ALL_SUSPECTS and scopes.spans[0].repeat_counts[kind] == 0):
            return True
        if known == NONE:
            return False
    place = &scopes.places[0]
    place_load(engine, place, row, state, fresh, context)
    if engine.fault.code or place_tightens(engine, place):
        return False
    kind = _suspect_kind(engine, place)
    if kind == ALL_SUSPECTS or scopes.spans[0].repeat_counts[kind]:
        known = map_get(&scopes.suspects, kind, key)
        if known == NONE or (
            known and _suspects_needed(engine, place, scopes.lists.entries[known].words)
        ):
            return False
    cursor = texts_after(
        &scopes.texts, frame_words(scopes, place.frame)[1], place.text, place.size
    )
    return fresh or cursor.node == NONE


cdef bint _remove_again(
    Engine* engine, uint64_t key, uint32_t context, uint64_t* bits
) noexcept nogil:
    """Take out what was taken out of this mask before; False if it is not known."""
    cdef Scopes* scopes = engine.scopes
    cdef uint32_t i, known = map_get(&scopes.removals, key, context)
    cdef const uint32_t* words
    if known == NONE:
        return False
    words = scopes.lists.entries[known].words
    for i in range(scopes.lists.entries[known].length):
        bits[words[i] >> 6] &= ~(<uint64_t>1 << (words[i] & 63))
    return True


cdef int scopes_filter(
    Engine* engine, row_t row, state_t state, bint fresh, uint32_t context, uint64_t* bits
) noexcept nogil:
    """Take out of the mask of (row, state) what is refused in a context.

    -1 with a fault set when that fails.
    """
    cdef Scopes* scopes = engine.scopes
    cdef Place* place = &scopes.places[0]
    cdef uint64_t key = _key(row, state, fresh)
    cdef uint32_t known, looked = 0
    cdef TextCursor cursor
    cdef bint tracked = False, tightens = False
    cdef bint tight = _is_tight(engine, scopes.contexts.entries[context].words[0])
    if scopes.spans[0] == NULL and not scopes_ask(engine):
        return -1
    if tight and _remove_again(engine, key, context, bits):
        return 0
    place_load(engine, place, row, state, fresh, context)
    tracked = place_is_tracked(engine, place)
    # A token that holds no distinct lexeme may end the one in progress, the last of a few.
    tightens = place_tightens(engine, place)
    if not tight and (tracked or tightens or scopes.removals.count) \
            and _remove_again(engine, key, context, bits):
        return 0
    tight = tight or tightens
    scopes.removed.size = 0
    if not tight:
        looked = _filter_suspects(engine, place, bits)
    elif not engine.fault.code:
        _filter_tight(engine, place, tightens, bits)
    if not fresh and not engine.fault.code and state_roles(engine, state) & ROLE_DISTINCT:
        cursor = texts_after(
            &scopes.texts, frame_words(scopes, place.frame)[1], place.text + place.pending,
            place.size - place.pending
        )
        if cursor.node != NONE:
            _walk_lexeme(engine, place, cursor, bits)
    if not engine.fault.code and tracked:
        _walk_scope(engine, place, bits)
    if (tight or tracked or looked) and not engine.fault.code:
        _note(engine, &scopes.removed, 0)  # there may have been no room yet
        scopes.removed.size -= 1
        known = interner_put(&scopes.lists, scopes.removed.at, <uint32_t>scopes.removed.size)
        if known == NONE or map_put(&scopes.removals, key, context, known) < 0:
            fault_set(&engine.fault, FAULT_MEMORY)
        engine.mask_bytes += 4 * scopes.removed.size + 64
    return -1 if engine.fault.code else 0
