# Only for other extension modules, which cimport it (_scopes.pxd): no names for Python.
