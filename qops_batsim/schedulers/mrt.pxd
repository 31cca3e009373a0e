cimport cython
from qops_batsim.core.job cimport Job
from qops_batsim.core.job_sorting cimport sort_by_key
from qops_batsim.core.plan cimport Plan
from qops_batsim.core.profile cimport Profile
from qops_batsim.core.scheduler cimport ResourceManager
from qops_batsim.schedulers.deadline cimport DeadlineScheduler, lift, meets
from qops_batsim.schedulers.job_orders cimport key_in
from qops_batsim.timing cimport end_of

cdef double _INFINITY

cdef class Mrt(DeadlineScheduler):
    cdef int placing  # index in ORDERS
    cdef Py_ssize_t max_backtracks

    # The last search: its steps back, and the job whose deadline blocked it last
    cdef readonly Py_ssize_t backtracks
    cdef readonly Job blamed

    # Of unplaced jobs by rank: a time that is early enough, with spare processors beside the job
    cdef double[::1] fits_from, fits_until
    cdef long long[::1] spare

    cpdef begin(self, ResourceManager manager)
    cpdef try_admission(self, Job job)
    @cython.locals(order=list, tried=list, draft=Profile, rank=Py_ssize_t, job=Job, now=double, depth=Py_ssize_t, total=Py_ssize_t, place=Py_ssize_t)
    cdef bint search(self, Job new) except -1
    @cython.locals(order=list, draft=Profile, job=Job, start=double, end=double)
    cdef bint extend(self, Py_ssize_t depth, Py_ssize_t place) except -1
    @cython.locals(order=list, job=Job, place=Py_ssize_t, rank=Py_ssize_t)
    cdef bint is_one_late(self, Py_ssize_t first, double start, double end, Py_ssize_t taken) except -1
    @cython.locals(draft=Profile, duration=double, now=double, start=double, spare=Py_ssize_t, rank=Py_ssize_t)
    cdef bint find_time(self, Job job) except -1
