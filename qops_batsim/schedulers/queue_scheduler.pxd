cimport cython
from qops_batsim.core.job cimport Job
from qops_batsim.core.scheduler cimport ResourceManager, Scheduler
from qops_batsim.schedulers.shared_hosts cimport SharedHosts
from qops_batsim.schedulers.timetable cimport Timetable

cdef double INFINITY
cdef int OVER, WAITING
cdef Py_ssize_t _BLOCK, WIDTHS
cdef long long NO_WIDTH

@cython.locals(width=Py_ssize_t)
cpdef Py_ssize_t width_of(Py_ssize_t processors) noexcept

@cython.final
cdef class Queue:
    cdef readonly list jobs  # by place; some may have left
    cdef public Py_ssize_t first  # no job before this place waits
    cdef public Py_ssize_t new  # the last so many jobs are not in the order of keys yet

    # Summaries: valid for the places below summarized, 0 while the queue is short
    cdef readonly Py_ssize_t summarized, waiting
    cdef Py_ssize_t blocks  # for which there is room
    cdef readonly long long[::1] widths  # by place; NO_WIDTH where the job has left
    cdef readonly double[::1] durations  # by place
    cdef readonly long long[::1] narrowest  # by block
    cdef readonly double[::1] shortest  # by block * WIDTHS + width class; falls within a block

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
    cdef readonly list running  # by end, ties in the order of their starts
    cdef bint has_limits  # a subclass overrides may_start()
    cdef readonly SharedHosts shared  # None where hosts are whole
    cdef readonly Timetable timetable  # None until a start is promised or maintenance announced

    # The machine: hosts that are there, a mask of those that are away (a Python int)
    cdef readonly Py_ssize_t present
    cdef object away
    cdef bint is_final  # no host that is away will return

    cdef bint is_own  # a user's class, whose changes of our lists are looked for
    cdef Py_ssize_t decisions  # since that was done last

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
    @cython.locals(job=Job, timetable=Timetable)
    cpdef reject_wider(self)
    cpdef decide(self)
    @cython.locals(running=list, job=Job, before=Job, place=Py_ssize_t)
    cdef check_running(self)
    cdef bint fits_now(self, Job job) except -1
    @cython.locals(manager=ResourceManager, shared=SharedHosts, waiting=list, is_reserved=bint, place=Py_ssize_t, job=Job, start=double)
    cdef start_sharing(self, list line, bint backfills)
    cdef list behind(self, list line, Py_ssize_t place)
    @cython.locals(running=list, end=double, low=Py_ssize_t, high=Py_ssize_t, middle=Py_ssize_t, earlier=Job)
    cdef insert_running(self, Job job)
    @cython.locals(running=list, low=Py_ssize_t, high=Py_ssize_t, middle=Py_ssize_t, job=Job)
    cdef Py_ssize_t place_before(self, double end) except -1
