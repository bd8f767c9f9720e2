# Only for other extension modules, which cimport it (_shared.pxd): no names for Python.
