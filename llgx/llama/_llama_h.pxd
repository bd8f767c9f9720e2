# cython: language_level=3
"""What llgx uses of ``llama.h``: the layout of samplers and candidates."""

from libc.stdint cimport int32_t, int64_t

cdef extern from "<stdbool.h>" nogil:
    ctypedef bint c_bool "bool"

cdef struct Candidate:       # llama_token_data
    int32_t id
    float logit
    float p

cdef struct Candidates:      # llama_token_data_array
    Candidate* data
    size_t size
    int64_t selected         # a place in ``data``, or -1
    c_bool sorted

cdef struct Sampler:         # llama_sampler
    const void* interface
    void* context

ctypedef Sampler* (*init_t)(const void* interface, void* context) noexcept nogil
