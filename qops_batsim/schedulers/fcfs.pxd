cimport cython
from qops_batsim.core.job cimport Job
from qops_batsim.core.scheduler cimport ResourceManager, Scheduler
from qops_batsim.schedulers.queue cimport QueueScheduler

cdef class Fcfs(QueueScheduler):
    cdef list queue
    cdef Py_ssize_t first
    cpdef begin(self, ResourceManager manager)
    cpdef arrived(self, Job job)
    @cython.locals(queue=list, job=Job)
    cpdef decide(self)
