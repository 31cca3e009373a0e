cimport cython
from qops_batsim.core.host_bits cimport HostBits
from qops_batsim.core.job cimport Job
from qops_batsim.core.node_request cimport HostPart, NodeLayout, NodeRequest, Places
from qops_batsim.core.profile cimport Profile
from qops_batsim.timing cimport end_of, on_grid

cdef double INFINITY, SHORTEST

cdef class NodeProfile(Profile):
    cdef readonly NodeLayout layout
    cdef Py_ssize_t rows, kinds
    cdef long long[::1] capacity
    cdef double divisor  # kinds of the machine, and one

    # Step s of row r: from dates[r * room_for_steps + s] on, and its amounts. Only sizes[r] steps
    # are in use. Contents of two profiles of one layout with one stamp are equal from the later
    # begin on.
    cdef double begin
    cdef Py_ssize_t room_for_steps
    cdef long long[::1] sizes, stamps
    cdef double[::1] dates
    cdef long long[::1] amounts

    # Of one search, by candidate: next starts or scores, a copy to reorder, tasks that fit
    cdef double[::1] starts, ordered
    cdef long long[::1] counts, able
    cdef long long[::1] is_taken  # by row: an earlier part of the job has it

    cdef bint is_in(self, HostBits hosts, Py_ssize_t row) noexcept
    @cython.locals(first=Py_ssize_t, kind=Py_ssize_t, amount="long long")
    cdef clear_row(self, Py_ssize_t row, bint is_there)
    @cython.locals(kinds=Py_ssize_t, row=Py_ssize_t, size=Py_ssize_t, mine=Py_ssize_t, theirs=Py_ssize_t, step=Py_ssize_t, cell=Py_ssize_t)
    cdef copy_rows(self, NodeProfile other)
    @cython.locals(row=Py_ssize_t, first=Py_ssize_t, over=Py_ssize_t)
    cpdef trim(self, double now)
    @cython.locals(first=Py_ssize_t, whole=Py_ssize_t, kind=Py_ssize_t)
    cdef bint has(self, Py_ssize_t step, Py_ssize_t row, HostPart part) noexcept
    @cython.locals(low=Py_ssize_t, high=Py_ssize_t, middle=Py_ssize_t)
    cdef Py_ssize_t step_of(self, Py_ssize_t row, double date) noexcept
    @cython.locals(step=Py_ssize_t, behind=Py_ssize_t, start=double, end=double)
    cdef double next_start(self, Py_ssize_t row, HostPart part, double after, double duration, double limit) noexcept
    @cython.locals(parts=list, start=double, end=double)
    cdef double earliest(self, NodeRequest request, double duration, double after, double limit) except? -1
    @cython.locals(start=double, agreed=Py_ssize_t, part=HostPart, date=double)
    cdef double common_date(self, list parts, double after, double duration, double limit) except? -1
    @cython.locals(following=double, row=Py_ssize_t, step=Py_ssize_t)
    cdef double next_step(self, double date) noexcept
    cdef bint may_take(self, Py_ssize_t row, HostPart part, double date, double duration) noexcept
    @cython.locals(count=Py_ssize_t, best=double, until=double, place=Py_ssize_t, row=Py_ssize_t, start=double, date=double, later=double)
    cdef double first_date(self, HostPart part, double after, double duration, double limit, Py_ssize_t more) noexcept
    @cython.locals(date=double, end=double, following=double, is_enough=bint, is_last=bint, is_only=bint, place=Py_ssize_t, row=Py_ssize_t, most="long long")
    cdef double first_date_of_tasks(self, HostPart part, double after, double duration, double limit) noexcept
    @cython.locals(first=Py_ssize_t, most="long long", kind=Py_ssize_t, asked="long long", free="long long")
    cdef long long tasks_at(self, Py_ssize_t step, Py_ssize_t row, HostPart part) noexcept
    @cython.locals(step=Py_ssize_t, behind=Py_ssize_t, most="long long")
    cdef long long tasks_on(self, Py_ssize_t row, HostPart part, double date, double end) noexcept
    @cython.locals(first=Py_ssize_t, behind=Py_ssize_t, last=Py_ssize_t, step=Py_ssize_t)
    cdef double more_from(self, Py_ssize_t row, HostPart part, double date, double end, long long most) noexcept
    @cython.locals(total="long long", counted=Py_ssize_t, place=Py_ssize_t, least=double)
    cdef long long most_together(self, HostPart part) noexcept
    cpdef bint has_place(self, list parts) except -1
    @cython.locals(chosen=bint, number=Py_ssize_t, part=HostPart, place=Py_ssize_t)
    cdef bint choose_all(self, list parts, Places found, double date, double end) except -1
    @cython.locals(part=HostPart)
    cdef choose_found(self, list parts, Places found, double date, double end)
    @cython.locals(best=double, chosen=Py_ssize_t, able=Py_ssize_t, place=Py_ssize_t, row=Py_ssize_t, score=double, worst=double, missing=Py_ssize_t)
    cdef bint choose(self, HostPart part, Places found, Py_ssize_t number, double date, double end) except -1
    @cython.locals(request=NodeRequest, row=Py_ssize_t, end=double, is_found=bint)
    cpdef bint choose_within(self, Job job, HostBits hosts) except -1
    cdef take_place(self, Places found, Py_ssize_t row, Py_ssize_t number, long long times)
    @cython.locals(step=Py_ssize_t, behind=Py_ssize_t, last=Py_ssize_t, left=double, kind=Py_ssize_t, asked="long long", has="long long", least="long long", one=Py_ssize_t)
    cdef double score(self, Py_ssize_t row, HostPart part, double tier, double date, double end) noexcept
    @cython.locals(place=Py_ssize_t, row=Py_ssize_t, is_other=bint)
    cdef count_tasks(self, HostPart part, double date, double end)
    @cython.locals(able=Py_ssize_t, place=Py_ssize_t, index=Py_ssize_t, missing="long long", more="long long", best=Py_ssize_t, many="long long")
    cdef bint choose_for_tasks(self, HostPart part, Places found, Py_ssize_t number) except -1
    @cython.locals(start=double)
    cpdef bint fits_at(self, Job job, double date) except -1
    @cython.locals(request=NodeRequest, part=HostPart, room=Py_ssize_t, start=double, end=double)
    cpdef double fit_with_room(self, Job job, double after, Py_ssize_t headroom) except? -1
    @cython.locals(request=NodeRequest, is_free=bint)
    cpdef Py_ssize_t spare_beside(self, Job job, double start, double end) except? -1
    @cython.locals(request=NodeRequest)
    cpdef bint find_at(self, Job job, double start, double end) except -1
    @cython.locals(place=Py_ssize_t, part=HostPart, row=Py_ssize_t, times="long long", step=Py_ssize_t, behind=Py_ssize_t, kind=Py_ssize_t, needed="long long")
    cpdef bint are_free(self, Places places, double start, double end) except -1
    @cython.locals(place=Py_ssize_t, part=HostPart, row=Py_ssize_t)
    cdef change_places(self, Places places, double start, double end, long long sign)
    @cython.locals(first=Py_ssize_t, last=Py_ssize_t, base=Py_ssize_t, is_whole=bint, kind=Py_ssize_t, more="long long", step=Py_ssize_t)
    cdef change_row(self, Py_ssize_t row, HostPart part, long long times, double start, double end, long long sign)
    @cython.locals(first=Py_ssize_t, cell=Py_ssize_t)
    cdef bint is_same(self, Py_ssize_t step) noexcept
    @cython.locals(step=Py_ssize_t, kinds=Py_ssize_t, base=Py_ssize_t, place=Py_ssize_t, low=Py_ssize_t, cell=Py_ssize_t)
    cdef Py_ssize_t split_row(self, Py_ssize_t row, double date) except -1
    @cython.locals(removed=Py_ssize_t, base=Py_ssize_t, place=Py_ssize_t, cells=Py_ssize_t, low=Py_ssize_t, cell=Py_ssize_t)
    cdef remove_row_steps(self, Py_ssize_t row, Py_ssize_t first, Py_ssize_t behind)
    @cython.locals(room=Py_ssize_t, row=Py_ssize_t, mine=Py_ssize_t, theirs=Py_ssize_t, step=Py_ssize_t, cell=Py_ssize_t, new_dates="double[::1]", new_amounts="long long[::1]")
    cdef grow_rows(self)

@cython.locals(low=Py_ssize_t, high=Py_ssize_t, pivot=double, left=Py_ssize_t, right=Py_ssize_t, swapped=double)
cdef double smallest(double[::1] values, Py_ssize_t size, Py_ssize_t rank) noexcept
