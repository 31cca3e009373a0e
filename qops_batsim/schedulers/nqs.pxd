cimport cython
from qops_batsim.core.job cimport Job
from qops_batsim.core.scheduler cimport ResourceManager, Scheduler
from qops_batsim.schedulers.queue_scheduler cimport QueueScheduler

cdef int WAITING

cdef class Nqs(QueueScheduler):
    cdef bint blocks_all  # a head that does not fit holds up the queues behind its own, too
    cdef dict ranks  # names of queues -> priority, 0 the highest; others come after them

    # Of a run
    cdef dict lines  # Place -> deque of jobs; keys in order of priority
    cdef dict queue_of  # id of a running job -> name of its queue
    cdef object counts  # name of a queue -> its running jobs (Counter)

    cpdef begin(self, ResourceManager manager)
    cpdef arrived(self, Job job)
    @cython.locals(job=Job)
    cpdef list waiting(self)
    cpdef place(self, Job job)
    cpdef ended(self, Job job)
    @cython.locals(job=Job)
    cpdef schedule(self)
