# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The kernel that writes -inf over the logits that a bit mask forbids.

It stores the bit pattern of -inf in units of the element size, so one loop serves float16, float32
and float64, and any strides. Words of a mask with all bits set are skipped, so that permissive
masks cost little more than reading the mask. Runs without the GIL; the callers in
:mod:`llgx.bitmask` hold what its arguments point into.
"""

from cpython.buffer cimport (
    PyBUF_STRIDES, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer,
)
from libc.stdint cimport int32_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef uint16_t HALF_INF = 0xFC00
cdef uint32_t SINGLE_INF = 0xFF800000
cdef uint64_t DOUBLE_INF = 0xFFF0000000000000


cdef void mask_row(
    char* logits,
    Py_ssize_t stride,
    Py_ssize_t count,
    const char* infinity,
    Py_ssize_t size,
    const uint32_t* words,
    Py_ssize_t allowed,
) noexcept nogil:
    """-inf for all of ``count`` logits whose bit is clear or whose index is not below ``allowed``.

    ``infinity`` are the ``size`` bytes of -inf.
    """
    cdef Py_ssize_t first, last, token
    cdef uint32_t word
    for first in range(0, count, 32):
        last = min(first + 32, count)
        word = words[first >> 5] if first < allowed else 0
        if last > allowed > first:
            word &= (<uint32_t>1 << (allowed - first)) - 1
        if word == <uint32_t>0xFFFFFFFF:
            continue
        for token in range(first, last):
            if not word & 1:
                # Constant sizes, so that each becomes one store.
                if size == 4:
                    memcpy(logits + token * stride, infinity, 4)
                elif size == 2:
                    memcpy(logits + token * stride, infinity, 2)
                else:
                    memcpy(logits + token * stride, infinity, 8)
            word >>= 1


def apply_rows(object logits, const int32_t[:, ::1] mask, Py_ssize_t allowed):
    """Mask each row of two-dimensional ``logits`` with the same row of ``mask``.

    The caller has checked: a writable float16, float32 or float64 buffer of native byte order, as
    many rows as the mask, and ``allowed`` no more than the bits of a row.
    """
    cdef Py_buffer buffer
    cdef const char* infinity
    cdef Py_ssize_t row
    PyObject_GetBuffer(logits, &buffer, PyBUF_STRIDES | PyBUF_WRITABLE)
    try:
        if buffer.itemsize == 4:
            infinity = <const char*>&SINGLE_INF
        elif buffer.itemsize == 2:
            infinity = <const char*>&HALF_INF
        else:
            infinity = <const char*>&DOUBLE_INF
        if not buffer.shape[0] or not buffer.shape[1] or not mask.shape[1]:
            return
        with nogil:
            for row in range(buffer.shape[0]):
                mask_row(
                    <char*>buffer.buf + row * buffer.strides[0],
                    buffer.strides[1],
                    buffer.shape[1],
                    infinity,
                    buffer.itemsize,
                    <const uint32_t*>&mask[row, 0],
                    allowed,
                )
    finally:
        PyBuffer_Release(&buffer)
