# Only for other extension modules, which cimport it (_flat.pxd): no names for Python.
