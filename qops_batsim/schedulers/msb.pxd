cimport cython
from qops_batsim.core.job cimport Job, tried_places
from qops_batsim.core.job_sorting cimport sort_by_key
from qops_batsim.core.plan cimport Plan
from qops_batsim.core.profile cimport Profile
from qops_batsim.core.scheduler cimport ResourceManager
from qops_batsim.schedulers.deadline cimport DeadlineScheduler, lift, meets
from qops_batsim.schedulers.job_orders cimport key_in
from qops_batsim.timing cimport end_of

cdef double _INFINITY, FOREVER, LEAST_SLACK

cdef class Msb(DeadlineScheduler):
    cdef int placing  # index in ORDERS: of the jobs behind a position
    cdef bint by_start
    cdef bint only_delays, is_fair  # what counts in a price

    # The search
    cdef Profile trial  # of the position being tried; the draft is that of the best one
    cdef double[::1] rates, gains  # by rank: price of a second of delay; least price of a move
    cdef double[::1] least  # by place in the order: lower bound of the price of all jobs behind it
    cdef Py_ssize_t following  # next position that can give another schedule

    cpdef begin(self, ResourceManager manager)
    cpdef try_admission(self, Job job)
    @cython.locals(rate=double, latest=double)
    cdef double rate_of(self, Job job) except? -1
    cdef double price_of(self, double delay, double rate) noexcept
    @cython.locals(waiting=list, rank=Py_ssize_t, job=Job, now=double, soonest=double)
    cdef bound_prices(self, Job new)
    @cython.locals(job=Job, last=Py_ssize_t, index=Py_ssize_t, rest=double)
    cdef bound_behind(self, Py_ssize_t position)
    @cython.locals(waiting=list, order=list, best=list, starts=list, places=list, base=Profile, job=Job, position=Py_ssize_t, place=Py_ssize_t, count=Py_ssize_t, now=double, cheapest=double, price=double)
    cdef bint search(self, Job new) except -1
    @cython.locals(order=list, trial=Profile, job=Job, index=Py_ssize_t, price=double, now=double, start=double, since=double)
    cdef double price_position(self, Py_ssize_t position, Job new, double cheapest) except? -1
