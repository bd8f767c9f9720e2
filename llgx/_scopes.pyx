# cython: language_level=3, boundscheck=False, wraparound=False
# cython: initializedcheck=False, cdivision=True
"""Scopes: which lexemes a distinct one has to differ from.

Rows know nothing of scopes, so that rows, lexer states and masks stay shared. In grammars with
distinct terminals, and in no others, a matcher's entry also has a *context*, an interned (scope,
running text, lexeme in progress). A scope is a *frame*: the frame around it, the set of its
finished distinct lexemes (``_texts``), and flags. While bytes are read all this is unpacked into a
:c:type:`Place`.

What a scope does to the language, as :func:`place_step` has it:

* Where a lexeme ends, its distinct terminals drop out of the emitted set if the scope holds these
  bytes, and its unique closing terminals if the scope is *tracked* (directly in a unique scope)
  and the scope around it holds the text from its opening lexeme on. An empty set is a byte refused.
  The terminals that are left decide what becomes of the scope: it gets the bytes if one of them is
  distinct, then one opens if one of them opens, else one closes if one of them closes.
* A byte is refused after which no terminal has a match that the scope does not hold already.
* Within a tracked scope a byte is refused after which every way to go on leads along the texts of
  siblings to an end that is refused.

Invariant: a frame never changes; what a frame, chain or context was made from is its whole content.

Cost: a byte costs what it costs without scopes, and a few instructions; the end of a distinct
lexeme is a set insertion. Only inside tracked scopes, while the text is that of a sibling so far,
does a byte cost a search.
"""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy, memset

from llgx._earley cimport (
    parser_scan, row_accepts, row_dead, row_state, row_t, row_takes_tokens,
)
from llgx._emptiness cimport regex_is_extendable, regex_is_live
from llgx._engine cimport (
    FRAME_HELD, FRAME_INSIDE, FRAME_TIGHT, FRAME_TRACKED, FRAME_UNIQUE, HELD_TEXTS, ROLE_CLOSE,
    ROLE_DISTINCT, ROLE_KNOWN, ROLE_LASTING, ROLE_OPEN, ROLE_PLAIN, ROLE_SKIP, ROLE_UNIQUE,
    ROLE_WHOLE, Engine, Place, Scopes,
)
from llgx._lexer cimport DEAD, NO_SET, lexer_set, lexer_step, set_t, state_t
from llgx._memory cimport (
    FAULT_MEMORY, FAULT_SCOPES, NONE, Interner, Map, Words, fault_set, interner_drop, interner_free,
    interner_put, map_free, map_get, map_put, words_free, words_push, words_reserve,
)
from llgx._regex cimport EMPTY, node_t, regex_derive, regex_nullable
from llgx._residuals cimport (
    residual_first, residual_is_endless, residual_is_within, residual_last,
)
from llgx._spans cimport spans_of
from llgx._texts cimport (
    NO_TEXTS, TextCursor, texts_after, texts_branches, texts_contain, texts_free, texts_init,
    texts_insert, texts_t,
)

cdef enum:
    SEARCH_STEPS = 200000  # bytes tried by one search along the texts of siblings
    FRAME_WORDS = 5


# --------------------------------------------------------------------------- life

cdef Scopes* scopes_new(uint32_t terminals) noexcept nogil:
    """Room for the roles of so many terminals, still to be set; NULL when memory is out."""
    cdef Scopes* scopes = <Scopes*>calloc(1, sizeof(Scopes))
    if scopes == NULL:
        return NULL
    scopes.limit = 2000000
    scopes.roles = <uint8_t*>calloc(terminals + 1, 1)
    scopes.endless = <uint8_t*>calloc(terminals + 1, 1)
    if scopes.roles == NULL or scopes.endless == NULL:
        scopes_free(scopes)
        return NULL
    return scopes


cdef void scopes_free(Scopes* scopes) noexcept nogil:
    cdef uint32_t i
    if scopes == NULL:
        return
    free(scopes.roles)
    free(scopes.endless)
    texts_free(&scopes.texts)
    interner_free(&scopes.frames)
    interner_free(&scopes.chains)
    interner_free(&scopes.contexts)
    free(scopes.set_roles)
    free(scopes.state_roles)
    words_free(&scopes.words)
    words_free(&scopes.ended)
    words_free(&scopes.found)
    words_free(&scopes.texts_found)
    words_free(&scopes.opening)
    words_free(&scopes.removed)
    for i in range(6):
        free(scopes.places[i].text)
    interner_free(&scopes.lists)
    map_free(&scopes.suspects)
    map_free(&scopes.leading)
    map_free(&scopes.removals)
    free(scopes)


cdef int scopes_begin(Engine* engine) noexcept nogil:
    """To be called once the terminals are in place; -1 when memory is out."""
    cdef Scopes* scopes = engine.scopes
    cdef uint32_t words[FRAME_WORDS]
    cdef uint32_t i
    memset(words, 0, sizeof(words))
    words[0] = NONE
    if texts_init(&scopes.texts) < 0 or interner_put(&scopes.frames, words, FRAME_WORDS) != 0 \
            or interner_put(&scopes.chains, words, 2) != 0 \
            or interner_put(&scopes.lists, words, 0) != 0:
        return -1
    words[0] = 0
    if interner_put(&scopes.contexts, words, 3) != 0:
        return -1
    for i in range(engine.lexer.terminal_count):
        if scopes.roles[i] & ROLE_UNIQUE:
            scopes.unique = True
        if engine.lexer.initial[i] == EMPTY or engine.lexer.skip[i]:
            scopes.roles[i] = 0
        if scopes.roles[i] & ROLE_DISTINCT:
            if residual_is_endless(&engine.lexer.rx, engine.lexer.initial[i]):
                scopes.endless[i] = 1
            else:
                scopes.finite = True
    return 0


cdef bint scopes_ask(Engine* engine) noexcept nogil:
    """Find out which tokens of the vocabulary may be suspects of ``_filter`` at all."""
    cdef Scopes* scopes = engine.scopes
    cdef uint32_t first[8]
    cdef uint32_t last[8]
    cdef uint32_t openings[8]
    cdef uint32_t closings[8]
    cdef uint32_t terminal, i
    cdef node_t node
    cdef bint single = False
    memset(first, 0, sizeof(first))
    memset(last, 0, sizeof(last))
    memset(openings, 0, sizeof(openings))
    memset(closings, 0, sizeof(closings))
    for terminal in range(engine.lexer.terminal_count):
        node = engine.lexer.initial[terminal]
        if scopes.roles[terminal] & ROLE_DISTINCT:
            residual_first(&engine.lexer.rx, node, first)
            residual_last(&engine.lexer.rx, node, last, 0)
            if engine.lexer.rx.info[node].least <= 1:
                for i in range(engine.lexer.rx.class_count):
                    if regex_nullable(&engine.lexer.rx, regex_derive(&engine.lexer.rx, node, i)):
                        single = True
        if scopes.roles[terminal] & ROLE_OPEN:
            residual_first(&engine.lexer.rx, node, openings)
        if scopes.finite and scopes.roles[terminal] & ROLE_CLOSE:
            residual_first(&engine.lexer.rx, node, closings)
    if engine.fault.code:
        return False
    scopes.mixed = False
    for i in range(8):
        scopes.mixed = scopes.mixed or (first[i] & openings[i]) != 0
    scopes.spans[0] = spans_of(engine.pool, first, last, single)
    if scopes.unique:
        scopes.spans[1] = spans_of(engine.pool, openings, openings, True)
    if scopes.finite:
        if scopes.unique:
            for terminal in range(engine.lexer.terminal_count):
                if scopes.roles[terminal] & ROLE_CLOSE:
                    residual_last(&engine.lexer.rx, engine.lexer.initial[terminal], last, 0)
        scopes.spans[2] = spans_of(engine.pool, last, last, True)
        scopes.spans[3] = spans_of(engine.pool, closings, closings, True)
    if scopes.spans[0] == NULL or (scopes.unique and scopes.spans[1] == NULL) \
            or (scopes.finite and (scopes.spans[2] == NULL or scopes.spans[3] == NULL)):
        scopes.spans[0] = NULL
        fault_set(&engine.fault, FAULT_MEMORY)
        return False
    scopes.quick = engine.shortcuts & HELD_TEXTS and scopes.spans[0].knows \
        and not scopes.finite and not scopes.unique
    return True


cdef uint32_t scopes_count(const Scopes* scopes) noexcept nogil:
    """What ``Limits.scopes`` limits."""
    return scopes.frames.count + scopes.chains.count + scopes.contexts.count \
        + scopes.texts.nodes.count


cdef uint32_t _kept(
    Engine* engine, Interner* interner, const uint32_t* words, size_t length
) noexcept nogil:
    """Intern; 0, the first of its kind, with a fault set when that fails."""
    cdef uint32_t before = interner.count
    cdef uint32_t made = interner_put(interner, words, <uint32_t>length)
    if made == NONE:
        fault_set(&engine.fault, FAULT_MEMORY)
        return 0
    if interner.count > before and scopes_count(engine.scopes) > engine.scopes.limit:
        interner_drop(interner)
        fault_set(&engine.fault, FAULT_SCOPES)
        return 0
    return made


# --------------------------------------------------------------------------- roles

cdef uint16_t* _role_of(uint16_t** table, uint32_t* room, uint32_t index) noexcept nogil:
    """The entry of a table that grows; NULL when memory is out."""
    cdef uint32_t size
    cdef uint16_t* grown
    if index >= room[0]:
        size = room[0] * 2 if room[0] else 256
        while size <= index:
            size *= 2
        grown = <uint16_t*>realloc(table[0], size * sizeof(uint16_t))
        if grown == NULL:
            return NULL
        memset(grown + room[0], 0, (size - room[0]) * sizeof(uint16_t))
        table[0] = grown
        room[0] = size
    return table[0] + index


cdef inline uint8_t _terminal_roles(Engine* engine, uint32_t terminal) noexcept nogil:
    cdef uint8_t roles
    if engine.lexer.skip[terminal]:
        return ROLE_SKIP
    roles = engine.scopes.roles[terminal]
    return roles if roles & ROLE_DISTINCT else roles | ROLE_PLAIN


cdef uint32_t state_roles(Engine* engine, state_t state) noexcept nogil:
    """The roles of the terminals that a lexer state holds."""
    cdef Scopes* scopes = engine.scopes
    cdef uint16_t* known = _role_of(&scopes.state_roles, &scopes.state_room, state)
    cdef const uint32_t* words = engine.lexer.vectors.entries[state].words
    cdef uint32_t i
    cdef uint16_t roles = ROLE_KNOWN
    if known == NULL:
        fault_set(&engine.fault, FAULT_MEMORY)
        return 0
    if not known[0]:
        for i in range(0, engine.lexer.vectors.entries[state].length, 2):
            roles |= _terminal_roles(engine, words[i])
            if scopes.finite and scopes.endless[words[i]] \
                    and residual_is_endless(&engine.lexer.rx, words[i + 1]):
                roles |= ROLE_LASTING
        known[0] = roles
    return known[0]


cdef uint32_t set_roles(Engine* engine, set_t terminals) noexcept nogil:
    cdef Scopes* scopes = engine.scopes
    cdef uint16_t* known = _role_of(&scopes.set_roles, &scopes.set_room, terminals)
    cdef const uint32_t* words = engine.lexer.sets.entries[terminals].words
    cdef uint32_t i
    cdef uint16_t roles = ROLE_KNOWN
    if known == NULL:
        fault_set(&engine.fault, FAULT_MEMORY)
        return 0
    if not known[0]:
        for i in range(engine.lexer.sets.entries[terminals].length):
            roles |= _terminal_roles(engine, words[i])
        known[0] = roles
    return known[0]


cdef set_t _without(Engine* engine, set_t terminals, uint32_t role) noexcept nogil:
    """The terminals of a set that do not have a role."""
    cdef Scopes* scopes = engine.scopes
    cdef const uint32_t* words = engine.lexer.sets.entries[terminals].words
    cdef uint32_t i
    scopes.words.size = 0
    if words_reserve(&scopes.words, engine.lexer.sets.entries[terminals].length + 1) < 0:
        fault_set(&engine.fault, FAULT_MEMORY)
        return NO_SET
    for i in range(engine.lexer.sets.entries[terminals].length):
        if not _terminal_roles(engine, words[i]) & role:
            words_push(&scopes.words, words[i])
    return lexer_set(&engine.lexer, scopes.words.at, <uint32_t>scopes.words.size)


# --------------------------------------------------------------------------- places

cdef bint _reserve(Engine* engine, Place* place, size_t extra) noexcept nogil:
    cdef size_t room = place.room * 2 if place.room else 256
    cdef uint8_t* grown
    if place.size + extra <= place.room:
        return True
    while room < place.size + extra:
        room *= 2
    grown = <uint8_t*>realloc(place.text, room)
    if grown == NULL:
        fault_set(&engine.fault, FAULT_MEMORY)
        return False
    place.text = grown
    place.room = room
    return True


cdef void place_load(
    Engine* engine, Place* place, row_t row, state_t state, bint fresh, uint32_t context
) noexcept nogil:
    """Unpack a matcher's entry."""
    cdef Scopes* scopes = engine.scopes
    cdef const uint32_t* words = scopes.contexts.entries[context].words
    cdef const uint32_t* link
    cdef uint32_t chain, length
    place.row = row
    place.state = state
    place.fresh = fresh
    place.begin = NONE
    place.now = NONE
    place.frame = words[0]
    place.chain = words[1]
    place.size = 0
    chain = words[1]
    link = scopes.chains.entries[chain].words
    place.pending = link[1]
    if not _reserve(engine, place, <size_t>link[1] + words[2]):
        return
    place.size = place.pending + words[2]
    memcpy(place.text + place.pending, words + 3, words[2])
    while chain:
        link = scopes.chains.entries[chain].words
        chain = link[0]
        length = link[1] - scopes.chains.entries[chain].words[1]
        memcpy(place.text + link[1] - length, link + 2, length)
    place.chained = place.pending


cdef void place_copy(Engine* engine, Place* place, const Place* source) noexcept nogil:
    cdef uint8_t* text = place.text
    cdef size_t room = place.room
    place[0] = source[0]
    place.text = text
    place.room = room
    place.size = 0
    if _reserve(engine, place, source.size):
        place.size = source.size
        memcpy(place.text, source.text, source.size)


cdef uint32_t _pack(
    Engine* engine, Interner* interner, uint32_t first, uint32_t second, uint32_t third,
    const uint8_t* data, size_t length
) noexcept nogil:
    """Intern some words (``third`` unless it is NONE) and bytes after them."""
    cdef Words* words = &engine.scopes.words
    cdef size_t count = (length + 3) // 4
    words.size = 0
    if words_reserve(words, count + 4) < 0:
        fault_set(&engine.fault, FAULT_MEMORY)
        return 0
    words_push(words, first)
    words_push(words, second)
    if third != NONE:
        words_push(words, third)
    if count:
        words.at[words.size + count - 1] = 0
        memcpy(words.at + words.size, data, length)
    return _kept(engine, interner, words.at, words.size + count)


cdef uint32_t place_store(Engine* engine, Place* place) noexcept nogil:
    """The context of a place; 0 with a fault set when that fails.

    The lexeme in progress is kept only where something depends on its bytes.
    """
    cdef Scopes* scopes = engine.scopes
    cdef uint32_t roles, flags = frame_words(scopes, place.frame)[2]
    cdef size_t length = place.size - place.pending
    if place.pending > place.chained:
        place.chain = _pack(
            engine, &scopes.chains, place.chain, <uint32_t>place.pending, NONE,
            place.text + place.chained, place.pending - place.chained
        )
        place.chained = place.pending
    if length:
        roles = state_roles(engine, place.state)
        if flags & FRAME_INSIDE:
            if not roles & (ROLE_PLAIN | ROLE_DISTINCT):
                length = 0  # white space, which is no part of the text
        elif not (roles & ROLE_DISTINCT or (roles & ROLE_OPEN and flags & FRAME_UNIQUE)):
            length = 0
    return _pack(
        engine, &scopes.contexts, place.frame, place.chain, <uint32_t>length,
        place.text + place.pending, length
    )


# --------------------------------------------------------------------------- reading

cdef uint32_t _frame(
    Engine* engine, uint32_t parent, texts_t texts, uint32_t flags, uint32_t begin
) noexcept nogil:
    cdef uint32_t words[FRAME_WORDS]
    words[0] = parent
    words[1] = texts
    words[2] = flags
    words[3] = begin
    words[4] = 0
    if parent != NONE:
        words[2] |= frame_words(engine.scopes, parent)[2] & FRAME_HELD
        words[4] = frame_words(engine.scopes, parent)[4] + 1
    return _kept(engine, &engine.scopes.frames, words, FRAME_WORDS)


cdef bint _is_tight(
    Engine* engine, texts_t texts, const uint8_t* data, size_t length
) noexcept nogil:
    """Whether some beginning of ``data``, just finished, can only be finished as something that
    the scope has."""
    cdef Scopes* scopes = engine.scopes
    cdef uint32_t terminal
    cdef size_t i
    cdef node_t node, after
    for terminal in range(engine.lexer.terminal_count):
        if not scopes.roles[terminal] & ROLE_DISTINCT or scopes.endless[terminal]:
            continue
        node = engine.lexer.initial[terminal]
        i = 0
        while i + 1 < length:
            after = regex_derive(&engine.lexer.rx, node, engine.lexer.rx.classes[data[i]])
            if after == EMPTY or not regex_is_live(&engine.lexer.rx, after):
                break
            node = after
            i += 1
        if i + 1 == length:
            after = regex_derive(&engine.lexer.rx, node, engine.lexer.rx.classes[data[i]])
            if after != EMPTY and regex_is_extendable(&engine.lexer.rx, after):
                # All of it is the beginning of other texts too.
                node = after
                i += 1
        # All shorter beginnings leave more open than this one.
        if residual_is_within(
            &engine.lexer.rx, node, &scopes.texts, texts_after(&scopes.texts, texts, data, i)
        ):
            return True
    return False


cdef uint32_t _with_text(
    Engine* engine, uint32_t frame, const uint8_t* data, size_t length
) noexcept nogil:
    """The frame whose scope has this finished text too."""
    cdef Scopes* scopes = engine.scopes
    cdef const uint32_t* words = frame_words(scopes, frame)
    cdef uint32_t flags = words[2]
    cdef texts_t texts = texts_insert(&scopes.texts, words[1], data, <uint32_t>length)
    if texts == NONE:
        fault_set(&engine.fault, FAULT_MEMORY)
        return frame
    if scopes.finite and not flags & FRAME_TIGHT and _is_tight(engine, texts, data, length):
        flags |= FRAME_TIGHT
    if scopes.spans[0] == NULL and not scopes_ask(engine):
        return frame
    if scopes.quick and texts_contain(
        &scopes.spans[0].held, scopes.spans[0].held_texts, data, length
    ):
        flags |= FRAME_HELD
    return _frame(engine, words[0], texts, flags, words[3])


cdef bint place_tightens(Engine* engine, const Place* place) noexcept nogil:
    """Whether the scope is tight once the lexeme in progress has ended, where the next byte may end
    it. May set a fault."""
    cdef Scopes* scopes = engine.scopes
    cdef const uint8_t* lexeme = place.text + place.pending
    cdef uint32_t length = <uint32_t>(place.size - place.pending)
    cdef set_t emitted = engine.lexer.states[place.state].accept
    cdef texts_t texts
    if not scopes.finite or place.fresh or emitted == NO_SET \
            or not set_roles(engine, emitted) & ROLE_DISTINCT:
        return False
    texts = texts_insert(
        &scopes.texts, frame_words(scopes, place.frame)[1], lexeme, length
    )
    if texts == NONE:
        fault_set(&engine.fault, FAULT_MEMORY)
        return False
    return _is_tight(engine, texts, lexeme, length)


cdef bint _trace(Engine* engine, const Place* place, set_t emitted) noexcept nogil:
    """Note the end of a lexeme, where that is wanted."""
    if place == engine.scopes.traced and words_push(&engine.scopes.ended, emitted) < 0:
        fault_set(&engine.fault, FAULT_MEMORY)
        return False
    return True


cdef bint _end_lexeme(Engine* engine, Place* place, set_t emitted) noexcept nogil:
    """Move row and scope past the lexeme in progress. False, and the place is spoilt, where the
    scope refuses it."""
    cdef Scopes* scopes = engine.scopes
    cdef const uint32_t* frame = frame_words(scopes, place.frame)
    cdef const uint32_t* around
    cdef const uint8_t* lexeme = place.text + place.pending
    cdef size_t length = place.size - place.pending
    cdef uint32_t roles, flags
    cdef set_t kept = emitted
    if engine.lexer.set_is_skip[emitted]:
        place.row = parser_scan(&engine.parser, place.row, emitted)
        place.size = place.pending
        return _trace(engine, place, emitted)
    roles = set_roles(engine, emitted)
    if roles & ROLE_DISTINCT and texts_contain(&scopes.texts, frame[1], lexeme, length):
        kept = _without(engine, kept, ROLE_DISTINCT)
    if roles & ROLE_WHOLE and frame[2] & FRAME_TRACKED:
        around = frame_words(scopes, frame[0])
        if texts_contain(
            &scopes.texts, around[1], place.text + frame[3], place.size - frame[3]
        ):
            kept = _without(engine, kept, ROLE_WHOLE)
    if kept == NO_SET or engine.fault.code or not _trace(engine, place, kept):
        return False
    if kept != emitted:
        roles = set_roles(engine, kept)
    if place.begin != NONE:
        engine.parser.clock = place.begin
        engine.parser.depth = frame[4]
    place.row = parser_scan(&engine.parser, place.row, kept)
    engine.parser.clock = NONE
    engine.parser.depth = 0
    if roles & ROLE_DISTINCT:
        place.frame = _with_text(engine, place.frame, lexeme, length)
        frame = frame_words(scopes, place.frame)
    flags = frame[2]
    if roles & ROLE_OPEN:
        flags = flags & FRAME_INSIDE
        if frame[2] & FRAME_UNIQUE:
            flags |= FRAME_TRACKED | FRAME_INSIDE
        place.frame = _frame(
            engine, place.frame, NO_TEXTS,
            flags | (FRAME_UNIQUE if roles & ROLE_UNIQUE else 0),
            <uint32_t>place.pending if flags & FRAME_TRACKED else 0
        )
    elif roles & ROLE_CLOSE and frame[0] != NONE:
        place.frame = frame[0]
        if frame[2] & FRAME_TRACKED:
            place.frame = _with_text(
                engine, frame[0], place.text + frame[3], place.size - frame[3]
            )
        flags = frame_words(scopes, place.frame)[2]
    if flags & FRAME_INSIDE:
        place.pending = place.size
    else:
        place.size = 0
        place.pending = 0
        place.chain = 0
        place.chained = 0
    return engine.fault.code == 0


cdef bint _can_end_well(Engine* engine, const Place* place) noexcept nogil:
    """Whether some terminal of the state has a match that the scope does not hold."""
    cdef Scopes* scopes = engine.scopes
    cdef uint32_t roles = state_roles(engine, place.state)
    cdef const uint32_t* words = engine.lexer.vectors.entries[place.state].words
    cdef uint32_t i
    cdef TextCursor cursor
    if roles & (ROLE_PLAIN | ROLE_LASTING) or (roles & ROLE_SKIP and not place.fresh):
        return True
    if place.fresh and (
        row_accepts(&engine.parser, place.row) or row_takes_tokens(&engine.parser, place.row)
    ):
        return True
    if not roles & ROLE_DISTINCT:
        return False
    cursor = texts_after(
        &scopes.texts, frame_words(scopes, place.frame)[1], place.text + place.pending,
        place.size - place.pending
    )
    if cursor.node == NONE:
        return True
    for i in range(0, engine.lexer.vectors.entries[place.state].length, 2):
        if not engine.lexer.skip[words[i]] and not residual_is_within(
            &engine.lexer.rx, words[i + 1], &scopes.texts, cursor
        ):
            return True
    return False


cdef bint _step(Engine* engine, Place* place, uint8_t byte) noexcept nogil:
    """:func:`place_step` without the search."""
    cdef state_t target = lexer_step(&engine.lexer, place.state, byte)
    cdef set_t emitted
    if target == DEAD:
        emitted = engine.lexer.states[place.state].accept
        if emitted == NO_SET or place.fresh or not _end_lexeme(engine, place, emitted):
            return False
        target = lexer_step(&engine.lexer, row_state(&engine.parser, place.row), byte)
        if target == DEAD:
            return False
        place.begin = place.now
    if not _reserve(engine, place, 1):
        return False
    place.text[place.size] = byte
    place.size += 1
    emitted = engine.lexer.states[target].eager
    if emitted != NO_SET:
        if not _end_lexeme(engine, place, emitted):
            return False
        place.state = row_state(&engine.parser, place.row)
        place.fresh = True
        place.begin = place.now
        if engine.fault.code or row_dead(&engine.parser, place.row):
            return False
    else:
        place.state = target
        place.fresh = False
    if engine.scopes.finite and not _can_end_well(engine, place):
        return False
    return engine.fault.code == 0


cdef bint place_is_tracked(Engine* engine, const Place* place) noexcept nogil:
    """Whether the text so far, in some tracked scope, is the beginning of a sibling's."""
    cdef Scopes* scopes = engine.scopes
    cdef const uint32_t* frame = frame_words(scopes, place.frame)
    cdef size_t end = place.size
    cdef TextCursor cursor
    if not frame[2] & FRAME_INSIDE:
        return False
    if not state_roles(engine, place.state) & (ROLE_PLAIN | ROLE_DISTINCT):
        end = place.pending  # white space, if anything
    while frame[2] & FRAME_INSIDE:
        if frame[2] & FRAME_TRACKED:
            cursor = texts_after(
                &scopes.texts, frame_words(scopes, frame[0])[1], place.text + frame[3],
                end - frame[3]
            )
            if cursor.node != NONE:
                return True
        frame = frame_words(scopes, frame[0])
    return False


cdef void place_siblings(Engine* engine, const Place* place, uint32_t* bits) noexcept nogil:
    """Set the bytes (8 words) with which the text of some tracked scope goes on as a sibling's."""
    cdef Scopes* scopes = engine.scopes
    cdef const uint32_t* frame = frame_words(scopes, place.frame)
    cdef size_t end = place.size
    cdef uint8_t bytes[256]
    cdef uint32_t i
    cdef TextCursor cursor
    if not state_roles(engine, place.state) & (ROLE_PLAIN | ROLE_DISTINCT):
        end = place.pending  # white space, if anything
    memset(bits, 0, 8 * sizeof(uint32_t))
    while frame[2] & FRAME_INSIDE:
        if frame[2] & FRAME_TRACKED:
            cursor = texts_after(
                &scopes.texts, frame_words(scopes, frame[0])[1], place.text + frame[3],
                end - frame[3]
            )
            for i in range(texts_branches(&scopes.texts, &cursor, bytes)):
                bits[bytes[i] >> 5] |= <uint32_t>1 << (bytes[i] & 31)
        frame = frame_words(scopes, frame[0])


cdef bint place_accepts(Engine* engine, const Place* place) noexcept nogil:
    """Whether the text so far is complete."""
    cdef Place* after = &engine.scopes.places[2]
    cdef set_t emitted
    if place.fresh:
        return row_accepts(&engine.parser, place.row)
    emitted = engine.lexer.states[place.state].accept
    if emitted == NO_SET:
        return False
    place_copy(engine, after, place)
    return _end_lexeme(engine, after, emitted) and row_accepts(&engine.parser, after.row)


cdef bint _leads_out(Engine* engine, const Place* place) noexcept nogil:
    """Whether a way leads from here to where the text differs from those of all siblings, or may
    end. A search along the siblings' texts."""
    cdef Scopes* scopes = engine.scopes
    cdef Place* at = &scopes.places[3]
    cdef Place* after = &scopes.places[4]
    cdef Map seen
    cdef Words todo
    cdef uint32_t context, byte, steps = 0
    cdef uint64_t key
    cdef bint found = False
    memset(&seen, 0, sizeof(Map))
    memset(&todo, 0, sizeof(Words))
    place_copy(engine, at, place)
    while not engine.fault.code:
        if not place_is_tracked(engine, at) or place_accepts(engine, at):
            found = True
            break
        for byte in range(256):
            if lexer_step(&engine.lexer, at.state, <uint8_t>byte) == DEAD and (
                at.fresh or engine.lexer.states[at.state].accept == NO_SET
            ):
                continue
            steps += 1
            place_copy(engine, after, at)
            if not _step(engine, after, <uint8_t>byte):
                if engine.fault.code:
                    break
                continue
            if not place_is_tracked(engine, after) or steps > SEARCH_STEPS:
                found = True
                break
            context = place_store(engine, after)
            key = (<uint64_t>after.state << 1) | after.fresh
            key = (key << 32) | after.row
            if map_get(&seen, key, context) != NONE:
                continue
            if map_put(&seen, key, context, 1) < 0 or words_push(&todo, after.row) < 0 \
                    or words_push(&todo, after.state) < 0 or words_push(&todo, after.fresh) < 0 \
                    or words_push(&todo, context) < 0:
                fault_set(&engine.fault, FAULT_MEMORY)
                break
        if found or todo.size == 0 or engine.fault.code:
            break
        todo.size -= 4
        place_load(
            engine, at, todo.at[todo.size], todo.at[todo.size + 1], todo.at[todo.size + 2],
            todo.at[todo.size + 3]
        )
    words_free(&todo)
    map_free(&seen)
    return found and engine.fault.code == 0


cdef bint place_step(Engine* engine, Place* place, uint8_t byte) noexcept nogil:
    """Read one byte. False, and the place is spoilt, where grammar or scopes do not allow it.

    Also False with a fault set.
    """
    if not _step(engine, place, byte):
        return False
    if frame_words(engine.scopes, place.frame)[2] & FRAME_INSIDE:
        return _leads_out(engine, place)
    return True


cdef uint32_t place_followers(
    Engine* engine, const Place* place, uint8_t* byte
) noexcept nogil:
    """How many bytes may follow, 2 standing for more, and the first of them."""
    cdef Place* after = &engine.scopes.places[1]
    cdef uint32_t b, count = 0
    cdef int forced = engine.lexer.states[place.state].forced
    for b in range(256):
        if (forced >= 0 and <int>b != forced) or (
            lexer_step(&engine.lexer, place.state, <uint8_t>b) == DEAD and (
                place.fresh or engine.lexer.states[place.state].accept == NO_SET
            )
        ):
            continue
        place_copy(engine, after, place)
        if not place_step(engine, after, <uint8_t>b):
            if engine.fault.code:
                return 0
            continue
        if count:
            return 2
        byte[0] = <uint8_t>b
        count = 1
    return count


# --------------------------------------------------------------------------- matchers' entries

cdef size_t scopes_read(
    Engine* engine, row_t* row, state_t* state, bint* fresh, uint32_t* context,
    const uint8_t* data, size_t length, uint32_t* begin, uint32_t now
) noexcept nogil:
    """Move an entry past ``data``, or past as much of it as is allowed; how many bytes those are.

    ``begin`` and ``now`` are as for ``budget_step``; NONE where no rule has a limit.
    """
    cdef Place* place = &engine.scopes.places[0]
    cdef size_t i = 0, fits
    cdef uint32_t stored
    place_load(engine, place, row[0], state[0], fresh[0], context[0])
    place.begin = now if fresh[0] else begin[0]
    place.now = now
    while i < length and place_step(engine, place, data[i]):
        i += 1
    if engine.fault.code:
        return 0
    if i < length:  # the place is spoilt
        fits = i
        place_load(engine, place, row[0], state[0], fresh[0], context[0])
        place.begin = now if fresh[0] else begin[0]
        place.now = now
        for i in range(fits):
            place_step(engine, place, data[i])
        i = fits
    stored = place_store(engine, place)
    if engine.fault.code:
        return 0
    row[0] = place.row
    state[0] = place.state
    fresh[0] = place.fresh
    context[0] = stored
    begin[0] = place.begin
    return i


cdef bint scopes_end(
    Engine* engine, row_t* row, state_t state, uint32_t* context, set_t emitted, uint32_t begin
) noexcept nogil:
    """Move an entry past the end of its lexeme in progress, which began in token ``begin``. False,
    and nothing changed, where the scope refuses it."""
    cdef Place* place = &engine.scopes.places[0]
    cdef uint32_t stored
    place_load(engine, place, row[0], state, False, context[0])
    place.begin = begin
    if not _end_lexeme(engine, place, emitted):
        return False
    place.state = row_state(&engine.parser, place.row)
    place.fresh = True
    stored = place_store(engine, place)
    if engine.fault.code:
        return False
    row[0] = place.row
    context[0] = stored
    return True


cdef bint scopes_go_on(
    Engine* engine, row_t row, state_t state, uint32_t context
) noexcept nogil:
    """Whether the text can go on, or end, at the beginning of a lexeme."""
    if not engine.scopes.finite:
        return True
    place_load(engine, &engine.scopes.places[0], row, state, True, context)
    return _can_end_well(engine, &engine.scopes.places[0])


cdef bint scopes_hold(
    Engine* engine, row_t row, state_t state, bint fresh, uint32_t context
) noexcept nogil:
    """Whether scopes leave a way on from an entry that was not made by reading."""
    cdef Place* place = &engine.scopes.places[0]
    place_load(engine, place, row, state, fresh, context)
    if engine.scopes.finite and not _can_end_well(engine, place):
        return False
    return not frame_words(engine.scopes, place.frame)[2] & FRAME_INSIDE \
        or _leads_out(engine, place)


cdef void scopes_cut(Engine* engine, uint32_t* context, uint32_t depth) noexcept nogil:
    """Give up the lexeme in progress and the scopes within ``depth`` others.

    They are finished as nothing: no later text has to differ from them. Their bytes stay part of
    the text of the scopes around them.
    """
    cdef Place* place = &engine.scopes.places[0]
    cdef uint32_t stored
    place_load(engine, place, 0, DEAD, True, context[0])
    while frame_words(engine.scopes, place.frame)[4] > depth:
        place.frame = frame_words(engine.scopes, place.frame)[0]
    if frame_words(engine.scopes, place.frame)[2] & FRAME_INSIDE:
        place.pending = place.size
    else:
        place.size = 0
        place.pending = 0
        place.chain = 0
        place.chained = 0
    stored = place_store(engine, place)
    if not engine.fault.code:
        context[0] = stored


cdef bint scopes_accept(
    Engine* engine, row_t row, state_t state, bint fresh, uint32_t context
) noexcept nogil:
    """Whether the text up to an entry is complete."""
    if fresh:
        return row_accepts(&engine.parser, row)
    if engine.lexer.states[state].accept == NO_SET:
        return False
    place_load(engine, &engine.scopes.places[0], row, state, fresh, context)
    return place_accepts(engine, &engine.scopes.places[0])


cdef bint scopes_are_complete(
    Engine* engine, row_t row, state_t state, bint fresh, uint32_t context
) noexcept nogil:
    """Whether the text up to an entry is complete and nothing can follow."""
    cdef Place* place = &engine.scopes.places[0]
    cdef uint8_t byte
    place_load(engine, place, row, state, fresh, context)
    if not place_accepts(engine, place):
        return False
    if fresh and state == DEAD:
        return True
    # Only scopes that are used up, or tracked, take away all that the row allows.
    if not engine.scopes.finite \
            and not frame_words(engine.scopes, place.frame)[2] & FRAME_INSIDE:
        return False
    return place_followers(engine, place, &byte) == 0


cdef uint32_t scopes_forced(
    Engine* engine, row_t row, state_t state, bint fresh, uint32_t context, uint8_t* out,
    uint32_t limit
) noexcept nogil:
    """Bytes, ``limit`` at the most, of which each is the only one that can come next."""
    cdef Place* place = &engine.scopes.places[0]
    cdef uint32_t count = 0
    place_load(engine, place, row, state, fresh, context)
    while count < limit and not engine.fault.code and not place_accepts(engine, place):
        if place_followers(engine, place, out + count) != 1 \
                or not place_step(engine, place, out[count]):
            break
        count += 1
    return count
