from qops_batsim.core.job cimport Job
from qops_batsim.core.scheduler cimport ResourceManager
from qops_batsim.schedulers.easy cimport Easy
from qops_batsim.schedulers.queue_scheduler cimport QueueScheduler

cdef class PricedQueues(Easy):
    cdef dict ranks, chosen
    cdef object limit
    cdef list waits, observed
    cdef double period
    cdef Py_ssize_t served
    cpdef begin(self, ResourceManager manager)
    cpdef start(self, Job job, object hosts=*)
