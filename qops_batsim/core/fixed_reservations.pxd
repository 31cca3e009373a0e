cimport cython
from qops_batsim.core.job cimport Job
from qops_batsim.core.plan_hosts cimport PlanHosts
from qops_batsim.core.profile cimport Profile
from qops_batsim.timing cimport end_of, on_grid

cdef double INFINITY, DEADLINE_TOLERANCE

cdef class FixedReservation:
    cdef public double start
    cdef public double end  # minus infinity while an overdue start has found no place
    cdef public Job job  # None: maintenance
    cdef public object amount  # int, HostBits or Places
    cdef public bint is_placed

cdef class FixedReservations:
    cdef public PlanHosts hosts
    cdef public list listed

    @cython.locals(place=Py_ssize_t, reservation=FixedReservation)
    cpdef Py_ssize_t place_of(self, Job job) except -2
    @cython.locals(reservation=FixedReservation)
    cdef bint has_job_before(self, double date) except -1
    @cython.locals(start=double, reservation=FixedReservation)
    cpdef double next_start(self, double date) except? -1
    @cython.locals(asked=double, start=double)
    cpdef double promise(self, Job job, Profile profile, double now) except? -1
    @cython.locals(end=double)
    cpdef reserve(self, Job job, double start, Profile profile)
    @cython.locals(start=double, reservation=FixedReservation)
    cdef take(self, Profile profile, double now, bint of_jobs)
    @cython.locals(is_left=bint, is_due=bint, reservation=FixedReservation, job=Job, after=double, start=double, end=double, keeps=bint)
    cdef bint refit(self, Profile profile, double now, double due, bint is_idle) except -1
