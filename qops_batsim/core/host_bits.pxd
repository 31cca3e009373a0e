cimport cython

cdef unsigned long long _ONES, _PAIRS, _FOURS, _EIGHTS, _SUMS

cpdef Py_ssize_t bit_count(unsigned long long word) noexcept

cdef class HostBits:
    cdef readonly Py_ssize_t size
    cdef unsigned long long[::1] words
    cpdef set_mask(self, object mask)
    @cython.locals(word=Py_ssize_t)
    cpdef void fill(self) noexcept
    @cython.locals(word=Py_ssize_t)
    cpdef void copy_from(self, HostBits other) noexcept
    @cython.locals(word=Py_ssize_t)
    cpdef void add(self, HostBits other) noexcept
    @cython.locals(word=Py_ssize_t)
    cpdef void remove(self, HostBits other) noexcept
    @cython.locals(word=Py_ssize_t, left="unsigned long long", flipped="unsigned long long")
    cpdef Py_ssize_t first_from(self, Py_ssize_t host, bint inside) noexcept
    @cython.locals(word=Py_ssize_t)
    cpdef void clear(self) noexcept
    @cython.locals(word=Py_ssize_t)
    cpdef void keep_common(self, HostBits other) noexcept
    @cython.locals(word=Py_ssize_t)
    cpdef void add_common(self, HostBits one, HostBits other) noexcept
    @cython.locals(word=Py_ssize_t)
    cpdef bint shares(self, HostBits other) noexcept
    @cython.locals(word=Py_ssize_t, last=Py_ssize_t, moved="unsigned long long")
    cpdef void move_interval(self, Py_ssize_t first, Py_ssize_t hosts, HostBits other) noexcept
    @cython.locals(word=Py_ssize_t, total=Py_ssize_t)
    cpdef Py_ssize_t count(self) noexcept
    @cython.locals(word=Py_ssize_t)
    cpdef bint equals(self, HostBits other) noexcept
    @cython.locals(word=Py_ssize_t)
    cpdef bint is_within(self, HostBits other) noexcept
    @cython.locals(word=Py_ssize_t, left="unsigned long long", kept="unsigned long long", rest="unsigned long long")
    cpdef void keep_lowest(self, Py_ssize_t wanted) noexcept
