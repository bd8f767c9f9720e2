# cython: language_level=3, boundscheck=False, wraparound=False
# cython: initializedcheck=False, cdivision=True
"""A grammar as a sampler of llama.cpp, in C callbacks that need no GIL.

llama.cpp calls ``apply`` with the candidates for a token, any number of times and with any subset
of them in any order, and ``accept`` with the token that was chosen. ``apply`` keeps the candidates
that the grammar allows, in their order, and changes nothing else; the mask is computed once for
each token. llama.cpp is not linked: its one function that is needed here, ``llama_sampler_init``,
comes as an address.

Invariants: no callback raises, throws or touches a Python object. ``apply`` leaves one candidate at
least, an end-of-generation token where the grammar allows none. What goes wrong is noted in the
:c:type:`Context`; from then on it allows an end-of-generation token alone, or everything if it is
to lift the constraint. A context lives until its sampler is freed and no Python object refers to it
any more, whichever comes first; the reference to the grammar that it held is given back by whoever
has the GIL next (:c:func:`_give_back`), or not at all once the interpreter is about to end.

Cost: ``accept`` steps the lexer once per byte. ``apply`` costs a mask, and either one look at each
allowed candidate and a copy of it (candidates that are the whole vocabulary in order) or one look
at each candidate. A context holds two masks of 32 KB for 262,144 tokens, and 16 bytes per token.
"""

import atexit

from cpython.pythread cimport (
    NOWAIT_LOCK, WAIT_LOCK, PyThread_acquire_lock, PyThread_release_lock, PyThread_type_lock,
)
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.float cimport FLT_MAX
from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uintptr_t
from libc.stdio cimport fputs, stderr
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memmove

from llgx._compiled cimport CompiledGrammar
from llgx._memory cimport FAULT_MEMORY, FAULT_NONE, Fault, lowest_bit
from llgx._lower cimport raise_fault
from llgx._sequence cimport (
    Program, Step, mask_words, program_acquire, program_release, step_advance, step_begin,
    step_mask, steps_reserve,
)
from llgx.llama._llama_h cimport Candidate, Candidates, Sampler, init_t

from llgx.forks import after_fork, before_grammars

cdef extern from "Python.h" nogil:
    int Py_AddPendingCall(int (*call)(void*) noexcept, void* argument)
    PyThread_type_lock PyThread_allocate_lock()  # Cython's own declarations ask for the GIL
    void PyThread_free_lock(PyThread_type_lock lock)

cdef extern from *:
    """
    /* A sampler's interface. llama.cpp keeps the address, and reads as many pointers as its version
       has: 6 to 12 so far. Those that are not set are NULL, which all but ``apply`` may be. */
    static void *llgx_interface[24];
    """
    void* interface "llgx_interface"[24]

# ------------------------------------------------------------------- contexts

cdef enum Failure:
    FAILED_NOT = 0
    FAILED_FAULT = 1         # a fault of the engine, or no memory
    FAILED_REFUSED = 2       # a token was accepted that the grammar does not allow
    FAILED_STARVED = 3       # the same, after no candidate was left to choose

cdef enum Point:             # of injected faults
    AT_ACCEPT = 1
    AT_APPLY = 2
    AT_CLONE = 4

cdef struct Family:          # what a sampler and its clones share; only ``references`` changes
    int references           # contexts
    PyObject* grammar        # the CompiledGrammar; owned
    const Program* program   # its
    size_t words             # 64-bit words of a mask
    int32_t end              # the end-of-generation token that is left where nothing else is
    bint lifts               # a failure lifts the constraint
    init_t init
    Family* next             # in the list of those to be given back

cdef struct Context:
    int references           # of samplers and of Python objects
    Family* family
    PyThread_type_lock lock  # of what follows
    Step* steps              # [0] is the state before the first token
    uint32_t count           # tokens accepted
    uint32_t room
    uint64_t* mask           # of the last step
    uint64_t* scratch
    bint is_known            # ``mask`` is up to date
    bint starved             # the last ``apply`` found no candidate that may be chosen
    bint announces           # says on stderr that it has failed
    int failure
    int fault                # its code
    int64_t token            # that was refused
    int injected             # faults of tests, by Point

# Of all ``references`` and of what follows.
cdef PyThread_type_lock _lock = PyThread_allocate_lock()
cdef Family* _to_give_back = NULL
cdef bint _ending = False    # the interpreter: nothing is given back any more
cdef size_t _given_back = 0

if _lock == NULL:
    raise MemoryError


cdef void _enter(PyThread_type_lock lock) noexcept nogil:
    PyThread_acquire_lock(lock, WAIT_LOCK)


cdef int _give_back(void* unused) noexcept with gil:
    """Drop the references of families that have no context any more."""
    global _to_give_back, _given_back
    cdef Family* family
    while True:
        _enter(_lock)
        family = _to_give_back
        if family != NULL:
            _to_give_back = family.next
            _given_back += 1
        PyThread_release_lock(_lock)
        if family == NULL:
            return 0
        Py_DECREF(<object>family.grammar)
        free(family)


def _stop_giving_back():
    global _ending
    _enter(_lock)
    _ending = True
    PyThread_release_lock(_lock)


atexit.register(_stop_giving_back)


def _renew_lock():
    global _lock
    # Held for a few instructions, without the GIL, of which none leaves anything to be mended.
    _lock = PyThread_allocate_lock()


after_fork(_renew_lock)


cdef void _free(Context* context) noexcept nogil:
    if context.lock != NULL:
        PyThread_free_lock(context.lock)
    free(context.steps)
    free(context.mask)
    free(context.scratch)
    free(context)


cdef Context* _new(Family* family) noexcept nogil:
    """A context before the first token, but for ``steps[0]``; NULL when memory is out."""
    cdef Context* context = <Context*>calloc(1, sizeof(Context))
    if context == NULL:
        return NULL
    context.references = 1
    context.family = family
    context.lock = PyThread_allocate_lock()
    # The last word stays zero where a mask has an odd number of 32-bit words.
    context.mask = <uint64_t*>calloc(family.words + 1, sizeof(uint64_t))
    context.scratch = <uint64_t*>calloc(family.words + 1, sizeof(uint64_t))
    if context.lock == NULL or context.mask == NULL or context.scratch == NULL \
            or steps_reserve(&context.steps, &context.room, 1) < 0:
        _free(context)
        return NULL
    _enter(_lock)
    family.references += 1
    PyThread_release_lock(_lock)
    return context


cdef void _hold(Context* context) noexcept nogil:
    _enter(_lock)
    context.references += 1
    PyThread_release_lock(_lock)


cdef void _drop(Context* context) noexcept nogil:
    """Give up one reference. In any thread, with or without the GIL."""
    global _to_give_back
    cdef Family* family = context.family
    cdef bint is_last
    _enter(_lock)
    context.references -= 1
    is_last = context.references == 0
    if is_last:
        family.references -= 1
        if family.references == 0:
            family.next = _to_give_back
            _to_give_back = family
            # Under the lock, so that none is added once the interpreter is ending. Where the queue
            # is full, the next sampler that is made gives it back.
            if not _ending:
                Py_AddPendingCall(_give_back, NULL)
    PyThread_release_lock(_lock)
    if is_last:
        _free(context)


cdef void _fail(Context* context, int failure, int fault, int64_t token) noexcept nogil:
    context.failure = failure
    context.fault = fault
    context.token = token
    if context.announces:
        fputs("llgx: the grammar cannot be followed any further (Sampler.error says why); ", stderr)
        fputs(
            "generation continues unconstrained\n" if context.family.lifts
            else "generation ends\n", stderr
        )


cdef void _ready(Context* context) noexcept nogil:
    """Bring the mask up to date, or fail."""
    cdef const Program* program = context.family.program
    cdef Fault fault
    if context.is_known:
        return
    program_acquire(program)
    step_mask(
        program, &context.steps[context.count], <int32_t*>context.mask, context.scratch
    )
    fault = program_release(program)
    if fault.code:
        _fail(context, FAILED_FAULT, fault.code, -1)
    else:
        context.is_known = True


# ------------------------------------------------------------------- candidates

cdef inline bint _holds(const uint64_t* bits, size_t token) noexcept nogil:
    return (bits[token >> 6] >> (token & 63)) & 1


cdef inline uint64_t _word(const uint64_t* bits, size_t begin, size_t size) noexcept nogil:
    """The bits of the tokens from ``begin``, a multiple of 64, on, of those below ``size``."""
    if size - begin >= 64:
        return bits[begin >> 6]
    return bits[begin >> 6] & ((<uint64_t>1 << (size - begin)) - 1)


cdef inline void _look(
    const Candidate* one, size_t token, uint32_t* misplaced, uint32_t* odd
) noexcept nogil:
    cdef uint32_t logit      # the bits of the float
    misplaced[0] |= <uint32_t>one.id ^ <uint32_t>token
    # Carries into the sign where all bits of the exponent are set: infinite, or NaN.
    memcpy(&logit, &one.logit, sizeof(float))
    odd[0] |= (logit & 0x7FFFFFFF) + 0x00800000


cdef bint _is_in_order(
    const uint64_t* bits, const Candidate* data, size_t size, bint* is_plain
) noexcept nogil:
    """Whether each allowed token is the candidate at the place of its id.

    ``is_plain`` if all of them also have a finite logit.
    """
    cdef size_t begin, token
    cdef uint64_t word
    cdef uint32_t misplaced = 0
    cdef uint32_t odd = 0
    for begin in range(0, size, 64):
        word = _word(bits, begin, size)
        if word == <uint64_t>-1:
            for token in range(begin, begin + 64):
                _look(data + token, token, &misplaced, &odd)
        else:
            while word:
                token = begin + lowest_bit(word)
                word &= word - 1
                _look(data + token, token, &misplaced, &odd)
        if misplaced:
            return False
    is_plain[0] = odd >> 31 == 0
    return True


cdef size_t _keep_ordered(const uint64_t* bits, Candidate* data, size_t size) noexcept nogil:
    """Move the allowed ones of candidates in the order of their ids to the front; how many.

    By words of the mask: bits one by one in most of them, since many masks change from token to
    token, and a branch on each is guessed wrongly; all at once where all are allowed.
    """
    cdef size_t begin = 0, full, kept = 0
    cdef uint64_t word
    while begin < size:
        word = _word(bits, begin, size)
        full = begin
        while word == <uint64_t>-1:
            full += 64
            word = _word(bits, full, size) if full < size else 0
        if full != begin:
            if kept != begin:
                memmove(data + kept, data + begin, (full - begin) * sizeof(Candidate))
            kept += full - begin
            begin = full
        while word:
            data[kept] = data[begin + lowest_bit(word)]
            kept += 1
            word &= word - 1
        begin += 64
    return kept


cdef size_t _keep_any(
    const uint64_t* bits, int64_t vocabulary_size, Candidates* candidates, int64_t* selected
) noexcept nogil:
    """Move the allowed candidates to the front; how many.

    Those with the logit NaN or -inf cannot be chosen and are left out; an infinite logit becomes
    the largest finite one, since the softmax of infinity is NaN.
    """
    cdef Candidate* data = candidates.data
    cdef size_t i, kept = 0
    cdef Candidate one
    selected[0] = -1
    for i in range(candidates.size):
        one = data[i]
        if one.id < 0 or one.id >= vocabulary_size or not _holds(bits, <size_t>one.id) \
                or not one.logit > -INFINITY:
            continue
        one.logit = min(one.logit, FLT_MAX)
        data[kept] = one
        if <int64_t>i == candidates.selected:
            selected[0] = <int64_t>kept
        kept += 1
    return kept


cdef int64_t _best(const Candidates* candidates) noexcept nogil:
    cdef size_t i, best = 0
    for i in range(candidates.size):
        if candidates.data[i].logit > candidates.data[best].logit:
            best = i
    return <int64_t>best


cdef void _leave_end(const Context* context, Candidates* candidates, float logit) noexcept nogil:
    """Leave an end-of-generation token and nothing else."""
    candidates.data[0].id = context.family.end
    candidates.data[0].logit = logit
    candidates.data[0].p = 0
    candidates.size = 1
    candidates.selected = 0 if candidates.selected >= 0 else -1


cdef void _keep(Context* context, Candidates* candidates) noexcept nogil:
    """Leave the candidates that the mask allows."""
    cdef size_t size = candidates.size
    cdef size_t kept
    cdef int64_t vocabulary_size = context.family.program.vocabulary_size
    cdef int64_t selected = -1
    cdef bint is_plain = False
    if candidates.selected < 0 and <int64_t>size == vocabulary_size and _is_in_order(
        context.mask, candidates.data, size, &is_plain
    ) and is_plain:
        kept = _keep_ordered(context.mask, candidates.data, size)
    else:
        kept = _keep_any(context.mask, vocabulary_size, candidates, &selected)
    context.starved = kept == 0
    if kept == 0:
        # Of one candidate callers only ask whether it is allowed, which -inf answers.
        _leave_end(context, candidates, 0 if size > 1 else -INFINITY)
        return
    candidates.size = kept
    if candidates.selected >= 0:
        candidates.selected = selected if selected >= 0 else _best(candidates)


# ------------------------------------------------------------------- callbacks

cdef const char* _on_name(const Sampler* sampler) noexcept nogil:
    return "llgx"


cdef void _on_accept(Sampler* sampler, int32_t token) noexcept nogil:
    cdef Context* context = <Context*>sampler.context
    cdef const Program* program = context.family.program
    cdef Step step
    cdef int fitting
    cdef Fault fault
    _enter(context.lock)
    if context.failure == FAILED_NOT:
        if context.injected & AT_ACCEPT \
                or steps_reserve(&context.steps, &context.room, context.count + 2) < 0:
            _fail(context, FAILED_FAULT, FAULT_MEMORY, token)
        else:
            step = context.steps[context.count]
            program_acquire(program)
            fitting = step_advance(program, &step, token, context.scratch)
            fault = program_release(program)
            if fault.code:
                _fail(context, FAILED_FAULT, fault.code, token)
            elif fitting >= 0:
                _fail(
                    context, FAILED_STARVED if context.starved else FAILED_REFUSED, FAULT_NONE,
                    token
                )
            else:
                context.count += 1
                context.steps[context.count] = step
                context.is_known = False
                context.starved = False
    PyThread_release_lock(context.lock)


cdef void _on_apply(Sampler* sampler, Candidates* candidates) noexcept nogil:
    cdef Context* context = <Context*>sampler.context
    if candidates.data == NULL or candidates.size == 0:
        return  # there is no place for a token
    _enter(context.lock)
    if context.failure == FAILED_NOT and context.injected & AT_APPLY:
        _fail(context, FAILED_FAULT, FAULT_MEMORY, -1)
    if context.failure == FAILED_NOT:
        _ready(context)
    if context.failure == FAILED_NOT:
        _keep(context, candidates)
    elif not context.family.lifts:
        _leave_end(context, candidates, 0)
    PyThread_release_lock(context.lock)


cdef void _on_reset(Sampler* sampler) noexcept nogil:
    cdef Context* context = <Context*>sampler.context
    _enter(context.lock)
    context.is_known = context.is_known and context.count == 0
    context.count = 0
    context.starved = False
    context.failure = FAILED_NOT
    PyThread_release_lock(context.lock)


cdef Context* _copy(Context* context) noexcept nogil:
    """A context that has accepted the same tokens; NULL when memory is out. Lock held."""
    cdef Context* copy = NULL
    if not context.injected & AT_CLONE:
        copy = _new(context.family)
    if copy != NULL and steps_reserve(&copy.steps, &copy.room, context.count + 1) < 0:
        _drop(copy)
        copy = NULL
    if copy != NULL:
        memcpy(copy.steps, context.steps, (<size_t>context.count + 1) * sizeof(Step))
        copy.count = context.count
        copy.starved = context.starved
        copy.failure = context.failure
        copy.fault = context.fault
        copy.token = context.token
    return copy


cdef Sampler* _on_clone(const Sampler* sampler) noexcept nogil:
    cdef Context* context = <Context*>sampler.context
    cdef Context* copy
    _enter(context.lock)
    copy = _copy(context)
    if copy == NULL:
        # llama.cpp takes no failure here. Both go on as one that has failed.
        if context.failure == FAILED_NOT:
            _fail(context, FAILED_FAULT, FAULT_MEMORY, -1)
        _hold(context)
        copy = context
    else:
        copy.announces = context.announces
    PyThread_release_lock(context.lock)
    return context.family.init(<const void*>interface, copy)


cdef void _on_free(Sampler* sampler) noexcept nogil:
    _drop(<Context*>sampler.context)


interface[0] = <void*>_on_name
interface[1] = <void*>_on_accept
interface[2] = <void*>_on_apply
interface[3] = <void*>_on_reset
interface[4] = <void*>_on_clone
interface[5] = <void*>_on_free


# ------------------------------------------------------------------- from Python

cdef class SamplerState:
    """The state of a native sampler. It may be read while another thread samples.

    ``compiled`` is the grammar, ``init`` the address of ``llama_sampler_init``; with ``lifts`` a
    failure lifts the constraint. Raises :class:`LimitError` or ``MemoryError`` if the first mask
    cannot be made, ``ValueError`` for a vocabulary without end-of-generation tokens.
    """

    cdef Context* context
    cdef object __weakref__

    def __init__(self, CompiledGrammar compiled not None, uintptr_t init, *, bint lifts):
        cdef Family* family
        cdef Fault fault
        if self.context != NULL:
            raise TypeError("a sampler is made once")
        if init == 0:
            raise ValueError("llama_sampler_init has no address")
        if compiled.eog_count == 0:
            raise ValueError("the vocabulary has no end-of-generation token")
        _give_back(NULL)
        family = <Family*>calloc(1, sizeof(Family))
        if family == NULL:
            raise MemoryError
        family.program = &compiled.program
        family.words = (mask_words(family.program) + 1) // 2
        if family.words < compiled.engine.words:
            family.words = compiled.engine.words
        family.end = <int32_t>compiled.eog[0]
        family.lifts = lifts
        family.init = <init_t>init
        self.context = _new(family)
        if self.context == NULL:
            free(family)
            raise MemoryError
        Py_INCREF(compiled)
        family.grammar = <PyObject*>compiled
        with nogil:
            program_acquire(family.program)
            step_begin(family.program, self.context.steps)
            fault = program_release(family.program)
            if fault.code == FAULT_NONE:
                _ready(self.context)
        if fault.code == FAULT_NONE:
            fault.code = self.context.fault
        raise_fault(&fault, compiled.limits)
        before_grammars(self)

    def _fork_key(self):
        return <uintptr_t>self.context

    def _hold(self):
        """Keep all others off the context, for a fork."""
        self._enter()

    def _let_go(self):
        PyThread_release_lock(self.context.lock)

    def __dealloc__(self):
        if self.context != NULL:
            _drop(self.context)

    @staticmethod
    def of(uintptr_t address):
        """The state of the ``llama_sampler`` at ``address``; None if it is no sampler of llgx."""
        cdef Sampler* sampler = <Sampler*>address
        cdef SamplerState state
        if sampler == NULL or sampler.interface != <const void*>interface:
            return None
        state = SamplerState.__new__(SamplerState)
        _hold(<Context*>sampler.context)
        state.context = <Context*>sampler.context
        return before_grammars(state)

    cdef int _enter(self) except -1:
        if self.context == NULL:
            raise TypeError("SamplerState.__init__ was not called")
        # A callback that holds it may be at work for as long as a mask takes.
        if not PyThread_acquire_lock(self.context.lock, NOWAIT_LOCK):
            with nogil:
                _enter(self.context.lock)
        return 0

    @property
    def compiled(self):
        """The grammar that the sampler follows."""
        if self.context == NULL:
            raise TypeError("SamplerState.__init__ was not called")
        return <object>self.context.family.grammar

    @property
    def lifts(self):
        """Whether a failure lifts the constraint."""
        return self.context != NULL and self.context.family.lifts

    @property
    def tokens(self):
        """The tokens accepted so far."""
        cdef uint32_t* copy
        cdef uint32_t i, count
        self._enter()
        count = self.context.count
        copy = <uint32_t*>calloc(count + 1, sizeof(uint32_t))
        if copy != NULL:
            for i in range(count):
                copy[i] = self.context.steps[i + 1].token
        PyThread_release_lock(self.context.lock)
        if copy == NULL:
            raise MemoryError
        try:
            return [copy[i] for i in range(count)]
        finally:
            free(copy)

    def copy(self):
        """A state that has accepted the same tokens and goes its own way. Linear in their number.
        """
        cdef SamplerState state = SamplerState.__new__(SamplerState)
        self._enter()
        state.context = _copy(self.context)
        PyThread_release_lock(self.context.lock)
        if state.context == NULL:
            raise MemoryError
        return before_grammars(state)

    def release(self):
        """The address of a new ``llama_sampler`` with this state, for llama.cpp to free.

        To be called once: two samplers of one state would both move it.
        """
        if self.context == NULL:
            raise TypeError("SamplerState.__init__ was not called")
        _hold(self.context)
        sampler = self.context.family.init(<const void*>interface, self.context)
        if sampler == NULL:
            _drop(self.context)
            raise MemoryError
        return <uintptr_t>sampler

    def announce(self):
        """Say on stderr when something goes wrong: for callers that may not ask."""
        self._enter()
        self.context.announces = True
        PyThread_release_lock(self.context.lock)

    def failure(self):
        """What went wrong, as (kind, fault, token), or None. ``kind`` is "fault", "refused" or
        "starved"; ``token`` the one that was not accepted, -1 for none."""
        self._enter()
        kind = self.context.failure
        fault = self.context.fault
        token = self.context.token
        PyThread_release_lock(self.context.lock)
        if kind == FAILED_NOT:
            return None
        return ("fault", "refused", "starved")[kind - 1], fault, token

    def raise_fault(self, int code):
        """Raise the error that a fault stands for."""
        cdef Fault fault
        fault.code = code
        raise_fault(&fault, self.compiled.limits)

    def inject(self, point):
        """Let memory seem to run out at each of "accept", "apply" or "clone". For tests."""
        self._enter()
        self.context.injected |= {"accept": AT_ACCEPT, "apply": AT_APPLY, "clone": AT_CLONE}[point]
        PyThread_release_lock(self.context.lock)


def returned():
    """How many references to grammars have been given back by freed samplers. For tests."""
    _give_back(NULL)
    return _given_back
