# Only for other extension modules, which cimport it (_inside.pxd): no names for Python.
