cimport cython

cdef long long[::1] NO_CELLS

cdef class HostPart:
    cdef readonly Py_ssize_t count
    cdef readonly long long tasks  # 0: hosts are asked for
    cdef readonly bint is_whole, is_licence
    cdef readonly long long[::1] amounts  # by kind
    cdef readonly Py_ssize_t size  # of the candidates
    cdef readonly long long[::1] candidates
    cdef readonly double[::1] tiers
    cdef unsigned char[::1] is_candidate  # by row

    cdef public long long failed_pass
    cdef public double failed_duration
    cdef public Py_ssize_t failed_gains

    @cython.locals(most="long long", kind=Py_ssize_t)
    cpdef long long tasks_in(self, const long long[::1] amounts, Py_ssize_t first) noexcept
    cdef bint has_candidate(self, Py_ssize_t row) noexcept
    @cython.locals(place=Py_ssize_t)
    cpdef set_candidates(self, long long[::1] rows, double[::1] tiers)

cdef class Places:
    # Place i: row, index of the part, times its amounts; in cells 3 i, 3 i + 1 and 3 i + 2. Only
    # size of the room places are in use.
    cdef readonly Py_ssize_t size
    cdef Py_ssize_t room
    cdef readonly long long[::1] cells
    cdef readonly list parts  # HostPart

    cdef clear(self, list parts)
    @cython.locals(cell=Py_ssize_t, first=Py_ssize_t, cells="long long[::1]")
    cdef add(self, Py_ssize_t row, Py_ssize_t part, long long times)
    @cython.locals(cell=Py_ssize_t)
    cpdef copy_from(self, Places other)
    cpdef Places copied(self)
    @cython.locals(cell=Py_ssize_t)
    cpdef bint equals(self, Places other)
    @cython.locals(cell=Py_ssize_t)
    cpdef list told(self)
    cpdef fill(self, list parts, object told)
    cdef Py_ssize_t row_of(self, Py_ssize_t place) noexcept
    cdef HostPart part_of(self, Py_ssize_t place)
    cdef long long times_of(self, Py_ssize_t place) noexcept
    cpdef keep_within(self, object hosts)
    cpdef list listed(self)

cdef class NodeRequest:
    cdef readonly list parts  # HostPart
    cdef readonly object refusal  # Refusal or None
    cdef readonly double size
    cdef readonly bint is_single  # one part
    cdef readonly Places held, found, tried, used
    cdef public bint is_used
    cdef readonly Places noted

cdef class NodeLayout:
    cdef readonly object machine  # Machine
    cdef readonly list licences  # names, in the order of their kinds
    cdef readonly dict totals
    cdef readonly Py_ssize_t hosts, rows, kinds
    cdef readonly long long[::1] capacity
    cdef readonly long long stamp
    cdef readonly dict known  # parts and refusals by what is asked for
    cdef dict with_labels  # rows by labels
    cdef double[::1] weights  # of hosts, times the number of kinds and one

    @cython.locals(part=HostPart, amounts="long long[::1]", candidates="long long[::1]", tiers="double[::1]", count=Py_ssize_t, place=Py_ssize_t, row=Py_ssize_t, idle=Py_ssize_t, is_able=bint, kind=Py_ssize_t, has="long long")
    cdef made_part(self, object asked)
    cdef long long next_stamp(self) noexcept
