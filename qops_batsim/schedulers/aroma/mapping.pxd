cimport cython
from qops_batsim.schedulers.aroma.application cimport Application, SharedHost, Placement, Task
from qops_batsim.schedulers.aroma.recurrence cimport MappingPlan, Recurrence

cdef double INFINITY, PLAN_TOLERANCE, _SOONEST_LATER, SHORTEST_TASK

cdef class Mapper:
    cdef public object machine
    cdef public list hosts
    cdef public MappingPlan book
    cdef double memory_weight
    cdef Py_ssize_t revisions
    # what is being mapped
    cdef Placement placement
    cdef Py_ssize_t wanted
    cdef double deadline, sent, latest_start, before
    cdef list bandwidths
    @cython.locals(host=SharedHost, least=double, date=double, eligible=Py_ssize_t, placement=Placement, is_mapped=bint)
    cpdef Placement map(self, Application application, double after=*, double before=*)
    @cython.locals(host=SharedHost, flop=double, seconds=double, limit=double, eligible=Py_ssize_t, in_time=Py_ssize_t)
    cdef Py_ssize_t find_eligible(self, Application application) except -1
    @cython.locals(placement=Placement, now=double, found=double, end=double)
    cdef double next_date(self, double date) except? -1
    @cython.locals(host=SharedHost, latest_end=double)
    cdef bint map_shared(self, double date) except -1
    @cython.locals(host=SharedHost, placement=Placement, end=double, chosen=list)
    cdef bint try_hosts(self, double date, Py_ssize_t attempts) except -1
    @cython.locals(host=SharedHost, placement=Placement, task=Task, is_there=bint)
    cdef survey(self, double date)
    @cython.locals(host=SharedHost, placement=Placement, task=Task, end=double, latest=double, slack=double, lasting=double, crowd=Py_ssize_t)
    cdef mark_risks(self, double date, double latest_end)
    @cython.locals(placement=Placement, recurrence=Recurrence, blamed=Placement, where=SharedHost, task=Task, host=SharedHost, is_ruled_out=bint, longest=double)
    cdef bint rule_out(self) except -1
    @cython.locals(host=SharedHost, needs=set, lengths=list, chosen=list, network=double, added=double, found=double)
    cdef bint map_alone(self, double date) except -1
    @cython.locals(host=SharedHost, latest_end=double, need=double, length=double, found=Py_ssize_t)
    cdef double first_gap(self, double date, list lengths, double network) except? -1
    @cython.locals(host=SharedHost, placement=Placement, task=Task, gap=double)
    cdef find_gaps(self, double date)
    @cython.locals(host=SharedHost, memory=double, chosen=list, found=list)
    cdef list best_hosts(self, double date)
    @cython.locals(host=SharedHost, last=SharedHost, other=SharedHost, chosen=list, low=Py_ssize_t, high=Py_ssize_t, middle=Py_ssize_t)
    cdef list choose_apart(self)
    @cython.locals(host=SharedHost, best=SharedHost, slowest=list, chosen=list, worst=double, least=double, bandwidth=double, after=double, key=double, near=Py_ssize_t, group=Py_ssize_t)
    cdef list choose_near(self)
    @cython.locals(host=SharedHost, tasks=list, slowest=double, one=Py_ssize_t, other=Py_ssize_t)
    cpdef double network_seconds(self, list chosen) except? -1
    @cython.locals(slowest=double)
    cdef double longest_transfer(self) except? -1
    cdef place(self, double start, list chosen, double network)

@cython.locals(crowd=double)
cdef double crowded_seconds(SharedHost host, double need) except? -1
