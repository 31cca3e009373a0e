cimport cython
from qops_batsim.core.profile cimport Profile
from qops_batsim.timing cimport end_of

cdef Py_ssize_t _MOST_TAKEN, _MOST_LEFT_OUT
cdef double _NOT_CHOSEN, _SHORTEST, _LENGTHS

cdef class Moves:
    # The jobs, by place; dates in seconds.
    cdef double[::1] release, duration, last_start
    cdef long long[::1] processors, worth
    cdef Py_ssize_t total

    # The schedule: starts, or NOT_CHOSEN; what is free beside it, and was free before the last move.
    cdef readonly double[::1] starts, best
    cdef readonly long long value, best_value
    cdef Profile profile, before

    # Random numbers, and the place of the next one.
    cdef double[::1] draws
    cdef Py_ssize_t count_of_draws, next

    # Of a move: places, keys and former starts of its jobs; the job that goes first (or -1), at a date.
    cdef long long[::1] places
    cdef double[::1] keys, old_starts
    cdef Py_ssize_t first
    cdef double date

    @cython.locals(place=Py_ssize_t)
    cdef double draw(self) noexcept
    @cython.locals(end=double)
    cdef put(self, Py_ssize_t place, double start)
    @cython.locals(fits=Py_ssize_t, before="long long", count=Py_ssize_t, index=Py_ssize_t, place=Py_ssize_t, after=double, start=double)
    cpdef Py_ssize_t make(self, Py_ssize_t moves, double heat) except -1
    @cython.locals(centre=Py_ssize_t, laxity=double, date=double, stretch=double, begin=double, end=double, share=double, offset=Py_ssize_t, count=Py_ssize_t, left_out=Py_ssize_t, index=Py_ssize_t, place=Py_ssize_t, start=double, until=double)
    cdef Py_ssize_t take_out(self) except -1
    @cython.locals(rule=Py_ssize_t, noise=double, index=Py_ssize_t, place=Py_ssize_t, size=double, ranked=bint)
    cdef put_in_order(self, Py_ssize_t count)
    @cython.locals(index=Py_ssize_t, key=double, place=Py_ssize_t, start=double, at=Py_ssize_t)
    cdef void sort(self, Py_ssize_t count) noexcept
