from qops_batsim.core.job cimport Job
from qops_batsim.core.node_profile cimport NodeProfile
from qops_batsim.core.node_request cimport HostPart, NodeRequest, Places
from qops_batsim.core.scheduler cimport ResourceManager
from qops_batsim.timing cimport end_of, up_to_grid
cimport cython

cdef double SHORTEST

cdef class SharedHosts:
    cdef readonly ResourceManager manager
    cdef readonly NodeProfile profile
    cdef readonly double now
    cdef readonly long long number  # of passes with the same reservations
    cdef public bint is_stale
    cdef list overdue  # those that the current pass has extended
    cdef list reserved  # from job.trial on; empty between passes
    cdef Py_ssize_t reservations  # of the passes with this number; -1: not known
    cdef Job reservation  # the only one
    cdef double reserved_from
    cdef Places reserved_places
    cdef bint is_compared
    cdef long long[::1] gained  # rows, of which the first gains count
    cdef Py_ssize_t gains

    cdef double end_of(self, Job job) except? -1
    @cython.locals(manager=ResourceManager, profile=NodeProfile, job=Job, end=double)
    cpdef begin_pass(self, list running)
    @cython.locals(manager=ResourceManager, job=Job, is_whole=bint)
    cdef rebuild(self, list running)
    @cython.locals(profile=NodeProfile, job=Job)
    cpdef NodeProfile current(self, list running)
    cdef reserve(self, Job job, double start)
    @cython.locals(job=Job)
    cdef end_pass(self)
    cdef started(self, Job job)
    @cython.locals(held=Places, place=Py_ssize_t)
    cdef ended(self, Job job)
    @cython.locals(count=Py_ssize_t, job=Job)
    cdef compare_reservations(self)
    @cython.locals(place=Py_ssize_t, row=Py_ssize_t)
    cdef bint may_fit(self, HostPart part, double duration) except -1
    cdef double fit(self, Job job) except? -1
    @cython.locals(request=NodeRequest, part=HostPart)
    cdef bint fits_now(self, Job job) except -1
