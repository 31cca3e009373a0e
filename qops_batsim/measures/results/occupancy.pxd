cimport cython

cdef long long _ONE, _WORD, _BIT
cdef double _SPLITTER

cdef class _Hosts:
    # The first hosts of segments as bits, 32 a word; host 0 always begins one.
    cdef long long count
    cdef long long[::1] starts

    # Of a segment, at its first host only: the host behind it, since when and until when it is
    # busy, and with which row last (-1: it never was).
    cdef long long[::1] ends, holder
    cdef double[::1] since, until

    # Results, by row of a job, and by host (1: jobs met there).
    cdef long long[::1] opened, closed, shared
    cdef readonly double busy, lost

    @cython.locals(place=Py_ssize_t, row="long long", interval="long long", host="long long", end="long long")
    cpdef follow(self, const long long[::1] order, const long long[::1] offsets, const double[::1] start, const double[::1] finish, const long long[::1] first, const long long[::1] last, double tolerance)
    @cython.locals(segment="long long", end="long long", until=double, each="long long")
    cdef void use(self, long long row, double start, double finish, long long host, long long last, double tolerance) noexcept
    @cython.locals(word="long long", bits="long long", highest="long long", step="long long")
    cdef long long segment_of(self, long long host) noexcept
    cdef void split(self, long long segment, long long host) noexcept
    @cython.locals(since=double, holder="long long", end="long long")
    cdef long long end_of_alike(self, long long host, long long behind) noexcept
    @cython.locals(row="long long", period=double, upper=double)
    cdef void close(self, long long host, long long end) noexcept
    @cython.locals(before=double, after=double)
    cdef void add(self, double value) noexcept
