from qops_batsim.core.job cimport Job
from qops_batsim.core.scheduler cimport ResourceManager
from qops_batsim.schedulers.easy cimport Easy
from qops_batsim.schedulers.queue_scheduler cimport QueueScheduler

cdef class PricedQueues(Easy):
    cdef dict ranks  # names of queues -> rank, 0 the dearest
    cdef dict chosen  # id of a waiting job -> rank of its queue

    # By rank: the mean wait (seconds) of the last jobs that started, and how many have
    cdef list waits, observed

    # Jobs that took the dearest queue in this period, of which the first so many have its priority
    cdef object limit
    cdef double period  # its number; -1 before the first
    cdef Py_ssize_t served

    cpdef begin(self, ResourceManager manager)
    cpdef start(self, Job job, object hosts=*)
