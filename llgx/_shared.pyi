# Only for other extension modules, which cimport it (_mask.pxd): no names for Python.
