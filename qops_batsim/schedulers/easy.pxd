cimport cython
from qops_batsim.core.job cimport Job
from qops_batsim.core.scheduler cimport ResourceManager, Scheduler
from qops_batsim.schedulers.job_orders cimport key_in
from qops_batsim.schedulers.queue_scheduler cimport Queue, QueueScheduler

cdef double INFINITY, PLAN_TOLERANCE, GRID_TOLERANCE
cdef int FCFS, OWN
cdef int WAITING
cdef Py_ssize_t BLOCK, _SHORT_QUEUE

cdef class Easy(QueueScheduler):
    # The order: indices in ORDERS, for the reservation and for jobs behind it
    cdef int reserving, backfilling
    cdef double patience  # jobs that have waited so long come first; infinite: none
    cdef bint has_key, has_order  # a subclass overrides key(), order()
    cdef bint is_sorted  # keys are set at the arrival and stay; the queue is sorted unless chooses
    cdef bint chooses  # choose() starts jobs, not start_in_order()

    # A pass
    cdef Py_ssize_t extra  # processors left over at the last shadow time
    cdef list held  # chosen jobs whose processors are not reported free yet; empty between passes

    # Predictions: jobs that have ended or arrived since the last decision
    cdef bint predicts
    cdef list gone, new
    cdef object past

    cpdef begin(self, ResourceManager manager)
    cpdef arrived(self, Job job)
    cdef set_key(self, Job job)
    cpdef ended(self, Job job)
    @cython.locals(free=Py_ssize_t, queue=Queue)
    cpdef schedule(self)
    cdef prepare(self)
    @cython.locals(jobs=list, manager=ResourceManager, job=Job, now=double, extra=Py_ssize_t, started=Py_ssize_t, first=Py_ssize_t, used=Py_ssize_t, present=Py_ssize_t, block=Py_ssize_t, behind=Py_ssize_t, before=Py_ssize_t, place=Py_ssize_t, needed=Py_ssize_t, latest=double, end=double, is_reserved=bint, is_short=bint)
    cdef start_in_order(self, Queue queue, Py_ssize_t free)
    @cython.locals(manager=ResourceManager, job=Job, now=double, extra=Py_ssize_t, present=Py_ssize_t, place=Py_ssize_t, index=Py_ssize_t, needed=Py_ssize_t, latest=double, end=double, is_reserved=bint, has_keys=bint, order=int, best=double, key=double, wait=double)
    cdef choose(self, list queue, Py_ssize_t free)
    cdef hold(self, Job job)
    @cython.locals(job=Job)
    cdef release(self)
    @cython.locals(manager=ResourceManager, job=Job, under_way=Py_ssize_t)
    cdef Py_ssize_t ending(self) except -1
    @cython.locals(running=list, job=Job, now=double, grace=double, shadow=double, tolerance=double, available=Py_ssize_t, place=Py_ssize_t)
    cdef double shadow_of(self, Py_ssize_t needed, Py_ssize_t free) except? -1
    cpdef list line(self)
    @cython.locals(ahead=Easy, manager=ResourceManager, other=Job, copy=Job, own_copy=Job, waiting=list, is_new=bint)
    cpdef double expected_end(self, Job job) except? -1
    @cython.locals(job=Job)
    cdef predict(self, double now)
    @cython.locals(running=list, job=Job, end=double, left=double, step=double, place=Py_ssize_t)
    cdef correct(self, double now)

@cython.locals(copy=Job)
cdef Job copy_of(Job job)
