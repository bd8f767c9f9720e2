# Only for other extension modules, which cimport it (_exact.pxd): no names for Python.
