# Only for other extension modules, which cimport it (_classes.pxd): no names for Python.
