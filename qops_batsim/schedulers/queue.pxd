cimport cython
from qops_batsim.core.job cimport Job
from qops_batsim.core.scheduler cimport Scheduler

cdef class QueueScheduler(Scheduler):
    @cython.locals(size=Py_ssize_t)
    cpdef submitted(self, Job job)
    cpdef arrived(self, Job job)
