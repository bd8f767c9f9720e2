# Only for other extension modules, which cimport it (_suffixes.pxd): no names for Python.
