cimport cython
from qops_batsim.core.job cimport Job

cdef Py_ssize_t SHORT, MOVES
cdef int BY_ARRIVAL, BY_START, BY_KEY

cpdef sort_by_arrival(list jobs)

cpdef sort_by_start(list jobs)

@cython.locals(job=Job, place=Py_ssize_t, end=Py_ssize_t)
cpdef sort_by_key(list jobs, Py_ssize_t first, Py_ssize_t last)

@cython.locals(one=double, two=double)
cdef bint is_before(Job job, Job other, int order) noexcept

@cython.locals(job=Job, before=Job, last=Py_ssize_t, place=Py_ssize_t)
cdef bint insertion_sort(list jobs, Py_ssize_t first, Py_ssize_t end, int order, Py_ssize_t moves) except -1

@cython.locals(place=Py_ssize_t, middle=Py_ssize_t, left=Py_ssize_t, right=Py_ssize_t)
cdef merge_sort(list jobs, Py_ssize_t first, Py_ssize_t end, list spare, int order)
