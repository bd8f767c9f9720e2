# Only for other extension modules, which cimport it (_emptiness.pxd): no names for Python.
