# cython: language_level=3
"""Arrays that masks are written to, as the caller hands them over: opened for writing, checked.

Any writable buffer will do. For an array of NumPy, which has to describe its contents in words for
each buffer that it hands out, the fields are read instead: a tenth of the time.
"""

from cpython.buffer cimport (
    PyBUF_FORMAT, PyBUF_STRIDES, PyBUF_WRITABLE, PyObject_GetBuffer,
)

cdef extern from "numpy/ndarraytypes.h" nogil:
    ctypedef struct PyArrayObject:
        pass
    enum:
        NPY_ARRAY_BEHAVED
        NPY_INT
        NPY_LONG
        NPY_SIZEOF_LONG
    void* PyArray_DATA(const PyArrayObject*)
    int PyArray_NDIM(const PyArrayObject*)
    int PyArray_TYPE(const PyArrayObject*)
    bint PyArray_CHKFLAGS(const PyArrayObject*, int)
    bint PyArray_ISNOTSWAPPED(const PyArrayObject*)
    Py_ssize_t PyArray_DIM(const PyArrayObject*, int)
    Py_ssize_t PyArray_STRIDE(const PyArrayObject*, int)


cdef inline char* array_row(mask, Py_ssize_t width, Py_ssize_t row) noexcept:
    """Row ``row`` of ``mask``, an ``ndarray``; NULL if that has no such row, or is not as
    :c:func:`mask_stride` wants it."""
    cdef const PyArrayObject* array = <const PyArrayObject*>mask
    cdef int kind = PyArray_TYPE(array)
    cdef Py_ssize_t stride
    if not (kind == NPY_INT or (kind == NPY_LONG and NPY_SIZEOF_LONG == 4)) \
            or not PyArray_CHKFLAGS(array, NPY_ARRAY_BEHAVED) or not PyArray_ISNOTSWAPPED(array) \
            or PyArray_NDIM(array) != 2 or PyArray_DIM(array, 1) != width \
            or not 0 <= row < PyArray_DIM(array, 0) \
            or (PyArray_STRIDE(array, 1) != 4 and width > 1):
        return NULL
    stride = PyArray_STRIDE(array, 0)
    return NULL if stride < 0 else <char*>PyArray_DATA(array) + row * stride


cdef inline int mask_open(mask, Py_buffer* view) except -1:
    """Take a writable buffer of ``mask``, which the caller releases.

    To be taken for each call: NumPy lets an array be reshaped, retyped or made read-only while a
    buffer of it is held.
    """
    try:
        PyObject_GetBuffer(mask, view, PyBUF_WRITABLE | PyBUF_FORMAT | PyBUF_STRIDES)
    except BufferError as error:
        raise ValueError(f"the mask cannot be written to: {error}") from None
    except TypeError:
        raise TypeError(f"a mask is an int32 array, not {type(mask).__name__}") from None
    return 0


cdef inline Py_ssize_t mask_stride(Py_buffer* view, Py_ssize_t width) except -1:
    """The bytes from one row to the next of a mask of so many words a row; raises if it is not as
    it should be."""
    cdef const char* code = view.format
    if code != NULL and (code[0] == c"@" or code[0] == c"=" or code[0] == c"<"):
        code += 1
    if view.itemsize != 4 or code == NULL or not (code[0] == c"i" or code[0] == c"l") \
            or code[1] != 0:
        given = "bytes" if view.format == NULL else view.format.decode()
        raise TypeError(f"the mask must be of dtype int32, not {given!r}")
    if view.ndim != 2 or view.shape[1] != width:
        shape = tuple([view.shape[i] for i in range(view.ndim)])
        raise ValueError(f"the mask must have shape (batch, {width}), not {shape}")
    if view.strides == NULL:
        return 4 * width  # contiguous
    if view.strides[1] != 4 and width > 1:
        raise ValueError("the rows of the mask must be contiguous")
    if view.strides[0] < 0:
        raise ValueError("the rows of the mask must be in rising order")
    return view.strides[0]
