# Only for other extension modules, which cimport it (_difference.pxd): no names for Python.
