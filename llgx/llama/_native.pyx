# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Loops over a whole vocabulary: reading its tokens, constraining its logits.

llama.cpp is not linked. Its functions are called through the addresses that ctypes found in the
library that llama-cpp-python loaded, so llgx is built without llama.cpp's headers and fits every
build of it (CPU, CUDA, Metal). Their signatures are those of ``llama.h`` and unchanged since
llama-cpp-python 0.3.8.

Invariant: every id passed to llama.cpp is below the number of tokens that it reported; llama.cpp
throws a C++ exception for any other, which ends the process.

Cost: :func:`read_tokens` about 0.1 µs a token plus the bytes objects; :func:`constrain` and
:func:`force` one pass over the logits, about 0.3 ms for 262,144 of them, without the GIL.
"""

from cpython.buffer cimport (
    PyBUF_FORMAT, PyBUF_STRIDES, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer,
)
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.float cimport FLT_MAX
from libc.math cimport INFINITY
from libc.stdint cimport int32_t, uint32_t, uintptr_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, strlen

cdef extern from "<stdbool.h>" nogil:
    ctypedef bint c_bool "bool"

ctypedef int32_t (*token_to_piece_t)(
    const void*, int32_t, char*, int32_t, int32_t, c_bool
) noexcept nogil
ctypedef int (*get_attr_t)(const void*, int32_t) noexcept nogil
ctypedef const char* (*get_text_t)(const void*, int32_t) noexcept nogil
ctypedef c_bool (*is_eog_t)(const void*, int32_t) noexcept nogil

cdef enum:
    # enum llama_token_attr
    UNKNOWN = 1 << 0
    CONTROL = 1 << 3
    USER_DEFINED = 1 << 4

    # Longer pieces exist (runs of spaces or dashes, for instance), but are few.
    PIECE_BYTES = 256


cdef bytes piece_of(
    token_to_piece_t token_to_piece, const void* vocab, int32_t token, bint special
):
    """The bytes that llama.cpp prints for ``token``, whatever their number."""
    cdef char short_piece[PIECE_BYTES]
    cdef char* long_piece
    cdef int32_t size = token_to_piece(vocab, token, short_piece, PIECE_BYTES, 0, special)
    if size >= 0:
        return PyBytes_FromStringAndSize(short_piece, size)
    long_piece = <char*>malloc(-size)
    if long_piece == NULL:
        raise MemoryError
    try:
        size = token_to_piece(vocab, token, long_piece, -size, 0, special)
        if size < 0:
            raise RuntimeError(f"llama_token_to_piece asks for ever more room for token {token}")
        return PyBytes_FromStringAndSize(long_piece, size)
    finally:
        free(long_piece)


cdef bint is_tag(bytes piece):
    return len(piece) > 2 and piece.startswith(b"<") and piece.endswith(b">")


def read_tokens(
    uintptr_t vocab,
    int32_t count,
    *,
    uintptr_t token_to_piece,
    uintptr_t get_attr,
    uintptr_t get_text,
    uintptr_t is_eog,
):
    """Bytes of all tokens, ids of the special ones, ids that end a generation.

    A token is special when llama.cpp prints nothing for it in plain text (control, unknown and
    unused tokens), or when it is user-defined and looks like a tag, ``<...>``: such tokens are
    markup for the model, and grammars name them as special tokens. Special tokens get the text
    that llama.cpp prints on request, or else the one stored in the model.
    """
    cdef token_to_piece_t piece_function = <token_to_piece_t>token_to_piece
    cdef get_attr_t attr_function = <get_attr_t>get_attr
    cdef get_text_t text_function = <get_text_t>get_text
    cdef is_eog_t eog_function = <is_eog_t>is_eog
    cdef const void* model = <const void*>vocab
    cdef list tokens = []
    cdef list special = []
    cdef list eog = []
    cdef bytes piece
    cdef const char* text
    cdef int32_t token
    cdef int attr
    for token in range(count):
        attr = attr_function(model, token)
        piece = piece_of(piece_function, model, token, False)
        if (
            not piece
            or attr & (CONTROL | UNKNOWN)
            or (attr & USER_DEFINED and is_tag(piece))
        ):
            piece = piece_of(piece_function, model, token, True)
            if not piece:
                text = text_function(model, token)
                if text != NULL:
                    piece = PyBytes_FromStringAndSize(text, strlen(text))
            # A token without any text is no special token, only an empty one.
            if piece:
                special.append(token)
        tokens.append(piece)
        if eog_function(model, token):
            eog.append(token)
    return tokens, special, eog


cdef uint32_t MINUS_INFINITY = 0xFF800000  # the bits of the float


cdef struct Logits:
    char* at             # first one
    Py_ssize_t stride    # bytes from one to the next
    Py_ssize_t count


cdef inline float load(const char* at) noexcept nogil:
    # Fields of records may lie anywhere; compilers turn this into one load.
    cdef float value
    memcpy(&value, at, sizeof(float))
    return value


cdef inline void store(char* at, float value) noexcept nogil:
    memcpy(at, &value, sizeof(float))


cdef bint constrain_row(Logits logits, const uint32_t* words, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t token = 0
    cdef Py_ssize_t first, last
    cdef uint32_t word, keep, bits
    cdef char* at
    cdef float value
    # Whether anything is left has to be known before the first store. Usually this looks at one
    # allowed token; words without any are skipped.
    while token < size:
        if not words[token >> 5] >> (token & 31):
            token = (token | 31) + 1
            continue
        if words[token >> 5] >> (token & 31) & 1:
            if load(logits.at + token * logits.stride) > -INFINITY:
                break
        token += 1
    if token >= size:
        return False
    at = logits.at
    for first in range(0, size, 32):
        word = words[first >> 5]
        last = min(first + 32, size)
        # Most words are zero where a grammar demands something; the others are too irregular for
        # the branch predictor, so that loop has no branches.
        if word == 0:
            for token in range(first, last):
                store(at, -INFINITY)
                at += logits.stride
        else:
            for token in range(first, last):
                value = min(load(at), FLT_MAX)
                # All bits if the logit stays; NaN compares false.
                keep = 0 - ((word & 1) & <uint32_t>(value > -INFINITY))
                memcpy(&bits, &value, sizeof(float))
                bits = (bits & keep) | (MINUS_INFINITY & ~keep)
                memcpy(at, &bits, sizeof(float))
                word >>= 1
                at += logits.stride
    for token in range(size, logits.count):
        store(at, -INFINITY)
        at += logits.stride
    return True


cdef int view_logits(object source, Py_buffer* buffer, Logits* logits) except -1:
    """Fill ``logits`` from a writable one-dimensional buffer of native floats."""
    cdef bytes form
    PyObject_GetBuffer(source, buffer, PyBUF_STRIDES | PyBUF_FORMAT | PyBUF_WRITABLE)
    form = buffer.format if buffer.format != NULL else b"B"
    if buffer.ndim != 1 or buffer.itemsize != sizeof(float) or form.lstrip(b"@=") != b"f":
        shape = tuple(buffer.shape[i] for i in range(buffer.ndim))
        PyBuffer_Release(buffer)
        raise TypeError(
            f"logits must be one row of native float32, not shape {shape} of {form.decode()!r}"
        )
    logits.at = <char*>buffer.buf
    logits.stride = buffer.strides[0]
    logits.count = buffer.shape[0]
    return 0


def constrain(object scores, const int32_t[::1] mask, Py_ssize_t size):
    """Leave only the tokens below ``size`` whose bit in ``mask`` is set; whether any is left.

    Works in place on any stride. The others, those with the logit NaN among them, become -inf; an
    infinite logit becomes the largest finite one, since the softmax of infinity is NaN. A token
    with the logit -inf or NaN cannot be sampled: where all allowed ones are such, the result is
    False and nothing is written. Raises :class:`TypeError` for other types and
    :class:`ValueError` for fewer logits or mask bits than ``size``.
    """
    cdef Py_buffer buffer
    cdef Logits logits
    cdef bint left
    view_logits(scores, &buffer, &logits)
    try:
        if not 0 <= size <= logits.count:
            raise ValueError(f"{logits.count} logits for {size} tokens")
        if mask.shape[0] < (size + 31) // 32:
            raise ValueError(f"a mask of {mask.shape[0]} words for {size} tokens")
        if not size:
            return False
        with nogil:
            left = constrain_row(logits, <const uint32_t*>&mask[0], size)
        return left
    finally:
        PyBuffer_Release(&buffer)


def force(object scores, Py_ssize_t token):
    """Make ``token`` the only one that can be sampled: its logit 0, all others -inf.

    Works in place on any stride. Raises :class:`TypeError` for other types and
    :class:`ValueError` for a token without a logit.
    """
    cdef Py_buffer buffer
    cdef Logits logits
    cdef Py_ssize_t i
    view_logits(scores, &buffer, &logits)
    try:
        if not 0 <= token < logits.count:
            raise ValueError(f"token {token} is none of {logits.count} logits")
        with nogil:
            for i in range(logits.count):
                store(logits.at + i * logits.stride, 0.0 if i == token else -INFINITY)
    finally:
        PyBuffer_Release(&buffer)
