# Only for other extension modules, which cimport it (_byte_classes.pxd).
