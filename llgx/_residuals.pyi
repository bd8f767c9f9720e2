# Only for other extension modules, which cimport it (_residuals.pxd): no names for Python.
