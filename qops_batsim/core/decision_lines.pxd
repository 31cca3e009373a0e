cimport cython
from qops_batsim.core.plan_log cimport PlanLog
from qops_batsim.row_writer cimport Letters

# Kinds of rows.
cdef int SUBMITTED, REFUSED, ADMITTED, MOVED, BLAMED, MOVE, KILLED, WITHDRAWN, DROPPED
cdef int RESIZED, UNDER, LATE_NEWS, STARTED, SLIPPED, OUTLIVED, LATE, ENDED, PLACED
cdef int NONE_OPEN, MOVED_OPEN, BY_OPEN, MOVES_OPEN
cdef int POINT, MINUS, MOST_LETTERS
cdef double _INFINITY, SHORTEST_PLAIN, LONGEST_PLAIN

cdef class LineWriter:
    cdef PlanLog log
    cdef int[::1] counts  # numbers of a row, by its kind
    cdef Letters out
    cdef list ids  # as submitted, by the job's number
    cdef list runs  # ids of the present runs
    cdef list names  # how JSON writes these
    cdef bint was_killed  # until then each job has one run
    cdef int open  # NONE_OPEN or another
    cdef object resized
    cdef list under

    @cython.locals(out=Letters, names=list, row=Py_ssize_t, place=Py_ssize_t, at=Py_ssize_t, kind=int, slot=Py_ssize_t, other=Py_ssize_t, code=Py_ssize_t, date=double, what=bytes)
    cpdef bytes lines_in(self, int[::1] codes, double[::1] numbers, Py_ssize_t size)
    cpdef bytes last_lines(self)
    cdef int close(self) except -1
    cdef int begin(self, bytes what, double date, bytes name) except -1
    @cython.locals(out=Letters, size=double, micros="unsigned long long", whole="unsigned long long", rest="unsigned long long", digits=int)
    cdef add_number(self, double number)
    cdef int add_field(self, bytes name, double number) except -1
    @cython.locals(out=Letters, name=bytes)
    cdef int add_submission(self, Py_ssize_t slot) except -1
    @cython.locals(out=Letters)
    cdef int add_refusal(self, object answer, Py_ssize_t blamed) except -1
    cdef bytes name_of(self, Py_ssize_t slot, Py_ssize_t run)
    cdef rare_event(self, int kind, Py_ssize_t slot, Py_ssize_t other, Py_ssize_t code, list numbers)
