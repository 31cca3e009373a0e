cimport cython
from qops_batsim.core.job cimport Job
from qops_batsim.core.scheduler cimport ResourceManager, Scheduler
from qops_batsim.schedulers.queue_scheduler cimport Queue, QueueScheduler

cdef double INFINITY, _PLAN_TOLERANCE, _GRID_TOLERANCE, _MAX_SECONDS
cdef int FCFS, SJF, LJF, SAF, F1, F2, F3, F4, LXF, WFP3, UNICEF, OWN

@cython.locals(duration=double, processors=Py_ssize_t, ratio=double, logarithm=double, since=double)
cpdef double key_in(int order, double wait, Job job) except? -1

cdef int _WAITING
cdef Py_ssize_t _BLOCK, _SHORT_QUEUE

cdef class Easy(QueueScheduler):
    cdef int reserving, backfilling
    cdef bint has_key, has_order, predicts, is_sorted, chooses
    cdef double patience
    cdef Py_ssize_t extra
    cdef list gone, new, held
    cdef object past
    cpdef begin(self, ResourceManager manager)
    cpdef arrived(self, Job job)
    cdef set_key(self, Job job)
    cpdef ended(self, Job job)
    @cython.locals(free=Py_ssize_t, queue=Queue)
    cpdef schedule(self)
    cdef prepare(self)
    @cython.locals(jobs=list, manager=ResourceManager, job=Job, now=double, extra=Py_ssize_t, count=Py_ssize_t, first=Py_ssize_t, used=Py_ssize_t, present=Py_ssize_t, block=Py_ssize_t, behind=Py_ssize_t, before=Py_ssize_t, place=Py_ssize_t, needed=Py_ssize_t, latest=double, end=double, is_reserved=bint, is_short=bint)
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
    @cython.locals(ahead=Easy, manager=ResourceManager, each=Job, copy=Job, found=Job, waiting=list, is_new=bint)
    cpdef double expected_end(self, Job job) except? -1
    @cython.locals(job=Job)
    cdef predict(self, double now)
    @cython.locals(running=list, job=Job, end=double, left=double, step=double, place=Py_ssize_t)
    cdef correct(self, double now)

@cython.locals(copy=Job)
cdef Job copy_of(Job job)
