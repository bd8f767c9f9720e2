# Only for other extension modules, which cimport it (_lower.pxd): no names for Python.
