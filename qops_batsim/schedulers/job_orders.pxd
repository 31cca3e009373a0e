cimport cython
from qops_batsim.core.job cimport Job

cdef double MAX_SECONDS, _INFINITY
cdef int FCFS, SJF, LJF, SAF, LXF, WFP3, UNICEF, F1, F2, F3, F4, LAXITY, DEADLINE

@cython.locals(duration=double, size=double, is_known=bint, ratio=double, logarithm=double, since=double)
cpdef double key_in(int order, double wait, Job job) except? -1
