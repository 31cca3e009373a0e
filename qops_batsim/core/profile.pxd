cimport cython
from qops_batsim.core.host_bits cimport HostBits, bit_count
from qops_batsim.core.job cimport Job
from qops_batsim.timing cimport end_of, on_grid

cdef double INFINITY, CLEARLY

cdef class Profile:
    # Step i lasts from times[i] to times[i + 1]; neighbours differ in free. Only size of the room
    # steps are in use.
    cdef double[::1] times
    cdef long long[::1] free
    cdef Py_ssize_t room, size

    # Of the last fit: its first step, and the first one behind its end.
    cdef Py_ssize_t found_step, found_end

    cpdef Py_ssize_t step_at(self, double date) noexcept
    @cython.locals(count=Py_ssize_t, half=Py_ssize_t)
    cdef Py_ssize_t last_until(self, Py_ssize_t low, Py_ssize_t high, double date) noexcept
    cpdef double earliest_fit(self, double after, double duration, long long processors) noexcept
    @cython.locals(size=Py_ssize_t, last=Py_ssize_t, index=Py_ssize_t, begin=Py_ssize_t, start=double, end=double)
    cpdef double earlier_fit(self, double after, double duration, long long processors, double limit, double planned) noexcept
    @cython.locals(index=Py_ssize_t, lowest="long long")
    cpdef long long lowest_free(self, double start, double end) noexcept
    @cython.locals(index=Py_ssize_t, highest="long long")
    cpdef long long highest_free(self) noexcept
    @cython.locals(index=Py_ssize_t)
    cpdef steps_between(self, double start, double end)
    cpdef reserve(self, double start, double end, long long processors)
    cpdef release(self, double start, double end, long long processors)
    @cython.locals(first=Py_ssize_t, last=Py_ssize_t)
    cpdef change(self, double start, double end, long long more)
    @cython.locals(first=Py_ssize_t, last=Py_ssize_t)
    cpdef reserve_found(self, double start, double end, long long processors)
    @cython.locals(index=Py_ssize_t)
    cdef change_steps(self, Py_ssize_t first, Py_ssize_t last, long long more)
    cdef merge(self, Py_ssize_t first, Py_ssize_t last)
    cdef bint is_as_before(self, Py_ssize_t step) noexcept
    @cython.locals(count=Py_ssize_t, stride=Py_ssize_t, place=Py_ssize_t)
    cdef Py_ssize_t split(self, Py_ssize_t low, double date) except -1
    @cython.locals(place=Py_ssize_t)
    cdef insert_step(self, Py_ssize_t step, double date)
    @cython.locals(removed=Py_ssize_t, place=Py_ssize_t)
    cdef remove_steps(self, Py_ssize_t first, Py_ssize_t end)
    cdef grow(self)
    cpdef trim(self, double now)
    @cython.locals(index=Py_ssize_t)
    cpdef copy_from(self, Profile other)
    cpdef reset(self, double date, object everything)
    cpdef double start_of(self, double date) noexcept
    cpdef take_amount(self, double start, double end, object amount)
    cpdef bint has_amount(self, double start, double end, object amount) except -1
    cpdef double fit(self, Job job, double after) except? -1
    cpdef double try_fit(self, Job job, double after) except? -1
    @cython.locals(room=Py_ssize_t)
    cpdef double fit_with_room(self, Job job, double after, Py_ssize_t headroom) except? -1
    cpdef Py_ssize_t spare_beside(self, Job job, double start, double end) except? -1
    cpdef take_found(self, Job job, double start, double end)
    cpdef take_as_found(self, Job job, double start, double end)
    cpdef take_tried(self, Job job, double start, double end)
    cpdef give_tried(self, Job job, double start, double end)
    @cython.locals(start=double)
    cpdef bint move(self, Job job, double after, double limit) except -1
    cpdef take(self, Job job, double start, double end)
    cpdef give(self, Job job, double start, double end)

cdef class HostProfile(Profile):
    cdef HostBits found  # hosts of the last move
    cdef Py_ssize_t words  # of 64 hosts each
    cdef unsigned long long[::1] rows  # free hosts of step i from rows[i * words] on

    @cython.locals(word=Py_ssize_t)
    cdef set_first(self, HostBits hosts)
    @cython.locals(row=Py_ssize_t, word=Py_ssize_t)
    cdef bint is_as_before(self, Py_ssize_t step) noexcept
    @cython.locals(words=Py_ssize_t, place=Py_ssize_t)
    cdef insert_step(self, Py_ssize_t step, double date)
    @cython.locals(words=Py_ssize_t, removed=Py_ssize_t, place=Py_ssize_t)
    cdef remove_steps(self, Py_ssize_t first, Py_ssize_t end)
    @cython.locals(place=Py_ssize_t)
    cdef copy_rows(self, HostProfile other)
    @cython.locals(first=Py_ssize_t, last=Py_ssize_t, step=Py_ssize_t, row=Py_ssize_t, word=Py_ssize_t, total=Py_ssize_t)
    cpdef change_hosts(self, double start, double end, HostBits hosts, bint given)
    @cython.locals(hosts=HostBits, step=Py_ssize_t, begin=double, row=Py_ssize_t, word=Py_ssize_t)
    cpdef bint has_amount(self, double start, double end, object amount) except -1
    @cython.locals(step=Py_ssize_t)
    cdef merge(self, Py_ssize_t first, Py_ssize_t last)
    @cython.locals(size=Py_ssize_t, needed=Py_ssize_t, duration=double, last=Py_ssize_t, first=Py_ssize_t, begin=Py_ssize_t, wide_until=Py_ssize_t, start=double, end=double)
    cpdef double earlier_hosts(self, Job job, HostBits hosts, double after, double limit, double planned) except? -1
    @cython.locals(step=Py_ssize_t, row=Py_ssize_t, total=Py_ssize_t, word=Py_ssize_t, free="unsigned long long")
    cdef bint has_common(self, Job job, HostBits hosts, Py_ssize_t begin, double end, double planned) noexcept

cdef class FitBounds:
    cdef double[::1] widths, lengths  # lower edges of the classes
    cdef double[::1] dates  # by row (processors) and column (duration); no class larger is earlier
    cdef Py_ssize_t rows, columns, size
    cdef bint has_learned  # since all bounds were reset

    @cython.locals(row=Py_ssize_t, column=Py_ssize_t)
    cdef classify(self, Job job)
    @cython.locals(any_date=double, cell=Py_ssize_t, row=Py_ssize_t)
    cdef void forget(self) noexcept
    @cython.locals(cell=Py_ssize_t)
    cdef void copy_from(self, FitBounds other) noexcept
    @cython.locals(first=Py_ssize_t, cell=Py_ssize_t)
    cdef void learn(self, Job job, double start) noexcept

cpdef class_edges(double least, double most)

@cython.locals(low=Py_ssize_t, high=Py_ssize_t, middle=Py_ssize_t)
cdef Py_ssize_t class_of(double[::1] edges, double number) noexcept
