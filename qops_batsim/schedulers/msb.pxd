cimport cython
from qops_batsim.core.job cimport Job
from qops_batsim.core.plan cimport Plan, sort_by_key
from qops_batsim.core.profile cimport Profile
from qops_batsim.core.scheduler cimport ResourceManager
from qops_batsim.schedulers.deadline cimport DeadlineScheduler, deadline_key, lift, meets
from qops_batsim.timing cimport end_of

cdef double _INFINITY, _FOREVER, _LEAST_SLACK

cdef class Msb(DeadlineScheduler):
    cdef bint by_start, by_laxity, only_delays, is_fair
    cdef Profile trial
    cdef list least
    cdef Py_ssize_t following
    cpdef begin(self, ResourceManager manager)
    cpdef try_admission(self, Job job)
    @cython.locals(rate=double, latest=double)
    cdef double rate_of(self, Job job) except? -1
    cdef double price_of(self, double delay, double rate) noexcept
    @cython.locals(job=Job, now=double, soonest=double)
    cdef bound_prices(self, Job new)
    @cython.locals(job=Job, last=Py_ssize_t, index=Py_ssize_t, rest=double)
    cdef bound_behind(self, Py_ssize_t position)
    @cython.locals(waiting=list, order=list, best=list, starts=list, base=Profile, job=Job, position=Py_ssize_t, place=Py_ssize_t, count=Py_ssize_t, cheapest=double, price=double)
    cdef bint search(self, Job new) except -1
    @cython.locals(order=list, trial=Profile, job=Job, index=Py_ssize_t, price=double, now=double, start=double, since=double, rest=double)
    cdef double price_position(self, Py_ssize_t position, Job new, double cheapest) except? -1
