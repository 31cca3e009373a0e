cimport cython
from qops_batsim.core.job cimport Job
from qops_batsim.core.scheduler cimport ResourceManager, Scheduler
from qops_batsim.schedulers.timetable cimport Timetable

cdef double INFINITY
cdef int _WAITING, _OVER
cdef Py_ssize_t _BLOCK, _WIDTHS
cdef long long _NO_WIDTH

@cython.locals(width=Py_ssize_t)
cpdef Py_ssize_t width_of(Py_ssize_t processors) noexcept

@cython.final
cdef class Queue:
    cdef readonly list jobs
    cdef public Py_ssize_t first, new
    cdef Py_ssize_t waiting, summarized, blocks
    cdef long long[::1] narrowest, widths
    cdef double[::1] shortest, durations
    cdef make_room(self)
    @cython.locals(place=Py_ssize_t, job=Job)
    cpdef list listed(self)
    cpdef append(self, Job job)
    @cython.locals(jobs=list, count=Py_ssize_t, last=Py_ssize_t, low=Py_ssize_t, high=Py_ssize_t, middle=Py_ssize_t, job=Job, earlier=Job)
    cdef put_in_order(self)
    @cython.locals(jobs=list, place=Py_ssize_t, kept=Py_ssize_t, job=Job)
    cpdef close_up(self, Py_ssize_t first)
    @cython.locals(count=Py_ssize_t, place=Py_ssize_t, job=Job)
    cdef count_new(self)
    cdef void leave(self, Py_ssize_t place) noexcept
    @cython.locals(place=Py_ssize_t)
    cdef void count_block(self, Py_ssize_t block) noexcept
    @cython.locals(width=Py_ssize_t)
    cdef void forget(self, Py_ssize_t block) noexcept
    @cython.locals(processors="long long", duration=double, block=Py_ssize_t, size=Py_ssize_t, end=Py_ssize_t)
    cdef void count_place(self, Py_ssize_t place) noexcept
    @cython.locals(narrowest="long long")
    cdef bint may_start(self, Py_ssize_t block, Py_ssize_t free, Py_ssize_t extra, double now, double latest) noexcept
    @cython.locals(width="long long", end=Py_ssize_t)
    cdef Py_ssize_t next_fit(self, Py_ssize_t place, Py_ssize_t free, Py_ssize_t extra, double now, double latest) noexcept

cdef class QueueScheduler(Scheduler):
    cdef readonly Queue queue
    cdef readonly list running
    cdef readonly Py_ssize_t present
    cdef object away
    cdef bint is_final, has_limits, is_own
    cdef readonly Timetable timetable
    cpdef begin(self, ResourceManager manager)
    cpdef arrived(self, Job job)
    cpdef schedule(self)
    cpdef list waiting(self)
    cpdef list line(self)
    @cython.locals(manager=ResourceManager)
    cpdef start(self, Job job, object hosts=*)
    @cython.locals(manager=ResourceManager, is_usual=bint)
    cpdef submitted(self, Job job)
    @cython.locals(running=list, place=Py_ssize_t)
    cpdef ended(self, Job job)
    cpdef joined(self, Job job)
    cpdef cancelled(self, Job job)
    cpdef hosts_changed(self, Py_ssize_t announced)
    @cython.locals(manager=ResourceManager, job=Job)
    cpdef note_hosts(self, Py_ssize_t announced)
    @cython.locals(manager=ResourceManager)
    @cython.locals(job=Job, timetable=Timetable)
    cpdef reject_wider(self)
    cpdef decide(self)
    @cython.locals(running=list, job=Job, before=Job, place=Py_ssize_t)
    cdef check_running(self)
    @cython.locals(running=list, end=double, low=Py_ssize_t, high=Py_ssize_t, middle=Py_ssize_t, earlier=Job)
    cdef insert_running(self, Job job)
    @cython.locals(running=list, low=Py_ssize_t, high=Py_ssize_t, middle=Py_ssize_t, job=Job)
    cdef Py_ssize_t place_before(self, double end) except -1
