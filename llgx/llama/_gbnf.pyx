# cython: language_level=3, boundscheck=False, wraparound=False
# cython: initializedcheck=False, cdivision=True
"""llama.cpp's own grammar sampler, kept from ending the process.

``accept`` of that sampler throws, or aborts, for a token that the grammar does not allow, and an
exception of C++ that passes ctypes ends the process. Such a token is chosen wherever ``apply`` has
left nothing to choose. So another sampler stands in its place, which holds it, passes on what it is
asked, and looks at what may be dangerous: after ``apply`` whether a candidate is left, and before
``accept``, by an ``apply`` to that one candidate, whether it is allowed.

Invariants: what the inner sampler leaves of candidates is what the outer one leaves, unless that is
nothing; then it is an end-of-generation token. The inner one accepts only what it allows. No
callback raises or touches a Python object. What goes wrong is noted in the :c:type:`Context`; from
then on it allows an end-of-generation token alone, or everything if it is to lift the constraint.
The inner sampler goes with the outer one, the context with the last that knows of it.

Cost: one look at the candidates up to the first that is left, and a look of llama.cpp's at one
token. Both are far below what llama.cpp takes for its own look at all of them.
"""

from cpython.pythread cimport (
    WAIT_LOCK, PyThread_acquire_lock, PyThread_release_lock, PyThread_type_lock,
)
from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t, uintptr_t
from libc.stdlib cimport calloc, free

from llgx.llama._llama_h cimport Candidate, Candidates, Sampler, init_t

from llgx.forks import after_fork

cdef extern from "Python.h" nogil:
    PyThread_type_lock PyThread_allocate_lock()  # Cython's own declarations ask for the GIL

cdef extern from *:
    """
    /* As in _sampler.pyx: as many pointers as any version of llama.cpp reads. */
    static void *llgx_gbnf_interface[24];
    """
    void* interface "llgx_gbnf_interface"[24]

# ------------------------------------------------------------------- llama.h

cdef struct Functions:       # llama_sampler_…
    init_t init
    void (*apply)(Sampler* sampler, Candidates* candidates) noexcept nogil
    void (*accept)(Sampler* sampler, int32_t token) noexcept nogil
    void (*reset)(Sampler* sampler) noexcept nogil
    Sampler* (*clone)(const Sampler* sampler) noexcept nogil
    void (*free)(Sampler* sampler) noexcept nogil

# ------------------------------------------------------------------- contexts

cdef enum Failure:
    FAILED_NOT = 0
    FAILED_REFUSED = 1       # a token was accepted that the grammar does not allow
    FAILED_STARVED = 2       # the same, after no candidate was left to choose
    FAILED_MEMORY = 3

cdef struct Context:
    int references           # of samplers and of Python objects; this to ``count`` under the lock
    int samplers             # one, but for a clone that there was no memory for
    int failure
    int64_t token            # that was refused
    int64_t count            # tokens accepted
    Functions llama
    Sampler* inner           # owned; NULL once the outer one was freed
    int64_t vocabulary_size
    int32_t end              # the token that is left where nothing else is; -1 if there is none
    bint lifts               # a failure lifts the constraint
    bint starved             # the last ``apply`` left nothing


# Held for a few instructions, by Python with the GIL; none of them leaves anything to be mended in
# a process that is forked meanwhile.
cdef PyThread_type_lock _lock = PyThread_allocate_lock()

if _lock == NULL:
    raise MemoryError


def _renew_lock():
    global _lock
    _lock = PyThread_allocate_lock()


after_fork(_renew_lock)


cdef void _enter() noexcept nogil:
    PyThread_acquire_lock(_lock, WAIT_LOCK)


cdef Context* _new() noexcept nogil:
    """A context without a sampler; NULL when memory is out."""
    cdef Context* context = <Context*>calloc(1, sizeof(Context))
    if context == NULL:
        return NULL
    context.references = 1
    return context


cdef void _drop(Context* context) noexcept nogil:
    """Give up one reference."""
    cdef bint is_last
    _enter()
    context.references -= 1
    is_last = context.references == 0
    PyThread_release_lock(_lock)
    if is_last:
        if context.inner != NULL:
            context.llama.free(context.inner)
        free(context)


cdef void _hold(Context* context) noexcept nogil:
    _enter()
    context.references += 1
    PyThread_release_lock(_lock)


cdef void _add_sampler(Context* context) noexcept nogil:
    _enter()
    context.references += 1
    context.samplers += 1
    PyThread_release_lock(_lock)


cdef void _fail(Context* context, int failure, int64_t token) noexcept nogil:
    _enter()
    context.failure = failure
    context.token = token
    PyThread_release_lock(_lock)


cdef void _leave_end(const Context* context, Candidates* candidates) noexcept nogil:
    """Leave an end-of-generation token and nothing else."""
    if context.end >= 0:
        candidates.data[0].id = context.end
    candidates.data[0].logit = 0
    candidates.data[0].p = 0
    candidates.size = 1
    candidates.selected = 0 if candidates.selected >= 0 else -1


cdef bint _is_any_left(const Candidates* candidates) noexcept nogil:
    cdef size_t i
    for i in range(candidates.size):
        if candidates.data[i].logit > -INFINITY:
            return True
    return False


cdef bint _is_allowed(Context* context, int32_t token) noexcept nogil:
    cdef Candidate one
    cdef Candidates candidates
    if token < 0 or token >= context.vocabulary_size:
        return False
    one.id = token
    one.logit = 0
    one.p = 0
    candidates.data = &one
    candidates.size = 1
    candidates.selected = -1
    candidates.sorted = False
    context.llama.apply(context.inner, &candidates)
    return _is_any_left(&candidates)


# ------------------------------------------------------------------- callbacks

cdef const char* _on_name(const Sampler* sampler) noexcept nogil:
    return "grammar"


cdef void _on_accept(Sampler* sampler, int32_t token) noexcept nogil:
    cdef Context* context = <Context*>sampler.context
    if context.failure != FAILED_NOT:
        return  # the inner one would throw, or is lifted
    if not _is_allowed(context, token):
        _fail(context, FAILED_STARVED if context.starved else FAILED_REFUSED, token)
        return
    context.llama.accept(context.inner, token)
    context.starved = False
    _enter()
    context.count += 1
    PyThread_release_lock(_lock)


cdef void _on_apply(Sampler* sampler, Candidates* candidates) noexcept nogil:
    cdef Context* context = <Context*>sampler.context
    if candidates.data == NULL or candidates.size == 0:
        return  # there is no place for a token
    if context.failure != FAILED_NOT:
        if not context.lifts:
            _leave_end(context, candidates)
        return
    context.llama.apply(context.inner, candidates)
    if candidates.size == 1:
        return  # callers only ask whether it is allowed, which -inf answers
    context.starved = not _is_any_left(candidates)
    if context.starved:
        _leave_end(context, candidates)


cdef void _on_reset(Sampler* sampler) noexcept nogil:
    cdef Context* context = <Context*>sampler.context
    if context.failure == FAILED_MEMORY:
        return  # two samplers have the one inner one
    context.llama.reset(context.inner)
    context.starved = False
    _enter()
    context.failure = FAILED_NOT
    context.count = 0
    PyThread_release_lock(_lock)


cdef Sampler* _on_clone(const Sampler* sampler) noexcept nogil:
    cdef Context* context = <Context*>sampler.context
    cdef Context* copy = _new()
    if copy == NULL:
        # llama.cpp takes no failure here. Both go on as one that has failed.
        _fail(context, FAILED_MEMORY, -1)
        _add_sampler(context)
        return context.llama.init(<const void*>interface, context)
    copy.llama = context.llama
    copy.vocabulary_size = context.vocabulary_size
    copy.end = context.end
    copy.lifts = context.lifts
    copy.starved = context.starved
    copy.failure = context.failure
    copy.token = context.token
    copy.count = context.count
    copy.samplers = 1
    copy.inner = context.llama.clone(context.inner)
    return context.llama.init(<const void*>interface, copy)


cdef void _on_free(Sampler* sampler) noexcept nogil:
    cdef Context* context = <Context*>sampler.context
    cdef Sampler* inner = NULL
    _enter()
    context.samplers -= 1
    if context.samplers == 0:
        # Now, not with the last Python object that knows of it: the model may be closed by then.
        inner = context.inner
        context.inner = NULL
    PyThread_release_lock(_lock)
    if inner != NULL:
        context.llama.free(inner)
    _drop(context)


interface[0] = <void*>_on_name
interface[1] = <void*>_on_accept
interface[2] = <void*>_on_apply
interface[3] = <void*>_on_reset
interface[4] = <void*>_on_clone
interface[5] = <void*>_on_free


# ------------------------------------------------------------------- from Python

cdef class GbnfState:
    """The state of a grammar sampler of llama.cpp. It may be read while another thread samples.

    ``inner`` is the address of the sampler, which is owned from here on; ``functions`` those of
    ``llama_sampler_init``, ``…_apply``, ``…_accept``, ``…_reset``, ``…_clone`` and ``…_free``.
    ``end`` is an end-of-generation token, or -1 if the model has none. With ``lifts`` a failure
    lifts the constraint. Raises ``ValueError`` for an address of 0, ``MemoryError``.
    """

    cdef Context* context

    def __init__(
        self, uintptr_t inner, functions, *, int64_t vocabulary_size, int32_t end, bint lifts
    ):
        cdef uintptr_t init, apply, accept, reset, clone, release
        if self.context != NULL:
            raise TypeError("a sampler is made once")
        init, apply, accept, reset, clone, release = functions
        if not (inner and init and apply and accept and reset and clone and release):
            raise ValueError("a sampler or a function of llama.cpp has no address")
        self.context = _new()
        if self.context == NULL:
            raise MemoryError
        self.context.llama.init = <Sampler* (*)(const void*, void*) noexcept nogil>init
        self.context.llama.apply = <void (*)(Sampler*, Candidates*) noexcept nogil>apply
        self.context.llama.accept = <void (*)(Sampler*, int32_t) noexcept nogil>accept
        self.context.llama.reset = <void (*)(Sampler*) noexcept nogil>reset
        self.context.llama.clone = <Sampler* (*)(const Sampler*) noexcept nogil>clone
        self.context.llama.free = <void (*)(Sampler*) noexcept nogil>release
        self.context.vocabulary_size = vocabulary_size
        self.context.end = end
        self.context.lifts = lifts
        self.context.inner = <Sampler*>inner

    def __dealloc__(self):
        if self.context != NULL:
            _drop(self.context)

    @staticmethod
    def of(uintptr_t address):
        """The state of the ``llama_sampler`` at ``address``; None if it is none of these."""
        cdef Sampler* sampler = <Sampler*>address
        cdef GbnfState state
        if sampler == NULL or sampler.interface != <const void*>interface:
            return None
        state = GbnfState.__new__(GbnfState)
        _hold(<Context*>sampler.context)
        state.context = <Context*>sampler.context
        return state

    cdef int _check(self) except -1:
        if self.context == NULL:
            raise TypeError("GbnfState.__init__ was not called")
        return 0

    @property
    def lifts(self):
        """Whether a failure lifts the constraint."""
        self._check()
        return self.context.lifts

    def release(self):
        """The address of a new ``llama_sampler``, for llama.cpp to free. To be called once."""
        self._check()
        if self.context.samplers:
            raise RuntimeError("this sampler was released already")
        _add_sampler(self.context)
        sampler = self.context.llama.init(<const void*>interface, self.context)
        return <uintptr_t>sampler

    def failure(self):
        """What went wrong, as (kind, token, tokens accepted before), or None. ``kind`` is
        "refused", "starved" or "memory"; ``token`` the one that was not accepted, -1 for none."""
        self._check()
        _enter()
        kind = self.context.failure
        token = self.context.token
        count = self.context.count
        PyThread_release_lock(_lock)
        if kind == FAILED_NOT:
            return None
        return ("refused", "starved", "memory")[kind - 1], token, count
