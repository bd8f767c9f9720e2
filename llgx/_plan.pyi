# Only for other extension modules, which cimport it (_plan.pxd): no names for Python.
