from qops_batsim.core.job cimport Job
from qops_batsim.core.node_use cimport NodeUse
from qops_batsim.engine.embedded_manager cimport EmbeddedManager
from qops_batsim.engine.wait_heap cimport Turns
cimport cython

cdef class SharingManager(EmbeddedManager):
    cdef long long[::1] jobs_on  # by host

    @cython.locals(before="long long", changed="long long")
    cdef long long count_on(self, object hosts, long long more) except? -1
