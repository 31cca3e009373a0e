cimport cython
from qops_batsim.core.job cimport Job
from qops_batsim.schedulers.queue_scheduler cimport Queue, QueueScheduler

cdef int WAITING

cdef class Fcfs(QueueScheduler):
    @cython.locals(queue=Queue, jobs=list, job=Job)
    cpdef schedule(self)
    @cython.locals(job=Job)
    cdef start_allowed(self)
