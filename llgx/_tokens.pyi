# Only for other extension modules, which cimport it (_tokens.pxd): no names for Python.
