cimport cython

cdef double INFINITY, CLEARLY

cdef class Profile:
    cdef double[::1] times
    cdef long long[::1] free
    cdef Py_ssize_t room, size
    cpdef Py_ssize_t step_at(self, double date) noexcept
    cdef Py_ssize_t last_until(self, Py_ssize_t low, Py_ssize_t high, double date) noexcept
    cpdef double earliest_fit(self, double after, double duration, long long processors) noexcept
    @cython.locals(size=Py_ssize_t, last=Py_ssize_t, index=Py_ssize_t, start=double, end=double)
    cpdef double earlier_fit(self, double after, double duration, long long processors, double limit, double planned) noexcept
    @cython.locals(index=Py_ssize_t, lowest="long long")
    cpdef long long lowest_free(self, double start, double end) noexcept
    @cython.locals(index=Py_ssize_t, highest="long long")
    cpdef long long highest_free(self) noexcept
    cpdef reserve(self, double start, double end, long long processors)
    cpdef release(self, double start, double end, long long processors)
    @cython.locals(first=Py_ssize_t, last=Py_ssize_t, index=Py_ssize_t)
    cpdef change(self, double start, double end, long long more)
    @cython.locals(count=Py_ssize_t, stride=Py_ssize_t, place=Py_ssize_t)
    cdef Py_ssize_t split(self, Py_ssize_t low, double date) except -1
    @cython.locals(removed=Py_ssize_t, place=Py_ssize_t)
    cdef void remove_steps(self, Py_ssize_t first, Py_ssize_t end) noexcept
    cdef grow(self)
    cpdef trim(self, double now)
    @cython.locals(index=Py_ssize_t)
    cpdef copy_from(self, Profile other)
    @cython.locals(index=Py_ssize_t)
    cpdef steps_between(self, double start, double end)
