# Only for other extension modules, which cimport it (_parameters.pxd): no names for Python.
