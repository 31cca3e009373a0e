cimport cython
from qops_batsim.core.job cimport Job
from qops_batsim.core.plan cimport Plan
from qops_batsim.core.profile cimport Profile
from qops_batsim.core.scheduler cimport ResourceManager
from qops_batsim.schedulers.qops cimport Qops
from qops_batsim.schedulers.queue cimport width_of
from qops_batsim.schedulers.restarting cimport RestartingQops

cdef double _INFINITY, _HOUR, _LARGE, _EXPOSED, _LONGEST_GAP
cdef Py_ssize_t _WIDTHS, _CLASSES

cdef class Urgent:
    cdef public double count, processors, seconds, worth
    cdef void fade(self, double kept) noexcept

cdef class Market:
    cdef double blocking, weight, urgent, placement_price, keep
    cdef bint by_charge
    cdef readonly double last_hour, span, jobs, measure, work
    cdef readonly list classes
    cdef readonly Py_ssize_t most
    cdef readonly double[::1] losses
    cdef double[::1] states, sums, loads, rates, lengths
    cdef double measure_of(self, Py_ssize_t processors, double duration, double left) noexcept
    cdef double worth_of(self, double measure) noexcept
    @cython.locals(measure=double, length=Py_ssize_t, width=Py_ssize_t, urgent=Urgent)
    cpdef learn(self, double now, Py_ssize_t processors, double duration, double left)
    @cython.locals(hour=double, hours=double)
    cdef bint is_new_hour(self, double now) except -1
    @cython.locals(kept=double, span=double, urgent=Urgent)
    cdef fade(self, Py_ssize_t hours)
    @cython.locals(index=Py_ssize_t)
    cdef Py_ssize_t class_of(self, double duration) noexcept
    @cython.locals(free=Py_ssize_t, length=Py_ssize_t)
    cdef set_prices(self)
    @cython.locals(width=Py_ssize_t, processors=Py_ssize_t, urgent=Urgent)
    cdef add_loads(self, Py_ssize_t length)
    @cython.locals(states="double[::1]", sums="double[::1]", row=Py_ssize_t, free=Py_ssize_t, processors=Py_ssize_t, state=Py_ssize_t, flow=double, lost=double, served=double)
    cdef set_losses(self, Py_ssize_t length)
    @cython.locals(row=Py_ssize_t, index=Py_ssize_t, left="long long", now="long long", without="long long", date=double, end=double, until=double, total=double)
    cpdef double displaced(self, Profile profile, double start, double duration, Py_ssize_t processors) except? -1
    @cython.locals(duration=double, row=Py_ssize_t, worth=double, exposed=double, enough=double, low=Py_ssize_t, high=Py_ssize_t, middle=Py_ssize_t)
    cpdef Py_ssize_t headroom_of(self, Job job, double now) except? -1

cdef class Foresight(RestartingQops):
    cdef double admission_price
    cdef readonly Market market
    cpdef begin(self, ResourceManager manager)
    @cython.locals(job=Job, now=double, market=Market)
    cdef leave_headroom(self, list line, Job new)
    @cython.locals(now=double)
    cpdef admit(self, Job job)
    @cython.locals(market=Market, left=double, cost=double, worth=double)
    cpdef try_admission(self, Job job)
    cpdef answer(self, Job job)
