from qops_batsim.core.job cimport Job
from qops_batsim.core.node_profile cimport NodeProfile
from qops_batsim.core.node_request cimport HostPart, NodeRequest, Places
from qops_batsim.core.scheduler cimport ResourceManager
from qops_batsim.timing cimport end_of, up_to_grid
cimport cython

cdef double SHORTEST
cdef Py_ssize_t MOST_FREED

cdef class SharedHosts:
    cdef readonly ResourceManager manager
    cdef readonly NodeProfile profile
    cdef readonly double now
    cdef readonly long long number  # of the current pass
    cdef public bint is_stale
    cdef list overdue  # those that the current pass has extended
    cdef list reserved  # from job.trial on; empty between passes
    cdef long long owner  # of what parts know of the free hosts
    cdef list freed  # rows, since then

    cdef forget(self)
    @cython.locals(place=Py_ssize_t)
    cdef came_free(self, Places places)
    @cython.locals(profile=NodeProfile, needed="long long", place=Py_ssize_t, row=Py_ssize_t, room="long long")
    cdef bint is_short(self, HostPart part) except -1

    cdef double end_of(self, Job job) except? -1
    @cython.locals(manager=ResourceManager, profile=NodeProfile, job=Job, end=double)
    cpdef begin_pass(self, list running)
    @cython.locals(manager=ResourceManager, job=Job)
    cdef rebuild(self, list running)
    @cython.locals(profile=NodeProfile, job=Job)
    cpdef NodeProfile current(self, list running)
    cdef reserve(self, Job job, double start)
    @cython.locals(job=Job)
    cdef end_pass(self)
    cdef started(self, Job job)
    cdef ended(self, Job job)
    cdef double fit(self, Job job) except? -1
    @cython.locals(request=NodeRequest, part=HostPart, is_known=bint)
    cdef bint fits_now(self, Job job) except -1
