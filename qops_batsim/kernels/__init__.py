"""Compiling the hot loops.

Kernels are small functions over arrays and named tuples of arrays, which numba compiles. They
are compiled once for an installation and kept (``store``); only the first run pays for it.
Later ones load the machine code and call it without numba, whose start takes longer than most
runs.
"""

from qops_batsim.kernels.compiled import Steady, interpreted, kernel, lean_kernel, listening

__all__ = ["Steady", "interpreted", "kernel", "lean_kernel", "listening"]
