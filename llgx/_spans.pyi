# Only for other extension modules, which cimport it (_spans.pxd): no names for Python.
