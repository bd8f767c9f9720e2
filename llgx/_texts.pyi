# Only for other extension modules, which cimport it (_texts.pxd): no names for Python.
