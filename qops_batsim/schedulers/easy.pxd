cimport cython
from qops_batsim.core.job cimport Job
from qops_batsim.core.scheduler cimport ResourceManager, Scheduler
from qops_batsim.schedulers.queue cimport QueueScheduler
from qops_batsim.timing cimport up_to_grid

cdef double INFINITY, _PLAN_TOLERANCE, _GRID_TOLERANCE, _MAX_SECONDS, _SHORTEST
cdef int FCFS, SJF, LJF, SAF, F1, F2, F3, F4, LXF, WFP3, UNICEF, OWN

@cython.locals(duration=double, processors=Py_ssize_t, ratio=double, logarithm=double, since=double)
cdef double key_in(int order, double wait, Job job) except? -1

cdef Py_ssize_t _BLOCK, _WIDTHS, _SHORT_QUEUE
cdef long long _NO_WIDTH

@cython.locals(width=Py_ssize_t)
cdef Py_ssize_t width_of(Py_ssize_t processors) noexcept

cdef class Queue:
    cdef readonly list jobs
    cdef Py_ssize_t waiting, summarized, blocks
    cdef long long[::1] narrowest
    cdef double[::1] shortest
    @cython.locals(jobs=list, place=Py_ssize_t, earlier=Job)
    cpdef insert(self, Job job)
    @cython.locals(jobs=list, place=Py_ssize_t, kept=Py_ssize_t)
    cdef close_up(self, Py_ssize_t first)
    @cython.locals(count=Py_ssize_t, place=Py_ssize_t)
    cdef count_new(self)
    @cython.locals(place=Py_ssize_t)
    cdef count_block(self, Py_ssize_t block)
    @cython.locals(width=Py_ssize_t)
    cdef void forget(self, Py_ssize_t block) noexcept
    @cython.locals(place=Py_ssize_t, end=Py_ssize_t)
    cdef count_job(self, Py_ssize_t block, Job job)
    @cython.locals(narrowest="long long", shortest=double)
    cdef bint may_start(self, Py_ssize_t block, Py_ssize_t free, Py_ssize_t extra, double now, double latest) noexcept

cdef class Easy(QueueScheduler):
    cdef int order, behind
    cdef bint has_key, predicts, is_sorted, chooses
    cdef double patience
    cdef public double grace
    cdef Py_ssize_t extra
    cdef readonly Queue queue
    cdef list running, gone, new
    cdef dict past
    cpdef begin(self, ResourceManager manager)
    cpdef arrived(self, Job job)
    @cython.locals(running=list, place=Py_ssize_t)
    cpdef ended(self, Job job)
    cpdef decide(self)
    @cython.locals(queue=Queue, jobs=list, manager=ResourceManager, job=Job, now=double, free=Py_ssize_t, extra=Py_ssize_t, count=Py_ssize_t, first=Py_ssize_t, used=Py_ssize_t, begin=Py_ssize_t, block=Py_ssize_t, before=Py_ssize_t, place=Py_ssize_t, needed=Py_ssize_t, tolerance=double, latest=double, end=double, shadow=double, is_reserved=bint, is_short=bint)
    cdef start_in_order(self)
    @cython.locals(queue=list, manager=ResourceManager, job=Job, now=double, free=Py_ssize_t, extra=Py_ssize_t, place=Py_ssize_t, index=Py_ssize_t, needed=Py_ssize_t, latest=double, end=double, shadow=double, is_reserved=bint, has_keys=bint, order=int, best=double, key=double, wait=double)
    cdef choose(self)
    @cython.locals(running=list, earlier=Job, place=Py_ssize_t)
    cdef run(self, Job job, double end)
    @cython.locals(running=list, job=Job, now=double, shadow=double, tolerance=double, available=Py_ssize_t, place=Py_ssize_t)
    cdef double shadow_of(self, Py_ssize_t needed, Py_ssize_t free) except? -1
    @cython.locals(job=Job, one=double, two=double, mean=double)
    cdef predict(self, double now)
    @cython.locals(running=list, job=Job, earlier=Job, place=Py_ssize_t, to=Py_ssize_t, end=double, left=double, step=double)
    cdef correct(self, double now)
