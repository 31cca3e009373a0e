cimport cython

cdef class Turns:
    cdef long long began
    cpdef long long next(self) noexcept

cdef class Heap:
    # The first `size` numbers of each array; no wait comes before the one at (place - 1) / 2.
    cdef readonly Py_ssize_t size
    cdef double[::1] dates
    cdef long long[::1] numbers, jobs
    @cython.locals(place=Py_ssize_t, above=Py_ssize_t, other=double)
    cpdef push(self, double date, long long number, long long job)
    @cython.locals(count=Py_ssize_t, date=double, number="long long", place=Py_ssize_t, below=Py_ssize_t, beside=Py_ssize_t, other=double)
    cpdef void pop(self) noexcept
