# Only for other extension modules, which cimport it (_regex.pxd): no names for Python.
