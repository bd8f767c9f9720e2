# Only for other extension modules, which cimport it (_closed.pxd): no names for Python.
