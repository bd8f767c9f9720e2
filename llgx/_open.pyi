# Only for other extension modules, which cimport it (_open.pxd): no names for Python.
