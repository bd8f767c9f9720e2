# Only for other extension modules, which cimport it (_captures.pxd): no names for Python.
