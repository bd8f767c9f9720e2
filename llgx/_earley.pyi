# Only for other extension modules, which cimport it (_earley.pxd): no names for Python.
