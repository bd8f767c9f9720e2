# cython: language_level=3, boundscheck=False, wraparound=False
# cython: initializedcheck=False, cdivision=True
"""Masks of many matchers at a time.

The matchers are sorted by their compiled grammars. Those of one grammar are served one after the
other by one thread, since they share its lock and its memos: what one finds, the next takes.
Threads divide the grammars among themselves; everything is done without the GIL.

Invariant: each row is written whole or, where its mask meets a limit, not at all.

Cost: a copy of the row for each mask that is known, 0.3 to 1 µs for 128k tokens; handing work to a
thread takes some 50 µs.
"""

from libc.stdint cimport int32_t, uint64_t
from libc.stdlib cimport calloc, free, qsort

from cpython.buffer cimport PyBuffer_Release

from llgx._core cimport Matcher
from llgx._lower cimport raise_fault
from llgx._mask_buffer cimport mask_open, mask_stride
from llgx._memory cimport Fault
from llgx._sequence cimport (
    Program, Step, program_acquire, program_release, step_mask,
)

import os
from concurrent.futures import ThreadPoolExecutor

from llgx.arguments import check_list

cdef enum:
    PIECES = 4      # that the work is cut into for each thread, since grammars differ in their cost

cdef struct Job:
    const Program* program
    const Step* step
    uint64_t* scratch
    int32_t* out
    Py_ssize_t place     # of the matcher
    Fault fault


cdef int _in_order(const void* left, const void* right) noexcept nogil:
    cdef const Job* a = <const Job*>left
    cdef const Job* b = <const Job*>right
    if a.program != b.program:
        return -1 if <size_t>a.program < <size_t>b.program else 1
    return -1 if a.place < b.place else 1


cdef void _run(Job* jobs, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(begin, end):
        program_acquire(jobs[i].program)
        step_mask(jobs[i].program, jobs[i].step, jobs[i].out, jobs[i].scratch)
        jobs[i].fault = program_release(jobs[i].program)


cdef class _Batch:
    """The work of one call. It holds the matchers; nothing of theirs changes meanwhile."""

    cdef list matchers
    cdef Job* jobs
    cdef Py_ssize_t count
    cdef Py_buffer view      # of the mask, for as long as a thread may write to it
    cdef bint is_open

    def __cinit__(self, list matchers, mask):
        self.matchers = matchers
        mask_open(mask, &self.view)
        self.is_open = True
        self.jobs = <Job*>calloc(len(matchers) + 1, sizeof(Job))
        if self.jobs == NULL:
            raise MemoryError

    def __dealloc__(self):
        self._close()
        free(self.jobs)

    cdef void _close(self):
        if self.is_open:
            self.is_open = False
            PyBuffer_Release(&self.view)

    cdef void _add(self, Matcher matcher, Py_ssize_t place, char* out):
        cdef Job* job = &self.jobs[self.count]
        job.program = matcher.program
        job.step = &matcher.steps[matcher.count]
        job.scratch = matcher.scratch
        job.out = <int32_t*>out
        job.place = place
        self.count += 1

    def run(self, Py_ssize_t begin, Py_ssize_t end):
        """Fill the rows of the jobs from ``begin`` to ``end``."""
        with nogil:
            _run(self.jobs, begin, end)

    cdef list _pieces(self, Py_ssize_t most):
        """At most so many ranges of jobs; those of one grammar are in one."""
        cdef list pieces = []
        cdef Py_ssize_t begin = 0, end
        cdef Py_ssize_t size = (self.count + most - 1) // most
        while begin < self.count:
            end = min(begin + size, self.count)
            while end < self.count and self.jobs[end].program == self.jobs[end - 1].program:
                end += 1
            pieces.append((begin, end))
            begin = end
        return pieces

    cdef int _raise(self) except -1:
        """Raise what the first of the matchers met with, if any did."""
        cdef Job* first = NULL
        cdef Py_ssize_t i
        for i in range(self.count):
            if self.jobs[i].fault.code and (first == NULL or self.jobs[i].place < first.place):
                first = &self.jobs[i]
        if first != NULL:
            raise_fault(&first.fault, (<Matcher>self.matchers[first.place]).grammar.limits)
        return 0


_pool = None


def _executor():
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="llgx-masks")
    return _pool


def _forget_executor():
    global _pool
    _pool = None


# The threads of a pool stay behind in the parent.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_executor)


def fill_bitmasks(matchers, mask, *, threads=1):
    """Fill row i of ``mask`` for matcher i; ``None`` leaves its row as it is.

    Equal to ``fill_bitmask`` on each; all matchers must have vocabularies of one size. ``threads``
    is how many threads take part, the caller's among them, as far as there are cores: they divide
    the compiled grammars among themselves, so that it is of use where several grammars have masks
    to compute, and of little where all are known. The GIL is released; no matcher may be used
    meanwhile.

    Raises what ``fill_bitmask`` raises. A mask that meets a limit leaves its row as it is, and all
    others are written; other errors leave all of ``mask`` as it is.
    """
    cdef list each = list(check_list(matchers, "matchers", "Matcher objects"))
    cdef Py_ssize_t i, stride, width = -1, other
    cdef _Batch batch
    cdef list pieces
    if type(threads) is not int:
        raise TypeError(f"threads is an int, not {type(threads).__name__}")
    if threads < 1:
        raise ValueError(f"threads is a number from 1 on, not {threads}")
    for matcher in each:
        if matcher is None:
            continue
        if not isinstance(matcher, Matcher):
            raise TypeError(f"not a Matcher: {type(matcher).__name__}")
        other = ((<Matcher>matcher).grammar.trie.vocabulary_size + 31) // 32
        if other != width and width >= 0:
            raise ValueError("the matchers have vocabularies of several sizes")
        width = other
    batch = _Batch(each, mask)
    if width < 0:
        width = batch.view.shape[1] if batch.view.ndim == 2 else 0
    stride = mask_stride(&batch.view, width)
    if len(each) > batch.view.shape[0]:
        raise ValueError(f"{len(each)} matchers for a mask of {batch.view.shape[0]} rows")
    for i in range(len(each)):
        if each[i] is not None:
            batch._add(each[i], i, <char*>batch.view.buf + i * stride)
    qsort(batch.jobs, batch.count, sizeof(Job), _in_order)
    threads = min(threads, batch.count)
    pieces = batch._pieces(PIECES * threads) if threads > 1 else []
    if len(pieces) > 1:
        _share(batch, pieces, threads)
    else:
        batch.run(0, batch.count)
    batch._close()
    batch._raise()


def _share(_Batch batch, list pieces, Py_ssize_t threads):
    """Let threads, this one among them, take piece after piece."""
    todo = iter(pieces)     # next() of a list's iterator is atomic

    def work():
        for begin, end in todo:
            batch.run(begin, end)

    waiting = []
    for _ in range(min(threads, len(pieces)) - 1):
        try:
            waiting.append(_executor().submit(work))
        except RuntimeError:
            break           # the interpreter is shutting down: this thread does all
    work()
    # An interrupt here leaves the threads at work; they hold the batch, and that the array.
    for future in waiting:
        future.result()
