# Only for other extension modules, which cimport it (_endless.pxd): no names for Python.
