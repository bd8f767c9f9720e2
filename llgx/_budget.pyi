# Only for other extension modules, which cimport it (_budget.pxd): no names for Python.
