cimport cython
from qops_batsim.core.job cimport Job

cdef double INFINITY, PLAN_TOLERANCE

cdef class SharedHost:
    cdef public Py_ssize_t index, group, processors
    cdef public double speed, memory
    cdef public bint available
    cdef public list tasks
    cdef public Py_ssize_t guests, lone_guests
    # of a prediction
    cdef public Py_ssize_t load, reached
    cdef public list users
    cdef public Placement alone
    # of a survey
    cdef public Py_ssize_t crowd
    cdef public double used, next_exclusive, release
    # of a choice
    cdef public double need, gap, release_after, weight, key
    cdef public bint is_eligible, is_risky, is_allowed, is_chosen

cdef class Task:
    cdef public Placement placement
    cdef public SharedHost host
    cdef public double need

cdef class Application:
    cdef public Job job
    cdef public str service_class
    cdef public object work, loss
    cdef public Py_ssize_t arrival, rank, tasks
    cdef public bint exclusive, known
    cdef public double deadline, latest_start, walltime, memory, first_end, broken
    cdef public list only_hosts, others
    @cython.locals(rest=Application)
    cpdef rest(self, str name, double left, double ran, list hosts)

cdef class Placement:
    cdef public Application application
    cdef public bint exclusive, running, runs
    cdef public double memory, start, end, latest_end, ordered, left, rate
    cdef public list tasks
    # of a prediction
    cdef public double to_do, pace, since, next_end, begins, predicted
    cdef public Py_ssize_t number, touched, place, reached
    @cython.locals(task=Task)
    cpdef list hosts(self)
    @cython.locals(longest=double, task=Task)
    cpdef double longest(self) except? -1
    @cython.locals(application=Application)
    cpdef double demanded_end(self) except? -1
    @cython.locals(task=Task)
    cpdef bint is_available(self) except -1
    @cython.locals(task=Task, each=Task)
    cpdef bint shares_host_with(self, Placement other) except -1
