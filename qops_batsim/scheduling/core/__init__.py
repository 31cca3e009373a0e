"""The decision core: every rule of planning once, as kernels over named tuples of arrays."""
