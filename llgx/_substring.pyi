# Only for other extension modules, which cimport it (_substring.pxd): no names for Python.
