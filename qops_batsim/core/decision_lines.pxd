cimport cython
from qops_batsim.core.plan_log cimport PlanLog

# Kinds of rows.
cdef int SUBMITTED, ADMITTED, MOVED, BLAMED, MOVE, KILLED, WITHDRAWN, DROPPED
cdef int RESIZED, UNDER, LATE_NEWS, STARTED, SLIPPED, OUTLIVED, LATE, ENDED

cdef class LineWriter:
    cdef PlanLog log
    cdef int[::1] counts  # numbers of a row, by its kind
    cdef list ids  # as submitted, by the job's number
    cdef list runs  # ids of the present runs
    cdef list names  # how JSON writes these
    cdef list submissions
    cdef bint was_killed  # until then each job has one run
    cdef str open
    cdef list culprits, moves, under
    cdef object resized

    @cython.locals(texts=list, lines=list, row=Py_ssize_t, place=Py_ssize_t, at=Py_ssize_t, kind=int, slot=Py_ssize_t, other=Py_ssize_t, code=Py_ssize_t, names=list)
    cpdef list lines_in(self, int[::1] codes, double[::1] numbers, Py_ssize_t size)
    cpdef list last_lines(self)
    cdef str name_of(self, Py_ssize_t slot, Py_ssize_t run)
    cdef rare_event(self, int kind, Py_ssize_t slot, Py_ssize_t other, Py_ssize_t code, list numbers)

cdef str _field(str name, str number)
