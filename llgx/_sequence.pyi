# Only for other extension modules, which cimport it (_sequence.pxd): no names for Python.
