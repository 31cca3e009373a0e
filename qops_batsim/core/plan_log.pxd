cimport cython
from qops_batsim.core.job cimport Job

cdef int _SUBMITTED, _REFUSED, _ADMITTED, _MOVED, _BLAMED, _MOVE, _KILLED, _WITHDRAWN, _DROPPED
cdef int _RESIZED, _UNDER, _LATE_NEWS, _STARTED, _SLIPPED, _OUTLIVED, _LATE, _ENDED
cdef int _BY_EARLY_END, _BY_OUTLIVING, _BY_LATE_START, _BY_LEAVING, _BY_RETURNING
cdef int _BY_CANCELLATION
cdef double _INFINITY, _PLAN_TOLERANCE

cdef class DecisionLog:
    cdef list blocks  # those that are full, in order
    # The block that is being filled.
    cdef int[::1] codes, counts
    cdef double[::1] numbers
    cdef Py_ssize_t block  # rows for which it has room
    cdef Py_ssize_t size, filled  # rows and numbers in it
    cdef public list jobs
    cdef public dict worded, given_up
    cdef public double now, grace
    cdef public bint is_late
    cdef bint has_said_late, has_looked
    cdef list culprits
    cdef readonly list resizing
    cdef Py_ssize_t early, present, noted_present, cancelled
    @cython.locals(place=Py_ssize_t, count=int)
    cpdef append(self, int kind, Job job, Py_ssize_t other, long long code, double first, double second, double third)
    cdef begin_block(self)
    cpdef list rows(self)
    cpdef arrived(self, Job job)
    @cython.locals(job=Job)
    cpdef begin(self, double now, list gone, list undone, list cancelled)
    cpdef resized(self, Py_ssize_t present, bint is_final, list losing)
    @cython.locals(late=Py_ssize_t, cause=int, job=Job, hosts=Py_ssize_t)
    cpdef look(self, list waiting, list running, list starting)
    @cython.locals(late=Py_ssize_t, job=Job, before=double)
    cdef Py_ssize_t note_ends(self, list running, list starting) except -1
    @cython.locals(job=Job, before=double, moved=list, late=list)
    cdef note_moves(self, int cause, list waiting, list starting)
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
