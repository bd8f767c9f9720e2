# Only for other extension modules, which cimport it (_filter.pxd): no names for Python.
