# Only for other extension modules, which cimport it (_saturation.pxd): no names for Python.
