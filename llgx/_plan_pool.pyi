# Only for other extension modules, which cimport it (_plan_pool.pxd): no names for Python.
