cimport cython
from qops_batsim.core.job cimport Job
from qops_batsim.core.node_request cimport HostPart, NodeLayout, Places

cdef class NodeUse:
    cdef readonly NodeLayout layout
    cdef Py_ssize_t kinds
    cdef readonly long long[::1] free
    cdef readonly long long[::1] jobs  # by row
    cdef public object closed  # bits of the hosts on which no job may start

    @cython.locals(places=Places, place=Py_ssize_t, row=Py_ssize_t)
    cpdef bint fits(self, Job job) except -1
    @cython.locals(first=Py_ssize_t, kind=Py_ssize_t)
    cdef bint has(self, Py_ssize_t row, HostPart part, long long times) noexcept
    cpdef take(self, Job job)
    cpdef give(self, Job job)
    @cython.locals(place=Py_ssize_t, part=HostPart, row=Py_ssize_t, first=Py_ssize_t, kind=Py_ssize_t, more="long long")
    cdef change(self, Places places, long long sign)
    @cython.locals(held=Places, part=HostPart, number=Py_ssize_t, row=Py_ssize_t, missing="long long", times="long long")
    cpdef bint put_on(self, Job job, object hosts) except -1
    cdef long long room_for(self, Py_ssize_t row, HostPart part) noexcept
