# cython: language_level=3
"""Where a vocabulary keeps plans; see ``_plan_pool.pyx``."""

from libc.stdint cimport uint32_t, uint64_t

from llgx._memory cimport queue_take
from llgx._trie cimport PlanPool, SharedBits, SharedPlan, TablePool

cdef enum:
    FIRST_PLAN = 1       # values in ``PlanPool.index`` from here on are plans
    MET_STATES = 1 << 16 # of ``PlanPool.met``

cdef SharedBits* shared_bits(PlanPool* pool, const uint64_t* bits) noexcept nogil
cdef void shared_plan_free(TablePool* tables, SharedPlan* plan) noexcept nogil
cdef void shared_plan_drop(TablePool* tables, SharedPlan* plan) noexcept nogil
cdef bint plan_pool_met(TablePool* tables, uint64_t digest) noexcept nogil
cdef void plan_pool_take(
    TablePool* tables, SharedPlan* plan, uint32_t place, uint32_t state
) noexcept nogil
cdef void plan_pool_renew(TablePool* tables) noexcept nogil
cdef void plan_pool_free(TablePool* tables) noexcept nogil


cdef inline void shared_plan_hold(PlanPool* pool, SharedPlan* plan) noexcept nogil:
    """Count one more engine that uses a plan. Lock held."""
    if plan.references == 0:
        queue_take(&pool.unused, &plan.link)
    plan.references += 1
