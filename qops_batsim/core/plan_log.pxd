cimport cython
from qops_batsim.core.job cimport Job
from qops_batsim.core.job_sorting cimport sort_by_arrival
from qops_batsim.core.node_request cimport NodeRequest

cdef int SUBMITTED, REFUSED, ADMITTED, MOVED, BLAMED, MOVE, KILLED, WITHDRAWN, DROPPED
cdef int RESIZED, UNDER, LATE_NEWS, STARTED, SLIPPED, OUTLIVED, LATE, ENDED, PLACED
cdef int BY_EARLY_END, BY_OUTLIVING, BY_LATE_START, BY_LEAVING, BY_RETURNING, BY_CANCELLATION
cdef double INFINITY, PLAN_TOLERANCE

cdef class PlanLog:
    cdef list blocks  # those that are full, in order
    # The block that is being filled: four codes a row, and as many numbers as its kind has
    cdef int[::1] codes
    cdef double[::1] numbers
    cdef Py_ssize_t block  # rows for which it has room
    cdef Py_ssize_t size, filled  # rows and numbers in it
    cdef int[::1] counts  # numbers of a row, by its kind

    cdef public list jobs  # by job.number
    cdef public dict worded, given_up, hosts_asked  # by job.number
    cdef readonly list placements  # of PLACED rows

    # The present decision
    cdef public double now
    cdef public bint is_late
    cdef public double grace
    cdef bint has_said_late, has_looked

    # What may have caused moves since the last call
    cdef list culprits  # (job.number, number of its run)
    cdef Py_ssize_t early  # the first so many of them ended early, were cancelled or withdrawn
    cdef Py_ssize_t cancelled
    cdef readonly list resizing  # is_final, then (job, hosts lost); empty: hosts are the same
    cdef Py_ssize_t present, noted_present

    @cython.locals(place=Py_ssize_t, count=int)
    cpdef append(self, int kind, Job job, Py_ssize_t other=*, long long code=*, double first=*, double second=*, double third=*)
    cdef begin_block(self)
    cpdef list rows(self)
    cpdef arrived(self, Job job)
    @cython.locals(job=Job)
    cpdef begin(self, double now, list gone, list undone, list cancelled)
    cpdef resized(self, Py_ssize_t present, bint is_final, list losing)
    @cython.locals(late=Py_ssize_t, cause=int, job=Job, hosts=Py_ssize_t)
    cpdef look(self, list waiting, list running, list starting)
    @cython.locals(late=Py_ssize_t, job=Job, first=Job, before=double, changed=list)
    cdef Py_ssize_t note_ends(self, list running, list starting) except -1
    @cython.locals(job=Job, jobs=list, moved=list, late=list, has_moved=bint, is_late=bint)
    cdef note_moves(self, int cause, list waiting, list starting)
    @cython.locals(request=NodeRequest)
    cdef note_places(self, Job job)
    cpdef moved_for(self, Job job, int cause, list waiting)
    cpdef submitted(self, Job job)
    cpdef joined(self, Job job)
    cpdef admitted(self, Job job)
    cpdef refused(self, Job job, object answer, Py_ssize_t blamed)
    cpdef dropped(self, Job job, object refusal)
    cpdef killed(self, Job victim, Job again, Job for_job, double saved)
    cpdef look_last(self, list waiting, list running, list starting)
    @cython.locals(job=Job)
    cpdef started(self, list starting)
