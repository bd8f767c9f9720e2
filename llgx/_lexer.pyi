# Only for other extension modules, which cimport it (_lexer.pxd): no names for Python.
