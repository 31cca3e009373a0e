cimport cython
from qops_batsim.core.fixed_reservations cimport FixedReservation, FixedReservations
from qops_batsim.core.host_bits cimport HostBits
from qops_batsim.core.job cimport Job
from qops_batsim.core.node_profile cimport NodeProfile
from qops_batsim.core.node_use cimport NodeUse
from qops_batsim.core.plan_hosts cimport PlanHosts, SharedPlanHosts
from qops_batsim.core.profile cimport HostProfile, Profile
from qops_batsim.core.scheduler cimport ResourceManager
from qops_batsim.timing cimport end_of, up_to_grid

cdef double INFINITY, DEADLINE_TOLERANCE, GRID_TOLERANCE

cdef class Timetable(FixedReservations):
    cdef NodeUse use  # None where hosts are whole
    cdef Profile profile  # what running jobs, maintenance and promised starts leave free
    cdef double now  # date of the decision, on the grid
    cdef bint is_resized  # hosts have left or returned since the last decision
    cdef public list asked  # new jobs with fixed starts, answered at the next decision
    cdef double called_for  # last date that a call was asked for; minus infinity: none

    cpdef bint is_needed(self, ResourceManager manager) except -1
    @cython.locals(job=Job)
    cpdef note_change(self, Py_ssize_t lost)
    @cython.locals(job=Job, manager=ResourceManager)
    cpdef decide(self, object scheduler)
    @cython.locals(start=double, asked=double)
    cdef answer(self, ResourceManager manager, Job job)
    @cython.locals(manager=ResourceManager, now=double, due=double)
    cdef write(self, object scheduler)
    @cython.locals(job=Job, profile=Profile, now=double, end=double)
    cdef write_others(self, ResourceManager manager, list running)
    @cython.locals(reservation=FixedReservation, job=Job, place=Py_ssize_t, manager=ResourceManager)
    cdef start_promised(self, object scheduler)
    @cython.locals(job=Job, start=double, is_reserved=bint)
    cdef start_beside(self, object scheduler, list line)
    cdef bint starts(self, object scheduler, Job job, object hosts) except -1
    @cython.locals(profile=HostProfile, nodes=NodeProfile, start=double, predicted=double)
    cdef double fit(self, Job job, double limit) except? -1
    @cython.locals(date=double)
    cdef call_for_start(self, ResourceManager manager)
