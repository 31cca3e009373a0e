from qops_batsim.core.job cimport Job
from qops_batsim.core.node_request cimport NodeRequest, Places
from qops_batsim.core.node_use cimport NodeUse
from qops_batsim.engine.embedded_manager cimport EmbeddedManager
from qops_batsim.engine.wait_heap cimport Turns
cimport cython

cdef class SharingManager(EmbeddedManager):
    cdef long long[::1] jobs_on  # by host

    @cython.locals(changed="long long")
    cdef long long count_on(self, object hosts, long long more) except? -1
    @cython.locals(before="long long")
    cdef long long count_one(self, Py_ssize_t host, long long more) noexcept
    @cython.locals(request=NodeRequest, row=Py_ssize_t)
    cpdef start_job(self, Job job, object hosts)
    @cython.locals(used=Places, changed="long long")
    cpdef leave(self, Job job)
