cimport cython
from qops_batsim.core.job cimport Job
from qops_batsim.core.scheduler cimport ResourceManager, Scheduler
from qops_batsim.schedulers.queue_scheduler cimport QueueScheduler

cdef int _WAITING

cdef class Nqs(QueueScheduler):
    cdef bint blocks_all
    cdef dict ranks, lines, queue_of
    cdef object counts
    cpdef begin(self, ResourceManager manager)
    cpdef arrived(self, Job job)
    @cython.locals(job=Job)
    cpdef list waiting(self)
    cpdef place(self, Job job)
    cpdef ended(self, Job job)
    @cython.locals(job=Job)
    cpdef schedule(self)
