# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The kernel that writes -inf over the logits that a bit mask forbids.

It stores the bit pattern of -inf, so that one function serves float16 (which C lacks), float32 and
float64, and any strides. Words of a mask with all bits set are skipped, so that permissive masks
cost little more than reading the mask. Runs without the GIL; the callers in
:mod:`llgx.bitmask` hold what its arguments point into.
"""

from cpython.buffer cimport PyBUF_STRIDES, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

ctypedef fused bits_t:
    uint16_t
    uint32_t
    uint64_t

# -inf in IEEE 754 binary16, binary32 and binary64.
cdef uint16_t HALF_INF = 0xFC00
cdef uint32_t SINGLE_INF = 0xFF800000
cdef uint64_t DOUBLE_INF = 0xFFF0000000000000


cdef void mask_row(
    char* logits,
    Py_ssize_t stride,
    Py_ssize_t count,
    bits_t infinity,
    const uint32_t* words,
    Py_ssize_t allowed,
) noexcept nogil:
    """``infinity`` for all of ``count`` logits whose bit is clear or whose index is not below
    ``allowed``."""
    cdef Py_ssize_t first, last, token
    cdef uint32_t word
    cdef char* at
    for first in range(0, count, 32):
        last = min(first + 32, count)
        word = words[first >> 5] if first < allowed else 0
        if last > allowed > first:
            word &= (<uint32_t>1 << (allowed - first)) - 1
        if word == <uint32_t>0xFFFFFFFF:
            continue
        at = logits + first * stride
        if word == 0 and stride == sizeof(bits_t):
            # Most of most masks, and a stride that the compiler knows.
            for token in range(last - first):
                memcpy(at + token * <Py_ssize_t>sizeof(bits_t), &infinity, sizeof(bits_t))
            continue
        for token in range(last - first):
            # Fields of records may lie anywhere; compilers turn this into one store.
            if not word & 1:
                memcpy(at, &infinity, sizeof(bits_t))
            word >>= 1
            at += stride


def apply_rows(object logits, const int32_t[:, ::1] mask, Py_ssize_t allowed):
    """Mask each row of two-dimensional ``logits`` with the same row of ``mask``.

    The caller has checked: a writable float16, float32 or float64 buffer of native byte order, as
    many rows as the mask, and ``allowed`` no more than the bits of a row.
    """
    cdef Py_buffer buffer
    cdef Py_ssize_t row, stride, count
    cdef char* at
    cdef const uint32_t* words
    PyObject_GetBuffer(logits, &buffer, PyBUF_STRIDES | PyBUF_WRITABLE)
    try:
        stride = buffer.strides[1]
        count = buffer.shape[1]
        if not buffer.shape[0] or not count or not mask.shape[1]:
            return
        with nogil:
            for row in range(buffer.shape[0]):
                at = <char*>buffer.buf + row * buffer.strides[0]
                words = <const uint32_t*>&mask[row, 0]
                if buffer.itemsize == 4:
                    mask_row[uint32_t](at, stride, count, SINGLE_INF, words, allowed)
                elif buffer.itemsize == 2:
                    mask_row[uint16_t](at, stride, count, HALF_INF, words, allowed)
                else:
                    mask_row[uint64_t](at, stride, count, DOUBLE_INF, words, allowed)
    finally:
        PyBuffer_Release(&buffer)
